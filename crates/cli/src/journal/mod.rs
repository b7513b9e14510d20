//! `indelible journal`: journals in files, in the format of `docs/formats/journal-jsonl.md`;
//! `remote::views` reads those of a server.
//!
//! - `input`: the file, line by line; the only module here that does I/O. `name`: the file's name
//!   in messages. `damage`: the unreadable lines.
//! - `verify`, `show`: the two commands. `checked`: one execution and its finding. `select`: which
//!   of several executions is meant.
//! - `table`, `spans` (with `kept`), `timeline`, `bars`, `document`: an execution as rows, as
//!   stretches of time, as bars, as JSON. Views of a server use them too.

pub(crate) mod bars;
mod checked;
mod damage;
mod document;
mod input;
pub(crate) mod kept;
mod name;
mod select;
mod show;
pub(crate) mod spans;
mod table;
pub(crate) mod timeline;
mod verify;

use std::io::Write;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

use indelible_journal::{JournalKey, Record};

use crate::failure::{CommandEnd, Failure};
use crate::remote::views::Journal;
use crate::screen::Screen;

const VERIFY_HELP: &str = "\
Verdicts:
  ok   legal and complete
  bad  breaks a rule; the rule, the line and the reason follow
  cut  legal up to a line that cannot be read; that line follows

Exit codes:
  0  every execution is ok, and every line could be read
  1  an execution is not ok, or a line or the file could not be read
  2  invalid arguments

Examples:
  indelible journal verify journal.jsonl
  zcat journal.jsonl.gz | indelible journal verify --json -";

const SHOW_HELP: &str = "\
--json prints the events of the table, each with its time and state. --timeline --json prints the
spans behind the bars, each with its states, in microseconds since the start.

Bars fill the terminal, or as many columns as the variable COLUMNS says, or else 100. On a terminal,
a table cuts its events so that rows fit; in a pipe it prints them whole.

Exit codes:
  0  the execution is legal and is shown, and every line of the file could be read
  1  the execution breaks a rule, a line could not be read, or there is nothing to show
  2  invalid arguments

Examples:
  indelible journal show journal.jsonl
  indelible journal show journal.jsonl --timeline --execution root.1
  indelible journal show - --json < journal.jsonl";

const HELP: &str = "\
Prints the events of an execution from its server, as a table or as bars over time. With --json it
prints JSON Lines, which `verify` and `show` read.

Examples:
  indelible journal last
  indelible journal 9c4f1a2b.0 --attempts 1.2 --timeline
  indelible journal 9c4f1a2b --json | indelible journal verify -";

/// Show the journal of an execution, or read and check journals in files
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_long_help = HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    at_server: Journal,
}

#[derive(Subcommand)]
enum Command {
    /// Check that journals are legal
    ///
    /// Every execution in the file is checked against all rules of the journal.
    #[command(after_long_help = VERIFY_HELP)]
    Verify(VerifyArguments),
    /// Show one execution, as a table of its events or as bars over time
    ///
    /// It is shown up to the first event that breaks a rule or cannot be read.
    #[command(after_long_help = SHOW_HELP)]
    Show(ShowArguments),
}

#[derive(Args)]
pub(crate) struct VerifyArguments {
    /// A file of JSON Lines, or - for standard input
    file: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// A file of JSON Lines, or - for standard input
    file: PathBuf,
    /// Which execution: its key, its id, or the beginning of one
    ///
    /// A key is printed in full (`9c4f…2b.1@1.1`) or short (`9c4f1a2b.1@1.1`). Also taken: an id
    /// without the attempts after the @, the beginning of either, fewer digits of the root, and
    /// `root.1` as tables print it, if only one tree in the file has it. The best fit is meant;
    /// needed only if the file holds several executions.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    execution: Option<String>,
    /// Draw bars over time instead of a table
    #[arg(long)]
    timeline: bool,
    /// Print the same as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(
    arguments: Arguments,
    screen: Screen,
    out: &mut impl Write,
) -> Result<CommandEnd, Failure> {
    match arguments.command {
        Some(Command::Verify(arguments)) => verify::run(&arguments, out),
        Some(Command::Show(arguments)) => show::run(arguments, screen, out),
        None => arguments.at_server.run(screen, out).map(|()| CommandEnd::Well),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// A row for each event.
    Table,
    /// Bars over time.
    Timeline,
}

/// Draws a journal that was not read from a file.
pub(crate) fn draw(
    key: &JournalKey,
    records: impl IntoIterator<Item = Record>,
    how: Drawing,
    screen: Screen,
    out: &mut impl Write,
) -> Result<(), Failure> {
    show::draw(key, records, how, screen, out)
}
