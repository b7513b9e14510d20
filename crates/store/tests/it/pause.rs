//! A backend that cannot be reached for a while, that loses connections during commits, that has
//! another writer, and whose rows are behind what it has committed: what the store makes of each.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use indelible_store::backend::{Backend, BackendError, BackendSnapshot};
use indelible_store::memory::MemoryBackend;
use indelible_store::{
    Batch, Bounds, Durable, Expect, Lost, PauseTime, Position, ReadError, Scan, Sequence, Shape,
    Store, SubmitError, Table, Write,
};
use indelible_store_conformance::Rng;
use indelible_store_conformance::late::{Fault, Habits, LateServer};

const T: Table = Table::new(1, "t", Shape::Kept);

/// Time that a test moves.
#[derive(Default)]
struct HandTime(AtomicU64);

impl HandTime {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl PauseTime for HandTime {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn server() -> Arc<LateServer> {
    LateServer::new(Habits::BY_HAND, Rng::new(1))
}

fn open(server: &Arc<LateServer>, bounds: Bounds) -> Store {
    Store::start_by_hand(Arc::new(server.connect()), &[T], bounds).unwrap()
}

fn put(key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(T, key.to_owned(), value.to_owned());
    batch
}

fn value(store: &Store, key: &str) -> Option<String> {
    let value = store.get(T, key.as_bytes()).unwrap().value;
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// The rows that another process would find.
fn committed(server: &LateServer, key: &str) -> Option<String> {
    let value = server.committed_rows().get(&T, key.as_bytes()).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn poll(durable: &mut Durable) -> Poll<Result<(), Lost>> {
    let mut durable = pin!(durable);
    durable.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// D2, D3, D10: while the backend cannot be reached nothing becomes durable, whatever is accepted is
/// seen, and room runs out; when it is back, everything goes on in order.
#[test]
fn a_store_goes_on_when_its_backend_is_back() {
    let server = server();
    let store = open(&server, Bounds { waiting_batches_max: 2, ..Bounds::DEFAULT });
    let first = store.try_submit(put("before", "1")).unwrap();
    assert!(store.step() && store.step());
    assert_eq!(store.durable_now(), first);
    server.plan([Some(Fault::Unavailable); 3]);

    let held = store.try_submit(put("a", "1")).unwrap();
    let mut durable = store.durable(held);
    assert!(store.step() && store.pause().is_none(), "it is only taken");
    for _ in 0..3 {
        assert!(store.step());
        let pause = store.pause().unwrap();
        assert!(matches!(pause.cause(), BackendError::Unavailable { .. }), "{pause}");
        assert!(store.readings().paused);
        assert!(poll(&mut durable).is_pending());
        assert_eq!(store.durable_now(), first);
    }
    store.try_submit(put("b", "1")).unwrap();
    let last = store.try_submit(put("a", "2")).unwrap();
    let full = store.try_submit(put("c", "1"));
    assert!(matches!(full, Err(SubmitError::Full { waiting: 2 })), "{full:?}");
    assert_eq!(value(&store, "a").as_deref(), Some("2"));
    assert_eq!(value(&store, "before").as_deref(), Some("1"), "what is durable is readable");
    assert_eq!(committed(&server, "a"), None);
    assert!(store.poison().is_none());

    assert!(store.step());
    assert!(store.pause().is_none() && !store.readings().paused);
    assert!(poll(&mut durable).is_ready());
    assert_eq!((store.durable_now(), committed(&server, "a").as_deref()), (held, Some("1")));
    while store.step() {}
    assert_eq!((store.durable_now(), committed(&server, "a").as_deref()), (last, Some("2")));
    assert_eq!((server.committed(), server.tries()), (Sequence::new(3), 6));
}

/// D10: a group whose commit was cut off is looked for, and given again only if it is not there; it
/// is there once, also if the first try arrives after the writer was told that it is not.
#[test]
fn a_group_of_unknown_outcome_is_committed_once() {
    let cases = [(Fault::LostAfter, 1), (Fault::LostBefore, 2), (Fault::LostAndLate, 2)];
    for (fault, tries) in cases {
        let server = server();
        let store = open(&server, Bounds::DEFAULT);
        server.plan([Some(fault)]);
        let position = store.try_submit(put("a", "1")).unwrap();
        let mut durable = store.durable(position);
        assert!(store.step() && store.step());
        let pause = store.pause().unwrap();
        assert!(matches!(pause.cause(), BackendError::UnknownOutcome { .. }), "{pause}");
        // It may be there: no caller is told before the backend was asked.
        assert!(poll(&mut durable).is_pending(), "{fault:?}");
        assert_eq!(store.durable_now(), Position::START, "{fault:?}");
        assert!(store.step() && !store.step());
        assert!(poll(&mut durable).is_ready() && store.pause().is_none(), "{fault:?}");
        assert_eq!(server.committed(), Sequence::new(1), "{fault:?}");
        assert_eq!(server.tries(), tries, "{fault:?}");
        assert_eq!(committed(&server, "a").as_deref(), Some("1"), "{fault:?}");
        // The next group has the next sequence.
        store.try_submit(put("b", "1")).unwrap();
        assert!(store.step() && store.step() && !store.step());
        assert_eq!(server.committed(), Sequence::new(2), "{fault:?}");
    }
}

fn expect_poison(store: &Store, durable: Durable, is_cause: impl Fn(&BackendError) -> bool) {
    while store.step() {}
    let poison = store.poison().unwrap();
    assert!(is_cause(poison.cause()), "{poison}");
    assert!(store.pause().is_none());
    assert!(matches!(durable.wait(), Err(Lost::Poisoned(_))));
    assert!(matches!(store.try_submit(put("x", "1")), Err(SubmitError::Poisoned(_))));
    assert!(matches!(store.get(T, b"x"), Err(ReadError::Poisoned(_))));
}

/// D10: when another writer has taken over, the first one stops: at its next commit, or when it asks
/// for the group of a commit that was cut off.
#[test]
fn another_writer_poisons_the_first() {
    for fault in [None, Some(Fault::LostBefore), Some(Fault::LostAndLate)] {
        let server = server();
        let store = open(&server, Bounds::DEFAULT);
        server.plan([None, fault]);
        store.try_submit(put("a", "first")).unwrap();
        assert!(store.step() && store.step());
        let position = store.try_submit(put("a", "second")).unwrap();
        let durable = store.durable(position);
        assert!(store.step());
        if fault.is_some() {
            assert!(store.step() && store.pause().is_some());
        }
        let other = open(&server, Bounds::DEFAULT);
        assert_eq!(other.durable_sequence(), Sequence::new(1));
        expect_poison(&store, durable, |cause| matches!(cause, BackendError::Fenced { .. }));
        server.set_unreadable(true);
        let mut batch = put("a", "third");
        batch.expect(T, "a", Expect::Absent);
        assert!(matches!(store.try_submit(batch), Err(SubmitError::Poisoned(_))), "{fault:?}");
        server.set_unreadable(false);
        assert_eq!(value(&other, "a").as_deref(), Some("first"), "{fault:?}");
        let position = other.try_submit(put("a", "other")).unwrap();
        other.durable(position).wait().unwrap();
        assert_eq!(committed(&server, "a").as_deref(), Some("other"), "{fault:?}");
    }
}

/// D10, D12: a backend that has lost what it acknowledged stops the store, whether the next commit
/// finds out or the question after a pause.
#[test]
fn missing_acknowledged_commits_poison_the_store() {
    for fault in [None, Some(Fault::Unavailable)] {
        let server = server();
        let store = open(&server, Bounds::DEFAULT);
        server.plan([None, fault]);
        let acknowledged = store.try_submit(put("a", "1")).unwrap();
        store.durable(acknowledged).wait().unwrap();
        let position = store.try_submit(put("b", "1")).unwrap();
        let durable = store.durable(position);
        assert!(store.step());
        if fault.is_some() {
            assert!(store.step() && store.pause().is_some());
        }
        server.forget_last();
        let one = Sequence::new(1);
        expect_poison(
            &store,
            durable,
            |cause| matches!(cause, BackendError::CommitsMissing { acknowledged } if *acknowledged == one),
        );
        assert_eq!(store.poison().unwrap().durable(), acknowledged);
        assert_eq!(server.committed(), Sequence::START, "nothing is written over it");
    }
}

/// A backend that panics when it is asked how far its rows are.
struct Confused(MemoryBackend);

impl Backend for Confused {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.0.get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        self.0.snapshot()
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        self.0.commit(sequence, writes)
    }

    fn applied(&self) -> Sequence {
        panic!("out of its mind")
    }

    fn reclaim(&self, table: &Table) -> Result<(), BackendError> {
        self.0.reclaim(table)
    }

    fn disk_bytes(&self, table: &Table) -> u64 {
        self.0.disk_bytes(table)
    }
}

/// D12: a panic of the backend behind a commit stops the store like one in it: the writer does not
/// vanish, and callers that wait are told.
#[test]
fn a_panic_behind_a_commit_poisons_the_store() {
    let backend = Arc::new(Confused(MemoryBackend::new()));
    let store = Store::start_by_hand(backend, &[T], Bounds::DEFAULT).unwrap();
    let durable = store.durable(store.try_submit(put("a", "1")).unwrap());
    let panicked = |cause: &BackendError| cause.to_string().contains("out of its mind");
    expect_poison(&store, durable, panicked);
}

/// D2: callers that wait are told after the bound that it is unknown what becomes of their batch, and
/// so are those that come later, and those that wait for room. What waits through pauses is not, and
/// goes on when the backend is back.
#[test]
fn callers_are_told_of_a_long_pause() {
    let (server, time) = (server(), Arc::new(HandTime::default()));
    let bounds = Bounds { waiting_batches_max: 1, ..Bounds::DEFAULT };
    let backend = Arc::new(server.connect());
    let store = Store::start_by_hand_with(backend, &[T], bounds, time.clone()).unwrap();
    server.plan([Some(Fault::Unavailable); 3]);
    let closing = store.try_submit(put("a", "1")).unwrap();
    assert!(store.step());
    let open = store.try_submit(put("b", "1")).unwrap();
    let mut bounded = [store.durable(closing), store.durable(open)];
    let mut endless = [closing, open].map(|position| store.durable(position).through_pauses());
    let mut no_room = pin!(store.submit(put("c", "1")));
    let mut context = Context::from_waker(Waker::noop());

    time.pass(Duration::from_secs(3600));
    assert!(store.step() && store.pause().is_some());
    time.pass(bounds.pause_told_after - Duration::from_millis(1));
    assert!(store.step() && store.pause().is_some());
    assert!(bounded.iter_mut().all(|wait| poll(wait).is_pending()), "counted from its beginning");
    assert!(no_room.as_mut().poll(&mut context).is_pending());
    time.pass(Duration::from_millis(1));
    assert!(store.step() && store.pause().is_some());
    for wait in bounded.iter_mut().chain([&mut store.durable(open)]) {
        let Poll::Ready(Err(lost @ Lost::Paused(_))) = poll(wait) else { panic!("{wait:?}") };
        assert!(lost.to_string().starts_with("it is unknown whether"), "{lost}");
    }
    let refused = no_room.as_mut().poll(&mut context);
    assert!(matches!(refused, Poll::Ready(Err(SubmitError::Paused(_)))), "{refused:?}");
    assert!(endless.iter_mut().all(|wait| poll(wait).is_pending()));

    assert!(store.step() && store.pause().is_none());
    assert!(matches!(poll(&mut endless[0]), Poll::Ready(Ok(()))));
    assert!(poll(&mut store.durable(open)).is_pending(), "the pause is over");
    assert!(store.step() && store.step() && !store.step());
    assert!(matches!(poll(&mut endless[1]), Poll::Ready(Ok(()))));
    assert_eq!(committed(&server, "b").as_deref(), Some("1"));
    assert_eq!(committed(&server, "c"), None, "the refused batch changed nothing");
}

/// D10: what is durable is read from memory until the rows have it: by gets, scans, snapshots,
/// preconditions and deletes. Beyond the bound of what is kept, the writer waits for the backend; also
/// rows that were overwritten count, because they share the memory of their batches.
#[test]
fn what_is_durable_and_not_applied_is_kept() {
    const GROUPS: usize = 60;
    let server = server();
    let store = open(&server, Bounds { kept_bytes_max: 2_000, ..Bounds::DEFAULT });
    let key = |number: usize| format!("key {:02}", number % 20);
    for number in 0..GROUPS {
        let mut batch = put(&key(number), &number.to_string());
        match number.checked_sub(20) {
            Some(before) => {
                let before = Expect::Equal(before.to_string().into());
                batch.expect(T, key(number), before).delete(T, key(number + 1));
                batch.put(T, key(number + 1), (number - 19).to_string());
            }
            None => _ = batch.expect(T, key(number), Expect::Absent),
        }
        store.try_submit(batch).unwrap();
        while store.step() {}
        assert_eq!(store.durable_sequence(), Sequence::new(number as u64 + 1));
        assert_eq!(value(&store, &key(number)), Some(number.to_string()));
    }
    assert_eq!(server.applied(), Sequence::START, "the rows have nothing");
    let snapshot = store.snapshot().unwrap();
    let shown = |rows: Vec<(bytes::Bytes, bytes::Bytes)>| {
        let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        rows.into_iter().map(|(key, value)| (text(key), text(value))).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (40..60).map(|number| (key(number), number.to_string())).collect();
    let all = || shown(snapshot.scan(&Scan::all(T, 100)).unwrap().value.rows);
    assert_eq!(all(), expected);
    let backwards = snapshot.scan(&Scan::all(T, 100).reversed()).unwrap().value.rows;
    assert_eq!(shown(backwards), expected.iter().rev().cloned().collect::<Vec<_>>());

    // A batch that is large, and no more room: the writer waits, and knows that it has not tried. There
    // would be room for it beside the 20 rows that are left of all groups.
    let large = store.try_submit(put("large", &"x".repeat(1_500))).unwrap();
    let tries = server.tries();
    for _ in 0..3 {
        assert!(store.step());
    }
    assert!(store.pause().unwrap().to_string().contains("behind"), "{:?}", store.pause());
    assert_eq!((server.tries(), store.durable_now() < large), (tries, true));
    server.apply(GROUPS);
    assert!(store.step() && store.pause().is_none() && !store.step());
    assert_eq!((server.tries(), store.durable_now()), (tries + 1, large));
    assert_eq!(all(), expected, "a snapshot stays as it is");
    assert_eq!(value(&store, &key(59)).as_deref(), Some("59"));
    server.apply(1);
    assert_eq!(value(&store, "large").unwrap().len(), 1_500);
}

/// A store that is closed in a pause tries a few times more and gives up: what it gives up was told
/// to no caller. The next one goes on after the last sequence.
#[test]
fn closing_in_a_pause_comes_to_an_end() {
    let server = server();
    let store = open(&server, Bounds::DEFAULT);
    server.plan([None, Some(Fault::Unavailable), Some(Fault::Unavailable), None]);
    let position = store.try_submit(put("a", "1")).unwrap();
    store.durable(position).wait().unwrap();
    store.try_submit(put("a", "2")).unwrap();
    assert!(store.step() && store.step() && store.pause().is_some());
    store.close().unwrap();
    assert_eq!(committed(&server, "a").as_deref(), Some("2"), "it was back in time");

    let store = open(&server, Bounds::DEFAULT);
    assert_eq!(store.durable_sequence(), Sequence::new(2));
    server.plan([Some(Fault::Unavailable); 100]);
    let position = store.try_submit(put("a", "3")).unwrap();
    let durable = store.durable(position);
    let poison = store.close().unwrap_err();
    assert!(poison.cause().pauses(), "{poison}");
    assert!(matches!(durable.wait(), Err(Lost::Poisoned(_))));
    assert_eq!(committed(&server, "a").as_deref(), Some("2"));
}

/// Time in which each wait is told to the test, and lasts until the test ends it.
struct StepTime {
    waits: Mutex<mpsc::Sender<Duration>>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl PauseTime for StepTime {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wait(&self, delay: Duration) {
        _ = self.waits.lock().unwrap().send(delay);
        _ = self.go_on.lock().unwrap().recv();
    }
}

/// The writer's own thread waits longer after each try, and goes on by itself; while it waits,
/// others read and submit.
#[test]
fn the_writer_waits_between_its_tries() {
    let server = server();
    let (waits, waited) = mpsc::channel();
    let (go_on, go_on_told) = mpsc::channel();
    let time = StepTime { waits: Mutex::new(waits), go_on: Mutex::new(go_on_told) };
    let backend = Arc::new(server.connect());
    let store = Store::start_with(backend, &[T], Bounds::DEFAULT, Arc::new(time)).unwrap();
    server.plan([Some(Fault::Unavailable), Some(Fault::LostBefore), Some(Fault::LostAfter)]);
    let position = store.try_submit(put("a", "1")).unwrap();
    let mut last = Duration::ZERO;
    for _ in 0..3 {
        let delay = waited.recv().unwrap();
        assert!(delay > last, "{delay:?} after {last:?}");
        last = delay;
        assert!(store.pause().is_some());
        assert_eq!(value(&store, "a").as_deref(), Some("1"));
        go_on.send(()).unwrap();
    }
    store.durable(position).wait().unwrap();
    assert_eq!((server.committed(), server.tries()), (Sequence::new(1), 3));
}

/// A precondition that cannot be read refuses nothing: who tries is told, who waits on a thread of
/// its own gets its answer when the backend is back.
#[test]
fn preconditions_are_read_when_the_backend_is_back() {
    let server = server();
    let (waits, waited) = mpsc::channel();
    let (go_on, go_on_told) = mpsc::channel();
    let time = StepTime { waits: Mutex::new(waits), go_on: Mutex::new(go_on_told) };
    let backend = Arc::new(server.connect());
    let store = Store::start_with(backend, &[T], Bounds::DEFAULT, Arc::new(time)).unwrap();
    server.set_unreadable(true);
    let mut batch = put("a", "1");
    batch.expect(T, "a", Expect::Absent);
    let refused = store.try_submit(batch.clone()).unwrap_err();
    assert!(refused.is_pause() && !refused.is_damage(), "{refused}");
    assert!(store.get(T, b"a").unwrap_err().is_pause());
    assert!(store.snapshot().unwrap_err().is_pause());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| store.submit_blocking(batch).unwrap());
        waited.recv().unwrap();
        server.set_unreadable(false);
        go_on.send(()).unwrap();
        assert_eq!(waits.join().unwrap(), Position::new(1));
    });
    store.durable(Position::new(1)).wait().unwrap();
}
