//! `indelible journal show`.

use indelible_journal::{AwaitKind, ErrorKind, Event, Failure, InvokeKind, Micros};

use crate::journal::run::journal;
use crate::journal::script::Script;

const FULL_EXAMPLE: &str = "crates/cli/tests/fixtures/full-example.jsonl";

fn greet(operation: &str) -> Script {
    Script::root("greet", operation, "2026-03-14T09:26:53Z", "null")
}

/// What is drawn below the header.
#[track_caller]
fn body(arguments: &[&str], file: &str) -> String {
    let ran = journal(arguments, file);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    ran.stdout.split_once("\n\n").unwrap().1.to_owned()
}

#[test]
fn the_full_example_is_a_table() {
    let expected = include_str!("../../fixtures/full-example.table.txt");
    journal(&["show", FULL_EXAMPLE], "").well(expected);
    let file = include_str!("../../fixtures/full-example.jsonl");
    journal(&["show", "-"], file).well(expected);
}

#[test]
fn the_full_example_and_the_order_are_timelines() {
    journal(&["show", FULL_EXAMPLE, "--timeline"], "")
        .well(include_str!("../../fixtures/full-example.timeline.txt"));
    journal(&["show", "examples/journals/order.jsonl", "--timeline"], "")
        .well(include_str!("../../fixtures/order.timeline.txt"));
}

#[test]
fn one_event_is_a_journal_too() {
    let file = greet("1").lines();
    assert_eq!(
        body(&["show", "-"], &file),
        "\
seq        time  event                                              state
───  ──────────  ─────────────────────────────────────────────────  ─────
  0  +0.000000s  ExecutionStarted(greet, null, component=f71492aa)  Running
"
    );
    let drawn = body(&["show", "-", "--timeline"], &file);
    let (bar, legend) = drawn.split_once("\n\n").unwrap();
    let (axis, bar) = bar.split_once('\n').unwrap();
    assert_eq!(axis, "         0s");
    assert!(bar.starts_with("greet    █> ") && bar.ends_with("  … 0s"), "{bar}");
    assert_eq!(legend, "█ running   > not ended\n");
}

#[test]
fn very_long_and_very_short_spans_are_drawn() {
    let mut script = greet("1");
    script
        .sleep(Micros::from_secs(30 * 86_400))
        .call(InvokeKind::Function, "blink", "null")
        .start(1, 1)
        .complete(1, 1, "null")
        .wait(&[0], AwaitKind::Single)
        .at(30 * 86_400_000_000);
    let timer = script.child(0);
    let error = Box::new(Failure::new(ErrorKind::Timeout, "too late"));
    script
        .push(Event::TimerFired { promise_id: timer })
        .resume()
        .push(Event::ExecutionFailed { error });
    let expected = "
                   0s              7d12h            15d             22d12h        30d
greet              ──────────────────────────────────────────────────────────────────  ✗ 30d Timeout
sleep 30d  root.0  ──────────────────────────────────────────────────────────────────  ✓ 30d
blink      root.1  │                                                                   ✓ 0s

─ waiting   │ an instant
";
    assert_eq!(format!("\n{}", body(&["show", "-", "--timeline"], &script.lines())), expected);
}

#[test]
fn cancelling_buffered_signals_and_abandoned_waits_are_drawn() {
    let mut script = greet("1");
    script
        .at(100_000)
        .deliver("go", "1")
        .at(300_000)
        .receive("go", "1")
        .sleep(Micros::from_millis(200));
    let name = "stop".parse().unwrap();
    let promise_id = script.child(2);
    script.wait(&[1, 2], AwaitKind::SignalOr { name, promise_id }).at(500_000);
    let timer = script.child(1);
    script
        .push(Event::TimerFired { promise_id: timer })
        .resume()
        .at(600_000)
        .push(Event::CancelRequested { reason: "enough".into() })
        .at(1_000_000)
        .push(Event::ExecutionCancelled { reason: "enough".into() });
    let drawn = body(&["show", "-", "--timeline"], &script.lines());
    let rows: Vec<&str> = drawn.lines().collect();
    assert!(rows[1].starts_with("greet        "), "{drawn}");
    assert!(rows[1].ends_with("▒  ⊘ 1s Cancelled"), "{drawn}");
    assert!(rows[2].starts_with("go           root.0") && rows[2].contains(" ╌╌"), "{drawn}");
    assert!(rows[3].starts_with("sleep 200ms  root.1") && rows[3].contains(" ──"), "{drawn}");
    assert!(rows[4].starts_with("stop         (root.2)"), "{drawn}");
    assert!(rows[4].ends_with("- 200ms not received"), "{drawn}");
    assert_eq!(
        rows[6..],
        [
            "█ running   ▒ cancelling   ─ waiting   ╌ signal buffered   ⊘ cancelled",
            "(root.N) not used: the next call has this id"
        ]
    );
}

#[test]
fn the_same_as_data() {
    let table = journal(&["show", "--json", FULL_EXAMPLE], "").json();
    assert_eq!(table["v"], 1);
    assert_eq!(table["verdict"], "ok");
    assert_eq!(table["complete"], true);
    assert_eq!(table["malformed"], serde_json::json!([]));
    assert_eq!(table["function"], "workflow");
    assert_eq!(table["status"], "Completed");
    assert_eq!(table["length"], 25);
    assert_eq!(table["duration_us"], 1_502_500);
    assert_eq!(table["events"][4]["event"], "InvokeStarted");
    assert_eq!(table["events"][4]["time_us"], 1_900);
    assert_eq!(table["events"][4]["state"], "Blocked");

    let timeline = journal(&["show", "--json", "--timeline", FULL_EXAMPLE], "").json();
    assert_eq!(timeline["spans"][0]["kind"], "execution");
    let email = &timeline["spans"][2];
    assert_eq!(email["name"], "send_email");
    assert_eq!(email["attempts"], 2);
    assert_eq!(email["outcome"], "ok");
    assert_eq!(email["start_us"], 41_420);
    assert_eq!(email["end_us"], 1_502_400);
    let states: Vec<&str> = email["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|segment| segment["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["scheduled", "running", "retrying", "running"]);
}

#[test]
fn one_of_several_executions_must_be_named() {
    let (first, second) = (greet("1"), greet("2"));
    let file = format!("{}{}", first.lines(), second.lines());
    let mut keys = [first.key().to_string(), second.key().to_string()];
    keys.sort();
    journal(&["show", "-"], &file).wrong(&format!(
        "error: standard input holds 2 executions\n  {}  greet  Running\n  {}  greet  Running\n\
         hint: choose one with --execution; its first digits are enough\n",
        keys[0], keys[1]
    ));
    journal(&["show", "-", "--execution", "beef\u{1b}"], &file).wrong(&format!(
        "error: none of 2 executions in standard input matches `beef\\u{{1b}}`\n  \
         {}  greet  Running\n  {}  greet  Running\n\
         hint: --execution takes a key, an execution's id, or the beginning of one\n",
        keys[0], keys[1]
    ));
    let key = second.key();
    for name in [key.to_string(), key.execution_id().to_string(), format!("{key:#}")] {
        let ran = journal(&["show", "-", "--execution", &name], &file);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.starts_with(&format!("execution  {key}\n")), "{}", ran.stdout);
    }
}

#[test]
fn two_attempts_of_one_execution_must_be_told_apart() {
    let file = greet("1").lines();
    let again =
        file.replacen("@1\"", "@2\"", 1).replace("\"attempts\":\"1\"", "\"attempts\":\"2\"");
    let (file, key) = (format!("{file}{again}"), greet("1").key().clone());
    let prefix = &key.to_string()[..8];
    journal(&["show", "-", "--execution", prefix], &file).wrong(&format!(
        "error: `{prefix}` matches 2 executions in standard input\n  {key}  greet  Running\n  \
         {}  greet  Running\n\
         hint: give more digits, or add the attempts after an @\n",
        key.next_attempt().unwrap()
    ));
    let ran = journal(&["show", "-", "--execution", &format!("{prefix}@2")], &file);
    assert!(ran.stdout.contains("attempts   2\n"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_malformed_line_is_named_after_what_could_be_read() {
    let file = format!("{}{{\"v\":7}}\n", greet("1").lines());
    let ran = journal(&["show", "-"], &file);
    let length = "length     1 event, then line 2 cannot be read\n";
    assert!(ran.stdout.contains(length), "{}", ran.stdout);
    ran.wrong(
        "error: standard input, line 2, column 6: unsupported version 7; this build reads \
         version 2\n",
    );
}

#[test]
fn an_empty_file_is_an_error() {
    journal(&["show", "-"], "").wrong(
        "error: standard input: no events\n\
         hint: an export has one event a line; see docs/formats/journal-jsonl.md\n",
    );
}

#[test]
fn an_execution_may_be_named_as_tables_name_it() {
    let script = greet("1");
    for name in ["root", "root@1", &script.key().to_string()[..3]] {
        assert_eq!(journal(&["show", "-", "--execution", name], &script.lines()).code, Some(0));
    }
    let ran =
        journal(&["show", "-", "--execution", "root"], &(script.lines() + &greet("2").lines()));
    assert!(ran.stderr.starts_with("error: `root` matches 2 executions in"), "{}", ran.stderr);
    let ran = journal(&["show", "-", "--execution", ""], &script.lines());
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn help_says_what_is_printed_and_how_it_exits() {
    let show = journal(&["show", "--help"], "").stdout;
    for part in ["COLUMNS", "Exit codes:", "Examples:", "--timeline --json", "root.1"] {
        assert!(show.contains(part), "{part}: {show}");
    }
    let verify = journal(&["verify", "--help"], "").stdout;
    for part in ["Exit codes:", "Examples:", "Verdicts:"] {
        assert!(verify.contains(part), "{part}: {verify}");
    }
}
