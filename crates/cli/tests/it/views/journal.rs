//! `indelible journal EXECUTION`: the events that a server has.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use crate::views::filter::filtered;
use crate::views::kit::House;

/// The same table and the same bars as of a file, and JSON Lines that the other commands read.
#[test]
fn a_journal() {
    let house = House::new(&["behaviours"]);
    let id = house.call("behaviours/calls_remote", &json!(["behaviours/flaky", 2]));
    let lines = house.prints(&["journal", &id, "--json"]);
    assert!(lines.starts_with("{\"v\":2,"), "{lines}");

    let through = |arguments: &[&str]| {
        let mut command = house.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let verified = through(&["journal", "verify", "-"]);
    assert_eq!(filtered(&verified).matches("ok").count(), 1, "{verified}");
    assert!(verified.starts_with(&format!("ok   {id}@1  Completed")), "{verified}");
    assert_eq!(through(&["journal", "show", "-"]), house.prints(&["journal", &id]));
    assert_eq!(
        through(&["journal", "show", "-", "--timeline"]),
        house.prints(&["journal", &id, "--timeline"])
    );

    let child = format!("{id}.0");
    let first = house.prints(&["journal", &child, "--attempts", "1.1"]);
    assert!(first.contains("status     Failed"), "{first}");
    let last = house.prints(&["journal", &child]);
    assert!(last.contains("attempts   1.2") && last.contains("status     Completed"), "{last}");

    let ran = house.run(&["journal", &id, "--attempts", "7"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    for nonsense in [
        &["journal"][..],
        &["journal", "last", "--attempts", "x"],
        &["journal", "last", "--json", "--timeline"],
        &["journal", "last", "verify", "-"],
    ] {
        assert_eq!(house.run(nonsense).code, Some(2), "{nonsense:?}");
    }
}

/// More events than one answer of the server has.
#[test]
fn a_long_journal() {
    let house = House::new(&["bench"]);
    let id = house.call("bench/steps", &json!(400));
    let events = house.prints_json(&["show", &id, "--json"])["execution"]["events"].clone();
    let lines = house.prints(&["journal", &id, "--json"]);
    assert_eq!(json!(lines.lines().count()), events);
    assert!(lines.lines().count() > 1_000);
}
