//! Followers of executions and of other machines: each is woken when a commit changes what it
//! follows.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use indelible_journal::ExecutionId;
use indelible_records::RoomKey;
use tokio::sync::watch;

use crate::engine::EngineError;
use crate::shared::lock;

/// All followers, by what they follow.
pub(crate) struct Followers<K> {
    followed: Mutex<Followed<K>>,
    /// How many things are followed: while it is 0, a commit takes no lock here.
    count: AtomicUsize,
}

struct Followed<K> {
    /// Clients choose some of the keys: the map's seeded hash keeps them from choosing collisions.
    senders: HashMap<K, watch::Sender<()>>,
    /// The engine has stopped, so there will be no more commits.
    closed: bool,
}

impl<K> Default for Followers<K> {
    fn default() -> Self {
        let followed = Followed { senders: HashMap::new(), closed: false };
        Self { followed: Mutex::new(followed), count: AtomicUsize::new(0) }
    }
}

impl<K: Clone + Eq + Hash> Followers<K> {
    /// Whether anything is followed.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Follows this from now on. The caller reads it after this call: a commit between a read and a
    /// later call would wake nothing.
    pub(crate) fn follow(self: &Arc<Self>, key: &K) -> Follower<K> {
        let mut followed = lock(&self.followed);
        let changes = if followed.closed {
            // A receiver without a sender: `Follow::changed` fails at once.
            watch::channel(()).1
        } else {
            let sender = followed.senders.entry(key.clone());
            sender.or_insert_with(|| watch::channel(()).0).subscribe()
        };
        self.count.store(followed.senders.len(), Ordering::SeqCst);
        Follower { followers: Arc::clone(self), key: key.clone(), changes: Some(changes) }
    }

    /// Wakes the followers of these, which a commit has changed.
    pub(crate) fn changed<'a>(&self, keys: impl Iterator<Item = &'a K>)
    where
        K: 'a,
    {
        let followed = lock(&self.followed);
        for key in keys {
            if let Some(sender) = followed.senders.get(key) {
                sender.send_replace(());
            }
        }
    }

    /// Ends all followers, because the engine stops.
    pub(crate) fn close(&self) {
        let mut followed = lock(&self.followed);
        followed.closed = true;
        followed.senders.clear();
        self.count.store(0, Ordering::SeqCst);
    }

    fn forget(&self, key: &K) {
        let mut followed = lock(&self.followed);
        if followed.senders.get(key).is_some_and(|sender| sender.receiver_count() == 0) {
            followed.senders.remove(key);
        }
        self.count.store(followed.senders.len(), Ordering::SeqCst);
    }
}

/// A follower of one execution. A commit wakes it if it adds an event, starts another attempt, ends
/// the execution or leaves it stuck. From [`Engine::follow`](crate::Engine::follow); drop it to
/// stop following.
///
/// It says that the execution has changed, not how: read the execution, which shows what is durable
/// (D2). Follow first and then read, or you miss a change in between.
pub type Follow = Follower<ExecutionId>;

/// A follower of a vault: each transaction wakes it, as [`Follow`] is woken. From
/// [`Engine::follow_vault`](crate::Engine::follow_vault).
pub type FollowVault = Follower<RoomKey>;

/// Woken by commits: [`Follow`], [`FollowVault`].
pub struct Follower<K: Clone + Eq + Hash> {
    followers: Arc<Followers<K>>,
    key: K,
    /// `Some` until this is dropped.
    changes: Option<watch::Receiver<()>>,
}

impl Follow {
    /// The execution that is followed.
    pub fn execution(&self) -> &ExecutionId {
        &self.key
    }
}

impl<K: Clone + Eq + Hash> Follower<K> {
    /// Completes when there were commits since the last call, one or many. The caller may have read
    /// them already. Fails when the engine stops. Dropping the future loses no change.
    pub async fn changed(&mut self) -> Result<(), EngineError> {
        let Some(changes) = &mut self.changes else { return Err(EngineError::Stopped) };
        changes.changed().await.map_err(|_| EngineError::Stopped)
    }
}

impl<K: Clone + Eq + Hash> Drop for Follower<K> {
    fn drop(&mut self) {
        // Dropped before `forget` counts the receivers that are left.
        drop(self.changes.take());
        self.followers.forget(&self.key);
    }
}

impl<K: Clone + Eq + Hash + std::fmt::Debug> std::fmt::Debug for Follower<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indelible_journal::RootHash;
    use std::task::{Context, Poll, Waker};

    fn poll(follow: &mut Follow) -> Poll<Result<(), EngineError>> {
        let mut future = std::pin::pin!(follow.changed());
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Changes add up to one notice, each follower gets its own, and dropped followers are
    /// forgotten.
    #[test]
    fn each_follower_is_told_once() {
        let followers = Arc::new(Followers::default());
        let [a, b] = [1, 2].map(|n| ExecutionId::root_of(RootHash::from_bytes([n; 32])));
        assert!(!followers.any());
        let (mut one, mut two) = (followers.follow(&a), followers.follow(&a));
        let mut other = followers.follow(&b);
        assert!(poll(&mut one).is_pending());
        followers.changed([&a, &a].into_iter());
        followers.changed([&a].into_iter());
        assert!(matches!(poll(&mut one), Poll::Ready(Ok(()))));
        assert!(poll(&mut one).is_pending(), "that was all");
        assert!(matches!(poll(&mut two), Poll::Ready(Ok(()))));
        assert!(poll(&mut other).is_pending());
        drop((one, other));
        assert!(followers.any(), "one is left");
        drop(two);
        assert!(!followers.any());
        let mut late = followers.follow(&a);
        followers.close();
        assert!(matches!(poll(&mut late), Poll::Ready(Err(EngineError::Stopped))));
        let mut later = followers.follow(&a);
        assert!(matches!(poll(&mut later), Poll::Ready(Err(EngineError::Stopped))));
        assert!(!followers.any());
    }
}
