//! `indelible unresolved`: every open question, and the evidence for one.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write;

use clap::{Args, ValueEnum};
use indelible_client::UnresolvedFilter;
use indelible_client::api::unresolved::{
    Excerpt, Finding, Settled, Unresolved as Listed, UnresolvedDetail, UnresolvedState,
};

use super::{ResolveTarget, folder, server};
use crate::failure::{Exit, Failure, stop_when_unread};
use crate::print::{self, plain};
use crate::remote::{Target, target};
use crate::text::one_line;

const HELP: &str = "\
Lists what may or may not have happened: HTTP requests and volatile calls whose outcome is unknown,
in all namespaces that the credential permits, the oldest first. It shows what waits for a person,
what a reconciler is being asked about, and what ended as Indeterminate and was never settled, also
if its execution has gone on, was cancelled or is deleted.

With PROMISE it shows the evidence: the request as it was sent, the Idempotency-Key that the other
side got, all attempts, and the input. Secrets stand there by name.

Examples:
  indelible unresolved
  indelible unresolved --host payments.example.com --since 2026-03-14T00:00:00Z
  indelible unresolved 9c4f1a2b.0.2
  indelible unresolved --follow --json";

/// List what is unknown: HTTP requests and calls that may or may not have happened
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Unresolved {
    /// Show the evidence for this one
    #[arg(value_parser = target, conflicts_with_all = ["all", "state", "function", "host", "since", "before", "follow"])]
    promise: Option<Target>,
    /// Also list what is settled, behind the rest
    #[arg(long)]
    all: bool,
    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<StateArgument>,
    /// Only those of this function
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Only requests to this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only those that arose at this time or later, RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only those that arose before this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// Keep printing new ones
    #[arg(long, short)]
    follow: bool,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ResolveTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateArgument {
    /// Waits for a person
    Held,
    /// Its reconciler is being asked
    Asking,
    /// Ended as Indeterminate
    Ended,
    /// Settled
    Settled,
}

impl StateArgument {
    fn state(self) -> UnresolvedState {
        match self {
            Self::Held => UnresolvedState::Held,
            Self::Asking => UnresolvedState::Asking,
            Self::Ended => UnresolvedState::Ended,
            Self::Settled => UnresolvedState::Settled,
        }
    }
}

impl Unresolved {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        if let Some(promise) = &self.promise {
            let detail = match &self.place.data {
                Some(folder) => folder::detail(folder, promise)?,
                None => server::detail(&self.place.connection, promise)?,
            };
            let text = if self.json { print::line(&detail)? } else { evidence(&detail) };
            return print::part(text, out);
        }
        let filter = self.filter();
        let mut seen = HashSet::new();
        let mut is_open = false;
        let mut write = |listed: Listed| {
            // `--follow` asks for some again.
            if !seen.insert((listed.promise_id.clone(), listed.attempts.clone(), listed.attempt)) {
                return Ok(());
            }
            is_open |= listed.state != UnresolvedState::Settled;
            print::part(if self.json { print::line(&listed)? } else { text(&listed) }, out)?;
            // The next one may come in a week.
            if self.follow { stop_when_unread(out.flush()) } else { Ok(()) }
        };
        let namespace = match &self.place.data {
            Some(_) if self.follow => {
                return Err(Failure::new("--follow needs a server").exit(Exit::Usage));
            }
            Some(folder) => {
                folder::list(folder, self, &mut write)?;
                None
            }
            None => server::list(&self.place.connection, &filter, self.follow, &mut write)?,
        };
        if seen.is_empty() && !self.json {
            print::note(&self.nothing(namespace.as_deref()), out);
        }
        if is_open && !self.json {
            print::note(
                "hint: `indelible unresolved PROMISE` shows what was sent. Check the other service, \
                 then record what happened: `indelible resolve PROMISE \
                 happened|did-not-happen|run-again|accept-unknown --reason TEXT`",
                out,
            );
        }
        Ok(())
    }

    /// What is said of an empty list, which may hide another namespace's.
    fn nothing(&self, namespace: Option<&str>) -> String {
        let filters = [&self.function, &self.host, &self.since, &self.before];
        let filtered = self.state.is_some() || filters.iter().any(|filter| filter.is_some());
        let what = match (filtered, self.all) {
            (true, _) => "no question matches",
            (false, true) => "nothing is or was unknown",
            (false, false) => "nothing is unknown",
        };
        match namespace {
            Some(name) => format!(
                "{what} in namespace {}\nhint: `indelible unresolved --namespace '*'` looks in all",
                plain(name)
            ),
            None => what.to_owned(),
        }
    }

    fn filter(&self) -> UnresolvedFilter {
        let mut filter = UnresolvedFilter::open();
        if self.all {
            filter = filter.with_settled();
        }
        if let Some(state) = self.state {
            filter = filter.state(state.state());
        }
        if let Some(function) = &self.function {
            filter = filter.function(function);
        }
        if let Some(host) = &self.host {
            filter = filter.host(host);
        }
        if let Some(since) = &self.since {
            filter = filter.since(since);
        }
        if let Some(before) = &self.before {
            filter = filter.before(before);
        }
        filter
    }

    /// Whether one is wanted: for a folder, where no server filters.
    pub(super) fn wants(&self, listed: &Listed) -> bool {
        let settled = listed.state == UnresolvedState::Settled;
        let wanted = self.all || self.state == Some(StateArgument::Settled);
        (wanted || !settled)
            && self.state.is_none_or(|state| state.state() == listed.state)
            && self.function.as_ref().is_none_or(|name| *name == listed.function)
            && self.host.as_ref().is_none_or(|host| listed.label.contains(&**host))
            && self.since.as_ref().is_none_or(|since| listed.since >= *since)
            && self.before.as_ref().is_none_or(|before| listed.since < *before)
    }
}

/// The state, in words.
const fn state(state: UnresolvedState) -> &'static str {
    match state {
        UnresolvedState::Held => "waits for a person",
        UnresolvedState::Asking => "its reconciler is being asked",
        UnresolvedState::Ended => "ended as Indeterminate",
        UnresolvedState::Settled => "settled",
    }
}

fn settlement(settled: &Settled) -> String {
    let finding = match settled.finding {
        Finding::Happened => "it happened",
        Finding::DidNotHappen => "it did not happen",
        Finding::RunAgain => "it was to run again",
        Finding::AcceptedUnknown => "it stays unknown",
    };
    let status = settled.status.map(|status| format!(" ({status})")).unwrap_or_default();
    let Settled { actor, reason, at, .. } = settled;
    format!("{finding}{status}, says {} at {}: {}", plain(actor), plain(at), plain(reason))
}

fn text(listed: &Listed) -> String {
    let Listed {
        promise_id, since, label, why, namespace, function, key, labels, sent_key, ..
    } = listed;
    let mut text = format!("{}\n", plain(promise_id));
    // Writing to a string cannot fail.
    _ = writeln!(text, "  {}  {}  {}", plain(since), state(listed.state), plain(label));
    _ = write!(text, "  {}  namespace {}", plain(function), plain(namespace));
    if let Some(key) = key {
        _ = write!(text, "  key {}", plain(key));
    }
    for (name, value) in labels {
        _ = write!(text, "  {}={}", plain(name), plain(value));
    }
    if let Some(sent) = sent_key {
        _ = write!(text, "  sent with Idempotency-Key {}", plain(sent));
    }
    _ = writeln!(text, "\n  {}", plain(&one_line(why)));
    if let Some(settled) = &listed.settled {
        _ = writeln!(text, "  {}", settlement(settled));
    }
    text
}

/// All that is known of one.
fn evidence(detail: &UnresolvedDetail) -> String {
    let listed = &detail.unresolved;
    let mut lines = vec![
        ("promise", plain(&listed.promise_id)),
        ("state", state(listed.state).to_owned()),
        ("since", plain(&listed.since)),
        ("why", plain(&one_line(&listed.why))),
        ("function", plain(&listed.function)),
        ("namespace", plain(&listed.namespace)),
        ("operation", plain(&detail.operation_id)),
    ];
    if let Some(settled) = &listed.settled {
        lines.push(("settled", settlement(settled)));
    }
    if let Some(key) = &listed.key {
        lines.push(("key", plain(key)));
    }
    for (name, value) in &listed.labels {
        lines.push(("label", format!("{}={}", plain(name), plain(value))));
    }
    lines.push(("input", excerpt(&detail.input)));
    if let Some(request) = &detail.request {
        lines.push(("request", format!("{} {}", plain(&request.method), plain(&request.url))));
        lines.push(("", format!("Idempotency-Key: {}", plain(&request.idempotency_key))));
        for (name, value) in &request.headers {
            lines.push(("", format!("{}: {}", plain(name), plain(value))));
        }
        if request.body.bytes > 0 {
            lines.push(("body", excerpt(&request.body)));
        }
    } else {
        lines.push(("call", plain(&listed.label)));
    }
    if let Some(call) = &detail.call {
        lines.push(("with", excerpt(call)));
    }
    for tried in &detail.tried {
        let started = plain(&tried.started);
        lines.push(("attempt", format!("{} at {started}: {}", tried.attempt, plain(&tried.end))));
    }
    for answer in &detail.answers {
        lines.push(("reconciler", format!("{}: {}", plain(&answer.at), plain(&answer.answer))));
    }
    for caller in &detail.callers {
        let state = serde_json::to_value(caller.state);
        let state = state.ok().and_then(|state| state.as_str().map(str::to_owned));
        let (function, id) = (plain(&caller.function), plain(&caller.execution_id));
        lines.push(("caller", format!("{function} {id} {}", state.unwrap_or_default())));
    }
    lines.into_iter().map(|(name, value)| format!("{name:<10}  {value}\n")).collect()
}

fn excerpt(excerpt: &Excerpt) -> String {
    let Excerpt { bytes, text, base64, sha256 } = excerpt;
    let shown = match (text, base64) {
        (Some(text), _) => plain(text),
        (None, Some(base64)) => format!("base64 {}", plain(base64)),
        (None, None) => "-".to_owned(),
    };
    match sha256 {
        Some(sha256) => format!("{shown}… ({bytes} bytes, SHA-256 {})", plain(sha256)),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A settled entry is five lines, and nothing that a server sends moves the cursor.
    #[test]
    fn an_entry_is_harmless() {
        let hostile = || "\u{1b}[2J\n\u{202e}".to_owned();
        let listed = Listed {
            promise_id: hostile(),
            execution_id: hostile(),
            attempts: hostile(),
            namespace: hostile(),
            function: hostile(),
            key: Some(hostile()),
            labels: [(hostile(), hostile())].into(),
            label: hostile(),
            attempt: 1,
            since: hostile(),
            why: hostile(),
            state: UnresolvedState::Settled,
            sent_key: Some(hostile()),
            settled: Some(Settled {
                finding: Finding::Happened,
                status: Some(201),
                actor: hostile(),
                reason: hostile(),
                at: hostile(),
            }),
        };
        let text = text(&listed);
        assert_eq!(text.lines().count(), 5);
        assert!(!text.replace('\n', "").contains(crate::text::rewrites), "{text:?}");
    }
}
