//! What waits in a tree's inbox: an input for it, and what of the host's goes with that.

use indelible_execution::input::Reply;
use indelible_execution::output::Place;
use indelible_execution::{Input, Request};
use indelible_journal::ExecutionId;
use indelible_machine::Guard;
use indelible_store::Position;
use std::sync::Arc;
use tokio::sync::oneshot::{self, Receiver};

use crate::admission::Admitted;
use crate::key_locks::KeyLock;
use crate::watchers::Ended;

/// What waits in a tree's inbox.
pub(crate) enum Command {
    /// An input. The guard is kept until what comes of it is accepted.
    Tell(Input, Guard),
    /// Somebody asks, and waits.
    Ask(Request, Waiter),
    /// There may be room for this attempt at an effect.
    Room(Place),
    /// Nobody waits any more for this root: it is released, unless somebody has come meanwhile.
    Release(ExecutionId),
    /// Whoever waited for this root does not any more, and it is not to be released because of that.
    /// The watcher stays until this is heard.
    Keep(ExecutionId, Receiver<Ended>),
}

impl Command {
    /// An input that nothing goes with.
    pub(crate) fn tell(input: Input) -> Self {
        Self::Tell(input, Guard::NOTHING)
    }
}

/// Somebody who waits for a reply, with what is theirs until it is accepted.
pub(crate) struct Waiter {
    pub(crate) reply: oneshot::Sender<Result<Answer, String>>,
    /// Room among the commands under way.
    pub(crate) room: Admitted,
    /// The key that they are alone at.
    pub(crate) lock: Option<Arc<KeyLock>>,
}

/// A reply, and the position that has to be durable before anybody is told; or the damage that
/// prevents it, which the store has noted.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) position: Position,
}

impl Waiter {
    /// Answers. Whoever comes next under the key finds its record.
    pub(crate) fn answer(self, reply: Reply, position: Position) {
        let Self { reply: to, room, lock } = self;
        drop((room, lock));
        let _ = match reply {
            Reply::Unreadable { why, damage: true } => to.send(Err(why)),
            // The asker sees that the engine has stopped.
            Reply::Unreadable { .. } => return,
            reply => to.send(Ok(Answer { reply, position })),
        };
    }

    /// There is no reply, because of this damage.
    pub(crate) fn fail(self, damage: String) {
        let _ = self.reply.send(Err(damage));
    }
}
