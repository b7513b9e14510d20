//! What became of executions, and waiting: for their ends, for the disk, for room among the commands
//! under way.

use bytes::Bytes;
use indelible_execution::{Reply, Request};
use indelible_journal::{Ending, ExecutionId, OperationKey, RootHash};
use indelible_records::RoomKey;
use indelible_records::executions::Execution as Row;
use indelible_records::operations::Operation;
use indelible_records::windows::Windowed;
use indelible_store::Lost;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

use super::submitted::Interest;
use super::{Engine, EngineError};
use crate::admission::{Admitted, NotAdmitted};
use crate::command::{Answer, Command, RoomCommand, Waiter};
use crate::key_locks::KeyLock;
use crate::reader::Lane;
use crate::run_queue::Flow;
use crate::shared::Shared;

/// How an execution stands that somebody waits for.
pub(super) enum Standing {
    /// There is none.
    Absent,
    GoesOn {
        /// In memory alone (see C-39).
        volatile: bool,
    },
    Ended(Ending),
}

impl Engine {
    /// Waits for an execution's end. None: there is no such execution, or it was volatile and its
    /// process has ended, or it was released. Whoever drops this waits no more, which may release a
    /// volatile one (V-18).
    pub async fn outcome(&self, execution: &ExecutionId) -> Result<Option<Ending>, EngineError> {
        Interest::idle(Arc::clone(&self.shared), execution).outcome().await
    }

    /// How an execution stands: the last attempt at it. What is shown is durable. None, too, for
    /// one that is volatile and has not ended.
    pub async fn execution(&self, execution: &ExecutionId) -> Result<Option<Row>, EngineError> {
        let execution = execution.clone();
        self.shared.read(Lane::Lookups, move |reads| reads.execution(&execution)).await
    }

    /// Everything that was read so far is durable.
    pub(super) async fn durable_now(&self) -> Result<(), EngineError> {
        let store = &self.shared.store;
        Ok(store.durable(store.accepted()).await?)
    }
}

impl Shared {
    /// How an execution stands, for somebody who watches it already: an end between the two is seen
    /// twice, never missed. What is shown is durable.
    pub(super) async fn standing(&self, execution: &ExecutionId) -> Result<Standing, EngineError> {
        // Whoever began to watch after those who did were told is told nothing.
        if self.failed.load(Ordering::Acquire) {
            return Err(stopped(self));
        }
        let stored = match self.stored(execution).await? {
            None if self.is_volatile(execution).await? => {
                return Ok(Standing::GoesOn { volatile: true });
            }
            // It may have ended since it was looked up.
            None => self.stored(execution).await?,
            stored => stored,
        };
        Ok(stored.unwrap_or(Standing::Absent))
    }

    /// How an execution stands as far as it is stored; none if it is not. A repeated call is told its
    /// outcome by this, so it is read where it is asked for.
    async fn stored(&self, execution: &ExecutionId) -> Result<Option<Standing>, EngineError> {
        let read = self.read_here(|reads| {
            let Some(row) = reads.execution(execution)? else { return Ok(None) };
            if !row.standing.is_terminal() {
                return Ok(Some(Standing::GoesOn { volatile: false }));
            }
            match reads.last_event(&row)?.and_then(Ending::of) {
                Some(ending) => Ok(Some(Standing::Ended(ending))),
                // Retention has taken it meanwhile.
                None if reads.execution(execution)?.is_none() => Ok(Some(Standing::Absent)),
                None => {
                    let what = format!("the journal of {} has no end", row.key);
                    Err(EngineError::Malformed(what))
                }
            }
        });
        read.await
    }

    /// Whether an execution goes on in memory alone (see C-39).
    async fn is_volatile(&self, execution: &ExecutionId) -> Result<bool, EngineError> {
        match self.ask(execution.root(), Request::IsVolatile(execution.clone())).await? {
            Reply::Volatile(volatile) => Ok(volatile),
            reply => Err(misanswered(&reply)),
        }
    }

    /// How an operation ended whose tree is gone: its record outlives that (C-3).
    pub(super) async fn kept_ending(
        &self,
        operation: &OperationKey,
    ) -> Result<Option<Ending>, EngineError> {
        Ok(self.known(operation).await?.and_then(|known| known.record.ending()))
    }

    /// The record of an operation.
    pub(super) async fn known(
        &self,
        operation: &OperationKey,
    ) -> Result<Option<Windowed<Operation>>, EngineError> {
        let operation = operation.clone();
        self.read(Lane::Lookups, move |reads| reads.operation(&operation)).await
    }

    /// Waits for room: so many commands are under way at most.
    pub(super) async fn room(&self, flow: Flow) -> Result<Admitted, EngineError> {
        self.unless_paused(self.admission.admit(flow)).await?.map_err(|why| match why {
            NotAdmitted::Busy(waiting) => EngineError::Busy { waiting },
            NotAdmitted::Closed => stopped(self),
        })
    }

    /// Waits for something that a tree has to do. While the store is paused, trees may wait for room
    /// in it: after the store's bound the caller is told that it is unknown what becomes of the
    /// request, and the tree goes on with it when it can.
    pub(super) async fn unless_paused<F: Future>(&self, what: F) -> Result<F::Output, EngineError> {
        Ok(self.store.unless_overdue(what).await.map_err(Lost::Paused)?)
    }
}

impl Shared {
    /// Asks a tree that goes on for something. What is replied is durable.
    pub(super) async fn ask(&self, root: &RootHash, what: Request) -> Result<Reply, EngineError> {
        let room = self.room(Flow::GOING_ON).await?;
        let Answer { reply, position } =
            self.replied(Flow::GOING_ON, root, what, room, None).await?;
        self.store.durable(position).await?;
        Ok(reply)
    }

    /// Sends a request to a tree and waits for the reply, which may not be durable. Room and key are
    /// taken until what comes of the request is accepted, whether its caller waits or goes.
    pub(super) async fn replied(
        &self,
        flow: Flow,
        root: &RootHash,
        what: Request,
        room: Admitted,
        lock: Option<Arc<KeyLock>>,
    ) -> Result<Answer<Reply>, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.send_in(flow, root, Command::Ask(what, Waiter { reply, room, lock }));
        let answer = self.unless_paused(answer).await?.map_err(|_| stopped(self))?;
        answer.map_err(EngineError::Damaged)
    }
}

impl Engine {
    /// Asks a machine of a room that was brought along. What is replied is durable.
    pub async fn ask_room(&self, key: RoomKey, what: Bytes) -> Result<Bytes, EngineError> {
        let shared = &self.shared;
        if !shared.rooms.has(key.room) {
            return Err(EngineError::NoRoom(key.room));
        }
        let room = shared.room(Flow::GOING_ON).await?;
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { reply, room, lock: None };
        shared.send_room(key, RoomCommand::Ask(what, waiter));
        let answer = shared.unless_paused(answer).await?.map_err(|_| stopped(shared))?;
        let Answer { reply, position } = answer.map_err(EngineError::Damaged)?;
        shared.store.durable(position).await?;
        Ok(reply)
    }
}

/// A tree's reply is of another kind than the question: a defect of the engine's.
pub(super) fn misanswered(reply: &Reply) -> EngineError {
    EngineError::Malformed(format!("a defect of Indelible: a tree replied {reply:?}"))
}

/// Why nobody answers: the store has stopped, or the engine.
pub(super) fn stopped(shared: &Shared) -> EngineError {
    match shared.store.poison() {
        Some(poison) => EngineError::Lost(Lost::Poisoned(poison)),
        None => EngineError::Stopped,
    }
}
