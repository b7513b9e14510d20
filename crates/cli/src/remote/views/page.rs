//! The page about one execution. Pure: the execution and the time are passed in.

use indelible_client::api::call::Payload;
use indelible_client::api::execution::{Detail, State};
use indelible_client::api::unresolved::Unresolved;
use indelible_journal::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::list::took;
use super::state::{tone, word};
use super::steps::{self, Step};
use super::story::Story;
use super::time::{ago, second, told};
use super::waits;
use crate::columns::{LABEL, labelled};
use crate::print::VERSION;
use crate::remote::target::name;
use crate::screen::{Screen, Tone};
use crate::text::{plain, rewrites, width};

/// How many lines of an input, a result or an error are shown.
const VALUE_LINES_MAX: usize = 4;
/// How many digits of a version are shown.
const VERSION_DIGITS: usize = 8;
/// An id is at most this wide: 64 digits, and a path.
const ID_WIDTH_MAX: usize = 400;

/// Everything that a page shows of an execution.
pub(super) struct Subject {
    pub(super) detail: Detail,
    /// Its steps; none if it has no journal to read.
    pub(super) story: Option<Story>,
    /// The last earlier attempts, and how each ended.
    pub(super) earlier: Vec<(String, String)>,
    /// What is unknown in it and in what it called.
    pub(super) unknown: Vec<Unresolved>,
}

/// The page, line by line.
pub(super) fn lines(subject: &Subject, now: Timestamp, screen: Screen) -> Vec<String> {
    let detail = &subject.detail;
    let mut lines = head(subject, now, screen);
    let drawn = |lines: Vec<waits::Line>| -> Vec<String> {
        let drawn = lines.into_iter().flat_map(|line| {
            let whole = line.command || !screen.is_terminal;
            let texts = if whole { vec![line.text] } else { paragraph(&line.text, screen) };
            let paint = move |text: String| match line.tone {
                Some(tone) => screen.paint(tone, &text),
                None => text,
            };
            texts.into_iter().map(paint)
        });
        drawn.collect()
    };
    let mut waiting = waits::lines(detail, now);
    waiting.extend(waits::below(detail, &subject.unknown, now));
    let waiting = drawn(waiting);
    // An execution that runs or is cancelled may have calls in flight without waiting for them.
    let blocked = matches!(detail.execution.state, State::Blocked | State::Stuck);
    lines.extend(labelled(if blocked { "waits" } else { "in flight" }, &waiting, screen));
    lines.extend(labelled("unknown", &drawn(waits::ended(&subject.unknown, now)), screen));
    if let Some(story) = &subject.story {
        let timeline = story.timeline(subject, now);
        lines.push(String::new());
        lines.extend(steps::lines(&timeline, &detail.execution.execution_id, screen));
    }
    lines
}

/// Its name, its state, its input and its result.
fn head(subject: &Subject, now: Timestamp, screen: Screen) -> Vec<String> {
    let detail = &subject.detail;
    let execution = &detail.execution;
    let state = execution.state;
    let started = match told(execution.started_at()) {
        Some(started) => format!("{}, {}", second(started), ago(started, now)),
        None => plain(execution.started_at(), room(screen)),
    };
    let version: String = execution.component_digest.chars().take(VERSION_DIGITS).collect();
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    let one = |text: &str| vec![plain(text, ID_WIDTH_MAX)];
    let function = plain(&execution.function, room(screen));
    rows.push(("function", vec![screen.paint(Tone::Strong, &function)]));
    rows.push(("execution", one(&execution.execution_id)));
    rows.push(("state", vec![screen.paint(tone(state), word(state))]));
    rows.push(("started", vec![started]));
    rows.push((if state.is_over() { "took" } else { "so far" }, vec![took(execution, now)]));
    if execution.attempts.split('.').any(|attempt| attempt != "1") {
        let mut lines = one(&execution.attempts);
        for (attempts, why) in &subject.earlier {
            let text = plain(&format!("{attempts}: {why}"), room(screen));
            lines.push(screen.paint(Tone::Faint, &text));
        }
        rows.push(("attempt", lines));
    }
    rows.push(("version", one(&version)));
    rows.push(("namespace", one(&execution.namespace)));
    rows.push(("operation", one(&detail.operation_id)));
    rows.push(("key", execution.key.iter().flat_map(|key| one(key)).collect()));
    let label = |(name, value)| plain(&format!("{name}={value}"), ID_WIDTH_MAX);
    rows.push(("labels", execution.labels.iter().map(label).collect()));
    if let Some(parent) = &detail.parent_id {
        rows.push(("called by", one(&name(parent))));
    }
    rows.push(("input", value(detail.input.as_deref(), detail.input_payload.as_ref(), screen)));
    rows.push(("result", value(detail.result.as_deref(), detail.result_payload.as_ref(), screen)));
    if let Some(error) = &detail.error {
        let text = format!("{}: {}", error.kind, error.message);
        let bad = match state {
            State::Cancelled => Tone::Faint,
            State::Indeterminate => Tone::Warn,
            _ => Tone::Bad,
        };
        let text = paragraph(&text, screen);
        rows.push(("error", text.iter().map(|line| screen.paint(bad, line)).collect()));
    }
    if let Some(why) = &execution.stuck {
        let id = name(&execution.execution_id);
        let mut lines = paragraph(why, screen);
        lines.iter_mut().for_each(|line| *line = screen.paint(Tone::Warn, line));
        lines.push(format!(
            "`indelible release {id}` lets it continue, `indelible fail {id}` ends \
             it"
        ));
        rows.push(("stuck", lines));
    }
    rows.iter().flat_map(|(label, values)| labelled(label, values, screen)).collect()
}

/// How many columns a value may take.
fn room(screen: Screen) -> usize {
    screen.columns.saturating_sub(LABEL).max(1)
}

/// An input or a result: JSON, or bytes of which only the size is shown.
pub(super) fn value(
    json: Option<&RawValue>,
    other: Option<&Payload>,
    screen: Screen,
) -> Vec<String> {
    match (json, other) {
        (Some(json), _) => folded(json.get(), room(screen), VALUE_LINES_MAX),
        (None, Some(other)) => {
            let bytes = other.base64.trim_end_matches('=').len() * 3 / 4;
            vec![plain(&format!("<{} {bytes} bytes>", other.codec), room(screen))]
        }
        (None, None) => Vec::new(),
    }
}

/// A text of several lines, each broken between words, cut to a bounded number of lines.
pub(super) fn paragraph(text: &str, screen: Screen) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().flat_map(|line| broken(line, room(screen))) {
        let left = VALUE_LINES_MAX.saturating_sub(lines.len());
        if left == 0 {
            lines.push("…".to_owned());
            break;
        }
        lines.extend(folded(&line, room(screen), left));
    }
    lines
}

/// Breaks a line between words; a word that is too long stays whole.
fn broken(line: &str, wide: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match lines.last_mut() {
            Some(last) if width(last) + 1 + width(word) <= wide => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Fills lines with a text, and ends with `…` if there is more.
fn folded(text: &str, wide: usize, lines_max: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let chars = text.chars().map(|c| match c {
        '\n' | '\t' | '\r' => ' ',
        c if rewrites(c) => '\u{fffd}',
        c => c,
    });
    // Characters without width would never fill a line, so their number is bounded too.
    let mut left = 4 * wide * lines_max;
    for c in chars {
        line.push(c);
        if width(&line) > wide {
            line.pop();
            lines.push(std::mem::take(&mut line));
            line.push(c);
        }
        left -= 1;
        if lines.len() == lines_max || left == 0 {
            if lines.len() == lines_max {
                line = lines.pop().unwrap_or_default();
            }
            line.push('…');
            while width(&line) > wide && line.chars().count() > 1 {
                line.pop();
                line.pop();
                line.push('…');
            }
            break;
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    v: u32,
    #[serde(flatten)]
    detail: &'a Detail,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<Step>>,
    /// How many steps are left out between the first and the last.
    steps_left_out: u64,
}

pub(super) fn document(subject: &Subject, now: Timestamp) -> Document<'_> {
    let timeline = subject.story.as_ref().map(|story| story.timeline(subject, now));
    Document {
        v: VERSION,
        detail: &subject.detail,
        steps_left_out: timeline
            .as_ref()
            .and_then(|timeline| timeline.between)
            .map_or(0, |(_, count)| count),
        steps: timeline.as_ref().map(steps::document),
    }
}

#[cfg(test)]
mod tests {
    use indelible_client::api::call::Failed;
    use indelible_client::api::execution::{Execution, Wait, WaitKind};

    use super::super::list::tests::execution;
    use super::super::waits::tests::wait;
    use super::*;

    fn subject(execution: Execution) -> Subject {
        let detail = Detail {
            execution,
            operation_id: "o-1".to_owned(),
            parent_id: None,
            input: Some(
                RawValue::from_string("{\"id\":\"o-1\",\n \"item\":\"glass\"}".into()).unwrap(),
            ),
            input_payload: None,
            waits_for: Vec::new(),
            waits_since: None,
            result: None,
            result_payload: None,
            error: None,
        };
        Subject { detail, story: None, earlier: Vec::new(), unknown: Vec::new() }
    }

    fn shown(subject: &Subject, screen: Screen) -> String {
        lines(subject, "2026-03-14T09:30:00Z".parse().unwrap(), screen).join("\n")
    }

    /// A page shows everything it can, and nothing that moves the cursor.
    #[test]
    fn a_page() {
        let mut all = subject(Execution {
            attempts: "1.2".to_owned(),
            stuck: Some("it diverged\u{1b}[2J\nhere".to_owned()),
            ..execution("9c4f1a2b", "order\u{202e}", State::Stuck)
        });
        all.detail.execution.execution_id.push_str(".3");
        all.detail.parent_id = Some("9c4f1a2b".repeat(8));
        all.detail.result_payload =
            Some(Payload { codec: "cbor".to_owned(), base64: "AQIDBA==".to_owned() });
        all.detail.error = Some(Failed {
            kind: "Trap".to_owned(),
            message: "unreachable\n  at a\n  at b\n  at c\n  at d".to_owned(),
            detail: None,
        });
        all.detail.waits_since = Some("2026-03-14T09:28:00Z".to_owned());
        all.detail.waits_for = vec![Wait { label: Some("go".into()), ..wait(WaitKind::Signal) }];
        all.earlier = vec![("1.1".to_owned(), "Transient: \u{7}".to_owned())];
        assert_eq!(
            shown(&all, Screen::new(None, None)),
            "\
function   order\u{fffd}
execution  9c4f1a2b00000000000000000000000000000000000000000000000000000000.3
state      stuck
started    2026-03-14T09:26:53Z, 3 min ago
so far     3m07s
attempt    1.2
           1.1: Transient: \u{fffd}
version    f7f7f7f7
namespace  default
operation  o-1
called by  9c4f1a2b
input      {\"id\":\"o-1\",  \"item\":\"glass\"}
result     <cbor 4 bytes>
error      Trap: unreachable
             at a
             at b
             at c
           …
stuck      it diverged\u{fffd}[2J
           here
           `indelible release 9c4f1a2b.3` lets it continue, `indelible fail 9c4f1a2b.3` ends it
waits      for signal `go`, since 2 min ago"
        );
    }

    /// An execution that runs has calls in flight; it does not wait for them.
    #[test]
    fn what_runs_does_not_wait() {
        let mut runs = subject(execution("9c4f1a2b", "order", State::Running));
        let request = Wait { label: Some("GET http://a".into()), ..wait(WaitKind::Http) };
        runs.detail.waits_for = vec![request; 12];
        let page = shown(&runs, Screen::new(None, None));
        assert!(page.contains("\nin flight  for GET http://a, which has not begun\n"), "{page}");
        assert!(page.ends_with("\n           and for 2 more"), "{page}");
    }

    /// On a narrow terminal values are cut, but commands to copy are not.
    #[test]
    fn a_narrow_terminal() {
        let mut wide = subject(execution("9c4f1a2b", &"日本".repeat(60), State::Blocked));
        let long = format!("\"{}\"", "日本語".repeat(200));
        wide.detail.input = Some(RawValue::from_string(long).unwrap());
        wide.detail.waits_for = vec![Wait {
            label: Some(format!("POST https://{}", "a".repeat(150))),
            promise_id: Some(format!("{}.0", "9c4f1a2b".repeat(8))),
            why: Some("the connection was closed ".repeat(20)),
            ..wait(WaitKind::Unresolved)
        }];
        let screen = Screen::new(Some(50), None);
        let page = shown(&wide, screen);
        let long: Vec<&str> = page.lines().filter(|line| width(line) > 50).collect();
        assert_eq!(long.len(), 2, "{page}");
        assert!(long[0].starts_with("execution "), "{page}");
        assert!(long[1].contains("indelible resolve 9c4f1a2b"), "{page}");
    }

    /// Lines are full and bounded in number, and `…` shows that there is more.
    #[test]
    fn texts_are_folded() {
        let check = |text: &str, wide, max, expected: &[&str]| {
            assert_eq!(folded(text, wide, max), expected, "{text}");
        };
        check("", 4, 2, &[]);
        check("abcd", 4, 2, &["abcd"]);
        check("abcdefgh", 4, 2, &["abcd", "efgh"]);
        check("abcdefghi", 4, 2, &["abcd", "efg…"]);
        check("日本語", 4, 2, &["日本", "語"]);
        check("日本語日本", 4, 2, &["日本", "語…"]);
        check("a\nb\u{1b}", 9, 2, &["a b\u{fffd}"]);
        assert!(folded(&"\u{301}".repeat(1_000), 4, 2).concat().chars().count() < 40);
    }
}
