//! `indelible ps`: the executions of a namespace, newest first.

use std::io::Write;

use clap::Args;
use indelible_client::api::execution::{Execution, State};
use indelible_client::{Error, Filter};
use indelible_journal::Timestamp;
use serde::Serialize;
use tokio::time::sleep;

use super::frame::{self, First, Frame, first};
use super::silence::Silence;
use super::state::state;
use super::time::{When, when};
use super::{list, now, print, print_json};
use crate::failure::Failure;
use crate::print::{VERSION, note};
use crate::remote::labels::{Label, label};
use crate::remote::{Connection, Remote};
use crate::screen::{Screen, Tone};

/// The most executions on a page of the server.
const PAGE_MAX: u32 = 500;

/// How many executions are redrawn: more than a terminal has lines, and still one page.
const WATCHED_MAX: u32 = 300;

const HELP: &str = "\
States: running, blocked (waits for something), cancelling, stuck (needs an operator's decision),
completed, failed, cancelled, indeterminate (it is unknown whether something that it did happened:
`indelible unresolved` lists what is still to be settled). `indelible show ID` shows more;
it takes the id as printed here.

Examples:
  indelible ps
  indelible ps --state failed,stuck --since 1d
  indelible ps --function order --watch
  indelible ps --label order=123 --namespace '*'
  indelible ps --json --limit 1000 | jq -r '.executions[].execution_id'";

/// List executions, newest first
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Ps {
    /// Only those in one of these states, with commas between
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<State>,
    /// Only those of this function: its name, without the component
    #[arg(long, value_name = "NAME", value_parser = function)]
    function: Option<String>,
    /// Only those with this label; repeated, with all of them
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<Label>,
    /// Only those whose last attempt was started since then: 45s, 30m, 2h or 7d ago, or a time as 2026-03-14T09:26:53Z
    #[arg(long, value_name = "TIME", value_parser = when)]
    since: Option<When>,
    /// Only those whose last attempt was started before then
    #[arg(long, value_name = "TIME", value_parser = when)]
    before: Option<When>,
    /// How many
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Draw the list again every second, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

fn function(text: &str) -> Result<String, String> {
    match text.rsplit_once('/') {
        None => Ok(text.to_owned()),
        Some((_, name)) => Err(format!("leave the component out: --function {name}")),
    }
}

/// What was found.
struct ExecutionPage {
    executions: Vec<Execution>,
    /// Whether there are more than were asked for.
    more: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    executions: &'a [Execution],
    more: bool,
}

impl Ps {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        if self.watch {
            frame::needs_terminal(screen)?;
        }
        if self.watch {
            let remote = self.connection.connect_to_draw()?;
            return self.watch(&remote, screen, out);
        }
        let remote = self.connection.connect_to_find()?;
        let ExecutionPage { executions, more } =
            remote.run(self.find(&remote, now(), self.limit))?;
        if self.json {
            print_json(&Document { v: VERSION, executions: &executions, more }, out)?;
        } else if !executions.is_empty() {
            print(&list::lines(&executions, now(), screen), out)?;
        }
        if let Some(text) = self.note(executions.len(), more) {
            note(&text, out);
        }
        Ok(())
    }

    async fn find(
        &self,
        remote: &Remote,
        now: Timestamp,
        limit: u32,
    ) -> Result<ExecutionPage, Error> {
        let wanted = limit as usize;
        // One more than wanted, to know whether there are more.
        let page = limit.saturating_add(1).min(PAGE_MAX);
        let filter = self.filter(remote.scope(), now);
        let mut pages = remote.client.executions(&filter)?.limit(page);
        let mut executions: Vec<Execution> = Vec::new();
        while executions.len() <= wanted
            && let Some(page) = pages.next().await?
        {
            // A page may be short, or empty, although more follow.
            executions.extend(page.executions);
        }
        let more = executions.len() > wanted;
        executions.truncate(wanted);
        Ok(ExecutionPage { executions, more })
    }

    fn filter(&self, scope: Filter, now: Timestamp) -> Filter {
        // Earlier attempts are left out: the last one has the execution's state.
        let mut filter = scope.latest_only();
        for Label { name, value } in &self.labels {
            filter = filter.label(name, value);
        }
        for state in &self.state {
            filter = filter.state(*state);
        }
        if let Some(function) = &self.function {
            filter = filter.function(function);
        }
        if let Some(since) = self.since {
            filter = filter.created_from(since.time(now).to_string());
        }
        if let Some(before) = self.before {
            filter = filter.created_before(before.time(now).to_string());
        }
        filter
    }

    fn is_filtered(&self) -> bool {
        !self.state.is_empty()
            || self.function.is_some()
            || !self.labels.is_empty()
            || self.since.is_some()
            || self.before.is_some()
    }

    /// What the table does not show: that it is empty or cut.
    fn note(&self, count: usize, more: bool) -> Option<String> {
        match (count, more) {
            (0, _) if self.is_filtered() => Some(
                "no executions match\nhint: `indelible ps` without a filter lists all".to_owned(),
            ),
            (0, _) => Some(
                "there are no executions yet\nhint: start one with `indelible call FUNCTION`, or \
                 choose another namespace with --namespace"
                    .to_owned(),
            ),
            (_, true) => Some(format!(
                "there are more than {count}\nhint: --limit {} shows more, --before older ones",
                count.saturating_mul(5)
            )),
            _ => None,
        }
    }

    /// Redraws the list. If the server is away for a while, it is waited for.
    fn watch(&self, remote: &Remote, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        let followed =
            remote.wait(first(tokio::signal::ctrl_c(), self.follow(remote, screen, out)));
        match followed {
            First::One(_) => Err(frame::interrupted()),
            First::Other(failure) => Err(failure),
        }
    }

    async fn follow(&self, remote: &Remote, screen: Screen, out: &mut impl Write) -> Failure {
        let mut frame = Frame::default();
        let mut found = ExecutionPage { executions: Vec::new(), more: false };
        let mut silence = Silence::default();
        let limit = self.limit.min(WATCHED_MAX);
        loop {
            match silence.ask(remote, self.find(remote, now(), limit)).await {
                Ok(fresh) => found = fresh.unwrap_or(found),
                Err(failure) => return failure,
            }
            let screen = frame::resized(screen);
            let lines = self.drawn(&found, &silence, screen);
            if let Err(failure) = frame.draw(lines, screen, out) {
                return failure;
            }
            sleep(frame::EVERY).await;
        }
    }

    fn drawn(&self, found: &ExecutionPage, silence: &Silence, screen: Screen) -> Vec<String> {
        let mut lines = match found.executions.is_empty() {
            true => vec!["no executions".to_owned()],
            false => list::lines(&found.executions, now(), screen),
        };
        if found.more {
            let more = format!("there are more than {}", found.executions.len());
            lines.push(screen.paint(Tone::Faint, &more));
        }
        lines.extend(silence.line(screen));
        lines
    }
}
