//! The transactions of a ledger, as they are committed.

use http::StatusCode;
use indelible_api::ledger::LogEntry;

use crate::error::{Error, Malformed};
use crate::ledger::Ledger;
use crate::watch::Watch;

/// Transactions above a height, from [`Ledger::watch`]. A connection that breaks is made again, and
/// goes on above the last height that was seen: each transaction comes once, and in order.
#[derive(Debug)]
pub struct LedgerWatch {
    watch: Watch,
    height: u64,
}

impl LedgerWatch {
    pub(crate) fn new(ledger: &Ledger, above: u64) -> Result<Self, Error> {
        let uri = ledger.uri(&["events"], Vec::new())?;
        let watch = Watch::new(ledger.client.clone(), uri).starting_after(above.to_string());
        Ok(Self { watch, height: above })
    }

    /// The height of the last transaction that was seen.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// The next transaction. After [`Error::Transport`] the next call goes on trying; after any other
    /// error there is none.
    ///
    /// Dropping the future loses no transaction.
    pub async fn next(&mut self) -> Option<Result<LogEntry, Error>> {
        let event = match self.watch.next().await? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        let read = serde_json::from_str::<LogEntry>(event.data.get());
        let entry = read.map_err(|error| error.to_string()).and_then(|entry| {
            let height = entry.transaction.height;
            match height == self.height + 1 {
                true => Ok(entry),
                false => Err(format!("height {height} follows height {}", self.height)),
            }
        });
        Some(match entry {
            Ok(entry) => {
                self.height += 1;
                Ok(entry)
            }
            Err(what) => {
                let what = format!("an event is not the next transaction: {what}");
                Err(Error::Malformed(Malformed { status: StatusCode::OK, what, identity: None }))
            }
        })
    }
}
