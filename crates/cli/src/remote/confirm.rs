//! Asks before something that cannot be undone.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

use crate::failure::Failure;
use crate::print::plain;

/// Whether the user has confirmed on the command line.
#[derive(Args)]
pub(crate) struct Confirmation {
    /// Do not ask
    #[arg(long, short = 'y')]
    yes: bool,
}

/// Returns if the user says yes, on the command line or to the question. Without a terminal, only
/// `--yes` counts. The question is composed only if it is asked.
pub(crate) fn confirm(
    sure: &Confirmation,
    question: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    if sure.yes {
        return Ok(());
    }
    let question = plain(&question()?);
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new(format!("not confirmed: {question}"))
            .hint("confirm with --yes; nothing was done"));
    }
    let mut answer = String::new();
    // If stderr is closed the question is not seen; the answer counts all the same.
    _ = write!(io::stderr(), "{question} [y/N] ");
    _ = io::stderr().flush();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new("nothing was done")),
    }
}
