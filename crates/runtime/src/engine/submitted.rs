//! A start that was accepted, in the hands of whoever waits for it.
//!
//! Whoever holds one is interested in the operation. When the last one has lost interest, a persist
//! operation goes on (V-19, C-24); a volatile one is released (V-13, V-18).

use std::sync::Arc;

use indelible_journal::{Ending, ExecutionId, Namespace, OperationKey};
use indelible_store::Position;
use tokio::sync::oneshot::Receiver;

use super::EngineError;
use super::calls::StartedExecution;
use super::outcome::{Standing, stopped};
use crate::command::Command;
use crate::shared::Shared;
use crate::watchers::Ended;

/// A function that was started, or found, by [`Engine::submit`](super::Engine::submit). What it shows
/// may be told to nobody before [`Submitted::durable`] or [`Submitted::outcome`] has returned.
///
/// Dropping it ends the caller's interest: a persist operation goes on; a volatile one in which
/// nobody else is interested is released. A repetition of its request has it run again if it is
/// `idem`, and is refused as Indeterminate if not.
///
/// It outlives the engine, but then nothing comes of it; until it is dropped the store stays open.
#[must_use = "dropping it ends the caller's interest, and may release a volatile operation"]
pub struct Submitted {
    started: StartedExecution,
    namespace: Namespace,
    position: Position,
    interest: Interest,
}

impl Submitted {
    pub(super) fn new(
        started: StartedExecution,
        namespace: Namespace,
        position: Position,
        interest: Interest,
    ) -> Self {
        Self { started, namespace, position, interest }
    }

    /// What was started.
    pub fn started(&self) -> &StartedExecution {
        &self.started
    }

    /// Resolves when the start is durable, or what was found of it.
    pub async fn durable(&self) -> Result<(), EngineError> {
        Ok(self.interest.shared.store.durable(self.position).await?)
    }

    /// Resolves with the end, when that is durable. Nothing is lost if this is dropped before, and
    /// it may be asked for as often as one likes.
    pub async fn outcome(&mut self) -> Result<Ending, EngineError> {
        if let Some(ending) = self.interest.outcome().await? {
            return Ok(ending);
        }
        // Retention has taken the tree, and left its end to the record (V-31, C-3).
        let StartedExecution { execution_id, operation_id, .. } = &self.started;
        let (namespace, operation_id) = (self.namespace.clone(), operation_id.clone());
        let operation = OperationKey { namespace, operation_id };
        let kept = self.interest.shared.kept_ending(&operation).await?;
        kept.ok_or_else(|| EngineError::Gone(execution_id.clone()))
    }

    /// Ends the caller's interest, and releases nothing: for a start that does not wait, whose caller
    /// asks later. The operation is not released any more, whoever else loses interest.
    pub fn detach(mut self) {
        self.interest.keep();
    }

    pub(super) fn into_started(self) -> StartedExecution {
        self.started
    }
}

impl std::fmt::Debug for Submitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submitted").field("started", &self.started).finish_non_exhaustive()
    }
}

/// Somebody's interest in an execution's end. A volatile root in which nobody has any is released.
pub(super) struct Interest {
    shared: Arc<Shared>,
    execution: ExecutionId,
    /// It is in memory alone, as far as is known.
    volatile: bool,
    seen: Seen,
}

/// What was seen of an end.
enum Seen {
    /// Nobody watches.
    Nothing,
    /// Somebody watches, and it may have ended before.
    Looking(Receiver<Ended>),
    /// Somebody watches, and it had not ended before.
    Watching(Receiver<Ended>),
    /// The end, which may not be durable.
    Ended(Ending, Position),
}

impl Interest {
    /// Somebody is interested, and does nothing about it yet.
    pub(super) fn idle(shared: Arc<Shared>, execution: &ExecutionId) -> Self {
        Self { shared, execution: execution.clone(), volatile: false, seen: Seen::Nothing }
    }

    /// Watches, from now on.
    pub(super) fn watch(&mut self, volatile: bool) {
        self.volatile = volatile;
        self.seen = Seen::Looking(self.shared.watchers.watch(&self.execution));
    }

    /// It began after somebody had begun to watch: nothing was missed.
    pub(super) fn watched_from_the_start(&mut self) {
        self.seen = match std::mem::replace(&mut self.seen, Seen::Nothing) {
            Seen::Looking(ended) => Seen::Watching(ended),
            seen => seen,
        };
    }

    /// The end, when it is durable; none: there is nothing that could end. It may be dropped and
    /// asked for again: what was seen is kept.
    pub(super) async fn outcome(&mut self) -> Result<Option<Ending>, EngineError> {
        loop {
            match &mut self.seen {
                Seen::Nothing => self.watch(self.volatile),
                Seen::Looking(_) => match self.shared.standing(&self.execution).await? {
                    Standing::Absent => return Ok(None),
                    Standing::Ended(ending) => {
                        // It was durable before it was shown.
                        self.seen = Seen::Ended(ending, Position::default());
                    }
                    Standing::GoesOn { volatile } => {
                        self.volatile = volatile;
                        self.watched_from_the_start();
                    }
                },
                Seen::Watching(ended) => match ended.await {
                    Ok((ending, position)) => self.seen = Seen::Ended(ending, position),
                    Err(_) => {
                        self.seen = Seen::Nothing;
                        return Err(stopped(&self.shared));
                    }
                },
                Seen::Ended(ending, position) => {
                    self.shared.store.durable(*position).await?;
                    return Ok(Some(ending.clone()));
                }
            }
        }
    }

    /// It ends, and nothing is released because of it.
    pub(super) fn ends(mut self) {
        self.volatile = false;
    }

    /// It ends, and nothing is released, because of it or of others.
    fn keep(&mut self) {
        if !std::mem::take(&mut self.volatile) || matches!(self.seen, Seen::Ended(..)) {
            return;
        }
        let watcher = match std::mem::replace(&mut self.seen, Seen::Nothing) {
            Seen::Looking(watcher) | Seen::Watching(watcher) => watcher,
            Seen::Nothing | Seen::Ended(..) => self.shared.watchers.watch(&self.execution),
        };
        // The watcher goes with the word: until that is heard, somebody is interested.
        let keep = Command::Keep(self.execution.clone(), watcher);
        self.shared.send(self.execution.root(), keep);
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let seen = std::mem::replace(&mut self.seen, Seen::Nothing);
        if matches!(seen, Seen::Nothing | Seen::Ended(..)) {
            return;
        }
        // A watcher that is dropped has left.
        drop(seen);
        self.shared.watchers.forget(&self.execution);
        if self.volatile && !self.shared.watchers.is_watched(&self.execution) {
            let release = Command::Release(self.execution.clone());
            self.shared.send(self.execution.root(), release);
        }
    }
}
