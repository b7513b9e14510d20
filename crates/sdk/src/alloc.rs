//! The guest's allocator: a heap that begins in a static arena, so that a guest of ordinary size
//! never asks for more memory. Growing a memory costs the host system calls in which its cores wait
//! for each other: with one growth per instance, the host runs less than half as many steps.
#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

use core::alloc::Layout;
use core::arch::wasm32;
use core::mem;
use core::ptr::{self, NonNull};

use talc::base::binning::Binning;
use talc::base::{CHUNK_UNIT, Talc};
use talc::cell::TalcSyncCell;
use talc::source::Source;
use talc::wasm::WasmBinning;

/// All zeros, so the component does not grow by it.
const ARENA_BYTES: usize = 256 * 1024;

/// The size of a page of WebAssembly's.
const PAGE_BYTES: usize = 64 * 1024;

/// A memory that must grow grows by half of its size, within these bounds: seldom, and not so far
/// that a guest that needs little is ended at the engine's limit.
const GROWTH_BYTES_MIN: usize = 1024 * 1024;
const GROWTH_BYTES_MAX: usize = 4 * 1024 * 1024;

static mut ARENA: [u8; ARENA_BYTES] = [0; ARENA_BYTES];

#[global_allocator]
static GLOBAL: TalcSyncCell<GuestMemory, WasmBinning> =
    TalcSyncCell::new_wasm(GuestMemory { arena_claimed: false, end: None });

/// Where the heap's memory comes from: the arena first, then new pages.
#[derive(Debug)]
struct GuestMemory {
    arena_claimed: bool,
    /// Where the pages end that were added last, if the next ones can continue them.
    end: Option<NonNull<u8>>,
}

// SAFETY: it uses the heap that it is given, and nothing that allocates.
unsafe impl Source for GuestMemory {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        if !mem::replace(&mut talc.source.arena_claimed, true) {
            // SAFETY: the arena belongs to this heap alone.
            let end = unsafe { talc.claim((&raw mut ARENA).cast(), ARENA_BYTES) };
            return end.map(drop).ok_or(());
        }
        let least = layout.size().checked_add(layout.align() + 4 * CHUNK_UNIT).ok_or(())?;
        let half = wasm32::memory_size(0).saturating_mul(PAGE_BYTES / 2);
        let generous = least.max(half.clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX));
        // If the module declares a maximum, the smaller request may still fit.
        let grown = [generous, least].into_iter().find_map(|bytes| {
            let pages = bytes.div_ceil(PAGE_BYTES);
            let before = wasm32::memory_grow(0, pages);
            (before != usize::MAX).then_some((before * PAGE_BYTES, pages * PAGE_BYTES))
        });
        let (start, bytes) = grown.ok_or(())?;
        let end = ptr::with_exposed_provenance_mut(start.saturating_add(bytes));
        let start: *mut u8 = ptr::with_exposed_provenance_mut(start);
        // SAFETY: these pages are new, and only this allocator grows the memory.
        talc.source.end = unsafe {
            match talc.source.end {
                Some(last) if last.as_ptr() == start => Some(talc.extend(last, end)),
                _ => talc.claim(start, bytes),
            }
        };
        talc.source.end.map(drop).ok_or(())
    }
}
