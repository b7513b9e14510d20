//! `indelible unresolved` and `indelible resolve`: what is unknown, on a server or in a data folder
//! that no process has open.
//!
//! - `list`: shows it. `server`: asks a server. `folder`: opens the folder.

mod folder;
mod list;
mod server;

pub(crate) use self::list::Unresolved;

use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::print;
use crate::remote::{Confirmation, Connection, Target, confirm, target};

const HELP: &str = "\
An HTTP request that is not idem, and whose outcome is unknown, waits for a person if its function
asks for that; otherwise its execution is told Indeterminate and goes on, and the question stays
open. Check the other service, then record what happened. An execution that waits continues from
there; one that has gone on stays as it is, and the question is closed. The audit record keeps who
resolved it, and why. A question is settled once.

Examples:
  indelible unresolved
  indelible unresolved PROMISE
  indelible resolve PROMISE happened --status 201 --body '{\"id\":7}' --reason 'it is in their list'
  indelible resolve PROMISE did-not-happen --reason 'they never saw it'
  indelible resolve PROMISE run-again --reason 'they say that twice does no harm'
  indelible resolve PROMISE accept-unknown --reason 'written off: case 4711'";

/// Decide how an HTTP request with an unknown outcome ended
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Resolve {
    /// Which: `indelible unresolved` lists them; its first digits and its path are enough
    #[arg(value_parser = target)]
    promise: Target,
    #[command(subcommand)]
    how: How,
}

#[derive(Subcommand)]
enum How {
    /// It happened, with this response
    Happened {
        /// The status of the response; asked for on a terminal
        #[arg(long, value_parser = clap::value_parser!(u16).range(100..=999))]
        status: Option<u16>,
        /// The body of the response, '' for none; asked for on a terminal
        #[arg(long)]
        body: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// It did not happen
    DidNotHappen {
        #[command(flatten)]
        common: Common,
    },
    /// Send it again: it may happen twice
    RunAgain {
        #[command(flatten)]
        sure: Confirmation,
        #[command(flatten)]
        common: Common,
    },
    /// It cannot be found out: close the question
    AcceptUnknown {
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args)]
struct Common {
    /// Why: kept in the audit record
    #[arg(long)]
    reason: String,
    /// The attempt that this is about: refused if another one is in doubt by then
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// With --data: who resolves it, for the audit record; by default the name of the user
    #[arg(long)]
    actor: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ResolveTarget,
}

/// A server, or a data folder.
#[derive(Args)]
struct ResolveTarget {
    /// A data folder that no server has open, instead of a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "context", "namespace", "token_file"])]
    data: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

/// The outcome, in the words of the command.
enum OutcomeWord {
    Happened { status: u16, body: String },
    DidNotHappen,
    RunAgain,
    AcceptUnknown,
}

impl OutcomeWord {
    const fn word(&self) -> &'static str {
        match self {
            Self::Happened { .. } => "happened",
            Self::DidNotHappen => "did-not-happen",
            Self::RunAgain => "run-again",
            Self::AcceptUnknown => "accept-unknown",
        }
    }
}

#[derive(Serialize)]
struct ResolveDocument<'a> {
    promise: &'a str,
    resolution: &'a str,
}

impl Resolve {
    pub(crate) fn run(self, out: &mut impl Write) -> Result<(), Failure> {
        let (common, ended, sure) = match self.how {
            How::Happened { status, body, common } => (common, happened(status, body)?, None),
            How::DidNotHappen { common } => (common, OutcomeWord::DidNotHappen, None),
            How::RunAgain { sure, common } => (common, OutcomeWord::RunAgain, Some(sure)),
            How::AcceptUnknown { common } => (common, OutcomeWord::AcceptUnknown, None),
        };
        let sure = |what: &str| match &sure {
            Some(sure) => confirm(sure, || Ok(format!("send {what} again? It may happen twice"))),
            None => Ok(()),
        };
        let word = ended.word();
        let Common { reason, attempt, actor, json, place } = common;
        let decision = Decision { ended, attempt, reason };
        let promise = match (&place.data, actor) {
            (Some(data), actor) => folder::resolve(data, &self.promise, decision, actor, sure)?,
            (None, Some(_)) => {
                return Err(Failure::new(
                    "--actor cannot be used with a server, which takes the \
                     actor from the credential",
                )
                .hint("leave --actor out; it is only for --data")
                .exit(Exit::Usage));
            }
            (None, None) => server::resolve(&place.connection, &self.promise, &decision, sure)?,
        };
        let words = match &place.data {
            Some(_) => {
                "resolved; an execution that waits for it continues when a server runs again"
            }
            None => "resolved; an execution that waits for it continues",
        };
        let resolved = ResolveDocument { promise: &promise, resolution: word };
        print::done(resolved, words, json, out)
    }
}

/// What a person decides.
struct Decision {
    ended: OutcomeWord,
    attempt: Option<u32>,
    reason: String,
}

/// The response that the function gets. What was not given is asked for: a function that goes on
/// with an empty answer by mistake cannot be called back.
fn happened(status: Option<u16>, body: Option<String>) -> Result<OutcomeWord, Failure> {
    let asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !asked && (status.is_none() || body.is_none()) {
        return Err(Failure::new("the response is missing: the function continues with it")
            .hint("give --status and --body, as in --status 201 --body '{\"id\":7}'; nothing was sent")
            .exit(Exit::Usage));
    }
    let status = match status {
        Some(status) => status,
        None => {
            let text = answer("status of the response: ")?;
            let number = text.parse().ok().filter(|number| (100..=999).contains(number));
            number.ok_or_else(|| {
                Failure::new(format!("invalid status {text:?}: use a number from 100 to 999"))
                    .hint("nothing was sent")
            })?
        }
    };
    let body = match body {
        Some(body) => body,
        None => answer("body of the response, on one line: ")?,
    };
    Ok(OutcomeWord::Happened { status, body })
}

/// A line that the user types.
fn answer(question: &str) -> Result<String, Failure> {
    // If stderr is closed the question is not seen; the answer counts all the same.
    _ = write!(io::stderr(), "{question}");
    _ = io::stderr().flush();
    let mut text = String::new();
    let read = io::stdin().lock().read_line(&mut text);
    read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
