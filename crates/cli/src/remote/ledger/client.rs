//! `indelible ledger client`: how a client's stream stands.

use std::io::Write;

use clap::Args;
use indelible_client::api::ledger::ClientState;

use super::Place;
use crate::failure::Failure;
use crate::print::{self, plain};

const HELP: &str = "\
A client numbers its transactions, and the server applies each number once and in order. This shows
the last number that is committed, the attempt to send next, and with --sequence what the transaction
under a number was answered.

Examples:
  indelible ledger client till-1 --vault wallets
  indelible ledger client till-1 --vault wallets --sequence 12 --json";

/// Show how a client's stream stands: its last number, and its refusals
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Client {
    /// Which client id
    client: String,
    /// Also what the transaction under this number was answered
    #[arg(long, value_name = "N")]
    sequence: Option<u64>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Client {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (remote, ledger) = self.place.open()?;
        let state = remote.run(ledger.client_state(&self.client, self.sequence))?;
        if self.json {
            return print::object(state, out);
        }
        print::text(&page(&state, self.sequence), out)
    }
}

fn page(state: &ClientState, sequence: Option<u64>) -> String {
    let mut rows = vec![("client", state.client_id.0.to_string())];
    rows.extend(state.owner.clone().map(|owner| ("owner", owner)));
    rows.push(("last number", state.last_committed_sequence.to_string()));
    rows.extend(state.last.as_ref().map(|last| {
        ("", format!("height {}, {}, transaction {}", last.height, last.time.0, last.transaction.0))
    }));
    let next = state.next_attempt.map(|attempt| attempt.to_string());
    rows.push(("next attempt", next.unwrap_or_else(|| "none: take another client id".to_owned())));
    rows.extend(state.refused.as_ref().map(|refused| {
        let (attempt, number) = (refused.attempt, refused.sequence);
        ("refused", format!("attempt {attempt} of number {number}: {}", refused.code))
    }));
    rows.push(("restores", state.restores.to_string()));
    if let Some(number) = sequence {
        let receipt = state.receipt.as_ref().map(|receipt| {
            let (height, time, id) = (receipt.height, receipt.time.0, receipt.transaction.0);
            format!("height {height}, {time}, transaction {id}")
        });
        let none = format!("number {number} is not committed, or the log has forgotten it");
        rows.push(("receipt", receipt.unwrap_or(none)));
    }
    rows.iter().map(|(label, text)| format!("{label:12}  {}\n", plain(text))).collect()
}
