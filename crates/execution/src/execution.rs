//! One attempt at an execution, in memory: its journal, its guest if it has one, and what of both
//! is not submitted yet.

use std::collections::{BTreeMap, BTreeSet};

use indelible_journal::{
    Attempt, Entry, ExecutionId, Failure, Journal, JournalKey, Payload, PromiseId, Replay, Status,
    Timestamp,
};
use indelible_machine::Guard;
use indelible_records::executions::{Execution as Row, Standing};
use indelible_records::unresolved::Unresolved;

/// How far an execution is from running.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It is a next attempt that waits for its time (see C-32).
    Resting,
    /// It is in the tree's list of work.
    Ready,
    /// Its guest is on a worker.
    Running {
        /// What it waits for, or may wait for in a moment, has come meanwhile.
        woken: bool,
        /// It is not to go on: its guest stops at its next call.
        doomed: Option<Verdict>,
    },
    /// Its guest waits, parked or dropped.
    Waiting,
    /// Its guest is over, and what it left in flight is being settled (see C-40).
    Ending {
        /// What will be written then.
        verdict: Verdict,
        /// The calls that are not over.
        left: BTreeSet<u32>,
    },
    /// It does not go on by itself (C-25).
    Held {
        /// Why, with both sides of the difference.
        why: String,
    },
    /// Its terminal event is written.
    Ended,
}

/// What a guest, or the engine, made of an execution. It is written when everything that is in
/// flight has been settled.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    /// The guest returned.
    Returned {
        /// This.
        result: Result<Payload, Failure>,
        /// It knew that it was being cancelled: whatever it returned is the end of its cleanup
        /// (C-22).
        told_cancelled: bool,
    },
    /// The attempt came to nothing: a trap, or its CPU budget.
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
    /// Its guest's place in the journal, as long as it has a guest: one that runs, or is kept.
    pub(crate) replay: Option<Replay>,
    /// Calls that are scheduled and not started, with their inputs.
    pub(crate) unstarted: BTreeMap<u32, Payload>,
    /// The requests of effects that have begun and are not over, and the inputs of volatile calls.
    pub(crate) requests: BTreeMap<u32, Payload>,
    /// Effects and volatile calls that this process has in flight, with the attempt.
    pub(crate) in_flight: BTreeMap<u32, Attempt>,
    /// Those that another process had in flight: nobody knows how they ended (C-41).
    pub(crate) lost: BTreeSet<u32>,
    /// Effects of which nobody knows whether they happened, and what is being done about it.
    pub(crate) unresolved: BTreeMap<u32, Unresolved>,
    /// It is in memory alone: nothing of it is stored before its end (see C-39).
    pub(crate) volatile: bool,
    /// Which run of a volatile root it is: what an earlier one has in flight is not its own. 0 for
    /// all others.
    pub(crate) run: u64,
    /// When it began, by the journal of one that has just begun.
    pub(crate) began: Timestamp,
    /// When its time comes, of a volatile attempt that rests.
    pub(crate) rests_until: Option<Timestamp>,
    /// Since when its guest waits; what it says of one that does not wait means nothing.
    pub(crate) blocked_since: Option<Timestamp>,
    /// When its time to clean up is over, if this engine has set that.
    pub(crate) cleanup_due: Option<Timestamp>,
    /// It is on its way from another process, until it runs.
    pub(crate) under_way: Guard,
    /// Why the guest was stopped in the middle of a call: it goes nowhere.
    pub(crate) stuck: Option<String>,

    /// As last submitted.
    pub(crate) row: Option<Row>,
    /// Events since then.
    pub(crate) fresh: Vec<Entry>,
    /// Its place in the stored work queue, as last submitted.
    pub(crate) ticket: Option<u64>,
    /// Whether it is in the tree's list of what has to be submitted.
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
            under_way: Guard::NOTHING,
            stuck: None,
            row: None,
            fresh: Vec::new(),
            ticket: None,
            dirty: false,
        }
    }

    /// Whether the stored queue has to know of it: after a crash nobody else would go on with it.
    pub(crate) fn has_work(&self) -> bool {
        match self.phase {
            Phase::Resting | Phase::Held { .. } | Phase::Ended => false,
            // The guest runs again and comes to its end again.
            Phase::Ending { .. } => true,
            // While it is being cancelled, a wait is not written (C-22), so that only the guest
            // itself can say whether it waits.
            _ => {
                // What is in flight is unknown after a crash, and somebody has to see to it.
                !self.unstarted.is_empty()
                    || !self.in_flight.is_empty()
                    || !self.lost.is_empty()
                    || matches!(self.journal.status(), Some(Status::Running | Status::Cancelling))
            }
        }
    }

    /// Whether memory holds nothing of it that the store does not: no guest, and no place in the
    /// queue, which only memory knows by its execution.
    pub(crate) fn is_stored_whole(&self) -> bool {
        !self.volatile
            && self.replay.is_none()
            && self.ticket.is_none()
            && !self.dirty
            && self.in_flight.is_empty()
            && self.lost.is_empty()
    }

    /// How its row says that it stands.
    pub(crate) fn standing(&self) -> Standing {
        match (&self.phase, self.journal.status()) {
            (Phase::Held { .. }, _) => Standing::Held,
            (_, Some(status)) => Standing::of(status),
            (_, None) => Standing::Running,
        }
    }

    /// Its row as it has to be now.
    pub(crate) fn row_now(&self) -> Row {
        let started = self.journal.started().expect("what is in memory has started");
        let created_at = match (&self.row, self.fresh.first()) {
            (Some(row), _) => row.created_at,
            (None, Some(first)) => first.timestamp(),
            // It is volatile.
            (None, None) => self.began,
        };
        Row {
            key: self.journal.key().clone(),
            length: self.journal.len(),
            standing: self.standing(),
            created_at,
            updated_at: self.journal.last_timestamp(),
            component: started.component_digest,
            function: started.function_name.clone(),
            held: match &self.phase {
                Phase::Held { why } => Some(why.clone()),
                _ => None,
            },
            // Only a root has an operation.
            namespace: started.idempotency_key.as_ref().map(|key| key.namespace.clone()),
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
