//! Commands that speak to a server, by its HTTP API.
//!
//! - `connection`: which server, and as whom: flags, environment, contexts. `contexts`: the file
//!   that remembers servers. `context`: `indelible context`.
//! - `errors`: what a server refuses, or does not answer, in words for people.
//! - `target`: which execution is meant. `function`: which function. `name`: under which name it is
//!   called. `interrupt`: what is told to whoever presses Ctrl-C.
//! - `logs`: `indelible logs`.
//! - `confirm`: asking before something that cannot be taken back. `decision`: what `cancel`,
//!   `release` and `fail` are told alike.
//! - the others: a command each, or two that belong together.
//! - `views`: commands that look: `ps`, `show`, `tree`, `journal`.

pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod components;
mod confirm;
mod connection;
pub(crate) mod context;
mod contexts;
mod decision;
pub(crate) mod deploy;
mod errors;
mod function;
pub(crate) mod functions;
pub(crate) mod held;
mod interrupt;
pub(crate) mod logs;
mod name;
pub(crate) mod retention;
pub(crate) mod signal;
pub(crate) mod start;
mod target;
pub(crate) mod views;

pub(crate) use self::confirm::{Sure, confirm};
pub(crate) use self::connection::{Connection, Remote, Server};
pub(crate) use self::errors::Explained;
pub(crate) use self::target::{Target, target};
