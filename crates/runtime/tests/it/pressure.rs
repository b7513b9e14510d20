//! Too much at once: more guests than there is room for, more left to be done than fits into
//! memory, more asked for than can be done. What waits is bounded, and no caller waits for ever.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use indelible_journal::{Ending, ExecutionId, Micros, Payload, SignalName};
use indelible_records::queue;
use indelible_runtime::{Attribution, EngineError, Options, Parking, ParkingBounds, StartRefused};
use indelible_store::Batch;
use serde_json::{Value, json};

use crate::support::disk::Disk;
use crate::support::{House, KEEP, by_hand, guests, returned};

fn house(room: ParkingBounds) -> House {
    let house = House::new(by_hand(Parking::Keep(room)));
    house.deploy("script");
    house
}

/// Starts a program of `script`, and works until it waits.
fn start(house: &House, id: &str, program: &Value) -> ExecutionId {
    let id = house.start(id, "script/main", &program.to_string());
    house.work();
    id
}

fn waits_for_go() -> Value {
    json!([{ "signal": "go" }, { "return": "gone" }])
}

fn go(house: &House, id: &ExecutionId) {
    house.signal(id, "go", "1");
    house.work();
    assert_eq!(returned(&house.ending(id)), "\"gone\"");
}

/// D4: when more wait than there is room for, those go that have waited longest. They are out of
/// memory altogether, and run again over their journals when they go on.
#[test]
fn those_that_waited_longest_make_room() {
    let house = house(ParkingBounds::for_guests(3));
    let ids: Vec<_> = (0..5).map(|n| start(&house, &format!("w{n}"), &waits_for_go())).collect();
    let readings = house.engine().readings();
    assert_eq!((readings.parked, readings.evicted, readings.replays), (3, 2, 0));
    assert_eq!(readings.trees, 3, "what waits without a guest is in the store");
    // The last three are there, the first two are not.
    for (id, replays) in [(4, 0), (2, 0), (0, 1), (3, 1), (1, 2)].map(|(n, r)| (&ids[n], r)) {
        go(&house, id);
        assert_eq!(house.engine().readings().replays, replays, "{id:#}");
    }
    assert_eq!(house.engine().readings().parked, 0);
}

/// D4: one that came back to wait has not waited long.
#[test]
fn whoever_went_on_is_the_last_to_be_evicted() {
    let house = house(ParkingBounds::for_guests(2));
    let twice = json!([{ "signal": "again" }, { "signal": "go" }, { "return": "gone" }]);
    let ids: Vec<_> = (0..2).map(|n| start(&house, &format!("w{n}"), &twice)).collect();
    house.signal(&ids[0], "again", "1");
    house.work();
    let third = start(&house, "w2", &waits_for_go());
    assert_eq!(house.engine().readings().evicted, 1);
    go(&house, &ids[0]);
    go(&house, &third);
    assert_eq!(house.engine().readings().replays, 0);
    house.signal(&ids[1], "again", "1");
    go(&house, &ids[1]);
    assert_eq!(house.engine().readings().replays, 1);
}

/// D4: guests have a budget of memory together: one that has grown makes others go, and itself if
/// it alone is too large.
#[test]
fn memory_is_a_budget() {
    let room = ParkingBounds { bytes_max: 400 << 10, ..ParkingBounds::for_guests(100) };
    let house = house(room);
    let small: Vec<_> =
        (0..4).map(|n| start(&house, &format!("small-{n}"), &waits_for_go())).collect();
    let readings = house.engine().readings();
    assert_eq!((readings.parked, readings.evicted), (4, 0));
    assert!(readings.parked_bytes <= room.bytes_max, "{}", readings.parked_bytes);
    let grown = json!([{ "call_big": ["c", "nobody", 1_000_000] }, { "signal": "go" },
        { "return": "gone" }]);
    let large = start(&house, "large", &grown);
    let readings = house.engine().readings();
    assert_eq!((readings.parked, readings.evicted, readings.parked_bytes), (0, 5, 0));
    for id in small.iter().chain([&large]) {
        go(&house, id);
    }
}

/// D4: a guest that is known to wait long is not kept at all, and one that has waited long is not
/// kept any longer.
#[test]
fn long_waits_are_not_kept() {
    let room = ParkingBounds { wait_max: Micros::from_secs(60), ..ParkingBounds::for_guests(100) };
    let house = house(room);
    let sleeps = |ms: u64| json!([{ "timer": ["t", ms] }, { "await": "t" }, { "return": ms }]);
    let long = start(&house, "long", &sleeps(61_000));
    assert_eq!(house.engine().readings().parked, 0);
    let short = start(&house, "short", &sleeps(59_000));
    let waits = start(&house, "waits", &waits_for_go());
    assert_eq!(house.engine().readings().parked, 2);
    house.pass(Micros::from_secs(59));
    assert_eq!(returned(&house.ending(&short)), "59000");
    assert_eq!(house.engine().readings().parked, 1);
    house.pass(Micros::from_secs(2));
    assert_eq!(returned(&house.ending(&long)), "61000");
    assert_eq!((house.engine().readings().parked, house.engine().readings().trees), (0, 0));
    go(&house, &waits);
}

/// An eviction while the guest is about to go on anyway changes nothing; neither does one for no
/// reason.
#[test]
fn an_eviction_and_a_wake_up_at_once() {
    let house = house(ParkingBounds::for_guests(10));
    let id = start(&house, "one", &waits_for_go());
    let name = SignalName::new("go").unwrap();
    let mut signal =
        pin!(house.engine().signal(&id, &name, Payload::json("1"), Attribution::default()));
    assert!(poll(signal.as_mut()).is_pending());
    assert_eq!(house.engine().evict(5), 1);
    house.engine().nudge(&id);
    house.wait(signal).unwrap();
    house.work();
    assert_eq!(returned(&house.ending(&id)), "\"gone\"");
    assert_eq!(house.engine().readings().replays, 1);
    assert_eq!(house.engine().evict(5), 0);
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Trees that stop half-way in their calls: each is in the stored queue.
fn half_way(count: usize) -> (House, Vec<ExecutionId>) {
    // Without hurry: on a busy machine a turn would end before its 32 guests, and another's first
    // turn would not come.
    let guests = crate::support::guests::unhurried();
    let mut house = House::with(Arc::new(Disk::new()), by_hand(KEEP), guests);
    house.deploy("script");
    let program = json!([
        { "repeat": [40, [{ "call": ["c", "main", [{ "return": 1 }]] }]] },
        { "await": "c" },
        { "return": "done" }
    ]);
    let mut ids = Vec::new();
    {
        let engine = house.engine();
        let text = program.to_string();
        let request = |n| house.request(&format!("half-{n}"), "script/main", &text);
        let mut starts: Vec<_> = (0..count).map(|n| Box::pin(engine.start(request(n)))).collect();
        for start in &mut starts {
            assert!(poll(start.as_mut()).is_pending());
        }
        // One turn for each: 32 of its 41 guests.
        for _ in 0..count {
            assert!(engine.step());
        }
        for start in starts {
            ids.push(house.wait_for_disk(start).unwrap().execution_id);
        }
    }
    house.crash();
    (house, ids)
}

/// What another process left is not read into memory at once, what is new does not wait behind
/// it, and all of it goes on.
#[test]
fn what_was_left_goes_on_beside_what_is_new() {
    let (house, ids) = half_way(300);
    let engine = house.engine();
    assert_eq!((engine.readings().trees, engine.readings().recovered), (0, false));
    assert!(engine.step());
    assert!(engine.readings().trees <= 128, "{:?}", engine.readings());
    let request = house.request("new", "script/main", "[{\"return\":\"new\"}]");
    let mut new = Box::pin(engine.call(request));
    let mut steps = 0;
    let outcome = loop {
        if let Poll::Ready(outcome) = poll(new.as_mut()) {
            break outcome.unwrap().1;
        }
        assert!(engine.step() || steps > 20, "there is much to do");
        house.settle();
        steps += 1;
        assert!(steps < 20, "it waits behind what was left");
        assert!(engine.readings().trees <= 2 * 128 + 1, "{:?}", engine.readings());
    };
    assert_eq!(outcome, Ending::Completed(Payload::json("\"new\"")));
    assert!(!house.row(&ids[299]).standing.is_terminal(), "not everything was done first");
    house.work();
    assert!(engine.readings().recovered);
    for id in &ids {
        assert_eq!(returned(&house.ending(id)), "\"done\"");
    }
}

/// D14: rows of the queue and of the timers whose room is not known, more of them than are read at
/// once, are told of once and passed over: what is behind them goes on.
#[test]
fn rows_of_unknown_rooms_stop_nothing() {
    let (mut house, ids) = half_way(3);
    let sleeps = json!([{ "timer": ["t", 50] }, { "await": "t" }, { "return": "slept" }]);
    let sleeper = start(&house, "sleeps", &sleeps);
    let mut batch = Batch::new();
    for number in 0..300_u64 {
        let row = [&number.to_be_bytes()[..], &[0x7f], b"key of a room"].concat();
        batch.put(indelible_records::QUEUE, row.clone(), "");
        batch.put(indelible_records::TIMERS, row, "");
    }
    house.engine().store().submit_blocking(batch).unwrap();
    house.settle();
    house.crash();
    house.work_through();
    assert!(house.engine().readings().recovered);
    assert_eq!(returned(&house.ending(&sleeper)), "\"slept\"");
    for id in &ids {
        assert_eq!(returned(&house.ending(id)), "\"done\"");
    }
    // So many places are told; all rows are still there for a person to look at.
    assert_eq!(house.engine().store().damage().places(), indelible_store::PLACES_MAX);
    let trouble = house.told.trouble.lock().unwrap();
    assert!(
        trouble.iter().any(|what| what.contains("it belongs to an unknown room")),
        "{trouble:?}"
    );
    assert!(trouble.len() <= indelible_store::PLACES_MAX + 1, "{}", trouble.len());
    let left = queue::next(house.engine().store(), None, 1_000).unwrap().value;
    assert_eq!(left.len(), 300);
}

/// What could run goes on whatever its place in the queue is called, and although something else
/// brought it into memory first; what is over, or waits, loses a place that it should not have.
#[test]
fn places_in_the_queue_are_mended() {
    let (mut house, rows) = half_way(3);
    let store = house.engine().store().clone();
    let left = queue::next(&store, None, 100).unwrap().value;
    let left: Vec<_> = left.into_iter().filter_map(queue::Row::tree).collect();
    assert!(left.len() >= 3, "{left:?}");
    let mut batch = Batch::new();
    for (number, entry) in left.iter().enumerate() {
        queue::delete(&mut batch, entry);
        let moved = queue::Entry { ticket: number as u64, key: entry.key.clone() };
        queue::put(&mut batch, &moved);
    }
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    drop(store);
    house.crash();
    // Loaded by a signal before anybody looks at the queue.
    house.signal(&rows[1], "nothing", "1");
    house.work();
    for id in &rows {
        assert_eq!(returned(&house.ending(id)), "\"done\"");
    }
    let waits = start(&house, "waits", &waits_for_go());
    let mut batch = Batch::new();
    for (ticket, id) in [(7, &waits), (8, &rows[0])] {
        queue::put(&mut batch, &queue::Entry { ticket, key: house.row(id).key });
    }
    let position = house.engine().store().submit_blocking(batch).unwrap();
    house.engine().store().durable(position).wait().unwrap();
    house.crash();
    house.work();
    assert!(queue::next(house.engine().store(), None, 100).unwrap().value.is_empty());
    assert_eq!(house.engine().readings().trees, 0);
    go(&house, &waits);
}

/// Timers that are due at once are told so many at a time; and none is forgotten.
#[test]
fn many_timers_at_once_are_told_by_and_by() {
    let mut house = House::new(by_hand(Parking::Drop));
    house.deploy("script");
    let sleeps = json!([{ "timer": ["t", 1000] }, { "await": "t" }, { "return": 1 }]).to_string();
    let ids: Vec<_> =
        (0..2_500).map(|n| house.start(&format!("s{n}"), "script/main", &sleeps)).collect();
    house.work();
    house.crash();
    house.move_clock(Micros::from_secs(5));
    let engine = house.engine();
    assert_eq!(engine.fire_due().unwrap(), 1_024);
    assert_eq!(engine.fire_due().unwrap(), 0, "there is no room");
    assert_eq!((engine.readings().timers_told, engine.readings().trees), (1_024, 1_024));
    house.work();
    assert_eq!(engine.readings().timers_told, 0);
    for id in &ids {
        assert_eq!(returned(&house.ending(id)), "1");
    }
    assert_eq!(engine.next_due(), None);
}

/// A disk that cannot be read for a moment loses no timer, and delays none for ever.
#[test]
fn a_timer_that_cannot_be_read_is_told_later() {
    let mut house = House::new(by_hand(Parking::Drop));
    house.deploy("script");
    let sleeps = json!([{ "timer": ["t", 1000] }, { "await": "t" }, { "return": 1 }]).to_string();
    let ids: Vec<_> =
        (0..600).map(|n| house.start(&format!("s{n}"), "script/main", &sleeps)).collect();
    house.work();
    house.crash();
    house.move_clock(Micros::from_secs(5));
    // At the first page, and behind it.
    for scans in [0, 2] {
        house.disk.fails_scans_after(scans);
        let told = house.engine().fire_due();
        assert!(told.is_err() == (scans == 0), "{told:?}");
        house.disk.revive();
    }
    house.work();
    for id in &ids {
        assert_eq!(returned(&house.ending(id)), "1");
    }
    assert_eq!(house.engine().readings().timers_told, 0);
}

/// A page of the stored queue that cannot be read for a moment is read later; the observer is told,
/// once.
#[test]
fn what_was_left_and_cannot_be_read_goes_on_later() {
    let (house, ids) = half_way(3);
    house.disk.fails_scans_after(0);
    for _ in 0..3 {
        assert!(!house.engine().step());
        // Time passes, and it is tried again; timers cannot be read either.
        assert!(house.engine().fire_due().is_err());
    }
    assert!(!house.engine().readings().recovered);
    {
        let trouble = house.told.trouble.lock().unwrap();
        assert_eq!(trouble.len(), 1, "{trouble:?}");
        assert!(trouble[0].starts_with("stored queue cannot be read"), "{trouble:?}");
    }
    house.disk.revive();
    house.work();
    for id in &ids {
        assert_eq!(returned(&house.ending(id)), "\"done\"");
    }
    assert!(house.engine().readings().recovered);
}

/// A function with a long queue does not keep calls of another waiting.
#[test]
fn a_long_queue_of_one_function_is_its_own() {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    house.deploy("behaviours");
    let engine = house.engine();
    let mut flood: Vec<_> = (0..1_500)
        .map(|n| Box::pin(engine.start(house.request(&format!("f{n}"), "script/main", "[]"))))
        .collect();
    for start in &mut flood {
        assert!(poll(start.as_mut()).is_pending());
    }
    let readings = engine.readings();
    assert_eq!((readings.runnable, readings.callers_waiting), (1_024, 1_500 - 1_024));
    let mut other = Box::pin(engine.start(house.request("other", "add", "[1,2]")));
    assert!(poll(other.as_mut()).is_pending());
    for _ in 0..2 {
        assert!(engine.step());
    }
    house.settle();
    assert!(poll(other.as_mut()).is_ready(), "it had its turn");
    let all = async {
        for start in flood {
            start.await.unwrap();
        }
    };
    // Each call that leaves lets a waiting one in.
    house.wait(all);
    assert_eq!(engine.readings().callers_waiting, 0);
}

/// A caller that would wait behind too many others is refused, and nothing has changed.
#[test]
fn too_many_callers_are_refused() {
    let options = Options { commands_max: 4, callers_waiting_max: 12, ..by_hand(KEEP) };
    let house = House::new(options);
    house.deploy("script");
    let engine = house.engine();
    let request = |n: usize| house.request(&format!("c{n}"), "script/main", "[]");
    let mut callers: Vec<_> = (0..4).map(|n| Box::pin(engine.start(request(n)))).collect();
    for start in &mut callers {
        assert!(poll(start.as_mut()).is_pending());
    }
    let refused = house.wait(engine.start(request(9)));
    let Err(StartRefused::Engine(EngineError::Busy { waiting: 3 })) = refused else {
        panic!("{refused:?}");
    };
    for start in callers {
        house.wait(start).unwrap();
    }
    let started = house.wait(engine.start(request(9))).unwrap();
    assert!(!started.attached(), "nothing had begun");
}

/// A tree of ten thousand calls takes turns with others: a small call needs no more of them than
/// if it were alone with another small one.
#[test]
fn a_large_tree_does_not_keep_others_waiting() {
    let house = House::with(Arc::new(Disk::new()), by_hand(KEEP), guests::unhurried());
    house.deploy("script");
    let engine = house.engine();
    let large = json!([
        { "repeat": [10_000, [{ "call": ["c", "main", []] }]] }, { "await": "c" }, { "return": 1 }
    ]);
    let large = house.request("large", "script/main", &large.to_string());
    let mut large = Box::pin(engine.call(large));
    assert!(poll(large.as_mut()).is_pending());
    for number in 0..20 {
        assert!(engine.step());
        let small = house.request(&format!("small-{number}"), "script/main", "[]");
        let mut small = Box::pin(engine.start(small));
        assert!(poll(small.as_mut()).is_pending());
        // The large one is of the same function, and first in their flow.
        for _ in 0..2 {
            assert!(engine.step());
        }
        house.settle();
        assert!(poll(small.as_mut()).is_ready(), "it had its turn");
    }
    assert!(poll(large.as_mut()).is_pending(), "the large one is not over");
    assert_eq!(house.wait(large).unwrap().1, Ending::Completed(Payload::json("1")));
}
