//! What an execution waits for, in words. Pure.

use indelible_client::api::execution::{Detail, Wait, WaitKind};
use indelible_client::api::unresolved::{Unresolved, UnresolvedState};
use indelible_journal::Timestamp;

use super::time::{ago, second, told, until};
use crate::remote::target::name;
use crate::screen::Tone;
use crate::text::plain;

/// An execution may wait for a thousand things: these are enough to see what they are.
const LISTED_MAX: usize = 10;
/// A label is at most 160 bytes, a name 255.
const LABEL_WIDTH_MAX: usize = 255;
/// The widest reason why an outcome is unknown.
const WHY_WIDTH_MAX: usize = 500;

/// Who can be asked whether something happened.
const PERSON: &str = "a person";
const RECONCILER: &str = "its reconciler";

/// A line, and how it is shown.
pub(super) struct Line {
    pub(super) tone: Option<Tone>,
    pub(super) text: String,
    /// Whether it is a command. Commands are not cut, because the reader copies them.
    pub(super) command: bool,
}

impl Line {
    fn new(text: String) -> Self {
        Self { tone: None, text, command: false }
    }
}

/// One or more lines for each wait.
pub(super) fn lines(detail: &Detail, now: Timestamp) -> Vec<Line> {
    let since = detail.waits_since.as_deref().and_then(told);
    let shown = detail.waits_for.iter().take(LISTED_MAX);
    let mut lines: Vec<Line> = shown.flat_map(|wait| one(wait, since, now)).collect();
    if let Some(more @ 1..) = detail.waits_for.len().checked_sub(LISTED_MAX) {
        lines.push(Line::new(format!("and for {more} more")));
    }
    lines
}

/// What the execution waits for further down. What it waits for itself is among its waits.
pub(super) fn below(detail: &Detail, unknown: &[Unresolved], now: Timestamp) -> Vec<Line> {
    let own = &detail.execution.execution_id;
    let mut lines = Vec::new();
    for listed in unknown.iter().filter(|it| it.execution_id != *own).take(LISTED_MAX) {
        let kind = match listed.state {
            UnresolvedState::Held => WaitKind::Unresolved,
            UnresolvedState::Asking => WaitKind::Reconciling,
            UnresolvedState::Ended | UnresolvedState::Settled => continue,
        };
        let wait = Wait {
            kind,
            promise_id: Some(listed.promise_id.clone()),
            label: Some(listed.label.clone()),
            attempt: Some(listed.attempt),
            since: Some(listed.since.clone()),
            due: None,
            why: Some(listed.why.clone()),
        };
        let mut own = one(&wait, None, now);
        if let Some(first) = own.first_mut() {
            first.text = format!("{} waits {}", name(&listed.execution_id), first.text);
        }
        lines.extend(own);
    }
    lines
}

/// The steps of an execution that wait for an answer, since when, and who is asked: its own
/// requests, and its calls in which a request waits for a person.
pub(super) fn asked(
    detail: &Detail,
    unknown: &[Unresolved],
) -> Vec<(String, Option<Timestamp>, &'static str)> {
    let own = detail.waits_for.iter().filter_map(|wait| {
        let who = match wait.kind {
            WaitKind::Unresolved => PERSON,
            WaitKind::Reconciling => RECONCILER,
            _ => return None,
        };
        Some((wait.promise_id.clone()?, wait.since.as_deref().and_then(told), who))
    });
    let called = format!("{}.", detail.execution.execution_id);
    let below = unknown.iter().filter_map(|listed| {
        let path = listed.execution_id.strip_prefix(&called)?;
        let child = path.split('.').next().unwrap_or(path);
        let is_held = listed.state == UnresolvedState::Held;
        is_held.then(|| (format!("{called}{child}"), told(&listed.since), PERSON))
    });
    own.chain(below).collect()
}

/// The questions that are open although their effects are over.
pub(super) fn ended(unknown: &[Unresolved], now: Timestamp) -> Vec<Line> {
    let is_ended = |listed: &&Unresolved| listed.state == UnresolvedState::Ended;
    let mut lines = Vec::new();
    for listed in unknown.iter().filter(is_ended).take(LISTED_MAX) {
        let label = plain(&listed.label, LABEL_WIDTH_MAX);
        let since = told(&listed.since).map(|since| format!(", since {}", ago(since, now)));
        let first = format!("whether {label} happened{}", since.unwrap_or_default());
        lines.push(Line { tone: Some(Tone::Warn), ..Line::new(first) });
        lines.push(Line::new(plain(&listed.why, WHY_WIDTH_MAX)));
        let promise = plain(&listed.promise_id, LABEL_WIDTH_MAX);
        lines.extend(decision(&promise, "happened|did-not-happen|accept-unknown"));
    }
    lines
}

/// What a person does about an open question.
fn decision(promise: &str, ways: &str) -> impl Iterator<Item = Line> {
    let promise = name(promise);
    let evidence = format!("  indelible unresolved {promise}");
    let resolve = format!("  indelible resolve {promise} {ways} --reason TEXT");
    let commands = [evidence, resolve].map(|text| Line { command: true, ..Line::new(text) });
    let first = Line::new("look at the evidence, then record what happened:".to_owned());
    [first].into_iter().chain(commands)
}

fn one(wait: &Wait, guest: Option<Timestamp>, now: Timestamp) -> Vec<Line> {
    let label = wait.label.as_deref().map(|label| plain(label, LABEL_WIDTH_MAX));
    let label = label.unwrap_or_default();
    let promise = wait.promise_id.as_deref().map(|id| plain(id, LABEL_WIDTH_MAX));
    let since = wait.since.as_deref().and_then(told);
    let ago = |since: Option<Timestamp>| match since {
        Some(since) => format!(", since {}", ago(since, now)),
        None => String::new(),
    };
    let due = wait.due.as_deref().and_then(told).map(|due| (until(due, now), second(due)));
    let attempt = wait.attempt;
    match wait.kind {
        WaitKind::Signal => vec![Line::new(format!("for signal `{label}`{}", ago(guest)))],
        WaitKind::JoinSet => {
            vec![Line::new(format!("for the next result of a join set{}", ago(guest)))]
        }
        WaitKind::Timer => {
            let due = due.map_or_else(String::new, |(until, at)| format!(", due {until} ({at})"));
            vec![Line::new(format!("for a timer{}{due}", ago(since)))]
        }
        // A call without a promise has not begun: it is this execution's own next attempt.
        WaitKind::Call if promise.is_none() => {
            let due = due.map_or_else(String::new, |(until, at)| format!(", due {until} ({at})"));
            let attempt = attempt.map_or_else(String::new, |attempt| format!(" {attempt}"));
            vec![Line::new(format!("for its attempt{attempt} to begin{due}"))]
        }
        WaitKind::Call | WaitKind::Http => {
            let what = match (wait.kind, promise) {
                (WaitKind::Call, Some(id)) => format!("for {label} ({})", name(&id)),
                _ => format!("for {label}"),
            };
            vec![Line::new(match (attempt, due) {
                (Some(attempt), Some((until, at))) => {
                    format!("{what}: attempt {attempt} failed, the next {until} ({at})")
                }
                (Some(attempt), None) => format!("{what}, attempt {attempt}{}", ago(since)),
                (None, _) => format!("{what}, which has not begun{}", ago(since)),
            })]
        }
        WaitKind::Reconciling | WaitKind::Unresolved => {
            let held = wait.kind == WaitKind::Unresolved;
            let who = if held { PERSON } else { RECONCILER };
            let attempt = attempt.map_or_else(String::new, |n| format!(", attempt {n}"));
            let mut lines = vec![Line {
                tone: held.then_some(Tone::Warn),
                ..Line::new(format!("for {who}: {label}{attempt}{}", ago(since)))
            }];
            let why = wait
                .why
                .as_deref()
                .map_or_else(String::new, |why| format!(": {}", plain(why, WHY_WIDTH_MAX)));
            lines.push(Line::new(format!("its outcome is unknown{why}")));
            if let (true, Some(promise)) = (held, promise) {
                let ways = "happened|did-not-happen|run-again|accept-unknown";
                lines.extend(decision(&promise, ways));
            }
            lines
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const NOW: &str = "2026-03-14T09:30:00Z";

    pub(crate) fn wait(kind: WaitKind) -> Wait {
        Wait {
            kind,
            promise_id: None,
            label: None,
            attempt: None,
            since: None,
            due: None,
            why: None,
        }
    }

    fn said(wait: &Wait) -> Vec<String> {
        let guest = Some("2026-03-14T09:28:00Z".parse().unwrap());
        let lines = one(wait, guest, NOW.parse().unwrap());
        lines.into_iter().map(|line| line.text).collect()
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    /// A wait for a call shows the held request further down, and the command to resolve it.
    #[test]
    fn what_is_called_waits_for_a_person() {
        let id = "ab".repeat(32);
        let listed = Unresolved {
            promise_id: format!("{id}.0.2"),
            execution_id: format!("{id}.0"),
            attempts: "1.1".to_owned(),
            namespace: "default".to_owned(),
            function: "ship".to_owned(),
            key: None,
            labels: Default::default(),
            attempt: 1,
            since: "2026-03-14T09:20:00Z".to_owned(),
            label: "POST http://x/ship".to_owned(),
            why: "the connection broke".to_owned(),
            state: UnresolvedState::Held,
            sent_key: None,
            settled: None,
        };
        let detail = serde_json::from_value(serde_json::json!({
            "execution": {
                "execution_id": id, "namespace": "default", "function": "order", "attempts": "1",
                "component_digest": id, "state": "blocked", "created_at": NOW, "updated_at": NOW,
                "events": 7,
            },
            "operation_id": "o", "waits_for": [],
        }));
        let lines = below(&detail.unwrap(), &[listed], NOW.parse().unwrap());
        let texts: Vec<_> = lines.into_iter().map(|line| line.text).collect();
        assert_eq!(
            texts,
            [
                "abababab.0 waits for a person: POST http://x/ship, attempt 1, since 10 min ago",
                "its outcome is unknown: the connection broke",
                "look at the evidence, then record what happened:",
                "  indelible unresolved abababab.0.2",
                "  indelible resolve abababab.0.2 happened|did-not-happen|run-again|accept-unknown --reason TEXT",
            ]
        );
    }

    /// Each kind of wait shows what for, since when, and when it ends.
    #[test]
    fn every_wait_has_words() {
        let signal = Wait { label: text("decision"), ..wait(WaitKind::Signal) };
        assert_eq!(said(&signal), ["for signal `decision`, since 2 min ago"]);
        assert_eq!(
            said(&wait(WaitKind::JoinSet)),
            ["for the next result of a join set, since 2 min ago"]
        );
        let timer = Wait {
            since: text("2026-03-14T09:29:00Z"),
            due: text("2026-03-14T10:29:00Z"),
            ..wait(WaitKind::Timer)
        };
        assert_eq!(
            said(&timer),
            ["for a timer, since 1 min ago, due in 59 min (2026-03-14T10:29:00Z)"]
        );
        let id = format!("{}.3", "ab".repeat(32));
        let call = Wait {
            label: text("charge"),
            promise_id: Some(id.clone()),
            attempt: Some(1),
            since: text("2026-03-14T09:29:59Z"),
            ..wait(WaitKind::Call)
        };
        assert_eq!(said(&call), ["for charge (abababab.3), attempt 1, since 1 s ago"]);
        let fresh = Wait { attempt: None, ..call.clone() };
        assert_eq!(said(&fresh), ["for charge (abababab.3), which has not begun, since 1 s ago"]);
        let own = Wait { promise_id: None, attempt: Some(2), since: None, ..call };
        let own = Wait { due: text("2026-03-14T09:30:04Z"), ..own };
        assert_eq!(said(&own), ["for its attempt 2 to begin, due in 4 s (2026-03-14T09:30:04Z)"]);
        let request = Wait {
            label: text("POST https://bank/charges"),
            attempt: Some(3),
            due: text("2026-03-14T09:29:00Z"),
            ..wait(WaitKind::Http)
        };
        assert_eq!(
            said(&request),
            [
                "for POST https://bank/charges: attempt 3 failed, the next now (2026-03-14T09:29:00Z)"
            ]
        );
        let unknown =
            Wait { due: None, promise_id: Some(id.clone()), why: text("it\u{1b}"), ..request };
        let held = Wait { kind: WaitKind::Unresolved, ..unknown.clone() };
        assert_eq!(
            said(&held),
            [
                "for a person: POST https://bank/charges, attempt 3",
                "its outcome is unknown: it\u{fffd}",
                "look at the evidence, then record what happened:",
                "  indelible unresolved abababab.3",
                "  indelible resolve abababab.3 happened|did-not-happen|run-again|accept-unknown --reason TEXT",
            ]
        );
        let asked = Wait { kind: WaitKind::Reconciling, ..unknown };
        assert_eq!(
            said(&asked),
            [
                "for its reconciler: POST https://bank/charges, attempt 3",
                "its outcome is unknown: it\u{fffd}",
            ]
        );
    }
}
