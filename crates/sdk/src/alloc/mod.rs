//! The guest's allocator: a heap that begins in a static arena, so that a guest of ordinary size
//! never asks for more memory. Growing a memory costs the host system calls for which its cores
//! wait for each other: with one in each instance it runs less than half as many steps.
#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

mod heap;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
mod global {
    use core::alloc::{GlobalAlloc, Layout};
    use core::arch::wasm32;
    use core::cell::UnsafeCell;
    use core::ptr::{self, NonNull};

    use super::heap::{Heap, region_for};

    /// Zeroes, so it takes no place in the component.
    const ARENA_SIZE: usize = 256 * 1024;

    /// The size of a page of WebAssembly's.
    const PAGE: usize = 64 * 1024;

    /// A memory that must grow grows by at least this, and by half of what it is: seldom.
    const GROWTH_MIN: usize = 1024 * 1024;

    #[repr(align(16))]
    struct Arena(UnsafeCell<[u8; ARENA_SIZE]>);

    struct Global {
        heap: UnsafeCell<Heap>,
        started: UnsafeCell<bool>,
    }

    // SAFETY: a guest has one thread.
    unsafe impl Sync for Arena {}
    // SAFETY: a guest has one thread, and the allocator calls nothing that allocates.
    unsafe impl Sync for Global {}

    static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_SIZE]));

    #[global_allocator]
    static GLOBAL: Global =
        Global { heap: UnsafeCell::new(Heap::new()), started: UnsafeCell::new(false) };

    impl Global {
        fn allocate(&self, size: usize, align: usize) -> *mut u8 {
            // SAFETY: one thread, and no reference outlives this call.
            let (heap, started) = unsafe { (&mut *self.heap.get(), &mut *self.started.get()) };
            if !*started {
                *started = true;
                // SAFETY: the arena belongs to this heap alone.
                unsafe { heap.add(ARENA.0.get().cast(), ARENA_SIZE) };
            }
            if let Some(found) = heap.allocate(size, align) {
                return found.as_ptr();
            }
            grow(heap, size, align)
                .and_then(|()| heap.allocate(size, align))
                .map_or(ptr::null_mut(), NonNull::as_ptr)
        }
    }

    /// Gives the heap more memory: generously, or just enough where there is a limit.
    fn grow(heap: &mut Heap, size: usize, align: usize) -> Option<()> {
        let least = region_for(size, align)?;
        let generous = least.max(GROWTH_MIN).max(wasm32::memory_size(0) * PAGE / 2);
        for bytes in [generous, least] {
            let pages = bytes.div_ceil(PAGE);
            let old = wasm32::memory_grow(0, pages);
            if old != usize::MAX {
                let start = ptr::with_exposed_provenance_mut(old * PAGE);
                // SAFETY: these pages are new, and only this allocator grows the memory.
                unsafe { heap.add(start, pages * PAGE) };
                return Some(());
            }
        }
        None
    }

    // SAFETY: payloads do not overlap, are as large and as aligned as asked for, and stay until
    // they are freed: the tests of `Heap` show it.
    unsafe impl GlobalAlloc for Global {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            self.allocate(layout.size(), layout.align())
        }

        unsafe fn dealloc(&self, payload: *mut u8, _layout: Layout) {
            // SAFETY: the caller promises that it came from here and is used no more.
            unsafe { (*self.heap.get()).free(NonNull::new_unchecked(payload)) };
        }

        unsafe fn realloc(&self, payload: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            // SAFETY: the caller promises that it came from here; what is copied is in both.
            unsafe {
                let old = NonNull::new_unchecked(payload);
                if (*self.heap.get()).resize(old, size) {
                    return payload;
                }
                let new = self.allocate(size, layout.align());
                if !new.is_null() {
                    ptr::copy_nonoverlapping(payload, new, layout.size().min(size));
                    (*self.heap.get()).free(old);
                }
                new
            }
        }
    }
}
