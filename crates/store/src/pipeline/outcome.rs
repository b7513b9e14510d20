//! `Outcome`: how one commit group ended, for everybody who waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Shared;
use crate::error::Lost;

/// Shared by all who wait for a group; set once.
#[derive(Debug, Default)]
pub(crate) struct Outcome(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    ended: Option<Result<(), Lost>>,
    wakers: Vec<Waker>,
}

impl Outcome {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // Nothing below panics half-way: what a panicking thread left is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how the group ended, and wakes everybody.
    pub(crate) fn end(&self, result: Result<(), Lost>) {
        let wakers = {
            let mut waiting = self.lock();
            waiting.ended = Some(result);
            std::mem::take(&mut waiting.wakers)
        };
        // Outside the lock: those who wake look at once.
        for waker in wakers {
            waker.wake();
        }
    }
}

/// Resolves when a position is durable, or lost. It does nothing by itself: the pipeline syncs
/// whether anybody waits or not.
#[derive(Debug)]
#[must_use = "a position is not durable until this says so"]
pub struct Durable {
    wait: Wait,
    /// The store, if nobody but those who wait makes it work.
    driven: Option<Arc<Shared>>,
}

#[derive(Debug)]
enum Wait {
    Ended(Result<(), Lost>),
    For { group: Arc<Outcome>, registered: Option<Waker> },
}

impl Durable {
    pub(crate) fn ended(result: Result<(), Lost>) -> Self {
        Self { wait: Wait::Ended(result), driven: None }
    }

    pub(super) fn of(group: Arc<Outcome>, driven: Option<Arc<Shared>>) -> Self {
        Self { wait: Wait::For { group, registered: None }, driven }
    }

    /// Waits on this thread. Not for async code.
    pub fn wait(mut self) -> Result<(), Lost> {
        let driven = self.driven.take();
        let drive = || {
            driven
                .as_ref()
                .is_some_and(|shared| shared.hand.as_ref().is_some_and(|hand| shared.step(hand)))
        };
        super::blocking::block_on_driving(self, drive)
    }
}

impl Future for Durable {
    type Output = Result<(), Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (group, registered) = match &mut self.wait {
            Wait::Ended(result) => return Poll::Ready(result.clone()),
            Wait::For { group, registered } => (group, registered),
        };
        let mut waiting = group.lock();
        if let Some(result) = &waiting.ended {
            return Poll::Ready(result.clone());
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
