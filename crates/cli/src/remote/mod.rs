//! Commands that speak to a server, by its HTTP API.
//!
//! - `connection`: which server, and with which credential: flags, environment, contexts.
//!   `contexts`: the file of known servers. `context`: `indelible context`.
//! - `errors`: errors of a server, or its silence, in words for people.
//! - `target`: which execution is meant. `newest`: what `last` means. `function`: which function. `name`: the key of a call.
//!   `interrupt`: what Ctrl-C prints.
//! - `logs`: `indelible logs`.
//! - `vaults`, `ledger`: `indelible vault` and `indelible ledger`.
//! - `delivery`: `indelible endpoint`, `indelible message` and `indelible dead`.
//! - `confirm`: asks before something that cannot be undone. `decision`: the arguments that
//!   `cancel`, `release` and `fail` share.
//! - the others: a command each, or two that belong together.
//! - `views`: commands that only look: `ps`, `show`, `tree`, `journal`.

pub(crate) mod activate;
pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod components;
mod confirm;
mod connection;
pub(crate) mod context;
mod contexts;
mod decision;
pub(crate) mod delivery;
pub(crate) mod deploy;
mod errors;
mod function;
pub(crate) mod functions;
pub(crate) mod hold;
mod interrupt;
mod labels;
pub(crate) mod ledger;
pub(crate) mod logs;
mod name;
mod newest;
pub(crate) mod retention;
pub(crate) mod signal;
mod signature;
pub(crate) mod start;
pub(crate) mod stuck;
mod target;
pub(crate) mod vaults;
pub(crate) mod views;

pub(crate) use self::confirm::{Confirmation, confirm};
pub(crate) use self::connection::{Connection, Remote, Server};
pub(crate) use self::errors::Explained;
pub(crate) use self::target::{Target, target};
