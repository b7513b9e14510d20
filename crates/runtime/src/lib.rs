//! The engine: runs users' functions, WebAssembly components, so that every step is journaled.
//!
//! A function that runs is an execution: a journal, and a guest that runs over it. What the guest
//! asks for is answered from the journal or appended to it; when it waits, it is parked, or
//! dropped and replayed later. A root and everything that it called are a tree, which is changed
//! as a whole. Nothing leaves the process before what it depends on is durable (D2).
//!
//! - [`Engine`]: what others use.
//! - [`guest`]: WebAssembly. Nothing else knows wasmtime.
//! - [`world`]: clock, randomness, and whom to tell: whatever a simulation replaces.
//! - `tree`: the heart: executions, their calls, their ends.
//! - `component`: what is deployed. `operation`: which request led to which execution.
//! - `turn`, `cell`, `run_queue`, `timers`, `watchers`, `parking`: trees, threads and time.

mod audit;
mod cell;
mod component;
mod engine;
pub mod guest;
mod operation;
mod options;
mod parking;
mod run_queue;
mod shared;
mod timers;
mod tree;
mod turn;
mod watchers;
pub mod world;

pub use audit::{AUDIT_TEXT_BYTES_MAX, Actor};
pub use component::{
    COMPONENT_NAME_BYTES_MAX, ComponentError, ComponentName, ComponentNameError, Version,
};
pub use engine::{
    ControlError, DeployRefused, Deployment, Engine, EngineError, OpenError, REASON_BYTES_MAX,
    Readings, Start, StartRefused, StartedExecution, World,
};
pub use options::{Options, Pace, Parking};
pub use tree::command::{Cancelling, NotDone};
