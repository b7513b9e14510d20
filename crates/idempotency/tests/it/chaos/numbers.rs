//! Numbers that look random and are the same each time, and orders made of them.

use indelible_test_support::Prng;

/// A sequence of numbers from a seed.
pub(crate) struct Numbers(Prng);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Prng::new(seed))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.index(end)
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
