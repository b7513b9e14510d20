//! The engine: runs users' functions, WebAssembly components, so that every step is journaled.
//!
//! A function that runs is an execution: a journal, and a guest that runs over it. The guest's
//! calls are answered from the journal or appended to it; when the guest waits, it is parked, or
//! dropped and replayed later. A root execution and its children are a tree, which is changed as a
//! whole. Nothing leaves the process before what it depends on is durable (D2).
//!
//! ```no_run
//! use indelible_journal::{Namespace, OperationId, Payload};
//! use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
//! use indelible_runtime::{Attribution, Engine, Options, Start, World};
//! use indelible_store::embedded;
//!
//! # async fn example(component: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let store = embedded::open("data/store".as_ref(), &indelible_records::TABLES, &embedded::Options::default())?;
//! let guests = Guests::new(GuestOptions::default(), Artifacts::folder("data/artifacts")?)?;
//! let engine = Engine::open(store, Options::default(), World::system(guests))?;
//! engine.deploy("shop", component, Attribution::default()).await?;
//! let order = Start {
//!     namespace: Namespace::new("web")?,
//!     operation_id: Some(OperationId::new("order-1")?),
//!     idempotency_key: None,
//!     component: "shop".to_owned(),
//!     function: "order".to_owned(),
//!     input: Payload::json("{\"id\":1}"),
//!     trace_parent: None,
//!     actor: None,
//!     labels: indelible_records::labels::Labels::default(),
//! };
//! // Asked again with the same operation id, whatever happened: the same execution.
//! let (started, ending) = engine.call(order).await?;
//! println!("{}: {ending:?}", started.execution_id);
//! # Ok(()) }
//! ```
//!
//! - [`Engine`]: the interface of this crate.
//! - [`guest`]: WebAssembly. Nothing else knows wasmtime.
//! - [`world`]: clock, randomness, observer, witness: all that a simulation replaces.
//! - `hosted_tree`: a tree of executions in its place, and what the host does for it. What happens
//!   to a tree is decided in `indelible_execution`. `hosted`, `hosted_room`, [`rooms`]: the same
//!   for other machines. [`outbox`]: messages between machines.
//! - `component`: deployed components. `followers`: told when an execution changes.
//! - `turn`, `cell`, `command`, `guest_calls`, `run_queue`, `timers`, `ticks`, `watchers`,
//!   `parking`: trees, threads, time. `effects`, `effect_limiter`: what leaves them.
//! - `reader`: threads that read for clients. `admission`: bounds the commands under way.
//!   `key_locks`: one request under a key at a time. `recovery`: work that another process left.
//! - `replays`, `witness`: which execution killed a process.
//! - `end_counts`: how executions and attempts at effects ended, in numbers.
//! - `hold`: an engine that is open and lets nothing go on.
//! - `retention`, `retention_clock`: deleting what is past its time, and the clock that decides.

mod admission;
mod cell;
mod command;
mod component;
pub mod delivery;
mod effect_limiter;
mod effects;
mod end_counts;
mod engine;
mod followers;
pub mod guest;
mod guest_calls;
mod hold;
mod hosted;
mod hosted_room;
mod hosted_tree;
mod key_locks;
pub mod ledger;
mod options;
pub mod outbox;
mod parking;
mod reader;
mod recovery;
mod replays;
mod retention;
mod retention_clock;
pub mod rooms;
mod run_queue;
mod shared;
mod ticks;
mod timers;
mod trouble;
mod turn;
mod watchers;
mod witness;
pub mod world;

pub use component::{
    COMPONENT_NAME_BYTES_MAX, ComponentError, ComponentName, ComponentNameError, Version,
};
pub use end_counts::{
    BUCKETS_MS, COUNTED_FUNCTIONS_MAX, EndReadings, FunctionEnds, OTHER_FUNCTIONS, OUTCOMES,
};
pub use engine::{
    AUDIT_PAGE_MAX, Activation, Attribution, BreakingChange, ContractChange, ControlError, Count,
    DeployRefused, Deployment, EVENTS_PAGE_BYTES_MAX, EVENTS_PAGE_MAX, Engine, EngineError,
    EventsPage, IfBreaking, KeyUse, LaneRead, LiftOutcome, OpenError, PersonDecision,
    REASON_BYTES_MAX, Readings, Reads, Receipt, Start, StartRefused, StartedExecution, Submission,
    TREE_PAGE_MAX, TreePage, Verdict, World,
};
pub use followers::Follow;
pub use hold::Hold;
pub use indelible_execution::input::{CommandRefusal, Resolution};
pub use indelible_execution::shown::{
    GuestWait, Open, OperationView, PendingAttempt, Stage, View, WAITS_MAX, Waits,
};
pub use indelible_execution::{AUDIT_TEXT_BYTES_MAX, Actor, UnresolvedEffect};
pub use indelible_records::audit::{
    AuditPosition as AuditPlace, AuditSubject, Entry as AuditEntry,
};
pub use indelible_records::beginning::{IdPrefix, IdPrefixError};
/// What lists and views show of an execution, and how lists are asked for.
pub use indelible_records::executions::{Execution, Standing};
/// What a store on hold was restored from.
pub use indelible_records::hold::Restored;
pub use indelible_records::idempotency_keys::CancelOutcome;
pub use indelible_records::listing::{Cursor, CursorError, Filter, Listing};
/// How long finished trees are kept.
pub use indelible_records::retention::Retention;
/// What is wrong with an input.
pub use indelible_schema::Problem as InputProblem;
pub use options::{Opening, Options, Ownership, Pace, Parking, ParkingBounds};
pub use reader::{Lane, LaneReadings};
pub use retention::{GoneReadings, interval as retention_interval};
pub use retention_clock::RetentionTime;
pub use witness::{DiscardedFile, WitnessFile};
