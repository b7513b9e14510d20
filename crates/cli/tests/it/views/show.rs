//! `indelible show`: executions that run, are held, and are over.

use indelible_records::executions::{self, Standing};
use indelible_records::{self};
use indelible_store::{Batch, embedded};
use indelible_test_store::folder::hand_over;
use serde_json::{Value, json};

use crate::views::filter::filtered;
use crate::views::kit::House;
use crate::views::terminal::{Terminal, seen};

fn glass() -> Value {
    json!({ "id": "o-1", "item": "glass", "quantity": 2, "cents": 500 })
}

/// Everything about one that failed: what it was given, why it failed, and each step with how it
/// ended and the id to go on with.
#[test]
fn one_that_failed() {
    let house = House::new(&["order-saga"]);
    let id = house.call("order-saga/order", &glass());
    let page = house.prints(&["show", &id]);
    assert_eq!(
        filtered(&page),
        "\
function  order
execution  [hash]
state  failed
started  [time], [ago]
took  [took]
version  [id]
namespace  default
operation  [uuid]
input  {\"cents\":500,\"id\":\"o-1\",\"item\":\"glass\",\"quantity\":2}
error  UserError: ship: the carrier does not take glass

[axis]
[at]  order  [bar]  ✗ [took] UserError
[at]  reserve  [id].0  [bar]  ✓ [took]
[at]  charge  [id].1  [bar]  ✓ [took]
[at]  ship  [id].2  [bar]  ✗ [took] UserError
  the carrier does not take glass
[at]  refund  [id].3  [bar]  ✓ [took]
[at]  release  [id].4  [bar]  ✓ [took]

[legend]"
    );
    let child = house.prints(&["show", &format!("{id}.2")]);
    assert_eq!(
        filtered(&child),
        "\
function  ship
execution  [hash].2
state  failed
started  [time], [ago]
took  [took]
version  [id]
namespace  default
operation  [uuid]
called by  [id]
input  {\"id\":\"o-1\",\"item\":\"glass\",\"quantity\":2,\"cents\":500}
error  UserError: the carrier does not take glass

[axis]
[at]  ship  [bar]  ✗ [took] UserError

[legend]"
    );
}

/// Attempts and the reasons of retries: of a call, of a request, and of the execution itself.
#[test]
fn one_with_retries() {
    let house = House::new(&["behaviours"]);
    let call = house.call("behaviours/calls_remote", &json!(["behaviours/flaky", 3]));
    let page = filtered(&house.prints(&["show", &call]));
    let steps = page.split_once("[axis]\n").unwrap().1;
    assert_eq!(
        steps,
        "\
[at]  calls_remote  [bar]  ✓ [took]
[at]  behaviours/flaky  [id].0  ×3  [bar]  ✓ [took]
  attempt 1: Transient: attempt 1 of 3
  attempt 2: Transient: attempt 2 of 3

[legend]"
    );
    let spec = house.request("GET", "seq/status/429,status/429,status/404", &json!({}));
    let request = house.call("behaviours/sends", &spec);
    let page = filtered(&house.prints(&["show", &request]));
    let steps = page.split_once("[axis]\n").unwrap().1;
    assert_eq!(
        steps,
        "\
[at]  sends  [bar]  ✓ [took]
[at]  GET http://127.0.0.1:PORT/do/seq/status/429,status/429,status/404  ×3  [bar]  ✓ [took] 404
  attempt 1: NotPerformed: the response was 429
  attempt 2: NotPerformed: the response was 429

[legend]"
    );
    let failed = house.call("behaviours/fail_transient", &json!("no luck"));
    let page = filtered(&house.prints(&["show", &failed]));
    assert!(
        page.contains(
            "attempt  4\n  1: Transient: no luck\n  2: Transient: no luck\n  3: Transient: no luck\n"
        ),
        "{page}"
    );
    assert!(page.contains("error  Transient: no luck\n"), "{page}");
}

/// Calls and timers in turn.
#[test]
fn one_that_slept_between_calls() {
    let house = House::new(&["script"]);
    let program = json!([
        { "call": ["a", "main", []] }, { "await": "a" },
        { "timer": ["t", 1000] }, { "await": "t" },
        { "call": ["b", "main", []] }, { "await": "b" },
    ]);
    let id = house.call("script/main", &program);
    let page = filtered(&house.prints(&["show", &id]));
    let steps = page.split_once("[axis]\n").unwrap().1;
    assert_eq!(
        steps,
        "\
[at]  main  [bar]  ✓ [took]
[at]  main  [id].0  [bar]  ✓ [took]
[at]  sleep [took]  [bar]  ✓ [took]
[at]  main  [id].2  [bar]  ✓ [took]

[legend]"
    );
}

/// A join set and what was put into it.
#[test]
fn one_that_did_much_at_once() {
    let house = House::new(&["fan-out", "bench"]);
    let id = house.call("fan-out/summarize", &json!(3));
    let page = filtered(&house.prints(&["show", &id]));
    let steps = page.split_once("[axis]\n").unwrap().1;
    assert_eq!(
        steps,
        "\
[at]  summarize  [bar]  ✓ [took]
[at]  join set of 3  [bar]  ✓ [took]
[at]  steps_to_one  [id].1  [bar]  ✓ [took]
[at]  steps_to_one  [id].2  [bar]  ✓ [took]
[at]  steps_to_one  [id].3  [bar]  ✓ [took]

[legend]"
    );
    // Of many steps, the first and the last are there.
    let id = house.call("bench/steps", &json!(1_500));
    let page = filtered(&house.prints(&["show", &id]));
    let steps: Vec<&str> = page.split_once("[axis]\n").unwrap().1.lines().collect();
    assert_eq!(steps.len(), 1 + 40 + 1 + 40 + 2, "{page}");
    assert_eq!(steps[1], "[at]  echo  [id].0  [bar]  ✓ [took]");
    assert_eq!(steps[41], "  … 1,420 steps between; `indelible journal [id]` has all");
    assert_eq!(steps[81], "[at]  echo  [id].1499  [bar]  ✓ [took]");
    let whole = house.prints_json(&["show", &id, "--json"]);
    assert_eq!(whole["steps_left_out"], 1_420);
    assert_eq!(whole["steps"].as_array().unwrap().len(), 80);
}

/// One that was cancelled says so, and why.
#[test]
fn one_that_was_cancelled() {
    let house = House::new(&["behaviours"]);
    let id = house.start("behaviours/wait_signal", &json!("go"));
    house.until_waits(&id, "signal");
    let path = format!("/v1/executions/{id}/cancel");
    assert_eq!(house.server.post(&path, &[], r#"{"reason":"the customer called"}"#).status, 200);
    house.over(&id);
    let page = filtered(&house.prints(&["show", &id]));
    assert!(page.contains("\nstate  cancelled\n"), "{page}");
    assert!(page.contains("\nerror  Cancelled: the customer called\n"), "{page}");
    assert!(page.contains("[at]  wait_signal  [bar]  ⊘ [took] Cancelled\n"), "{page}");
    assert!(page.contains("[at]  signal go  [bar]  - [took] not received\n"), "{page}");
}

/// One that runs, and one that a person has to look at.
#[test]
fn one_that_runs_and_one_that_is_stuck() {
    let house = House::new(&["behaviours"]);
    let running = house.start("behaviours/spin", &Value::Null);
    house.until(&running, |detail| detail["execution"]["state"] == "running");
    let page = filtered(&house.prints(&["show", &running]));
    assert!(page.contains("\nstate  running\n"), "{page}");
    assert!(page.contains("\nso far  [took]\n"), "{page}");
    assert!(page.contains("[at]  spin  [bar]  … [took]"), "{page}");

    let stuck = house.start("behaviours/wait_signal", &json!("go"));
    house.until_waits(&stuck, "signal");
    let house = house.while_down(|data| hold(data, &stuck, "its journal has what it did not do"));
    let page = filtered(&house.prints(&["show", &stuck]));
    assert!(page.contains("\nstate  stuck\n"), "{page}");
    assert!(
        page.contains(
            "\nstuck  its journal has what it did not do\n  \
             `indelible release [id]` lets it continue, `indelible fail [id]` ends it\n"
        ),
        "{page}"
    );
    let listed = filtered(&house.prints(&["ps", "--state", "stuck"]));
    assert_eq!(
        listed,
        "id  function  state  started  took  why\n\
         [id]  wait_signal  stuck  [ago]  [took]  its journal has what it did not do"
    );
}

/// As the engine does when a journal is not what the program would have written (C-25).
fn hold(data: &std::path::Path, id: &str, why: &str) {
    let options = embedded::Options::default();
    let folder = data.join("store");
    let store = embedded::open(&folder, &indelible_records::TABLES, &options).unwrap();
    let before = executions::latest(&store, &id.parse().unwrap()).unwrap().value.unwrap();
    let stuck = Some(why.to_owned());
    let after = executions::Execution { standing: Standing::Stuck, stuck, ..before.clone() };
    let mut batch = Batch::default();
    executions::advance(&mut batch, Some(&before), &after, &[]).unwrap();
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    hand_over(store, &folder);
}

/// On a terminal there are colours, rows fit, and nothing that a guest says moves the cursor.
#[test]
fn on_a_terminal() {
    let house = House::new(&["order-saga", "behaviours"]);
    let id = house.call("order-saga/order", &glass());
    let (code, written) = Terminal::open(house.command(&["show", &id]), 100, 40).end();
    assert_eq!(code, Some(0));
    assert!(written.contains("\u{1b}[31mfailed\u{1b}[0m"), "{written:?}");
    assert!(written.contains("\u{1b}[1morder\u{1b}[0m"), "{written:?}");
    let plain = house.prints(&["show", &id]);
    assert!(!plain.contains('\u{1b}'), "no colours in a pipe: {plain:?}");
    let lines = seen(&written);
    assert_eq!(filtered(&lines.join("\n")), filtered(&plain), "the same without colours");
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");

    let hostile = house.call("behaviours/fail", &json!("\u{1b}[2J\u{202e}\u{7}gone\nhint: rm"));
    let (_, written) = Terminal::open(house.command(&["show", &hostile]), 60, 40).end();
    assert!(!written.contains("\u{1b}[2J") && !written.contains(['\u{7}', '\u{202e}']));
    assert!(
        seen(&written)
            .iter()
            .any(|line| line.contains("UserError: \u{fffd}[2J\u{fffd}\u{fffd}gone"))
    );
    let mut dumb = house.command(&["show", &id]);
    dumb.env("NO_COLOR", "1");
    let (_, written) = Terminal::open(dumb, 100, 40).end();
    assert!(!written.contains('\u{1b}'), "{written:?}");
}

/// What is not there is an error that says what to do; so is a server that is not there.
#[test]
fn one_that_does_not_exist() {
    let house = House::new(&[]);
    let nobody = "0".repeat(64);
    let ran = house.run(&["show", &nobody]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("\nhint: `indelible ps`"));
    let ran = house.run(&["show", "last"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("no execution was started from here"), "{}", ran.stderr);
    assert_eq!(house.run(&["show", "order-1"]).code, Some(2));
    assert_eq!(house.run(&["show"]).code, Some(2));
    let ran = house.run(&["show", "last", "--watch"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("--watch needs a terminal"), "{}", ran.stderr);
    let mut command = house.command(&["show", &nobody]);
    let output = command.env("INDELIBLE_URL", "http://127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
}

/// `--json` has everything whole.
#[test]
fn as_json() {
    let house = House::new(&["order-saga", "behaviours"]);
    let id = house.call("order-saga/order", &glass());
    let page = house.prints_json(&["show", &id, "--json"]);
    assert_eq!(page["v"], 1);
    assert_eq!(page["execution"]["execution_id"], id.as_str());
    assert_eq!(page["execution"]["state"], "failed");
    assert_eq!(page["input"], glass());
    assert_eq!(page["error"]["kind"], "UserError");
    assert_eq!(page["waits_for"], json!([]));
    assert_eq!(page["steps_left_out"], 0);
    let steps = page["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["reserve", "charge", "ship", "refund", "release"]);
    assert_eq!(steps[2]["promise_id"], format!("{id}.2"));
    assert_eq!(
        (&steps[2]["kind"], &steps[2]["outcome"], &steps[2]["error"], &steps[2]["message"]),
        (
            &json!("call"),
            &json!("err"),
            &json!("UserError"),
            &json!("the carrier does not take glass")
        )
    );
    let long = "x".repeat(10_000);
    let id = house.call("behaviours/echo", &json!(long));
    assert_eq!(house.prints_json(&["show", &id, "--json"])["result"], json!(long));
    let page = house.prints(&["show", &id]);
    let lines = page.lines().filter(|line| line.contains("xxx"));
    assert_eq!(lines.count(), 8, "four lines of each: {page}");
}
