//! What waits in a machine's inbox: an input, and what the host keeps with it.

use std::sync::Arc;

use indelible_execution::input::Reply;
use indelible_execution::output::AttemptRef;
use indelible_execution::{Input, Request};
use indelible_http::End;
use indelible_journal::ExecutionId;
use indelible_machine::Guard;
use indelible_records::timers::RoomTimer;
use indelible_store::Position;
use tokio::sync::oneshot::{self, Receiver};

use crate::admission::AdmissionPermit;
use crate::key_locks::KeyLock;
use crate::outbox::Delivery;
use crate::rooms::AnyValue;
use crate::watchers::DurableEnd;

pub(crate) enum Command {
    /// An input. The guard is held until the changes that follow are accepted.
    Tell(Input, Guard),
    /// A caller asks, and waits.
    Ask(Request, Waiter<Reply>),
    /// There may be a permit for this attempt at an effect.
    StartEffect(AttemptRef),
    /// The last caller of this root has gone: the root is released, unless another caller has come
    /// meanwhile.
    Release(ExecutionId),
    /// A caller of this root has gone and wants it kept. Its watcher stays until the tree has
    /// handled this.
    Keep(ExecutionId, Receiver<DurableEnd>),
    /// For a machine that is not a tree.
    Room(RoomCommand),
}

/// What waits in the inbox of a machine that is not a tree.
pub(crate) enum RoomCommand {
    /// A caller asks, and waits.
    Ask(AnyValue, Waiter<AnyValue>),
    Due(RoomTimer),
    /// The stored queue names this machine.
    Recover(Guard),
    Deliver(Delivery),
    /// A request that it sent has ended.
    Report(u64, End, Guard),
}

impl Command {
    /// An input without a guard.
    pub(crate) fn tell(input: Input) -> Self {
        Self::Tell(input, Guard::NOTHING)
    }
}

/// A caller that waits for a reply, with the permit and the lock that it holds until the commit is
/// accepted.
pub(crate) struct Waiter<R> {
    pub(crate) reply: oneshot::Sender<Result<Answer<R>, String>>,
    pub(crate) room: AdmissionPermit,
    /// The lock of its idempotency key.
    pub(crate) lock: Option<Arc<KeyLock>>,
}

/// A reply, and the position that has to be durable before a client is told.
pub(crate) struct Answer<R> {
    pub(crate) reply: R,
    pub(crate) position: Position,
}

impl<R> Waiter<R> {
    /// Gives back the permit and the lock, and answers: the record is accepted, so the next request
    /// under the key finds it.
    pub(crate) fn reply(self, reply: R, position: Position) {
        drop((self.room, self.lock));
        let _ = self.reply.send(Ok(Answer { reply, position }));
    }

    /// Answers that there is no reply because of this damage, which the store has noted.
    pub(crate) fn fail(self, damage: String) {
        let _ = self.reply.send(Err(damage));
    }
}
