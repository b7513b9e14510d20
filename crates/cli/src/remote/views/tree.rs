//! `indelible tree`: an execution and everything that it called.

use std::io::{self, Write};

use clap::Args;
use indelible_client::api::execution::Execution;

use super::{branches, now, print};
use crate::failure::{Failure, stop_when_unread};
use crate::print::{VERSION, note, part};
use crate::remote::errors::Explained as _;
use crate::remote::target::{Target, target};
use crate::remote::{Connection, Remote};
use crate::screen::Screen;

/// How many executions to request at a time.
const PAGE: u32 = 500;
/// How many executions are drawn: a longer tree would not be readable.
const DRAWN_MAX: usize = 2_000;

const HELP: &str = "\
EXECUTION is an id or the beginning of one (6 digits or more), as `indelible ps` prints it, or
`last` for the newest that you started from here; append .0.2 to start at a descendant.

Each row shows a call's function, id, state and duration. A call with several attempts has a row for
each attempt, with the calls that the attempt made below it.

Examples:
  indelible tree last
  indelible tree 9c4f1a2b.0 --json";

/// Show everything that an execution called, as a tree
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Tree {
    /// Which execution
    #[arg(value_parser = target)]
    execution: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Tree {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect_to_find()?;
        let id = remote.find(&self.execution)?;
        if self.json {
            return json(&remote, &id, out);
        }
        let mut drawn = Vec::new();
        let mut count = 0_usize;
        each(&remote, &id, |execution| {
            count += 1;
            if drawn.len() < DRAWN_MAX {
                drawn.push(execution);
            }
            Ok(())
        })?;
        print(&branches::lines(&drawn, now(), screen), out)?;
        if let Some(more @ 1..) = count.checked_sub(drawn.len()) {
            note(&format!("… and {more} more calls\nhint: --json prints all of them"), out);
        }
        Ok(())
    }
}

/// Calls `take` with each execution at or below `id`, in the order of ids. Fails if `id` is
/// unknown.
fn each(
    remote: &Remote,
    id: &str,
    mut take: impl FnMut(Execution) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // The server returns the tree even if this execution is not in it, so check that first.
    remote.run(remote.client.execution(id))?;
    let pages = remote.client.tree(id).map_err(|error| error.explain(&remote.at))?;
    let mut pages = pages.limit(PAGE);
    let below = format!("{id}.");
    while let Some(page) = remote.run(pages.next())? {
        for execution in page.executions {
            if execution.execution_id == id || execution.execution_id.starts_with(&below) {
                take(execution)?;
            }
        }
    }
    Ok(())
}

/// Prints one object; its executions are written as they arrive, one a line.
fn json(remote: &Remote, id: &str, out: &mut impl Write) -> Result<(), Failure> {
    let mut first = true;
    part(format!("{{\"v\": {VERSION}, \"executions\": ["), out)?;
    each(remote, id, |execution| {
        let comma = if std::mem::take(&mut first) { "\n" } else { ",\n" };
        let line = serde_json::to_string(&execution).map_err(io::Error::from);
        stop_when_unread(line.and_then(|line| write!(out, "{comma}{line}")))
    })?;
    part("\n]}\n", out)
}
