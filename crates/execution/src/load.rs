//! Loads an execution from the store: its entries, checked as if they were new, and what follows
//! from them for the engine.

use std::collections::{BTreeMap, BTreeSet};

use indelible_journal::{
    Event, InvokePhase, Journal, JournalKey, Payload, Status, Timestamp, Violation,
};
use indelible_records::doubts::{self, DoubtId};
use indelible_records::executions::{self, Execution as Row};
use indelible_records::{journals, queue};
use indelible_store::ReadError;

use crate::Tree;
use crate::context::Cx;
use crate::execution::{Execution, Phase, number};
use crate::output::Severity;
use crate::tree::Work;
use crate::volatile::is_unknown_when_lost;

/// How many rows of a journal are read at a time.
const ROWS_MAX: usize = 256;

/// What only the entries of a journal say: the inputs of open calls, and since when the guest
/// waits.
#[derive(Default)]
struct Inputs {
    /// Inputs of calls that are scheduled and not started.
    unstarted: BTreeMap<u32, Payload>,
    /// Inputs of effects and volatile calls that have begun, for their next attempts.
    requests: BTreeMap<u32, Payload>,
    /// When its guest began its last wait.
    awaiting_since: Option<Timestamp>,
}

/// Why an execution cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is none.
    #[error("no such execution")]
    Absent,
    /// The store could not read it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its entries are not a valid journal.
    #[error("its journal breaks a rule: {0}")]
    Violation(#[from] Violation),
}

impl LoadError {
    /// Whether the cause is damaged stored data.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Read(error) => error.is_damage(),
            Self::Violation(_) => true,
        }
    }
}

impl Tree {
    /// Makes sure that an execution is in memory. Loading alone resumes nothing: an execution with
    /// a place in the stored queue goes on when [`Input::Recover`](crate::Input::Recover) names it,
    /// or when the input that loaded it wakes it.
    pub(crate) fn load(&mut self, cx: Cx<'_>, key: &JournalKey) -> Result<(), LoadError> {
        if self.executions.contains_key(key) {
            return Ok(());
        }
        let execution = stored(cx, key).inspect_err(|error| {
            if let LoadError::Read(read) = error
                && !read.is_damage()
            {
                self.trouble(
                    Severity::Warning,
                    "execution cannot be read",
                    key.execution_id(),
                    read,
                );
            }
        })?;
        self.executions.insert(key.clone(), execution);
        self.loaded = true;
        Ok(())
    }

    /// Gives an execution the place under which the stored queue names it, if that is not the place
    /// which follows from its row. Without this an execution that could run would never be resumed,
    /// and one that is over or waits would keep the entry for ever.
    pub(crate) fn adopt_entry(&mut self, cx: Cx<'_>, entry: &queue::Entry) {
        let execution = self.execution(&entry.key);
        let is_idle = execution.replay.is_none()
            && !matches!(execution.phase, Phase::Ready | Phase::Running { .. });
        // A read that fails leaves the entry where it is, for the next process.
        let is_stored = || queue::holds(&cx.reads, entry).unwrap_or(false);
        if execution.ticket.is_none() && is_idle && is_stored() {
            execution.ticket = Some(entry.ticket);
            execution.resumed = false;
            if matches!(execution.phase, Phase::PendingAttempt) {
                execution.phase = Phase::Waiting;
            }
        }
    }

    /// Puts what the stored queue stands for into the list of work: the guest, calls that had not
    /// begun, effects that another process had in flight. Once for each execution that was loaded.
    pub(crate) fn resume(&mut self, cx: Cx<'_>, key: &JournalKey) {
        let execution = self.execution(key);
        if std::mem::replace(&mut execution.resumed, true) {
            return;
        }
        let could_run =
            matches!(execution.journal.status(), Some(Status::Running | Status::Cancelling));
        let runs = could_run && matches!(execution.phase, Phase::Waiting);
        // The input that loaded the execution may have woken it before this.
        let goes_on = runs || matches!(execution.phase, Phase::Ready | Phase::Running { .. });
        let cancelled = execution.journal.cancel_requested().is_some();
        let starts: Vec<u32> = match execution.ticket {
            Some(_) => execution.unstarted.keys().copied().collect(),
            None => Vec::new(),
        };
        if runs {
            // The guest comes before the calls that had not begun: if it ends now, they never
            // begin, as without the crash (C-40).
            self.ready(key);
        }
        self.queue_lost_effects(key);
        self.work.extend(starts.into_iter().map(|child| Work::Start(key.clone(), child)));
        if cancelled && goes_on {
            // The process may have died before the cancel reached every child.
            self.cascade(key);
        }
        self.wake(cx, key);
    }
}

impl Tree {
    /// Puts the effects that another process had in flight into the list of work; not while their
    /// execution is stuck (C-25).
    pub(crate) fn queue_lost_effects(&mut self, key: &JournalKey) {
        let execution = self.execution(key);
        if matches!(execution.phase, Phase::Stuck { .. }) {
            return;
        }
        let lost: Vec<_> = execution.lost.iter().copied().collect();
        self.work.extend(lost.into_iter().map(|child| Work::Lost(key.clone(), child)));
    }
}

/// An execution as it is stored. A journal that breaks a rule is noted as damage here; the store
/// has noted rows that do not decode.
pub(crate) fn stored(cx: Cx<'_>, key: &JournalKey) -> Result<Execution, LoadError> {
    decode(cx, key).inspect_err(|error| {
        if let LoadError::Violation(_) = error {
            cx.reads.damage().note(&format!("{key:#}: {error}"));
        }
    })
}

fn decode(cx: Cx<'_>, key: &JournalKey) -> Result<Execution, LoadError> {
    let row = executions::get(&cx.reads, key)?.value.ok_or(LoadError::Absent)?;
    let (journal, Inputs { unstarted, requests, awaiting_since }) = read(cx, key)?;
    let entry = queue::Entry { ticket: ticket(&row), key: key.clone() };
    let ticket = queue::holds(&cx.reads, &entry)?.then_some(entry.ticket);
    let phase = match (row.stuck.clone(), journal.status()) {
        (_, Some(status)) if status.is_terminal() => Phase::Ended,
        (Some(why), _) => Phase::Stuck { why },
        (None, Some(Status::Blocked { .. })) => Phase::Waiting,
        // A runnable execution is in the queue, unless it is a next attempt that is not due yet.
        (None, _) if ticket.is_none() => Phase::PendingAttempt,
        (None, _) => Phase::Waiting,
    };
    let mut execution = Execution::new(journal, phase);
    execution.idempotency_key.clone_from(&row.idempotency_key);
    execution.labels = row.labels.clone();
    execution.row = Some(row);
    execution.ticket = ticket;
    execution.resumed = false;
    execution.blocked_since = awaiting_since;
    // Calls that had not begun when the execution ended never begin (C-40), though the list of work
    // may still name them.
    if !matches!(execution.phase, Phase::Ended) {
        execution.unstarted = unstarted;
        execution.requests = requests;
        find_unknown(cx, &mut execution)?;
    }
    Ok(execution)
}

/// Finds the effects and volatile calls that are recorded as started and not in flight here. Those
/// with a doubt that is awaited are unresolved; the others were lost with their process (C-41).
fn find_unknown(cx: Cx<'_>, execution: &mut Execution) -> Result<(), LoadError> {
    let key = execution.journal.key().clone();
    let started: Vec<_> = execution
        .journal
        .open_invokes()
        .filter(|open| is_unknown_when_lost(open.kind, &open.retry_policy))
        .filter(|open| matches!(open.phase, InvokePhase::Started { .. }))
        .map(|open| number(&open.promise_id))
        .collect();
    for child in started {
        let id = DoubtId { key: key.clone(), child };
        match doubts::get(&cx.reads, &id)?.value {
            Some(doubt) if doubt.is_awaited() => {
                execution.unresolved.insert(child, doubt);
            }
            // A doubt about an earlier attempt is settled.
            Some(_) | None => {
                execution.lost.insert(child);
            }
        }
    }
    Ok(())
}

/// The place of an execution in the stored queue: the oldest go first, and the row alone determines
/// it.
pub(crate) fn ticket(row: &Row) -> u64 {
    row.created_at.as_micros()
}

/// A journal from the store, and the inputs of the calls that may be started.
fn read(cx: Cx<'_>, key: &JournalKey) -> Result<(Journal, Inputs), LoadError> {
    let mut journal = Journal::new(key.clone());
    let mut inputs = Inputs::default();
    let mut again = BTreeSet::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let page = journals::read(&cx.reads, key, from, ROWS_MAX)?.value;
        for record in page.records {
            match &record.event {
                Event::InvokeScheduled { promise_id, kind, input, retry_policy, .. } => {
                    inputs.unstarted.insert(number(promise_id), input.clone());
                    if is_unknown_when_lost(*kind, retry_policy) {
                        again.insert(number(promise_id));
                    }
                }
                Event::InvokeStarted { promise_id, .. } => {
                    let child = number(promise_id);
                    if let Some(input) = inputs.unstarted.remove(&child)
                        && again.contains(&child)
                    {
                        inputs.requests.insert(child, input);
                    }
                }
                Event::InvokeCompleted { promise_id, .. } => {
                    inputs.requests.remove(&number(promise_id));
                }
                Event::ExecutionAwaiting { .. } => inputs.awaiting_since = Some(record.timestamp),
                _ => {}
            }
            journal.append_record(record)?;
        }
        next = page.next;
    }
    Ok((journal, inputs))
}
