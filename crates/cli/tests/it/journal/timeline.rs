//! `indelible journal show --timeline`: what the bars say.

use indelible_journal::{AwaitKind, ErrorKind, Event, InvokeKind, Micros};

use crate::journal::run::journal;
use crate::journal::script::Script;

fn greet() -> Script {
    Script::root("greet", "1", "2026-03-14T09:26:53Z", "null")
}

/// The rows below the header, with a line break before them.
#[track_caller]
fn drawn(script: &Script) -> String {
    let ran = journal(&["show", "-", "--timeline"], &script.lines());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    format!("\n{}", ran.stdout.split_once("\n\n").unwrap().1)
}

#[test]
fn what_has_not_ended_shows_the_state_that_it_is_in() {
    let mut script = greet();
    for name in ["starts", "retries", "waits"] {
        script.call(InvokeKind::Function, name, "null");
    }
    script.start(1, 1).at(1_000_000).start(0, 1).retry(1, 1, "again");
    script.deliver("go", "1").wait(&[0, 1, 2], AwaitKind::All);
    assert_eq!(
        drawn(&script),
        "
                 0s                 250ms              500ms              750ms             1s
greet            ███████████████████████████████████████████████████████████████████████████─>  … 1s
starts   root.0  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░█>  … 1s
retries  root.1  ███████████████████████████████████████████████████████████████████████████·>  … 1s
waits    root.2  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░>  … 1s
go                                                                                          ╌>  … 0s

█ running   ─ waiting   ░ scheduled   · before a retry   ╌ signal buffered   > not ended
"
    );
}

#[test]
fn a_cell_shows_what_held_for_the_most_of_it() {
    let mut script = greet();
    script.call(InvokeKind::Function, "call", "null").at(490_000).wait(&[0], AwaitKind::Single);
    script.at(510_000).start(0, 1).at(999_999).complete(0, 1, "null").resume();
    script.at(1_000_000).finish("null");
    let text = drawn(&script);
    let rows: Vec<&str> = text.lines().collect();
    assert!(
        rows[2].contains(" █") && rows[2].ends_with("─  ✓ 1s"),
        "no running at the end: {text}"
    );
    assert!(rows[3].contains("░█") && rows[3].ends_with("█  ✓ 999ms"), "{text}");
    assert_eq!(rows[2].matches('█').count(), 37, "{text}");
}

#[test]
fn lost_waits_unreceived_signals_and_unknown_outcomes_have_marks() {
    let mut script = greet();
    // A wait for a signal that comes too late has a number that the next call takes.
    script.sleep(Micros::from_millis(200));
    let (name, promise_id) = ("ok".parse().unwrap(), script.child(1));
    script.wait(&[0, 1], AwaitKind::SignalOr { name, promise_id }).at(200_000);
    let promise_id = script.child(0);
    script.push(Event::TimerFired { promise_id }).resume();
    script.at(400_000).deliver("ok", "1").call(InvokeKind::Http, "pay", "1").start(1, 1);
    script.at(600_000).fail(1, 1, ErrorKind::Indeterminate).at(800_000).finish("null");
    assert_eq!(
        drawn(&script),
        "
                       0s           200ms         400ms        600ms    800ms
greet                  ─────────────█████████████████████████████████████████  ✓ 800ms
sleep 200ms  root.0    ──────────────                                          ✓ 200ms
ok           (root.1)  ──────────────                                          - 200ms not received
pay          root.1                               ██████████████               ? 200ms Indeterminate
ok                                                ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  - 400ms not received

█ running   ─ waiting   ╌ signal buffered   ? outcome unknown
(root.N) not used: the next call has this id
"
    );
}

#[test]
fn wide_names_line_up() {
    let mut script = greet();
    for name in ["日本語", "e\u{301}", "abc"] {
        script.call(InvokeKind::Function, name, "null");
    }
    let text = drawn(&script);
    let rows: Vec<&str> = text.lines().skip(2).collect();
    assert!(rows[1].starts_with("日本語  root.0  ░>"), "{text}");
    assert!(rows[2].starts_with("e\u{301}       root.1  ░>"), "{text}");
    assert!(rows[3].starts_with("abc     root.2  ░>"), "{text}");
    let table = journal(&["show", "-"], &script.lines()).stdout;
    assert!(
        table.contains("InvokeScheduled(\"root.0\", 日本語, null)            Running"),
        "{table}"
    );
}
