//! What is done to executions from outside: signals, cancels, and what a person decides about
//! those that are held. Everything is acknowledged when it is durable.

use indelible_journal::{DeliveryId, ExecutionId, Payload, SignalName};
use tokio::sync::oneshot;

use super::calls::answered;
use super::{Engine, EngineError};
use crate::audit::Actor;
use crate::run_queue::Flow;
use crate::tree::command::{self, Cancelling, Command, How, NotDone, Reply};

/// Why something was not done to an execution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It makes no sense to this execution.
    #[error(transparent)]
    NotDone(#[from] NotDone),
    /// The signal is larger than it may be.
    #[error("the payload has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most.
        max: usize,
    },
    /// The engine cannot do anything now.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// Sends a signal: its number among those of its name. Acknowledged when it is durable.
    pub async fn signal(
        &self,
        execution: &ExecutionId,
        name: &SignalName,
        payload: Payload,
        actor: Option<Actor>,
    ) -> Result<DeliveryId, ControlError> {
        let (bytes, max) = (payload.bytes.len(), self.shared.guests.options().payload_bytes_max);
        if bytes > max {
            return Err(ControlError::TooLarge { bytes, max });
        }
        let name = name.clone();
        self.ask(Flow::GOING_ON, execution, |execution, reply| {
            Command::Signal(command::Signal { execution, name, payload, actor, reply })
        })
        .await
    }

    /// Asks an execution to end. It may clean up first; what it has in flight is asked, too.
    pub async fn cancel(
        &self,
        execution: &ExecutionId,
        reason: &str,
        actor: Option<Actor>,
    ) -> Result<Cancelling, ControlError> {
        let reason = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
        self.ask(Flow::CONTROL, execution, |execution, reply| {
            Command::Cancel(command::Cancel { execution, reason, actor, reply })
        })
        .await
    }

    /// Lets a held execution go on: it is replayed again (C-25).
    pub async fn release(
        &self,
        execution: &ExecutionId,
        actor: Actor,
        reason: &str,
    ) -> Result<(), ControlError> {
        self.settle(execution, How::Release, actor, reason).await
    }

    /// Ends a held execution as failed (C-25). What it has in flight is cancelled and awaited first
    /// (C-40), so this takes as long as their cleaning up; when it returns, the end is durable.
    pub async fn fail(
        &self,
        execution: &ExecutionId,
        actor: Actor,
        reason: &str,
    ) -> Result<(), ControlError> {
        self.settle(execution, How::Fail, actor, reason).await?;
        // Until the end is written nothing remembers the decision: it is not acknowledged before.
        self.outcome(execution).await?;
        Ok(())
    }

    async fn settle(
        &self,
        execution: &ExecutionId,
        how: How,
        actor: Actor,
        reason: &str,
    ) -> Result<(), ControlError> {
        let reason = reason.to_owned();
        self.ask(Flow::CONTROL, execution, |execution, reply| {
            Command::Settle(command::Settle { execution, how, actor, reason, reply })
        })
        .await
    }

    async fn ask<T>(
        &self,
        flow: Flow,
        execution: &ExecutionId,
        command: impl FnOnce(ExecutionId, Reply<Result<T, NotDone>>) -> Command,
    ) -> Result<T, ControlError> {
        let _room = self.room(flow).await?;
        let (reply, answer) = oneshot::channel();
        self.shared.send(execution.root(), command(execution.clone(), reply));
        Ok(answered(&self.shared, answer).await??)
    }
}

/// The longest reason of a cancel, in bytes; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 1024;
