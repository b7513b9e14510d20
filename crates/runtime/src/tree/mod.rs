//! A tree of executions: a root and everything that it called, in memory as far as it is needed.
//!
//! All changes of a tree go through here, under its one lock: a child's end and what it means to
//! its caller are one change, and become one commit (D7). Guests run outside the lock and take
//! it for each call. Nothing here waits, and nothing leaves the process from here: what others
//! are told, they are told when the commit's position is durable (D2).
//!
//! - [`execution`]: one attempt at an execution.
//! - `load`: from the store. `commit`: to the store.
//! - `calls`: what guests ask for. `waits`: what they wait for.
//! - `effects`: HTTP requests. `unresolved`, `reconcile`: those of which nobody knows whether they
//!   happened.
//! - `work`: what is to be done next. `ending`, `retry`, `cancel`: how executions end.
//! - `volatile`: executions that are in memory alone.
//! - `view`: what is shown of executions.
//! - `command`: what comes from outside: starts, signals, cancels, timers.

mod calls;
mod cancel;
pub(crate) mod command;
mod commit;
mod effects;
mod ending;
pub(crate) mod execution;
mod load;
pub(crate) mod reconcile;
mod retry;
pub(crate) mod unresolved;
pub(crate) mod view;
mod volatile;
mod waits;
mod work;

use std::collections::{HashMap, VecDeque};

use indelible_journal::{Ending, Entry, JournalKey, OperationKey, Timestamp, Violation};
use indelible_records::idempotency_keys::KeyRecord;
use indelible_records::operations::Operation;
use indelible_records::timers::Timer;
use indelible_records::{audit, unresolved as unresolved_rows};
use indelible_store::{Position, SubmitError};

pub(crate) use self::calls::GuestCalls;
use self::execution::{Execution, Phase};
pub(crate) use self::load::LoadError;
pub(crate) use self::work::{Job, NotStarted, Noted};
use crate::effects::Outgoing;
use crate::operation::Change;
use crate::shared::Shared;

/// One thing to do in a tree, in the order of arrival.
#[derive(Debug, PartialEq, Eq)]
enum Work {
    /// Run or resume the guest of this execution.
    Run(JournalKey),
    /// Start this call of this execution.
    Start(JournalKey, u32),
    /// Cancel this call of this execution, because of this.
    Cancel(JournalKey, u32, String),
    /// The caller of this effect ends.
    Close(JournalKey, u32),
    /// Another process started this effect of this execution: nobody knows how it ended.
    Lost(JournalKey, u32),
}

/// Told how a commit went.
pub(crate) type AfterCommit = Box<dyn FnOnce(&Result<Position, SubmitError>) + Send>;

/// A tree of executions.
#[derive(Default)]
pub(crate) struct Tree {
    /// Keys are a hash and numbers that we gave out: nobody can choose them to collide.
    executions: HashMap<JournalKey, Execution, foldhash::fast::FixedState>,
    work: VecDeque<Work>,
    changes: Changes,
    /// Something of it was loaded, and nothing was submitted since: whoever runs may be what
    /// killed another process (C-25).
    loaded: bool,
    /// Those that ran meanwhile, and have come to a stop.
    noted: Vec<JournalKey>,
    /// Whether it is a question about an effect, if somebody looked.
    reconciles: Option<bool>,
    /// Its root is not released when nobody waits for it any more: somebody started it and asks
    /// later. Means nothing for a persist one.
    kept: bool,
    /// What was released while its guest was on a worker, until that has stopped.
    leaving: Option<JournalKey>,
    /// Starts that came meanwhile.
    after_leaving: Vec<command::Start>,
}

/// What the next commit holds beside the executions' own rows.
#[derive(Default)]
struct Changes {
    dirty: Vec<JournalKey>,
    /// About how many bytes the events have that are not submitted.
    bytes: usize,
    timers: Vec<(Timer, bool)>,
    /// Those of volatile executions: no row has them (C-39).
    volatile_timers: Vec<(Timer, bool)>,
    operation: Option<Change<Operation>>,
    key: Option<Change<KeyRecord>>,
    /// Records of the keys that what was done from outside came under.
    keys: Vec<Change<KeyRecord>>,
    audit: Vec<audit::Entry>,
    /// Rows of unresolved effects to write; `None` deletes the row.
    unresolved: Vec<(unresolved_rows::Effect, Option<unresolved_rows::Unresolved>)>,
    /// What leaves when it is durable.
    outgoing: Vec<Outgoing>,
    ended: Vec<(JournalKey, Ending)>,
    after: Vec<AfterCommit>,
}

/// When so many executions have changed, they are submitted before anything else changes: a batch
/// has a bound on its preconditions, and each execution brings one.
const CHANGED_MAX: usize = 1_000;

/// The same for bytes of events: the largest single change is a few payloads more, and a batch has
/// room for that.
const UNSUBMITTED_BYTES_MAX: usize = 4 << 20;

/// The same for rows of timers, of effects, of keys and of the audit record.
const ROWS_MAX: usize = 5_000;

/// About how many bytes an event has beside its payload.
const EVENT_BYTES_GUESS: usize = 64;

impl Tree {
    /// An execution that is in memory.
    fn execution(&mut self, key: &JournalKey) -> &mut Execution {
        self.executions.get_mut(key).expect("it was loaded and is not forgotten while it is used")
    }

    /// An execution that may have been forgotten.
    fn find(&mut self, key: &JournalKey) -> Option<&mut Execution> {
        self.executions.get_mut(key)
    }

    /// Adds events that an execution's journal accepted to the next commit.
    fn written(&mut self, key: &JournalKey, entries: impl IntoIterator<Item = Entry>) {
        let execution = self.executions.get_mut(key).expect("its journal has just accepted them");
        if execution.volatile {
            // Its journal alone has them (C-39).
            entries.into_iter().for_each(drop);
        } else {
            let before = execution.fresh.len();
            execution.fresh.extend(entries);
            let count = execution.fresh.len() - before;
            self.changes.bytes += count * EVENT_BYTES_GUESS;
        }
        mark(execution, &mut self.changes.dirty);
    }

    /// The payload of an event counts too.
    fn weighs(&mut self, bytes: usize) {
        self.changes.bytes += bytes;
    }

    /// Marks an execution for the next commit though it has no new events.
    fn touch(&mut self, key: &JournalKey) {
        let execution = self.executions.get_mut(key).expect("it is being changed");
        mark(execution, &mut self.changes.dirty);
    }

    fn put_timer(&mut self, timer: Timer) {
        self.timers_of(&timer.key).push((timer, true));
    }

    fn delete_timer(&mut self, timer: Timer) {
        self.timers_of(&timer.key).push((timer, false));
    }

    /// The changes of timers, by where those of this execution are kept.
    fn timers_of(&mut self, key: &JournalKey) -> &mut Vec<(Timer, bool)> {
        match self.executions.get(key) {
            Some(execution) if execution.volatile => &mut self.changes.volatile_timers,
            _ => &mut self.changes.timers,
        }
    }

    /// An execution goes into the list of work, once.
    fn ready(&mut self, key: &JournalKey) {
        let execution = self.execution(key);
        execution.phase = Phase::Ready;
        self.work.push_back(Work::Run(key.clone()));
    }

    /// The operation that the root of this tree belongs to.
    pub(crate) fn operation_of(&mut self, root: &JournalKey) -> Option<OperationKey> {
        self.find(root)?.journal.started()?.idempotency_key.clone()
    }

    /// What the next commit changes about that operation's record.
    pub(crate) fn operation_change(&mut self) -> &mut Option<Change<Operation>> {
        &mut self.changes.operation
    }

    /// What the next commit changes about the record of the key that led to that operation.
    pub(crate) fn key_change(&mut self) -> &mut Option<Change<KeyRecord>> {
        &mut self.changes.key
    }

    /// Told after the next commit.
    pub(crate) fn after_commit(&mut self, after: AfterCommit) {
        self.changes.after.push(after);
    }

    /// Something could not go on as it must: the execution is held as stuck, loudly (D1, C-25).
    fn hold(&mut self, shared: &Shared, key: &JournalKey, why: String) {
        // Under a store that has stopped everything fails, and nothing of it is written.
        if shared.store.poison().is_none() {
            shared.observer.held(key, &why);
        }
        let execution = self.execution(key);
        execution.drop_guest();
        execution.stuck = None;
        execution.phase = Phase::Held { why };
        self.touch(key);
    }

    /// A journal refused what the engine was about to write: a mistake of the engine's, which never
    /// reaches the disk (D1).
    fn breaks(&mut self, shared: &Shared, key: &JournalKey, violation: &Violation) {
        self.hold(shared, key, format!("the engine was about to break a rule: {violation}"));
    }

    /// Whether nothing of it needs to stay in memory.
    pub(crate) fn is_forgettable(&self) -> bool {
        self.work.is_empty()
            && self.changes.is_empty()
            && self.leaving.is_none()
            && self.executions.values().all(|execution| match execution.phase {
                Phase::Waiting => execution.is_stored_whole(),
                // What is in flight comes back to it, and what is volatile is nowhere else.
                Phase::Held { .. } => execution.in_flight.is_empty() && !execution.volatile,
                Phase::Resting => !execution.volatile,
                Phase::Ended => true,
                Phase::Ready | Phase::Running { .. } | Phase::Ending { .. } => false,
            })
    }

    /// Whether what changed has to be submitted before anything else changes.
    pub(crate) fn is_full(&self) -> bool {
        let rows = self.changes.timers.len() + self.changes.unresolved.len();
        self.changes.dirty.len() >= CHANGED_MAX
            || self.changes.bytes > UNSUBMITTED_BYTES_MAX
            || rows + self.changes.audit.len() >= ROWS_MAX
            // Each brings a precondition.
            || self.changes.keys.len() >= CHANGED_MAX
    }

    /// Whether there is something to do.
    pub(crate) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }
}

fn mark(execution: &mut Execution, dirty: &mut Vec<JournalKey>) {
    if !execution.dirty {
        execution.dirty = true;
        dirty.push(execution.journal.key().clone());
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.dirty.is_empty()
            && self.timers.is_empty()
            && self.volatile_timers.is_empty()
            && self.operation.is_none()
            && self.key.is_none()
            && self.keys.is_empty()
            && self.audit.is_empty()
            && self.unresolved.is_empty()
            && self.outgoing.is_empty()
            && self.after.is_empty()
    }
}

/// The time of a timer that is due at the earliest.
fn earliest(timers: &[(Timer, bool)]) -> Option<Timestamp> {
    timers.iter().filter(|(_, put)| *put).map(|(timer, _)| timer.due).min()
}
