//! Admission of commands: the number under way is bounded, and one function has at most a quarter
//! of it, so that a flood of calls of one function does not keep others waiting. A caller that
//! finds no permit waits in order; when too many callers of one function wait, further callers of
//! that function are refused.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::run_queue::Flow;
use crate::shared::lock;

/// The permits for commands are divided into this many parts: a flow has one of them.
const PARTS: usize = 4;

/// Permits for commands that wait to be answered.
#[derive(Debug)]
pub(crate) struct Admission {
    all: Arc<Semaphore>,
    flows: Mutex<HashMap<Flow, Arc<FlowShare>>>,
    part: usize,
    waiting: AtomicUsize,
    waiting_max: usize,
}

#[derive(Debug)]
struct FlowShare {
    room: Semaphore,
    waiting: AtomicUsize,
}

/// Why a command is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionError {
    /// This many callers of the flow wait already.
    Busy(usize),
    /// The engine stops.
    Closed,
}

impl From<AcquireError> for AdmissionError {
    fn from(_: AcquireError) -> Self {
        Self::Closed
    }
}

/// A permit for one command, given back when it is dropped. It travels with the command: the caller
/// may stop waiting, but its command still has to be done.
#[derive(Debug)]
pub(crate) struct AdmissionPermit {
    admission: Arc<Admission>,
    flow: Flow,
    part: Arc<FlowShare>,
    /// Whether it has taken a permit of `part`.
    inside: bool,
    all: Option<OwnedSemaphorePermit>,
}

impl Admission {
    pub(crate) fn new(commands_max: usize, waiting_max: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(commands_max)),
            flows: Mutex::default(),
            part: (commands_max / PARTS).max(1),
            waiting: AtomicUsize::new(0),
            waiting_max: (waiting_max / PARTS).max(1),
        }
    }

    /// Waits for a permit.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        flow: Flow,
    ) -> Result<AdmissionPermit, AdmissionError> {
        let part = {
            let mut flows = lock(&self.flows);
            let part =
                || FlowShare { room: Semaphore::new(self.part), waiting: AtomicUsize::new(0) };
            Arc::clone(flows.entry(flow).or_insert_with(|| Arc::new(part())))
        };
        // Made before anything is awaited: if the caller stops waiting, its drop cleans up.
        let admission = Arc::clone(self);
        let mut admitted = AdmissionPermit { admission, flow, part, inside: false, all: None };
        let part = &admitted.part;
        // The flow's own permit first: a caller that waits for it takes no permit from other flows.
        match part.room.try_acquire() {
            Ok(own) => own.forget(),
            Err(_) => {
                let waiting = WaiterCount::enter(&part.waiting);
                if waiting.before >= self.waiting_max {
                    return Err(AdmissionError::Busy(self.waiting_max));
                }
                let _waiting = WaiterCount::enter(&self.waiting);
                part.room.acquire().await?.forget();
            }
        }
        admitted.inside = true;
        admitted.all = Some(match Arc::clone(&self.all).try_acquire_owned() {
            Ok(all) => all,
            Err(_) => {
                // No bound here: each waiter holds a permit of its flow, of which there are few.
                let _waiting = WaiterCount::enter(&self.waiting);
                Arc::clone(&self.all).acquire_owned().await?
            }
        });
        Ok(admitted)
    }

    /// How many callers wait for a permit.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Admits no more callers; those that wait are refused.
    pub(crate) fn close(&self) {
        self.all.close();
        for part in lock(&self.flows).values() {
            part.room.close();
        }
    }
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        self.all = None;
        if self.inside {
            self.part.room.add_permits(1);
        }
        let mut flows = lock(&self.admission.flows);
        // Only the map and this permit refer to the flow: no other caller is in it, or waits for
        // it.
        if flows.get(&self.flow).is_some_and(|part| Arc::strong_count(part) == 2) {
            flows.remove(&self.flow);
        }
    }
}

/// Counts a waiting caller until it is dropped, however the wait ends.
struct WaiterCount<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> WaiterCount<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for WaiterCount<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// One flow has its part and no more, a permit that is dropped goes to the next in order, and a
    /// caller that stops waiting leaves nothing behind.
    #[test]
    fn a_flow_has_its_part() {
        let admission = Arc::new(Admission::new(8, 100));
        let (one, other) = (Flow::of(1), Flow::of(3));
        let Poll::Ready(Ok(first)) = poll(pin!(admission.admit(one))) else { panic!() };
        let Poll::Ready(Ok(_second)) = poll(pin!(admission.admit(one))) else { panic!() };
        let mut third = pin!(admission.admit(one));
        assert!(poll(third.as_mut()).is_pending());
        assert!(poll(pin!(admission.admit(one))).is_pending(), "it lost patience");
        assert!(poll(pin!(admission.admit(other))).is_ready());
        assert_eq!(admission.waiting(), 1);
        drop(first);
        assert!(poll(third).is_ready());
        assert_eq!(admission.waiting(), 0);
        assert_eq!(lock(&admission.flows).len(), 1, "the other flow is forgotten");
    }

    /// A flood of calls in one flow is refused; other flows are not.
    #[test]
    fn a_flood_of_one_does_not_get_others_refused() {
        let admission = Arc::new(Admission::new(8, 12));
        let one = Flow::of(1);
        let inside: Vec<_> = (0..2).map(|_| poll(pin!(admission.admit(one)))).collect();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(admission.admit(one))).collect();
        assert!(waiting.iter_mut().all(|waiting| poll(waiting.as_mut()).is_pending()));
        let busy = poll(pin!(admission.admit(one)));
        assert!(matches!(busy, Poll::Ready(Err(AdmissionError::Busy(3)))), "{busy:?}");
        assert!(matches!(poll(pin!(admission.admit(Flow::CONTROL))), Poll::Ready(Ok(_))));
        drop((inside, waiting));
        assert!(lock(&admission.flows).is_empty());
    }

    /// All flows together share all permits, and callers that wait when it is closed are told.
    #[test]
    fn there_is_so_much_room() {
        let admission = Arc::new(Admission::new(4, 12));
        let all: Vec<_> = (0..4)
            .map(|number| match poll(pin!(admission.admit(Flow::of(2 * number)))) {
                Poll::Ready(Ok(admitted)) => admitted,
                other => panic!("{other:?}"),
            })
            .collect();
        let mut waiting: Vec<_> =
            (0..3).map(|number| Box::pin(admission.admit(Flow::of(10 + 2 * number)))).collect();
        assert!(waiting.iter_mut().all(|waiting| poll(waiting.as_mut()).is_pending()));
        assert_eq!(admission.waiting(), 3);
        admission.close();
        for mut waiting in waiting {
            let closed = poll(waiting.as_mut());
            assert!(matches!(closed, Poll::Ready(Err(AdmissionError::Closed))), "{closed:?}");
        }
        drop(all);
        assert!(lock(&admission.flows).is_empty());
    }
}
