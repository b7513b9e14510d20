//! Commands that look: at many executions, at one, at its tree, at its journal.
//!
//! - `ps`, `show`, `tree`, `journal`: the commands. They fetch; what they fetch is drawn by what is
//!   pure: `list`, `page` (with `waits` and `steps`), `branches`.
//! - `story`: the steps of an execution, from its events. `frame`, `silence`: drawing and
//!   asking again and again.
//! - `state`, `time`: words for how things stand, and when.
#![expect(clippy::disallowed_methods, reason = "how long ago something was depends on the clock")]

mod branches;
mod frame;
mod journal;
mod list;
mod page;
mod ps;
mod show;
mod silence;
mod state;
mod steps;
mod story;
mod time;
mod tree;
mod waits;

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use indelible_journal::Timestamp;
use serde::Serialize;

pub(crate) use self::journal::Journal;
pub(crate) use self::ps::Ps;
pub(crate) use self::show::Show;
pub(crate) use self::tree::Tree;
use crate::failure::{Failure, quiet};

/// The version of what `--json` prints, described in `docs/formats/cli-json.md`.
const JSON_VERSION: u32 = 1;

/// What time it is here.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
}

fn print(lines: &[String], out: &mut impl Write) -> Result<(), Failure> {
    let written = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    quiet(written).map_err(|error| Failure::output(&error))
}

/// One object, over several lines.
fn print_json(document: &impl Serialize, out: &mut impl Write) -> Result<(), Failure> {
    let written = serde_json::to_writer_pretty(&mut *out, document).map_err(std::io::Error::from);
    let written = written.and_then(|()| writeln!(out));
    quiet(written).map_err(|error| Failure::output(&error))
}
