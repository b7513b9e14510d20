//! Who may ask the engine for something: so many commands are under way at once, of which one
//! function has a quarter at most, so that a flood of calls of one does not keep others waiting.
//! Whoever finds no room waits, in order; when too many wait, further ones are told so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::run_queue::Flow;
use crate::shared::lock;

/// Into how many parts the room for commands is divided: a flow has one of them.
const PARTS: usize = 4;

/// Room for commands that wait to be answered.
#[derive(Debug)]
pub(crate) struct Admission {
    all: Semaphore,
    flows: Mutex<HashMap<Flow, Arc<Semaphore>>>,
    flow_max: usize,
    waiting: AtomicUsize,
    waiting_max: usize,
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

/// Room for one command, until it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    admission: &'a Admission,
    flow: Flow,
    own: Option<OwnedSemaphorePermit>,
    _all: SemaphorePermit<'a>,
}

impl Admission {
    pub(crate) fn new(commands_max: usize, waiting_max: usize) -> Self {
        Self {
            all: Semaphore::new(commands_max),
            flows: Mutex::default(),
            flow_max: (commands_max / PARTS).max(1),
            waiting: AtomicUsize::new(0),
            waiting_max,
        }
    }

    /// Waits for room.
    pub(crate) async fn admit(&self, flow: Flow) -> Result<Admitted<'_>, NotAdmitted> {
        let waiting = Waiting::begin(&self.waiting);
        if waiting.before >= self.waiting_max {
            return Err(NotAdmitted::Busy(self.waiting_max));
        }
        let parts = {
            let mut flows = lock(&self.flows);
            let parts =
                flows.entry(flow).or_insert_with(|| Arc::new(Semaphore::new(self.flow_max)));
            Arc::clone(parts)
        };
        // Its own part first: whoever waits for that takes no room from others.
        let own = match parts.acquire_owned().await {
            Ok(own) => own,
            Err(closed) => return Err(closed.into()),
        };
        let mut admitted =
            Admitted { admission: self, flow, own: Some(own), _all: self.all.acquire().await? };
        if self.all.is_closed() {
            admitted.own = None;
            return Err(NotAdmitted::Closed);
        }
        Ok(admitted)
    }

    /// How many wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Nobody is let in any more.
    pub(crate) fn close(&self) {
        self.all.close();
        for parts in lock(&self.flows).values() {
            parts.close();
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.own = None;
        let mut flows = lock(&self.admission.flows);
        // Nobody else is in it, or waits for it.
        if flows.get(&self.flow).is_some_and(|parts| Arc::strong_count(parts) == 1) {
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
