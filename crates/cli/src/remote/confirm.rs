//! Asking before something that cannot be taken back.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

use crate::failure::Failure;
use crate::print::plain;

/// Whether somebody has said yes beforehand.
#[derive(Args)]
pub(crate) struct Sure {
    /// Do not ask
    #[arg(long, short = 'y')]
    yes: bool,
}

/// Goes on if a person says yes, here or beforehand. A program that does not say so beforehand is
/// refused: nobody would answer. The question is made up only if it is asked.
pub(crate) fn confirm(
    sure: &Sure,
    question: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    if sure.yes {
        return Ok(());
    }
    let question = plain(&question()?);
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new(format!("not confirmed: {question}"))
            .hint("--yes confirms it; nothing was done"));
    }
    let mut answer = String::new();
    // Nobody sees the question if stderr is closed; then the answer counts all the same.
    _ = write!(io::stderr(), "{question} [y/N] ");
    _ = io::stderr().flush();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new("nothing was done")),
    }
}
