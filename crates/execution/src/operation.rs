//! Operations: a repeated request finds the record of the first one and attaches; another request
//! under the same id is a conflict (V-9, C-6, C-31). The record is looked up before any id is made
//! from the component's digest, so that deploying a new version does not make an old request new.

use indelible_journal::{Attempt, JournalKey, OperationKey, RootHash, Timestamp};
use indelible_operations::{Binding, id};
use indelible_records::operations::{self, Operation};
use indelible_records::windows::{self, Id, RecordBody, WindowedRecord};
use indelible_store::{Batch, ReadError};

use crate::Tree;
use crate::context::Cx;
use crate::keys::{self, KeyedStart};
use crate::output::Severity;

/// A request to start something, under its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRequest {
    /// The operation id and its namespace.
    pub operation: OperationKey,
    /// The root of the tree that it leads to.
    pub root: RootHash,
    /// The function and input that are asked for.
    pub binding: Binding,
    /// The idempotency key that the request came under.
    pub keyed: Option<KeyedStart>,
}

/// A change of a record, for the next commit.
#[derive(Debug, Clone)]
pub struct Change<R> {
    /// The id of the record.
    pub id: Id,
    /// The record as it must be stored; if it is not, the store refuses the commit.
    pub before: Option<WindowedRecord<R>>,
    /// The record after the commit.
    pub after: WindowedRecord<R>,
}

impl<R: RecordBody + Clone> Change<R> {
    /// A change of a stored record, which changes nothing yet.
    pub fn of(id: Id, before: WindowedRecord<R>) -> Self {
        Self { id, before: Some(before.clone()), after: before }
    }

    /// Adds it to a batch.
    pub fn put(&self, batch: &mut Batch) {
        windows::replace(batch, &self.id, self.before.as_ref(), Some(&self.after));
    }
}

impl Change<Operation> {
    /// The operation has begun. Its record does not expire while it goes on (C-3).
    pub(crate) fn begun(request: &OperationRequest, now: Timestamp) -> Self {
        let record = Operation {
            root: request.root,
            binding: request.binding,
            accepted_at: now,
            attempt: Attempt::FIRST,
            key: request.keyed.as_ref().map(|keyed| keyed.key.value().to_owned()),
            end: None,
        };
        let after = WindowedRecord { expires_at: None, record };
        Self { id: Id::operation(&request.operation), before: None, after }
    }
}

impl Tree {
    /// The root is over: the operation's record stays for its window, and until its id is
    /// recognized as expired (V-56, V-58, C-3).
    pub(crate) fn operation_ended(&mut self, cx: Cx<'_>, root: &JournalKey) {
        let operation = self.operation_of(root);
        let made = operation.and_then(|operation| id::created_at(&operation.operation_id));
        let expires_at = cx.expires_at(made);
        let mut key = None;
        self.change_operation(cx, root, |after| {
            after.expires_at = Some(expires_at);
            key.clone_from(&after.record.key);
        });
        let (Some(key), Some(operation)) = (key, self.operation_of(root)) else { return };
        let pending = self.pending.key.take();
        match keys::ended(cx, pending, &operation.namespace, &key, expires_at) {
            Ok(change) => self.pending.key = change,
            Err(error) => self.record_unreadable(root, &error),
        }
    }

    /// The root is tried again (C-32).
    pub(crate) fn operation_retried(&mut self, cx: Cx<'_>, next: &JournalKey) {
        let attempt = next.attempts().own();
        self.change_operation(cx, next, |after| after.record.attempt = attempt);
    }

    fn record_unreadable(&mut self, root: &JournalKey, error: &ReadError) {
        let message = "operation record cannot be read";
        self.trouble(Severity::Warning, message, root.execution_id(), error);
    }

    fn change_operation(
        &mut self,
        cx: Cx<'_>,
        root: &JournalKey,
        change: impl FnOnce(&mut WindowedRecord<Operation>),
    ) {
        let Some(operation) = self.operation_of(root) else { return };
        if self.pending.operation.is_none() {
            match operations::get(&cx.reads, &operation).map(|seen| seen.value) {
                Ok(Some(before)) => {
                    let change = Change::of(Id::operation(&operation), before);
                    self.pending.operation = Some(change);
                }
                // Without a record there is nothing to change.
                Ok(None) => return,
                Err(error) => return self.record_unreadable(root, &error),
            }
        }
        if let Some(pending) = &mut self.pending.operation {
            change(&mut pending.after);
        }
    }

    /// When the root's operation was accepted; without a record, now.
    pub(crate) fn operation_accepted_at(&mut self, cx: Cx<'_>, root: &JournalKey) -> Timestamp {
        if let Some(change) = &self.pending.operation {
            return change.after.record.accepted_at;
        }
        let operation = self.operation_of(root);
        let stored = operation.and_then(|key| operations::get(&cx.reads, &key).ok()?.value);
        stored.map_or_else(|| cx.now, |stored| stored.record.accepted_at)
    }
}
