//! Guests: everything that knows wasmtime. Components are checked, compiled, loaded, started, run,
//! suspended and ended here; a [`Host`], which this module knows only as a trait, answers their
//! calls. This module knows no execution's journal, no store and no clock.
//!
//! - [`Guests`]: the engine and its pool; one for a process.
//! - [`Guests::deploy_check`]: whether bytes are a guest that can be run, and its functions: its
//!   [`Manifest`]. The parts of a component are bounded before it is compiled: see [`Bound`].
//! - [`Guests::load`]: a [`Program`], ready to be started any number of times. [`Artifacts`] save
//!   compiling it at every start of the server.
//! - [`Guests::start`]: a [`Guest`], which runs on the thread that calls [`Guest::resume`] until
//!   it waits, has used its time slice, or ends: a [`Stop`].
//!
//! A guest cannot cheat (D8): it has no clock, no randomness and no way out but the host, its
//! arithmetic is the same everywhere, and each limit that it can notice traps.

mod artifacts;
mod bounds;
mod compile;
mod compilers;
mod deploy;
mod failure;
mod guests;
pub mod host;
mod http;
mod imports;
mod inspect;
mod interface;
mod manifest;
mod options;
mod program;
mod run;
mod setup;
mod state;
mod wire;

pub use artifacts::Artifacts;
pub use bounds::{
    FAILURE_MESSAGE_BYTES_MAX, LOG_FIELDS_MAX, LOG_LINE_BYTES_MAX, PROMISES_AWAITED_MAX,
    RANDOM_BYTES_MAX,
};
pub use compile::{CompileLimits, Compiler, compile_for_parent};
pub use deploy::{AdmittedComponent, DeployError, Deployed};
pub use guests::{Guests, Readings, SetupError};
pub use host::{Context, Host, Level, Refusal, Settled, WaitRequest, WaitResult};
pub use inspect::{Bound, Excess};
pub use interface::{Misfit, Misfits};
pub use manifest::{FunctionSpec, MANIFEST_VERSION, Manifest, ManifestError};
pub use options::GuestOptions;
pub use program::{LoadError, Program};
pub use run::{Guest, StartError, Stop};
