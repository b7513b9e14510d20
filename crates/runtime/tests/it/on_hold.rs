//! An engine on hold shows what is stored and lets nothing go on, through restarts, until an operator
//! lifts the hold; then everything goes on, wherever the process dies meanwhile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use indelible_idempotency::{ConsumerNamespace, parse_key};
use indelible_journal::{
    ExecutionId, Micros, Namespace, OperationId, Payload, SignalName, Timestamp,
};
use indelible_ledger::{Actor as LedgerActor, Limits, OriginId, Request, Scope, json};
use indelible_operations::id;
use indelible_records::executions::Standing;
use indelible_records::{audit, check, hold};
use indelible_runtime::ledger::{
    LedgerError, LedgerWrite, NamedAnswer, WriteName, WriteOutcome, Writes,
};
use indelible_runtime::world::Clock as _;
use indelible_runtime::{
    Actor, Attribution, ControlError, EngineError, LiftOutcome, Opening, Options, PersonDecision,
    Resolution, Restored, Retention, Start, StartRefused, Verdict,
};
use indelible_sim::counter::{self, Ask, Counter};

use crate::support::wire::Wire;
use crate::support::{House, KEEP, by_hand, returned};

const HOUR: Micros = Micros::from_secs(3_600);

fn house() -> (House, Arc<Wire>) {
    let mut house = House::new(by_hand(KEEP));
    let wire = Wire::new();
    house.http = wire.clone();
    house.reopen();
    house.deploy("script");
    (house, wire)
}

/// A step that sends a request and waits for its answer.
fn sends(method: &str, path: &str, idem: bool) -> String {
    format!(
        r#"{{"http":["h",{{"method":"{method}","url":"http://peer/{path}","idem":{idem},
           "backoff":10}}]}},{{"await":"h"}}"#
    )
}

/// One execution of each kind: what is over, what waits for a timer and then sends, what waits for a
/// signal, and two whose requests are in flight.
struct Unfinished {
    over: ExecutionId,
    sleeps: ExecutionId,
    listens: ExecutionId,
    idem: ExecutionId,
    once: ExecutionId,
}

impl Unfinished {
    fn start(house: &House) -> Self {
        let start = |name: &str, steps: &str| {
            let id = house.start(name, "script/main", &format!("[{steps}]"));
            house.work();
            id
        };
        let all = Self {
            over: start("over", r#"{"return":7}"#),
            sleeps: start(
                "sleeps",
                &format!(
                    r#"{{"timer":["t",60000]}},{{"await":"t"}},{}"#,
                    sends("POST", "200", false)
                ),
            ),
            listens: start("listens", r#"{"signal":"go"}"#),
            idem: start("idem", &sends("PUT", "open,200", true)),
            once: start("once", &sends("POST", "open", false)),
        };
        house.settle();
        all
    }

    fn open(&self) -> [&ExecutionId; 4] {
        [&self.sleeps, &self.listens, &self.idem, &self.once]
    }
}

fn restored() -> Restored {
    let at = |micros| Timestamp::from_micros(micros).unwrap();
    Restored { at: at(2_000_000), backup_made_at: at(1_000_000), on_hold: true }
}

/// Puts the store on hold; the next process is, too.
fn put_on_hold(house: &House) {
    let store = house.engine().store();
    store.durable(hold::create(store, &restored()).unwrap()).wait().unwrap();
}

fn lift(house: &House) -> Result<LiftOutcome, EngineError> {
    // The engine does nothing meanwhile: not even its first turn.
    house.wait_for_disk(house.engine().lift_hold(&Actor::new("ada"), "looked at everything"))
}

/// Puts the row of a restore into the store, which counts for the next process: on hold, or closed.
fn restore(house: &House, on_hold: bool) {
    let at = house.clock_time();
    let restored = Restored { at, backup_made_at: at, on_hold };
    let store = house.engine().store();
    store.durable(hold::create(store, &restored).unwrap()).wait().unwrap();
}

/// The entries of the audit record about this.
fn entries(house: &House) -> Vec<(String, String, String)> {
    let all = audit::before(house.engine().store(), Timestamp::MAX, 100).unwrap().value;
    let own = all.into_iter().filter(|entry| entry.action == "lift hold");
    own.map(|entry| {
        let audit::AuditSubject::Subject(about) = entry.about else { panic!("{:?}", entry.about) };
        (entry.actor, about, entry.reason)
    })
    .collect()
}

fn is_stored(house: &House) -> bool {
    hold::get(house.engine().store()).unwrap().value.is_some()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(done: &Result<T, ControlError>) {
    assert!(matches!(done, Err(ControlError::Engine(EngineError::OnHold))), "{done:?}");
}

/// Everything that could make something go on is tried: nothing does, and nothing is written.
fn nothing_goes_on(house: &House, wire: &Wire, unfinished: &Unfinished) {
    let engine = house.engine();
    let (sent, accepted) = (wire.count(), engine.store().accepted());
    house.move_clock(HOUR);
    assert!(!engine.step() && !engine.step_at(3));
    assert_eq!(engine.fire_due().unwrap(), 0);
    house.work_through();
    for id in unfinished.open() {
        engine.nudge(id);
    }
    house.work();
    let now = engine.readings();
    assert!(now.on_hold && !now.recovered, "{now:?}");
    assert_eq!((now.trees, now.runnable, now.replays, now.timers_told), (0, 0, 0, 0));

    // All of it is shown.
    for id in unfinished.open() {
        let view = house.wait(engine.view(id)).unwrap().unwrap();
        assert_eq!(view.execution.standing, Standing::Blocked, "{view:?}");
        assert!(view.ending.is_none() && view.operation.is_some(), "{view:?}");
        assert!(!house.names(id).is_empty());
    }
    assert_eq!(returned(&house.ending(&unfinished.over)), "7");
    let page = house.wait(engine.list(&Default::default(), None, 100)).unwrap();
    assert_eq!(page.executions.len(), 5);

    // Nothing new is accepted; what is on record is answered as always.
    let new = house.request("new", "nowhere/main", "[]");
    let begun = house.wait(engine.start(new));
    assert!(matches!(begun, Err(StartRefused::Engine(EngineError::OnHold))), "{begun:?}");
    let repeated = |name: &str, steps: &str| -> Verdict {
        let start: Start = house.request(name, "script/main", &format!("[{steps}]"));
        house.wait(engine.start(start)).unwrap().verdict
    };
    assert_eq!(repeated("over", r#"{"return":7}"#), Verdict::Prior);
    assert_eq!(repeated("listens", r#"{"signal":"go"}"#), Verdict::InFlight);
    let (id, because) = (&unfinished.listens, Attribution::because("x"));
    let by = || PersonDecision::by(Actor::new("ada"), "x");
    let go = SignalName::new("go").unwrap();
    refused(&house.wait(engine.signal(id, &go, Payload::json("1"), because.clone())));
    refused(&house.wait(engine.cancel(id, because)));
    refused(&house.wait(engine.release(id, by())));
    refused(&house.wait(engine.fail(id, by())));
    let promise = unfinished.once.child(0);
    refused(&house.wait(engine.resolve(&promise, Resolution::DidNotHappen, by())));
    assert_eq!(engine.store().accepted(), accepted, "nothing was written");
    assert_eq!(wire.count(), sent, "nothing was sent");
}

/// Everything goes on from where it was.
fn everything_goes_on(house: &House, wire: &Wire, unfinished: &Unfinished) {
    let sent = wire.count();
    house.work_through();
    let said = |id| returned(&house.ending(id));
    assert_eq!(said(&unfinished.sleeps), r#"[null,{"status":200}]"#);
    assert_eq!(said(&unfinished.idem), r#"[{"status":200}]"#);
    assert!(said(&unfinished.once).contains("Indeterminate"), "{}", said(&unfinished.once));
    assert_eq!(house.signal(&unfinished.listens, "go", "1"), 1);
    house.work_through();
    assert_eq!(said(&unfinished.listens), r#"[{"signal":1}]"#);
    assert_eq!(wire.count(), sent + 2, "the one that slept, and the one that may be repeated");
    let findings = check::check(house.engine().store(), &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
}

/// A store on hold stays so through restarts: everything is shown, nothing goes on, nothing new is
/// accepted. When an operator lifts the hold, that is in the record, and everything goes on; lifting
/// it again changes nothing.
#[test]
fn nothing_goes_on_until_the_hold_is_lifted() {
    let (mut house, wire) = house();
    let unfinished = Unfinished::start(&house);
    put_on_hold(&house);
    for _ in 0..3 {
        house.crash();
        wire.cut();
        let hold = house.engine().hold().unwrap();
        assert_eq!((hold.restored, hold.paused), (Some(restored()), false));
        nothing_goes_on(&house, &wire, &unfinished);
    }
    // What an operator may have to do before it goes on.
    house.deploy("other");
    house
        .wait(
            house
                .engine()
                .confirm_clock(house.clock.now(), PersonDecision::by(Actor::new("ada"), "x")),
        )
        .unwrap();

    assert_eq!(lift(&house).unwrap(), LiftOutcome::Lifted);
    assert_eq!((house.engine().hold(), is_stored(&house)), (None, false));
    let (actor, about, reason) = entries(&house).remove(0);
    assert_eq!((actor.as_str(), reason.as_str()), ("ada", "looked at everything"));
    assert!(about.contains("from the backup of 1970-01-01T00:00:01"), "{about}");
    assert_eq!(lift(&house).unwrap(), LiftOutcome::NotOnHold);
    assert_eq!(entries(&house).len(), 1);
    everything_goes_on(&house, &wire, &unfinished);
}

/// A process that dies between the lift and the first turn leaves a store that goes on by itself.
#[test]
fn a_death_between_the_lift_and_the_first_turn() {
    let (mut house, wire) = house();
    let unfinished = Unfinished::start(&house);
    put_on_hold(&house);
    house.crash();
    wire.cut();
    house.move_clock(HOUR);
    let sent = wire.count();
    assert_eq!(lift(&house).unwrap(), LiftOutcome::Lifted);
    house.crash();
    assert_eq!((wire.count(), house.engine().hold()), (sent, None));
    assert_eq!(entries(&house).len(), 1);
    everything_goes_on(&house, &wire, &unfinished);
}

/// The entry in the record and the end of the hold are one commit: it is lost as a whole, and nothing
/// goes on before it is durable.
#[test]
fn the_lift_is_durable_before_anything_goes_on() {
    let (mut house, wire) = house();
    let unfinished = Unfinished::start(&house);
    put_on_hold(&house);
    house.crash();
    wire.cut();
    house.disk.dies_after(0);
    assert!(lift(&house).is_err());
    assert_eq!(house.engine().fire_due().unwrap(), 0);
    house.crash();
    assert_eq!((entries(&house).len(), is_stored(&house)), (0, true));

    // The disk takes its time, and the caller does not wait for it.
    house.disk.hold();
    {
        let actor = Actor::new("ada");
        let mut lifting = pin!(house.engine().lift_hold(&actor, "first"));
        let polled = lifting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending), "{polled:?}");
        assert!(!house.engine().step());
        assert_eq!(house.engine().fire_due().unwrap(), 0);
    }
    house.disk.release();
    house.settle();
    nothing_goes_on(&house, &wire, &unfinished);
    assert_eq!((entries(&house).len(), is_stored(&house)), (1, false));
    assert_eq!(lift(&house).unwrap(), LiftOutcome::Lifted);
    assert_eq!(entries(&house).len(), 2, "two decisions were made");
    everything_goes_on(&house, &wire, &unfinished);
}

/// An engine that is opened on hold is so once: lifting lasts until it is closed, and the store does
/// not know of it.
#[test]
fn a_hold_of_the_process() {
    let (mut house, wire) = house();
    let unfinished = Unfinished::start(&house);
    house.options.opening = Opening::OnHold;
    for _ in 0..2 {
        house.crash();
        wire.cut();
        let hold = house.engine().hold().unwrap();
        assert_eq!((hold.restored, hold.paused, is_stored(&house)), (None, true, false));
        nothing_goes_on(&house, &wire, &unfinished);
        assert_eq!(lift(&house).unwrap(), LiftOutcome::Lifted);
        assert_eq!(house.engine().hold(), None);
    }
    assert_eq!(entries(&house).len(), 2);
    house.options.opening = Opening::AtWork;
    house.crash();
    assert_eq!(house.engine().hold(), None);
    everything_goes_on(&house, &wire, &unfinished);
}

/// What is past its time is kept: an operator may want to look at it before anything goes on.
#[test]
fn retention_waits() {
    let (mut house, _) = house();
    let (over, _) = house.run("script/main", r#"[{"return":1}]"#);
    put_on_hold(&house);
    house.crash();
    house.move_clock(HOUR);
    let all = Some(Micros::from_secs(60));
    let retention = Retention { completed: all, failed: all, cancelled: all };
    house.retain_once(retention);
    assert_eq!(house.engine().readings().gone.trees, 0);
    assert!(house.wait(house.engine().execution(&over)).unwrap().is_some());
    lift(&house).unwrap();
    house.retain_once(retention);
    assert_eq!(house.engine().readings().gone.trees, 1);
}

/// Machines of other rooms wait too: none is asked, no timer of theirs fires, and no message leaves.
#[test]
fn other_rooms_wait() {
    let mut house = House::new(by_hand(KEEP));
    house.rooms = counter::room();
    house.tables = counter::tables();
    house.reopen();
    let ask = |house: &House, ask: &Ask| {
        let asked = house.engine().ask_room::<Counter>(counter::key(1), ask.clone());
        house.wait(asked).map(drop)
    };
    let counted = |house: &House, number: u8| {
        let store = house.engine().store();
        let row = store.get(counter::COUNTERS, &counter::key(number).key).unwrap().value;
        row.map_or(0, |row| serde_json::from_slice::<counter::Standing>(&row).unwrap().count)
    };
    ask(&house, &Ask::Lend(3, 2, 1_000)).unwrap();
    put_on_hold(&house);
    house.crash();
    house.move_clock(HOUR);
    let asked = ask(&house, &Ask::Add(1));
    assert!(matches!(asked, Err(EngineError::OnHold)), "{asked:?}");
    house.work_through();
    assert_eq!((counted(&house, 2), house.engine().readings().trees), (0, 0));
    lift(&house).unwrap();
    for _ in 0..20 {
        house.work_through();
        house.settle();
    }
    assert_eq!(counted(&house, 2), 3);
    ask(&house, &Ask::Add(1)).unwrap();
}

/// An engine with threads of its own wakes them when the hold is lifted.
#[test]
fn threads_wake_up() {
    let (house, wire) = house();
    let unfinished = Unfinished::start(&house);
    put_on_hold(&house);
    house.move_clock(HOUR);
    let (disk, later) = (house.disk.clone(), house.clock.now());
    drop(house);
    wire.cut();
    let mut house = House::on(disk, Options { workers: 2, readers: 1, ..by_hand(KEEP) });
    house.http = wire.clone();
    house.set_clock(later);
    house.reopen();
    assert!(house.engine().hold().is_some());
    let sent = wire.count();
    let view = house.wait_for_disk(house.engine().view(&unfinished.sleeps)).unwrap().unwrap();
    assert_eq!(view.execution.standing, Standing::Blocked);
    assert_eq!(wire.count(), sent);
    lift(&house).unwrap();
    // The third waits before it repeats its request, and the clock stands still.
    for id in [&unfinished.sleeps, &unfinished.once] {
        assert!(house.wait_for_disk(house.engine().outcome(id)).unwrap().is_some());
    }
    assert!(wire.count() > sent);
}

/// What each kind of request meets in a store that was restored: under a name that it knows, under
/// none, and under one that it does not know. True: the last is taken.
fn takes_unknown_names(house: &House, listens: &ExecutionId, round: u32) -> bool {
    let engine = house.engine();
    let steps = r#"[{"return":7}]"#;
    let in_tests = |key: &str| {
        let namespace = ConsumerNamespace::new("tests").unwrap();
        parse_key(&namespace, Some(key)).unwrap().unwrap()
    };
    let start = |name: Option<&str>, key: Option<&str>| {
        let mut start = house.request("x", "script/main", steps);
        start.operation_id = name.map(|name| OperationId::new(name).unwrap());
        start.idempotency_key = key.map(in_tests);
        house.wait(engine.start(start)).map(|started| started.verdict)
    };
    let go = SignalName::new("go").unwrap();
    let signal = |key: Option<&str>| {
        let asked = Attribution { key: key.map(in_tests), ..Attribution::default() };
        house.wait(engine.signal(listens, &go, Payload::json("1"), asked))
    };
    let write = |name: WriteName| {
        let operations = r#"[{"add":{"key":"n","delta":"1","unit":"x"}}]"#;
        let operations: Vec<json::Operation> = serde_json::from_str(operations).unwrap();
        let operations = operations.into_iter().map(|one| one.read().unwrap()).collect();
        let request = Request::single(operations, &Limits::DEFAULT).unwrap();
        let scope = Scope { namespace: Namespace::new("tests").unwrap(), vault: None };
        let writes = Writes::Named(name, request);
        let actor = LedgerActor::new("client:app");
        let write = LedgerWrite { scope, incarnation: None, actor, writes };
        house.wait(engine.write_ledger(write)).map(|answer| answer.outcome)
    };
    let key = |name: &str| WriteName::Key(OriginId::new(name).unwrap());
    if round == 0 {
        // What the store knows of each kind.
        assert_eq!(start(Some("known"), None).unwrap(), Verdict::Fresh);
        assert_eq!(start(None, Some("known")).unwrap(), Verdict::Fresh);
        signal(Some("known-signal")).unwrap();
        write(key("known")).unwrap();
        house.work_through();
        return true;
    }
    assert_eq!(start(Some("known"), None).unwrap(), Verdict::Prior);
    assert_eq!(start(None, Some("known")).unwrap(), Verdict::Prior);
    assert_eq!(start(None, None).unwrap(), Verdict::Fresh);
    assert!(signal(Some("known-signal")).unwrap().prior);
    assert!(!signal(None).unwrap().prior);
    let known = write(key("known")).unwrap();
    assert!(matches!(known, WriteOutcome::Named(NamedAnswer::PriorResult(_))), "{known:?}");

    let name = format!("new-{round}");
    let id = start(Some(&name), None);
    let keyed = start(None, Some(&format!("key-{round}")));
    let signalled = signal(Some(&format!("signal-{round}")));
    let written = write(key(&name));
    let by_id = write(WriteName::Operation(OperationId::new(&name).unwrap()));
    let refused = [
        matches!(id, Err(StartRefused::Engine(EngineError::Restored { .. }))),
        matches!(keyed, Err(StartRefused::Engine(EngineError::Restored { .. }))),
        matches!(signalled, Err(ControlError::Engine(EngineError::Restored { .. }))),
        matches!(written, Err(LedgerError::Engine(EngineError::Restored { .. }))),
        matches!(by_id, Err(LedgerError::Engine(EngineError::Restored { .. }))),
    ];
    if refused == [true; 5] {
        return false;
    }
    assert_eq!(refused, [false; 5]);
    assert_eq!((id.unwrap(), keyed.unwrap()), (Verdict::Fresh, Verdict::Fresh));
    assert!(!signalled.unwrap().prior);
    for written in [written, by_id] {
        let written = written.unwrap();
        assert!(matches!(written, WriteOutcome::Named(NamedAnswer::Fresh(_))), "{written:?}");
    }
    true
}

/// Another process, which makes other ids.
fn begin_again(house: &mut House) {
    house.seed += 1;
    house.crash();
}

/// C-48: a store that was restored and is not on hold goes on, and refuses names that it does not know,
/// through restarts, until an operator lifts that, which is in the record, or until no caller repeats
/// its requests any more.
#[test]
fn unknown_names_after_a_restore() {
    let mut house = House::new(by_hand(KEEP));
    house.deploy("script");
    let listens = house.start("listens", "script/main", r#"[{"signal":"stop"}]"#);
    house.work();
    assert!(takes_unknown_names(&house, &listens, 0));
    assert_eq!((house.engine().closed_until(), house.engine().restored()), (None, None));
    restore(&house, false);
    let window = house.options.operation_window;
    for round in 1..3 {
        begin_again(&mut house);
        assert_eq!(house.engine().hold(), None, "it is not on hold");
        let restored = house.engine().restored().unwrap();
        assert_eq!(house.engine().closed_until(), Some(restored.at.saturating_add(window)));
        house.work_through();
        assert!(!takes_unknown_names(&house, &listens, round));
    }
    // An id that carries its time is new if no clock can have made it before the restore.
    let restored_at = house.engine().restored().unwrap().at;
    let id_made = |minutes: u64| {
        let made_at = restored_at.saturating_add(Micros::from_secs(60 * minutes));
        let operation_id = Some(id::mint(made_at, &[minutes as u8; 10], None));
        let start = Start { operation_id, ..house.request("x", "script/main", "[]") };
        house.wait(house.engine().start(start)).map(|started| started.verdict)
    };
    let early = id_made(9);
    assert!(matches!(early, Err(StartRefused::Engine(EngineError::Restored { .. }))), "{early:?}");
    assert_eq!(id_made(10).unwrap(), Verdict::Fresh);

    assert_eq!(lift(&house).unwrap(), LiftOutcome::Lifted);
    let (actor, about, _) = entries(&house).remove(0);
    assert!(actor == "ada" && about.contains("from the backup of "), "{actor}: {about}");
    assert_eq!(lift(&house).unwrap(), LiftOutcome::NotOnHold);
    assert!(takes_unknown_names(&house, &listens, 3));
    begin_again(&mut house);
    assert!(takes_unknown_names(&house, &listens, 4));

    // One that an operator never lifts is over when the window is, by the clock of retention.
    restore(&house, false);
    begin_again(&mut house);
    house.pass(Micros::new(window.get() - 1_000_000));
    assert!(!takes_unknown_names(&house, &listens, 5));
    house.pass(Micros::from_secs(2));
    assert!(takes_unknown_names(&house, &listens, 6));
    assert_eq!(lift(&house).unwrap(), LiftOutcome::NotOnHold);

    // Lifting the hold of a store that was restored on hold is the same decision.
    restore(&house, true);
    begin_again(&mut house);
    assert!(house.engine().closed_until().is_some() && house.engine().hold().is_some());
    lift(&house).unwrap();
    assert!(takes_unknown_names(&house, &listens, 7));
}
