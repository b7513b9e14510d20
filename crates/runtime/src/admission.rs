//! Who may ask the engine for something: so many commands are under way at once, of which one
//! function has a quarter at most, so that a flood of calls of one does not keep others waiting.
//! Whoever finds no room waits, in order; when too many of a function wait, further ones are told
//! so, and others are not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::run_queue::Flow;
use crate::shared::lock;

/// Into how many parts the room for commands is divided: a flow has one of them.
const PARTS: usize = 4;

/// Room for commands that wait to be answered.
#[derive(Debug)]
pub(crate) struct Admission {
    all: Arc<Semaphore>,
    flows: Mutex<HashMap<Flow, Arc<Part>>>,
    part: usize,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// The part of the room that a flow has.
#[derive(Debug)]
struct Part {
    room: Semaphore,
    waiting: AtomicUsize,
}

/// Why a command is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// So many wait already.
    Busy(usize),
    /// The engine stops.
    Closed,
}

impl From<AcquireError> for NotAdmitted {
    fn from(_: AcquireError) -> Self {
        Self::Closed
    }
}

/// Room for one command, until it is dropped. It goes with the command: whoever asked may lose
/// patience, and what was asked is still there to be done.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    flow: Flow,
    part: Arc<Part>,
    /// Whether it has room in its part.
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

    /// Waits for room.
    pub(crate) async fn admit(self: &Arc<Self>, flow: Flow) -> Result<Admitted, NotAdmitted> {
        let part = {
            let mut flows = lock(&self.flows);
            let part = || Part { room: Semaphore::new(self.part), waiting: AtomicUsize::new(0) };
            Arc::clone(flows.entry(flow).or_insert_with(|| Arc::new(part())))
        };
        // Made before anything is awaited: whoever loses patience leaves nothing behind.
        let admission = Arc::clone(self);
        let mut admitted = Admitted { admission, flow, part, inside: false, all: None };
        let part = &admitted.part;
        // Its own part first: whoever waits for that takes no room from others.
        match part.room.try_acquire() {
            Ok(own) => own.forget(),
            Err(_) => {
                let waiting = Waiting::begin(&part.waiting);
                if waiting.before >= self.waiting_max {
                    return Err(NotAdmitted::Busy(self.waiting_max));
                }
                let _waiting = Waiting::begin(&self.waiting);
                part.room.acquire().await?.forget();
            }
        }
        admitted.inside = true;
        admitted.all = Some(match Arc::clone(&self.all).try_acquire_owned() {
            Ok(all) => all,
            Err(_) => {
                // No more than all parts together.
                let _waiting = Waiting::begin(&self.waiting);
                Arc::clone(&self.all).acquire_owned().await?
            }
        });
        Ok(admitted)
    }

    /// How many wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Nobody is let in any more.
    pub(crate) fn close(&self) {
        self.all.close();
        for part in lock(&self.flows).values() {
            part.room.close();
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.all = None;
        if self.inside {
            self.part.room.add_permits(1);
        }
        let mut flows = lock(&self.admission.flows);
        // Nobody else is in it, or waits for it: the map has it, and this.
        if flows.get(&self.flow).is_some_and(|part| Arc::strong_count(part) == 2) {
            flows.remove(&self.flow);
        }
    }
}

/// Counts those who wait, however they cease to.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
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

    /// One flow has its part and no more, whoever leaves makes room in order, and nothing stays
    /// of those who lost patience.
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

    /// A flood of one gets itself refused, and nobody else.
    #[test]
    fn a_flood_of_one_does_not_get_others_refused() {
        let admission = Arc::new(Admission::new(8, 12));
        let one = Flow::of(1);
        let inside: Vec<_> = (0..2).map(|_| poll(pin!(admission.admit(one)))).collect();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(admission.admit(one))).collect();
        assert!(waiting.iter_mut().all(|waiting| poll(waiting.as_mut()).is_pending()));
        let busy = poll(pin!(admission.admit(one)));
        assert!(matches!(busy, Poll::Ready(Err(NotAdmitted::Busy(3)))), "{busy:?}");
        assert!(matches!(poll(pin!(admission.admit(Flow::CONTROL))), Poll::Ready(Ok(_))));
        drop((inside, waiting));
        assert!(lock(&admission.flows).is_empty());
    }

    /// All together have what there is, and whoever waits when it is closed is told.
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
            assert!(matches!(closed, Poll::Ready(Err(NotAdmitted::Closed))), "{closed:?}");
        }
        drop(all);
        assert!(lock(&admission.flows).is_empty());
    }
}
