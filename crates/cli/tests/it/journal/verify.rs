//! `indelible journal verify`.

use std::io::Write as _;

use indelible_journal::{Attempt, Event};

use crate::journal::run::{journal, spawn};
use crate::journal::script::Script;

const FULL_EXAMPLE: &str = "crates/cli/tests/fixtures/full-example.jsonl";
const FULL_KEY: &str = "02ab89c43f02872173fe25688344665a573e736e9aacd4917e80ceb58594443d@1";

fn greet(operation: &str) -> Script {
    Script::root("greet", operation, "2026-03-14T09:26:53Z", "null")
}

/// A journal that starts an invoke that was never scheduled (SE-1).
pub(crate) fn illegal() -> Script {
    let mut script = greet("illegal");
    let promise_id = script.child(0);
    script
        .push_unchecked(Event::InvokeStarted { promise_id, attempt: Attempt::FIRST })
        .push_unchecked(Event::ExecutionResumed)
        .push_unchecked(Event::ExecutionResumed);
    script
}

#[test]
fn legal_journals_are_listed() {
    let expected = format!("ok   {FULL_KEY}  Completed  25 events\n");
    journal(&["verify", FULL_EXAMPLE], "").well(&expected);
    let order = journal(&["verify", "examples/journals/order.jsonl"], "");
    assert_eq!((order.code, order.stderr.as_str()), (Some(0), ""), "{}", order.stdout);
    let fixture = journal(&["verify", "crates/journal/tests/fixtures/journal-v2.jsonl"], "");
    assert_eq!((fixture.code, fixture.stderr.as_str()), (Some(0), ""), "{}", fixture.stdout);
    assert_eq!(fixture.stdout.lines().count(), 3);
}

#[test]
fn executions_may_be_interleaved_and_unfinished() {
    let (mut first, second) = (greet("1"), greet("2"));
    let second_line = second.lines();
    let started = first.lines();
    let finished = first.at(5).finish("1").lines();
    let file = format!("{started}{second_line}{}", &finished[started.len()..]);
    journal(&["verify", "-"], &file).well(&format!(
        "ok   {}  Completed  2 events\nok   {}  Running  1 event\n",
        first.key(),
        second.key()
    ));
    // Neither a missing line break at the end nor Windows' own matters.
    let windows = file.trim_end().replace('\n', "\r\n");
    assert_eq!(journal(&["verify", "-"], &windows).code, Some(0));
}

#[test]
fn a_malformed_line_has_line_and_column_and_the_rest_is_checked() {
    let (first, second) = (greet("1"), greet("2"));
    let file = format!("{}{{\"v\":2,\"w\":2}}\n\n{}", first.lines(), second.lines());
    let ran = journal(&["verify", "-"], &file);
    ran.wrong(
        "error: standard input, line 2, column 10: unknown field `w`, expected one of `v`, \
         `execution`, `sequence`, `timestamp`, `event`, `data`\n\
         error: standard input, line 3, column 1: the line is blank; every line is one event\n\
         error: standard input: 1 of 2 executions cut short by a line that cannot be read\n\
         hint: the format is described in docs/formats/journal-jsonl.md\n",
    );
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);

    let report = journal(&["verify", "--json", "-"], &file).json();
    assert_eq!(report["ok"], false);
    assert_eq!(report["executions"][1]["execution"], second.key().to_string());
    assert_eq!(report["executions"][1]["ok"], true);
    assert_eq!(report["executions"][1]["verdict"], "ok", "no line after its own is in doubt");
    assert_eq!(report["executions"][0]["verdict"], "cut");
    assert_eq!((&report["v"], &report["complete"]), (&1.into(), &false.into()));
    assert_eq!(report["malformed"][0]["line"], 2);
    assert_eq!(report["malformed"][0]["column"], 10);
}

#[test]
fn an_empty_file_and_a_missing_file_are_errors() {
    journal(&["verify", "-"], "").wrong(
        "error: standard input: no events\n\
         hint: an export has one event a line; see docs/formats/journal-jsonl.md\n",
    );
    journal(&["verify", "no/such.jsonl"], "").wrong(
        "error: cannot read no/such.jsonl: No such file or directory (os error 2)\n\
         hint: give a file of JSON Lines, or - for standard input\n",
    );
}

#[test]
fn bytes_that_are_not_text_have_a_column() {
    let mut child = spawn(&["verify", "-"]);
    child.stdin.take().unwrap().write_all(b"{\"v\":\xff}\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: standard input, line 1, column 6: not UTF-8\n"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn arguments_that_make_no_sense_exit_with_2() {
    assert_eq!(journal(&["verify"], "").code, Some(2));
    assert_eq!(journal(&["verify", "-", "--colour"], "").code, Some(2));
    assert_eq!(journal(&["inspect"], "").code, Some(2));
}

#[test]
fn a_closed_pipe_is_quiet() {
    for arguments in [&["verify", "-"][..], &["show", "-", "--timeline"], &["show", "-", "--json"]]
    {
        let mut child = spawn(arguments);
        // Closed before the child writes: it cannot write before it has read its input.
        drop(child.stdout.take());
        child.stdin.take().unwrap().write_all(greet("1").lines().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn a_violation_has_rule_line_sequence_and_reason_and_the_rest_is_checked() {
    let (illegal, legal) = (illegal(), greet("2"));
    let file = format!("{}{}", illegal.lines(), legal.lines());
    let ran = journal(&["verify", "-"], &file);
    let (bad, ok) = ran.stdout.split_once('\n').unwrap();
    let start = format!("bad  {}  SE-1 at line 2, sequence 1: ", illegal.key());
    assert!(bad.starts_with(&start), "{bad}");
    assert!(bad.ends_with(" (2 events after it not checked)"), "{bad}");
    assert_eq!(ok, format!("ok   {}  Running  1 event\n", legal.key()));
    ran.wrong("error: standard input: 1 of 2 executions not legal\n");

    let report = journal(&["verify", "--json", "-"], &file).json();
    assert_eq!(report["ok"], false);
    assert_eq!(report["executions"][0]["violation"]["rule"], "SE-1");
    assert_eq!(report["executions"][0]["violation"]["line"], 2);
    assert_eq!(report["executions"][0]["violation"]["sequence"], 1);
    assert_eq!(report["executions"][0]["length"], 1);
    assert_eq!(report["executions"][1]["ok"], true);
}

#[test]
fn show_stops_at_a_violation() {
    let illegal = illegal();
    let ran = journal(&["show", "-"], &illegal.lines());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("length     1 event, then line 2 is refused\n"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("refused: SE-1\n"), "{}", ran.stdout);
    assert!(
        ran.stderr.starts_with("error: standard input, line 2: SE-1 at sequence 1: "),
        "{}",
        ran.stderr
    );
    let document = journal(&["show", "--json", "-"], &illegal.lines()).json();
    assert_eq!(document["verdict"], "bad");
    assert_eq!(document["violation"]["rule"], "SE-1");
    let refused = &document["violation"]["event"];
    assert_eq!(refused["description"], "InvokeStarted(\"root.0\", attempt=1)");
    assert_eq!((&refused["sequence"], &refused["line"]), (&1.into(), &2.into()));
    assert_eq!(document["events"].as_array().unwrap().len(), 1);
}
