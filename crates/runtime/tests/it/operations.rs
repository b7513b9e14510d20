//! Starting under an operation id, and versions of components (C-31, D6).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_journal::{ComponentDigest, Micros, OperationId, Timestamp};
use indelible_operations::id;
use indelible_records::{TABLES, windows};
use indelible_runtime::world::Clock as _;
use indelible_runtime::{
    Attribution, DeployRefused, Engine, OpenError, Options, Retention, Start, StartRefused,
    Verdict, World,
};
use indelible_store::{Bounds, Store};
use serde_json::json;

use crate::support::{House, KEEP, MORNING, by_hand, guests, returned};

fn house() -> House {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    house
}

/// A component with the same functions and other bytes: a custom section more.
fn other_version() -> Vec<u8> {
    let mut bytes = guests::bytes("script");
    // Section 0, its length, the length of its name, the name, one byte.
    bytes.extend([0, 6, 4, b'n', b'o', b't', b'e', 2]);
    bytes
}

/// C-31: the same request under the same id finds the same execution, running or finished.
#[test]
fn a_repeated_request_attaches() {
    let house = house();
    let request = house.request("one", "script/main", "[{\"signal\":\"go\"}]");
    let first = house.wait(house.engine().start(request.clone())).unwrap();
    assert!(!first.attached());
    let again = house.wait(house.engine().start(request.clone())).unwrap();
    assert!(again.attached());
    assert_eq!(again.execution_id, first.execution_id);
    house.signal(&first.execution_id, "go", "1");
    house.work();
    let (after, ending) = house.wait(house.engine().call(request)).unwrap();
    assert!(after.attached());
    assert_eq!(after.execution_id, first.execution_id);
    assert_eq!(returned(&ending), "[{\"signal\":1}]");
    assert_eq!(house.tree(&first.execution_id).len(), 1);
}

/// C-31: and after a crash, and after a new version was deployed.
#[test]
fn a_new_version_does_not_make_an_old_request_new() {
    let mut house = house();
    let request = house.request("one", "script/main", "[{\"return\":1}]");
    let first = house.wait(house.engine().start(request.clone())).unwrap();
    house.work();
    let deployed = house
        .wait(house.engine().deploy("script", &other_version(), Attribution::default()))
        .unwrap();
    assert!(!deployed.value.known);
    house.crash();
    let again = house.wait(house.engine().start(request)).unwrap();
    assert!(again.attached());
    assert_eq!(again.execution_id, first.execution_id);
    // A new request takes the new version.
    let new = house.start("two", "script/main", "[{\"return\":1}]");
    house.work();
    assert_eq!(house.row(&new).component, deployed.value.digest);
    assert_ne!(house.row(&first.execution_id).component, deployed.value.digest);
}

/// V-9, C-6: another request under the same id is a conflict, whatever became of the first.
#[test]
fn another_request_under_the_same_id_conflicts() {
    let house = house();
    house.start("one", "script/main", "[{\"signal\":\"go\"}]");
    let conflicts = |function: &str, input: &str| {
        let refused = house.wait(house.engine().start(house.request("one", function, input)));
        assert!(matches!(refused, Err(StartRefused::Conflict)), "{refused:?}");
    };
    conflicts("script/main", "[]");
    conflicts("script/idem", "[{\"signal\":\"go\"}]");
    // The same id in another namespace is another operation.
    let mut request = house.request("one", "script/main", "[]");
    request.namespace = indelible_journal::Namespace::new("elsewhere").unwrap();
    assert!(!house.wait(house.engine().start(request)).unwrap().attached());
}

/// Without an id of the client's one is made, and each start is another execution.
#[test]
fn ids_are_made() {
    let house = house();
    let mut request = house.request("unused", "script/main", "[{\"return\":1}]");
    request.operation_id = None;
    let one = house.wait(house.engine().start(request.clone())).unwrap();
    let two = house.wait(house.engine().start(request)).unwrap();
    assert_ne!(one.execution_id, two.execution_id);
    let id = one.operation_id.as_str();
    assert_eq!((id.len(), &id[14..15]), (36, "7"), "a UUIDv7: {id}");
}

/// Two at once, of whatever version: one execution.
#[test]
fn two_starts_at_once() {
    let house = house();
    let request = house.request("one", "script/main", "[{\"signal\":\"go\"}]");
    let (one, two) = house.wait(async {
        tokio::join!(house.engine().start(request.clone()), house.engine().start(request.clone()))
    });
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.execution_id, two.execution_id);
    assert_ne!(one.attached(), two.attached());
}

/// D6: what runs stays with its version; its children too.
#[test]
fn a_running_execution_keeps_its_version() {
    let house = house();
    let steps = json!([
        { "signal": "go" },
        { "call": ["a", "main", []] }, { "await": "a" },
        { "call": ["b", "script/main", []] }, { "await": "b" },
    ]);
    let id = house.start("one", "script/main", &steps.to_string());
    house.work();
    let old = house.row(&id).component;
    let new = house
        .wait(house.engine().deploy("script", &other_version(), Attribution::default()))
        .unwrap()
        .value
        .digest;
    house.signal(&id, "go", "1");
    house.work();
    returned(&house.ending(&id));
    let versions: Vec<ComponentDigest> =
        house.tree(&id).iter().map(|(key, _)| house.row(key.execution_id()).component).collect();
    // By its own component's name it asks for what is active now.
    assert_eq!(versions, [old, old, new]);
}

/// D6: the same bytes twice are one version; the last deployed is the active one.
#[test]
fn the_same_bytes_are_one_version() {
    let mut house = house();
    let bytes = guests::bytes("script");
    let again =
        house.wait(house.engine().deploy("script", &bytes, Attribution::default())).unwrap();
    assert!(again.value.known);
    house.wait(house.engine().deploy("script", &other_version(), Attribution::default())).unwrap();
    let back = house.wait(house.engine().deploy("script", &bytes, Attribution::default())).unwrap();
    assert!(back.value.known);
    house.crash();
    let all = house.wait(house.engine().components()).unwrap();
    let (name, active, versions) = &all[0];
    assert_eq!((all.len(), name.as_str(), *active), (1, "script", back.value.digest));
    assert_eq!(versions.len(), 2);
    let manifest = house.wait(house.engine().manifest(active)).unwrap().unwrap();
    let names: Vec<_> = manifest.functions().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["idem", "main", "plain", "reconcile"]);
}

/// What cannot be run is refused at the door, and nothing has changed.
#[test]
fn deployments_are_checked() {
    let house = house();
    let taken = house.disk.taken();
    let refused =
        house.wait(house.engine().deploy("a b", &guests::bytes("script"), Attribution::default()));
    assert!(matches!(refused, Err(DeployRefused::Name(_))), "{refused:?}");
    let refused =
        house.wait(house.engine().deploy("junk", b"not a component", Attribution::default()));
    assert!(matches!(refused, Err(DeployRefused::Component(_))), "{refused:?}");
    assert_eq!(house.disk.taken(), taken);
    assert_eq!(house.wait(house.engine().components()).unwrap().len(), 1);
}

/// Starts that make no sense say what would.
#[test]
fn starts_are_checked() {
    let house = house();
    let start = |function: &str| {
        let refused = house.wait(house.engine().start(house.request("one", function, "[]")));
        refused.unwrap_err().to_string()
    };
    assert_eq!(start("nowhere/main"), "no component \"nowhere\" is deployed");
    assert_eq!(
        start("script/mian"),
        "the component \"script\" has no function \"mian\"; its functions: idem, main, plain, reconcile"
    );
}

/// An execution that was never started has no outcome.
#[test]
fn outcomes_of_nothing() {
    let house = house();
    let id = house.start("one", "script/main", "[{\"return\":1}]");
    let nobody = id.to_string().replace(|c: char| c.is_ascii_digit(), "a").parse().unwrap();
    assert_eq!(house.wait(house.engine().outcome(&nobody)).unwrap(), None);
}

const DAY: Micros = Micros::from_secs(24 * 3600);
const WEEK: Micros = Micros::from_secs(7 * 24 * 3600);

/// An id that a client made so many seconds after the clock of a test started, or before.
fn made_at(seconds: i64) -> OperationId {
    let micros = MORNING.checked_add_signed(seconds * 1_000_000).unwrap();
    id::mint(Timestamp::from_micros(micros).unwrap(), &[9; 10], None)
}

fn under(house: &House, id: &OperationId, input: &str) -> Start {
    house.request(id.as_str(), "script/main", input)
}

/// How many records go whose window has passed.
fn purged(house: &House) -> usize {
    house.wait(windows::purge(house.engine().store(), house.clock.now(), 100)).unwrap().records
}

/// V-56, V-59, C-3: when an operation is no longer remembered, its id is refused and not taken for
/// a new one; as long as it is, it is found, also beyond its window.
#[test]
fn a_forgotten_operation_is_not_executed_again() {
    let mut house = house();
    let id = made_at(0);
    let request = under(&house, &id, "[{\"return\":1}]");
    let first = house.engine_start(request.clone());
    house.work();
    house.move_clock(WEEK);
    assert_eq!(house.engine_start(request.clone()), first, "its record is still there");
    assert_eq!(purged(&house), 1);
    house.settle();
    let taken = house.disk.taken();
    for input in ["[{\"return\":1}]", "[{\"return\":2}]"] {
        let refused = house.wait(house.engine().start(under(&house, &id, input)));
        assert!(matches!(refused, Err(StartRefused::Expired)), "{refused:?}");
    }
    assert_eq!(house.disk.taken(), taken);
    // Under a new version its root would be another one: it is the id that is refused.
    house.wait(house.engine().deploy("script", &other_version(), Attribution::default())).unwrap();
    house.crash();
    let refused = house.wait(house.engine().call(request));
    assert!(matches!(refused, Err(StartRefused::Expired)), "{refused:?}");
}

/// V-59, C-3: so is an id that was never seen, and is too old to be new.
#[test]
fn an_old_id_is_refused() {
    let house = house();
    let start = |seconds| house.wait(house.engine().start(under(&house, &made_at(seconds), "[]")));
    let week = 7 * 24 * 3600;
    let refused = start(-week);
    assert!(matches!(refused, Err(StartRefused::Expired)), "{refused:?}");
    assert!(!start(-week + 1).unwrap().attached());
}

/// C-3: an id from the future is refused, unless clocks may differ by that much.
#[test]
fn an_id_from_the_future_is_refused() {
    let house = house();
    let start = |seconds| house.wait(house.engine().start(under(&house, &made_at(seconds), "[]")));
    let refused = start(601);
    assert!(matches!(refused, Err(StartRefused::FromTheFuture)), "{refused:?}");
    assert!(!start(600).unwrap().attached());
    // When its time has come, it is an id like any other.
    house.move_clock(Micros::from_secs(1));
    assert!(!start(601).unwrap().attached());
    assert!(start(601).unwrap().attached());
}

/// V-57, C-3: an operation that goes on is found, however old its id is.
#[test]
fn an_old_operation_that_goes_on_is_found() {
    let house = house();
    let request = under(&house, &made_at(0), "[{\"signal\":\"go\"}]");
    let first = house.engine_start(request.clone());
    house.work();
    house.move_clock(Micros::from_secs(30 * 24 * 3600));
    assert_eq!(purged(&house), 0);
    assert_eq!(house.engine_start(request), first);
}

/// V-58, C-3: the record of an id that a clock ahead of ours has made stays for that longer: there
/// is no moment at which it is forgotten and the id seems new.
#[test]
fn a_client_whose_clock_is_ahead() {
    let house = house();
    let ahead = Micros::from_secs(600);
    let request = under(&house, &made_at(600), "[{\"return\":1}]");
    let first = house.engine_start(request.clone());
    house.work();
    house.move_clock(WEEK);
    assert_eq!(purged(&house), 0, "its id is younger than a week");
    assert_eq!(house.engine_start(request.clone()), first);
    house.move_clock(ahead);
    assert_eq!(purged(&house), 1);
    let refused = house.wait(house.engine().start(request));
    assert!(matches!(refused, Err(StartRefused::Expired)), "{refused:?}");
}

/// C-3: an id that carries no time is not refused for its age. When its operation is forgotten, it
/// is new.
#[test]
fn an_id_without_a_time_does_not_expire() {
    let house = house();
    let first = house.start("one", "script/main", "[{\"return\":1}]");
    house.work();
    house.move_clock(WEEK);
    assert_eq!(purged(&house), 1);
    house.wait(house.engine().deploy("script", &other_version(), Attribution::default())).unwrap();
    assert_ne!(house.start("one", "script/main", "[{\"return\":2}]"), first);
}

/// V-31, V-9, C-3: under an id that carries no time, an execution that outlives the record of its
/// operation is found by the same request, and another request is a conflict; so it is with a volatile
/// one, of which only the last attempt is left. When the execution is gone as well, the id is new.
#[test]
fn an_execution_outlives_its_record() {
    let rows = [
        ("script/main", "[{\"return\":1}]", "1", ("script/main", "[]")),
        ("script/main", "[{\"return\":1}]", "1", ("script/idem", "[{\"return\":1}]")),
        ("behaviours/fickle", "3", "3", ("behaviours/fickle", "2")),
        ("behaviours/fickle", "3", "3", ("behaviours/naps", "3")),
        ("behaviours/fickle", "3", "3", ("behaviours/flaky", "3")),
    ];
    for (function, input, result, (other, else_given)) in rows {
        let mut house = house();
        house.deploy("behaviours");
        let request = house.request("one", function, input);
        let first = house.engine_start(request.clone());
        house.work_through();
        let events = house.tree(&first);
        house.move_clock(WEEK);
        assert_eq!(purged(&house), 1);
        for crash in [false, true] {
            if crash {
                house.crash();
            }
            let started = house.wait(house.engine().start(request.clone())).unwrap();
            assert_eq!((&started.execution_id, started.verdict), (&first, Verdict::Prior));
            let (started, ending) = house.wait(house.engine().call(request.clone())).unwrap();
            assert_eq!((&started.execution_id, started.verdict), (&first, Verdict::Prior));
            assert_eq!(returned(&ending), result);
            let refused = house.request("one", other, else_given);
            let refused = house.wait(house.engine().start(refused));
            assert!(matches!(refused, Err(StartRefused::Conflict)), "{other}: {refused:?}");
            house.work_through();
            assert_eq!(house.tree(&first), events, "nothing was done again");
        }
        let all = Some(Micros::ZERO);
        let all = Retention { completed: all, failed: all, cancelled: all };
        while house.wait(house.engine().sweep(&all, 1000)).unwrap().more {}
        let again = house.wait(house.engine().start(request)).unwrap();
        assert_eq!((again.execution_id, again.verdict), (first, Verdict::Fresh));
    }
}

/// C-3: an engine that would forget operations while callers still repeat them does not open.
#[test]
fn a_window_shorter_than_the_callers_retries_is_refused() {
    let house = house();
    let open = |operation_window, retry_horizon| {
        let options = Options { operation_window, retry_horizon, ..by_hand(KEEP) };
        let engine = std::sync::Arc::new(indelible_store::memory::MemoryBackend::new());
        let store = Store::start(engine, &TABLES, Bounds::DEFAULT).unwrap();
        Engine::open(store, options, World::system(house.guests.clone())).map(Engine::close)
    };
    let refused = open(Micros::from_secs(3600), DAY).unwrap_err();
    assert!(matches!(refused, OpenError::Window(_)), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "operation_window is shorter than retry_horizon: operations are kept for 3600s after \
         their end, but callers retry for 86400s: a late retry would run the operation again"
    );
    open(DAY, DAY).unwrap();
    open(Micros::from_secs(3600), Micros::from_secs(60)).unwrap();
}
