//! The execution journal: an append-only record that fully describes an execution.
//!
//! Everything about an execution is derived from its events; nothing else is kept. The crate is
//! pure: it knows no clock, no I/O, no async, no storage and no WebAssembly. Time comes in as a
//! [`Timestamp`], and what goes out is an [`Entry`] for somebody else to write down.
//!
//! - [`ids`]: where a call stands in its tree.
//! - [`event`]: the 20 events. [`wait`], [`policy`], [`payload`], [`names`], [`time`]: their parts.
//! - [`status`]: the fold over them.
//! - [`Journal`]: what may follow what, and the commands that make it follow.
//! - [`Replay`]: a guest's way through what is recorded.

pub mod binary;
mod describe;
pub mod event;
pub mod ids;
mod journal;
pub mod json;
pub mod names;
pub mod payload;
pub mod policy;
mod replay;
pub mod status;
#[cfg(test)]
mod strategies;
pub mod time;
pub mod violation;
pub mod wait;

pub use event::{Category, Entry, Event, InvokeKind, Limits, Record, Sequence, Started};
pub use ids::{
    Attempt, Attempts, ComponentDigest, ExecutionId, IdError, JoinSetId, JournalKey, PromiseId,
    RootHash,
};
pub use journal::{
    Ending, Invoke, InvokePhase, Journal, NextAttemptError, OpenInvoke, OpenTimer, Waiting,
};
pub use names::{
    DeliveryId, FunctionName, NameError, Namespace, OperationId, OperationKey, SignalName,
    TraceParent,
};
pub use payload::{Codec, ErrorKind, Failure, Outcome, Payload};
pub use policy::{
    Backoff, Durability, Idempotency, OnUnknown, Reconciler, RetryBound, RetryCause, RetryClass,
    RetryPolicy, Statuses,
};
pub use replay::{
    Awaited, BeginError, Divergence, Found, Hopeless, Next, Recorded, Replay, WaitError,
};
pub use status::Status;
pub use time::{Micros, Timestamp};
pub use violation::{Rule, Violation};
pub use wait::{AwaitKind, Wait, WaitSet, WaitSetError};
