//! `indelible ledger export`: the log with its proofs.

use std::io::Write;

use clap::Args;

use super::Place;
use crate::failure::{Failure, stop_when_unread};
use crate::print;

const HELP: &str = "\
Writes JSON Lines to standard output: every transaction that the log has, with what proves it. The
last line says that nothing was cut off. `indelible ledger verify` checks it, on any machine and
without the server. The format is in docs/formats/ledger.md.

Examples:
  indelible ledger export --vault wallets > wallets.jsonl
  indelible ledger export --vault wallets | indelible ledger verify -";

/// Write the log with its proofs, for `ledger verify`
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Export {
    #[command(flatten)]
    place: Place,
}

impl Export {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (remote, ledger) = self.place.open()?;
        let mut export = remote.run(ledger.export())?;
        while let Some(bytes) = remote.run(export.next())? {
            print::part(bytes, out)?;
        }
        stop_when_unread(out.flush())
    }
}
