//! What a wall clock that is wrong does to retention: nothing is forgotten before its window is over
//! (C-3).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_idempotency::{ConsumerNamespace, parse_key};
use indelible_journal::{Micros, Timestamp};
use indelible_operations::id;
use indelible_records::audit::AuditSubject;
use indelible_records::settings;
use indelible_runtime::world::Clock as _;
use indelible_runtime::{
    Actor, ControlError, Engine, OpenError, PersonDecision, Retention, Start, StartRefused,
    Verdict, World,
};
use indelible_store::Batch;

use crate::support::{House, KEEP, by_hand};

const HOUR: Micros = Micros::from_secs(3600);
const DAY: Micros = Micros::from_secs(86_400);
const YEAR: Micros = Micros::from_secs(365 * 86_400);
/// The day after the window of records.
const FORGOTTEN: Micros = Micros::from_secs(8 * 86_400);
/// Everything that is over goes after an hour.
const AFTER_AN_HOUR: Retention =
    Retention { completed: Some(HOUR), failed: Some(HOUR), cancelled: Some(HOUR) };

fn house() -> House {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    house
}

fn keyed(house: &House, value: &str) -> Start {
    let namespace = ConsumerNamespace::new("tests").unwrap();
    let key = parse_key(&namespace, Some(value)).unwrap();
    let request = house.request("x", "script/main", "[{\"return\":1}]");
    Start { operation_id: None, idempotency_key: key, ..request }
}

/// Starts it, and works until it is over.
fn run(house: &House, start: Start) -> Result<Verdict, StartRefused> {
    let started = house.wait(house.engine().start(start))?;
    house.work();
    house.settle();
    Ok(started.verdict)
}

fn later(time: Timestamp, by: Micros) -> Timestamp {
    time.saturating_add(by)
}

/// Trees and records that have gone.
fn gone(house: &House) -> (u64, u64) {
    let gone = house.engine().readings().gone;
    (gone.trees, gone.records)
}

/// C-3: a wall clock that is set a year ahead, and corrected later, purges nothing: the key that was
/// used before is still known, while the clock is wrong and afterwards, also to the next process.
#[test]
fn a_clock_that_jumps_ahead_frees_no_key() {
    let mut house = house();
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Fresh);
    let right = house.clock.now();
    house.set_clock(later(right, YEAR));
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Prior);
    house.crash();
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Prior);
    house.set_clock(right);
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Prior);
    assert_eq!(gone(&house).1, 0);
}

/// C-3: what ends while the wall clock is decades behind, as on a machine without a battery, is kept
/// for its window after the clock is corrected.
#[test]
fn what_ends_while_the_clock_is_behind_is_kept() {
    let mut house = house();
    house.retain_once(AFTER_AN_HOUR);
    let right = house.clock.now();
    house.set_clock(later(Timestamp::EPOCH, DAY));
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Fresh);
    house.set_clock(right);
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Prior);
    // Its window is one of time that passes.
    house.move_clock(Micros::new(FORGOTTEN.get() - 2));
    house.retain_once(Retention::default());
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Prior);
    house.move_clock(Micros::new(2));
    house.retain_once(Retention::default());
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Fresh);
}

/// V-59, C-3: an operation id whose record was purged is expired for ever, also for the next process
/// with a wall clock by which the id looks new.
#[test]
fn a_purged_id_stays_expired_when_the_clock_goes_back() {
    let mut house = house();
    let made = house.clock.now();
    let id = id::mint(made, &[7; 10], None);
    let request = house.request(id.as_str(), "script/main", "[{\"return\":1}]");
    assert_eq!(run(&house, request.clone()).unwrap(), Verdict::Fresh);
    house.move_clock(FORGOTTEN);
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!(gone(&house), (1, 1));
    for crash in [false, true] {
        if crash {
            house.crash();
        }
        house.set_clock(later(made, HOUR));
        let refused = run(&house, request.clone());
        assert!(matches!(refused, Err(StartRefused::Expired)), "{crash}: {refused:?}");
    }
}

/// Everything that is said of the clock, and that it needs a look.
fn told(house: &House) -> Vec<String> {
    house.told.trouble.lock().unwrap().clone()
}

/// By how much the wall clock is ahead of the retention clock, in days.
fn lag_days(house: &House) -> i64 {
    house.engine().readings().retention.lag_seconds() / 86_400
}

/// C-3: a server that was off for a month makes up for a day of it, once: further starts add nothing,
/// however many there are, and time that passes does not make up for the rest. It says so, once.
#[test]
fn a_start_makes_up_for_a_day() {
    let mut house = house();
    run(&house, keyed(&house, "k")).unwrap();
    house.retain_once(AFTER_AN_HOUR);
    house.set_clock(later(house.clock.now(), Micros::from_secs(30 * 86_400)));
    for _ in 0..3 {
        house.crash();
        house.retain_once(Retention::default());
        assert_eq!(lag_days(&house), 29);
        // What a process that dies has not written down does not add up either.
        house.crash();
        assert_eq!(lag_days(&house), 29);
    }
    let told = told(&house);
    assert_eq!(told.len(), 3, "once a process: {told:?}");
    assert!(told[0].contains("indelible retention confirm"), "{told:?}");
    house.move_clock(DAY);
    house.retain_once(Retention::default());
    assert_eq!((lag_days(&house), gone(&house)), (29, (0, 0)));
    // It lags, and goes on: the window is over when so much time has passed.
    house.move_clock(Micros::from_secs(6 * 86_400));
    house.retain_once(Retention::default());
    assert_eq!(gone(&house), (0, 2));
}

/// Rounds in which nothing goes write nothing but the clock, at most once an hour.
#[test]
fn the_clock_is_written_rarely() {
    let mut house = house();
    run(&house, keyed(&house, "k")).unwrap();
    house.retain_once(Retention::default());
    let batches = |house: &House| house.engine().readings().store.batches;
    let before = batches(&house);
    for minutes in 1..=150_u64 {
        house.move_clock(Micros::from_secs(60));
        house.retain_once(Retention::default());
        house.settle();
        assert_eq!(batches(&house) - before, minutes / 60, "{minutes}");
    }
}

fn decided(reason: &str, key: Option<&str>) -> PersonDecision {
    let namespace = ConsumerNamespace::new("_server").unwrap();
    let key = key.and_then(|key| parse_key(&namespace, Some(key)).unwrap());
    PersonDecision { key, ..PersonDecision::by(Actor::new("ada"), reason) }
}

/// C-3, C-38: an operator confirms a jump, once under a key: the retention clock is what the wall
/// clock says, durably, and who said so is on record. A time that the wall clock does not show is
/// refused, and changes nothing. An operator also sets back a clock that had followed a wrong one.
#[test]
fn an_operator_confirms_the_clock() {
    let mut house = house();
    run(&house, keyed(&house, "k")).unwrap();
    house.retain_once(AFTER_AN_HOUR);
    let right = house.clock.now();
    house.set_clock(later(right, YEAR));
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!((lag_days(&house), gone(&house)), (364, (1, 0)));
    let confirm =
        |house: &House, time, decided| house.wait(house.engine().confirm_clock(time, decided));
    for wrong in [right, later(house.clock.now(), HOUR)] {
        let refused = confirm(&house, wrong, decided("it is right", Some("c-1")));
        assert!(matches!(refused, Err(ControlError::ClocksDiffer { .. })), "{refused:?}");
    }
    assert_eq!(lag_days(&house), 364);
    let minute = later(house.clock.now(), Micros::from_secs(60));
    let done = confirm(&house, minute, decided("it is right", Some("c-1"))).unwrap();
    assert!(!done.prior);
    assert_eq!(lag_days(&house), 0);
    // Durable, and done once: also when the clock has jumped again since.
    house.crash();
    house.set_clock(later(house.clock.now(), YEAR));
    let done = confirm(&house, minute, decided("it is right", Some("c-1"))).unwrap();
    assert!(done.prior);
    assert_eq!(lag_days(&house), 364);
    let other = confirm(&house, house.clock.now(), decided("another reason", Some("c-1")));
    assert!(matches!(other, Err(ControlError::Mismatch)), "{other:?}");
    let audit = house.wait(house.engine().audit(Timestamp::MAX, 10)).unwrap();
    let said: Vec<_> = audit.iter().map(|entry| (&*entry.actor, &*entry.action)).collect();
    assert_eq!(said, [("ada", "confirm clock")]);
    let subject = format!("retention-clock {}", later(right, DAY));
    assert_eq!(audit[0].about, AuditSubject::Subject(subject));

    // The record goes now, by what the operator said.
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!(gone(&house).1, 2);
    // And the operator was wrong about it: the clock is set back, and the ids of what went are
    // refused as before.
    house.set_clock(right);
    let done = confirm(&house, right, decided("the clock was wrong", None)).unwrap();
    assert!(!done.prior);
    assert_eq!(lag_days(&house), 0);
    let id = id::mint(right, &[7; 10], None);
    let request = house.request(id.as_str(), "script/main", "[{\"return\":1}]");
    let refused = run(&house, request);
    assert!(matches!(refused, Err(StartRefused::Expired)), "{refused:?}");
    assert_eq!(run(&house, keyed(&house, "k2")).unwrap(), Verdict::Fresh);
    house.crash();
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!(run(&house, keyed(&house, "k2")).unwrap(), Verdict::Prior);
}

/// C-3: a store that has no retention clock yet starts at the newest entry of its audit record: a wall
/// clock that is wrong when retention first begins there purges nothing.
#[test]
fn a_store_without_a_clock_starts_at_what_it_knows() {
    let mut house = house();
    let started = Start { actor: Some(Actor::new("ada")), ..keyed(&house, "k") };
    run(&house, started).unwrap();
    assert!(settings::get(house.engine().store(), "retention-clock").unwrap().value.is_none());
    house.set_clock(later(house.clock.now(), YEAR));
    house.crash();
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!((lag_days(&house), gone(&house)), (364, (1, 0)));
    assert_eq!(run(&house, keyed(&house, "k")).unwrap(), Verdict::Prior);
    // It has one now: what is put on record under the wrong clock is not what it knows.
    let started = Start { actor: Some(Actor::new("ada")), ..keyed(&house, "k2") };
    run(&house, started).unwrap();
    house.crash();
    house.retain_once(AFTER_AN_HOUR);
    assert_eq!((lag_days(&house), gone(&house).1), (364, 0));
    // One that makes no sense is refused, and stays as it is.
    let mut batch = Batch::new();
    settings::put(&mut batch, "retention-clock", b"{\"version\":2}");
    let position = house.engine().store().try_submit(batch).unwrap();
    house.engine().store().durable(position).wait().unwrap();
    let store = house.engine().store().clone();
    let world = World::system(house.guests.clone());
    let opened = Engine::open(store, house.options.clone(), world).map(|_| ());
    assert!(matches!(opened, Err(OpenError::RetentionClock(_))), "{opened:?}");
}
