//! One request under a key at a time: from the look for its record until what it asks for is
//! accepted, so that whoever comes second finds the record. A command whose record is refused by
//! the store would take the memory of its tree with it.
//!
//! There are as many entries as keys that somebody holds or waits for. Those who wait have room
//! among the commands under way, which is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use indelible_records::windows::Id;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::shared::lock;

/// The keys that somebody is at.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks {
    wanted: Mutex<HashMap<Id, Wanted>>,
}

/// A key that somebody is at.
#[derive(Debug, Default)]
struct Wanted {
    turn: Arc<Turn<()>>,
    /// By how many: whoever has it, and those who wait.
    by: usize,
}

/// Whoever has this is alone at a key.
#[derive(Debug)]
pub(crate) struct KeyLock {
    locks: Arc<KeyLocks>,
    id: Id,
    held: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits for its turn at a key.
    pub(crate) async fn take(self: &Arc<Self>, id: &Id) -> KeyLock {
        let turn = {
            let mut wanted = lock(&self.wanted);
            let wanted = wanted.entry(id.clone()).or_default();
            wanted.by += 1;
            Arc::clone(&wanted.turn)
        };
        // Made before anything is awaited: whoever loses patience leaves nothing behind.
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

    /// I-13: one at a time for a key, others are not in its way, and nothing stays of those who
    /// left or lost patience.
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
