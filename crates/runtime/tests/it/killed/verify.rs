//! What the store must hold when everything is over, read without an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use indelible_journal::{Event, ExecutionId, Journal, JournalKey, Outcome, Record};
use indelible_records::check;
use indelible_records::listing::{self, Filter};
use indelible_records::{TABLES, journals, queue, timers};
use indelible_sim::agree::{agree, end_in_order};
use indelible_store::{Store, embedded};
use indelible_test_store::outcome;
use serde_json::Value;

use crate::killed::promises::{Decision, Kind, Operation, Promises, read_token, token};

type Tree = Vec<(JournalKey, Vec<Record>)>;

/// Everything that was acknowledged is there, once, and nothing else is.
pub(crate) fn verify(folder: &Path, promises: &Promises) {
    let store =
        embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default()).unwrap();
    let findings = check::check(&store, &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    let left = queue::next(&store, None, 10).unwrap().value;
    assert!(left.is_empty(), "left in the queue: {left:?}");
    let left = timers::next(&store, None, 10).unwrap().value;
    assert!(left.is_empty(), "left among the timers: {left:?}");

    let mut seen = BTreeSet::new();
    for keys in trees(&store) {
        let tree: Tree = keys.into_iter().map(|key| (key.clone(), events(&store, &key))).collect();
        agree(&tree).and_then(|()| end_in_order(&tree)).unwrap();
        let number = operation_of(&tree);
        assert!(seen.insert(number), "op-{number} has two executions");
        let operation = promises.operations.get(number).expect("somebody asked for it");
        tree_is_right(number, operation, &tree);
    }
    assert_eq!(seen.len(), promises.operations.len(), "an operation has no execution");
    store.close().unwrap();
}

/// The journals of each tree.
fn trees(store: &Store) -> Vec<Vec<JournalKey>> {
    let snapshot = store.snapshot().unwrap();
    let filter = Filter { with_children: true, ..Filter::default() };
    let mut trees: BTreeMap<ExecutionId, Vec<JournalKey>> = BTreeMap::new();
    let mut cursor = None;
    loop {
        let page = listing::list(&snapshot, &filter, cursor.as_ref(), 1_000).unwrap().value;
        for row in page.executions {
            let root = ExecutionId::root_of(*row.key.execution_id().root());
            trees.entry(root).or_default().push(row.key);
        }
        cursor = page.next;
        if cursor.is_none() {
            let mut trees: Vec<_> = trees.into_values().collect();
            trees.iter_mut().for_each(|keys| keys.sort());
            return trees;
        }
    }
}

fn events(store: &Store, key: &JournalKey) -> Vec<Record> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let page = journals::read(store, key, from, 1_000).unwrap().value;
        all.extend(page.records);
        next = page.next;
    }
    all
}

/// The attempts at the root of a tree, in order.
fn roots(tree: &Tree) -> impl Iterator<Item = &(JournalKey, Vec<Record>)> {
    tree.iter().filter(|(key, _)| key.execution_id().is_root())
}

/// Which operation a tree came from.
fn operation_of(tree: &Tree) -> usize {
    let (key, records) = roots(tree).next().expect("a tree has a root");
    let Event::ExecutionStarted(started) = &records[0].event else { panic!("{key}") };
    let operation = started.idempotency_key.as_ref().expect("it came from an operation");
    operation.operation_id.as_str().strip_prefix("op-").unwrap().parse().unwrap()
}

fn tree_is_right(number: usize, operation: &Operation, tree: &Tree) {
    let attempts: Vec<_> = roots(tree).collect();
    let wanted = if matches!(operation.kind, Kind::CollectAgain { .. }) { 2 } else { 1 };
    assert_eq!(attempts.len(), wanted, "attempts at op-{number}");
    let (key, records) = attempts.last().unwrap();
    assert_eq!(Some(key.execution_id().to_string()), operation.execution, "op-{number}");
    let journal = Journal::recover(key.clone(), records.clone()).unwrap();
    let ending = outcome::text(journal.ending().unwrap());
    assert_eq!(ending, operation.expected(number), "op-{number}: {:?}", operation.kind);
    assert_eq!(operation.shown.as_ref(), Some(&ending), "op-{number}");
    signals_are_right(number, operation, records);
    for (_, records) in attempts {
        consumed_once(number, records);
    }
    if let Kind::Travel { stops, decision } = operation.kind {
        bookings_are_right(number, stops, decision, records);
    }
}

/// Every sending arrived at most once, those that were acknowledged did, and nothing else did.
fn signals_are_right(number: usize, operation: &Operation, records: &[Record]) {
    let mut arrived = BTreeMap::new();
    for record in records {
        let Event::SignalDelivered { payload, delivery_id, .. } = &record.event else { continue };
        let payload: Value = serde_json::from_slice(&payload.bytes).unwrap();
        let token = payload["token"].as_str().unwrap().to_owned();
        let (of, input, sent) = read_token(&token);
        assert_eq!(of, number, "{token} came to op-{number}");
        assert!(sent <= operation.inputs[input].sent, "{token} was never sent");
        let before = arrived.insert(token, delivery_id.get());
        assert_eq!(before, None, "a signal came to op-{number} twice");
    }
    for (place, input) in operation.inputs.iter().enumerate() {
        let (sent, delivery) = input.acknowledged.expect("all was acknowledged");
        if let Some(delivery) = delivery {
            let token = token(number, place, sent);
            assert_eq!(arrived.get(&token), Some(&delivery), "{token} was acknowledged");
        }
    }
}

/// The guest got each delivery once in an attempt.
fn consumed_once(number: usize, records: &[Record]) {
    let mut consumed = BTreeSet::new();
    for record in records {
        if let Event::SignalReceived { signal_name, delivery_id, .. } = &record.event {
            let new = consumed.insert((signal_name.clone(), *delivery_id));
            assert!(new, "op-{number} consumed {signal_name} #{delivery_id} twice");
        }
    }
}

/// What was booked stays booked, or is taken back once, the last first.
fn bookings_are_right(number: usize, stops: u64, decision: Decision, records: &[Record]) {
    let booked = done(records, "book");
    let unbooked = done(records, "unbook");
    if decision == Decision::Confirm {
        assert_eq!(unbooked, [""; 0], "op-{number}");
    } else {
        let back: Vec<String> = booked.iter().rev().cloned().collect();
        assert_eq!(unbooked, back, "op-{number}");
    }
    if decision != Decision::Cancel {
        let all: Vec<String> = (0..stops).map(|stop| stop.to_string()).collect();
        assert_eq!(booked, all, "op-{number}");
    }
}

/// What calls of a function returned, in the order in which they ended.
fn done(records: &[Record], function: &str) -> Vec<String> {
    let mut called = BTreeSet::new();
    let mut done = Vec::new();
    for record in records {
        match &record.event {
            Event::InvokeScheduled { promise_id, function_name, .. }
                if function_name.as_str() == function =>
            {
                called.insert(promise_id.clone());
            }
            Event::InvokeCompleted { promise_id, result: Outcome::Ok(payload), .. }
                if called.contains(promise_id) =>
            {
                done.push(String::from_utf8(payload.bytes.to_vec()).unwrap());
            }
            _ => {}
        }
    }
    done
}
