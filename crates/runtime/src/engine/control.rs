//! What is done to executions from outside: signals, cancels, and what a person decides about
//! those that are held. Everything is acknowledged when it is durable.

use indelible_journal::{DeliveryId, ExecutionId, Payload, PromiseId, SignalName};
use indelible_store::rows::unresolved;
use tokio::sync::oneshot;

use super::calls::answered;
use super::{Engine, EngineError};
use crate::audit::Actor;
use crate::run_queue::Flow;
use crate::tree::command::{self, Cancelling, Command, How, NotDone, Reply};
use crate::tree::unresolved::Resolution;
use crate::unresolved::{Unresolved, UnresolvedEffect};

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

    /// Says how an effect ended of which nobody knows whether it happened (D5, C-38). Only one that
    /// is held, or whose reconciler is being asked, can be resolved, and once: anything else is
    /// refused, and nothing has changed.
    pub async fn resolve(
        &self,
        promise: &PromiseId,
        resolution: Resolution,
        actor: Actor,
        reason: &str,
    ) -> Result<(), ControlError> {
        if let Resolution::Happened(response) = &resolution {
            let (bytes, max) =
                (response.encode().len(), self.shared.guests.options().payload_bytes_max);
            if bytes > max {
                return Err(ControlError::TooLarge { bytes, max });
            }
        }
        let execution = promise.parent().ok_or(NotDone::Unknown)?;
        let (promise, reason) = (promise.clone(), reason.to_owned());
        self.ask(Flow::CONTROL, &execution, |_, reply| {
            let resolve = command::Resolve { promise, resolution, actor, reason, reply };
            Command::Resolve(Box::new(resolve))
        })
        .await
    }

    /// Effects of which nobody knows whether they happened, behind this one, at most so many. What
    /// is shown is durable.
    pub async fn unresolved(
        &self,
        after: Option<&UnresolvedEffect>,
        limit: usize,
    ) -> Result<Vec<UnresolvedEffect>, EngineError> {
        let after = after.and_then(|after| {
            let child = after.promise.number_in(after.execution.execution_id())?;
            Some(unresolved::Effect { key: after.execution.clone(), child })
        });
        let seen = unresolved::next(&self.shared.store, after.as_ref(), limit)?;
        self.shared.store.durable(seen.position).await?;
        let shown = |(effect, body)| match Unresolved::decode(&body) {
            Ok(known) => Ok(known.shown(effect)),
            Err(why) => Err(EngineError::Malformed(format!("an unresolved effect: {why}"))),
        };
        seen.value.into_iter().map(shown).collect()
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
