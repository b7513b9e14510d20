//! Delivery (O): messages that arrive once, or stay visible until a person has decided.
//!
//! The crate is pure: it knows no clock, no I/O, no async, no storage and no randomness. Times,
//! random numbers and what is stored come in as values; what changes goes out as values.
//!
//! # A message on its way out
//!
//! 1. A [`Message`] has an [`Origin`], and its id is a hash of that. It is stored in the commit that
//!    causes it, with a [`Delivery`] for each [`Endpoint`] that [wants](Endpoint::wants) it.
//! 2. When [`lane::turn`], [`Breaker::admit`](breaker::Breaker::admit) and
//!    [`Pace::admit`](pace::Pace::admit) let it through, [`delivery::step`] begins an attempt. The
//!    attempt leaves once that is durable, with the headers of [`signing::standard`].
//! 3. How it ended goes into [`delivery::step`] again: it arrived, it waits, or it is dead.
//! 4. A dead one becomes an [`Entry`](dead::Entry), and [`dead::decide`] says what a person's signed
//!    decision does to it.
//!
//! # A message on its way in
//!
//! [`inbox`] verifies and remembers messages of other providers. An envelope of another server has
//! more checks, and [`oip::admit`] has their order.

pub mod attempt;
pub mod bounds;
pub mod breaker;
mod bytes;
pub mod dead;
pub mod delivery;
mod endpoint;
mod ids;
pub mod inbox;
pub mod lane;
mod message;
mod names;
pub mod oip;
pub mod pace;
pub mod schedule;
pub mod signing;

pub use bytes::Malformed;
pub use delivery::Delivery;
pub use endpoint::{
    BackoffSettings, BreakerSettings, Disabled, Endpoint, EndpointSettings, EndpointState,
    EndpointUrl, FieldFilter, FieldSettings, LaneSettings, ScheduleSettings, SecretText,
    SettingsError, SigningSecret, Subscription, TopicPattern, UrlError,
};
pub use ids::{ContentHash, EntryId, IdError, MessageId};
pub use message::{BodyTooLarge, Message, Origin};
pub use names::{
    ContentType, EndpointName, ForeignId, LaneKey, Maker, NameError, SourceName, Topic,
};
