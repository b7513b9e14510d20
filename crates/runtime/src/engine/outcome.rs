//! How executions ended, and waiting: for their ends, for the disk, for admission.

use indelible_execution::{Reply, Request};
use indelible_journal::{Ending, ExecutionId, OperationKey, RootHash};
use indelible_records::RoomKey;
use indelible_records::executions::Execution as Row;
use indelible_records::operations::Operation;
use indelible_records::windows::WindowedRecord;
use indelible_store::Lost;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

use super::submitted::Interest;
use super::{Engine, EngineError};
use crate::admission::{AdmissionError, AdmissionPermit};
use crate::command::{Answer, Command, RoomCommand, Waiter};
use crate::key_locks::KeyLock;
use crate::reader::Lane;
use crate::rooms::RoomMachine;
use crate::run_queue::Flow;
use crate::shared::Shared;

/// How an execution stands, for a caller that waits for its end.
pub(super) enum OutcomeState {
    /// There is no such execution.
    Absent,
    GoesOn {
        /// In memory alone (see C-39).
        volatile: bool,
    },
    Ended(Ending),
}

impl Engine {
    /// Waits for an execution's end. None: there is no such execution, or it was volatile and its
    /// process has ended, or it was released. Dropping the future ends the wait, which may release
    /// a volatile one (V-18).
    pub async fn outcome(&self, execution: &ExecutionId) -> Result<Option<Ending>, EngineError> {
        Interest::idle(Arc::clone(&self.shared), execution).outcome().await
    }

    /// How the last attempt at an execution stands, as far as it is durable. None, too, for one
    /// that is volatile and has not ended.
    pub async fn execution(&self, execution: &ExecutionId) -> Result<Option<Row>, EngineError> {
        let execution = execution.clone();
        self.shared.read(Lane::Lookups, move |reads| reads.execution(&execution)).await
    }

    /// Waits until everything that was read so far is durable.
    pub(super) async fn durable_now(&self) -> Result<(), EngineError> {
        let store = &self.shared.store;
        Ok(store.durable(store.accepted()).await?)
    }
}

impl Shared {
    /// How an execution stands. The caller must be watching it already: then an end in between is
    /// seen twice, never missed. What is returned is durable.
    pub(super) async fn standing(
        &self,
        execution: &ExecutionId,
    ) -> Result<OutcomeState, EngineError> {
        // A watcher that came after `Watchers::clear` is never told; `failed` was set before.
        if self.failed.load(Ordering::Acquire) {
            return Err(stopped(self));
        }
        let stored = match self.stored(execution).await? {
            None if self.is_volatile(execution).await? => {
                return Ok(OutcomeState::GoesOn { volatile: true });
            }
            // It may have ended between the two questions.
            None => self.stored(execution).await?,
            stored => stored,
        };
        Ok(stored.unwrap_or(OutcomeState::Absent))
    }

    /// How an execution stands as far as it is stored. Read on the caller's thread: a repeated call
    /// learns its outcome here.
    async fn stored(&self, execution: &ExecutionId) -> Result<Option<OutcomeState>, EngineError> {
        let read = self.read_here(|reads| {
            let Some(row) = reads.execution(execution)? else { return Ok(None) };
            if !row.standing.is_terminal() {
                return Ok(Some(OutcomeState::GoesOn { volatile: false }));
            }
            match reads.last_event(&row)?.and_then(Ending::of) {
                Some(ending) => Ok(Some(OutcomeState::Ended(ending))),
                // Retention has taken the journal meanwhile.
                None if reads.execution(execution)?.is_none() => Ok(Some(OutcomeState::Absent)),
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

    /// How an operation ended whose tree is gone: its record outlives the tree (C-3).
    pub(super) async fn kept_ending(
        &self,
        operation: &OperationKey,
    ) -> Result<Option<Ending>, EngineError> {
        Ok(self.known(operation).await?.and_then(|known| known.record.ending()))
    }

    pub(super) async fn known(
        &self,
        operation: &OperationKey,
    ) -> Result<Option<WindowedRecord<Operation>>, EngineError> {
        let operation = operation.clone();
        self.read(Lane::Lookups, move |reads| reads.operation(&operation)).await
    }

    /// Waits for admission: the number of commands under way is bounded.
    pub(super) async fn room(&self, flow: Flow) -> Result<AdmissionPermit, EngineError> {
        self.unless_paused(self.admission.admit(flow)).await?.map_err(|why| match why {
            AdmissionError::Busy(waiting) => EngineError::Busy { waiting },
            AdmissionError::Closed => stopped(self),
        })
    }

    /// Waits for something that a tree has to do. While the store is paused, the tree may wait for
    /// space in it: after the store's time limit the caller is told that the outcome of its request
    /// is unknown, and the tree goes on with it when it can.
    pub(super) async fn unless_paused<F: Future>(&self, what: F) -> Result<F::Output, EngineError> {
        Ok(self.store.unless_overdue(what).await.map_err(Lost::Paused)?)
    }
}

impl Shared {
    /// Asks a tree something that changes nothing, and waits until the reply is durable.
    pub(super) async fn ask(&self, root: &RootHash, what: Request) -> Result<Reply, EngineError> {
        if self.hold.is_on() {
            return self.read(Lane::Views, move |reads| reads.ask_apart(what)).await;
        }
        let room = self.room(Flow::GOING_ON).await?;
        let Answer { reply, position } =
            self.replied(Flow::GOING_ON, root, what, room, None).await?;
        self.store.durable(position).await?;
        Ok(reply)
    }

    /// Sends a request to a tree and waits for the reply, which may not be durable. The permit and
    /// the key's lock travel with it until its changes are accepted, even if the caller leaves.
    pub(super) async fn replied(
        &self,
        flow: Flow,
        root: &RootHash,
        what: Request,
        room: AdmissionPermit,
        lock: Option<Arc<KeyLock>>,
    ) -> Result<Answer<Reply>, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.send_in(flow, root, Command::Ask(what, Waiter { reply, room, lock }));
        let answer = self.unless_paused(answer).await?.map_err(|_| stopped(self))?;
        answer.map_err(EngineError::Damaged)
    }
}

impl Engine {
    /// Asks a machine that is not a tree. The reply is durable.
    pub async fn ask_room<M: RoomMachine>(
        &self,
        key: RoomKey,
        ask: M::Ask,
    ) -> Result<M::Answer, EngineError> {
        let shared = &self.shared;
        if !shared.rooms.takes::<M>(key.room) {
            return Err(EngineError::NoRoom(key.room));
        }
        shared.hold.check()?;
        // Each machine has its own share of the time.
        let flow = Flow::of(foldhash::fast::FixedState::default().hash_one(&key));
        let room = shared.room(flow).await?;
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { reply, room, lock: None };
        shared.send_room_in(flow, key, RoomCommand::Ask(Box::new(ask), waiter));
        let answer = shared.unless_paused(answer).await?.map_err(|_| stopped(shared))?;
        let Answer { reply, position } = answer.map_err(EngineError::Damaged)?;
        shared.store.durable(position).await?;
        Ok(*reply.downcast().expect("a machine's replies have the type that it says"))
    }
}

/// A tree's reply is of another kind than the question: a defect of the engine's.
pub(super) fn misanswered(reply: &Reply) -> EngineError {
    EngineError::Malformed(format!("a defect of Indelible: unexpected reply of a tree: {reply:?}"))
}

/// Why no tree answers: the store has stopped, or the engine.
pub(super) fn stopped(shared: &Shared) -> EngineError {
    match shared.store.poison() {
        Some(poison) => EngineError::Lost(Lost::Poisoned(poison)),
        None => EngineError::Stopped,
    }
}
