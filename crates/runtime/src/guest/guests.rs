//! The process's guests as a whole: wasmtime's engine, the places, the clock's ticks, the counts.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wasmtime::Engine;
use wasmtime::component::Linker;

use super::artifacts::Artifacts;
use super::compilers::Compilers;
use super::imports::linker;
use super::options::GuestOptions;
use super::program::Programs;
use super::run::StartError;
use super::setup::engine;
use super::state::{Rules, State};

/// All guests of a process: what runs them, and what they share. See [the module](super).
pub struct Guests {
    pub(super) options: GuestOptions,
    pub(super) rules: Arc<Rules>,
    pub(super) engine: Engine,
    pub(super) linker: Linker<State>,
    pub(super) artifacts: Artifacts,
    pub(super) programs: Programs,
    pub(super) compilers: Compilers,
    pub(super) counts: Arc<Counts>,
    ticks: AtomicU64,
    /// Held while a component describes itself: there is one place for that.
    pub(super) describing: Mutex<()>,
}

/// Why guests cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// An option makes no sense.
    #[error("{0}")]
    Option(&'static str),
    /// wasmtime refused; most often there is not enough address space.
    #[error("cannot reserve memory for {guests_max} guests")]
    Engine {
        /// How many guests were asked for.
        guests_max: u32,
        /// wasmtime's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What happens now, and what has happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readings {
    /// Guests that exist, parked ones included.
    pub guests_live: u32,
    /// How many may exist.
    pub guests_max: u32,
    /// Guests that were started.
    pub guests_started: u64,
    /// Programs that are loaded.
    pub programs_loaded: usize,
    /// Components that were compiled.
    pub compiled: u64,
    /// Components that were loaded from a kept artifact instead.
    pub mapped: u64,
    /// Artifacts that were found damaged and were replaced.
    pub artifacts_damaged: u64,
    /// Artifacts that could not be written: those components are compiled again by the next
    /// process.
    pub artifacts_unwritten: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    live: AtomicU32,
    started: AtomicU64,
    pub(super) compiled: AtomicU64,
    pub(super) mapped: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) unwritten: AtomicU64,
}

/// A guest's place among those that may exist.
pub(super) struct GuestPermit(Arc<Counts>);

impl Drop for GuestPermit {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::Release);
    }
}

impl Guests {
    /// Sets up places for guests. A process needs only one `Guests`; it reserves much memory.
    pub fn new(options: GuestOptions, artifacts: Artifacts) -> Result<Arc<Self>, SetupError> {
        if options.guests_max == 0 {
            return Err(SetupError::Option("`guests_max` must be at least 1"));
        }
        if options.payload_bytes_max >= options.handed_over_bytes_max {
            return Err(SetupError::Option(
                "`handed_over_bytes_max` must be larger than the largest payload",
            ));
        }
        let guests_max = options.guests_max;
        let failed = |error: wasmtime::Error| SetupError::Engine {
            guests_max,
            source: error.into_boxed_dyn_error(),
        };
        let engine = engine(&options).map_err(failed)?;
        let linker = linker(&engine).map_err(failed)?;
        Ok(Arc::new(Self {
            rules: Arc::new(Rules::from(&options)),
            programs: Programs::new(options.programs_max),
            compilers: Compilers::default(),
            counts: Arc::default(),
            ticks: AtomicU64::new(0),
            describing: Mutex::default(),
            options,
            engine,
            linker,
            artifacts,
        }))
    }

    /// What these guests were set up with.
    pub fn options(&self) -> &GuestOptions {
        &self.options
    }

    /// A tick of the clock. The thread that makes guests' time pass calls this as often as the
    /// options say; without it, guests neither yield nor run out of time.
    pub fn tick(&self) {
        self.engine.increment_epoch();
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// How many ticks there were.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// What happens now, and what has happened so far.
    pub fn readings(&self) -> Readings {
        let counts = &self.counts;
        Readings {
            guests_live: counts.live.load(Ordering::Relaxed),
            guests_max: self.options.guests_max,
            guests_started: counts.started.load(Ordering::Relaxed),
            programs_loaded: self.programs.loaded(),
            compiled: counts.compiled.load(Ordering::Relaxed),
            mapped: counts.mapped.load(Ordering::Relaxed),
            artifacts_damaged: counts.damaged.load(Ordering::Relaxed),
            artifacts_unwritten: counts.unwritten.load(Ordering::Relaxed),
        }
    }

    /// Takes a place. Counted here, because wasmtime's pool reports that it is full only after it
    /// has taken half of what a guest needs.
    pub(super) fn place(&self) -> Result<GuestPermit, StartError> {
        let max = self.options.guests_max;
        self.counts
            .live
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |live| {
                (live < max).then_some(live + 1)
            })
            .map_err(|_| self.full())?;
        self.counts.started.fetch_add(1, Ordering::Relaxed);
        Ok(GuestPermit(self.counts.clone()))
    }

    pub(super) fn full(&self) -> StartError {
        StartError::Full { guests_max: self.options.guests_max }
    }
}

impl std::fmt::Debug for Guests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guests").field("readings", &self.readings()).finish_non_exhaustive()
    }
}
