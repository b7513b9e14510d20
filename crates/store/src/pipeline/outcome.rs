//! `Outcome`: how one commit group ended, for every caller that waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Shared;
use crate::error::{Lost, Pause};

/// Shared by all waits for a group; set once.
#[derive(Debug, Default)]
pub(crate) struct Outcome(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    ended: Option<Result<(), Lost>>,
    /// The pause in which the group waits, once that has lasted so long that callers are told.
    overdue: Option<Pause>,
    wakers: Vec<Waker>,
}

impl Outcome {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // No code can panic half-way through a change under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how the group ended, and wakes every waiting task.
    pub(crate) fn end(&self, result: Result<(), Lost>) {
        self.change(|waiting| {
            waiting.ended = Some(result);
            std::mem::take(&mut waiting.wakers)
        });
    }

    /// Tells callers of a pause; `None`: it is over. A wait with endless patience is woken, finds
    /// nothing, and stays in the list.
    pub(crate) fn set_overdue(&self, pause: Option<Pause>) {
        self.change(|waiting| {
            waiting.overdue = pause;
            if waiting.overdue.is_some() { waiting.wakers.clone() } else { Vec::new() }
        });
    }

    /// Makes a change, and wakes the tasks that it returns.
    fn change(&self, change: impl FnOnce(&mut Waiting) -> Vec<Waker>) {
        let wakers = change(&mut self.lock());
        // Outside the lock, which the woken tasks take at once.
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Resolves when a position is durable or lost, or when a pause has lasted so long that the caller
/// should be told ([`Bounds::pause_told_after`](crate::Bounds::pause_told_after)). It does nothing by
/// itself: the pipeline syncs whether a caller waits or not.
#[derive(Debug)]
#[must_use = "a position is not durable until this says so"]
pub struct Durable {
    wait: Wait,
    /// The store, if it is driven by hand: a blocking wait then steps it.
    driven: Option<Arc<Shared>>,
    patience: Patience,
}

/// What a wait does about a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It ends with the store's bound.
    Bounded,
    /// It goes on until the position is durable or lost.
    Endless,
}

#[derive(Debug)]
enum Wait {
    Ended(Result<(), Lost>),
    For { group: Arc<Outcome>, registered: Option<Waker> },
}

impl Durable {
    pub(crate) fn ended(result: Result<(), Lost>) -> Self {
        Self { wait: Wait::Ended(result), driven: None, patience: Patience::Bounded }
    }

    pub(super) fn of(group: Arc<Outcome>, driven: Option<Arc<Shared>>) -> Self {
        let wait = Wait::For { group, registered: None };
        Self { wait, driven, patience: Patience::Bounded }
    }

    /// Waits however long the store is paused: for work that has to go on afterwards, and that
    /// no caller waits for.
    pub fn through_pauses(mut self) -> Self {
        self.patience = Patience::Endless;
        self
    }

    /// Waits on this thread. Not for async code.
    pub fn wait(mut self) -> Result<(), Lost> {
        let driven = self.driven.take();
        let drive = || driven.as_ref().is_some_and(|shared| shared.step_by_hand());
        super::blocking::block_on_driving(self, drive)
    }
}

impl Future for Durable {
    type Output = Result<(), Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let patience = self.patience;
        let (group, registered) = match &mut self.wait {
            Wait::Ended(result) => return Poll::Ready(result.clone()),
            Wait::For { group, registered } => (group, registered),
        };
        let mut waiting = group.lock();
        if let Some(result) = &waiting.ended {
            return Poll::Ready(result.clone());
        }
        if let (Some(pause), Patience::Bounded) = (&waiting.overdue, patience) {
            return Poll::Ready(Err(Lost::Paused(pause.clone())));
        }
        // A task that polls again with the same waker is in the list already. One that moved
        // to another waker leaves the old one behind, to be woken once for nothing.
        if !registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            waiting.wakers.push(context.waker().clone());
            drop(waiting);
            *registered = Some(context.waker().clone());
        }
        Poll::Pending
    }
}
