//! Operations: a repeated request finds the record of the first one and attaches; another request
//! under the same id is a conflict (V-9, C-6, C-31). The record is looked up before any id is made of
//! the component's digest, so that a new version does not make an old request new.

use indelible_journal::{Attempt, JournalKey, OperationKey, RootHash, Timestamp};
use indelible_operations::retention::{Age, Retention};
use indelible_operations::{Binding, id};
use indelible_records::operations::{self, Operation};
use indelible_records::windows::{self, Id, RecordBody, Windowed};
use indelible_store::Batch;

use crate::keys::{self, Keyed};
use crate::shared::Shared;
use crate::tree::Tree;

/// A request to start something, under its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) operation: OperationKey,
    pub(crate) root: RootHash,
    pub(crate) binding: Binding,
    /// The key that it came under.
    pub(crate) keyed: Option<Keyed>,
}

fn retention(shared: &Shared) -> Retention {
    shared.options.retention().expect("it was checked when the engine was opened")
}

/// What the id of a request means that has no record (C-3). It is asked after the look for one: a
/// record that goes in between leaves an id that is expired by then. The wall clock alone does not
/// judge: set back, it would make an id new whose record was purged.
pub(crate) fn age(shared: &Shared, operation: &OperationKey) -> Age {
    let now = shared.clock.now().max(shared.retention_clock.purged());
    retention(shared).age(&operation.operation_id, now)
}

/// Until when a record stays that is of something which is over now. The record is purged by the
/// retention clock, so its window does not begin before what that says: a wall clock that is behind
/// would have it purged at once.
pub(crate) fn expires_at(shared: &Shared, made: Option<Timestamp>) -> Timestamp {
    let now = shared.clock.now().max(shared.retention_clock.time());
    retention(shared).after(made, now).unwrap_or(Timestamp::MAX)
}

/// A change of a record, for the next commit.
#[derive(Debug, Clone)]
pub(crate) struct Change<R> {
    pub(crate) id: Id,
    pub(crate) before: Option<Windowed<R>>,
    pub(crate) after: Windowed<R>,
}

impl<R: RecordBody + Clone> Change<R> {
    /// A change of what is stored.
    pub(crate) fn of(id: Id, before: Windowed<R>) -> Self {
        Self { id, before: Some(before.clone()), after: before }
    }

    /// Adds it to a batch.
    pub(crate) fn put(&self, batch: &mut Batch) {
        windows::replace(batch, &self.id, self.before.as_ref(), Some(&self.after));
    }
}

impl Change<Operation> {
    /// The operation has begun. While it goes on its record does not expire (C-3).
    pub(crate) fn begun(request: &Request, now: Timestamp) -> Self {
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
    pub(crate) fn operation_ended(&mut self, shared: &Shared, root: &JournalKey) {
        let operation = self.operation_of(root);
        let made = operation.and_then(|operation| id::created_at(&operation.operation_id));
        let expires_at = expires_at(shared, made);
        let mut key = None;
        self.change_operation(shared, root, |after| {
            after.expires_at = Some(expires_at);
            key.clone_from(&after.record.key);
        });
        let (Some(key), Some(operation)) = (key, self.operation_of(root)) else { return };
        let pending = self.key_change().take();
        match keys::ended(shared, pending, &operation.namespace, &key, expires_at) {
            Ok(change) => *self.key_change() = change,
            Err(error) => shared.trouble(&error.to_string()),
        }
    }

    /// The root is tried again (C-32).
    pub(crate) fn operation_retried(&mut self, shared: &Shared, next: &JournalKey) {
        let attempt = next.attempts().own();
        self.change_operation(shared, next, |after| after.record.attempt = attempt);
    }

    fn change_operation(
        &mut self,
        shared: &Shared,
        root: &JournalKey,
        change: impl FnOnce(&mut Windowed<Operation>),
    ) {
        let Some(operation) = self.operation_of(root) else { return };
        if self.operation_change().is_none() {
            match operations::get(&shared.store, &operation).map(|seen| seen.value) {
                Ok(Some(before)) => {
                    let change = Change::of(Id::operation(&operation), before);
                    *self.operation_change() = Some(change);
                }
                // Without a record nothing is lost: it only says where to look.
                Ok(None) => return,
                Err(error) => return shared.trouble(&error.to_string()),
            }
        }
        if let Some(pending) = self.operation_change() {
            change(&mut pending.after);
        }
    }

    /// When the root's operation was accepted; for one without a record, when this attempt began.
    pub(crate) fn operation_accepted_at(
        &mut self,
        shared: &Shared,
        root: &JournalKey,
    ) -> Timestamp {
        if let Some(change) = self.operation_change() {
            return change.after.record.accepted_at;
        }
        let operation = self.operation_of(root);
        let stored = operation.and_then(|key| operations::get(&shared.store, &key).ok()?.value);
        stored.map_or_else(|| shared.clock.now(), |stored| stored.record.accepted_at)
    }
}
