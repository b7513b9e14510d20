//! `indelible endpoint`: makes endpoints, shows them, enables, disables and deletes them, and gives
//! them other secrets.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use indelible_client::api::delivery::{
    EndpointDetail, EndpointSettings, LaneSettings, RotateSecret, ScheduleSettings, SecretText,
};
use indelible_journal::Micros;

use super::words::{breaker, endpoint_page, endpoint_state, topics};
use super::{ask, ask_once};
use crate::columns::{Cell, Column, lines};
use crate::failure::{Exit, Failure};
use crate::input::Input;
use crate::print::{self, plain};
use crate::remote::connection::Connection;
use crate::remote::views::time::{When, when};
use crate::remote::{Confirmation, confirm};
use crate::screen::Screen;

const PUT: &str = "\
Every message of the namespace is posted to the endpoint, or those of its topics: order.created,
order.* or *. A new endpoint gets a secret with which its messages are signed; the secret is printed,
this once. What is not given here has its default, also if the endpoint is there already; --settings
begins with a file instead, as `indelible endpoint show NAME --json` prints it under \"settings\".

An endpoint that cannot tell repetitions by the header webhook-id is made with --not-idem: then a
message that may have arrived becomes a dead letter, and is not sent again without a decision.

Examples:
  indelible endpoint put partner https://partner.example/hooks --topic 'order.*'
  indelible endpoint put printer https://printer.example/jobs --not-idem --in-flight 1
  indelible endpoint put partner --settings partner.json --schedule 5s,1m,1h --ttl 7d";

const RM: &str = "\
What is not delivered to the endpoint becomes dead letters, which then can only be abandoned. To let
messages wait, disable it instead.

Examples:
  indelible endpoint disable partner --reason 'moves on Monday'
  indelible endpoint rm partner --reason 'contract ended'";

const ROTATE: &str = "\
Messages are signed with the new secret from now on, and with the earlier ones, too, until --overlap
has passed: meanwhile, give the new one to the receiver. A secret that the server makes is printed,
this once. Of an Ed25519 key the receiver needs the public key, which is on standard error.

Examples:
  indelible endpoint rotate partner
  indelible endpoint rotate partner --ed25519 --overlap 7d
  indelible endpoint rotate partner --secret-file new-secret --overlap 1h";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make an endpoint, or give one other settings
    #[command(after_long_help = PUT)]
    Put(Box<Put>),
    /// List the endpoints of a namespace
    Ls(List),
    /// Show an endpoint: its settings, its circuit breaker, what waits for it
    Show(Show),
    /// Delete an endpoint: what is not delivered to it becomes dead letters
    #[command(after_long_help = RM)]
    Rm(Remove),
    /// Send messages to an endpoint again, at once
    Enable(Switch),
    /// Let messages to an endpoint wait
    Disable(Switch),
    /// Give an endpoint another secret
    #[command(after_long_help = ROTATE)]
    Rotate(Rotate),
}

/// What a dead letter does to the messages behind it in its lane.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnDeadLetter {
    /// They wait until it is decided
    Block,
    /// They overtake it
    Skip,
}

/// Waits between attempts, in seconds.
#[derive(Debug, Clone)]
struct Steps(Vec<u64>);

#[derive(Args)]
pub(crate) struct Put {
    /// Its name: a-z, 0-9, - and _
    name: String,
    /// Where messages are posted to
    #[arg(required_unless_present = "settings", value_name = "URL")]
    to: Option<String>,
    /// Which topics it gets, such as order.created or 'order.*'; may be repeated; all, if left out
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// It cannot tell repetitions: what may have arrived is not sent again without a decision
    #[arg(long)]
    not_idem: bool,
    /// How many attempts begin in a second at most
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// How many attempts are under way at most; 16, if left out
    #[arg(long, value_name = "N")]
    in_flight: Option<u32>,
    /// When a message is tried again, such as 5s,1m,1h, or none; ten attempts over 75 hours, if left
    /// out
    #[arg(long, value_name = "TIMES", value_parser = steps)]
    schedule: Option<Steps>,
    /// How long an attempt may take, such as 500ms or 20s, which it is if left out
    #[arg(long, value_name = "TIME", value_parser = length)]
    timeout: Option<Micros>,
    /// How long a message is of use, such as 7d; always, if left out
    #[arg(long, value_name = "TIME", value_parser = length)]
    ttl: Option<Micros>,
    /// What a dead letter does to the messages behind it in its lane; block, if left out
    #[arg(long, value_name = "WHAT")]
    on_dead_letter: Option<OnDeadLetter>,
    /// A file with settings as JSON, - for standard input; the other flags change what is in it
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
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
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    sure: Confirmation,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Switch {
    /// Which
    name: String,
    /// Why: kept in the audit record
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Rotate {
    /// Which
    name: String,
    /// A file with the new secret and nothing else; the server makes one, if left out
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Make an Ed25519 key (v1a) and not a shared secret (v1)
    #[arg(long, conflicts_with = "secret_file")]
    ed25519: bool,
    /// How long messages are signed with the earlier secrets, too; a day, if left out
    #[arg(long, value_name = "TIME", value_parser = length)]
    overlap: Option<Micros>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// For clap: a length of time.
fn length(text: &str) -> Result<Micros, String> {
    let millis = text.strip_suffix("ms").and_then(|number| number.parse::<u64>().ok());
    if let Some(millis) = millis {
        return Ok(Micros::new(millis.saturating_mul(1_000)));
    }
    match when(text) {
        Ok(When::Ago(micros)) => Ok(micros),
        _ => Err("give a time as 500ms, 45s, 30m, 2h or 7d".to_owned()),
    }
}

/// For clap: waits, with commas between them.
fn steps(text: &str) -> Result<Steps, String> {
    if text == "none" {
        return Ok(Steps(Vec::new()));
    }
    let step = |text: &str| match length(text.trim()).map(whole_seconds) {
        Ok(Some(seconds)) => Ok(seconds),
        _ => Err("give times as 5s,1m,1h, in whole seconds; or none".to_owned()),
    };
    text.split(',').map(step).collect::<Result<_, _>>().map(Steps)
}

fn whole_seconds(time: Micros) -> Option<u64> {
    time.get().is_multiple_of(1_000_000).then_some(time.get() / 1_000_000)
}

pub(crate) fn run(command: Command, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Put(put) => put.run(out),
        Command::Ls(list) => list.run(screen, out),
        Command::Show(show) => show.run(out),
        Command::Rm(remove) => remove.run(out),
        Command::Enable(switch) => switch.run(true, out),
        Command::Disable(switch) => switch.run(false, out),
        Command::Rotate(rotate) => rotate.run(out),
    }
}

impl Put {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let settings = self.settings()?;
        let remote = self.connection.connect()?;
        let look = "`indelible endpoint ls` says whether it was made; if so, `indelible endpoint \
                    rotate NAME` gives it a secret that you know";
        let put = ask_once(&remote, remote.client.put_endpoint(&self.name, &settings), look)?;
        if self.json {
            return print::object(put, out);
        }
        let name = &put.endpoint.endpoint.0;
        match &put.secret {
            None => print::tell(&format!("the endpoint {name} has these settings")),
            Some(secret) => {
                print::text(&format!("{}\n", secret.0), out)?;
                let words = format!(
                    "the endpoint {name} was made; its secret is shown only once: the receiver \
                     verifies messages with it"
                );
                print::note(&words, out);
            }
        }
        if !matches!(put.endpoint.state, indelible_client::api::delivery::EndpointState::Enabled) {
            print::tell(&format!(
                "it is {}\nhint: `indelible endpoint enable {name}` sends messages to it",
                endpoint_state(&put.endpoint)
            ));
        }
        Ok(())
    }

    fn settings(&self) -> Result<EndpointSettings, Failure> {
        let mut settings = match &self.settings {
            None => EndpointSettings::at(""),
            Some(file) => read(file)?,
        };
        if let Some(url) = &self.to {
            settings.url.clone_from(url);
        }
        if !self.topics.is_empty() {
            settings.topics.clone_from(&self.topics);
        }
        if self.not_idem {
            settings.idem = false;
        }
        settings.rate_per_second = self.rate.or(settings.rate_per_second);
        settings.in_flight_max = self.in_flight.unwrap_or(settings.in_flight_max);
        if let Some(Steps(steps)) = &self.schedule {
            settings.schedule = Some(ScheduleSettings::StepsSeconds(steps.clone()));
        }
        if let Some(timeout) = self.timeout {
            settings.attempt_timeout_ms = timeout.get() / 1_000;
        }
        if let Some(ttl) = self.ttl {
            settings.ttl_seconds = Some(ttl.get() / 1_000_000);
        }
        match self.on_dead_letter {
            Some(OnDeadLetter::Block) => settings.on_dead_letter = LaneSettings::Block,
            Some(OnDeadLetter::Skip) => settings.on_dead_letter = LaneSettings::Skip,
            None => {}
        }
        Ok(settings)
    }
}

/// The settings in a file. Those of another endpoint are a start for one with another name.
fn read(file: &std::path::Path) -> Result<EndpointSettings, Failure> {
    let input = if file.as_os_str() == "-" { Input::Stdin } else { Input::File(file.to_owned()) };
    let json = input.read()?;
    let settings = serde_json::from_str::<EndpointSettings>(json.get()).map_err(|error| {
        Failure::new(format!("{}: these are no settings of an endpoint: {error}", file.display()))
            .hint(
                "`indelible endpoint show NAME --json` prints settings, under \"settings\"; nothing \
                 was sent",
            )
            .exit(Exit::Usage)
    })?;
    Ok(EndpointSettings { name: String::new(), ..settings })
}

impl List {
    fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let endpoints = ask(&remote, remote.client.endpoints())?.endpoints;
        if self.json {
            return endpoints.iter().try_for_each(|one| print::part(print::line(one)?, out));
        }
        if endpoints.is_empty() {
            print::tell(
                "there are no endpoints\nhint: make one with `indelible endpoint put NAME URL`",
            );
            return Ok(());
        }
        let rows: Vec<_> = endpoints.iter().map(row).collect();
        lines(&COLUMNS, &rows, screen)
            .iter()
            .try_for_each(|line| print::part(format!("{line}\n"), out))
    }
}

const COLUMNS: [Column; 6] = [
    Column::left("endpoint").or_narrow(12),
    Column::left("state").or_narrow(8),
    Column::left("breaker"),
    Column::right("queued"),
    Column::left("topics").or_narrow(8),
    Column::left("url").or_narrow(12),
];

fn row(endpoint: &EndpointDetail) -> [Cell; 6] {
    [
        Cell::new(plain(endpoint.endpoint.0.as_str())),
        Cell::new(endpoint_state(endpoint)),
        Cell::new(breaker(endpoint)),
        Cell::new(endpoint.queued.to_string()),
        Cell::new(plain(&topics(endpoint))),
        Cell::new(plain(&endpoint.settings.url)),
    ]
}

impl Show {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let endpoint = ask(&remote, remote.client.endpoint(&self.name))?;
        if self.json {
            return print::object(endpoint, out);
        }
        print::text(&endpoint_page(&endpoint), out)
    }
}

impl Remove {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let name = &self.name;
        // A name that is not there is an error before a question about it.
        ask(&remote, remote.client.endpoint(name))?;
        confirm(&self.sure, || {
            Ok(format!(
                "delete the endpoint {name}? What is not delivered to it becomes dead letters"
            ))
        })?;
        let deleted = ask(&remote, remote.client.delete_endpoint(name, &self.reason))?;
        print::done(deleted, &format!("the endpoint {name} was deleted"), self.json, out)
    }
}

impl Switch {
    fn run(&self, on: bool, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect()?;
        let (client, name) = (&remote.client, &self.name);
        let (endpoint, words) = if on {
            let enabled = ask(&remote, client.enable_endpoint(name, &self.reason))?;
            (enabled, format!("messages are sent to the endpoint {name}"))
        } else {
            let disabled = ask(&remote, client.disable_endpoint(name, &self.reason))?;
            (disabled, format!("messages to the endpoint {name} wait"))
        };
        print::done(endpoint, &words, self.json, out)
    }
}

impl Rotate {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let secret = self.secret_file.as_ref().map(|file| {
            let (_, bytes) = Input::File(file.clone()).bytes()?;
            Ok(SecretText(String::from_utf8_lossy(&bytes).trim().to_owned()))
        });
        let rotation = RotateSecret {
            secret: secret.transpose()?,
            ed25519: self.ed25519,
            overlap_seconds: self.overlap.map(|overlap| overlap.get() / 1_000_000),
        };
        let remote = self.connection.connect()?;
        let look = "the secret may have been rotated: rotate it again; the overlap of the secret \
                    before it is not prolonged";
        let rotated = ask_once(&remote, remote.client.rotate_secret(&self.name, &rotation), look)?;
        if self.json {
            return print::object(rotated, out);
        }
        let name = &self.name;
        if let Some(secret) = &rotated.secret {
            print::text(&format!("{}\n", secret.0), out)?;
        }
        let once = if rotated.secret.is_some() { ", which is shown only once" } else { "" };
        let words = format!("messages to the endpoint {name} are signed with another secret{once}");
        print::note(&words, out);
        if let Some(key) = &rotated.public_key {
            print::tell(&format!("the receiver verifies them with the public key {key}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are read with their units, and a schedule in whole seconds.
    #[test]
    fn times() {
        assert_eq!(length("500ms"), Ok(Micros::new(500_000)));
        assert_eq!(length("20s"), Ok(Micros::from_secs(20)));
        assert_eq!(length("7d"), Ok(Micros::from_secs(7 * 86_400)));
        for bad in ["", "20", "s", "-1s", "2026-03-14T09:26:53Z", "1.5s"] {
            assert!(length(bad).is_err(), "{bad:?}");
        }
        assert_eq!(steps("5s,1m, 2h").unwrap().0, [5, 60, 7_200]);
        assert!(steps("none").unwrap().0.is_empty());
        for bad in ["", "5s,", "500ms", "5s;1m"] {
            assert!(steps(bad).is_err(), "{bad:?}");
        }
    }
}
