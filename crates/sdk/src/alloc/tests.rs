//! The heap under random use: payloads never overlap, are aligned, keep what was written to them,
//! and all memory comes back.

use std::ptr::NonNull;

use super::heap::{GRAIN, Heap, REGION_OVERHEAD, region_for};

/// Memory for a heap; aligned worse than any heap would like.
struct Region {
    words: Vec<u64>,
}

impl Region {
    fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes / 8 + 2] }
    }

    fn start(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(1)
    }
}

/// A heap over one region.
fn heap(region: &mut Region, bytes: usize) -> Heap {
    let mut heap = Heap::new();
    // SAFETY: the region outlives the heap in every test.
    unsafe { heap.add(region.start(), bytes) };
    heap
}

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

struct Payload {
    at: NonNull<u8>,
    size: usize,
    mark: u8,
}

impl Payload {
    fn fill(&self) {
        // SAFETY: the payload is in use and this large.
        unsafe { self.at.write_bytes(self.mark, self.size) };
    }

    fn check(&self, size: usize) {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), size) };
        assert!(bytes.iter().all(|&byte| byte == self.mark), "another payload wrote here");
    }
}

/// Sizes as programs have them: mostly small.
fn some_size(random: &mut Random) -> usize {
    let bound = [16, 64, 300, 2_000, 20_000][random.below(5)];
    random.below(bound)
}

#[test]
fn random_use() {
    const SIZE: usize = 1 << 20;
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut region = Region::new(SIZE);
        let start = region.start();
        let mut heap = heap(&mut region, SIZE);
        // SAFETY: the region's start, here and below.
        let all = unsafe { heap.check(start) };
        let mut live: Vec<Payload> = Vec::new();
        for step in 0..3_000 {
            match random.below(5) {
                0 | 1 => {
                    let align = 1 << random.below(10);
                    let size = some_size(&mut random);
                    if let Some(at) = heap.allocate(size, align) {
                        assert_eq!(at.as_ptr().align_offset(align.max(GRAIN)), 0);
                        let payload = Payload { at, size, mark: step as u8 };
                        payload.fill();
                        live.push(payload);
                    }
                }
                2 if !live.is_empty() => {
                    let index = random.below(live.len());
                    let new = some_size(&mut random);
                    let payload = &mut live[index];
                    // SAFETY: it is in use.
                    if unsafe { heap.resize(payload.at, new) } {
                        payload.check(payload.size.min(new));
                        payload.size = new;
                        payload.fill();
                    }
                }
                _ if !live.is_empty() => {
                    let payload = live.swap_remove(random.below(live.len()));
                    payload.check(payload.size);
                    // SAFETY: it is used no more.
                    unsafe { heap.free(payload.at) };
                }
                _ => {}
            }
            if step % 100 == 0 {
                // SAFETY: as above.
                unsafe { heap.check(start) };
            }
        }
        for payload in live {
            payload.check(payload.size);
            // SAFETY: it is used no more.
            unsafe { heap.free(payload.at) };
        }
        // SAFETY: as above.
        assert_eq!(unsafe { heap.check(start) }, all, "all memory came back, in one piece");
    }
}

/// What is freed is used again: a program that allocates and frees for ever stays small.
#[test]
fn reuse() {
    const SIZE: usize = 64 * 1024;
    let mut region = Region::new(SIZE);
    let mut heap = heap(&mut region, SIZE);
    let mut random = Random(7);
    for _ in 0..100_000 {
        let a = heap.allocate(random.below(4_000), 8).unwrap();
        let b = heap.allocate(random.below(4_000), 8).unwrap();
        // SAFETY: they are used no more.
        unsafe {
            heap.free(a);
            heap.free(b);
        }
    }
}

/// A vector that grows at the end of the heap grows where it is.
#[test]
fn grows_in_place() {
    const SIZE: usize = 64 * 1024;
    let mut region = Region::new(SIZE);
    let mut heap = heap(&mut region, SIZE);
    let first = heap.allocate(100, 8).unwrap();
    let second = heap.allocate(100, 8).unwrap();
    // SAFETY: both are in use.
    unsafe {
        assert!(heap.resize(second, 40_000));
        assert!(!heap.resize(first, 200), "the second is in the way");
        assert!(heap.resize(second, 50));
        assert!(heap.resize(second, 50_000), "what was cut off is there again");
    }
}

/// The last bytes of a region are found, though its class is below the one asked for first.
#[test]
fn takes_all_there_is() {
    const SIZE: usize = 100_003;
    let mut region = Region::new(SIZE);
    let start = region.start();
    let mut heap = heap(&mut region, SIZE);
    // SAFETY: the region's start.
    let all = unsafe { heap.check(start) };
    assert!(heap.allocate(all, 1).is_some());
    assert!(heap.allocate(1, 1).is_none());
}

/// Memory that continues the last region is one piece with it; other memory is a region of its own.
#[test]
fn regions() {
    const SIZE: usize = 64 * 1024;
    let mut region = Region::new(2 * SIZE);
    let start = region.start();
    let start = start.wrapping_add(start.align_offset(GRAIN));
    let mut heap = Heap::new();
    // SAFETY: both halves are within the region.
    unsafe {
        heap.add(start, SIZE);
        heap.add(start.add(SIZE), SIZE - GRAIN);
        assert_eq!(heap.check(start), 2 * SIZE - GRAIN - REGION_OVERHEAD);
    }
    assert!(heap.allocate(SIZE + SIZE / 2, 8).is_some());

    let mut other = Region::new(SIZE);
    let beginning = other.start();
    // SAFETY: the region outlives the heap.
    unsafe { heap.add(beginning, SIZE) };
    assert!(heap.allocate(SIZE / 2, 8).is_some());
    // SAFETY: the regions' starts.
    unsafe {
        heap.check(start);
        heap.check(beginning);
    }
}

/// A region made for one request holds it.
#[test]
fn region_for_a_request() {
    for size in [0, 1, 7, 8, 100, 4_095, 65_536, 1_000_000, 3_333_333] {
        for align in [1, 8, 64, 4_096] {
            let bytes = region_for(size, align).unwrap();
            let mut region = Region::new(bytes);
            let mut heap = Heap::new();
            let start = region.start();
            let start = start.wrapping_add(start.align_offset(GRAIN));
            // SAFETY: the region is a little larger than asked for.
            unsafe { heap.add(start, bytes / GRAIN * GRAIN - GRAIN) };
            assert!(heap.allocate(size, align).is_some(), "{size} at {align}");
        }
    }
}

/// Absurd requests have no answer, and too little memory is no region.
#[test]
fn refusals() {
    let mut heap = Heap::new();
    assert!(heap.allocate(1, 1).is_none());
    assert!(heap.allocate(usize::MAX, 1).is_none());
    assert!(heap.allocate(usize::MAX / 2, 1 << 20).is_none());
    assert!(region_for(usize::MAX, 1).is_none());
    let mut region = Region::new(64);
    // SAFETY: the region is longer.
    unsafe { heap.add(region.start(), REGION_OVERHEAD) };
    assert!(heap.allocate(1, 1).is_none());
}
