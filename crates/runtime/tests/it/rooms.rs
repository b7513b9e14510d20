//! Rooms that are brought along (D14): the counter of `docs/rooms.md` has turns, timers, messages and
//! recovery from the same host as trees of executions. What was acknowledged is counted, and what was
//! passed on arrives once, wherever the process dies.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use bytes::Bytes;
use indelible_journal::{
    ComponentDigest, Event, Micros, Namespace, OperationId, OperationKey, Payload,
};
use indelible_records::{Room, RoomKey, check, queue, timers};
use indelible_runtime::rooms::RoomStart;
use indelible_runtime::{Actor, EngineError, Options, Pace};
use indelible_sim::counter::{self, Ask, COUNTERS, Counter, Standing};
use indelible_store::Batch;

use crate::support::{House, KEEP, by_hand, returned};

fn house(options: Options) -> House {
    let mut house = House::new(options);
    house.rooms = counter::room();
    house.tables = counter::tables();
    house.reopen();
    house
}

fn ask(house: &House, number: u8, ask: &Ask) -> Result<Standing, EngineError> {
    let answer = house.engine().ask_room::<Counter>(counter::key(number), ask.clone());
    Ok(house.wait(answer)?.unwrap())
}

/// Everything that is due happens, and every message is applied, acknowledged and forgotten.
fn settle(house: &House) {
    for _ in 0..20 {
        house.work_through();
        house.settle();
    }
}

fn standing(house: &House, number: u8) -> Standing {
    let row = house.engine().store().get(COUNTERS, &counter::key(number).key).unwrap().value;
    row.map_or_else(Standing::default, |row| serde_json::from_slice(&row).unwrap())
}

/// No message is left on either side but the numbers of what is settled.
#[track_caller]
fn nothing_is_left(house: &House) {
    let counted = check::count(house.engine().store()).unwrap();
    let rows = |name: &str| counted.iter().find(|one| one.table == name).map_or(0, |one| one.rows);
    assert_eq!((rows("timers"), rows("queue")), (0, 0));
    assert!(rows("outbox") <= 1 && rows("applied") <= 1, "{counted:?}");
    assert_eq!(house.engine().readings().trees, 0, "no machine stays in memory");
}

#[test]
fn a_counter_counts_and_passes_on() {
    let house = house(by_hand(KEEP));
    assert_eq!(ask(&house, 1, &Ask::Add(5)).unwrap().count, 5);
    assert_eq!(ask(&house, 1, &Ask::Lend(3, 2, 1_000)).unwrap().count, 8);
    assert_eq!(standing(&house, 2).count, 0);
    settle(&house);
    assert_eq!((standing(&house, 1).count, standing(&house, 1).passed_on), (8, 3));
    assert_eq!(standing(&house, 2).count, 3);
    assert_eq!(ask(&house, 2, &Ask::Read).unwrap().count, 3);
    settle(&house);
    nothing_is_left(&house);
}

/// D2, D13: the process dies after every single commit, in both paces. What was acknowledged is there,
/// what was passed on arrives once, and the next process has nothing left of it.
#[test]
fn a_death_after_every_commit() {
    for pace in [Pace::Ahead, Pace::Lockstep] {
        for commits in 0.. {
            let mut house = house(Options { pace, ..by_hand(KEEP) });
            house.disk.dies_after(commits);
            let mut acknowledged = 0;
            for (amount, to) in [(5, 2), (7, 3)] {
                if ask(&house, 1, &Ask::Lend(amount, to, 1_000)).is_ok() {
                    acknowledged += amount;
                }
            }
            if !house.disk.is_dead() {
                settle(&house);
            }
            let died = house.disk.is_dead();
            house.crash();
            settle(&house);
            let lent = standing(&house, 1);
            assert!((acknowledged..=12).contains(&lent.count), "{acknowledged}: {lent:?}");
            assert_eq!(lent.passed_on, lent.count, "after {commits} commits");
            let arrived = standing(&house, 2).count + standing(&house, 3).count;
            assert_eq!(arrived, lent.count, "after {commits} commits, {pace:?}");
            nothing_is_left_of(&house, 2);
            if !died {
                break;
            }
        }
    }
}

#[track_caller]
fn nothing_is_left_of(house: &House, channels: u64) {
    let counted = check::count(house.engine().store()).unwrap();
    let rows = |name: &str| counted.iter().find(|one| one.table == name).map_or(0, |one| one.rows);
    assert_eq!(rows("timers"), 0);
    assert!(rows("outbox") <= channels && rows("applied") <= channels, "{counted:?}");
}

/// Rows and requests of a room that this engine was not opened with: the caller is refused, what is
/// stored stays, and everything else goes on.
#[test]
fn a_room_that_nobody_brought() {
    let mut house = house(by_hand(KEEP));
    ask(&house, 1, &Ask::Lend(3, 2, 1_000)).unwrap();
    let stranger = RoomKey { room: 200, key: Bytes::from_static(b"\0\x10x") };
    let mut batch = Batch::in_slots(stranger.slot());
    queue::put_room(&mut batch, 1, &stranger);
    let store = house.engine().store().clone();
    let position = house.wait(store.submit(batch)).unwrap();
    house.wait(store.durable(position)).unwrap();
    drop(store);
    house.crash();
    settle(&house);
    assert_eq!(standing(&house, 2).count, 3, "the others go on");
    assert!(house.engine().store().damage().places() > 0, "it is noted");
    let left = queue::next(house.engine().store(), None, 10).unwrap().value;
    assert_eq!(left, [queue::Row::Room(1, stranger.clone())]);
    let refused = house.wait(house.engine().ask_room::<Counter>(stranger, Ask::Read));
    assert!(matches!(refused, Err(EngineError::NoRoom(200))), "{refused:?}");
    // Without its room, a timer stays where it is.
    ask(&house, 1, &Ask::Lend(3, 2, 1_000)).unwrap();
    house.rooms = Default::default();
    house.crash();
    house.pass(Micros::from_secs(10));
    house.work();
    let left = timers::next(house.engine().store(), None, 10).unwrap().value;
    assert!(matches!(&left[..], [timers::Row::Room(timer)] if timer.key == counter::key(1)));
    assert_eq!(Room::from_number(200), Some(Room::Other(200)));
}

/// What makes no sense to a machine changes nothing, and others go on.
#[test]
fn a_request_that_makes_no_sense() {
    let house = house(by_hand(KEEP));
    ask(&house, 1, &Ask::Add(1)).unwrap();
    let asked = house.engine().ask_room::<Counter>(counter::key(1), Ask::Add(u64::MAX));
    let refused = house.wait(asked).unwrap();
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(ask(&house, 1, &Ask::Add(1)).unwrap().count, 2);
}

/// An execution that cannot begin, because its version cannot be read, refuses the one request that
/// asks for it: the other requests of the same turn are committed.
#[test]
fn a_start_that_fails_fails_alone() {
    let house = house(by_hand(KEEP));
    house.deploy("script");
    let (first, _) = house.run("script/main", r#"[{"return":1}]"#);
    let Event::ExecutionStarted(started) = house.events(&first).remove(0).event else { panic!() };
    let start = |name: &str, version| {
        Ask::Start(Box::new(RoomStart {
            operation: OperationKey {
                namespace: Namespace::new("tests").unwrap(),
                operation_id: OperationId::new(name).unwrap(),
            },
            version,
            called: "script/main".to_owned(),
            input: Payload::json(r#"[{"return":7}]"#),
            actor: Actor::new("ada"),
        }))
    };
    let unknown = ComponentDigest::from_bytes([9; 32]);
    let ask = |ask| house.engine().ask_room::<Counter>(counter::key(1), ask);
    let (added, refused, begun) = house.wait(async {
        tokio::join!(
            ask(Ask::Add(5)),
            ask(start("lost", unknown)),
            ask(start("found", started.component_digest)),
        )
    });
    assert_eq!(added.unwrap().unwrap().count, 5);
    let refused = refused.unwrap().unwrap_err();
    assert!(refused.contains("no persist function script/main"), "{refused}");
    assert_eq!(begun.unwrap().unwrap().count, 6);
    settle(&house);
    let all = house.wait(house.engine().list(&Default::default(), None, 10)).unwrap().executions;
    assert_eq!(all.len(), 2, "one was run before, and one was begun");
    for row in &all {
        assert!(["1", "7"].contains(&&*returned(&house.ending(row.key.execution_id()))));
    }
}
