//! What a guest's store carries: its host, its use of resources, and why it is suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use indelible_journal::{Limits, Micros};
use wasmtime::{ResourceLimiter, UpdateDeadline};

use super::host::{Host, Refusal};
use super::options::GuestOptions;

/// Why the host ends a guest.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Halt {
    /// The guest did what it must not.
    #[error("{0}")]
    Trap(String),
    /// It took too long.
    #[error("{0}")]
    Timeout(String),
    /// The engine stops it without an outcome.
    #[error("stopped by the engine")]
    Stop,
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Trap(message) => Self::Trap(message),
            Refusal::Stop => Self::Stop,
        }
    }
}

/// Why a guest is suspended. Shared with its `Fiber`, which cannot reach the store: the future owns
/// that.
#[derive(Debug, Default)]
pub(super) struct Pause {
    why: AtomicU8,
    /// The bytes of its memories now; below, the bytes when it was instantiated.
    memory_bytes: AtomicUsize,
    memory_bytes_first: AtomicUsize,
}

/// Why a guest is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Paused {
    /// It has been instantiated and was not yet called.
    Ready,
    /// Its wait is not over.
    Waiting,
    /// Its time slice is over.
    Yielded,
}

impl Pause {
    pub(super) fn set(&self, why: Paused) {
        // Relaxed: one thread at a time has the guest, and handing it over orders this too.
        self.why.store(why as u8, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Paused {
        match self.why.load(Ordering::Relaxed) {
            0 => Paused::Ready,
            1 => Paused::Waiting,
            _ => Paused::Yielded,
        }
    }

    /// Called after instantiation: notes the memory that the guest began with.
    pub(super) fn mark_instantiated(&self) {
        let bytes = self.memory_bytes.load(Ordering::Relaxed);
        self.memory_bytes_first.store(bytes, Ordering::Relaxed);
    }

    /// By how much its memories have grown.
    pub(super) fn grown_bytes(&self) -> usize {
        let bytes = self.memory_bytes.load(Ordering::Relaxed);
        bytes.saturating_sub(self.memory_bytes_first.load(Ordering::Relaxed))
    }
}

/// The options for running guests, in the units in which they are used.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) slice_ticks: u64,
    pub(super) cpu_budget: Budget,
    pub(super) describe_budget: Budget,
    pub(super) payload_bytes_max: usize,
    pub(super) handed_over_bytes_max: usize,
    log_lines_max: u32,
    log_bytes_max: usize,
}

/// How long a guest may run between two journaled host calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    ticks: u64,
    time: Micros,
}

impl From<&GuestOptions> for Rules {
    fn from(options: &GuestOptions) -> Self {
        let budget = |time| Budget { ticks: options.ticks(time), time };
        Self {
            slice_ticks: options.ticks(options.slice),
            cpu_budget: budget(options.cpu_budget),
            describe_budget: budget(options.describe_budget),
            payload_bytes_max: options.payload_bytes_max,
            handed_over_bytes_max: options.handed_over_bytes_max,
            log_lines_max: options.log_lines_max,
            log_bytes_max: options.log_bytes_max,
        }
    }
}

/// A guest's panic message, from before it trapped.
#[derive(Debug, Clone)]
pub(super) struct Panic {
    pub(super) message: String,
    pub(super) location: String,
}

pub(super) struct State {
    pub(super) host: Box<dyn Host>,
    pub(super) pause: Arc<Pause>,
    pub(super) rules: Arc<Rules>,
    pub(super) panic: Option<Panic>,
    budget: Budget,
    /// Ticks since the last journaled host call, in whole slices.
    stretch_ticks: u64,
    log_lines: u32,
    log_bytes: usize,
    memory: Allowance,
    tables: Allowance,
}

impl State {
    pub(super) fn new(
        host: Box<dyn Host>,
        rules: Arc<Rules>,
        budget: Budget,
        limits: &Limits,
    ) -> Self {
        Self {
            host,
            pause: Arc::default(),
            rules,
            panic: None,
            budget,
            stretch_ticks: 0,
            log_lines: 0,
            log_bytes: 0,
            memory: Allowance::new(limits.memory_bytes_max),
            tables: Allowance::new(limits.table_elements_max),
        }
    }

    /// A journaled host call: the time that counts against the budget begins anew. Calls that are
    /// not journaled do not reset it, or a loop of them would never end.
    pub(super) fn journaled(&mut self) -> &mut dyn Host {
        self.stretch_ticks = 0;
        &mut *self.host
    }

    /// An await: the count of logged lines begins anew, too.
    pub(super) fn awaits(&mut self) {
        self.stretch_ticks = 0;
        self.log_lines = 0;
        self.log_bytes = 0;
    }

    /// The guest has used up its slice.
    pub(super) fn slice_over(&mut self) -> wasmtime::Result<UpdateDeadline> {
        // Replay is not counted: it repeats what was within the budget once (D8).
        if self.host.is_live() {
            self.stretch_ticks += self.rules.slice_ticks;
            if self.stretch_ticks > self.budget.ticks {
                return Err(Halt::Timeout(format!(
                    "ran for more than {} without a call to the host",
                    self.budget.time
                ))
                .into());
            }
        }
        self.pause.set(Paused::Yielded);
        Ok(UpdateDeadline::Yield(self.rules.slice_ticks))
    }

    fn tell_memory(&self) {
        let bytes = usize::try_from(self.memory.used).unwrap_or(usize::MAX);
        self.pause.memory_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Counts a logged line. Replayed lines were counted when they were new.
    pub(super) fn count_log(&mut self, bytes: usize) -> Result<(), Halt> {
        if !self.host.is_live() {
            return Ok(());
        }
        self.log_lines += 1;
        self.log_bytes = self.log_bytes.saturating_add(bytes);
        let (lines_max, bytes_max) = (self.rules.log_lines_max, self.rules.log_bytes_max);
        if self.log_lines > lines_max {
            return Err(Halt::Trap(format!(
                "logged more than {lines_max} lines between two awaits"
            )));
        }
        if self.log_bytes > bytes_max {
            return Err(Halt::Trap(format!(
                "logged more than {bytes_max} bytes between two awaits"
            )));
        }
        Ok(())
    }
}

/// How much a guest may have of something that grows, over all its memories or tables.
#[derive(Debug)]
struct Allowance {
    max: u64,
    used: u64,
    /// What the last growth adds.
    growth: u64,
    /// Whether the last growth goes beyond what the guest itself declared. Then it fails, and the
    /// guest may see that, because it fails in every run.
    beyond_declared: bool,
}

impl Allowance {
    fn new(max: u64) -> Self {
        Self { max, used: 0, growth: 0, beyond_declared: false }
    }

    /// Allows a growth, or traps if it is beyond the limit: a guest that saw the growth fail could
    /// take another path on a server with another limit (D6).
    fn grow(
        &mut self,
        current: usize,
        desired: usize,
        declared: Option<usize>,
    ) -> Result<bool, u64> {
        let growth = desired.saturating_sub(current) as u64;
        let used = self.used.saturating_add(growth);
        if used > self.max {
            return Err(used);
        }
        self.used = used;
        self.growth = growth;
        self.beyond_declared = declared.is_some_and(|declared| desired > declared);
        Ok(true)
    }

    /// A growth that was allowed did not happen. If the kernel refused it, the guest traps.
    fn failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.used -= self.growth;
        self.growth = 0;
        if self.beyond_declared { Ok(()) } else { Err(error) }
    }
}

impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.memory.grow(current, desired, maximum).map_err(|wanted| {
            let max = self.memory.max;
            Halt::Trap(format!("wanted {wanted} bytes of memory; its limit is {max}")).into()
        });
        self.tell_memory();
        grown
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        let failed = self.memory.failed(error);
        self.tell_memory();
        failed
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.tables.grow(current, desired, maximum).map_err(|wanted| {
            let max = self.tables.max;
            Halt::Trap(format!("wanted {wanted} elements in its tables; its limit is {max}")).into()
        })
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.tables.failed(error)
    }
}
