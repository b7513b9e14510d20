//! An accepted start, held by a caller that waits for it.
//!
//! Its holder is interested in the operation. When the last holder has dropped its own, a persist
//! operation goes on (V-19, C-24); a volatile one is released (V-13, V-18).

use std::sync::Arc;

use indelible_journal::{Ending, ExecutionId, Namespace, OperationKey};
use indelible_store::Position;
use tokio::sync::oneshot::Receiver;

use super::EngineError;
use super::calls::StartedExecution;
use super::outcome::{OutcomeState, stopped};
use crate::command::Command;
use crate::shared::Shared;
use crate::watchers::DurableEnd;

/// A function that was started, or found, by [`Engine::submit`](super::Engine::submit). It must not
/// be shown to a client before [`Submission::durable`] or [`Submission::outcome`] has returned.
///
/// Dropping it ends the caller's interest: a persist operation goes on; a volatile one without
/// other interested callers is released. A repetition of its request has it run again if it is
/// `idem`, and is refused as Indeterminate if not.
///
/// It outlives the engine, but then nothing comes of it; until it is dropped the store stays open.
#[must_use = "dropping it ends the caller's interest, and may release a volatile operation"]
pub struct Submission {
    started: StartedExecution,
    namespace: Namespace,
    position: Position,
    interest: Interest,
}

impl Submission {
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

    /// Resolves when the start, or the record that it found, is durable.
    pub async fn durable(&self) -> Result<(), EngineError> {
        Ok(self.interest.shared.store.durable(self.position).await?)
    }

    /// Resolves with the end, when that is durable. Dropping the future loses nothing: this can be
    /// called again.
    pub async fn outcome(&mut self) -> Result<Ending, EngineError> {
        if let Some(ending) = self.interest.outcome().await? {
            return Ok(ending);
        }
        // Retention has taken the tree, and its outcome is kept in the operation's record (V-31,
        // C-3).
        let StartedExecution { execution_id, operation_id, .. } = &self.started;
        let (namespace, operation_id) = (self.namespace.clone(), operation_id.clone());
        let operation = OperationKey { namespace, operation_id };
        let kept = self.interest.shared.kept_ending(&operation).await?;
        kept.ok_or_else(|| EngineError::Gone(execution_id.clone()))
    }

    /// Ends the caller's interest without a release: for a caller that does not wait, and asks
    /// later. The operation is not released after this, even if all other callers lose interest.
    pub fn detach(mut self) {
        self.interest.keep();
    }

    pub(super) fn into_started(self) -> StartedExecution {
        self.started
    }
}

impl std::fmt::Debug for Submission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submission").field("started", &self.started).finish_non_exhaustive()
    }
}

/// A caller's interest in an execution's end. A volatile root is released with the last interest in
/// it.
pub(super) struct Interest {
    shared: Arc<Shared>,
    execution: ExecutionId,
    /// The execution is in memory alone, as far as is known.
    volatile: bool,
    seen: ObservedEnd,
}

/// What this caller has seen of the end.
enum ObservedEnd {
    /// It does not watch.
    Nothing,
    /// It watches, and the execution may have ended before.
    Looking(Receiver<DurableEnd>),
    /// It watches, and the execution had not ended before.
    Watching(Receiver<DurableEnd>),
    /// The end, which may not be durable.
    Ended(Ending, Position),
}

impl Interest {
    /// An interest that does not watch yet.
    pub(super) fn idle(shared: Arc<Shared>, execution: &ExecutionId) -> Self {
        Self { shared, execution: execution.clone(), volatile: false, seen: ObservedEnd::Nothing }
    }

    /// Watches, from now on.
    pub(super) fn watch(&mut self, volatile: bool) {
        self.volatile = volatile;
        self.seen = ObservedEnd::Looking(self.shared.watchers.watch(&self.execution));
    }

    /// The execution began after this interest had begun to watch: no end was missed.
    pub(super) fn watched_from_the_start(&mut self) {
        self.seen = match std::mem::replace(&mut self.seen, ObservedEnd::Nothing) {
            ObservedEnd::Looking(ended) => ObservedEnd::Watching(ended),
            seen => seen,
        };
    }

    /// The end, when it is durable; none: there is no such execution. The future may be dropped and
    /// made again: what was seen is kept.
    pub(super) async fn outcome(&mut self) -> Result<Option<Ending>, EngineError> {
        loop {
            match &mut self.seen {
                ObservedEnd::Nothing => self.watch(self.volatile),
                ObservedEnd::Looking(_) => match self.shared.standing(&self.execution).await? {
                    OutcomeState::Absent => return Ok(None),
                    OutcomeState::Ended(ending) => {
                        // `standing` returns only what is durable.
                        self.seen = ObservedEnd::Ended(ending, Position::default());
                    }
                    OutcomeState::GoesOn { volatile } => {
                        self.volatile = volatile;
                        self.watched_from_the_start();
                    }
                },
                ObservedEnd::Watching(ended) => match ended.await {
                    Ok((ending, position)) => self.seen = ObservedEnd::Ended(ending, position),
                    Err(_) => {
                        self.seen = ObservedEnd::Nothing;
                        return Err(stopped(&self.shared));
                    }
                },
                ObservedEnd::Ended(ending, position) => {
                    self.shared.store.durable(*position).await?;
                    return Ok(Some(ending.clone()));
                }
            }
        }
    }

    /// Ends this interest without a release.
    pub(super) fn ends(mut self) {
        self.volatile = false;
    }

    /// Ends this interest, and keeps the operation from being released by the last other one.
    fn keep(&mut self) {
        if !std::mem::take(&mut self.volatile) || matches!(self.seen, ObservedEnd::Ended(..)) {
            return;
        }
        let watcher = match std::mem::replace(&mut self.seen, ObservedEnd::Nothing) {
            ObservedEnd::Looking(watcher) | ObservedEnd::Watching(watcher) => watcher,
            ObservedEnd::Nothing | ObservedEnd::Ended(..) => {
                self.shared.watchers.watch(&self.execution)
            }
        };
        // The watcher travels with the command: until the tree has it, the execution counts as
        // watched, and cannot be released.
        let keep = Command::Keep(self.execution.clone(), watcher);
        self.shared.send(self.execution.root(), keep);
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let seen = std::mem::replace(&mut self.seen, ObservedEnd::Nothing);
        if matches!(seen, ObservedEnd::Nothing | ObservedEnd::Ended(..)) {
            return;
        }
        // Dropped before `forget`, which removes watchers whose receiver is gone.
        drop(seen);
        self.shared.watchers.forget(&self.execution);
        if self.volatile && !self.shared.watchers.is_watched(&self.execution) {
            let release = Command::Release(self.execution.clone());
            self.shared.send(self.execution.root(), release);
        }
    }
}
