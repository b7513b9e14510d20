//! `indelible show`: one execution, for a person who wants to understand it.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use indelible_client::UnresolvedFilter;
use indelible_client::api::execution::{Detail, Execution};
use indelible_client::api::unresolved::Unresolved;
use indelible_client::{Error, Watch};
use indelible_journal::Event;
use tokio::time::{Instant, sleep_until, timeout};

use super::frame::{self, First, Frame, first};
use super::gone;
use super::page::{self, Subject};
use super::silence::{ANSWER, Silence};
use super::story::{Story, event};
use super::{now, print, print_json};
use crate::failure::Failure;
use crate::remote::errors::Explained as _;
use crate::remote::target::{Keyed, Target, target};
use crate::remote::{Connection, Remote};
use crate::screen::Screen;

/// How many events are asked for at a time.
const PAGE: u32 = 500;
/// How many earlier attempts are told of.
const EARLIER_MAX: usize = 3;
/// How long to wait for further events after one, to draw them together.
const TOGETHER: Duration = Duration::from_millis(100);

const HELP: &str = "\
EXECUTION is an id or the beginning of one (6 digits or more), as `indelible ps` prints it, or
`last` for the newest that you started from here; append .0.2 to name a descendant. An operation id,
or an idempotency key as key:KEY, names the execution that it led to.

Each step has a row: when it began, what it is (a call of a function, an HTTP request, a timer, a
signal, a join set), the id of the execution that it called, a bar over time, and how it ended:
  ✓  completed    ✗  failed    ?  outcome unknown    ⊘  cancelled
A long execution is shown with its first and last steps; `indelible journal` shows all.

Examples:
  indelible show last
  indelible show 9c4f1a2b --watch
  indelible show --key order-7
  indelible show 9c4f1a2b.0 --json | jq .waits_for";

/// Show one execution: how it stands, what it waits for, and its steps
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Show {
    /// Which execution
    #[arg(value_parser = target, required_unless_present = "key")]
    execution: Option<Target>,
    /// The one that was started under this idempotency key
    #[arg(long, value_name = "KEY", conflicts_with = "execution")]
    key: Option<String>,
    /// Draw it again as it goes on, until it is over
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print JSON, with input and result whole
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Show {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        if self.watch {
            frame::needs_terminal(screen)?;
        }
        let remote = match self.watch {
            true => self.connection.connect_to_draw()?,
            false => self.connection.connect_to_find()?,
        };
        let id = match self.named(&remote)? {
            Keyed::Execution(id) => id,
            Keyed::Gone(operation) => {
                return gone::show(&remote, &operation, self.json, screen, out);
            }
        };
        if self.watch {
            return watch(&remote, &id, screen, out);
        }
        let subject = remote.wait(subject(&remote, &id))?;
        match self.json {
            true => print_json(&page::document(&subject, now()), out),
            false => print(&page::lines(&subject, now(), screen), out),
        }
    }
}

impl Show {
    /// What the arguments name.
    fn named(&self, remote: &Remote) -> Result<Keyed, Failure> {
        let key = self.key.as_deref().or(self.execution.as_ref().and_then(Target::key));
        match (key, &self.execution) {
            (Some(key), _) => remote.keyed(key),
            (None, Some(execution)) => Ok(Keyed::Execution(remote.find(execution)?)),
            (None, None) => Err(Failure::new("give an execution, or a key with --key")),
        }
    }
}

/// The execution, and its steps up to the event that its state includes.
async fn subject(remote: &Remote, id: &str) -> Result<Subject, Failure> {
    let explained = |error: Error| error.explain(&remote.at);
    let detail = remote.client.execution(id).await.map_err(explained)?;
    let (events, attempts) = (detail.execution.events, detail.execution.attempts.as_str());
    let mut story: Option<Story> = None;
    // A volatile execution has no journal to read.
    if events > 0 {
        let mut pages = remote.client.journal(id, Some(attempts)).map_err(explained)?.limit(PAGE);
        while story.as_ref().is_none_or(|story| story.events < events)
            && let Some(page) = pages.next().await.map_err(explained)?
        {
            for line in &page.events {
                if story.as_ref().is_none_or(|story| story.events < events) {
                    story = take(story, line.get())?;
                }
            }
        }
    }
    let earlier = earlier(remote, &detail.execution).await.map_err(explained)?;
    let unknown = unknown(remote, &detail).await;
    Ok(Subject { detail, story, earlier, unknown })
}

/// What is unknown in the tree of this execution: in itself and what it called. A caller that may
/// not list it is shown the rest of the page.
async fn unknown(remote: &Remote, detail: &Detail) -> Vec<Unresolved> {
    let own = &detail.execution.execution_id;
    let filter = UnresolvedFilter::open().tree(own);
    let Ok(pages) = remote.client.unresolved(&filter) else { return Vec::new() };
    let Ok(Some(page)) = pages.limit(PAGE).next().await else { return Vec::new() };
    let called = format!("{own}.");
    let is_own = |execution: &str| execution == own || execution.starts_with(&called);
    page.unresolved.into_iter().filter(|listed| is_own(&listed.execution_id)).collect()
}

/// How the attempts before this one ended. A child's attempts are in its caller's journal, and
/// shown there; each attempt of a root has its own journal, whose last event says it.
async fn earlier(remote: &Remote, now: &Execution) -> Result<Vec<(String, String)>, Error> {
    let id = now.execution_id.as_str();
    if id.contains('.') || now.attempts == "1" {
        return Ok(Vec::new());
    }
    let page = remote.client.tree(id)?.limit(PAGE).next().await?;
    let all = page.into_iter().flat_map(|page| page.executions);
    let before: Vec<Execution> =
        all.filter(|one| one.execution_id == id && one.attempts != now.attempts).collect();
    let mut earlier = Vec::new();
    for one in &before[before.len().saturating_sub(EARLIER_MAX)..] {
        let last = one.events.saturating_sub(1).to_string();
        let mut pages = remote.client.journal(id, Some(&one.attempts))?.starting_at(last).limit(1);
        let page = pages.next().await?;
        let line = page.as_ref().and_then(|page| page.events.last());
        let ended = line.and_then(|line| ended(line.get()));
        earlier.push((one.attempts.clone(), ended.unwrap_or_else(|| "not known".to_owned())));
    }
    Ok(earlier)
}

fn ended(line: &str) -> Option<String> {
    match event(line).ok()?.1.event {
        Event::ExecutionFailed { error } => Some(error.to_string()),
        Event::ExecutionCancelled { reason } => Some(format!("cancelled: {reason}")),
        Event::ExecutionCompleted { .. } => Some("completed".to_owned()),
        _ => None,
    }
}

fn take(story: Option<Story>, text: &str) -> Result<Option<Story>, Failure> {
    let (key, record) = event(text).map_err(|error| super::journal::unreadable(&error))?;
    Ok(Story::take(story, key, &record))
}

fn watch(remote: &Remote, id: &str, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
    match remote.wait(first(tokio::signal::ctrl_c(), follow(remote, id, screen, out))) {
        First::One(_) => Err(frame::interrupted()),
        First::Other(followed) => followed,
    }
}

/// Draws the page after each event, and every second, because bars grow.
async fn follow(
    remote: &Remote,
    id: &str,
    screen: Screen,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let explained = |error: Error| error.explain(&remote.at);
    let mut frame = Frame::default();
    let detail = remote.client.execution(id).await.map_err(explained)?;
    let earlier_ones = earlier(remote, &detail.execution).await.map_err(explained)?;
    let mut subject = Subject { detail, story: None, earlier: earlier_ones, unknown: Vec::new() };
    let mut events = remote.client.watch(id).map_err(explained)?;
    let mut silence = Silence::default();
    let mut streams = true;
    loop {
        if let Some(detail) = silence.ask(remote, remote.client.execution(id)).await? {
            if detail.execution.attempts != subject.detail.execution.attempts {
                // Waits a bounded time: the page can do without earlier attempts.
                let found = timeout(ANSWER, earlier(remote, &detail.execution)).await;
                subject.earlier = found.ok().and_then(Result::ok).unwrap_or_default();
            }
            let found = timeout(ANSWER, unknown(remote, &detail)).await;
            subject.unknown = found.unwrap_or_default();
            subject.detail = detail;
        }
        let here = frame::resized(screen);
        let mut lines = page::lines(&subject, now(), here);
        if is_told(&subject.detail, subject.story.as_ref(), streams) {
            return frame.end(&lines, here, out);
        }
        lines.extend(silence.line(here));
        frame.draw(lines, here, out)?;
        streams = listen(&mut events, &mut subject.story, streams, remote).await?;
    }
}

/// Whether the execution is over and all its steps are drawn.
fn is_told(detail: &Detail, story: Option<&Story>, streams: bool) -> bool {
    let told = story.is_some_and(|story| story.events >= detail.execution.events);
    detail.execution.state.is_over() && (told || !streams)
}

/// Takes events until none comes for a moment, for a second at most. Returns whether more may come.
async fn listen(
    events: &mut Watch,
    story: &mut Option<Story>,
    streams: bool,
    remote: &Remote,
) -> Result<bool, Failure> {
    let end = Instant::now() + frame::EVERY;
    let mut until = end;
    loop {
        if !streams {
            sleep_until(end).await;
            return Ok(false);
        }
        match first(events.next(), sleep_until(until)).await {
            First::Other(()) => return Ok(true),
            First::One(None) => return Ok(false),
            First::One(Some(Ok(event))) => {
                *story = take(story.take(), event.data.get())?;
                until = end.min(Instant::now() + TOGETHER);
            }
            // The stream reconnects when it is polled again.
            First::One(Some(Err(Error::Transport(_)))) => {}
            First::One(Some(Err(error))) => return Err(error.explain(&remote.at)),
        }
    }
}
