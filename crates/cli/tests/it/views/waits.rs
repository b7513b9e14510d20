//! `indelible show`: what an execution waits for, of every kind.

use serde_json::{Value, json};

use crate::views::filter::filtered;
use crate::views::kit::House;

/// What the page says of the wait, and the rows below it.
fn waits(house: &House, id: &str) -> (String, String) {
    let page = filtered(&house.prints(&["show", id]));
    assert!(page.contains("\nstate  blocked\n"), "{page}");
    let (head, steps) = page.split_once("\n\n[axis]\n").unwrap();
    let waits = head.split_once("\nwaits  ").unwrap().1;
    let steps = steps.split_once("\n\n[legend]").unwrap().0;
    (waits.to_owned(), steps.to_owned())
}

#[track_caller]
fn check(house: &House, function: &str, input: &Value, kind: &str, said: &str, steps: &str) {
    let id = house.start(&format!("behaviours/{function}"), input);
    house.until_waits(&id, kind);
    let (waits, rows) = waits(house, &id);
    assert_eq!(waits, said);
    assert_eq!(rows, steps);
}

/// Signals, timers, calls and join sets: each says what it is, since when, and until when.
#[test]
fn inside_the_house() {
    let house = House::new(&["behaviours", "approval"]);
    check(
        &house,
        "wait_signal",
        &json!("go"),
        "signal",
        "for signal `go`, since [ago]",
        "[at]  wait_signal  [bar]  … [took]\n[at]  signal go  [bar]  … [took]",
    );
    check(
        &house,
        "sleep_ms",
        &json!(7_200_000),
        "timer",
        "for a timer, since [ago], due [until] ([time])",
        "[at]  sleep_ms  [bar]  … [took]\n[at]  sleep [took]  [bar]  … [took]",
    );
    check(
        &house,
        "cleanup",
        &json!(7_200_000),
        "call",
        "for sleep_ms ([id].0), attempt 1, since [ago]",
        "[at]  cleanup  [bar]  … [took]\n[at]  sleep_ms  [id].0  [bar]  … [took]",
    );
    let id =
        house.start("approval/approve", &json!({ "who": "ann", "cents": 9900, "seconds": 600 }));
    house.until_waits(&id, "signal");
    let (said, _) = waits(&house, &id);
    assert_eq!(
        said,
        "for signal `decision`, since [ago]\n  for a timer, since [ago], due [until] ([time])"
    );
}

/// Requests: in flight, before the next attempt, and several of them in a join set.
#[test]
fn for_the_outside() {
    let house = House::new(&["behaviours"]);
    let hangs = house.request("POST", "hang", &json!({}));
    check(
        &house,
        "sends",
        &hangs,
        "http",
        "for POST http://127.0.0.1:PORT/do/hang, attempt 1, since [ago]",
        "[at]  sends  [bar]  … [took]\n[at]  POST http://127.0.0.1:PORT/do/hang  [bar]  … [took]",
    );
    let waits_long = json!({ "backoff_ms": 3_600_000 });
    let later = house.request("GET", "status/429", &waits_long);
    let id = house.start("behaviours/sends", &later);
    house.until(&id, |detail| detail["waits_for"][0]["due"].is_string());
    let (said, steps) = waits(&house, &id);
    assert_eq!(
        said,
        "for GET http://127.0.0.1:PORT/do/status/429: attempt 1 failed, the next [until] ([time])"
    );
    assert!(steps.ends_with("\n  attempt 1: NotPerformed: the response was 429"), "{steps}");
    check(
        &house,
        "sends_at_once",
        &json!([hangs, hangs]),
        "join_set",
        "for the next result of a join set, since [ago]\n  \
         for POST http://127.0.0.1:PORT/do/hang, attempt 1, since [ago]\n  \
         for POST http://127.0.0.1:PORT/do/hang, attempt 1, since [ago]",
        "[at]  sends_at_once  [bar]  … [took]\n\
         [at]  join set, 0 of 2  [bar]  … [took]\n\
         [at]  POST http://127.0.0.1:PORT/do/hang  [bar]  … [took]\n\
         [at]  POST http://127.0.0.1:PORT/do/hang  [bar]  … [took]",
    );
}

/// D5: it is unknown whether a request happened: the page says why, and gives the very command that
/// says how it ended.
#[test]
fn for_a_person() {
    let house = House::new(&["behaviours"]);
    let held = house.request("POST", "drop-after", &json!({ "hold": true }));
    let id = house.start("behaviours/sends", &held);
    house.until_waits(&id, "unresolved");
    let (said, _) = waits(&house, &id);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "for a person: POST http://127.0.0.1:PORT/do/drop-after, attempt 1, since [ago]"
    );
    assert!(lines[1].starts_with("  its outcome is unknown: "), "{said}");
    assert_eq!(lines[2], "  look at the evidence, then record what happened:");
    assert_eq!(lines[3], "  indelible unresolved [id].0");
    assert_eq!(
        lines[4],
        "  indelible resolve [id].0 happened|did-not-happen|run-again|accept-unknown --reason TEXT"
    );
    let page = house.prints_json(&["show", &id, "--json"]);
    assert_eq!(page["waits_for"][0]["kind"], "unresolved");
    assert_eq!(page["steps"][0]["outcome"], "open");
    let drawn = house.prints(&["show", &id]);
    let step = drawn.lines().find(|line| line.contains("  POST http")).unwrap();
    assert!(step.contains("?>  … ") && step.ends_with(" waits for a person"), "{drawn}");
}

/// D5: the same one call down: the page of the root says so too, and gives the right command.
#[test]
fn for_a_person_further_down() {
    let house = House::new(&["behaviours"]);
    let held = house.request("POST", "drop-after", &json!({ "hold": true }));
    let id = house.start("behaviours/sends_by_call", &held);
    house.until_waits(&format!("{id}.0"), "unresolved");
    let (said, _) = waits(&house, &id);
    let down = "[id].0 waits for a person: POST http://127.0.0.1:PORT/do/drop-after, attempt 1";
    assert!(said.starts_with("for sends ([id].0), attempt 1"), "{said}");
    assert!(said.contains(down), "{said}");
    assert!(said.contains("indelible resolve [id].0.0 happened|"), "{said}");
    let drawn = house.prints(&["show", &id]);
    let step = drawn.lines().find(|line| line.contains("  sends  ")).unwrap();
    assert!(step.contains("?>  … ") && step.ends_with(" waits for a person"), "{drawn}");
    let promise = format!("{}.0.0", &id[..8]);
    let arguments = [
        "resolve",
        &promise,
        "happened",
        "--status",
        "200",
        "--body",
        "",
        "--reason",
        "in their book",
    ];
    assert_eq!(house.run(&arguments).code, Some(0));
    house.over(&id);
}
