//! The binary `indelible`: reads its arguments, runs one command, says how it went.
//!
//! Data goes to stdout, everything else to stderr. It exits with 0 if all is well, 1 if not, 2 if
//! the arguments make no sense.

#![expect(clippy::disallowed_methods, reason = "the binary reads its environment, once, here")]

mod failure;
mod journal;

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::{Failure, Verdict};

/// How wide a drawing is when the terminal does not say.
const COLUMNS_DEFAULT: usize = 100;
/// Below this nothing can be drawn; above, bars only get longer.
const COLUMNS_RANGE: std::ops::RangeInclusive<usize> = 60..=400;

/// Durable execution: what is accepted takes effect once.
#[derive(Parser)]
#[command(name = "indelible", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read and check journals
    #[command(subcommand)]
    Journal(journal::Command),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok())
        .map_or(COLUMNS_DEFAULT, |columns: usize| {
            columns.clamp(*COLUMNS_RANGE.start(), *COLUMNS_RANGE.end())
        });
    let mut out = BufWriter::new(io::stdout().lock());
    let result = match arguments.command {
        Command::Journal(command) => journal::run(command, columns, &mut out),
    };
    // What was shown comes before what is wrong with it.
    let flushed = failure::quiet(out.flush());
    match result
        .and_then(|verdict| flushed.map(|()| verdict).map_err(|error| Failure::output(&error)))
    {
        Ok(Verdict::Well) => ExitCode::SUCCESS,
        Ok(Verdict::Wrong(failure)) | Err(failure) => {
            // Nobody is left to tell if stderr is closed too.
            _ = write!(io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}
