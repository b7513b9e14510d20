//! Followers of executions: each is woken when a commit changes the execution that it follows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use indelible_journal::ExecutionId;
use tokio::sync::watch;

use crate::engine::EngineError;
use crate::shared::lock;

/// All followers, by execution.
#[derive(Default)]
pub(crate) struct Followers {
    followed: Mutex<FollowedExecutions>,
    /// How many executions are followed: while it is 0, a commit takes no lock here.
    count: AtomicUsize,
}

#[derive(Default)]
struct FollowedExecutions {
    /// Clients choose some of the keys: the map's seeded hash keeps them from choosing collisions.
    executions: HashMap<ExecutionId, watch::Sender<()>>,
    /// The engine has stopped, so there will be no more commits.
    closed: bool,
}

impl Followers {
    /// Whether any execution is followed.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Follows an execution from now on. The caller reads the execution after this call: a commit
    /// between a read and a later call would wake nothing.
    pub(crate) fn follow(self: &Arc<Self>, execution: &ExecutionId) -> Follow {
        let mut followed = lock(&self.followed);
        let changes = if followed.closed {
            // A receiver without a sender: `Follow::changed` fails at once.
            watch::channel(()).1
        } else {
            let sender = followed.executions.entry(execution.clone());
            sender.or_insert_with(|| watch::channel(()).0).subscribe()
        };
        self.count.store(followed.executions.len(), Ordering::SeqCst);
        Follow { followers: Arc::clone(self), execution: execution.clone(), changes: Some(changes) }
    }

    /// Wakes the followers of these executions, which a commit has changed.
    pub(crate) fn changed<'a>(&self, executions: impl Iterator<Item = &'a ExecutionId>) {
        let followed = lock(&self.followed);
        for execution in executions {
            if let Some(sender) = followed.executions.get(execution) {
                sender.send_replace(());
            }
        }
    }

    /// Ends all followers, because the engine stops.
    pub(crate) fn close(&self) {
        let mut followed = lock(&self.followed);
        followed.closed = true;
        followed.executions.clear();
        self.count.store(0, Ordering::SeqCst);
    }

    fn forget(&self, execution: &ExecutionId) {
        let mut followed = lock(&self.followed);
        if followed.executions.get(execution).is_some_and(|sender| sender.receiver_count() == 0) {
            followed.executions.remove(execution);
        }
        self.count.store(followed.executions.len(), Ordering::SeqCst);
    }
}

/// A follower of one execution. A commit wakes it if it adds an event, starts another attempt, ends
/// the execution or leaves it stuck. From [`Engine::follow`](crate::Engine::follow); drop it to
/// stop following.
///
/// It says that the execution has changed, not how: read the execution, which shows what is durable
/// (D2). Follow first and then read, or you miss a change in between.
pub struct Follow {
    followers: Arc<Followers>,
    execution: ExecutionId,
    /// `Some` until this is dropped.
    changes: Option<watch::Receiver<()>>,
}

impl Follow {
    /// The execution that is followed.
    pub fn execution(&self) -> &ExecutionId {
        &self.execution
    }

    /// Completes when there were commits since the last call, one or many. The caller may have read
    /// them already. Fails when the engine stops. Dropping the future loses no change.
    pub async fn changed(&mut self) -> Result<(), EngineError> {
        let Some(changes) = &mut self.changes else { return Err(EngineError::Stopped) };
        changes.changed().await.map_err(|_| EngineError::Stopped)
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        // Dropped before `forget` counts the receivers that are left.
        drop(self.changes.take());
        self.followers.forget(&self.execution);
    }
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("execution", &self.execution).finish_non_exhaustive()
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
