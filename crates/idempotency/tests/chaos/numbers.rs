//! Numbers that look random and are the same each time, and orders made of them.

/// A sequence of numbers from a seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a length fits");
        usize::try_from(self.next() % end).expect("it is less than a length")
    }

    /// True about once in so many times.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// The order in which a task goes over all keys: its own, yet near to that of the others, so that
    /// they meet at most keys, and new keys come up until the end.
    pub(crate) fn order(&mut self, keys: usize) -> Vec<usize> {
        let near = 2 + self.below(30);
        let mut order: Vec<usize> = (0..keys).collect();
        for from in 0..keys {
            order.swap(from, from + self.below(near.min(keys - from)));
        }
        order
    }
}
