//! What `docs/guarantees.md` promises of an HTTP effect, cell by cell: its class, how its first
//! attempt ends, and when the engine crashes. Each cell is run, and must come to what the table
//! says: the outcome, and how many requests left.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_journal::{Ending, ExecutionId};
use indelible_runtime::Options;

use crate::support::wire::Wire;
use crate::support::{House, KEEP, by_hand, returned};

const DOCUMENT: &str = include_str!("../../../../docs/guarantees.md");

/// How the first attempt ends; all others are answered 200.
const ENDS: [(&str, &str); 9] = [
    ("answered 200", "200"),
    ("answered 404", "404"),
    ("answered 429", "429,200"),
    ("answered 502", "502,200"),
    ("connection lost", "unknown,200"),
    ("no answer in time", "late,200"),
    ("could not connect", "unsent,200"),
    ("not allowed", "refused"),
    ("answer too large", "large"),
];

/// When the engine crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Never,
    /// It is scheduled, and has not begun.
    Scheduled,
    /// Its start is durable, and it has not left.
    Started,
    /// It has left, and nothing came back.
    InFlight,
    /// Its end is known, and not durable.
    Ended,
    /// What came of its end is durable.
    Durable,
}

/// In the order of the table's columns.
const MOMENTS: [Moment; 6] = [
    Moment::Never,
    Moment::Scheduled,
    Moment::Started,
    Moment::InFlight,
    Moment::Ended,
    Moment::Durable,
];

/// The tables, by their headings: method, and more of the request.
const CLASSES: [(&str, &str, &str); 4] = [
    ("idem", "PUT", ""),
    ("not idem", "POST", ""),
    ("not idem, held for a person", "POST", r#","hold":true"#),
    ("not idem, with a reconciler that finds it", "POST", r#","settle_ms":1000"#),
];

fn work(house: &House) {
    for _ in 0..4 {
        house.work();
        house.settle();
    }
    house.work();
}

/// What a cell comes to: its outcome, and how many requests left.
fn cell(method: &str, more: &str, path: &str, moment: Moment) -> String {
    let none = Options { effects_in_flight_max: 0, ..by_hand(KEEP) };
    let mut house = House::new(if moment == Moment::Scheduled { none } else { by_hand(KEEP) });
    let wire = Wire::new();
    wire.knows(1);
    house.http = wire.clone();
    house.reopen();
    house.deploy("behaviours");
    wire.get_stuck(moment == Moment::Started);
    wire.wait(matches!(moment, Moment::InFlight | Moment::Ended));
    let spec =
        format!(r#"{{"method":"{method}","url":"http://peer/{path}","backoff_ms":10{more}}}"#);
    let id = house.start("effect", "sends", &spec);
    work(&house);
    match moment {
        Moment::Never | Moment::Durable => {}
        Moment::Scheduled => assert_eq!(wire.count(), 0),
        Moment::Started => assert_eq!((wire.count(), wire.open()), (0, 1)),
        Moment::InFlight => assert_eq!((wire.count(), wire.open()), (1, 1)),
        Moment::Ended => {
            house.disk.hold();
            wire.go_on();
            house.work();
        }
    }
    if moment != Moment::Never {
        house.options = by_hand(KEEP);
        crash(&mut house);
        wire.cut();
        wire.get_stuck(false);
        wire.wait(false);
    }
    house.work_through();
    format!("{} · {}", outcome(&house, &id), wire.left())
}

/// What was not durable is lost.
fn crash(house: &mut House) {
    house.disk.die_now();
    house.disk.release();
    house.crash();
}

fn outcome(house: &House, id: &ExecutionId) -> String {
    let row = house.row(id);
    if !row.standing.is_terminal() {
        let unresolved = house.wait(house.engine().unresolved(None, 2)).unwrap();
        assert_eq!(unresolved.len(), 1, "it neither ends nor waits for a person");
        return "held".to_owned();
    }
    let ending: Ending = house.ending(id);
    let json: serde_json::Value = serde_json::from_str(&returned(&ending)).unwrap();
    match (json["error"].as_str(), json["status"].as_u64()) {
        (Some(error), _) => error.to_owned(),
        (None, status) => status.unwrap().to_string(),
    }
}

/// The rows of the table under a heading: the first cell, and the others.
fn table(heading: &str) -> Vec<(String, Vec<String>)> {
    let start = format!("### {heading}\n");
    let section = DOCUMENT.split_once(&start).unwrap_or_else(|| panic!("no table {heading}")).1;
    let lines = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        (cells.next().unwrap(), cells.collect())
    })
    .collect()
}

fn every_cell_of(heading: &str) {
    let (_, method, more) = CLASSES.iter().find(|(name, ..)| *name == heading).unwrap();
    let promised = table(heading);
    let mut wrong = String::new();
    for (number, (end, path)) in ENDS.iter().enumerate() {
        let cells: Vec<_> =
            MOMENTS.iter().map(|moment| cell(method, more, path, *moment)).collect();
        let expected = (end.to_string(), cells.clone());
        if promised.get(number) != Some(&expected) {
            wrong.push_str(&format!("| {end} | {} |\n", cells.join(" | ")));
        }
    }
    assert!(wrong.is_empty(), "docs/guarantees.md promises something else of {heading}:\n{wrong}");
    assert_eq!(promised.len(), ENDS.len());
}

/// V-23, V-28, V-34, C-29, C-41: sent again whenever the outcome is unknown; never Indeterminate.
#[test]
fn idem() {
    every_cell_of("idem");
}

/// V-24, V-27, V-35, V-46, V-48, C-29, C-41: never sent again when the outcome is unknown.
#[test]
fn not_idem() {
    every_cell_of("not idem");
}

/// D5, C-38: the same, and a person is asked.
#[test]
fn not_idem_held_for_a_person() {
    every_cell_of("not idem, held for a person");
}

/// D5, C-38: the same, and the reconciler is asked.
#[test]
fn not_idem_with_a_reconciler_that_finds_it() {
    every_cell_of("not idem, with a reconciler that finds it");
}
