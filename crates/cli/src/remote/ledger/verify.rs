//! `indelible ledger verify`: checks an export, without a server.
#![expect(clippy::disallowed_methods, reason = "it reads the file that was named")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::PathBuf;

use clap::Args;
use indelible_ledger::bounds::LINE_BYTES_MAX;
use indelible_ledger::export::{LineError, Verified, Verifier};
use indelible_ledger::{ChainHash, Height};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::print;
use crate::text::count;

const HELP: &str = "\
Reads an export of `indelible ledger export` line by line, and computes every hash again: a byte that
was changed anywhere is found, and so are lines that are missing, doubled or in another order. No
server is asked.

An export that was forged from its beginning verifies, too. So keep the head of the chain somewhere
else, now and then (`indelible vault show` prints it), and give it with --head: it must be the last
head of the export.

Exit codes:
  0    the export is whole and unchanged
  1    it is not: the first line that is wrong is named

Examples:
  indelible ledger verify wallets.jsonl
  indelible ledger verify wallets.jsonl --head 1877f0…";

/// Check an export: that no byte of it was changed, without a server
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Verify {
    /// The file; - is standard input
    file: PathBuf,
    /// The head of the chain that was kept elsewhere: it must be that of the export's end
    #[arg(long, value_name = "HASH")]
    head: Option<ChainHash>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Default, Serialize)]
struct Document {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vault: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_height: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_hash: Option<String>,
    /// The first line that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Why a file does not verify.
enum Fault {
    Unreadable(io::Error),
    Line(LineError),
}

impl Verify {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let name = self.file.display();
        let verified = match self.file.as_os_str() == "-" {
            true => verify(io::stdin().lock()),
            false => File::open(&self.file)
                .map_err(Fault::Unreadable)
                .and_then(|file| verify(BufReader::new(file))),
        };
        match verified {
            Err(Fault::Unreadable(error)) => {
                Err(Failure::new(format!("cannot read {name}: {error}"))
                    .hint("give a file of `indelible ledger export`, or - for standard input"))
            }
            Err(Fault::Line(fault)) => {
                if self.json {
                    print::object(Document::wrong(&fault), out)?;
                }
                Err(Failure::new(format!("{name}: {fault}"))
                    .hint("keep this file as it is; compare it with other copies, or export again"))
            }
            Ok(verified) => self.report(&verified, out),
        }
    }

    fn report(&self, verified: &Verified, out: &mut impl Write) -> Result<(), Failure> {
        let other = self.head.filter(|head| *head != verified.head);
        if self.json {
            print::object(Document::of(verified, other.is_none()), out)?;
        } else {
            print::text(&lines(verified), out)?;
        }
        match other {
            None => Ok(()),
            Some(_) => Err(Failure::new(format!(
                "the export ends with the head {}, not with the one that was given",
                verified.head
            ))
            .hint(
                "it is an export of another height or another vault, or it was forged from its \
                 beginning: compare the height at which the head was kept",
            )
            .exit(Exit::Failed)),
        }
    }
}

/// Reads one line after the other.
fn verify(mut file: impl BufRead) -> Result<Verified, Fault> {
    let mut verifier = Verifier::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        // One byte more than a line may have is enough to see that it is too long.
        let mut bounded = file.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        bounded.read_until(b'\n', &mut line).map_err(Fault::Unreadable)?;
        if line.is_empty() {
            return verifier.finish().map_err(Fault::Line);
        }
        verifier.line(&line).map_err(Fault::Line)?;
    }
}

fn lines(verified: &Verified) -> String {
    let Verified { start, transactions, height, head, state_hash } = verified;
    let from = match start.height {
        Height::ZERO => String::new(),
        from => format!(" above height {from}"),
    };
    format!(
        "verified    {}{from} of {}\nheight      {height}\nhead        {head}\nstate hash  \
         {state_hash}\n",
        count(*transactions, "transaction"),
        start.scope,
    )
}

impl Document {
    fn of(verified: &Verified, ok: bool) -> Self {
        let scope = &verified.start.scope;
        Self {
            ok,
            namespace: Some(scope.namespace.to_string()),
            vault: scope.vault.as_ref().map(ToString::to_string),
            transactions: Some(verified.transactions),
            from_height: Some(verified.start.height.get()),
            height: Some(verified.height.get()),
            head: Some(verified.head.to_string()),
            state_hash: Some(verified.state_hash.to_string()),
            ..Self::default()
        }
    }

    fn wrong(fault: &LineError) -> Self {
        let message = Some(fault.fault.to_string());
        Self { line: Some(fault.line), message, ..Self::default() }
    }
}
