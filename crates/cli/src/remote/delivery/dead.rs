//! `indelible dead`: shows dead letters, and decides about them.

use std::io::Write;

use clap::{Args, Subcommand};
use indelible_client::api::delivery::{DeliveryDetail, DeliveryState, MessageDetail};

use super::words::{delivery, message_page};
use super::{Limit, ask, ask_once};
use crate::columns::{Cell, Column, lines};
use crate::failure::Failure;
use crate::print::{self, plain};
use crate::remote::connection::{Connection, Remote};
use crate::remote::views::time::second;
use crate::remote::{Confirmation, confirm};
use crate::screen::Screen;

const REDELIVER: &str = "\
The message is sent again under its id, with the attempts of its endpoint from the beginning. If it
may have arrived, a receiver that cannot tell repetitions by the header webhook-id would process it
twice: check there first. If it did not arrive, say so with --did-not-arrive.

Examples:
  indelible dead redeliver msg_0123456789abcdef0123456789abcdef01234567 partner \\
    --reason 'their server is back'";

const ABANDON: &str = "\
The message is not sent to the endpoint any more, and that is for good. If it blocks its lane, the
messages behind it go on.

Examples:
  indelible dead abandon msg_0123456789abcdef0123456789abcdef01234567 partner \\
    --reason 'they have entered it by hand'";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List dead letters, the newest message first
    Ls(List),
    /// Show a dead letter: its message, and every attempt that failed
    Show(Show),
    /// Send a dead letter again
    #[command(after_long_help = REDELIVER)]
    Redeliver(Redeliver),
    /// Give a dead letter up
    #[command(after_long_help = ABANDON)]
    Abandon(Abandon),
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    limit: Limit,
    /// Print a JSON object for each message
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Which dead letter.
#[derive(Args)]
struct DeadLetter {
    /// The id of its message: msg_…
    message: String,
    /// The endpoint that it was not delivered to
    endpoint: String,
}

#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    which: DeadLetter,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Redeliver {
    #[command(flatten)]
    which: DeadLetter,
    /// Why: kept in the audit record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// You know that it did not arrive
    #[arg(long)]
    did_not_arrive: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Abandon {
    #[command(flatten)]
    which: DeadLetter,
    /// Why: kept in the audit record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    sure: Confirmation,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(command: Command, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Ls(list) => list.run(screen, out),
        Command::Show(show) => show.run(out),
        Command::Redeliver(redeliver) => redeliver.run(out),
        Command::Abandon(abandon) => abandon.run(out),
    }
}

const COLUMNS: [Column; 6] = [
    Column::left("message"),
    Column::left("endpoint").or_narrow(10),
    Column::left("topic").or_narrow(10),
    Column::left("since"),
    Column::left("reason"),
    Column::left("may have arrived"),
];

impl List {
    fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let mut rows = Vec::new();
        self.limit.each(&remote, remote.client.dead_letters(), |message| {
            if self.json {
                return print::part(print::line(&message)?, out);
            }
            let is_dead = |one: &&DeliveryDetail| one.state == DeliveryState::Dead;
            rows.extend(message.deliveries.iter().filter(is_dead).map(|one| row(&message, one)));
            Ok(())
        })?;
        if self.json {
            return Ok(());
        }
        if rows.is_empty() {
            print::tell("there are no dead letters");
            return Ok(());
        }
        lines(&COLUMNS, &rows, screen)
            .iter()
            .try_for_each(|line| print::part(format!("{line}\n"), out))
    }
}

fn row(message: &MessageDetail, dead: &DeliveryDetail) -> [Cell; 6] {
    [
        Cell::new(message.message.0.to_string()),
        Cell::new(plain(dead.endpoint.0.as_str())),
        Cell::new(plain(message.topic.0.as_str())),
        Cell::new(dead.at.as_ref().map(|at| second(at.0)).unwrap_or_default()),
        Cell::new(plain(dead.reason.as_deref().unwrap_or_default())),
        Cell::new(if dead.may_have_arrived { "yes" } else { "no" }),
    ]
}

impl DeadLetter {
    /// Its message, with this delivery alone.
    fn fetch(&self, remote: &Remote) -> Result<MessageDetail, Failure> {
        let mut message = ask(remote, remote.client.message_info(&self.message))?;
        message.deliveries.retain(|one| one.endpoint.0.as_str() == self.endpoint);
        if message.deliveries.is_empty() {
            let (id, endpoint) = (message.message.0, &self.endpoint);
            return Err(Failure::new(format!(
                "message {id} does not go to an endpoint {endpoint}"
            ))
            .hint(format!("`indelible message show {id}` shows where it goes")));
        }
        Ok(message)
    }

    /// What to do if the answer to a decision is lost.
    fn look(&self) -> String {
        format!(
            "the decision may have been taken: `indelible message show {}` says how the delivery \
             stands",
            self.message
        )
    }
}

impl Show {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let message = self.which.fetch(&remote)?;
        if self.json {
            return print::object(message, out);
        }
        print::text(&message_page(&message), out)
    }
}

impl Redeliver {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let DeadLetter { message, endpoint } = &self.which;
        let decided = remote.client.redeliver(message, endpoint, &self.reason, self.did_not_arrive);
        let decided = ask_once(&remote, decided, &self.which.look())?;
        print::done(decided, &format!("the message is sent to {endpoint} again"), self.json, out)
    }
}

impl Abandon {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let DeadLetter { message, endpoint } = &self.which;
        let known = self.which.fetch(&remote)?;
        confirm(&self.sure, || {
            let stands = known.deliveries.first().map(delivery).unwrap_or_default();
            Ok(format!("abandon the message for {endpoint} ({stands})? It is never sent again"))
        })?;
        let decided = remote.client.abandon(message, endpoint, &self.reason);
        let decided = ask_once(&remote, decided, &self.which.look())?;
        let words = match decided.state {
            DeliveryState::Indeterminate => {
                format!("the message to {endpoint} was abandoned; it may have arrived")
            }
            _ => format!("the message to {endpoint} was abandoned; it has not arrived"),
        };
        print::done(decided, &words, self.json, out)
    }
}
