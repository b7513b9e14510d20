//! Commands that only look: at many executions, at one, at its tree, at its journal.
//!
//! - `ps`, `show`, `tree`, `journal`: the commands, which fetch. Pure modules draw: `list`, `page`
//!   (with `waits` and `steps`), `branches`.
//! - `story`: the steps of an execution, from its events. `frame`, `silence`: redrawing and asking
//!   again.
//! - `state`, `time`: states and times in words.

mod branches;
mod frame;
mod gone;
mod journal;
mod list;
mod page;
mod ps;
mod show;
mod silence;
mod state;
mod steps;
mod story;
pub(super) mod time;
mod tree;
mod waits;

use std::io::Write;

use indelible_journal::Timestamp;
use indelible_runtime::world::{Clock as _, System};
use serde::Serialize;

pub(crate) use self::journal::Journal;
pub(crate) use self::ps::Ps;
pub(crate) use self::show::Show;
pub(crate) use self::tree::Tree;
use crate::failure::{Failure, quiet};
use crate::print;

fn now() -> Timestamp {
    System.now()
}

fn print(lines: &[String], out: &mut impl Write) -> Result<(), Failure> {
    let written = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    quiet(written).map_err(|error| Failure::output(&error))
}

/// Prints one object over several lines.
fn print_json(document: &impl Serialize, out: &mut impl Write) -> Result<(), Failure> {
    quiet(print::pretty(document, out)).map_err(|error| Failure::output(&error))
}
