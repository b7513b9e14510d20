//! A small generator of numbers (splitmix64): a journal is a function of its seed alone, on every
//! machine and with every version of every library.
#![allow(dead_code, reason = "each test uses some of it")]

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prng(u64);

impl Prng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Lets what was seen decide what comes next.
    pub(crate) fn mix(&mut self, seen: &[u8]) {
        for byte in seen {
            self.0 = self.0.rotate_left(5) ^ u64::from(*byte);
        }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// A number from 0 to `end - 1`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An index into so many; 0 if there are none.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len.max(1)).expect("lengths are small");
        usize::try_from(self.below(len)).expect("lengths are small")
    }

    /// Once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.index(from.len())].clone()) }
    }

    /// An index, the more often the greater its weight.
    pub(crate) fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("the number drawn is below the sum")
    }
}
