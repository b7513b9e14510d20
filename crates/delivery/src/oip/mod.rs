//! The `oip` profile: the tables of the delivery specification, to the letter.

mod admission;
mod envelope;
mod error;
mod guarantee;

pub use admission::{Admission, AdmissionFacts, AdmissionRefusal, admit};
pub use envelope::{
    Atomicity, Attestation, Envelope, EnvelopeError, Header, PhaseTimeouts, ReissuedMessage,
    Routing,
};
pub use error::{Disposition, ErrorCode};
pub use guarantee::{
    Guarantee, GuaranteeError, HIGH_FREQUENCY_TTL_MIN, IdempotencyStrategy, MessageType, Priority,
    SourceKind, UNDER_ACTION_TTL_MIN, UnknownType, resolve_ttl, retry_window,
};
