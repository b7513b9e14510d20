//! Volatile functions (C-39, C-41): as calls, and as what a client starts. Nothing of one is stored
//! while it goes on, and after a crash it is unknown how it ended.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod calls;
mod released;
mod roots;

use std::sync::Arc;

use crate::support::wire::Wire;
use crate::support::{House, KEEP, by_hand, returned};
use indelible_journal::{Ending, Event, ExecutionId, Outcome};
use indelible_records::check;
use indelible_records::doubts::{self, StateName};
use indelible_records::{EXECUTIONS, JOURNALS, QUEUE, TIMERS};
use indelible_runtime::{Options, Pace, Parking};

/// A house with a wire.
fn house(options: Options) -> (House, Arc<Wire>) {
    let mut house = House::new(options);
    let wire = Wire::new();
    house.http = wire.clone();
    house.reopen();
    house.deploy("behaviours");
    (house, wire)
}

/// Both parkings and both paces.
fn ways() -> Vec<Options> {
    let paces = [Pace::Ahead, Pace::Lockstep];
    let with = |pace| [KEEP, Parking::Drop].map(|parking| Options { pace, ..by_hand(parking) });
    paces.into_iter().flat_map(with).collect()
}

/// A request: method, how attempts end, and more fields.
fn spec(method: &str, path: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    format!(r#"{{"method":"{method}","url":"http://peer/{path}","backoff_ms":10{more}}}"#)
}

/// What a function that sends one request said: its status, or its error; or what else was returned.
#[track_caller]
fn said(ending: &Ending) -> String {
    shown(&serde_json::from_str(&returned(ending)).unwrap())
}

fn shown(json: &serde_json::Value) -> String {
    match (json["error"].as_str(), json["status"].as_u64()) {
        (Some(error), _) => error.to_owned(),
        (None, Some(status)) => status.to_string(),
        (None, None) => json.as_str().map_or_else(|| json.to_string(), str::to_owned),
    }
}

/// Works until everything waits for the wire or a timer.
fn work(house: &House) {
    for _ in 0..5 {
        house.work();
        house.settle();
        std::thread::yield_now();
    }
    house.work();
}

/// How many rows there are: of executions, journals, the queue, timers, unresolved effects.
fn rows(house: &House) -> [u64; 5] {
    let store = house.engine().store();
    let counted = check::count(store).unwrap();
    let [executions, journals, queued, timers] =
        [EXECUTIONS, JOURNALS, QUEUE, TIMERS].map(|table| {
            counted.iter().find(|counted| counted.table == table.name()).map_or(0, |it| it.rows)
        });
    // What has ended as Indeterminate stays open (see C-78): here only what is awaited counts.
    let states = vec![StateName::Held, StateName::Asking];
    let awaited = doubts::Filter { states, ..doubts::Filter::default() };
    let page = doubts::page(store, &awaited, false, None, 100, 1_000).unwrap().value;
    [executions, journals, queued, timers, page.doubts.len() as u64]
}

/// What is stored makes sense, whatever is going on.
#[track_caller]
fn is_sound(house: &House) {
    let findings = check::check(house.engine().store(), &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    assert_eq!(*house.told.stuck.lock().unwrap(), [""; 0], "something is stuck");
    assert_eq!(*house.told.trouble.lock().unwrap(), [""; 0], "something went wrong");
}

/// Everything is over, and nothing of it is left in memory, in the queue or among the timers.
#[track_caller]
fn is_over(house: &House) {
    is_sound(house);
    let [_, _, queued, timers, unresolved] = rows(house);
    assert_eq!((queued, timers, unresolved), (0, 0, 0));
    assert_eq!(house.engine().next_due(), None, "a timer is left");
    let readings = house.engine().readings();
    let left = (readings.trees, readings.runnable, readings.parked, readings.effects_in_flight);
    assert_eq!(left, (0, 0, 0, 0), "something stays in memory");
}

/// The events about calls, without those about anything else.
fn call_events(house: &House, id: &ExecutionId) -> Vec<String> {
    let own = house.events(id).into_iter();
    own.filter_map(|record| match record.event {
        Event::InvokeScheduled { .. } => Some("scheduled".to_owned()),
        Event::InvokeStarted { attempt, .. } => Some(format!("started {attempt}")),
        Event::InvokeRetrying { cause, error, .. } => {
            Some(format!("again {cause:?} {}", error.kind))
        }
        Event::InvokeCompleted { result: Outcome::Ok(_), .. } => Some("ok".to_owned()),
        Event::InvokeCompleted { result: Outcome::Err(error), .. } => Some(error.kind.to_string()),
        _ => None,
    })
    .collect()
}

/// Steps until a future is over or the disk has died. None: it died.
fn until_dead<T>(house: &House, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let waker = std::task::Waker::noop();
    let mut output = None;
    for _ in 0..400 {
        if output.is_none() {
            let poll = future.as_mut().poll(&mut std::task::Context::from_waker(waker));
            if let std::task::Poll::Ready(ready) = poll {
                output = Some(ready);
            }
        }
        house.engine().step();
        house.engine().fire_due().unwrap_or(0);
        if house.disk.is_dead() {
            break;
        }
        house.settle();
    }
    output
}
