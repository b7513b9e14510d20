//! `indelible journal`: journals in files, in the format of `docs/formats/journal-jsonl.md`.
//!
//! - `input`: the file, line by line. The only one here that touches anything outside.
//! - `verify`, `show`: the two commands. `select`: which execution of many is meant.
//! - `table`, `spans`, `timeline`: an execution as rows, as stretches of time, as bars.
//! - `text`: numbers and names for people.

mod input;
mod select;
mod show;
mod spans;
mod table;
mod text;
mod timeline;
mod verify;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::{Failure, Verdict};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check that journals are legal
    ///
    /// Every execution in the file is checked against all rules of the journal. Exits with 0 if
    /// all are legal, with 1 if one is not or a line cannot be read.
    Verify(VerifyArguments),
    /// Show one execution, as a table of its events or as bars over time
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
    #[arg(long, value_name = "ID")]
    execution: Option<String>,
    /// Draw bars over time instead of a table
    #[arg(long)]
    timeline: bool,
    /// Print the same as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(
    command: Command,
    columns: usize,
    out: &mut impl Write,
) -> Result<Verdict, Failure> {
    match command {
        Command::Verify(arguments) => verify::run(&arguments, out),
        Command::Show(arguments) => show::run(arguments, columns, out),
    }
}
