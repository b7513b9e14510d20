//! The steps of an execution as rows with bars over time. Pure; the bars are those of `indelible
//! journal show --timeline`.

use indelible_journal::ErrorKind;
use serde::Serialize;

use crate::journal::bars::bar;
use crate::journal::spans::{End, Kind, Span, Timeline};
use crate::journal::timeline::{BAR_CELLS_MIN, abandoned, axis, legend, mark};
use crate::remote::target::name;
use crate::screen::{Screen, Tone};
use crate::text::{cut, duration, offset, pad, plain, width, wrap};

/// The widest name where the output has no terminal to fit.
const NAME_WIDTH_MAX: usize = 80;
/// On a terminal a name is never cut shorter.
const NAME_WIDTH_MIN: usize = 12;
/// A shorter bar shows nothing.
const CELLS_MIN: usize = 8;
/// Names are cut for the sake of bars of this length, not for longer ones.
const CELLS_WANTED: usize = 12;

/// One row, before it is laid out.
struct Row<'a> {
    span: &'a Span,
    /// When it began, its name, the id of its call, the number of attempts, and how it ended.
    cells: [String; 5],
    tone: Tone,
    /// Why it was retried, and how it failed.
    below: Vec<(Tone, String)>,
}

/// The rows, with an axis above and a legend below.
pub(super) fn lines(timeline: &Timeline, execution: &str, screen: Screen) -> Vec<String> {
    let mut rows: Vec<Row<'_>> =
        timeline.rows.iter().map(|span| row(span, timeline.total_us)).collect();
    let layout = Layout::of(&mut rows, screen);
    let bars: Vec<String> = match layout.cells {
        0 => rows.iter().map(|_| String::new()).collect(),
        cells => rows.iter().map(|row| bar(row.span, timeline.total_us, cells)).collect(),
    };
    let faint = |text: &str| screen.paint(Tone::Faint, text);
    let mut lines = Vec::new();
    if layout.cells > 0 {
        let axis = axis(timeline.total_us, layout.cells);
        lines.push(faint(&format!("{:1$}  {axis}", "", layout.left())));
    }
    for (place, (row, bar)) in rows.iter().zip(&bars).enumerate() {
        if let Some((_, count)) = timeline.between.filter(|(before, _)| *before == place) {
            let (count, id) = (thousands(count), name(execution));
            let text = format!("… {count} steps between; `indelible journal {id}` has all");
            lines.push(faint(&layout.below(&text, screen)));
        }
        lines.push(layout.line(row, bar, screen));
        for (tone, text) in &row.below {
            lines.push(screen.paint(*tone, &layout.below(&format!("  {text}"), screen)));
        }
    }
    let legend = legend(&timeline.rows, &bars);
    if !legend.is_empty() {
        lines.push(String::new());
        lines.extend(wrap(&legend, screen.columns).lines().map(faint));
    }
    lines
}

/// The widths of all columns. A column of width 0 is left out.
struct Layout {
    began: usize,
    name: usize,
    id: usize,
    attempts: usize,
    cells: usize,
}

impl Layout {
    /// In a pipe names are whole. On a terminal names and bars share the columns that the others
    /// leave; if those are too few, times are left out first, then ends of names, then bars.
    fn of(rows: &mut [Row<'_>], screen: Screen) -> Self {
        let widest = |rows: &[Row<'_>], cell: usize| {
            rows.iter().map(|row| width(&row.cells[cell])).max().unwrap_or(0)
        };
        let [began, name, id, attempts, ends] = [0, 1, 2, 3, 4].map(|cell| widest(rows, cell));
        let mut layout = Self { began, name, id, attempts, cells: 0 };
        if !screen.is_terminal {
            let taken = layout.left() + 2 + 2 + ends;
            layout.cells = screen.columns.saturating_sub(taken).max(BAR_CELLS_MIN);
            return layout;
        }
        layout.name = 0;
        let room = |layout: &Self| screen.columns.saturating_sub(layout.left() + 2 + 2 + ends);
        if room(&layout) < name + CELLS_WANTED {
            layout.began = 0;
        }
        let room = room(&layout);
        layout.name = name.min(room.saturating_sub(CELLS_WANTED).max(NAME_WIDTH_MIN));
        layout.cells = room.saturating_sub(layout.name);
        if layout.cells < CELLS_MIN {
            layout.cells = 0;
        }
        for row in rows {
            row.cells[1] = cut(&row.cells[1], layout.name);
        }
        layout
    }

    /// The columns before the bars.
    fn left(&self) -> usize {
        let column = |width: usize| if width == 0 { 0 } else { width + 2 };
        column(self.began) + self.name + column(self.id) + column(self.attempts)
    }

    fn line(&self, row: &Row<'_>, bar: &str, screen: Screen) -> String {
        let [at, what, called, tries, end] = &row.cells;
        let mut line = match self.began {
            0 => String::new(),
            began => format!("{at:>began$}  "),
        };
        line.push_str(&pad(what, self.name));
        for (text, wide) in [(called, self.id), (tries, self.attempts)] {
            if wide > 0 {
                line = format!("{line}  {}", pad(text, wide));
            }
        }
        if self.cells > 0 {
            line = format!("{line}  {bar}");
        }
        let whole = format!("{line}  {end}");
        match screen.is_terminal && width(&whole) > screen.columns {
            true => cut(&whole, screen.columns),
            false => format!("{line}  {}", screen.paint(row.tone, end)),
        }
    }

    /// A line below a row, indented like its name.
    fn below(&self, text: &str, screen: Screen) -> String {
        let indent = if self.began == 0 { 0 } else { self.began + 2 };
        let text = format!("{:indent$}{text}", "");
        if screen.is_terminal { cut(&text, screen.columns) } else { text }
    }
}

fn row(span: &Span, total: u64) -> Row<'_> {
    let took = duration(span.end_us.saturating_sub(span.start_us));
    let (tone, end) = match (span.end, span.note.status) {
        (End::Ok, None) => (Tone::Good, format!("✓ {took}")),
        (End::Ok, Some(status @ 400..)) => (Tone::Warn, format!("✓ {took} {status}")),
        (End::Ok, Some(status)) => (Tone::Good, format!("✓ {took} {status}")),
        (End::Err(kind), status) => {
            let status = status.map_or_else(String::new, |status| format!(" {status}"));
            let tone = match kind {
                ErrorKind::Indeterminate => Tone::Warn,
                ErrorKind::Cancelled => Tone::Faint,
                _ => Tone::Bad,
            };
            (tone, format!("{} {took}{status} {kind}", mark(kind)))
        }
        (End::Abandoned, _) => (Tone::Faint, format!("- {took} {}", abandoned(span.kind))),
        (End::Open, _) => match span.note.asked {
            Some(who) => (Tone::Warn, format!("… {took} waits for {who}")),
            None => (Tone::Busy, format!("… {took}")),
        },
    };
    let reasons = span.note.reasons.iter();
    let mut below: Vec<(Tone, String)> =
        reasons.map(|(attempt, why)| (Tone::Faint, format!("attempt {attempt}: {why}"))).collect();
    // The page shows the execution's own error at its head.
    if let Some(message) = &span.note.message
        && span.kind != Kind::Execution
        && !message.is_empty()
    {
        below.push((tone, message.clone()));
    }
    let called = match (span.kind, &span.promise_id) {
        (Kind::Invoke, Some(promise)) => name(&promise.to_string()),
        _ => String::new(),
    };
    let (began, title) = (offset(span.start_us, total), plain(&title(span), NAME_WIDTH_MAX));
    Row { span, cells: [began, title, called, span.attempts_mark(), end], tone, below }
}

fn title(span: &Span) -> String {
    match span.kind {
        Kind::Signal => format!("signal {}", span.name),
        Kind::JoinSet => match span.note.members {
            (all, taken) if taken < all => format!("join set, {taken} of {all}"),
            (all, _) => format!("join set of {all}"),
        },
        Kind::Execution | Kind::Invoke | Kind::Http | Kind::Timer => span.name.clone(),
    }
}

/// `4,980`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for (place, digit) in digits[first..].chars().enumerate() {
        if place % 3 == 0 && !text.is_empty() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A step in the document that `--json` prints.
#[derive(Serialize)]
pub(super) struct Step {
    kind: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    promise_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    start_us: u64,
    end_us: u64,
    #[serde(flatten)]
    end: End,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retries: Vec<Retry>,
}

#[derive(Serialize)]
struct Retry {
    attempt: u32,
    reason: String,
}

/// The steps for a program, without the execution's own row.
pub(super) fn document(timeline: &Timeline) -> Vec<Step> {
    let steps = timeline.rows.iter().filter(|span| span.kind != Kind::Execution);
    let step = |span: &Span| Step {
        kind: match span.kind {
            Kind::Execution => "execution",
            Kind::Invoke => "call",
            Kind::Http => "http",
            Kind::Timer => "timer",
            Kind::Signal => "signal",
            Kind::JoinSet => "join_set",
        },
        name: span.name.clone(),
        promise_id: span.promise_id.as_ref().map(ToString::to_string),
        attempts: span.attempts,
        start_us: span.start_us,
        end_us: span.end_us,
        end: span.end,
        message: span.note.message.clone(),
        status: span.note.status,
        retries: span
            .note
            .reasons
            .iter()
            .map(|(attempt, reason)| Retry { attempt: *attempt, reason: reason.clone() })
            .collect(),
    };
    steps.map(step).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indelible_http::Response;
    use indelible_journal::{
        Attempt, AwaitKind, Codec, Event, Failure, InvokeKind, JoinSetId, Micros, Outcome, Payload,
        PromiseId, RetryCause, RetryPolicy, Timestamp, WaitSet,
    };

    use super::*;
    use crate::journal::kept::Bound;
    use crate::journal::spans::Spans;

    fn id() -> String {
        "9c4f1a2b".repeat(8)
    }

    fn child(number: u32) -> PromiseId {
        format!("{}.{number}", id()).parse().unwrap()
    }

    fn scheduled(number: u32, kind: InvokeKind, name: &str) -> Event {
        Event::InvokeScheduled {
            promise_id: child(number),
            kind,
            function_name: name.parse().unwrap(),
            input: Payload::json("null"),
            retry_policy: Arc::new(RetryPolicy::default()),
        }
    }

    fn attempt(number: u32) -> Attempt {
        Attempt::new(number).unwrap()
    }

    fn started(number: u32, nth: u32) -> Event {
        Event::InvokeStarted { promise_id: child(number), attempt: attempt(nth) }
    }

    fn retrying(number: u32, nth: u32, cause: RetryCause, message: &str) -> Event {
        Event::InvokeRetrying {
            promise_id: child(number),
            failed_attempt: attempt(nth),
            cause,
            error: Box::new(Failure::new(ErrorKind::Transient, message)),
            retry_at: Timestamp::EPOCH,
        }
    }

    fn completed(number: u32, nth: u32, result: Outcome) -> Event {
        Event::InvokeCompleted { promise_id: child(number), result, attempt: attempt(nth) }
    }

    fn answered(status: u16) -> Outcome {
        let response = Response { status, headers: Vec::new(), body: "x".into() };
        Outcome::Ok(Payload::new(Codec::HTTP, response.encode()))
    }

    fn drawn(events: &[(u64, Event)], total: u64, screen: Screen) -> Vec<String> {
        let mut spans = Spans::new("order".to_owned(), Bound::Ends(40, 40));
        events.iter().for_each(|(at, event)| spans.step(event, *at));
        lines(&spans.finish(total), &id(), screen)
    }

    /// A step of every kind, with every end.
    fn everything() -> Vec<(u64, Event)> {
        let (call, http) = (InvokeKind::Function, InvokeKind::Http);
        let ok = || Outcome::Ok(Payload::json("1"));
        let failed = |kind, message: &str| Outcome::from(Failure::new(kind, message));
        let set = || JoinSetId::at(child(6));
        vec![
            (0, scheduled(0, call, "支払い")),
            (10, started(0, 1)),
            (200, retrying(0, 1, RetryCause::Failed, "try\u{1b}[2J again\nand a backtrace")),
            (400, started(0, 2)),
            (600, completed(0, 2, ok())),
            (600, scheduled(1, http, "POST https://bank.example/charges")),
            (600, started(1, 1)),
            (650, retrying(1, 1, RetryCause::NotSent, "no route")),
            (690, started(1, 2)),
            (800, completed(1, 2, answered(402))),
            (800, scheduled(2, http, "GET https://bank.example/")),
            (800, started(2, 1)),
            (810, completed(2, 1, answered(200))),
            (810, scheduled(3, http, "POST https://mail.example/")),
            (810, started(3, 1)),
            (850, completed(3, 1, failed(ErrorKind::Indeterminate, "the answer was lost"))),
            (850, scheduled(4, call, "refund")),
            (850, started(4, 1)),
            (880, completed(4, 1, failed(ErrorKind::Cancelled, "enough"))),
            (880, scheduled(5, call, "ship")),
            (880, started(5, 1)),
            (900, completed(5, 1, failed(ErrorKind::UserError, "no glass"))),
            (900, Event::JoinSetCreated { join_set_id: set() }),
            (900, scheduled(7, call, "part")),
            (900, Event::JoinSetSubmitted { join_set_id: set(), promise_id: child(7) }),
            (
                910,
                Event::TimerScheduled {
                    promise_id: child(8),
                    duration: Micros::from_secs(60),
                    fire_at: Timestamp::EPOCH,
                },
            ),
            (
                920,
                Event::ExecutionAwaiting {
                    waiting_on: WaitSet::new(&id().parse().unwrap(), []).unwrap(),
                    kind: AwaitKind::Signal { name: "go".parse().unwrap(), promise_id: child(9) },
                },
            ),
        ]
    }

    /// Every kind of step and every end is shown, with its notes below.
    #[test]
    fn rows_say_what_and_how() {
        let shown = drawn(&everything(), 1_000, Screen::new(None, None));
        assert_eq!(format!("\n{}\n", shown.join("\n")), "
                                                               0s   250us       1ms
+0.000000s  order                                              ██████████████████─>  … 1ms
+0.000000s  支払い                             9c4f1a2b.0  ×2  ████····████          ✓ 600us
              attempt 1: Transient: try\u{fffd}[2J again
+0.000600s  POST https://bank.example/charges              ×2              █·██      ✓ 200us 402
              attempt 1: not sent: no route
+0.000800s  GET https://bank.example/                                          █     ✓ 10us 200
+0.000810s  POST https://mail.example/                                         █     ? 40us Indeterminate
              the answer was lost
+0.000850s  refund                             9c4f1a2b.4                       █    ⊘ 30us Cancelled
              enough
+0.000880s  ship                               9c4f1a2b.5                       █    ✗ 20us UserError
              no glass
+0.000900s  join set, 0 of 1                                                     ─>  … 100us
+0.000900s  part                               9c4f1a2b.7                        ░>  … 100us
+0.000910s  sleep 1m                                                             ─>  … 90us
+0.000920s  signal go                                                            ─>  … 80us

█ running   ─ waiting   ░ scheduled   · before a retry   > not ended   ? outcome unknown
⊘ cancelled
");
    }

    /// A timer that lost a race does not run on: the guest waited for it until the race was over. A
    /// request that a person is asked about does not run either.
    #[test]
    fn what_does_not_run_is_not_drawn_as_if() {
        let timer = Event::TimerScheduled {
            promise_id: child(0),
            duration: Micros::from_secs(60),
            fire_at: Timestamp::EPOCH,
        };
        let race = Event::ExecutionAwaiting {
            waiting_on: WaitSet::new(&id().parse().unwrap(), [child(0)]).unwrap(),
            kind: AwaitKind::SignalOr { name: "go".parse().unwrap(), promise_id: child(1) },
        };
        let over = Event::ExecutionCompleted { result: Payload::json("1") };
        let events = [(0, timer), (0, race), (400, Event::ExecutionResumed), (800, over)];
        let shown = drawn(&events, 800, Screen::new(None, None));
        assert!(shown[2].starts_with("+0.000000s  sleep 1m   ─────"), "{shown:#?}");
        assert!(
            shown[2].ends_with("─                             - 400us abandoned"),
            "{shown:#?}"
        );

        let mut spans = Spans::new("order".to_owned(), Bound::Ends(40, 40));
        spans.step(&scheduled(0, InvokeKind::Http, "POST https://bank.example/"), 0);
        spans.step(&started(0, 1), 0);
        let mut timeline = spans.finish(1_000);
        timeline.ask(&child(0).to_string(), 500, "a person");
        timeline.ask(&child(1).to_string(), 500, "a person");
        let shown = lines(&timeline, &id(), Screen::new(None, None));
        assert!(shown[2].contains(" ███"), "{shown:#?}");
        assert!(shown[2].contains("███???"), "{shown:#?}");
        assert!(shown[2].ends_with("???>  … 1ms waits for a person"), "{shown:#?}");
        assert!(shown.iter().any(|line| line.contains("? outcome unknown")), "{shown:#?}");
    }

    /// On a terminal rows fit.
    #[test]
    fn rows_fit_a_terminal() {
        for columns in [40, 50, 60, 70, 80, 100, 160] {
            let shown = drawn(&everything(), 1_000, Screen::new(Some(columns), None));
            for line in &shown {
                assert!(width(line) <= columns, "{columns}: {line}");
                assert!(!line.contains('\u{1b}'), "{line:?}");
            }
            assert!(shown.iter().any(|line| line.contains("POST https:")), "{shown:#?}");
        }
        let shown = drawn(&everything(), 1_000, Screen::new(Some(80), None));
        assert_eq!(
            format!("\n{}\n", shown[..8].join("\n")),
            "
                                              0s       1ms
order                                         ██████████─>  … 1ms
支払い                        9c4f1a2b.0  ×2  ██···███      ✓ 600us
  attempt 1: Transient: try\u{fffd}[2J again
POST https://bank.example/c…              ×2         ███    ✓ 200us 402
  attempt 1: not sent: no route
GET https://bank.example/                              █    ✓ 10us 200
POST https://mail.example/                             ██   ? 40us Indeterminate
"
        );
    }

    /// Of many steps the first and the last are shown, and how many were left out.
    #[test]
    fn a_long_execution_is_shown_by_its_ends() {
        let mut events = Vec::new();
        for number in 0..5_060_u32 {
            let at = u64::from(number);
            events.push((at, scheduled(number, InvokeKind::Function, "step")));
            events.push((at, started(number, 1)));
            events.push((at, completed(number, 1, Outcome::Ok(Payload::json("1")))));
        }
        let shown = drawn(&events, 5_060, Screen::new(None, None));
        assert_eq!(shown.len(), 1 + 1 + 40 + 1 + 40 + 2);
        assert!(shown[2].contains("step   9c4f1a2b.0 "), "{}", shown[2]);
        let between = "… 4,980 steps between; `indelible journal 9c4f1a2b` has all";
        assert_eq!(shown[42].trim(), between);
        assert!(shown[43].contains("9c4f1a2b.5020 "), "{}", shown[43]);
    }

    /// An execution that has done nothing yet is one row.
    #[test]
    fn nothing_yet() {
        let shown = drawn(&[], 0, Screen::new(None, None));
        assert!(shown[1].starts_with("+0.000000s  order  █>  "), "{shown:#?}");
        assert!(shown[1].ends_with("  … 0s") && width(&shown[1]) == 100, "{shown:#?}");
    }

    /// Commas between thousands.
    #[test]
    fn numbers_can_be_read() {
        let numbers = [0, 7, 999, 1_000, 4_980, 1_234_567];
        assert_eq!(numbers.map(thousands), ["0", "7", "999", "1,000", "4,980", "1,234,567"]);
    }
}
