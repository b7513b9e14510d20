//! A server's options for its guests.

use indelible_journal::{Limits, Micros};

use super::compile::{CompileLimits, Compiler};

/// A server's options for its guests. A guest notices none of them while it replays, except
/// `limits`, which are pinned with each execution.
#[derive(Debug, Clone)]
pub struct GuestOptions {
    /// The limits that new executions are pinned to (D6). The stack has one size for the whole
    /// process: an execution that is pinned to another is refused. Up to 4 GiB of memory, and up to
    /// as many table elements as these, can be given to older executions too.
    pub limits: Limits,
    /// How many guests may exist at once, parked ones included. Each takes four of the kernel's
    /// memory maps, or more when its memory grew, and a process has 65,530 by default (D4). Each
    /// takes 4 GiB of address space, too, which costs nothing but must be there.
    pub guests_max: u32,
    /// How many programs stay loaded.
    pub programs_max: usize,
    /// How often [`Guests::tick`](super::Guests::tick) is called: the unit of the times below.
    pub tick: Micros,
    /// For how long a guest runs before others get their turn.
    pub slice: Micros,
    /// How much time a guest may take between two host calls that are journaled. More ends it as
    /// Timeout (D8).
    pub cpu_budget: Micros,
    /// How much time `describe` may take, when a component is deployed.
    pub describe_budget: Micros,
    /// The largest component, in bytes.
    pub component_bytes_max: usize,
    /// Where deployed components are compiled. A component that has lost its artifact is compiled
    /// in this process when it is loaded again.
    pub compiler: Compiler,
    /// The limits of a compiler that has a process of its own.
    pub compile_limits: CompileLimits,
    /// The largest payload that a function may return, in bytes. The host refuses a call's input
    /// that is too large, because that is journaled; see `handed_over_bytes_max`.
    pub payload_bytes_max: usize,
    /// How much a guest may hand over in one host call, in bytes, all strings and lists together.
    /// More traps. It protects this process and must exceed `payload_bytes_max`.
    pub handed_over_bytes_max: usize,
    /// How many lines a guest may log between two awaits.
    pub log_lines_max: u32,
    /// How many bytes a guest may log between two awaits.
    pub log_bytes_max: usize,
    /// How much of an ended guest's memory stays with its slot in the pool, in bytes: that part is
    /// cleared by writing, the rest is given back to the kernel. A large part is slow: 1 MiB takes
    /// milliseconds for each guest that ends.
    pub memory_keep_bytes: usize,
}

impl Default for GuestOptions {
    fn default() -> Self {
        Self {
            limits: Limits {
                memory_bytes_max: 64 << 20,
                stack_bytes_max: 512 << 10,
                table_elements_max: 10_000,
            },
            guests_max: 8_000,
            programs_max: 256,
            tick: Micros::from_millis(5),
            slice: Micros::from_millis(10),
            cpu_budget: Micros::from_secs(10),
            describe_budget: Micros::from_secs(2),
            component_bytes_max: 32 << 20,
            compiler: Compiler::default(),
            compile_limits: CompileLimits::default(),
            payload_bytes_max: 4 << 20,
            handed_over_bytes_max: 16 << 20,
            log_lines_max: 10_000,
            log_bytes_max: 1 << 20,
            memory_keep_bytes: 64 << 10,
        }
    }
}

impl GuestOptions {
    /// How many ticks a time is, at least one.
    pub(super) fn ticks(&self, time: Micros) -> u64 {
        time.get().div_ceil(self.tick.get().max(1)).max(1)
    }
}
