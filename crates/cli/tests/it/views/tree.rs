//! `indelible tree`: everything that was called.

use serde_json::json;

use crate::views::filter::filtered;
use crate::views::kit::House;
use crate::views::terminal::Terminal;

/// Calls in their order, attempts with what they led to, and a part of a tree.
#[test]
fn a_tree() {
    let house = House::new(&["order-saga", "behaviours"]);
    let order = json!({ "id": "o-1", "item": "book", "quantity": 2, "cents": 500 });
    let id = house.call("order-saga/order", &order);
    assert_eq!(
        filtered(&house.prints(&["tree", &id])),
        "\
order  [id]  completed  [took]
├─ reserve  [id].0  completed  [took]
├─ charge  [id].1  completed  [took]
└─ ship  [id].2  completed  [took]"
    );
    let child = format!("{id}.1");
    assert_eq!(filtered(&house.prints(&["tree", &child])), "charge  [id].1  completed  [took]");

    let retried = json!(["behaviours/calls_remote", ["behaviours/flaky", 2]]);
    let id = house.call("behaviours/calls_remote", &retried);
    let expected = "\
calls_remote  [id]  completed  [took]
└─ calls_remote  [id].0  completed  [took]
  ├─ flaky  [id].0.0  failed  [took]  attempt 1
  └─ flaky  [id].0.0  completed  [took]  attempt 2";
    assert_eq!(filtered(&house.prints(&["tree", &id])), expected);
    let (code, written) = Terminal::open(house.command(&["tree", &id]), 100, 24).end();
    assert_eq!(code, Some(0));
    assert!(
        written.contains("\u{1b}[2m   ├─ flaky\u{1b}[0m"),
        "an earlier one is faint: {written:?}"
    );

    let json = house.prints_json(&["tree", &id, "--json"]);
    assert_eq!(json["v"], 1);
    let executions = json["executions"].as_array().unwrap();
    let attempts: Vec<_> = executions.iter().map(|one| one["attempts"].as_str().unwrap()).collect();
    assert_eq!(attempts, ["1", "1.1", "1.1.1", "1.1.2"]);

    for nobody in ["0".repeat(64), format!("{id}.7")] {
        let ran = house.run(&["tree", &nobody]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert_eq!(house.run(&["tree", &nobody, "--json"]).code, Some(1));
    }
}
