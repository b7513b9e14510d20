//! The examples do what they say, parked and replayed, and through crashes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_journal::{Ending, ErrorKind, ExecutionId, Micros};
use indelible_runtime::{Options, Pace, Parking};
use serde_json::{Value, json};

use crate::support::{House, KEEP, by_hand, failed, returned};

/// In each way of running.
fn houses(component: &str) -> impl Iterator<Item = House> {
    let lockstep = Options { pace: Pace::Lockstep, ..by_hand(KEEP) };
    [by_hand(KEEP), by_hand(Parking::Drop), lockstep].into_iter().map(move |options| {
        let house = House::new(options);
        house.deploy(component);
        house
    })
}

/// The functions that an execution called, in order.
fn called(house: &House, id: &ExecutionId) -> Vec<String> {
    let children = house.tree(id).into_iter().skip(1);
    children.map(|(key, _)| house.row(key.execution_id()).function.to_string()).collect()
}

fn order(item: &str, cents: u64) -> String {
    json!({ "id": "o-1", "item": item, "quantity": 2, "cents": cents }).to_string()
}

#[test]
fn an_order_is_shipped() {
    for house in houses("order-saga") {
        let (id, ending) = house.run("order-saga/order", &order("tea", 500));
        assert_eq!(returned(&ending), "\"parcel o-1\"");
        assert_eq!(called(&house, &id), ["reserve", "charge", "ship"]);
    }
}

#[test]
fn an_order_that_fails_is_undone_in_reverse() {
    for house in houses("order-saga") {
        let (id, ending) = house.run("order-saga/order", &order("glass", 500));
        assert_eq!(failed(&ending).kind, ErrorKind::UserError);
        assert_eq!(failed(&ending).message, "ship: the carrier does not take glass");
        assert_eq!(called(&house, &id), ["reserve", "charge", "ship", "refund", "release"]);

        let (id, ending) = house.run("order-saga/order", &order("tea", 100_001));
        assert!(failed(&ending).message.contains("above the limit"));
        assert_eq!(called(&house, &id), ["reserve", "charge", "release"]);
    }
}

/// Cancelled at each of its steps, an order is undone as far as it was done, and no further.
#[test]
fn an_order_that_is_cancelled_is_undone() {
    // In lockstep a cancel can come between any two changes of an execution.
    let options = Options { pace: Pace::Lockstep, ..by_hand(KEEP) };
    let mut seen = std::collections::BTreeSet::new();
    for commits in 1.. {
        let mut house = House::new(options.clone());
        house.deploy("order-saga");
        let request = house.request("one", "order-saga/order", &order("tea", 500));
        house.disk.dies_after(commits);
        let _ = house.wait(house.engine().start(request.clone()));
        house.work();
        let died = house.disk.is_dead();
        house.crash();
        let id = house.engine_start(request);
        if house.row(&id).standing.is_terminal() {
            if !died {
                break;
            }
            continue;
        }
        house.cancel(&id);
        house.work_through();
        let calls = called(&house, &id);
        let undoes = |name: &str| ["refund", "release", "recall"].contains(&name);
        let undone = calls.iter().filter(|name| undoes(name)).count();
        let mut done = 0;
        for (key, records) in house.tree(&id).iter().skip(1) {
            let completed = records.last().unwrap().event.name() == "ExecutionCompleted";
            let undoing = undoes(house.row(key.execution_id()).function.as_str());
            done += usize::from(completed && !undoing);
        }
        match house.ending(&id) {
            Ending::Cancelled(_) => assert_eq!(undone, done, "{calls:?}"),
            // It was too late.
            Ending::Completed(_) => assert_eq!(done, 3),
            other => panic!("{other:?}"),
        }
        seen.insert(done);
    }
    assert!(seen.len() > 2, "the cancel came at every stage: {seen:?}");
}

#[test]
fn an_expense_is_decided() {
    let expense = json!({ "who": "ann", "cents": 9_900, "seconds": 3_600 }).to_string();
    for house in houses("approval") {
        let id = house.start("one", "approval/approve", &expense);
        house.work();
        house.pass(Micros::from_secs(1_800));
        house.signal(&id, "decision", &json!({ "by": "bob", "approved": true }).to_string());
        house.work();
        assert_eq!(returned(&house.ending(&id)), "\"approved by bob\"");

        let (_, ending) = house.run("approval/approve", &expense);
        assert_eq!(returned(&ending), "\"refused: nobody decided in time\"");
        let small = json!({ "who": "ann", "cents": 10, "seconds": 1 }).to_string();
        let (_, ending) = house.run("approval/approve", &small);
        assert_eq!(returned(&ending), "\"approved: small enough\"");
    }
}

#[test]
fn a_hundred_pieces_of_work() {
    for house in houses("fan-out") {
        let (id, ending) = house.run("fan-out/summarize", "null");
        let summary: Value = serde_json::from_str(&returned(&ending)).unwrap();
        assert_eq!(summary, json!({ "done": 99, "longest": 118, "failed": [27] }));
        assert_eq!(house.tree(&id).len(), 101);
    }
}

#[test]
fn a_job_is_asked_about_less_and_less() {
    for house in houses("polling") {
        // After 0, 1, 3, 7, … and then every 60 seconds.
        let (_, ending) = house.run("polling/await_job", "300");
        assert_eq!(returned(&ending), "11");
    }
}

/// Input that the function does not take is an error that says where.
#[test]
fn input_that_makes_no_sense() {
    for house in houses("approval") {
        let request = house.request("a", "approval/approve", "{\"who\": 7}");
        let refused = house.wait(house.engine().start(request)).unwrap_err().to_string();
        assert!(refused.contains("approve") && refused.contains("`cents` is missing"), "{refused}");
    }
}
