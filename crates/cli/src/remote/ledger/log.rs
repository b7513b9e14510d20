//! `indelible ledger log` and `indelible ledger watch`: transactions, as they were and as they come.

use std::io::Write;

use clap::Args;
use indelible_client::api::ledger::LogEntry;

use super::Place;
use super::content::entry;
use crate::failure::{Failure, stop_when_unread};
use crate::print;
use crate::remote::errors::Explained as _;

/// The most transactions on a page of the server.
const PAGE: u32 = 200;

/// Show transactions, the oldest first
#[derive(Args)]
pub(crate) struct Log {
    /// From this height on
    #[arg(long, value_name = "HEIGHT", default_value = "1")]
    from: u64,
    /// How many; 0 is all of them
    #[arg(long, value_name = "N", default_value = "50")]
    limit: u32,
    /// Print a JSON object for each, with its proof
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

const WATCH: &str = "\
Each transaction is printed once and in order, also when the server is restarted meanwhile. --from
begins with earlier ones: a program that was stopped goes on with the height after the last one that
it has seen.

Examples:
  indelible ledger watch --vault wallets
  indelible ledger watch --vault wallets --from 13 --json";

/// Print transactions as they are committed
#[derive(Args)]
#[command(after_long_help = WATCH)]
pub(crate) struct Watch {
    /// From this height on; else those that are new
    #[arg(long, value_name = "HEIGHT")]
    from: Option<u64>,
    /// Print a JSON object for each, with its proof
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Log {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (remote, ledger) = self.place.open()?;
        let mut left = if self.limit == 0 { u32::MAX } else { self.limit };
        let mut pages = remote.asked(ledger.transactions(self.from))?.limit(left.min(PAGE));
        while left > 0
            && let Some(page) = remote.run(pages.next())?
        {
            for one in page.transactions.iter().take(left as usize) {
                write(one, self.json, out)?;
                left -= 1;
            }
        }
        Ok(())
    }
}

impl Watch {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (remote, ledger) = self.place.open()?;
        let above = match self.from {
            Some(from) => from.saturating_sub(1),
            None => remote.run(ledger.state(None))?.height,
        };
        let mut watch = remote.asked(ledger.watch(above))?;
        loop {
            // Without new transactions, no failing write would say that the reader is gone.
            let next = remote.wait(async {
                tokio::select! {
                    next = watch.next() => Some(next),
                    () = reader_gone() => None,
                }
            });
            match next {
                None | Some(None) => return Ok(()),
                Some(Some(Err(error))) => return Err(error.explain(&remote.at)),
                Some(Some(Ok(one))) => {
                    write(&one, self.json, out)?;
                    stop_when_unread(out.flush())?;
                }
            }
        }
    }
}

/// Ends when the reader of stdout is gone.
async fn reader_gone() {
    while !print::is_reader_gone().await {
        tokio::time::sleep(READER_INTERVAL).await;
    }
}

/// How often `watch` looks whether its reader is there.
const READER_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

fn write(one: &LogEntry, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let line = if json { print::line(one)? } else { entry(one) };
    print::part(line, out)
}
