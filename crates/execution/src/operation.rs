//! Operations: a repeated request finds the record of the first one and attaches; another request
//! under the same id is a conflict (V-9, C-6, C-31). The record is looked up before any id is made of
//! the component's digest, so that a new version does not make an old request new.

use indelible_journal::{Attempt, JournalKey, OperationKey, RootHash, Timestamp};
use indelible_operations::{Binding, id};
use indelible_records::operations::{self, Operation};
use indelible_records::windows::{self, Id, RecordBody, Windowed};
use indelible_store::Batch;

use crate::Tree;
use crate::context::Cx;
use crate::keys::{self, Keyed};

/// A request to start something, under its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRequest {
    /// The id.
    pub operation: OperationKey,
    /// The root of the tree that it leads to.
    pub root: RootHash,
    /// What is asked for.
    pub binding: Binding,
    /// The key that it came under.
    pub keyed: Option<Keyed>,
}

/// A change of a record, for the next commit.
#[derive(Debug, Clone)]
pub struct Change<R> {
    /// Of which record.
    pub id: Id,
    /// The record as it must be stored, or the commit is refused.
    pub before: Option<Windowed<R>>,
    /// The record as it will be.
    pub after: Windowed<R>,
}

impl<R: RecordBody + Clone> Change<R> {
    /// A change of what is stored.
    pub fn of(id: Id, before: Windowed<R>) -> Self {
        Self { id, before: Some(before.clone()), after: before }
    }

    /// Adds it to a batch.
    pub fn put(&self, batch: &mut Batch) {
        windows::replace(batch, &self.id, self.before.as_ref(), Some(&self.after));
    }
}

impl Change<Operation> {
    /// The operation has begun. While it goes on its record does not expire (C-3).
    pub(crate) fn begun(request: &OperationRequest, now: Timestamp) -> Self {
        let record = Operation {
            root: request.root,
            binding: request.binding,
            accepted_at: now,
            attempt: Attempt::FIRST,
            key: request.keyed.as_ref().map(|keyed| keyed.key.value().to_owned()),
            end: None,
        };
        let after = Windowed { expires_at: None, record };
        Self { id: Id::operation(&request.operation), before: None, after }
    }
}

impl Tree {
    /// The root is over: its record stays for its window, and until its id is recognized as expired
    /// (V-56, V-58, C-3).
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
            Err(error) => self.trouble(error.to_string()),
        }
    }

    /// The root is tried again (C-32).
    pub(crate) fn operation_retried(&mut self, cx: Cx<'_>, next: &JournalKey) {
        let attempt = next.attempts().own();
        self.change_operation(cx, next, |after| after.record.attempt = attempt);
    }

    fn change_operation(
        &mut self,
        cx: Cx<'_>,
        root: &JournalKey,
        change: impl FnOnce(&mut Windowed<Operation>),
    ) {
        let Some(operation) = self.operation_of(root) else { return };
        if self.pending.operation.is_none() {
            match operations::get(&cx.reads, &operation).map(|seen| seen.value) {
                Ok(Some(before)) => {
                    let change = Change::of(Id::operation(&operation), before);
                    self.pending.operation = Some(change);
                }
                // Without a record nothing is lost: it only says where to look.
                Ok(None) => return,
                Err(error) => return self.trouble(error.to_string()),
            }
        }
        if let Some(pending) = &mut self.pending.operation {
            change(&mut pending.after);
        }
    }

    /// When the root's operation was accepted; for one without a record, when this attempt began.
    pub(crate) fn operation_accepted_at(&mut self, cx: Cx<'_>, root: &JournalKey) -> Timestamp {
        if let Some(change) = &self.pending.operation {
            return change.after.record.accepted_at;
        }
        let operation = self.operation_of(root);
        let stored = operation.and_then(|key| operations::get(&cx.reads, &key).ok()?.value);
        stored.map_or_else(|| cx.now, |stored| stored.record.accepted_at)
    }
}
