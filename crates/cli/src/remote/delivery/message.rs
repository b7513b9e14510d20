//! `indelible message`: sends messages, and shows where they stand.

use std::io::Write;

use clap::{Args, Subcommand};
use indelible_client::{Identity, ToSend};
use serde_json::value::RawValue;

use super::words::{deliveries, message_page};
use super::{Limit, ask};
use crate::columns::{Cell, Column, lines};
use crate::failure::{Exit, Failure};
use crate::input::Input;
use crate::print::{self, plain};
use crate::remote::connection::Connection;
use crate::remote::errors::MayHaveArrived;
use crate::remote::name::flag;
use crate::remote::views::time::second;
use crate::screen::Screen;
use crate::text::count;

const SEND: &str = "\
A message goes to every endpoint of the namespace that wants its topic. When the command ends, the
message is durable, and so is to whom it goes; the same command, typed again, sends nothing. The body
is sent byte by byte as it is given here: JSON, or with --content-type anything.

Messages with one --lane are sent to an endpoint one at a time, in their order.

Examples:
  indelible message send order.created '{\"order\":7}' --key created-7 --lane order-7
  indelible message send order.created @order.json --key created-7
  indelible message send report.ready @report.csv --key report-3 --content-type text/csv";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Send a message to every endpoint that wants it
    #[command(after_long_help = SEND)]
    Send(Send),
    /// List messages, the newest first
    Ls(List),
    /// Show a message with its deliveries, and every attempt that failed
    Show(Show),
}

#[derive(Args)]
pub(crate) struct Send {
    /// What it is about, such as order.created; endpoints choose by it
    topic: String,
    /// Its body, as JSON; @FILE reads it from a file, - from standard input
    #[arg(default_value = "null")]
    body: Input,
    /// A key of yours for this message: repeating it under the same key sends nothing
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Send it after those that were sent before it in this lane
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
    /// How the body is to be read; the body need not be JSON then
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    limit: Limit,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Show {
    /// Its id: msg_…
    message: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(command: Command, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Send(send) => send.run(out),
        Command::Ls(list) => list.run(screen, out),
        Command::Show(show) => show.run(out),
    }
}

impl Send {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let body = self.read()?;
        let remote = self.connection.connect()?;
        let message = body.of(remote.client.message(&self.topic)).idempotency_key(&self.key);
        let message = match &self.lane {
            Some(lane) => message.lane(lane),
            None => message,
        };
        let message = match &self.content_type {
            Some(content_type) => message.content_type(content_type),
            None => message,
        };
        let mut is_riddle = false;
        let sent = ask(&remote, async {
            let sent = message.await;
            is_riddle = sent.as_ref().is_err_and(MayHaveArrived::may_have_arrived);
            sent
        });
        let accepted = match sent {
            Err(failure) if is_riddle => {
                let key = flag(&Identity::Key(self.key.clone()));
                return Err(failure.hint(format!(
                    "the message may have been accepted; send it again with {key}, and it is still \
                     one message"
                )));
            }
            accepted => accepted?,
        };
        if self.json {
            return print::object(accepted, out);
        }
        print::text(&format!("{}\n", accepted.message.0), out)?;
        let prior = if accepted.prior { "it was accepted before, and not again; " } else { "" };
        let words = match accepted.endpoints {
            0 => format!(
                "{prior}no endpoint wants it\nhint: `indelible endpoint ls` shows which topics they \
                 want"
            ),
            endpoints => format!("{prior}it goes to {}", count(endpoints, "endpoint")),
        };
        print::note(&words, out);
        Ok(())
    }

    fn read(&self) -> Result<Body, Failure> {
        if self.content_type.is_none() {
            return self.body.read().map(Body::Json).map_err(|failure| match failure.code() {
                2 => failure.hint(
                    "quote JSON for the shell: '{\"id\": 1}'; what is not JSON needs \
                     --content-type; nothing was sent",
                ),
                _ => failure.exit(Exit::Failed),
            });
        }
        let (_, bytes) = self.body.bytes()?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => Body::Text(text),
            Err(error) => Body::Bytes(error.into_bytes()),
        })
    }
}

/// The body of a message. All three are sent as they are.
enum Body {
    Json(Box<RawValue>),
    Text(String),
    Bytes(Vec<u8>),
}

impl Body {
    fn of(self, message: ToSend) -> ToSend {
        match self {
            Self::Json(json) => message.json(&json),
            Self::Text(text) => message.text(text),
            Self::Bytes(bytes) => message.bytes(bytes),
        }
    }
}

const COLUMNS: [Column; 5] = [
    Column::left("message"),
    Column::left("accepted"),
    Column::left("topic").or_narrow(10),
    Column::left("lane").or_narrow(8),
    Column::left("deliveries").or_narrow(12),
];

impl List {
    fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let mut rows = Vec::new();
        self.limit.each(&remote, remote.client.messages(), |message| {
            if self.json {
                return print::part(print::line(&message)?, out);
            }
            rows.push([
                Cell::new(message.message.0.to_string()),
                Cell::new(second(message.created_at.0)),
                Cell::new(plain(message.topic.0.as_str())),
                Cell::new(plain(message.lane_key.as_deref().unwrap_or_default())),
                Cell::new(deliveries(&message)),
            ]);
            Ok(())
        })?;
        if self.json {
            return Ok(());
        }
        if rows.is_empty() {
            print::tell("there are no messages\nhint: `indelible message send` sends one");
            return Ok(());
        }
        lines(&COLUMNS, &rows, screen)
            .iter()
            .try_for_each(|line| print::part(format!("{line}\n"), out))
    }
}

impl Show {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let message = ask(&remote, remote.client.message_info(&self.message))?;
        if self.json {
            return print::object(message, out);
        }
        print::text(&message_page(&message), out)
    }
}
