//! `indelible vault`: makes vaults, lists them, and deletes them.

use std::io::Write;

use clap::{Args, Subcommand};
use indelible_client::api::ledger::{DeletedVault, Vault, VaultSettings};

use super::connection::Connection;
use super::views::time::{When, second, when};
use super::{Confirmation, confirm};
use crate::columns::{Cell, Column, lines};
use crate::failure::Failure;
use crate::print::{self, plain};
use crate::screen::Screen;
use crate::text::{count, duration};

/// The most vaults on a page of the server.
const PAGE: u32 = 200;

const CREATE: &str = "\
A vault holds entities, and the log of all transactions that changed them. Every namespace has a
ledger of its own that needs no making: `indelible ledger` without --vault.

A vault that is there already gets the settings that are given here. Its log is kept for good unless
--log-retention says for how long: what is older can then neither be read nor exported.

Examples:
  indelible vault create wallets
  indelible vault create wallets --log-retention 400d";

const RM: &str = "\
Deletes the vault with its entities and its log. Its name is free again only once repeated requests
to it can no longer come. Export the log first if it may be needed: `indelible ledger export`.

Examples:
  indelible ledger export --vault wallets > wallets.jsonl
  indelible vault rm wallets --reason 'moved to the new shop'";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a vault, or change the settings of one
    #[command(after_long_help = CREATE)]
    Create(Create),
    /// List the vaults of a namespace
    Ls(List),
    /// Show a vault: its height, the head of its chain, its settings
    Show(Show),
    /// Delete a vault with everything in it
    #[command(after_long_help = RM)]
    Rm(Remove),
}

#[derive(Args)]
pub(crate) struct Create {
    /// Its name: a-z, 0-9, - and _
    name: String,
    /// How long its log is kept: 45s, 30m, 2h or 400d; for good, if left out
    #[arg(long, value_name = "TIME", value_parser = age)]
    log_retention: Option<u64>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct List {
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Show {
    /// Which
    name: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Remove {
    /// Which
    name: String,
    /// Why: kept in the audit record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    sure: Confirmation,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// For clap: how long, in seconds.
fn age(text: &str) -> Result<u64, String> {
    match when(text) {
        Ok(When::Ago(micros)) if micros.get() >= 1_000_000 => Ok(micros.get() / 1_000_000),
        _ => Err("give a time as 45s, 30m, 2h or 400d".to_owned()),
    }
}

pub(crate) fn run(command: Command, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Create(create) => create.run(out),
        Command::Ls(list) => list.run(screen, out),
        Command::Show(show) => show.run(out),
        Command::Rm(remove) => remove.run(out),
    }
}

impl Create {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let settings = VaultSettings { log_retention_seconds: self.log_retention };
        let vault = remote.run(remote.client.put_vault(&self.name, &settings))?;
        let words = format!(
            "the vault {} is there; its log is kept {}",
            vault.vault.0,
            kept(vault.log_retention_seconds)
        );
        print::done(vault, &words, self.json, out)
    }
}

impl List {
    fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let mut pages = remote.asked(remote.client.vaults())?.limit(PAGE);
        let mut vaults = Vec::new();
        while let Some(page) = remote.run(pages.next())? {
            if self.json {
                page.vaults.iter().try_for_each(|vault| print::part(print::line(vault)?, out))?;
            } else {
                vaults.extend(page.vaults);
            }
        }
        if self.json {
            return Ok(());
        }
        if vaults.is_empty() {
            print::tell("there are no vaults\nhint: make one with `indelible vault create NAME`");
            return Ok(());
        }
        let rows: Vec<_> = vaults.iter().map(row).collect();
        lines(&COLUMNS, &rows, screen)
            .iter()
            .try_for_each(|line| print::part(format!("{line}\n"), out))
    }
}

const COLUMNS: [Column; 4] = [
    Column::left("vault").or_narrow(12),
    Column::right("height"),
    Column::left("last written"),
    Column::left("log"),
];

fn row(vault: &Vault) -> [Cell; 4] {
    let last = if vault.height == 0 { String::new() } else { second(vault.time.0) };
    [
        Cell::new(plain(vault.vault.0.as_str())),
        Cell::new(vault.height.to_string()),
        Cell::new(last),
        Cell::new(kept(vault.log_retention_seconds)),
    ]
}

fn kept(seconds: Option<u64>) -> String {
    match seconds {
        Some(seconds) => format!("for {}", duration(seconds.saturating_mul(1_000_000))),
        None => "for good".to_owned(),
    }
}

impl Show {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let vault = remote.run(remote.client.vault_info(&self.name))?;
        if self.json {
            return print::object(vault, out);
        }
        print::text(&page(&vault), out)
    }
}

fn page(vault: &Vault) -> String {
    let log = match vault.log_from {
        0 => kept(vault.log_retention_seconds),
        from => format!("{}; from height {} on", kept(vault.log_retention_seconds), from + 1),
    };
    format!(
        "vault        {}\nnamespace    {}\nheight       {}\nhead         {}\nstate hash   {}\n\
         incarnation  {}\nmade         {}\nlog kept     {log}\n",
        plain(vault.vault.0.as_str()),
        plain(&vault.namespace),
        vault.height,
        vault.head.0,
        vault.state_hash.0,
        vault.incarnation.0,
        second(vault.created_at.0),
    )
}

impl Remove {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let name = &self.name;
        // What is confirmed is what is deleted, and not another vault of the same name.
        let vault = remote.run(remote.client.vault_info(name))?;
        confirm(&self.sure, || {
            let transactions = count(vault.height, "transaction");
            Ok(format!("delete the vault {name} with all entities and {transactions}?"))
        })?;
        let incarnation = vault.incarnation.0.to_string();
        let deleted: DeletedVault =
            remote.run(remote.client.delete_vault(name, Some(&incarnation), &self.reason))?;
        let free_at = second(deleted.name_free_at.0);
        let words = format!("the vault {name} was deleted; its name is free at {free_at}");
        print::done(deleted, &words, self.json, out)
    }
}
