//! An execution from the store: its events, checked as if they were new, and what follows from
//! them for the engine.

use std::collections::{BTreeMap, BTreeSet};

use indelible_journal::{
    Event, InvokePhase, Journal, JournalKey, Payload, Status, Timestamp, Violation,
};
use indelible_records::executions::{self, Execution as Row};
use indelible_records::{journals, queue, unresolved};
use indelible_store::ReadError;

use crate::Tree;
use crate::context::Cx;
use crate::execution::{Execution, Phase, number};
use crate::output::Notice;
use crate::tree::Work;
use crate::volatile::is_unknown_when_lost;

/// How many rows of a journal are read at a time.
const ROWS_MAX: usize = 256;

/// The inputs of calls that are not over, and what else only the events say.
#[derive(Default)]
struct Inputs {
    /// Of those that are scheduled and not started.
    unstarted: BTreeMap<u32, Payload>,
    /// Of effects and volatile calls that have begun: they are begun again.
    requests: BTreeMap<u32, Payload>,
    /// When its guest waited last.
    awaiting_since: Option<Timestamp>,
}

/// Why an execution cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is none.
    #[error("there is no such execution")]
    Absent,
    /// The store could not give it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its events are not a journal.
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
    /// Makes sure that an execution is in memory. What the stored queue says is to be done with
    /// it is put into the list of work.
    pub(crate) fn load(&mut self, cx: Cx<'_>, key: &JournalKey) -> Result<(), LoadError> {
        self.load_queued(cx, key, None)
    }

    /// The same for one whose place in the stored queue may be known.
    pub(crate) fn load_queued(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        ticket: Option<u64>,
    ) -> Result<(), LoadError> {
        if self.executions.contains_key(key) {
            return Ok(());
        }
        let execution = stored(cx, key, ticket).inspect_err(|error| {
            if let LoadError::Read(read) = error
                && !read.is_damage()
            {
                self.notices.push(Notice::Trouble(format!("{key:#}: {read}")));
            }
        })?;
        self.executions.insert(key.clone(), execution);
        self.loaded = true;
        self.goes_on(cx, key);
        Ok(())
    }

    /// An execution that is in memory has a place in the stored queue, which whoever loaded it did
    /// not know: it goes on as if it had been loaded with it.
    pub(crate) fn adopt(&mut self, cx: Cx<'_>, key: &JournalKey, ticket: u64) {
        let execution = self.execution(key);
        execution.ticket = Some(ticket);
        if matches!(execution.phase, Phase::Resting) {
            execution.phase = Phase::Waiting;
        }
        self.goes_on(cx, key);
    }

    /// What is to be done with an execution that was loaded.
    fn goes_on(&mut self, cx: Cx<'_>, key: &JournalKey) {
        let execution = self.execution(key);
        let runs = matches!(execution.phase, Phase::Waiting)
            && matches!(execution.journal.status(), Some(Status::Running | Status::Cancelling));
        let cancelled = execution.journal.cancel_requested().is_some();
        let starts: Vec<u32> = match execution.ticket {
            Some(_) => execution.unstarted.keys().copied().collect(),
            None => Vec::new(),
        };
        if runs {
            // Before the calls that it had not begun: if it has come to its end, they never begin,
            // as they would not have without a crash (C-40).
            self.ready(key);
        }
        self.lose(key);
        self.work.extend(starts.into_iter().map(|child| Work::Start(key.clone(), child)));
        if cancelled && runs {
            // The process may have died before the cancel reached every child.
            self.cascade(key);
        }
        self.wake(cx, key);
    }
}

impl Tree {
    /// Somebody sees to the effects that another process had in flight; not while a person looks
    /// at their execution (C-25).
    pub(crate) fn lose(&mut self, key: &JournalKey) {
        let execution = self.execution(key);
        if matches!(execution.phase, Phase::Held { .. }) {
            return;
        }
        let lost: Vec<_> = execution.lost.iter().copied().collect();
        self.work.extend(lost.into_iter().map(|child| Work::Lost(key.clone(), child)));
    }
}

/// An execution as the store has it. Its place in the stored queue may be known. A journal that breaks
/// a rule is noted as damage here; rows that do not decode were noted by the store.
pub(crate) fn stored(
    cx: Cx<'_>,
    key: &JournalKey,
    ticket: Option<u64>,
) -> Result<Execution, LoadError> {
    decode(cx, key, ticket).inspect_err(|error| {
        if let LoadError::Violation(_) = error {
            cx.reads.damage().note(&format!("{key:#}: {error}"));
        }
    })
}

fn decode(cx: Cx<'_>, key: &JournalKey, ticket: Option<u64>) -> Result<Execution, LoadError> {
    let row = executions::get(&cx.reads, key)?.value.ok_or(LoadError::Absent)?;
    let (journal, Inputs { unstarted, requests, awaiting_since }) = read(cx, key)?;
    let ticket = match ticket {
        None => {
            let waits = unstarted.is_empty() && requests.is_empty();
            find_queued(cx, &row, &journal, waits)?
        }
        // It may have gone on since that was read.
        Some(ticket) => {
            let entry = queue::Entry { ticket, key: key.clone() };
            queue::holds(&cx.reads, &entry)?.then_some(ticket)
        }
    };
    let phase = match (row.held.clone(), journal.status()) {
        (_, Some(status)) if status.is_terminal() => Phase::Ended,
        (Some(why), _) => Phase::Held { why },
        (None, Some(Status::Blocked { .. })) => Phase::Waiting,
        // What could run is in the queue, unless it is a next attempt whose time has not come.
        (None, _) if ticket.is_none() => Phase::Resting,
        (None, _) => Phase::Waiting,
    };
    let mut execution = Execution::new(journal, phase);
    execution.row = Some(row);
    execution.ticket = ticket;
    execution.blocked_since = awaiting_since;
    // What had not begun when it ended never begins (C-40), though its turn may still be in the
    // list of work from before.
    if !matches!(execution.phase, Phase::Ended) {
        execution.unstarted = unstarted;
        execution.requests = requests;
        find_unknown(cx, &mut execution)?;
    }
    Ok(execution)
}

/// Effects and volatile calls that are written as started and not in flight here: what is known of
/// them is in their rows, and of those without a row nobody knows anything (C-41).
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
        let effect = unresolved::Effect { key: key.clone(), child };
        match unresolved::get(&cx.reads, &effect)?.value {
            None => {
                execution.lost.insert(child);
            }
            Some(known) => {
                execution.unresolved.insert(child, known);
            }
        }
    }
    Ok(())
}

/// The place of an execution in the stored queue: what could run has one.
fn find_queued(
    cx: Cx<'_>,
    row: &Row,
    journal: &Journal,
    waits: bool,
) -> Result<Option<u64>, ReadError> {
    let could_run = match journal.status() {
        Some(Status::Running | Status::Cancelling) => true,
        Some(Status::Blocked { .. }) => !waits,
        _ => false,
    };
    let entry = queue::Entry { ticket: ticket(row), key: row.key.clone() };
    let queued = could_run && row.held.is_none() && queue::holds(&cx.reads, &entry)?;
    Ok(queued.then_some(entry.ticket))
}

/// The place in the stored queue that an execution has whenever it has one: the oldest go first,
/// and its row alone says which it is.
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
