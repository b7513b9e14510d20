//! `indelible ledger`: transactions, and what is read of them.
//!
//! - `set`, `transact`: writing; `state_file`: where a client's number is kept.
//! - `read`: what is under keys, and their history. `log`: transactions, as they were and as they come;
//!   `client`: how a client's stream stands; `export`, `verify`: the proof.
//! - `content`: values, amounts and operations in words.

mod client;
mod content;
mod export;
mod log;
mod read;
mod set;
mod state_file;
mod transact;
mod verify;

use std::io::Write;

use clap::{Args, Subcommand};
pub(super) use content::failed;
use indelible_client::Ledger;
use indelible_client::api::ledger::Committed;

use super::connection::{Connection, Remote};
use crate::failure::Failure;
use crate::print;

#[derive(Subcommand)]
pub(crate) enum Command {
    Get(read::Get),
    Set(set::Set),
    Tx(transact::Transact),
    History(read::History),
    Log(log::Log),
    Watch(log::Watch),
    Client(client::Client),
    Export(export::Export),
    Verify(verify::Verify),
}

/// Which ledger.
#[derive(Args, Clone)]
struct Place {
    /// In which vault; else in the namespace's own ledger
    #[arg(long, value_name = "NAME")]
    vault: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Place {
    fn open(&self) -> Result<(Remote, Ledger), Failure> {
        let remote = self.connection.connect()?;
        let ledger = match &self.vault {
            Some(vault) => remote.client.vault(vault.as_str()),
            None => remote.client.ledger(),
        };
        Ok((remote, ledger))
    }
}

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Get(get) => get.run(out),
        Command::Set(set) => set.run(out),
        Command::Tx(transact) => transact.run(out),
        Command::History(history) => history.run(out),
        Command::Log(log) => log.run(out),
        Command::Watch(watch) => watch.run(out),
        Command::Client(client) => client.run(out),
        Command::Export(export) => export.run(out),
        Command::Verify(verify) => verify.run(out),
    }
}

/// Reports a transaction that is committed.
fn committed(committed: &Committed, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    print::done(committed, &content::committed(committed), json, out)
}
