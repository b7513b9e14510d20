//! What waits in a machine's inbox: an input for it, and what of the host's goes with that.

use std::sync::Arc;

use bytes::Bytes;
use indelible_execution::input::Reply;
use indelible_execution::output::Place;
use indelible_execution::{Input, Request};
use indelible_journal::ExecutionId;
use indelible_machine::Guard;
use indelible_records::timers::RoomTimer;
use indelible_store::Position;
use tokio::sync::oneshot::{self, Receiver};

use crate::admission::Admitted;
use crate::key_locks::KeyLock;
use crate::outbox::Delivery;
use crate::watchers::Ended;

/// What waits in a machine's inbox.
pub(crate) enum Command {
    /// An input. The guard is kept until what comes of it is accepted.
    Tell(Input, Guard),
    /// A caller asks, and waits.
    Ask(Request, Waiter<Reply>),
    /// There may be room for this attempt at an effect.
    StartEffect(Place),
    /// The last caller of this root has gone: the root is released, unless another has come meanwhile.
    Release(ExecutionId),
    /// A caller of this root has gone and wants it kept. Its watcher stays until the tree has heard of
    /// that.
    Keep(ExecutionId, Receiver<Ended>),
    /// For a machine that is no tree.
    Room(RoomCommand),
}

/// What waits in the inbox of a machine that is no tree.
pub(crate) enum RoomCommand {
    /// A caller asks, and waits.
    Ask(Bytes, Waiter<Bytes>),
    /// A timer is due.
    Due(RoomTimer),
    /// The stored queue names it.
    Recover(Guard),
    /// A message.
    Deliver(Delivery),
}

impl Command {
    /// An input that nothing goes with.
    pub(crate) fn tell(input: Input) -> Self {
        Self::Tell(input, Guard::NOTHING)
    }
}

/// A caller that waits for a reply, with the room and the lock that it has until the commit is accepted.
pub(crate) struct Waiter<R> {
    pub(crate) reply: oneshot::Sender<Result<Answer<R>, String>>,
    /// Room among the commands under way.
    pub(crate) room: Admitted,
    /// The key that they are alone at.
    pub(crate) lock: Option<Arc<KeyLock>>,
}

/// A reply, and the position that has to be durable before anybody is told; or the damage that
/// prevents it, which the store has noted.
pub(crate) struct Answer<R> {
    pub(crate) reply: R,
    pub(crate) position: Position,
}

impl<R> Waiter<R> {
    /// Answers. The lock goes first: the next request under the key finds the record.
    pub(crate) fn answer(self, reply: R, position: Position) {
        drop((self.room, self.lock));
        let _ = self.reply.send(Ok(Answer { reply, position }));
    }

    /// There is no reply, because of this damage.
    pub(crate) fn fail(self, damage: String) {
        let _ = self.reply.send(Err(damage));
    }
}
