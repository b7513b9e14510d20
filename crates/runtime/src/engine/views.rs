//! What clients are shown: executions, their trees and events, operations, the audit record. All of
//! it is durable (D2). Threads that are kept for this read the store (`reads`).

use indelible_execution::shown::{OperationView, View};
use indelible_execution::{LoadError, Reply, Request, TreeView};
use indelible_idempotency::IdempotencyKey;
use indelible_journal::{
    Ending, Event, ExecutionId, JournalKey, Namespace, OperationId, OperationKey, Outcome, Record,
    RootHash,
};
use indelible_operations::retention::Age;
use indelible_records::audit::{AuditPosition, Entry};
use indelible_records::executions::Execution as Row;
use indelible_records::idempotency_keys::Answer;
use indelible_records::listing::{Cursor, Filter, Listing};
use indelible_records::operations::Operation;

use super::outcome::misanswered;
use super::reads::Reads;
use super::{Engine, EngineError};
use crate::followers::Follow;
use crate::hosted::MachineId;
use crate::reader::Lane;
use crate::shared::lock;

/// The most executions on a page of a tree.
pub const TREE_PAGE_MAX: usize = 1_000;

/// The most events on a page of a journal.
pub const EVENTS_PAGE_MAX: usize = 10_000;

/// About how many bytes the events of a page have at most, unless its first has more by itself.
pub const EVENTS_PAGE_BYTES_MAX: usize = 8 << 20;

/// The most entries on a page of the audit record.
pub const AUDIT_PAGE_MAX: usize = 1_000;

/// A page of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreePage {
    /// All attempts at all executions, parents before their children.
    pub executions: Vec<Row>,
    /// Go on after this one; none at the end.
    pub next: Option<JournalKey>,
}

/// A page of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventsPage {
    /// In order, without a gap. They are not checked against the rules of journals.
    pub records: Vec<Record>,
    /// Where to go on, now or when there is more.
    pub next: u64,
    /// Whether there is more now.
    pub more: bool,
}

/// What an idempotency key was used for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyUse {
    /// A start.
    Start {
        /// The operation that it led to.
        operation_id: OperationId,
        /// What is known of the operation.
        operation: Operation,
        /// Whether no outcome of it is on record.
        in_progress: bool,
        /// Its execution, by the last attempt. None: it is no longer kept, or in memory alone.
        row: Option<Row>,
    },
    /// Anything else, with its answer. None: the request may not have been carried out (C-80).
    Command(Option<Answer>),
}

enum StoredExecution {
    Over(Option<View>),
    GoesOn,
    Absent,
}

impl Engine {
    /// A page of executions, the newest first, at most `limit` (and
    /// [`PAGE_MAX`](indelible_records::listing::PAGE_MAX)) of them. Executions that are in memory
    /// alone are in no list before their end (see C-39).
    pub async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Listing, EngineError> {
        self.enter_lane(Lane::Lists).await?.list(filter, after, limit).await
    }

    /// An execution: the last attempt at it, and what it waits for. None: there is no such
    /// execution, or it was volatile and its process has ended.
    pub async fn view(&self, execution: &ExecutionId) -> Result<Option<View>, EngineError> {
        let view = match self.stored_view(execution).await? {
            StoredExecution::Over(view) => view,
            // Its tree has what is volatile, and a worker has the time to read the rest.
            stored => match self.ask_for_view(execution, stored).await? {
                TreeView::Live(view) => Some(*view),
                TreeView::Over(row) => {
                    self.shared.read(Lane::Views, move |reads| reads.view_of_over(*row)).await?
                }
                TreeView::Absent => None,
            },
        };
        let Some(mut view) = view else { return Ok(None) };
        if view.operation.is_none() {
            view.operation = self.root_operation(execution.root()).await?;
        }
        Ok(Some(view))
    }

    async fn stored_view(&self, execution: &ExecutionId) -> Result<StoredExecution, EngineError> {
        let execution = execution.clone();
        let read = self.shared.read(Lane::Views, move |reads| {
            Ok(match reads.execution(&execution)? {
                Some(row) if row.standing.is_terminal() => {
                    StoredExecution::Over(reads.view_of_over(row)?)
                }
                Some(_) => StoredExecution::GoesOn,
                None => StoredExecution::Absent,
            })
        });
        read.await
    }

    async fn ask_for_view(
        &self,
        execution: &ExecutionId,
        stored: StoredExecution,
    ) -> Result<TreeView, EngineError> {
        if matches!(stored, StoredExecution::Absent) && !self.is_in_memory(execution.root()) {
            // It may have ended since it was looked up, and its tree may have left memory.
            match self.execution(execution).await? {
                Some(row) if row.standing.is_terminal() => {
                    return Ok(TreeView::Over(Box::new(row)));
                }
                Some(_) => {}
                None => return Ok(TreeView::Absent),
            }
        }
        match self.shared.ask(execution.root(), Request::View(execution.clone())).await? {
            Reply::TreeView(Ok(viewed)) => Ok(viewed),
            Reply::TreeView(Err(LoadError::Read(error))) => Err(error.into()),
            Reply::TreeView(Err(error)) => {
                Err(EngineError::Damaged(format!("{execution:#}: {error}")))
            }
            reply => Err(misanswered(&reply)),
        }
    }

    /// The namespace and operation id of the root of an execution's tree. None: there is no such
    /// tree. A tree in the engine's own namespace, which asks about effects, has them too. The tree
    /// need not have this very execution.
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
        // A volatile root is in memory alone (see C-39).
        match self.shared.ask(root, Request::RootOperation).await? {
            Reply::Operation(Some(operation)) => Ok(Some(operation)),
            // It may have ended since it was looked up.
            _ => self.stored_operation(root).await,
        }
    }

    async fn stored_operation(&self, root: &RootHash) -> Result<Option<OperationKey>, EngineError> {
        let root = *root;
        self.shared.read(Lane::Lookups, move |reads| reads.root_operation(&root)).await
    }

    fn is_in_memory(&self, root: &RootHash) -> bool {
        lock(&self.shared.trees).contains_key(&MachineId::Tree(*root))
    }

    /// The executions of a tree, all attempts, parents before their children: those after `after`,
    /// at most `limit` (and [`TREE_PAGE_MAX`]). Executions in memory alone are left out (C-39).
    pub async fn tree(
        &self,
        root: &RootHash,
        after: Option<&JournalKey>,
        limit: usize,
    ) -> Result<TreePage, EngineError> {
        let (root, after) = (*root, after.cloned());
        self.shared.read(Lane::Views, move |reads| reads.tree(&root, after.as_ref(), limit)).await
    }

    /// Events of a journal from this number on: at most so many ([`EVENTS_PAGE_MAX`]), and about so
    /// many bytes ([`EVENTS_PAGE_BYTES_MAX`]), but at least one if there is one. A journal that
    /// does not exist has no events.
    pub async fn events(
        &self,
        key: &JournalKey,
        from: u64,
        events_max: usize,
        bytes_max: usize,
    ) -> Result<EventsPage, EngineError> {
        let key = key.clone();
        let read = move |reads: &Reads<'_>| reads.events(&key, from, events_max, bytes_max);
        self.shared.read(Lane::Views, read).await
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
        Ok(match self.shared.known(&operation).await? {
            Some(known) => OperationView::Known {
                execution_id: known.record.execution_id(),
                in_progress: known.is_in_progress(),
                accepted_at: known.record.accepted_at,
            },
            None => match self.shared.age(&operation) {
                Age::Fresh => OperationView::Unknown,
                Age::Expired => OperationView::Expired,
                Age::TooFarAhead => OperationView::FromTheFuture,
            },
        })
    }

    /// What an idempotency key was used for. None: it is unknown.
    pub async fn key_use(&self, key: &IdempotencyKey) -> Result<Option<KeyUse>, EngineError> {
        let key = key.clone();
        self.shared.read(Lane::Lookups, move |reads| reads.key_use(&key)).await
    }

    /// Waits for the outcome of an operation, as [`Engine::outcome`] does for an execution; if
    /// retention has taken its tree, its record has the outcome (V-31, C-3). None: the operation is
    /// unknown, or it was volatile and its process has ended, or it was released.
    pub async fn operation_outcome(
        &self,
        namespace: &Namespace,
        operation_id: &OperationId,
    ) -> Result<Option<Ending>, EngineError> {
        let (namespace, operation_id) = (namespace.clone(), operation_id.clone());
        let operation = OperationKey { namespace, operation_id };
        if let Some(known) = self.shared.known(&operation).await?
            && let Some(ending) = self.outcome(&known.record.execution_id()).await?
        {
            return Ok(Some(ending));
        }
        self.shared.kept_ending(&operation).await
    }

    /// Who did what, the newest first: entries before a time, or before the last entry of a page
    /// ([`Entry::place`]), at most `limit` (and [`AUDIT_PAGE_MAX`]).
    pub async fn audit(
        &self,
        before: impl Into<AuditPosition>,
        limit: usize,
    ) -> Result<Vec<Entry>, EngineError> {
        let before = before.into();
        self.shared.read(Lane::Lists, move |reads| reads.audit(before, limit)).await
    }
}

/// How many bytes of an event came from outside, or from a guest.
pub(super) fn payload_bytes(event: &Event) -> usize {
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
