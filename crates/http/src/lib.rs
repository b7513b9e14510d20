//! HTTP effects, as far as they are data: what a guest wants to be sent, what came back, and how
//! one attempt ended. Nothing here knows the network; that is the task of a [`Sender`].
//!
//! - [`Request`]: what is journaled before anything leaves. Secrets are named in it, never written.
//! - [`Response`]: what is journaled when it has arrived.
//! - [`Attempt`], [`End`], [`Sender`]: one attempt, and how it ended (D5).
//!
//! Both are stored in an encoding of their own, codec 6: `docs/formats/http.md`.

mod attempt;
mod bytes_format;
mod request;
mod response;

pub use attempt::{Attempt, End, NoNetwork, Report, Sender};
pub use bytes_format::Malformed;
pub use request::{HEADERS_MAX, Header, LABEL_BYTES_MAX, PARTS_MAX, Part, Request};
pub use response::{RETRY_AFTER_MAX, Response};
