//! A guest from its start to its end: instantiated, called, suspended and resumed.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use indelible_journal::{Failure, Limits, Payload};
use wasmtime::{PoolConcurrencyLimitError, Store};

use super::failure::{returned, trapped};
use super::guests::{GuestPermit, Guests};
use super::host::Host;
use super::program::Program;
use super::setup::MEMORY_RESERVATION_BYTES;
use super::state::{Budget, Pause, Paused, State};

/// Why [`Guest::resume`] came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It waits for something that has not happened: [`Host::wait`] returned `Pending`, and is
    /// asked again when the guest is resumed.
    Waiting,
    /// Its time slice is over. Resume it when others have had their turn.
    Yielded,
    /// It returned: its outcome, or a failure that it chose.
    Returned(Result<Payload, Failure>),
    /// It trapped or used up its time: a failed attempt.
    Trapped(Failure),
    /// Its host stopped it: there is no outcome. Also returned for a guest that ended before.
    Stopped,
}

impl Stop {
    /// The name of the variant, for the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waits",
            Self::Yielded => "yielded",
            Self::Returned(Ok(_)) => "returned",
            Self::Returned(Err(_)) => "returned an error",
            Self::Trapped(_) => "trapped",
            Self::Stopped => "was stopped",
        }
    }
}

/// Why a guest was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// As many guests as allowed are in memory. Another fits when one of them ends or is dropped.
    #[error("{guests_max} guests are already in memory, which is the limit")]
    Full {
        /// How many are allowed.
        guests_max: u32,
    },
    /// The execution is pinned to a stack that this process cannot give.
    #[error(
        "the execution is pinned to a stack of {pinned} bytes; this server runs guests with {own}"
    )]
    Stack {
        /// What it is pinned to.
        pinned: u64,
        /// What this process gives.
        own: u64,
    },
    /// The execution is pinned to more than this process can give.
    #[error("the execution is pinned to a limit of {pinned} {what}; this server can give {own}")]
    Limit {
        /// The resource.
        what: &'static str,
        /// What it is pinned to.
        pinned: u64,
        /// What this process can give.
        own: u64,
    },
}

/// How the future of a guest ended.
pub(super) enum GuestEnd<T> {
    /// It ran.
    Ended(T),
    /// There was no place for it.
    Full,
}

/// The future of a guest, and why it is suspended.
pub(super) struct Fiber<T> {
    /// None when it has ended, or when its host panicked: a future must not be polled after that.
    future: Option<Pin<Box<dyn Future<Output = GuestEnd<T>> + Send>>>,
    pause: Arc<Pause>,
}

/// What a poll of a [`Fiber`] found.
pub(super) enum Progress<T> {
    Suspended(Paused),
    Done(GuestEnd<T>),
    /// It had ended before.
    Gone,
}

impl<T> Fiber<T> {
    pub(super) fn poll(&mut self) -> Progress<T> {
        let Some(mut future) = self.future.take() else { return Progress::Gone };
        // No waker: the tree that resumes the guest knows when its wait is over.
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Progress::Done(done),
            Poll::Pending => {
                self.future = Some(future);
                Progress::Suspended(self.pause.get())
            }
        }
    }
}

/// A function of a program, running.
///
/// It runs on the thread that resumes it, and may be resumed by another thread each time. It can
/// be dropped at any time, which frees its place; its host is dropped with it.
pub struct Guest {
    fiber: Fiber<Stop>,
    /// How it ended before it was resumed for the first time: code that runs when a component is
    /// instantiated can trap, too.
    ended: Option<Stop>,
}

impl Guest {
    /// Runs it until it waits, has used its time slice, or ends.
    pub fn resume(&mut self) -> Stop {
        if let Some(stop) = self.ended.take() {
            return stop;
        }
        loop {
            match self.fiber.poll() {
                Progress::Suspended(Paused::Ready) => {}
                Progress::Suspended(Paused::Waiting) => return Stop::Waiting,
                Progress::Suspended(Paused::Yielded) => return Stop::Yielded,
                Progress::Done(GuestEnd::Ended(stop)) => return stop,
                // It took its place when it started, so it cannot lack one now.
                Progress::Done(GuestEnd::Full) | Progress::Gone => return Stop::Stopped,
            }
        }
    }
}

/// About how many bytes a guest takes beside the growth of its memory: its stack, its instance, and
/// the pages that it has touched. Measured for guests in Rust, and rounded up.
const GUEST_BYTES_GUESS: usize = 48 << 10;

impl Guest {
    /// About how many bytes it takes while it is suspended.
    pub fn memory_bytes(&self) -> usize {
        GUEST_BYTES_GUESS + self.fiber.pause.grown_bytes()
    }
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ended = self.fiber.future.is_none();
        f.debug_struct("Guest").field("ended", &ended).finish_non_exhaustive()
    }
}

impl Guests {
    /// Starts a function of a program: takes a place and instantiates. The function itself runs
    /// from the first [`Guest::resume`].
    pub fn start(
        &self,
        program: &Arc<Program>,
        limits: &Limits,
        function: &str,
        input: Payload,
        host: Box<dyn Host>,
    ) -> Result<Guest, StartError> {
        self.check_limits(limits)?;
        let place = self.place()?;
        let store = self.store(limits, self.rules.cpu_budget, host);
        let pause = store.data().pause.clone();
        let program = program.clone();
        let function = function.to_owned();
        let future = Box::pin(run(place, store, program, function, input));
        let mut guest = Guest { fiber: Fiber { future: Some(future), pause }, ended: None };
        match guest.fiber.poll() {
            Progress::Suspended(_) => {}
            Progress::Done(GuestEnd::Ended(stop)) => guest.ended = Some(stop),
            Progress::Done(GuestEnd::Full) | Progress::Gone => return Err(self.full()),
        }
        Ok(guest)
    }

    /// A fiber of this store's, for other calls than `run`.
    pub(super) fn fiber<T>(
        pause: Arc<Pause>,
        future: impl Future<Output = GuestEnd<T>> + Send + 'static,
    ) -> Fiber<T> {
        Fiber { future: Some(Box::pin(future)), pause }
    }

    pub(super) fn store(
        &self,
        limits: &Limits,
        budget: Budget,
        host: Box<dyn Host>,
    ) -> Store<State> {
        let state = State::new(host, self.rules.clone(), budget, limits);
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| state);
        store.epoch_deadline_callback(|mut store| store.data_mut().slice_over());
        store.set_epoch_deadline(self.rules.slice_ticks);
        store.set_hostcall_fuel(self.rules.handed_over_bytes_max);
        store
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), StartError> {
        let own = &self.options.limits;
        if limits.stack_bytes_max != own.stack_bytes_max {
            let (pinned, own) = (limits.stack_bytes_max, own.stack_bytes_max);
            return Err(StartError::Stack { pinned, own });
        }
        let check = |what, pinned, own| {
            if pinned > own { Err(StartError::Limit { what, pinned, own }) } else { Ok(()) }
        };
        check("bytes of memory", limits.memory_bytes_max, MEMORY_RESERVATION_BYTES)?;
        check("table elements", limits.table_elements_max, own.table_elements_max)
    }
}

/// The life of a guest. `_place` is the first argument because arguments are dropped from the last
/// to the first: the place must be free only after the store has given its part back to the pool.
async fn run(
    _place: GuestPermit,
    mut store: Store<State>,
    program: Arc<Program>,
    function: String,
    input: Payload,
) -> GuestEnd<Stop> {
    let called = async {
        let instance = program.pre.instantiate_async(&mut store).await?;
        let run = program.run(&mut store, &instance)?;
        store.data().pause.mark_instantiated();
        ready(&store.data().pause).await;
        let slice_ticks = store.data().rules.slice_ticks;
        store.set_epoch_deadline(slice_ticks);
        run.call_async(&mut store, (function, input.into())).await
    }
    .await;
    match called {
        Ok((result,)) => GuestEnd::Ended(returned(result, &store.data().rules)),
        Err(error) if error.is::<PoolConcurrencyLimitError>() => GuestEnd::Full,
        Err(error) => GuestEnd::Ended(trapped(&error, store.data().panic.as_ref())),
    }
}

/// Suspends once, so that starting and running are two steps.
async fn ready(pause: &Pause) {
    let mut suspended = false;
    poll_fn(|_| {
        if suspended {
            return Poll::Ready(());
        }
        suspended = true;
        pause.set(Paused::Ready);
        Poll::Pending
    })
    .await;
}
