//! A small pseudo-random number generator (splitmix64). It is our own, so that what a test
//! generates depends on its seed alone: not on the machine, nor on the version of a library.

/// A pseudo-random sequence of numbers that its seed determines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prng(u64);

impl Prng {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Mixes these bytes into the state, so that the next numbers depend on them.
    pub fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(5) ^ u64::from(*byte);
        }
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }

    /// A number from 0 to `end - 1`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// An index below `len`; 0 if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len.max(1)).expect("lengths are small");
        usize::try_from(self.below(len)).expect("lengths are small")
    }

    /// True once in `n` times, on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these at random; `None` if there are none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.index(from.len())].clone()) }
    }

    /// An index, drawn in proportion to its weight.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
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
