//! A heap: memory in regions, cut into blocks, with lists of free blocks by size.
//!
//! Two-level segregated fit: sizes are classed by their power of two, and eight steps within each,
//! and two bitmaps say which classes have a free block. Allocating and freeing take a few
//! instructions however full the heap is, and neighbours that are free are always merged.

use core::mem::size_of;
use core::ptr::{self, NonNull};

/// Payloads are aligned to this, and their sizes are multiples of it: the two words that a header
/// has.
pub(super) const GRAIN: usize = 2 * size_of::<usize>();

/// What a block takes besides its payload.
const HEADER: usize = GRAIN;

/// A region's first header and its end mark.
pub(super) const REGION_OVERHEAD: usize = 2 * HEADER;

/// The first power of two of the classes; below, each size has its own.
const STEPS_LOG: u32 = 3;

/// Classes for each power of two.
const STEPS: usize = 1 << STEPS_LOG;

/// Powers of two: enough for all that 32 bits can address, and a bitmap of 32 bits holds them.
const LEVELS: usize = 30;

/// No payload is larger: its class would be beyond the last.
const SIZE_MAX: usize = (1 << (LEVELS - 2)) * GRAIN;

/// In the word that holds a block's size, which is a multiple of [`GRAIN`].
const FREE: usize = 1;

/// A block's header; the links are there only while it is free, over its payload.
#[repr(C)]
struct Block {
    /// The block that ends where this one begins; null for the first of a region.
    before: *mut Block,
    /// Size of the payload, and whether it is free. A region's end mark has none, and is not.
    word: usize,
    /// The list of free blocks of this class.
    next: *mut Block,
    previous: *mut Block,
}

/// The heap. Nothing in it moves: what it manages is what [`Heap::add`] was given.
pub(super) struct Heap {
    /// Which levels have a free block.
    levels: u32,
    /// Which steps of each level have one.
    steps: [u8; LEVELS],
    /// The first free block of each class.
    free: [[*mut Block; STEPS]; LEVELS],
    /// Where the region that was added last ends, to notice that the next continues it.
    end: *mut u8,
}

/// The class of a block of this size.
fn class(size: usize) -> (usize, usize) {
    let grains = size / GRAIN;
    if grains < STEPS {
        return (0, grains);
    }
    let log = grains.ilog2();
    ((log - STEPS_LOG + 1) as usize, (grains >> (log - STEPS_LOG)) & (STEPS - 1))
}

/// The first class all of whose blocks are at least this large.
fn class_that_fits(size: usize) -> (usize, usize) {
    let grains = size / GRAIN;
    let rounding = if grains < STEPS { 0 } else { (1 << (grains.ilog2() - STEPS_LOG)) - 1 };
    class((grains + rounding) * GRAIN)
}

/// The size of the payload for a request; none if it is too large for any heap.
fn rounded(size: usize) -> Option<usize> {
    let size = size.max(1).checked_next_multiple_of(GRAIN)?;
    (size <= SIZE_MAX / 2).then_some(size)
}

/// How much memory surely suffices for a request, in a region of its own.
pub(super) fn region_for(size: usize, align: usize) -> Option<usize> {
    // The largest class that the request can be rounded up to is an eighth larger.
    let payload = rounded(size)?.checked_add(align)?;
    payload.checked_add(payload / STEPS)?.checked_add(4 * HEADER + REGION_OVERHEAD)
}

// SAFETY of all that follows: a `*mut Block` comes from a region given to `add`, whose giver
// promised that it is ours; headers are written before they are read, and the size in a header
// leads to the next header or to the end mark, so every pointer stays within its region.

unsafe fn size(block: *mut Block) -> usize {
    // SAFETY: see above.
    unsafe { (*block).word & !FREE }
}

unsafe fn is_free(block: *mut Block) -> bool {
    // SAFETY: see above.
    unsafe { (*block).word & FREE != 0 }
}

unsafe fn payload(block: *mut Block) -> *mut u8 {
    // SAFETY: a payload follows its header.
    unsafe { block.cast::<u8>().add(HEADER) }
}

unsafe fn block_of(payload: *mut u8) -> *mut Block {
    // SAFETY: a header precedes its payload.
    unsafe { payload.sub(HEADER).cast() }
}

unsafe fn after(block: *mut Block) -> *mut Block {
    // SAFETY: only called for blocks, never for an end mark, so there is a header behind it.
    unsafe { payload(block).add(size(block)).cast() }
}

impl Heap {
    /// A heap without memory.
    pub(super) const fn new() -> Self {
        Self {
            levels: 0,
            steps: [0; LEVELS],
            free: [[ptr::null_mut(); STEPS]; LEVELS],
            end: ptr::null_mut(),
        }
    }

    /// Gives the heap memory. One that begins where the one before it ended continues it.
    ///
    /// # Safety
    /// The memory is valid, writable, used by nobody else, and never taken back.
    pub(super) unsafe fn add(&mut self, start: *mut u8, length: usize) {
        let skipped = start.align_offset(GRAIN);
        let length = length.saturating_sub(skipped) / GRAIN * GRAIN;
        if length < REGION_OVERHEAD + GRAIN {
            return;
        }
        // SAFETY: within the region, which is long enough for all headers written here. If it
        // continues the last, the header before it is that one's end mark.
        unsafe {
            let start = start.add(skipped);
            let block: *mut Block = if start == self.end {
                let mark = block_of(start);
                (*mark).word = length - HEADER;
                mark
            } else {
                let first: *mut Block = start.cast();
                (*first).before = ptr::null_mut();
                (*first).word = length - REGION_OVERHEAD;
                first
            };
            let mark = after(block);
            (*mark).before = block;
            (*mark).word = 0;
            self.end = start.add(length);
            self.release(block);
        }
    }

    /// A payload of at least this size, aligned; none if the heap has no such block.
    pub(super) fn allocate(&mut self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let size = rounded(size)?;
        // SAFETY: `take` returns a block of at least the size asked for, taken off its list.
        unsafe {
            let block = if align <= GRAIN {
                self.take(size)?
            } else {
                // Room to move forward to an aligned place, leaving a whole block before it.
                let block = self.take(rounded(size.checked_add(align + HEADER + GRAIN)?)?)?;
                self.align(block, align)
            };
            self.trim(block, size);
            NonNull::new(payload(block))
        }
    }

    /// Gives a payload back.
    ///
    /// # Safety
    /// It came from this heap, and is used no more.
    pub(super) unsafe fn free(&mut self, payload: NonNull<u8>) {
        // SAFETY: its header precedes it.
        unsafe { self.release(block_of(payload.as_ptr())) };
    }

    /// Makes a payload larger or smaller where it is; false if there is no room.
    ///
    /// # Safety
    /// It came from this heap and is in use.
    pub(super) unsafe fn resize(&mut self, payload: NonNull<u8>, new: usize) -> bool {
        let Some(new) = rounded(new) else { return false };
        // SAFETY: its header precedes it; the block after it is merged only if it is free.
        unsafe {
            let block = block_of(payload.as_ptr());
            if new > size(block) {
                let behind = after(block);
                if !is_free(behind) || size(block) + HEADER + size(behind) < new {
                    return false;
                }
                self.remove(behind);
                (*block).word += HEADER + size(behind);
                (*after(block)).before = block;
            }
            self.trim(block, new);
        }
        true
    }

    /// A free block of at least this size, off its list and marked as used.
    unsafe fn take(&mut self, wanted: usize) -> Option<*mut Block> {
        let found = self.first_in(class_that_fits(wanted)).or_else(|| {
            // A block of the class below may still do: better than to ask for more memory.
            let (level, step) = class(wanted);
            let mut block = self.free[level][step];
            // SAFETY: lists hold free blocks, and end with null.
            unsafe {
                while !block.is_null() && size(block) < wanted {
                    block = (*block).next;
                }
            }
            (!block.is_null()).then_some(block)
        })?;
        // SAFETY: it is on a list.
        unsafe { self.remove(found) };
        Some(found)
    }

    /// A free block of this class or a larger one.
    fn first_in(&self, (level, step): (usize, usize)) -> Option<*mut Block> {
        let steps = self.steps.get(level)? & (u8::MAX << step);
        if steps != 0 {
            return Some(self.free[level][steps.trailing_zeros() as usize]);
        }
        let levels = self.levels & u32::MAX.checked_shl(level as u32 + 1)?;
        if levels == 0 {
            return None;
        }
        let level = levels.trailing_zeros() as usize;
        Some(self.free[level][self.steps[level].trailing_zeros() as usize])
    }

    /// Splits a used block so that the payload of the second part is aligned; frees the first.
    unsafe fn align(&mut self, block: *mut Block, align: usize) -> *mut Block {
        // SAFETY: the caller took room for the alignment and one more block.
        unsafe {
            let start = payload(block);
            if start.align_offset(align) == 0 {
                return block;
            }
            let least = start.add(HEADER + GRAIN);
            let aligned = least.add(least.align_offset(align));
            let second = block_of(aligned);
            let first_size = second.cast::<u8>().offset_from(start).unsigned_abs();
            (*second).before = block;
            (*second).word = size(block) - first_size - HEADER;
            (*block).word = first_size;
            (*after(second)).before = second;
            self.release(block);
            second
        }
    }

    /// Frees what a used block has beyond a size, if that makes a block.
    unsafe fn trim(&mut self, block: *mut Block, keep: usize) {
        // SAFETY: the new header is within the block's payload.
        unsafe {
            let rest = size(block) - keep;
            if rest < HEADER + GRAIN {
                return;
            }
            (*block).word = keep;
            let second = after(block);
            (*second).before = block;
            (*second).word = rest - HEADER;
            (*after(second)).before = second;
            self.release(second);
        }
    }

    /// Merges a used block with its free neighbours and puts it on a list.
    unsafe fn release(&mut self, mut block: *mut Block) {
        // SAFETY: the end mark and the first block of a region are no neighbours to merge with:
        // one is never free, and the other has none before it.
        unsafe {
            let behind = after(block);
            if is_free(behind) {
                self.remove(behind);
                (*block).word += HEADER + size(behind);
            }
            let before = (*block).before;
            if !before.is_null() && is_free(before) {
                self.remove(before);
                (*before).word += HEADER + size(block);
                block = before;
            }
            (*after(block)).before = block;
            self.insert(block);
        }
    }

    unsafe fn insert(&mut self, block: *mut Block) {
        // SAFETY: a payload has room for the links.
        unsafe {
            let (level, step) = class(size(block));
            let first = self.free[level][step];
            (*block).word |= FREE;
            (*block).previous = ptr::null_mut();
            (*block).next = first;
            if !first.is_null() {
                (*first).previous = block;
            }
            self.free[level][step] = block;
            self.steps[level] |= 1 << step;
            self.levels |= 1 << level;
        }
    }

    unsafe fn remove(&mut self, block: *mut Block) {
        // SAFETY: it is on the list of its class.
        unsafe {
            let (level, step) = class(size(block));
            let (next, previous) = ((*block).next, (*block).previous);
            if !next.is_null() {
                (*next).previous = previous;
            }
            if !previous.is_null() {
                (*previous).next = next;
            } else {
                self.free[level][step] = next;
                if next.is_null() {
                    self.steps[level] &= !(1 << step);
                    if self.steps[level] == 0 {
                        self.levels &= !(1 << level);
                    }
                }
            }
            (*block).word &= !FREE;
        }
    }
}

#[cfg(test)]
impl Heap {
    /// Walks a region and checks everything that must hold; returns how many bytes are free.
    pub(super) unsafe fn check(&self, start: *mut u8) -> usize {
        let mut free = 0;
        // SAFETY: the start of a region that was added.
        unsafe {
            let mut block: *mut Block = start.add(start.align_offset(GRAIN)).cast();
            let mut before: *mut Block = ptr::null_mut();
            loop {
                assert_eq!((*block).before, before, "blocks know the one before them");
                if size(block) == 0 {
                    return free;
                }
                if is_free(block) {
                    assert!(before.is_null() || !is_free(before), "free neighbours are merged");
                    let (level, step) = class(size(block));
                    let mut listed = self.free[level][step];
                    while listed != block {
                        assert!(!listed.is_null(), "a free block is on its list");
                        listed = (*listed).next;
                    }
                    assert!(self.levels >> level & 1 == 1 && self.steps[level] >> step & 1 == 1);
                    free += size(block);
                }
                (before, block) = (block, after(block));
            }
        }
    }
}
