//! An engine that a test runs step by step: its clock stands still until it is moved, its
//! randomness comes from a seed, and its disk can die after any commit.
#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

pub mod disk;
pub mod guests;
#[cfg(unix)]
pub mod process;
pub mod scenario;
pub mod wire;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use indelible_http::{NoNetwork, Sender};
use indelible_journal::{
    Ending, Event, ExecutionId, Journal, JournalKey, Micros, Namespace, OperationId, Payload,
    Record, SignalName, Timestamp,
};
use indelible_records::executions::{self, EndError, Execution, Standing};
use indelible_records::labels::Labels;
use indelible_records::timers::{self, Timer};
use indelible_records::{TABLES, journals};
use indelible_runtime::guest::Guests;
use indelible_runtime::rooms::Rooms;
use indelible_runtime::world::{
    Clock, Entropy, LogLine, Observer, Purpose, SilentObserver, Trouble, Witness,
};
use indelible_runtime::{
    Attribution, Engine, Options, Parking, ParkingBounds, Start, StartedExecution,
    UnresolvedEffect, World,
};
use indelible_store::{Batch, Bounds, Store, Table};

use self::disk::Disk;

/// When the clock of a test starts.
pub const MORNING: u64 = 1_800_000_000_000_000;

/// A clock that stands still: what it shows, and how much time has passed.
pub struct StillClock(AtomicU64, AtomicU64);

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn elapsed(&self) -> Micros {
        Micros::new(self.1.load(Ordering::SeqCst))
    }
}

/// Randomness as a function of a seed and of what it is for.
pub struct Seeded {
    seed: u64,
    ids: AtomicU64,
}

impl Entropy for Seeded {
    fn fill(&self, purpose: Purpose<'_>, bytes: &mut [u8]) {
        let purpose = match purpose {
            Purpose::Guest(promise) => format!("guest {promise}"),
            Purpose::Jitter(key) => format!("jitter {key}"),
            Purpose::Id => format!("id {}", self.ids.fetch_add(1, Ordering::SeqCst)),
        };
        let mut state = xxhash_rust::xxh3::xxh3_64_with_seed(purpose.as_bytes(), self.seed);
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
    }
}

/// Remembers what it is told.
#[derive(Default)]
pub struct Told {
    pub lines: Mutex<Vec<String>>,
    pub stuck: Mutex<Vec<String>>,
    pub trouble: Mutex<Vec<String>>,
    pub unresolved: Mutex<Vec<UnresolvedEffect>>,
    pub ended: Mutex<Vec<(JournalKey, Standing)>>,
}

impl Observer for Told {
    fn logged(&self, line: LogLine<'_>) {
        self.lines.lock().unwrap().push(line.message.to_owned());
    }

    fn ended(&self, key: &JournalKey, standing: Standing) {
        self.ended.lock().unwrap().push((key.clone(), standing));
    }

    fn stuck(&self, _key: &JournalKey, why: &str) {
        self.stuck.lock().unwrap().push(why.to_owned());
    }

    fn unresolved(&self, effect: &UnresolvedEffect) {
        self.unresolved.lock().unwrap().push(effect.clone());
    }

    fn trouble(&self, trouble: &Trouble<'_>) {
        self.trouble.lock().unwrap().push(trouble.to_string());
    }
}

/// An engine, and everything around it that survives it.
pub struct House {
    pub disk: Arc<Disk>,
    pub clock: Arc<StillClock>,
    pub told: Arc<Told>,
    pub options: Options,
    pub seed: u64,
    pub guests: Arc<Guests>,
    pub witness: Arc<dyn Witness>,
    pub http: Arc<dyn Sender>,
    pub bounds: Bounds,
    pub rooms: Rooms,
    pub tables: Vec<Table>,
    engine: Option<Engine>,
}

/// Options under which a test runs the engine by itself.
pub fn by_hand(parking: Parking) -> Options {
    Options { workers: 0, parking, ..Options::default() }
}

pub const KEEP: Parking = Parking::Keep(ParkingBounds::for_guests(500));

impl House {
    /// A house with a new disk.
    pub fn new(options: Options) -> Self {
        Self::on(Arc::new(Disk::new()), options)
    }

    /// A house over a disk.
    pub fn on(disk: Arc<Disk>, options: Options) -> Self {
        Self::with(disk, options, guests::shared())
    }

    /// A house whose guests have limits of their own.
    pub fn with(disk: Arc<Disk>, options: Options, guests: Arc<Guests>) -> Self {
        let clock = Arc::new(StillClock(AtomicU64::new(MORNING), AtomicU64::new(0)));
        let told = Arc::new(Told::default());
        let witness = Arc::new(SilentObserver);
        let http = Arc::new(NoNetwork);
        let mut house = Self {
            disk,
            clock,
            told,
            options,
            seed: 7,
            guests,
            witness,
            http,
            bounds: Bounds::DEFAULT,
            rooms: Rooms::default(),
            tables: TABLES.to_vec(),
            engine: None,
        };
        house.reopen();
        house
    }

    /// Opens the engine, after [`House::crash`] or for the first time.
    pub fn reopen(&mut self) {
        drop(self.engine.take());
        let engine: Arc<dyn indelible_store::backend::Backend> = self.disk.clone();
        let store = Store::start(engine, &self.tables, self.bounds).unwrap();
        let world = World {
            clock: self.clock.clone(),
            entropy: Arc::new(Seeded { seed: self.seed, ids: AtomicU64::new(0) }),
            observer: self.told.clone(),
            witness: self.witness.clone(),
            http: self.http.clone(),
            guests: self.guests.clone(),
        };
        let (options, rooms) = (self.options.clone(), self.rooms.clone());
        self.engine = Some(Engine::open_with(store, options, world, rooms).unwrap());
    }

    /// Everything in memory is gone. What the disk has taken is there.
    pub fn crash(&mut self) {
        // Nothing that was in memory reaches the disk on the way out.
        self.disk.die_now();
        drop(self.engine.take());
        self.disk.revive();
        self.reopen();
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// Lets go of what is past its time, in the background.
    pub fn retain(&mut self, retention: indelible_runtime::Retention) {
        self.engine.as_mut().unwrap().retain(retention).unwrap();
    }

    /// A whole round of that.
    pub fn retain_once(&mut self, retention: indelible_runtime::Retention) {
        self.retain(retention);
        self.engine().wait_for_retention(1);
    }

    /// Runs the engine on this thread until a future is over.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.wait_and(future, || self.engine().step())
    }

    /// The same, but the engine has done everything that it can before anybody looks: how quick
    /// the disk is makes no difference.
    pub fn wait_at_rest<F: Future>(&self, future: F) -> F::Output {
        self.wait_and(future, || {
            self.work();
            false
        })
    }

    /// Waits for a future that only the disk has to do with: the engine does nothing meanwhile.
    pub fn wait_for_disk<F: Future>(&self, future: F) -> F::Output {
        self.wait_and(future, || false)
    }

    fn wait_and<F: Future>(&self, future: F, work: impl Fn() -> bool) -> F::Output {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            if !work() {
                // Only the disk can wake it now.
                thread::park_timeout(std::time::Duration::from_millis(20));
            }
        }
    }

    /// Works until there is nothing to do at this time.
    pub fn work(&self) {
        loop {
            self.engine().fire_due().unwrap_or(0);
            let mut worked = false;
            while self.engine().step() {
                worked = true;
            }
            if !worked {
                return;
            }
        }
    }

    /// Works, and moves the clock to the next timer whenever there is nothing to do.
    pub fn work_through(&self) {
        self.work_until(Timestamp::MAX);
    }

    /// The same, but the clock is not moved past this time.
    pub fn work_until(&self, last: Timestamp) {
        for _ in 0..100_000 {
            self.work();
            self.settle();
            if self.engine().readings().runnable > 0 && !self.disk.is_dead() {
                continue;
            }
            // Time that passes is not taken back when the disk dies; what is not on it is.
            if self.disk.is_dead() {
                return;
            }
            let Some(due) = self.engine().next_due().filter(|due| *due <= last) else { return };
            self.move_clock_to(due);
            if self.engine().fire_due().unwrap_or(0) == 0 && self.engine().next_due().is_none() {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Waits until everything that was done is on disk, or lost.
    pub fn settle(&self) {
        let store = self.engine().store();
        let _ = store.durable(store.accepted()).wait();
        while self.engine().readings().effects_leaving > 0 && !self.disk.is_dead() {
            thread::yield_now();
        }
    }

    /// What the clock shows.
    pub fn clock_time(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock, and does nothing.
    pub fn move_clock(&self, time: Micros) {
        self.clock.0.fetch_add(time.get(), Ordering::SeqCst);
        self.clock.1.fetch_add(time.get(), Ordering::SeqCst);
    }

    /// Sets the clock, ahead or back: no time passes.
    pub fn set_clock(&self, time: Timestamp) {
        self.clock.0.store(time.as_micros(), Ordering::SeqCst);
    }

    /// Moves the clock to this time, if it is not there yet.
    pub fn move_clock_to(&self, time: Timestamp) {
        let before = self.clock.0.fetch_max(time.as_micros(), Ordering::SeqCst);
        self.clock.1.fetch_add(time.as_micros().saturating_sub(before), Ordering::SeqCst);
    }

    /// Moves the clock, and works.
    pub fn pass(&self, time: Micros) {
        self.move_clock(time);
        self.work();
    }

    /// Deploys a guest of the project's under its own name.
    pub fn deploy(&self, name: &str) {
        let bytes = guests::bytes(name);
        self.wait(self.engine().deploy(name, &bytes, Attribution::default())).unwrap();
    }

    /// A start of a function of the guest `behaviours`.
    pub fn request(&self, id: &str, function: &str, input: &str) -> Start {
        let (component, function) = match function.split_once('/') {
            Some((component, function)) => (component, function),
            None => ("behaviours", function),
        };
        Start {
            namespace: Namespace::new("tests").unwrap(),
            operation_id: Some(OperationId::new(id).unwrap()),
            idempotency_key: None,
            component: component.to_owned(),
            function: function.to_owned(),
            input: Payload::json(input.to_owned()),
            trace_parent: None,
            actor: None,
            labels: Labels::default(),
        }
    }

    /// Starts a function.
    pub fn start(&self, id: &str, function: &str, input: &str) -> ExecutionId {
        let started: StartedExecution =
            self.wait(self.engine().start(self.request(id, function, input))).unwrap();
        started.execution_id
    }

    /// Starts what was asked for, or finds it.
    pub fn engine_start(&self, request: Start) -> ExecutionId {
        self.wait(self.engine().start(request)).unwrap().execution_id
    }

    /// Starts a function, and works until nothing is left to do.
    pub fn run(&self, function: &str, input: &str) -> (ExecutionId, Ending) {
        let id = self.start(&format!("{function}-{input}"), function, input);
        self.work_through();
        let ending = self.ending(&id);
        (id, ending)
    }

    /// How an execution ended.
    #[track_caller]
    pub fn ending(&self, id: &ExecutionId) -> Ending {
        let row = self.row(id);
        assert!(row.standing.is_terminal(), "{id:#} is {}: {:?}", row.standing.name(), row.stuck);
        self.wait(self.engine().outcome(id)).unwrap().unwrap()
    }

    /// The row of the last attempt at an execution.
    #[track_caller]
    pub fn row(&self, id: &ExecutionId) -> Execution {
        self.wait(self.engine().execution(id)).unwrap().expect("there is such an execution")
    }

    /// The events of the last attempt at an execution.
    pub fn events(&self, id: &ExecutionId) -> Vec<Record> {
        self.events_of(&self.row(id).key)
    }

    /// The events of one attempt.
    pub fn events_of(&self, key: &JournalKey) -> Vec<Record> {
        let store = self.engine().store();
        assert!(executions::get(store, key).unwrap().value.is_some(), "there is no {key}");
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let page = journals::read(store, key, from, 100).unwrap().value;
            all.extend(page.records);
            next = page.next;
        }
        all
    }

    /// Every journal of a tree, with its key, in order.
    pub fn tree(&self, id: &ExecutionId) -> Vec<(JournalKey, Vec<Record>)> {
        let store = self.engine().store();
        let filter =
            indelible_records::listing::Filter { with_children: true, ..Default::default() };
        let snapshot = store.snapshot().unwrap();
        let (mut keys, mut cursor) = (Vec::new(), None);
        loop {
            let page = indelible_records::listing::list(&snapshot, &filter, cursor.as_ref(), 1000)
                .unwrap()
                .value;
            keys.extend(page.executions.into_iter().map(|row| row.key));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        keys.retain(|key| key.execution_id().root() == id.root());
        keys.sort();
        keys.into_iter().map(|key| (key.clone(), self.events_of(&key))).collect()
    }

    /// The names of the events of an execution.
    pub fn names(&self, id: &ExecutionId) -> Vec<&'static str> {
        self.events(id).iter().map(|record| record.event.name()).collect()
    }

    /// Writes journals as if they had come about here: for stores that the engine itself would not
    /// make.
    pub fn transplant(&self, journals: &[(JournalKey, Vec<Record>)]) {
        let mut batch = Batch::new();
        for (key, records) in journals {
            let mut journal = Journal::new(key.clone());
            let entries: Vec<_> = records
                .iter()
                .map(|record| journal.append_record(record.clone()).expect("it is a journal"))
                .collect();
            let started = journal.started().unwrap();
            let row = Execution {
                key: key.clone(),
                length: journal.len(),
                standing: Standing::of(&journal),
                created_at: records[0].timestamp,
                updated_at: journal.last_timestamp(),
                component: started.component_digest,
                function: started.function_name.clone(),
                stuck: None,
                namespace: started.idempotency_key.as_ref().map(|key| key.namespace.clone()),
                idempotency_key: None,
                labels: Labels::default(),
                error: EndError::of(&journal),
            };
            executions::advance(&mut batch, None, &row, &entries).unwrap();
            for timer in journal.open_timers() {
                let child = timer.promise_id.path().last().copied();
                let timer = Timer { due: timer.fire_at, key: key.clone(), child };
                timers::put(&mut batch, &timer);
            }
        }
        let position = self.engine().store().submit_blocking(batch).unwrap();
        self.engine().store().durable(position).wait().unwrap();
    }

    /// Sends a signal with a JSON payload.
    pub fn signal(&self, id: &ExecutionId, name: &str, json: &str) -> u64 {
        let name = SignalName::new(name).unwrap();
        let payload = Payload::json(json.to_owned());
        let sent =
            self.wait(self.engine().signal(id, &name, payload, Attribution::default())).unwrap();
        sent.value.get()
    }

    /// Asks to cancel.
    pub fn cancel(&self, id: &ExecutionId) {
        self.wait(self.engine().cancel(id, Attribution::because("enough"))).unwrap();
    }
}

/// The JSON that an execution returned.
#[track_caller]
pub fn returned(ending: &Ending) -> String {
    match ending {
        Ending::Completed(payload) => String::from_utf8(payload.bytes.to_vec()).unwrap(),
        other => panic!("it did not complete: {other:?}"),
    }
}

/// The failure that an execution ended with.
#[track_caller]
pub fn failed(ending: &Ending) -> &indelible_journal::Failure {
    match ending {
        Ending::Failed(failure) => failure,
        other => panic!("it did not fail: {other:?}"),
    }
}

/// The events without their times.
pub fn untimed(tree: &[(JournalKey, Vec<Record>)]) -> Vec<(JournalKey, Vec<Event>)> {
    let events = |records: &[Record]| records.iter().map(|record| record.event.clone()).collect();
    tree.iter().map(|(key, records)| (key.clone(), events(records))).collect()
}
