//! Trees and payloads so large that one commit cannot hold what happens to them: it becomes
//! several, each a legal state.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::future::{Future, poll_fn};
use std::task::Poll;

use indelible_journal::{Ending, ErrorKind, Payload, SignalName};
use indelible_runtime::{Attribution, Options};
use serde_json::json;

use crate::support::scenario::at_rest;
use crate::support::{House, KEEP, by_hand, failed, returned};

fn house() -> House {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    house
}

/// C-22, C-40: a cancel reaches more calls than one commit has preconditions for.
#[test]
fn a_tree_with_many_calls_is_cancelled() {
    const CALLS: usize = 10_500;
    let house = house();
    let sleep = json!([{ "signal": "never" }]);
    let program = json!([
        { "repeat": [CALLS, [{ "call": ["a", "main", sleep] }]] }, { "signal": "never" },
    ]);
    let id = house.start("one", "script/main", &program.to_string());
    house.work();
    house.cancel(&id);
    house.work_through();
    assert_eq!(house.ending(&id), Ending::Cancelled("enough".to_owned()));
    assert_eq!(house.tree(&id).len(), CALLS + 1);
    at_rest(&house, &id);
}

/// Results of several calls that end in one turn are more than one commit takes.
#[test]
fn large_results_at_once() {
    let house = house();
    let big = json!([{ "big": 4_000_000 }]);
    let program = json!([
        { "set": "s" },
        { "repeat": [30, [{ "call": ["a", "main", big] }, { "submit": ["s", "a"] }]] },
        { "signal": "go" }, { "return": "done" },
    ]);
    let id = house.start("one", "script/main", &program.to_string());
    house.work();
    house.signal(&id, "go", "1");
    house.work_through();
    assert_eq!(returned(&house.ending(&id)), "\"done\"");
    at_rest(&house, &id);
}

/// All of them at once are more than a guest has memory for: that attempt fails, and nothing else.
#[test]
fn large_results_in_one_call() {
    let house = house();
    let big = json!([{ "big": 4_000_000 }]);
    let program = json!([
        { "set": "s" },
        { "repeat": [30, [{ "call": ["a", "main", big] }, { "submit": ["s", "a"] }]] },
        { "take_all": "s" },
    ]);
    let id = house.start("one", "script/main", &program.to_string());
    house.work_through();
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Trap);
    at_rest(&house, &id);
}

/// Signals that come all at once are more than one commit takes; each is acknowledged.
#[test]
fn large_signals_at_once() {
    let house = House::new(Options { signals_buffered_bytes_max: 1 << 30, ..by_hand(KEEP) });
    house.deploy("script");
    let program = json!([{ "signal": "go" }, { "return": "done" }]);
    let id = house.start("one", "script/main", &program.to_string());
    house.work();
    let (id_to, name) = (id.clone(), SignalName::new("other").unwrap());
    let big = Payload::json(vec![b'1'; 4_000_000]);
    let mut sends: Vec<_> = (0..30)
        .map(|_| {
            Box::pin(house.engine().signal(&id_to, &name, big.clone(), Attribution::default()))
        })
        .collect();
    let mut sent = Vec::new();
    house.wait(poll_fn(|context| {
        sends.retain_mut(|send| match send.as_mut().poll(context) {
            Poll::Ready(delivery) => {
                sent.push(delivery.unwrap().value.get());
                false
            }
            Poll::Pending => true,
        });
        if sends.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }));
    sent.sort_unstable();
    assert_eq!(sent, (1..=30).collect::<Vec<_>>());
    house.signal(&id, "go", "1");
    house.work_through();
    assert_eq!(returned(&house.ending(&id)), "\"done\"");
    at_rest(&house, &id);
}
