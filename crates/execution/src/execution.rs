//! One attempt at an execution, in memory: its journal, its guest if it has one, and the part of
//! both that is not submitted yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indelible_journal::{
    Attempt, Entry, ExecutionId, Failure, Journal, JournalKey, Payload, PromiseId, Replay, Status,
    Timestamp,
};
use indelible_machine::Guard;
use indelible_records::doubts::Doubt;
use indelible_records::executions::{EndError, Execution as Row, Standing};
use indelible_records::labels::Labels;

/// How far an execution is from running.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It is a next attempt that is not due yet (see C-32).
    PendingAttempt,
    /// It is in the tree's list of work.
    Ready,
    /// Its guest is on a worker.
    Running {
        /// Something that may end the guest's wait, or its next one, has come meanwhile.
        woken: bool,
        /// How the execution ends when its guest stops, which it must at its next call.
        doomed: Option<PendingEnd>,
    },
    /// Its guest waits, parked or dropped.
    Waiting,
    /// Its guest is over, and what the guest left in flight is being settled (see C-40).
    Ending {
        /// What is written when `left` is empty.
        verdict: PendingEnd,
        /// The open calls.
        left: BTreeSet<u32>,
    },
    /// It does not go on by itself (C-25).
    Stuck {
        /// Why; for a divergence, what was recorded and what the guest did.
        why: String,
    },
    /// Its terminal event is written.
    Ended,
}

/// How a guest, or the engine, ended an execution. It is recorded when nothing is in flight any
/// more.
#[derive(Debug, Clone)]
pub(crate) enum PendingEnd {
    /// The guest returned.
    Returned {
        /// What it returned.
        result: Result<Payload, Failure>,
        /// The guest knew that it was being cancelled: whatever it returned is the end of its
        /// cleanup (C-22).
        told_cancelled: bool,
    },
    /// The attempt failed: a trap, or its CPU budget was used up.
    Broken(Failure),
    /// Its time to clean up is over (see C-22).
    OutOfTime,
    /// A person ended it (see C-25).
    Failed(Failure),
}

/// One attempt at an execution.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) journal: Journal,
    pub(crate) phase: Phase,
    /// The place of its guest in the journal, as long as it has a guest that runs or is kept.
    pub(crate) replay: Option<Replay>,
    /// Calls that are scheduled and not started, with their inputs.
    pub(crate) unstarted: BTreeMap<u32, Payload>,
    /// The requests of effects that have begun and are not over, and the inputs of volatile calls.
    pub(crate) requests: BTreeMap<u32, Payload>,
    /// Effects and volatile calls that this process has in flight, with the attempt.
    pub(crate) in_flight: BTreeMap<u32, Attempt>,
    /// Effects and volatile calls that a dead process had in flight: their outcome is unknown
    /// (C-41).
    pub(crate) lost: BTreeSet<u32>,
    /// Unresolved effects: the doubts whose answer this execution waits for.
    pub(crate) unresolved: BTreeMap<u32, Doubt>,
    /// It is in memory alone: nothing of it is stored before its end (see C-39).
    pub(crate) volatile: bool,
    /// Which run of a volatile root it is: reports on effects of an earlier run are dropped. 0 for
    /// all others.
    pub(crate) run: u64,
    /// When it began, if it began in this process.
    pub(crate) began: Timestamp,
    /// When a volatile attempt is due that has not begun.
    pub(crate) rests_until: Option<Timestamp>,
    /// Since when its guest waits. Stale while the guest does not wait.
    pub(crate) blocked_since: Option<Timestamp>,
    /// When its time to clean up is over, if this engine has set that.
    pub(crate) cleanup_due: Option<Timestamp>,
    /// The idempotency key under which a caller started it. No event has it.
    pub(crate) idempotency_key: Option<Arc<str>>,
    /// Its labels, as the next commit stores them (C-79). No event has them.
    pub(crate) labels: Labels,
    /// The guard of a recovery, held until the guest runs.
    pub(crate) under_way: Guard,
    /// Why the guest was stopped in the middle of a call.
    pub(crate) stuck: Option<String>,

    /// The row as last submitted.
    pub(crate) row: Option<Row>,
    /// Entries since `row`.
    pub(crate) fresh: Vec<Entry>,
    /// Its place in the stored queue, as last submitted.
    pub(crate) ticket: Option<u64>,
    /// The work that `ticket` stands for is in the tree's list of work. False for an execution that
    /// was loaded and that [`Input::Recover`](crate::Input::Recover) has not named yet.
    pub(crate) resumed: bool,
    /// Whether it is in the tree's list of executions to submit.
    pub(crate) dirty: bool,
}

impl Execution {
    pub(crate) fn new(journal: Journal, phase: Phase) -> Self {
        Self {
            began: journal.last_timestamp(),
            journal,
            phase,
            replay: None,
            unstarted: BTreeMap::new(),
            requests: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            lost: BTreeSet::new(),
            unresolved: BTreeMap::new(),
            volatile: false,
            run: 0,
            rests_until: None,
            blocked_since: None,
            cleanup_due: None,
            idempotency_key: None,
            labels: Labels::default(),
            under_way: Guard::NOTHING,
            stuck: None,
            row: None,
            fresh: Vec::new(),
            ticket: None,
            resumed: true,
            dirty: false,
        }
    }

    /// Whether it needs a place in the stored queue: after a crash only the queue makes a process
    /// go on with it.
    pub(crate) fn has_work(&self) -> bool {
        match self.phase {
            Phase::PendingAttempt | Phase::Stuck { .. } | Phase::Ended => false,
            // After a crash the guest runs again and comes to its end again.
            Phase::Ending { .. } => true,
            // During a cancel waits are not recorded (C-22): only the guest itself knows whether it
            // waits.
            _ => {
                // After a crash the outcome of what is in flight is unknown, and has to be settled.
                !self.unstarted.is_empty()
                    || !self.in_flight.is_empty()
                    || !self.lost.is_empty()
                    || matches!(self.journal.status(), Some(Status::Running | Status::Cancelling))
            }
        }
    }

    /// Whether memory holds nothing of it that the store does not: no guest, nothing in flight, and
    /// no place in the queue.
    pub(crate) fn is_stored_whole(&self) -> bool {
        !self.volatile
            && self.replay.is_none()
            && self.ticket.is_none()
            && !self.dirty
            && self.in_flight.is_empty()
            && self.lost.is_empty()
    }

    /// The standing for its row.
    pub(crate) fn standing(&self) -> Standing {
        match self.phase {
            Phase::Stuck { .. } => Standing::Stuck,
            _ => Standing::of(&self.journal),
        }
    }

    /// When this attempt was started.
    pub(crate) fn created_at(&self) -> Timestamp {
        match (&self.row, self.fresh.first()) {
            (Some(row), _) => row.created_at,
            (None, Some(first)) => first.timestamp(),
            // It is volatile.
            (None, None) => self.began,
        }
    }

    /// Its row as of now.
    pub(crate) fn row_now(&self) -> Row {
        let started = self.journal.started().expect("what is in memory has started");
        Row {
            key: self.journal.key().clone(),
            length: self.journal.len(),
            standing: self.standing(),
            created_at: self.created_at(),
            updated_at: self.journal.last_timestamp(),
            component: started.component_digest,
            function: started.function_name.clone(),
            stuck: match &self.phase {
                Phase::Stuck { why } => Some(why.clone()),
                _ => None,
            },
            // Only a root has an operation.
            namespace: started.idempotency_key.as_ref().map(|key| key.namespace.clone()),
            idempotency_key: self.idempotency_key.clone(),
            labels: self.labels.clone(),
            error: EndError::of(&self.journal),
        }
    }

    /// The journal, and its guest's place in it.
    pub(crate) fn guest_place(&mut self) -> (&mut Journal, &mut Replay) {
        let replay = self.replay.as_mut().expect("a guest that asks has a place");
        (&mut self.journal, replay)
    }
}

/// The journal of the caller of this attempt; none for a root.
pub(crate) fn caller(key: &JournalKey) -> Option<JournalKey> {
    let parent = key.execution_id().parent()?;
    let attempts = key.attempts().as_slice();
    let attempts = indelible_journal::Attempts::new(&attempts[..attempts.len() - 1])?;
    JournalKey::new(parent, attempts).ok()
}

/// The journal of an attempt at a call.
pub(crate) fn callee(
    caller: &JournalKey,
    promise: &PromiseId,
    attempt: indelible_journal::Attempt,
) -> JournalKey {
    let execution = ExecutionId::new(promise.clone()).expect("the journal limits the depth");
    let attempts = caller.attempts().called(attempt);
    JournalKey::new(execution, attempts).expect("one attempt for one more call")
}

/// The number of a call in its caller's journal.
pub(crate) fn number(promise: &PromiseId) -> u32 {
    *promise.path().last().expect("a call's promise is a child")
}
