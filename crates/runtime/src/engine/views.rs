//! What others are shown: executions, their trees and events, operations, the audit record. Whatever
//! is shown is durable (D2): each of these waits for the position that it has seen.

use indelible_journal::{
    Ending, Event, ExecutionId, JournalKey, Namespace, OperationId, OperationKey, Outcome, Record,
    RootHash, Started,
};
use indelible_operations::retention::Age;
use indelible_records::executions::{self, Execution as Row};
use indelible_records::listing::{self, Cursor, Filter, Listing};
use indelible_records::{audit, journals};
use indelible_store::Read;
use tokio::sync::oneshot;

use super::calls::unreadable;
use super::outcome::answered;
use super::{Engine, EngineError};
use crate::audit_log::{AuditEntry, AuditPlace};
use crate::followers::Follow;
use crate::operation::{self, Known};
use crate::run_queue::Flow;
use crate::shared::lock;
use crate::tree::LoadError;
use crate::tree::command::Command;
use crate::tree::view::Viewed;
use crate::view::{OperationView, View};

/// The most executions on a page of a tree.
pub const TREE_PAGE_MAX: usize = 1_000;

/// The most events on a page of a journal.
pub const EVENTS_PAGE_MAX: usize = 10_000;

/// About how many bytes the events of a page have at most, unless its first has more by itself.
pub const EVENTS_PAGE_BYTES_MAX: usize = 8 << 20;

/// The most entries on a page of the audit record.
pub const AUDIT_PAGE_MAX: usize = 1_000;

/// How many rows of a journal are read at a time: they have a megabyte, or one small event.
const ROWS_MAX: usize = 256;

/// About how many bytes an event takes beside its payload.
const EVENT_BYTES_GUESS: usize = 64;

/// A page of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreePage {
    /// All attempts at all executions, callers before those that they called.
    pub executions: Vec<Row>,
    /// Go on after this one; none at the end.
    pub next: Option<JournalKey>,
}

/// A page of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventsPage {
    /// In order, without a gap. Nobody has checked them.
    pub records: Vec<Record>,
    /// Where to go on, now or when there is more.
    pub next: u64,
    /// Whether there is more now.
    pub more: bool,
}

impl Engine {
    /// A page of executions, the newest first, at most `limit` (and
    /// [`PAGE_MAX`](indelible_records::listing::PAGE_MAX)) of them. Executions that are in memory
    /// alone are in no list before their end (C-39).
    pub async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Listing, EngineError> {
        // Not held while the disk is waited for.
        let seen = listing::list(&self.shared.store.snapshot()?, filter, after, limit)?;
        self.durable(seen.position).await?;
        Ok(seen.value)
    }

    /// An execution: the last attempt at it, and what it waits for. None: there is no such execution,
    /// or it was volatile and its process has ended.
    pub async fn view(&self, execution: &ExecutionId) -> Result<Option<View>, EngineError> {
        let stored = executions::latest(&self.shared.store, execution)?.value;
        let view = match stored {
            Some(row) if row.standing.is_terminal() => self.view_of_over(row).await?,
            // Its tree knows: it has what is volatile, and a worker has the time to read the rest.
            stored => match self.ask_for_view(execution, stored.is_some()).await? {
                Viewed::Live(view) => Some(*view),
                Viewed::Over(row) => self.view_of_over(*row).await?,
                Viewed::Absent => None,
            },
        };
        let Some(mut view) = view else { return Ok(None) };
        if view.operation.is_none() {
            view.operation = self.root_operation(execution.root()).await?;
        }
        Ok(Some(view))
    }

    async fn ask_for_view(
        &self,
        execution: &ExecutionId,
        stored: bool,
    ) -> Result<Viewed, EngineError> {
        if !stored && !self.is_in_memory(execution.root()) {
            // It may have ended since it was looked up, and its tree be gone with that.
            let seen = executions::latest(&self.shared.store, execution)?;
            match seen.value {
                Some(row) if row.standing.is_terminal() => return Ok(Viewed::Over(Box::new(row))),
                Some(_) => {}
                None => {
                    self.durable(seen.position).await?;
                    return Ok(Viewed::Absent);
                }
            }
        }
        let room = self.room(Flow::GOING_ON).await?;
        let (reply, answer) = oneshot::channel();
        let command = Command::View(execution.clone(), reply);
        self.shared.send(execution.root(), command.within(room));
        answered(&self.shared, answer).await?.map_err(|error| match error {
            LoadError::Read(error) => error.into(),
            error => EngineError::Damaged(format!("{execution:#}: {error}")),
        })
    }

    /// What is left of an execution that is over: its first event and its last. None: it has been
    /// swept meanwhile.
    async fn view_of_over(&self, row: Row) -> Result<Option<View>, EngineError> {
        let (started, ending) = {
            let snapshot = self.shared.store.snapshot()?;
            let started = first_event(&snapshot, &row.key)?;
            let last = row.length.saturating_sub(1);
            let last = journals::read(&snapshot, &row.key, last, 1)?.value;
            (started, last.records.into_iter().last().map(|record| record.event))
        };
        self.durable_now().await?;
        let (Some(started), Some(last)) = (started, ending) else { return Ok(None) };
        let no_end = || EngineError::Malformed(format!("the journal of {} has no end", row.key));
        let ending = operation::ending(last).ok_or_else(no_end)?;
        Ok(Some(View { ending: Some(ending), ..View::new(row, &started) }))
    }

    /// Whose an execution is: namespace and operation id of its tree's root. None: there is no such
    /// tree. Those of the engine's own namespace, which ask about effects, have theirs too.
    ///
    /// It says nothing of whether that tree has this very execution.
    pub async fn namespace_of(
        &self,
        execution: &ExecutionId,
    ) -> Result<Option<(Namespace, OperationId)>, EngineError> {
        let operation = self.root_operation(execution.root()).await?;
        Ok(operation.map(|operation| (operation.namespace, operation.operation_id)))
    }

    async fn root_operation(&self, root: &RootHash) -> Result<Option<OperationKey>, EngineError> {
        let stored = self.stored_operation(root).await?;
        if stored.is_some() || !self.is_in_memory(root) {
            return Ok(stored);
        }
        // A root that is volatile is in memory alone (C-39).
        let room = self.room(Flow::GOING_ON).await?;
        let (reply, answer) = oneshot::channel();
        self.shared.send(root, Command::RootOperation(reply).within(room));
        match answered(&self.shared, answer).await? {
            Some(operation) => Ok(Some(operation)),
            // It may have ended since it was looked up.
            None => self.stored_operation(root).await,
        }
    }

    async fn stored_operation(&self, root: &RootHash) -> Result<Option<OperationKey>, EngineError> {
        let store = &self.shared.store;
        let row = executions::latest(store, &ExecutionId::root_of(*root))?;
        let started = match &row.value {
            Some(row) => first_event(store, &row.key)?,
            None => None,
        };
        self.durable_now().await?;
        Ok(started.and_then(|started| started.idempotency_key))
    }

    fn is_in_memory(&self, root: &RootHash) -> bool {
        lock(&self.shared.trees).contains_key(root)
    }

    /// The executions of a tree, all attempts, callers before those that they called: those after
    /// `after`, at most `limit` (and [`TREE_PAGE_MAX`]). Those that are in memory alone are not among
    /// them (C-39).
    pub async fn tree(
        &self,
        root: &RootHash,
        after: Option<&JournalKey>,
        limit: usize,
    ) -> Result<TreePage, EngineError> {
        let limit = limit.clamp(1, TREE_PAGE_MAX);
        let seen = executions::tree(&self.shared.store, root, after, limit + 1)?;
        self.durable(seen.position).await?;
        let mut page = TreePage { executions: seen.value, next: None };
        if page.executions.len() > limit {
            page.executions.truncate(limit);
            page.next = page.executions.last().map(|row| row.key.clone());
        }
        Ok(page)
    }

    /// The attempt at an execution that follows another; without one, the first that is there.
    pub async fn attempt_after(
        &self,
        execution: &ExecutionId,
        after: Option<&JournalKey>,
    ) -> Result<Option<Row>, EngineError> {
        let seen = executions::attempt_after(&self.shared.store, execution, after)?;
        self.durable(seen.position).await?;
        Ok(seen.value)
    }

    /// Events of a journal from this number on: at most so many ([`EVENTS_PAGE_MAX`]), and about so
    /// many bytes ([`EVENTS_PAGE_BYTES_MAX`]), but one if there is one. None of a journal that does
    /// not exist.
    pub async fn events(
        &self,
        key: &JournalKey,
        from: u64,
        events_max: usize,
        bytes_max: usize,
    ) -> Result<EventsPage, EngineError> {
        let events_max = events_max.clamp(1, EVENTS_PAGE_MAX);
        let bytes_max = bytes_max.min(EVENTS_PAGE_BYTES_MAX);
        let mut page = EventsPage { next: from, ..EventsPage::default() };
        let (mut bytes, mut rows, mut rows_read) = (0, 1, 0);
        let position = loop {
            let read = journals::read(&self.shared.store, key, page.next, rows)?;
            let last = read.value.next.is_none();
            let mut full = false;
            for record in read.value.records {
                let weight = EVENT_BYTES_GUESS + payload_bytes(&record.event);
                full = page.records.len() == events_max
                    || !page.records.is_empty() && bytes + weight > bytes_max;
                if full {
                    break;
                }
                bytes += weight;
                page.next = record.sequence.get() + 1;
                page.records.push(record);
            }
            page.more = full || !last;
            if full || last {
                break read.position;
            }
            // As many as there may be room for, if they are like those before.
            rows_read += rows;
            let each = (bytes / rows_read).max(1);
            rows = (bytes_max.saturating_sub(bytes) / each).clamp(1, ROWS_MAX);
        };
        self.durable(position).await?;
        Ok(page)
    }

    /// Follows an execution: all attempts at it. It need not be there yet.
    pub fn follow(&self, execution: &ExecutionId) -> Follow {
        self.shared.followers.follow(execution)
    }

    /// What is known of an operation (C-3, V-59).
    pub async fn operation(
        &self,
        namespace: &Namespace,
        operation_id: &OperationId,
    ) -> Result<OperationView, EngineError> {
        let (namespace, operation_id) = (namespace.clone(), operation_id.clone());
        let operation = OperationKey { namespace, operation_id };
        let known = operation::find(&self.shared, &operation).map_err(unreadable)?;
        let view = match known {
            Some(Known { record, in_progress }) => OperationView::Known {
                execution_id: operation::execution(&record),
                in_progress,
                accepted_at: record.accepted_at,
            },
            None => match operation::age(&self.shared, &operation) {
                Age::Fresh => OperationView::Unknown,
                Age::Expired => OperationView::Expired,
                Age::TooFarAhead => OperationView::FromTheFuture,
            },
        };
        self.durable_now().await?;
        Ok(view)
    }

    /// Waits for the outcome of an operation, as [`Engine::outcome`] does for that of an execution; if
    /// retention has taken its tree, its record has the outcome (V-31, C-3). None: nothing is known of
    /// it, or it was volatile and its process has ended, or it was released.
    pub async fn operation_outcome(
        &self,
        namespace: &Namespace,
        operation_id: &OperationId,
    ) -> Result<Option<Ending>, EngineError> {
        let (namespace, operation_id) = (namespace.clone(), operation_id.clone());
        let operation = OperationKey { namespace, operation_id };
        let known = operation::find(&self.shared, &operation).map_err(unreadable)?;
        if let Some(known) = known
            && let Some(ending) = self.outcome(&operation::execution(&known.record)).await?
        {
            return Ok(Some(ending));
        }
        self.shared.kept_ending(&operation).await
    }

    /// Who did what, the newest first: entries before a time, or before the last one of a page
    /// ([`AuditEntry::place`]), at most `limit` (and [`AUDIT_PAGE_MAX`]).
    pub async fn audit(
        &self,
        before: impl Into<AuditPlace>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, EngineError> {
        let AuditPlace { at, id } = before.into();
        let limit = limit.clamp(1, AUDIT_PAGE_MAX);
        let seen = audit::before_entry(&self.shared.store, at, &id, limit)?;
        self.durable(seen.position).await?;
        Ok(seen.value.into_iter().map(AuditEntry::from).collect())
    }
}

/// What an execution was started with. None: it is gone.
fn first_event(read: &impl Read, key: &JournalKey) -> Result<Option<Started>, EngineError> {
    let first = journals::read(read, key, 0, 1)?.value.records.into_iter().next();
    match first.map(|record| record.event) {
        None => Ok(None),
        Some(Event::ExecutionStarted(started)) => Ok(Some(*started)),
        Some(_) => Err(EngineError::Malformed(format!("the journal of {key} has no beginning"))),
    }
}

/// How many bytes of an event came from outside, or from a guest.
fn payload_bytes(event: &Event) -> usize {
    let outcome = |outcome: &Outcome| match outcome {
        Outcome::Ok(payload) => payload.bytes.len(),
        Outcome::Err(failure) => failure_bytes(failure),
    };
    match event {
        Event::ExecutionStarted(started) => started.input.bytes.len(),
        Event::ExecutionCompleted { result } => result.bytes.len(),
        Event::ExecutionFailed { error } | Event::InvokeRetrying { error, .. } => {
            failure_bytes(error)
        }
        Event::InvokeScheduled { input, .. } => input.bytes.len(),
        Event::InvokeCompleted { result, .. } | Event::JoinSetAwaited { result, .. } => {
            outcome(result)
        }
        Event::RandomGenerated { value, .. } => value.len(),
        Event::SignalDelivered { payload, .. } | Event::SignalReceived { payload, .. } => {
            payload.bytes.len()
        }
        Event::ExecutionAwaiting { waiting_on, .. } => waiting_on.listed().map_or(0, size_of_val),
        Event::CancelRequested { reason } | Event::ExecutionCancelled { reason } => reason.len(),
        _ => 0,
    }
}

fn failure_bytes(failure: &indelible_journal::Failure) -> usize {
    failure.message.len() + failure.detail.as_ref().map_or(0, |detail| detail.bytes.len())
}
