//! One request under a key at a time, from the lookup of its record until its own record is
//! accepted: a second request then finds the record. Otherwise the store would refuse the second
//! record, and the second request's tree would be dropped from memory.
//!
//! There is an entry for each key that is locked or waited for. Each waiting request holds an
//! admission permit, so their number is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use indelible_records::windows::Id;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::shared::lock;

#[derive(Debug, Default)]
pub(crate) struct KeyLocks {
    wanted: Mutex<HashMap<Id, KeyLockEntry>>,
}

#[derive(Debug, Default)]
struct KeyLockEntry {
    turn: Arc<Turn<()>>,
    /// How many requests hold the lock or wait for it.
    by: usize,
}

/// The lock of a key, held until it is dropped.
#[derive(Debug)]
pub(crate) struct KeyLock {
    locks: Arc<KeyLocks>,
    id: Id,
    held: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits for the lock of a key.
    pub(crate) async fn take(self: &Arc<Self>, id: &Id) -> KeyLock {
        let turn = {
            let mut wanted = lock(&self.wanted);
            let wanted = wanted.entry(id.clone()).or_default();
            wanted.by += 1;
            Arc::clone(&wanted.turn)
        };
        // Made before anything is awaited: if the caller stops waiting, its drop removes the entry.
        let mut lock = KeyLock { locks: Arc::clone(self), id: id.clone(), held: None };
        lock.held = Some(turn.lock_owned().await);
        lock
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        self.held = None;
        let mut all = lock(&self.locks.wanted);
        if let Some(wanted) = all.get_mut(&self.id) {
            wanted.by -= 1;
            if wanted.by == 0 {
                all.remove(&self.id);
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
        assert_eq!(lock(&locks.wanted).len(), 1);
        drop(third);
        assert!(lock(&locks.wanted).is_empty());
    }
}
