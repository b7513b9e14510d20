//! What the generated bindings need at run time, and the function by which the host gets memory
//! for what it passes in.
#![expect(unsafe_code, reason = "memory crosses the boundary between guest and host as addresses")]

use std::alloc::{self, Layout};
use std::ptr;

/// Memory that is freed when dropped: the outer level of a list that is passed to the host.
pub(crate) struct Cleanup {
    at: *mut u8,
    layout: Layout,
}

impl Cleanup {
    /// Allocates; an empty list takes no memory and needs no cleaning up.
    pub(crate) fn new(layout: Layout) -> (*mut u8, Option<Self>) {
        if layout.size() == 0 {
            return (ptr::without_provenance_mut(layout.align()), None);
        }
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc::alloc(layout) };
        if at.is_null() {
            alloc::handle_alloc_error(layout);
        }
        (at, Some(Self { at, layout }))
    }

    /// Leaves the memory to the code that it was passed to: it is not freed here.
    pub(crate) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and its owner is gone.
        unsafe { alloc::dealloc(self.at, self.layout) };
    }
}

/// Rust has no constructors to run; called so that the linker adds none to every export.
#[cfg(target_arch = "wasm32")]
pub(crate) fn run_ctors_once() {}

/// Called so that this module, and with it `cabi_realloc`, is linked.
pub(crate) fn maybe_link_cabi_realloc() {}

/// Memory for what the host passes in. The name is the component model's.
#[cfg(target_arch = "wasm32")]
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(
    old: *mut u8,
    old_size: usize,
    align: usize,
    size: usize,
) -> *mut u8 {
    if size == 0 {
        return ptr::without_provenance_mut(align);
    }
    // SAFETY: the host passes what it was given, and alignments that are powers of two.
    unsafe {
        let new = if old_size == 0 {
            alloc::alloc(Layout::from_size_align_unchecked(size, align))
        } else {
            alloc::realloc(old, Layout::from_size_align_unchecked(old_size, align), size)
        };
        if new.is_null() {
            alloc::handle_alloc_error(Layout::from_size_align_unchecked(size, align));
        }
        new
    }
}
