//! Trees of executions, as a machine: this crate decides what happens to them, and the host does
//! it.
//!
//! A [`Tree`] is a root and everything that it called, in memory as far as it is needed. It handles
//! one [`Input`] at a time, and guests ask it while they run. It puts out
//! [`Changes`](indelible_machine::Changes), [`Notice`]s, and guests to [run](guest::Run). A child's
//! end and its consequence for the caller are one change, and become one commit (D7).
//!
//! - `input`, `output`, `guest`: what a tree handles, and what it asks for.
//! - `context`: what it may look at.
//! - `commands`: inputs from outside. `work`: what is next.
//! - `calls`, `waits`: what guests ask for. `effects`: HTTP requests. `unresolved`, `reconcile`:
//!   effects whose outcome is unknown.
//! - `doubts`: what stays open of them. `policy`: when guests want something tried again, filled in
//!   and checked.
//! - `ending`, `retry`, `cancel`: how executions end. `volatile`: executions that are in memory
//!   alone.
//! - `duplicates`: what a repeated request meets. `operation`, `keys`, `audit`: the records that
//!   change with a tree.
//! - `load`, `changes`: from and to the store. `view`: what is shown.

mod audit;
mod calls;
mod cancel;
mod changes;
mod commands;
pub mod context;
mod doubts;
pub mod duplicates;
mod effects;
mod ending;
mod execution;
pub mod guest;
pub mod input;
pub mod keys;
mod load;
pub mod operation;
pub mod output;
pub mod policy;
mod reconcile;
mod retry;
pub mod shown;
mod tree;
mod unresolved;
mod unresolved_effect;
mod view;
mod volatile;
mod waits;
mod work;

pub use self::audit::{AUDIT_TEXT_BYTES_MAX, Actor, entry as audit_entry};
pub use self::calls::GuestCalls;
pub use self::context::{Context, Environment, Limits, Purpose};
pub use self::input::{Input, Reply, Request};
pub use self::load::LoadError;
pub use self::output::{Event, Notice, Outgoing};
pub use self::reconcile::NAMESPACE as RECONCILE_NAMESPACE;
pub use self::tree::Tree;
pub use self::unresolved_effect::UnresolvedEffect;
pub use self::view::TreeView;
