//! `indelible unresolved` and `indelible resolve`: effects whose outcome is unknown, of a server or
//! in a data folder that no process has open.
//!
//! - `server`: asks a server. `folder`: opens the folder.

mod folder;
mod server;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::print::{self, plain};
use crate::remote::{Confirmation, Connection, Target, confirm, target};

const HELP: &str = "\
An HTTP request whose outcome is unknown and that is not idem waits for a person if its function
asks for that. Check the other service, then record how the request ended; the execution continues
from there. The audit record keeps who resolved it, and why.

Examples:
  indelible unresolved
  indelible resolve PROMISE happened --status 201 --body '{\"id\":7}' --reason 'it is in their list'
  indelible resolve PROMISE did-not-happen --reason 'they never saw it'
  indelible resolve PROMISE run-again --reason 'they say that twice does no harm'";

/// List HTTP requests whose outcome is unknown
#[derive(Args)]
pub(crate) struct Unresolved {
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ResolveTarget,
}

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
        /// The status
        #[arg(long, value_parser = clap::value_parser!(u16).range(100..=999), default_value = "200")]
        status: u16,
        /// The body
        #[arg(long, default_value = "")]
        body: String,
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
}

#[derive(Args)]
struct Common {
    /// Why: kept in the audit record
    #[arg(long)]
    reason: String,
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

/// An effect, as it is listed.
#[derive(Serialize)]
struct Line {
    promise: String,
    execution: String,
    attempt: u32,
    since: String,
    label: String,
    why: String,
    state: &'static str,
}

/// A held effect waits for a person; otherwise its reconciler is being asked.
const fn state(held: bool) -> &'static str {
    if held { "held" } else { "asking" }
}

impl Line {
    fn write(&self, json: bool, out: &mut impl Write) -> Result<(), Failure> {
        print::part(if json { print::line(self)? } else { self.text() }, out)
    }

    fn text(&self) -> String {
        let [promise, since, label, why] =
            [&self.promise, &self.since, &self.label, &self.why].map(|text| plain(text));
        let state = match self.state == state(true) {
            true => "waits for a person",
            false => "its reconciler is being asked",
        };
        format!("{promise}\n  {since}  {state}  {label}\n  {why}\n")
    }
}

impl Unresolved {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let mut held = false;
        let mut write = |line: Line| {
            held |= line.state == state(true);
            line.write(self.json, out)
        };
        match &self.place.data {
            Some(folder) => folder::list(folder, &mut write)?,
            None => server::list(&self.place.connection, &mut write)?,
        }
        if held && !self.json {
            print::tell(
                "hint: check the other service, then record how it ended: `indelible resolve \
                 PROMISE happened|did-not-happen|run-again --reason TEXT`",
            );
        }
        Ok(())
    }
}

/// The outcome, in the words of the command.
enum OutcomeWord {
    Happened { status: u16, body: String },
    DidNotHappen,
    RunAgain,
}

impl OutcomeWord {
    const fn word(&self) -> &'static str {
        match self {
            Self::Happened { .. } => "happened",
            Self::DidNotHappen => "did-not-happen",
            Self::RunAgain => "run-again",
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
            How::Happened { status, body, common } => {
                (common, OutcomeWord::Happened { status, body }, None)
            }
            How::DidNotHappen { common } => (common, OutcomeWord::DidNotHappen, None),
            How::RunAgain { sure, common } => (common, OutcomeWord::RunAgain, Some(sure)),
        };
        let sure = |what: &str| match &sure {
            Some(sure) => confirm(sure, || Ok(format!("send {what} again? It may happen twice"))),
            None => Ok(()),
        };
        let word = ended.word();
        let promise = match (&common.place.data, common.actor) {
            (Some(data), actor) => {
                folder::resolve(data, &self.promise, ended, actor, &common.reason, sure)?
            }
            (None, Some(_)) => {
                return Err(Failure::new(
                    "--actor cannot be used with a server, which takes the \
                     actor from the credential",
                )
                .hint("leave --actor out; it is only for --data")
                .exit(Exit::Usage));
            }
            (None, None) => {
                let connection = &common.place.connection;
                server::resolve(connection, &self.promise, ended, &common.reason, sure)?
            }
        };
        let words = match &common.place.data {
            Some(_) => "resolved; its execution continues when a server runs again",
            None => "resolved; its execution continues",
        };
        let resolved = ResolveDocument { promise: &promise, resolution: word };
        print::done(resolved, words, common.json, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An effect is three lines, and nothing that a server sends moves the cursor.
    #[test]
    fn an_effect_is_harmless() {
        let hostile = || "\u{1b}[2J\n\u{202e}".to_owned();
        let line = Line {
            promise: hostile(),
            execution: hostile(),
            attempt: 1,
            since: hostile(),
            label: hostile(),
            why: hostile(),
            state: state(true),
        };
        let text = line.text();
        assert_eq!(text.lines().count(), 3);
        assert!(!text.replace('\n', "").contains(crate::text::rewrites), "{text:?}");
    }
}
