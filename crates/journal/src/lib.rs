//! The execution journal: an append-only record that fully describes an execution.
//!
//! Everything about an execution is derived from its events; nothing else is kept. The crate is
//! pure: it knows no clock, no I/O, no async, no storage and no WebAssembly. Time comes in as a
//! [`Timestamp`], and an [`Entry`] goes out for the engine to store.
//!
//! - [`ids`]: the place of a call in its tree.
//! - [`event`]: the 20 events. [`wait`], [`policy`], [`payload`], [`names`], [`time`]: their parts.
//! - [`status`]: the fold over events. [`TraceContext`], [`SpanId`]: the place of events in a
//!   trace.
//! - [`Journal`]: which event may follow, and the commands that append events.
//! - [`Replay`]: a guest's way through the recorded events.
//! - [`binary`]: the stored form. [`json`]: the exported form. [`Event::describe`]: a line for
//!   people.
//!
//! # An execution, written and recovered
//!
//! ```
//! use indelible_journal::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let component_digest = ComponentDigest::of(b"the component's bytes");
//! let operation = OperationKey {
//!     namespace: Namespace::new("shop")?,
//!     operation_id: OperationId::new("0198c0de-0000-7000-8000-000000000001")?,
//! };
//! let root = RootHash::derive(&component_digest, None, &operation);
//! let key = JournalKey::first(ExecutionId::root_of(root));
//! let now = Timestamp::EPOCH; // time is a value here, never a clock
//!
//! let (mut journal, started) = Journal::start(
//!     key.clone(),
//!     now,
//!     Started {
//!         component_digest,
//!         function_name: FunctionName::new("order")?,
//!         input: Payload::json("{}"),
//!         parent_id: None,
//!         idempotency_key: Some(operation),
//!         attempts: key.attempts().clone(),
//!         limits: Limits {
//!             memory_bytes_max: 64 << 20,
//!             stack_bytes_max: 1 << 20,
//!             table_elements_max: 10_000,
//!         },
//!         retry_policy: None,
//!         trace_parent: None,
//!     },
//! )?;
//!
//! // The guest calls a function. `Replay` says that this is new, so it is appended.
//! let mut guest = Replay::begin(&journal, &component_digest)?;
//! let (name, input) = (FunctionName::new("charge_card")?, Payload::json("500"));
//! let (promise, found) = guest.invoke(&journal, InvokeKind::Http, &name, &input)?;
//! assert_eq!(found, CallLookup::Absent);
//! let retry_policy = RetryPolicy::default().into();
//! let call = Invoke { kind: InvokeKind::Http, function_name: name, input, retry_policy };
//! let (_, scheduled) = journal.schedule_invoke(now, call)?;
//!
//! // An attempt is recorded before it leaves, and its outcome when it is known.
//! let (_, begun) = journal.start_invoke(now, &promise)?;
//! let done = journal.complete_invoke(now, &promise, Outcome::Ok(Payload::json("true")))?;
//!
//! // What cannot follow is refused, and leaves no trace.
//! assert_eq!(journal.start_invoke(now, &promise).unwrap_err().rule, Rule::SE4);
//!
//! // What a commit wrote is one row; what was stored is checked as if it were new.
//! let row = binary::encode(key.execution_id(), &[started, scheduled, begun, done])?;
//! let records = binary::decode(key.execution_id(), row.into())?;
//! assert_eq!(Journal::recover(key, records)?, journal);
//! # Ok(())
//! # }
//! ```

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
mod trace;
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
    Backoff, Durability, Idempotency, NO_ANSWER, OnUnknown, Reconciler, RetryBound, RetryCause,
    RetryClass, RetryPolicy, Statuses,
};
pub use replay::{
    AwaitResult, BeginError, CallLookup, Divergence, GuestMistake, NextResult, Replay, ReplayError,
    ReplayMatch,
};
pub use status::Status;
pub use time::{Micros, Timestamp};
pub use trace::{SpanId, TraceContext, TraceId};
pub use violation::{Rule, Violation};
pub use wait::{AwaitKind, Wait, WaitSet, WaitSetError};
