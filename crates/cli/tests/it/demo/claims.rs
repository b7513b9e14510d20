//! What it claims, and that this is what happened.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::demo::house::{House, text};

/// D5, V-69, C-31: with 12 orders that are placed twice and two kills, every card is charged once,
/// as the payment service counts; one order is held and resolved; a retry loop charges some twice.
/// It needs nothing but itself: it runs elsewhere, with an empty home.
#[test]
fn every_card_is_charged_once() {
    let house = House::new();
    // A seed whose kills come early, at 5 and at 8 orders: a whole wave of them is left.
    let output = house.run(&["--orders", "12", "--kills", "2", "--seed", "3", "--json"]);
    let (said, events) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{events}");
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&found["v"], &found["ok"]), (&1.into(), &true.into()));
    assert_eq!(found["seed"], 3);
    let own = &found["indelible"];
    assert_eq!(own["charged_once"], 12, "{found}");
    assert_eq!((&own["charged_more"], &own["not_charged"]), (&0.into(), &0.into()));
    assert_eq!((&own["charges"], &own["crashes"]), (&12.into(), &2.into()));
    assert_eq!((&found["completed"], &found["executions"]), (&12.into(), &12.into()));
    // Each lost answer was asked about, and nothing is open.
    assert!(found["asked"].as_u64() >= Some(3), "{found}");
    assert_eq!(found["asked"], found["settled"]);

    let held = found["held"].as_array().unwrap();
    assert_eq!(held.len(), 1, "{found}");
    assert_eq!(held[0]["in_the_book"], true);
    assert_eq!(held[0]["resolution"], "happened");
    assert_eq!(held[0]["completed"], true);
    let command = held[0]["command"].as_str().unwrap();
    let promise = held[0]["promise"].as_str().unwrap();
    assert!(command.starts_with(&format!("indelible resolve {promise} happened")), "{command}");
    assert!(command.ends_with("--reason 'it is in their book'"), "{command}");

    let other = &found["retry_loop"];
    assert!(other["charged_more"].as_u64() >= Some(1), "{found}");
    assert_eq!(other["not_charged"], 0);
    assert!(other["charges"].as_u64() > Some(12), "{found}");
    // The retry loop ends with its work: on a busy machine, before the demo kills it again.
    let crashes = other["crashes"].as_u64().unwrap();
    assert!((1..=2).contains(&crashes), "{found}");

    // Events are for people, and are where they do not disturb.
    assert_eq!(events.matches("kill -9 (").count() as u64, 2 + crashes, "{events}");
    assert!(!events.contains('\u{1b}'), "{events}");
    let keys: BTreeSet<_> = found.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, documented());
    house.is_left_clean();
}

/// The keys that are described, without those that are optional.
fn documented() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/cli-json.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("\n## `demo --json`\n").unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows =
        rows.take_while(|line| line.starts_with('|')).filter(|row| !row.contains("optional"));
    let names = rows.filter_map(|row| row.split('|').nth(1));
    names.flat_map(|names| names.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Into a pipe it is lines: no escapes, and the same claims. What is kept can be looked at.
#[test]
fn lines_for_a_pipe_and_a_folder_to_keep() {
    let house = House::new();
    let output = house.run(&["--orders", "9", "--kills", "1", "--seed", "3", "--keep", "kept"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    assert!(!said.contains('\u{1b}'), "{said}");
    assert!(said.starts_with("indelible demo, seed 3\n"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    for claim in [
        "kill -9 (1 of 1)",
        "each order continues where it was",
        "was it charged? the service cannot tell",
        "the outcome is unknown, so it is held",
        "a person looked it up and said: happened",
        "it continues with the orders not marked done",
        "the card is charged twice",
        "Each order was placed twice, under one key: 9 executions. Seed 3.",
        "was Indeterminate: ",
        "indelible new my-shop",
        "docs/guides/first-workflow.md",
    ] {
        assert!(said.contains(claim), "{claim}: {said}");
    }
    let row = |name: &str| -> Vec<u32> {
        let line = said.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    assert_eq!(row("orders "), [9, 9]);
    assert_eq!(row("crashes survived"), [1, 1]);
    let (once, more) = (row("cards charged once"), row("cards charged twice or more"));
    assert_eq!((once[0], more[0]), (9, 0));
    assert!(more[1] >= 1 && once[1] + more[1] == 9, "{said}");
    assert_eq!(row("cards not charged"), [0, 0]);

    let kept = house.elsewhere().join("kept");
    assert!(said.contains(&format!("indelible serve --data {}/data", kept.display())), "{said}");
    let server = crate::support::process::Server::start(&kept.join("data"), &[]);
    let listed = server.get("/v1/executions?function=order&limit=100").json();
    let listed = listed["executions"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 9);
    assert!(listed.iter().all(|execution| execution["state"] == "completed"), "{listed:?}");
    house.is_left_clean();
}

/// The smallest, and more kills than there are orders: each is carried out, whatever is in flight.
#[test]
fn one_order_and_three_kills() {
    let house = House::new();
    let output = house.run(&["--orders", "1", "--kills", "3", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let own = &found["indelible"];
    assert_eq!((&own["charged_once"], &own["crashes"]), (&1.into(), &3.into()), "{found}");
    assert_eq!(found["retry_loop"]["charged_more"], 1, "{found}");
    house.is_left_clean();
}
