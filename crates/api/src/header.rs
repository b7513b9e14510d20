//! The names of the headers that are particular to this API.

/// The caller's key for this request: asking again with it has no second effect (I).
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The caller's own id for an operation, a UUIDv7 (V).
pub const OPERATION_ID: &str = "indelible-operation-id";
/// What to do if the operation goes on already (see C-2): `attach` (unless said otherwise) or
/// `conflict`.
pub const IF_IN_FLIGHT: &str = "indelible-if-in-flight";
/// What a start learned: the words of [`Verdict`](crate::call::Verdict).
pub const VERDICT: &str = "indelible-verdict";
/// The whole id that an id in the path of a change stood for, which may have been its first digits.
pub const ID: &str = "indelible-id";
/// The trace that a request belongs to, as W3C has it.
pub const TRACE_PARENT: &str = "traceparent";
