//! `indelible ledger get` and `indelible ledger history`: what is under keys, and what was.

use std::io::Write;

use clap::Args;
use indelible_client::api::ledger::{KeyedEntity, Version};

use super::Place;
use super::content::content;
use crate::failure::{Exit, Failure};
use crate::print::{self, plain};

/// The most entries on a page of the server.
const PAGE: u32 = 500;

const GET: &str = "\
Prints what the key holds: JSON and text as it is, an amount with its unit. With --prefix, a line for
each entity whose key begins so: the key, its version, and what it holds.

The version of an entity is the height of its last change: `set --if-version` takes it. --at asks how
it was at a height, as far back as the log is kept.

Examples:
  indelible ledger get ann --vault wallets
  indelible ledger get ann --vault wallets --at 12
  indelible ledger get --prefix orders/ --json";

/// Show what is under a key, or under keys that begin alike
#[derive(Args)]
#[command(after_long_help = GET)]
pub(crate) struct Get {
    /// Which key
    #[arg(required_unless_present = "prefix")]
    key: Option<String>,
    /// All keys that begin with this
    #[arg(long, value_name = "TEXT", conflicts_with = "key")]
    prefix: Option<String>,
    /// How it was at this height
    #[arg(long, value_name = "HEIGHT")]
    at: Option<u64>,
    /// Print a JSON object, with --prefix one for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Show what a key held, the newest first
#[derive(Args)]
pub(crate) struct History {
    /// Which key
    key: String,
    /// How many versions; 0 is all of them
    #[arg(long, value_name = "N", default_value = "20")]
    limit: u32,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Get {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (remote, ledger) = self.place.open()?;
        let Some(key) = &self.key else {
            let prefix = self.prefix.as_deref().unwrap_or_default();
            let mut pages = remote.asked(ledger.entities(prefix, self.at))?.limit(PAGE);
            while let Some(page) = remote.run(pages.next())? {
                for one in &page.entities {
                    let line = if self.json { print::line(one)? } else { line(one) };
                    print::part(line, out)?;
                }
            }
            return Ok(());
        };
        let found = remote.run(ledger.entity(key, self.at))?;
        if self.json {
            return print::object(found, out);
        }
        match found.entity {
            Some(entity) => print::text(&(print::lines(&content(&entity.is)) + "\n"), out),
            None => {
                let failure = Failure::new(format!(
                    "there is no entity under the key {key:?} at height {}",
                    found.height
                ));
                Err(failure
                    .hint("`indelible ledger get --prefix ''` lists all; `ledger history` what was")
                    .exit(Exit::Failed))
            }
        }
    }
}

fn line(one: &KeyedEntity) -> String {
    let KeyedEntity { key, entity } = one;
    format!("{}  {}  {}\n", plain(key.0.as_str()), entity.version, plain(&content(&entity.is)))
}

impl History {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (remote, ledger) = self.place.open()?;
        let mut left = if self.limit == 0 { u32::MAX } else { self.limit };
        let mut pages = remote.asked(ledger.history(&self.key))?.limit(left.min(PAGE));
        while left > 0
            && let Some(page) = remote.run(pages.next())?
        {
            for one in page.versions.iter().take(left as usize) {
                let line = if self.json { print::line(one)? } else { version(one) };
                print::part(line, out)?;
                left -= 1;
            }
        }
        Ok(())
    }
}

fn version(one: &Version) -> String {
    let held = one.entity.as_ref().map(|entity| content(&entity.is));
    format!("{}  {}\n", one.version, plain(&held.unwrap_or_else(|| "deleted".to_owned())))
}
