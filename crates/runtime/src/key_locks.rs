//! Per-key locks. A request holds the [`KeyLock`] of its key from the lookup of the key's record
//! until its own record is accepted. So of two requests under one key, the second waits and then
//! finds the record of the first. Without the lock both would find no record, the store would
//! refuse the second record, and the second request's tree would be dropped from memory.
//!
//! Waiting requests are bounded: each holds an admission permit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use indelible_records::windows::Id;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::shared::lock;

/// The locks of all keys.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks {
    /// The keys that a request holds or waits for; the last request removes the entry.
    entries: Mutex<HashMap<Id, KeyLockEntry>>,
}

#[derive(Debug, Default)]
struct KeyLockEntry {
    mutex: Arc<AsyncMutex<()>>,
    /// How many requests hold the lock or wait for it.
    requests: usize,
}

/// The lock of one key. Dropping it unlocks the key.
#[derive(Debug)]
pub(crate) struct KeyLock {
    locks: Arc<KeyLocks>,
    id: Id,
    /// `None` while the request waits for the lock.
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits for the lock of a key.
    pub(crate) async fn take(self: &Arc<Self>, id: &Id) -> KeyLock {
        let mutex = {
            let mut entries = lock(&self.entries);
            let entry = entries.entry(id.clone()).or_default();
            entry.requests += 1;
            Arc::clone(&entry.mutex)
        };
        // Made before the await: if the caller stops waiting, dropping this uncounts its request.
        let mut lock = KeyLock { locks: Arc::clone(self), id: id.clone(), guard: None };
        lock.guard = Some(mutex.lock_owned().await);
        lock
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        self.guard = None;
        let mut entries = lock(&self.locks.entries);
        if let Some(entry) = entries.get_mut(&self.id) {
            entry.requests -= 1;
            if entry.requests == 0 {
                entries.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use indelible_journal::Namespace;
    use indelible_records::windows::Kind;

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// I-13: one request at a time for a key, other keys are not blocked, and requests that left or
    /// stopped waiting leave no entry.
    #[test]
    fn one_at_a_time() {
        let id = |name: &str| Id {
            kind: Kind::IdempotencyKey,
            namespace: Namespace::new("tests").unwrap(),
            name: name.to_owned(),
        };
        let locks = Arc::new(KeyLocks::default());
        let Poll::Ready(first) = poll(pin!(locks.take(&id("a")))) else { panic!() };
        assert!(poll(pin!(locks.take(&id("b")))).is_ready());
        let (a, a_too) = (id("a"), id("a"));
        let mut second = Box::pin(locks.take(&a));
        assert!(poll(second.as_mut()).is_pending());
        let mut third = Box::pin(locks.take(&a_too));
        assert!(poll(third.as_mut()).is_pending());
        drop(second);
        assert!(poll(third.as_mut()).is_pending());
        drop(first);
        let Poll::Ready(third) = poll(third.as_mut()) else { panic!() };
        assert_eq!(lock(&locks.entries).len(), 1);
        drop(third);
        assert!(lock(&locks.entries).is_empty());
    }
}
