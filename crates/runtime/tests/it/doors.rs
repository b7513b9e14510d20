//! What a door to the engine (such as the HTTP API) needs: a start whose caller waits for it, and
//! one effect for a repeated request of any kind (I-8 to I-13, C-31).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use indelible_http::{NoNetwork, Response};
use indelible_idempotency::{ConsumerNamespace, IdempotencyKey, parse_key};
use indelible_journal::{ComponentDigest, ExecutionId, Micros, Payload, SignalName, Timestamp};
use indelible_records::audit::{self, AuditSubject};
use indelible_records::check;
use indelible_records::component_versions::{self, Version};
use indelible_records::labels::Labels;
use indelible_records::truths::Truth;
use indelible_records::{ComponentName, EXPIRIES, IDEMPOTENCY_KEYS, TABLES, windows};
use indelible_runtime::world::Clock as _;
use indelible_runtime::{
    Actor, Attribution, CancelOutcome, CommandRefusal, ControlError, DeployRefused, Engine,
    Options, PersonDecision, Receipt, Resolution, Start, StartRefused, Verdict, World,
};
use indelible_slots::Slot;
use indelible_store::{Batch, embedded};
use indelible_test_store::folder::reopen;

use crate::support::wire::Wire;
use crate::support::{House, KEEP, by_hand, guests, returned};

fn house() -> House {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    house
}

fn key(value: &str) -> Option<IdempotencyKey> {
    parse_key(&ConsumerNamespace::new("tests").unwrap(), Some(value)).unwrap()
}

fn under(value: &str) -> Attribution {
    Attribution { actor: None, reason: "why".into(), key: key(value) }
}

fn decided(value: &str) -> PersonDecision {
    PersonDecision { actor: Actor::new("ann"), reason: "why".into(), key: key(value) }
}

/// A start under a key.
fn keyed(house: &House, value: &str, input: &str) -> Start {
    let request = house.request("x", "script/main", input);
    Start { operation_id: None, idempotency_key: key(value), ..request }
}

fn send(
    house: &House,
    id: &ExecutionId,
    json: &str,
    asked: Attribution,
) -> Result<Receipt<u64>, String> {
    let (name, payload) = (SignalName::new("go").unwrap(), Payload::json(json.to_owned()));
    let sent = house.wait(house.engine().signal(id, &name, payload, asked));
    sent.map(|done| Receipt { value: done.value.get(), prior: done.prior })
        .map_err(|e| e.to_string())
}

/// How many signals an execution has got.
fn delivered(house: &House, id: &ExecutionId) -> usize {
    house.names(id).iter().filter(|name| **name == "SignalDelivered").count()
}

/// How many records of keys there are.
fn records(house: &House) -> u64 {
    let counted = check::count(house.engine().store()).unwrap();
    let of = |table: indelible_store::Table| {
        counted.iter().find(|counted| counted.table == table.name()).map_or(0, |found| found.rows)
    };
    assert!(of(EXPIRIES) <= of(IDEMPOTENCY_KEYS) + 10, "each expiry is of a record");
    of(IDEMPOTENCY_KEYS)
}

/// The audit record, oldest first: action, and what it is about.
fn audited(house: &House) -> Vec<audit::Entry> {
    let mut all = audit::before(house.engine().store(), Timestamp::MAX, 100).unwrap().value;
    all.reverse();
    all
}

#[track_caller]
fn is_sound(house: &House) {
    let findings = check::check(house.engine().store(), &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    assert_eq!(*house.told.trouble.lock().unwrap(), [""; 0], "something went wrong");
}

const MISMATCH: &str = "the idempotency key was already used for another request";

/// I-8, I-11, V-29 to V-31: what was known of an operation when a request for it came, by key and by
/// id; also after a crash.
#[test]
fn what_was_known_of_a_start() {
    let mut house = house();
    let by_id = house.request("x", "script/main", "[{\"signal\":\"go\"}]");
    for request in [by_id, keyed(&house, "k", "[{\"signal\":\"go\"}]")] {
        let verdict = |house: &House| house.wait(house.engine().start(request.clone())).unwrap();
        let first = verdict(&house);
        assert_eq!(first.verdict, Verdict::Fresh);
        assert!(!first.attached());
        assert_eq!(verdict(&house).verdict, Verdict::InFlight);
        house.crash();
        house.work();
        assert_eq!(verdict(&house).verdict, Verdict::InFlight);
        house.signal(&first.execution_id, "go", "1");
        house.work();
        assert_eq!(verdict(&house).verdict, Verdict::Prior);
        house.crash();
        let again = verdict(&house);
        assert_eq!((again.verdict, again.execution_id), (Verdict::Prior, first.execution_id));
    }
    is_sound(&house);
}

/// V-30, C-2: the end can be waited for in pieces, as often as one likes, by several, and one who
/// came late; what is told is durable.
#[test]
fn a_start_in_the_hands_of_who_waits() {
    let house = house();
    let request = keyed(&house, "k", "[{\"signal\":\"go\"}]");
    let mut one = house.wait(house.engine().submit(request.clone())).unwrap();
    assert_eq!(one.started().verdict, Verdict::Fresh);
    house.wait(one.durable()).unwrap();
    house.work();
    let mut two = house.wait(house.engine().submit(request.clone())).unwrap();
    assert_eq!(two.started().verdict, Verdict::InFlight);
    for waits in [&mut one, &mut two] {
        for _ in 0..3 {
            // A caller that loses patience may wait again.
            let mut outcome = std::pin::pin!(waits.outcome());
            let waker = std::task::Waker::noop();
            let poll = outcome.as_mut().poll(&mut std::task::Context::from_waker(waker));
            assert!(poll.is_pending());
            house.work();
        }
    }
    house.signal(&one.started().execution_id.clone(), "go", "1");
    let ending = house.wait(one.outcome()).unwrap();
    assert_eq!(returned(&ending), "[{\"signal\":1}]");
    assert_eq!(house.wait(one.outcome()).unwrap(), ending);
    assert_eq!(house.wait(two.outcome()).unwrap(), ending);
    let mut late = house.wait(house.engine().submit(request)).unwrap();
    assert_eq!(late.started().verdict, Verdict::Prior);
    house.wait(late.durable()).unwrap();
    assert_eq!(house.wait(late.outcome()).unwrap(), ending);
}

/// V-19, V-43, C-24: a persist operation goes on though no caller waits for it.
#[test]
fn a_persist_one_goes_on() {
    let house = house();
    let request = keyed(&house, "k", "[{\"signal\":\"go\"}]");
    let submitted = house.wait(house.engine().submit(request.clone())).unwrap();
    let id = submitted.started().execution_id.clone();
    drop(submitted);
    house.work();
    // Also one whose caller went in the middle of asking.
    drop(house.engine().submit(keyed(&house, "l", "[{\"return\":1}]")));
    {
        let mut asking = std::pin::pin!(house.engine().submit(keyed(&house, "m", "[]")));
        let waker = std::task::Waker::noop();
        assert!(asking.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    }
    house.work();
    house.signal(&id, "go", "1");
    house.work();
    assert_eq!(returned(&house.ending(&id)), "[{\"signal\":1}]");
    let again = house.wait(house.engine().start(keyed(&house, "m", "[]"))).unwrap();
    assert_eq!(again.verdict, Verdict::Prior);
    is_sound(&house);
}

/// A handle that outlives its engine is told that it stopped, and does not wait for ever.
#[test]
fn an_engine_that_stops_tells_those_who_wait() {
    let mut house = house();
    let mut waits = house.wait(house.engine().submit(keyed(&house, "k", "[{\"signal\":\"go\"}]")));
    let waits = waits.as_mut().unwrap();
    house.settle();
    house.reopen();
    for _ in 0..2 {
        let stopped = house.wait_for_disk(waits.outcome());
        assert_eq!(stopped.unwrap_err().to_string(), "the engine has stopped");
    }
}

/// I-11, C-31: a signal under a key is delivered once, and answered the same, however it is written;
/// also after a crash, and when the execution is over.
#[test]
fn a_signal_is_delivered_once() {
    let mut house = house();
    let id = house.start("x", "script/main", "[{\"signal\":\"go\"},{\"signal\":\"end\"}]");
    let first = send(&house, &id, "{\"a\":1}", under("k"));
    assert_eq!(first, Ok(Receipt { value: 1, prior: false }));
    let prior = Ok(Receipt { value: 1, prior: true });
    assert_eq!(send(&house, &id, " {\"a\":1.0} ", under("k")), prior);
    assert_eq!(send(&house, &id, "{\"a\":1}", under("l")).unwrap().value, 2, "another key");
    house.crash();
    house.work();
    assert_eq!(send(&house, &id, "{\"a\":1}", under("k")), prior);
    assert_eq!(delivered(&house, &id), 2);
    assert_eq!(send(&house, &id, "2", under("k")), Err(MISMATCH.into()));
    house.signal(&id, "end", "1");
    house.work();
    assert!(house.row(&id).standing.is_terminal());
    assert_eq!(send(&house, &id, "{\"a\":1}", under("k")), prior, "it is over, and was told");
    assert!(send(&house, &id, "{\"a\":1}", under("m")).is_err());
    is_sound(&house);
}

/// I-11: a cancel, once; what was asked for before it says so under its own key.
#[test]
fn a_cancel_is_asked_for_once() {
    let mut house = house();
    let id = house.start("x", "script/main", "[{\"signal\":\"go\"}]");
    house.work();
    let cancel = |house: &House, value: &str| {
        house.wait(house.engine().cancel(&id, under(value))).map_err(|error| error.to_string())
    };
    let ask = |value: &str| house.engine().cancel(&id, under(value));
    let (first, second) = house.wait(async { tokio::join!(ask("k"), ask("l")) });
    assert_eq!(first.unwrap(), Receipt { value: CancelOutcome::Requested, prior: false });
    assert_eq!(second.unwrap(), Receipt { value: CancelOutcome::Already, prior: false });
    for _ in 0..2 {
        assert_eq!(
            cancel(&house, "k"),
            Ok(Receipt { value: CancelOutcome::Requested, prior: true })
        );
        assert_eq!(cancel(&house, "l"), Ok(Receipt { value: CancelOutcome::Already, prior: true }));
        let other = Attribution { key: key("k"), ..Attribution::because("another reason") };
        let other = house.wait(house.engine().cancel(&id, other));
        assert!(matches!(other, Err(ControlError::Mismatch)), "{other:?}");
        house.crash();
        house.work_through();
    }
    let asked = house.names(&id).iter().filter(|name| **name == "CancelRequested").count();
    assert_eq!(asked, 1);
    is_sound(&house);
}

/// An execution that is stuck.
fn held(house: &mut House) -> ExecutionId {
    let id = house.start("held", "script/main", "[{\"timer\":[\"a\",1]},{\"await\":\"a\"}]");
    house.work();
    house.settle();
    let mut tree = house.tree(&id);
    let root = &mut tree[0].1[0].event;
    let indelible_journal::Event::ExecutionStarted(started) = root else { panic!("{root:?}") };
    // What the journal says that it was started with is not what it did.
    let input = Payload::json("[{\"random\":8},{\"timer\":[\"b\",1]},{\"await\":\"b\"}]");
    started.input = input;
    *house = House::new(by_hand(KEEP));
    house.deploy("script");
    house.transplant(&tree);
    house.crash();
    house.work_through();
    assert_eq!(house.row(&id).standing.name(), "Stuck");
    id
}

/// I-11, C-25: what a person decides about a held execution is done once. A release that is repeated
/// does not release what is stuck again; a failure that is repeated is told again.
#[test]
fn decisions_are_made_once() {
    let mut house = house();
    let id = held(&mut house);
    let release = |house: &House, value| house.wait(house.engine().release(&id, decided(value)));
    assert_eq!(release(&house, "r").unwrap(), Receipt { value: (), prior: false });
    house.work_through();
    assert_eq!(house.row(&id).standing.name(), "Stuck", "it is what it was");
    house.crash();
    assert_eq!(release(&house, "r").unwrap(), Receipt { value: (), prior: true });
    house.work_through();
    let count = |house: &House, action: &str| {
        audited(house).iter().filter(|entry| entry.action == action).count()
    };
    assert_eq!(count(&house, "release"), 1);
    let fail = |house: &House, value| house.wait(house.engine().fail(&id, decided(value)));
    assert!(matches!(fail(&house, "r"), Err(ControlError::Mismatch)), "it was for a release");
    assert_eq!(fail(&house, "f").unwrap(), Receipt { value: (), prior: false });
    for _ in 0..2 {
        assert_eq!(fail(&house, "f").unwrap(), Receipt { value: (), prior: true });
        let other = release(&house, "f");
        assert!(matches!(other, Err(ControlError::Mismatch)), "{other:?}");
        house.crash();
    }
    assert_eq!((house.row(&id).standing.name(), count(&house, "fail")), ("Failed", 1));
    is_sound(&house);
}

/// I-11, C-38: an effect is resolved once.
#[test]
fn an_effect_is_resolved_once() {
    let mut house = House::new(by_hand(KEEP));
    let wire = Wire::new();
    house.http = wire;
    house.reopen();
    house.deploy("behaviours");
    let spec = r#"{"method":"POST","url":"http://peer/unknown","hold":true}"#;
    house.start("x", "sends", spec);
    house.work_through();
    let list = house.wait(house.engine().unresolved(None, 10)).unwrap();
    assert_eq!(list.len(), 1);
    let promise = list[0].promise.clone();
    let resolve = |house: &House, how: Resolution, value| {
        house.wait(house.engine().resolve(&promise, how, decided(value)))
    };
    let response = Response { status: 201, headers: Vec::new(), body: "done".into() };
    let happened = Resolution::Happened(response);
    assert!(!resolve(&house, happened.clone(), "k").unwrap().prior);
    house.work_through();
    house.crash();
    assert!(resolve(&house, happened, "k").unwrap().prior);
    let other = resolve(&house, Resolution::DidNotHappen, "k");
    assert!(matches!(other, Err(ControlError::Mismatch)), "{other:?}");
    let late = resolve(&house, Resolution::DidNotHappen, "l");
    assert!(matches!(late, Err(ControlError::CommandRefusal(_))), "{late:?}");
    assert_eq!((audited(&house).len(), records(&house)), (1, 1));
    is_sound(&house);
}

/// I-11, D6: a deployment that is repeated under its key does not make an old version the active one
/// again; it is on record who deployed what.
#[test]
fn a_deployment_is_made_once() {
    let mut house = house();
    let (old, mut new) = (guests::bytes("script"), guests::bytes("script"));
    new.extend([0, 6, 4, b'n', b'o', b't', b'e', 2]);
    let asked = |value| Attribution { actor: Some(Actor::new("ann")), ..under(value) };
    let deploy = |house: &House, name: &str, bytes: &[u8], value| {
        house.wait(house.engine().deploy(name, bytes, asked(value)))
    };
    let first = deploy(&house, "shop", &old, "k").unwrap();
    assert!(!first.prior && !first.value.known);
    let second = deploy(&house, "shop", &new, "l").unwrap();
    for _ in 0..2 {
        let again = deploy(&house, "shop", &old, "k").unwrap();
        assert!(again.prior);
        assert_eq!(again.value, first.value);
        let all = house.wait(house.engine().components()).unwrap();
        let shop = all.iter().find(|(name, ..)| name.as_str() == "shop").unwrap();
        assert_eq!(shop.1, second.value.digest, "the new one stays");
        for other in [deploy(&house, "shop", &new, "k"), deploy(&house, "ship", &old, "k")] {
            assert!(matches!(other, Err(DeployRefused::Mismatch)), "{other:?}");
        }
        house.crash();
    }
    assert!(deploy(&house, "shop", b"junk", "j").is_err());
    assert!(deploy(&house, "a b", &old, "j").is_err());
    assert_eq!(records(&house), 2, "what was refused leaves none");
    let digests = [first.value.digest, second.value.digest];
    let entries = audited(&house);
    assert_eq!(entries.len(), 2);
    for digest in digests {
        let about = AuditSubject::Component(ComponentName::new("shop").unwrap(), digest);
        // The clock stands still: entries of one moment have no order.
        let entry = entries.iter().find(|entry| entry.about == about).unwrap();
        assert_eq!((&*entry.actor, &*entry.action, &*entry.reason), ("ann", "deploy", "why"));
    }
}

/// D13: a deployment by another process, of which the engine was not told, is not overwritten by the
/// engine's next one: it reads the names again, and both versions are there.
#[test]
fn a_deployment_by_another_process() {
    let house = house();
    let old = house.wait(house.engine().deploy("shop", &guests::bytes("script"), under("k")));
    let old = old.unwrap().value.digest;
    let name = ComponentName::new("shop").unwrap();
    let theirs = ComponentDigest::from_bytes([7; 32]);
    let store = house.engine().store();
    let mut batch = Batch::in_slots(Slot::SERVER);
    Truth::Components.raise(&mut batch, Truth::Components.version(store).unwrap());
    let mut known = component_versions::next(store, None, 9).unwrap().value;
    let (_, mut shop) = known.pop().unwrap();
    shop.versions.push(Version { digest: theirs, deployed_at: shop.versions[0].deployed_at });
    shop.active = theirs;
    component_versions::put(&mut batch, &name, &shop);
    store.submit_blocking(batch).unwrap();

    let mut new = guests::bytes("script");
    new.extend([0, 6, 4, b'n', b'o', b't', b'e', 2]);
    let new = house.wait(house.engine().deploy("shop", &new, under("l"))).unwrap();
    let all = house.wait(house.engine().components()).unwrap();
    let (_, active, versions) = all.iter().find(|(each, ..)| *each == name).unwrap();
    let versions: Vec<_> = versions.iter().map(|version| version.digest).collect();
    assert_eq!((*active, versions), (new.value.digest, vec![old, theirs, new.value.digest]));

    let mut batch = Batch::in_slots(Slot::SERVER);
    Truth::Components.raise(&mut batch, Truth::Components.version(store).unwrap());
    component_versions::put(&mut batch, &name, &shop);
    store.submit_blocking(batch).unwrap();
    let active = || house.wait(house.engine().components()).unwrap()[1].1;
    assert_eq!(active(), new.value.digest, "the engine was not told");
    assert!(house.wait(house.engine().refresh_components()).unwrap());
    assert_eq!(active(), theirs);
    assert!(!house.wait(house.engine().refresh_components()).unwrap());
}

/// I-12, I-28, C-31: one key for a start and for something else is a mismatch, either way round, and
/// while the first goes on.
#[test]
fn one_key_for_two_kinds() {
    let mut house = house();
    let program = "[{\"signal\":\"go\"},{\"signal\":\"end\"}]";
    let component = guests::bytes("script");
    let id = house.engine_start(keyed(&house, "start", program));
    assert!(!send(&house, &id, "1", under("signal")).unwrap().prior);
    for _ in 0..2 {
        assert_eq!(send(&house, &id, "1", under("start")), Err(MISMATCH.into()));
        let cancel = house.wait(house.engine().cancel(&id, under("signal")));
        assert!(matches!(cancel, Err(ControlError::Mismatch)), "{cancel:?}");
        let deploy = house.engine().deploy("shop", &component, under("start"));
        assert!(matches!(house.wait(deploy), Err(DeployRefused::Mismatch)));
        let start = house.wait(house.engine().start(keyed(&house, "signal", program)));
        assert!(matches!(start, Err(StartRefused::Mismatch)), "{start:?}");
        house.crash();
        house.work();
    }
    assert_eq!((delivered(&house, &id), house.tree(&id).len()), (1, 1));
    is_sound(&house);
}

/// I-10: what was refused has changed nothing and leaves no record: the key is as new.
#[test]
fn what_was_refused_leaves_no_record() {
    let house = house();
    let id = house.start("x", "script/main", "[{\"signal\":\"go\"}]");
    let nobody: ExecutionId = {
        let other = House::new(by_hand(KEEP));
        other.deploy("script");
        other.start("nobody", "script/main", "[]")
    };
    for key in ["k", "k"] {
        let effect = id.child(0);
        assert!(send(&house, &nobody, "1", under(key)).is_err());
        let cancel = house.wait(house.engine().cancel(&nobody, under(key)));
        assert!(
            matches!(cancel, Err(ControlError::CommandRefusal(CommandRefusal::Unknown))),
            "{cancel:?}"
        );
        for not_held in [
            house.wait(house.engine().release(&id, decided(key))),
            house.wait(house.engine().fail(&id, decided(key))),
        ] {
            let refused =
                matches!(not_held, Err(ControlError::CommandRefusal(CommandRefusal::NotStuck)));
            assert!(refused, "{not_held:?}");
        }
        let effect = house.engine().resolve(&effect, Resolution::RunAgain, decided(key));
        assert!(matches!(house.wait(effect), Err(ControlError::CommandRefusal(_))));
        let absent = Start { component: "nothing".into(), ..keyed(&house, key, "[]") };
        let absent = house.wait(house.engine().start(absent));
        assert!(matches!(absent, Err(StartRefused::NoComponent(_))), "{absent:?}");
    }
    assert_eq!((records(&house), audited(&house).len()), (0, 0));
    assert_eq!(send(&house, &id, "1", under("k")), Ok(Receipt { value: 1, prior: false }));
}

/// C-3: the record of a change goes by the window of operations, and then its key is fresh.
#[test]
fn a_record_goes_by_its_window() {
    let house = house();
    let purge = || {
        let now = house.clock.now();
        house.wait(windows::purge(house.engine().store(), now, 100)).unwrap().records
    };
    let id = house.start("x", "script/main", "[{\"signal\":\"end\"}]");
    assert!(!send(&house, &id, "1", under("k")).unwrap().prior);
    house.move_clock(Micros::from_secs(7 * 86_400 - 1));
    assert_eq!(purge(), 0);
    assert!(send(&house, &id, "1", under("k")).unwrap().prior);
    house.move_clock(Micros::from_secs(2));
    assert!(send(&house, &id, "1", under("k")).unwrap().prior, "until it is purged");
    assert_eq!(purge(), 1);
    assert_eq!(send(&house, &id, "1", under("k")), Ok(Receipt { value: 2, prior: false }));
}

/// Q-18: a start that was new is on record with who asked, and a repetition is not.
#[test]
fn who_started_it() {
    let house = house();
    let by = |name: &str| Some(Actor::new(name));
    let first = Start { actor: by("client:a"), ..keyed(&house, "k", "[]") };
    let id = house.engine_start(first);
    house.engine_start(Start { actor: by("client:b"), ..keyed(&house, "k", "[]") });
    house.engine_start(keyed(&house, "l", "[]"));
    let [entry] = &audited(&house)[..] else { panic!("one start is on record") };
    assert_eq!((&*entry.actor, &*entry.action, &*entry.reason), ("client:a", "start", ""));
    assert_eq!(entry.about, AuditSubject::Execution(house.row(&id).key));
}

/// I-13, C-31: a caller who goes in the middle of asking leaves the key to the next only when what
/// was asked for is accepted: the tree forgets nothing.
#[test]
fn a_caller_who_goes_in_the_middle() {
    let house = house();
    let id = house.start("x", "script/main", "[{\"signal\":\"end\"}]");
    house.work();
    let name = SignalName::new("go").unwrap();
    let signal = || house.engine().signal(&id, &name, Payload::json("1"), under("k"));
    let waker = std::task::Waker::noop();
    for _ in 0..3 {
        let mut asking = std::pin::pin!(signal());
        assert!(asking.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    }
    let done = house.wait(signal()).unwrap();
    assert_eq!((done.value.get(), done.prior), (1, true));
    assert_eq!(delivered(&house, &id), 1);
    is_sound(&house);
}

/// I-13, C-31: the same key from many at once, on threads: of each kind one takes effect, the others
/// get its answer; and a start and a signal under one key do not both.
#[test]
fn many_at_once() {
    const MANY: usize = 16;
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for round in 0..3 {
        let path = folder.path().join("store");
        let store =
            reopen(|| embedded::open(&path, &TABLES, &embedded::Options::default())).unwrap();
        let world = World { http: Arc::new(NoNetwork), ..World::system(guests::shared()) };
        let options = Options { workers: 2, ..Options::default() };
        let engine = Arc::new(Engine::open(store, options, world).unwrap());
        runtime.block_on(async {
            let bytes = guests::bytes("script");
            engine.deploy("script", &bytes, Attribution::default()).await.unwrap();
            let start = |key: Option<IdempotencyKey>| Start {
                namespace: indelible_journal::Namespace::new("tests").unwrap(),
                operation_id: None,
                idempotency_key: key,
                component: "script".into(),
                function: "main".into(),
                input: Payload::json("[{\"signal\":\"end\"}]"),
                trace_parent: None,
                actor: None,
                labels: Labels::default(),
            };
            let id = engine.start(start(None)).await.unwrap().execution_id;
            let name = SignalName::new("go").unwrap();
            let ask = |key: Option<IdempotencyKey>| {
                let (engine, id, name) = (Arc::clone(&engine), id.clone(), name.clone());
                let asked = Attribution { key, ..Attribution::default() };
                tokio::spawn(
                    async move { engine.signal(&id, &name, Payload::json("1"), asked).await },
                )
            };
            let same: Vec<_> = (0..MANY).map(|_| ask(key(&format!("same {round}")))).collect();
            let mut fresh = 0;
            for one in same {
                let done = one.await.unwrap().unwrap();
                assert_eq!(done.value.get(), 1);
                fresh += usize::from(!done.prior);
            }
            assert_eq!(fresh, 1);
            // Starts and signals under one key, one after the other or the other way round.
            let mixed = key(&format!("mixed {round}"));
            let mut signals = Vec::new();
            let mut starts = Vec::new();
            for number in 0..MANY {
                if number % 2 == round % 2 {
                    signals.push(ask(mixed.clone()));
                }
                let (engine, start) = (Arc::clone(&engine), start(mixed.clone()));
                starts.push(tokio::spawn(async move { engine.start(start).await }));
                if number % 2 != round % 2 {
                    signals.push(ask(mixed.clone()));
                }
            }
            let (mut started, mut signalled) = (Vec::new(), 0);
            for one in starts {
                match one.await.unwrap() {
                    Ok(one) => started.push(one),
                    Err(StartRefused::Mismatch) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            for one in signals {
                match one.await.unwrap() {
                    Ok(done) => {
                        signalled += 1;
                        assert_eq!(done.value.get(), 2);
                    }
                    Err(ControlError::Mismatch) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(started.is_empty() != (signalled == 0), "one of the two");
            let fresh = started.iter().filter(|one| one.verdict == Verdict::Fresh).count();
            assert_eq!(fresh, usize::from(!started.is_empty()));
        });
        Arc::into_inner(engine).unwrap().close();
    }
}
