//! `LateServer`: a backend like a database with a log table (D10), in memory. Its commit appends to
//! a log, and its rows follow later; it answers late, cannot be reached for a while, loses the
//! connection during a commit, and admits one writer at a time. A seed decides what happens, or a
//! test does, commit by commit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use bytes::Bytes;
use indelible_store::backend::{Backend, BackendError, BackendSnapshot, Presence};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Sequence, Table, Write};

use crate::Rng;

/// What goes wrong with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server cannot be reached: nothing is committed, and the writer knows that.
    Unavailable,
    /// The connection is lost after the group is committed.
    LostAfter,
    /// The connection is lost before the group is committed.
    LostBefore,
    /// The connection is lost, and the writer is told that the group is not there; the group still
    /// arrives with the next try.
    LostAndLate,
}

/// What a server does by itself, where a test has not planned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// How many percent of the tries to commit fail, each in one of the ways of [`Fault`].
    pub fault_percent: usize,
    /// How likely, in percent, it brings its rows further when it is asked how far they are.
    pub apply_percent: usize,
    /// The most times that it yields the processor before it answers.
    pub yields_max: usize,
}

impl Habits {
    /// It never fails, and applies nothing by itself: a test decides everything.
    pub const BY_HAND: Self = Self { fault_percent: 0, apply_percent: 0, yields_max: 0 };

    /// Every fault happens, and every commit succeeds in the end.
    pub const RESTLESS: Self = Self { fault_percent: 15, apply_percent: 30, yields_max: 3 };
}

/// What a server keeps, for one writer after the other.
#[derive(Debug)]
pub struct LateServer(Mutex<State>);

#[derive(Debug)]
struct State {
    habits: Habits,
    rng: Rng,
    /// The planned faults of the next tries; after these the habits decide.
    faults: VecDeque<Option<Fault>>,
    /// What is applied.
    rows: MemoryBackend,
    applied: Sequence,
    /// What is committed and not applied.
    log: BTreeMap<Sequence, Vec<Write>>,
    committed: Sequence,
    /// A group whose writer lost the connection, and that still arrives.
    under_way: Option<(Sequence, Vec<Write>)>,
    /// The writer that may commit: the last that connected.
    fence: u64,
    /// Whether reads fail.
    unreadable: bool,
    /// How many groups it was given, repeated ones included.
    tries: u64,
}

impl LateServer {
    /// An empty server.
    pub fn new(habits: Habits, rng: Rng) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            habits,
            rng,
            faults: VecDeque::new(),
            rows: MemoryBackend::new(),
            applied: Sequence::START,
            log: BTreeMap::new(),
            committed: Sequence::START,
            under_way: None,
            fence: 0,
            unreadable: false,
            tries: 0,
        })))
    }

    /// A new writer. Earlier ones are fenced, and the rows have everything that was committed.
    pub fn connect(self: &Arc<Self>) -> LateBackend {
        let mut state = self.lock();
        state.fence += 1;
        // The group is of a fenced writer, which may not commit any more.
        state.under_way = None;
        state.apply(usize::MAX);
        LateBackend { server: Arc::clone(self), fence: state.fence }
    }

    /// Plans the faults of the next tries to commit; `None` is a try that succeeds.
    pub fn plan(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.lock().faults.extend(faults);
    }

    /// Says what the server does by itself from now on.
    pub fn set_habits(&self, habits: Habits) {
        self.lock().habits = habits;
    }

    /// Says whether reads fail from now on.
    pub fn set_unreadable(&self, unreadable: bool) {
        self.lock().unreadable = unreadable;
    }

    /// Applies up to this many groups to the rows.
    pub fn apply(&self, groups: usize) {
        self.lock().apply(groups);
    }

    /// Loses the last committed group, as a server restored from an older state does.
    pub fn forget_last(&self) {
        let mut state = self.lock();
        let last = state.committed;
        let lost = state.log.remove(&last);
        assert!(lost.is_some(), "group {last} is applied or was never committed");
        state.committed = Sequence::new(last.number() - 1);
    }

    /// The last group that is committed.
    pub fn committed(&self) -> Sequence {
        self.lock().committed
    }

    /// The last group that is in the rows.
    pub fn applied(&self) -> Sequence {
        self.lock().applied
    }

    /// How many groups the server was given, repeated ones included.
    pub fn tries(&self) -> u64 {
        self.lock().tries
    }

    /// Everything that is committed, as rows of their own.
    pub fn committed_rows(&self) -> MemoryBackend {
        let state = self.lock();
        let rows = state.rows.clone();
        apply_log(&rows, state.log.iter());
        rows
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn apply(&mut self, groups: usize) {
        let count = groups.min(self.log.len());
        for _ in 0..count {
            if let Some((sequence, writes)) = self.log.pop_first() {
                apply_log(&self.rows, [(&sequence, &writes)]);
                self.applied = sequence;
            }
        }
    }

    fn append(&mut self, sequence: Sequence, writes: Vec<Write>) {
        // The sequence is the log's key: a group under a known sequence is the same group.
        if sequence > self.committed {
            self.log.insert(sequence, writes);
            self.committed = sequence;
        }
    }

    fn check_fence(&self, fence: u64) -> Result<(), BackendError> {
        if fence == self.fence {
            return Ok(());
        }
        Err(BackendError::Fenced { what: format!("writer {} came after {fence}", self.fence) })
    }

    fn check_readable(&self) -> Result<(), BackendError> {
        if self.unreadable { Err(unavailable()) } else { Ok(()) }
    }

    fn next_fault(&mut self) -> Option<Fault> {
        if let Some(planned) = self.faults.pop_front() {
            return planned;
        }
        let kinds = [Fault::Unavailable, Fault::LostAfter, Fault::LostBefore, Fault::LostAndLate];
        // At 0 percent no number is drawn, so that a test by hand does not use up the sequence.
        let fails = self.habits.fault_percent > 0 && self.rng.percent(self.habits.fault_percent);
        fails.then(|| *self.rng.pick(&kinds))
    }
}

fn apply_log<'a>(
    rows: &MemoryBackend,
    groups: impl IntoIterator<Item = (&'a Sequence, &'a Vec<Write>)>,
) {
    for (sequence, writes) in groups {
        rows.commit(*sequence, writes.clone()).expect("memory takes everything");
    }
}

fn unavailable() -> BackendError {
    BackendError::Unavailable { what: "the test's server is away".to_owned() }
}

fn unknown() -> BackendError {
    BackendError::UnknownOutcome { what: "the connection to the test's server is lost".to_owned() }
}

/// A writer's connection to a [`LateServer`].
#[derive(Debug)]
pub struct LateBackend {
    server: Arc<LateServer>,
    fence: u64,
}

impl LateBackend {
    /// Locks the server's state, after yielding as the habits say.
    fn ask(&self) -> MutexGuard<'_, State> {
        let yields = {
            let mut state = self.server.lock();
            let max = state.habits.yields_max;
            if max == 0 { 0 } else { state.rng.below(max + 1) }
        };
        (0..yields).for_each(|_| thread::yield_now());
        self.server.lock()
    }
}

impl Backend for LateBackend {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        let state = self.server.lock();
        state.check_readable()?;
        state.rows.get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        let state = self.server.lock();
        state.check_readable()?;
        state.rows.snapshot()
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        let mut state = self.ask();
        state.tries += 1;
        if let Some((sequence, writes)) = state.under_way.take() {
            state.append(sequence, writes);
        }
        state.check_fence(self.fence)?;
        if sequence > state.committed.next() {
            let acknowledged = Sequence::new(sequence.number() - 1);
            return Err(BackendError::CommitsMissing { acknowledged });
        }
        match state.next_fault() {
            None => state.append(sequence, writes),
            Some(Fault::Unavailable) => return Err(unavailable()),
            Some(Fault::LostBefore) => return Err(unknown()),
            Some(Fault::LostAfter) => {
                state.append(sequence, writes);
                return Err(unknown());
            }
            Some(Fault::LostAndLate) => {
                state.under_way = Some((sequence, writes));
                return Err(unknown());
            }
        }
        Ok(())
    }

    fn has_sequence(&self, sequence: Sequence) -> Result<Presence, BackendError> {
        let state = self.ask();
        state.check_fence(self.fence)?;
        Ok(if state.committed >= sequence {
            Presence::There
        } else if state.committed.next() == sequence {
            Presence::NotThere
        } else {
            Presence::EarlierMissing
        })
    }

    fn applied(&self) -> Sequence {
        let mut state = self.server.lock();
        let percent = state.habits.apply_percent;
        if percent > 0 && !state.log.is_empty() && state.rng.percent(percent) {
            let most = state.log.len();
            let groups = 1 + state.rng.below(most);
            state.apply(groups);
        }
        state.applied
    }

    fn reclaim(&self, _table: &Table) -> Result<(), BackendError> {
        Ok(())
    }

    fn disk_bytes(&self, _table: &Table) -> u64 {
        0
    }
}
