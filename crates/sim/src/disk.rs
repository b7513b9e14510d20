//! The simulated disk. It keeps its commits when the process dies, and fails when it is told to; a
//! commit under way at that moment may have landed or not. A plain disk behaves like a local one; a
//! late disk like a database across a network: its rows follow its commits, it cannot be reached
//! for a while, and it loses connections during commits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use indelible_delivery::delivery::State;
use indelible_journal::{Attempt, JournalKey};
use indelible_records::TABLES;
use indelible_records::delivery::{self, DeliveryKey};
use indelible_store::backend::{Backend, BackendError, BackendSnapshot, Presence};
use indelible_store::{Bounds, Sequence, Store, Table, Write};
use indelible_store_conformance::late::{Habits, LateBackend, LateServer};

use crate::Rng;
use crate::effects;
use crate::store;
use crate::transcript::Transcript;

/// How the disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It takes every commit.
    Well,
    /// It takes `after` more commits and fails the next. The failed one may be on disk all the
    /// same: a failed sync does not tell.
    Failing {
        /// How many commits succeed before the failure.
        after: u64,
        /// Whether the failed commit is on disk.
        lands: bool,
    },
    /// It fails every commit.
    Dead,
}

/// How a disk behaves while it is well: a seed draws it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Commits succeed, and are in the rows at once.
    Plain,
    /// Commits fail for a while, and reach the rows later.
    Late {
        /// The share of commits that fail. Below 100: in the end every commit succeeds.
        fault_percent: usize,
        /// How likely commits reach the rows when the store asks. Above 0: in the end all of them
        /// do.
        apply_percent: usize,
        /// How much the store keeps of commits that are not in the rows.
        kept_bytes_max: usize,
        /// When callers are told of a pause.
        told_after: Duration,
    },
}

/// Which seeds have a late disk. Chosen so that the seeds of `seeds.txt` that were found on plain
/// disks keep theirs, and are the same runs as ever.
const LATE_SALT: u64 = 0x1a7e_017b;

impl Manner {
    /// A third of the seeds have a late disk.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ LATE_SALT);
        if !rng.number().is_multiple_of(3) {
            return Self::Plain;
        }
        Self::Late {
            fault_percent: *rng.pick(&[0, 10, 40, 80]),
            apply_percent: *rng.pick(&[10, 30, 100]),
            kept_bytes_max: *rng.pick(&[1, 5_000, 1 << 20]),
            told_after: Duration::from_millis(*rng.pick(&[1, 1_000, 5_000])),
        }
    }

    /// The bounds of a store on such a disk.
    pub(crate) fn bounds(self, usual: Bounds) -> Bounds {
        match self {
            Self::Plain => usual,
            Self::Late { kept_bytes_max, told_after: pause_told_after, .. } => {
                Bounds { kept_bytes_max, pause_told_after, ..usual }
            }
        }
    }

    fn habits(self) -> Habits {
        match self {
            Self::Plain => Habits::BY_HAND,
            Self::Late { fault_percent, apply_percent, .. } => {
                Habits { fault_percent, apply_percent, yields_max: 0 }
            }
        }
    }
}

/// The simulated disk.
pub(crate) struct Disk {
    server: Arc<LateServer>,
    /// The connection of the process that runs; the next process gets its own.
    connection: Mutex<LateBackend>,
    manner: Manner,
    health: Mutex<Health>,
    transcript: Arc<Transcript>,
}

impl Disk {
    /// A disk that has taken these commits.
    pub(crate) fn with(
        commits: &[Vec<Write>],
        seed: u64,
        manner: Manner,
        transcript: Arc<Transcript>,
    ) -> Self {
        let server = LateServer::new(Habits::BY_HAND, indelible_store_conformance::Rng::new(seed));
        let connection = server.connect();
        let mut sequence = Sequence::START;
        for writes in commits {
            sequence = sequence.next();
            connection.commit(sequence, writes.clone()).expect("by hand, nothing fails");
        }
        server.set_habits(manner.habits());
        let (connection, health) = (Mutex::new(connection), Mutex::new(Health::Well));
        Self { server, connection, manner, health, transcript }
    }

    /// A process begins: the connections of earlier ones are fenced.
    pub(crate) fn connect(&self) {
        *self.connection() = self.server.connect();
    }

    fn connection(&self) -> MutexGuard<'_, LateBackend> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing fails any more. The rows of a late disk still follow later.
    pub(crate) fn calm_down(&self) {
        self.server.set_habits(Habits { fault_percent: 0, ..self.manner.habits() });
    }

    /// Everything that is committed is in the rows.
    pub(crate) fn bring_up_to_date(&self) {
        self.server.apply(usize::MAX);
    }

    fn take(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        let count = writes.len();
        let taken = self.connection().commit(sequence, writes);
        match &taken {
            Ok(()) => self.transcript.say(format_args!("  disk: {count} writes")),
            Err(error) => self.transcript.say(format_args!("  disk: {count} writes: {error}")),
        }
        if self.manner == Manner::Plain {
            self.bring_up_to_date();
        }
        taken
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, health: Health) {
        *self.health() = health;
    }

    /// The attempts in flight at the effect of this key, by what is committed. A batch that is
    /// accepted and not committed does not count: a request may leave only after its start is
    /// durable.
    pub(crate) fn in_flight(&self, key: &str) -> Vec<(JournalKey, u32, Attempt)> {
        let backend: Arc<dyn Backend> = Arc::new(self.server.committed_rows());
        let store = Store::start_by_hand(backend, &TABLES, Bounds::DEFAULT);
        let store = store.expect("what was committed can be opened");
        let all = store::all(&store, false).expect("memory can be read");
        effects::in_flight(&all, key)
    }

    /// Whether an attempt to deliver this message is under way, by what is committed.
    pub(crate) fn is_sending(&self, id: &str) -> bool {
        let backend: Arc<dyn Backend> = Arc::new(self.server.committed_rows());
        let store = Store::start_by_hand(backend, &TABLES, Bounds::DEFAULT);
        let store = store.expect("what was committed can be opened");
        let Ok(id) = id.parse() else { return false };
        let stored = delivery::message(&store, id).ok().and_then(|seen| seen.value);
        let Some(stored) = stored else { return false };
        stored.endpoints.iter().any(|endpoint| {
            let key = DeliveryKey { endpoint: *endpoint, number: stored.number };
            let row = delivery::delivery(&store, &stored.message.namespace, key);
            let state = row.ok().and_then(|seen| seen.value).map(|row| row.delivery.state);
            matches!(state, Some(State::Sending { .. }))
        })
    }

    /// Whether it is as it should be.
    pub(crate) fn is_well(&self) -> bool {
        *self.health() == Health::Well
    }
}

fn failed() -> BackendError {
    BackendError::Stopped { what: "the simulated disk failed".to_owned() }
}

impl Backend for Disk {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.connection().get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        self.connection().snapshot()
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        let mut health = self.health();
        match *health {
            Health::Well => self.take(sequence, writes),
            Health::Failing { after: left @ 1.., lands } => {
                *health = Health::Failing { after: left - 1, lands };
                self.take(sequence, writes)
            }
            Health::Failing { after: 0, lands } => {
                *health = Health::Dead;
                let word = if lands { "is on disk" } else { "is lost" };
                let count = writes.len();
                self.transcript.say(format_args!("  disk: fails; a group of {count} {word}"));
                if lands {
                    self.server.plan([None]);
                    self.connection().commit(sequence, writes)?;
                }
                Err(failed())
            }
            Health::Dead => Err(failed()),
        }
    }

    fn has_sequence(&self, sequence: Sequence) -> Result<Presence, BackendError> {
        if *self.health() == Health::Dead {
            return Err(failed());
        }
        let presence = self.connection().has_sequence(sequence);
        self.transcript.say(format_args!("  disk: group {sequence}: {presence:?}"));
        presence
    }

    fn applied(&self) -> Sequence {
        self.connection().applied()
    }

    fn reclaim(&self, table: &Table) -> Result<(), BackendError> {
        self.connection().reclaim(table)
    }

    fn disk_bytes(&self, table: &Table) -> u64 {
        self.connection().disk_bytes(table)
    }
}
