//! How wasmtime is set up: deterministic, interruptible, pooled.

use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig,
    WasmBacktraceDetails,
};

use super::options::GuestOptions;

/// The part of a fiber's stack beyond the guest's own: for the host's functions, which run on it.
/// Exhausting it would abort the process.
const HOST_STACK_BYTES: usize = 512 << 10;

/// Address space for each memory: all that 32 bits can address, so that compiled code needs no
/// bounds checks.
pub(super) const MEMORY_RESERVATION_BYTES: u64 = 4 << 30;

/// Core instances of one component. Compilers make components with three or four; those in Python,
/// which are linked of libraries when they are built, have some forty.
pub(super) const CORE_INSTANCES_MAX: u32 = 64;

/// Memories of one component.
pub(super) const MEMORIES_MAX: u32 = 8;

/// Tables of one component. Compilers make components with two: their own, and the adapter's.
pub(super) const TABLES_MAX: u32 = 16;

/// Tables in the pool for each guest.
const TABLES_PER_GUEST: u32 = 2;

/// How many slots of ended guests wait to be cleared together. More than one would keep their
/// memory for longer, and gained nothing that could be measured.
const DECOMMIT_BATCH: usize = 1;

/// How many components describe themselves at once. They have a place of their own, so that one can
/// be deployed while thousands of guests are parked.
const DESCRIBED_AT_ONCE: u32 = 1;

/// The engine that these options ask for.
pub(super) fn engine(options: &GuestOptions) -> wasmtime::Result<Engine> {
    let mut config = config(options)?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options)?));
    Engine::new(&config)
}

/// An engine that compiles for the other engine and runs nothing: it reserves no address space.
pub(super) fn compiling_engine(options: &GuestOptions) -> wasmtime::Result<Engine> {
    Engine::new(&config(options)?)
}

fn config(options: &GuestOptions) -> wasmtime::Result<Config> {
    let stack_bytes = usize::try_from(options.limits.stack_bytes_max)?;
    let mut config = Config::new();

    // The same answer on every machine and in every run (D8). Threads are not even compiled in.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    config.shared_memory(false);
    config.wasm_memory64(false);

    // One task for each store: support for more would double the cost of a host call.
    config.concurrency_support(false);

    config.epoch_interruption(true);
    config.max_wasm_stack(stack_bytes);
    config.async_stack_size(stack_bytes + HOST_STACK_BYTES);
    config.memory_reservation(MEMORY_RESERVATION_BYTES);
    config.memory_init_cow(true);
    config.wasm_backtrace_details(WasmBacktraceDetails::Disable);
    Ok(config)
}

fn pool(options: &GuestOptions) -> wasmtime::Result<PoolingAllocationConfig> {
    let guests = options.guests_max.saturating_add(DESCRIBED_AT_ONCE);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(guests);
    pool.total_stacks(guests);
    // These two are only counted, so they may be generous.
    pool.total_core_instances(guests.saturating_mul(CORE_INSTANCES_MAX));
    pool.max_core_instances_per_component(CORE_INSTANCES_MAX);
    // These take address space.
    pool.total_memories(guests);
    pool.max_memories_per_component(MEMORIES_MAX);
    pool.total_tables(guests.saturating_mul(TABLES_PER_GUEST));
    pool.max_tables_per_component(TABLES_MAX);
    pool.table_elements(usize::try_from(options.limits.table_elements_max)?);
    pool.max_memory_size(usize::try_from(MEMORY_RESERVATION_BYTES)?);

    pool.linear_memory_keep_resident(options.memory_keep_bytes);
    pool.table_keep_resident(options.memory_keep_bytes);
    // Where the kernel can say which pages a guest has touched (Linux 6.7), only those are
    // cleared.
    pool.pagemap_scan(Enabled::Auto);
    pool.decommit_batch_size(DECOMMIT_BATCH);
    Ok(pool)
}
