//! The transaction that the middleware opened, in the handler's hands and back.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{Database, Transaction};
use tokio::sync::{Mutex, MutexGuard};

use crate::key::IdempotencyKey;

/// The transaction of a guarded request, for its handler: what is done in it becomes durable
/// together with the recorded response, or not at all.
///
/// It is in the request's extensions, and only there: a request without a key has none. Clones are
/// of the same transaction.
pub struct IdempotentTx<DB: Database> {
    shared: Arc<Shared<DB>>,
}

struct Shared<DB: Database> {
    key: IdempotencyKey,
    slot: Mutex<Option<Transaction<'static, DB>>>,
    /// The middleware wants the transaction back. The middleware sets this before it tries the
    /// slot, and a guard reads it after it has released the slot. So at least one of the two finds
    /// the slot free and empties it.
    is_over: AtomicBool,
}

impl<DB: Database> Shared<DB> {
    /// Takes the transaction out, unless a guard holds the slot: then that guard does, when it is
    /// dropped.
    fn end(&self) -> Option<Transaction<'static, DB>> {
        self.is_over.store(true, Ordering::SeqCst);
        self.slot.try_lock().ok()?.take()
    }
}

impl<DB: Database> IdempotentTx<DB> {
    /// The transaction's connection, for one task at a time. Drop the guard before the handler
    /// returns; afterwards there is nothing to lock.
    ///
    /// A transaction within it (`sqlx::Connection::begin` on the guard) is a savepoint. Do not
    /// `COMMIT` or `ROLLBACK` it with a statement of your own.
    pub async fn lock(&self) -> Result<IdempotentTxGuard<'_, DB>, Ended> {
        let slot = self.shared.slot.lock().await;
        // The guard is made first: if the transaction is over, dropping the guard rolls it back.
        let guard = IdempotentTxGuard { shared: &self.shared, slot: Some(slot) };
        let is_over = self.shared.is_over.load(Ordering::SeqCst);
        if is_over || guard.slot().is_none() { Err(Ended) } else { Ok(guard) }
    }

    /// The key that the request is recorded under: with a [`Scope`](super::Scope), not the one that
    /// the caller sent. It is the same for every repetition, so it may be a part of keys that are
    /// minted for calls to others.
    pub fn key(&self) -> &IdempotencyKey {
        &self.shared.key
    }
}

impl<DB: Database> Clone for IdempotentTx<DB> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<DB: Database> fmt::Debug for IdempotentTx<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotentTx").field("key", &self.shared.key).finish_non_exhaustive()
    }
}

/// The connection of an [`IdempotentTx`], while it is held.
pub struct IdempotentTxGuard<'a, DB: Database> {
    shared: &'a Shared<DB>,
    /// `Some` until the guard is dropped.
    slot: Option<MutexGuard<'a, Option<Transaction<'static, DB>>>>,
}

impl<DB: Database> IdempotentTxGuard<'_, DB> {
    fn slot(&self) -> &Option<Transaction<'static, DB>> {
        self.slot.as_ref().expect("it is there until the guard is dropped")
    }
}

impl<DB: Database> Deref for IdempotentTxGuard<'_, DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        self.slot().as_ref().expect("a guard is handed out only with a transaction")
    }
}

impl<DB: Database> DerefMut for IdempotentTxGuard<'_, DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        let slot = self.slot.as_mut().expect("it is there until the guard is dropped");
        slot.as_mut().expect("a guard is handed out only with a transaction")
    }
}

impl<DB: Database> Drop for IdempotentTxGuard<'_, DB> {
    fn drop(&mut self) {
        self.slot = None;
        // The middleware tried to take the transaction while this guard held the slot, so this
        // guard has to roll it back.
        if self.shared.is_over.load(Ordering::SeqCst) {
            drop(self.shared.end());
        }
    }
}

/// The transaction is over: the handler has returned, or its request was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the transaction of the request has ended")]
pub struct Ended;

/// The middleware's handle. Dropped with the request, it rolls back, even if the handler has kept
/// handles.
pub(super) struct LentTransaction<DB: Database> {
    handle: IdempotentTx<DB>,
}

impl<DB: Database> LentTransaction<DB> {
    pub(super) fn new(transaction: Transaction<'static, DB>, key: IdempotencyKey) -> Self {
        let slot = Mutex::new(Some(transaction));
        let shared = Shared { key, slot, is_over: AtomicBool::new(false) };
        Self { handle: IdempotentTx { shared: Arc::new(shared) } }
    }

    pub(super) fn handle(&self) -> IdempotentTx<DB> {
        self.handle.clone()
    }

    /// The transaction; none while a guard of it is alive.
    pub(super) fn take_back(self) -> Option<Transaction<'static, DB>> {
        self.handle.shared.end()
    }
}

impl<DB: Database> Drop for LentTransaction<DB> {
    fn drop(&mut self) {
        drop(self.handle.shared.end());
    }
}
