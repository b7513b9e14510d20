//! The `oip` profile: the tables of the delivery specification, to the letter.

mod error;
mod guarantee;

pub use error::{Disposition, ErrorCode};
pub use guarantee::{
    Guarantee, GuaranteeError, HIGH_FREQUENCY_TTL_MIN, IdempotencyStrategy, MessageType, Priority,
    SourceKind, UNDER_ACTION_TTL_MIN, UnknownType, resolve_ttl, retry_window,
};
