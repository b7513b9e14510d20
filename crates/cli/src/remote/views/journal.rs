//! `indelible journal EXECUTION`: the events of an execution that a server has.

use std::io::Write;

use clap::Args;
use indelible_journal::json::{ParseError, write_line};
use indelible_journal::{Attempts, JournalKey, Record};

use super::story::event;
use crate::failure::Failure;
use crate::journal::{Drawing, draw};
use crate::print::part;
use crate::remote::errors::Explained as _;
use crate::remote::target::{Target, target};
use crate::remote::{Connection, Remote};
use crate::screen::Screen;

/// How many events are asked for at a time.
const PAGE: u32 = 500;

/// The journal of an execution at a server.
#[derive(Args)]
pub(crate) struct Journal {
    /// Which execution of a server: its id, the beginning of one, or `last`
    // Optional only for the sake of the subcommands: without one of them it is required.
    #[arg(required = true, value_parser = target)]
    execution: Option<Target>,
    /// Of which attempt, from the root down: 2, or 1.2 for a child; the last, unless said
    #[arg(long, value_name = "N.N", value_parser = attempts)]
    attempts: Option<Attempts>,
    /// Draw bars over time instead of a table
    #[arg(long, conflicts_with = "json")]
    timeline: bool,
    /// Print JSON Lines, as `journal show` and `journal verify` read them
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

fn attempts(text: &str) -> Result<Attempts, String> {
    text.parse().map_err(|_| "give attempts as numbers with dots between, such as 1.2".to_owned())
}

impl Journal {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        let Some(execution) = &self.execution else {
            return Err(Failure::new("give an execution"));
        };
        let remote = self.connection.connect_to_find()?;
        let id = remote.find(execution)?;
        if self.json {
            let mut line = Vec::new();
            return self.each(&remote, &id, |key, record| {
                line.clear();
                write_line(&key, &record, &mut line);
                part(&line, out)
            });
        }
        let mut found: Option<(JournalKey, Vec<Record>)> = None;
        self.each(&remote, &id, |key, record| {
            found.get_or_insert_with(|| (key, Vec::new())).1.push(record);
            Ok(())
        })?;
        let how = if self.timeline { Drawing::Timeline } else { Drawing::Table };
        found.map_or(Ok(()), |(key, records)| draw(&key, records, how, screen, out))
    }

    fn each(
        &self,
        remote: &Remote,
        id: &str,
        mut take: impl FnMut(JournalKey, Record) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let attempts = self.attempts.as_ref().map(ToString::to_string);
        let pages = remote.client.journal(id, attempts.as_deref());
        let mut pages = pages.map_err(|error| error.explain(&remote.at))?.limit(PAGE);
        while let Some(page) = remote.run(pages.next())? {
            for line in &page.events {
                let (key, record) = event(line.get()).map_err(|error| unreadable(&error))?;
                take(key, record)?;
            }
        }
        Ok(())
    }
}

/// The error for an event of a kind that this version does not know.
pub(super) fn unreadable(error: &ParseError) -> Failure {
    Failure::new(format!("an event from the server cannot be read: {error}"))
        .hint("the server may be newer than this `indelible`: use the same version")
}
