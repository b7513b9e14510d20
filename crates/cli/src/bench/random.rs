//! `Random`: pseudo-random bytes that do not compress, the same in every run.

/// `SplitMix64`: fast enough not to show in measurements.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream with this index within one use. A value can be generated again from its index, so
    /// no list of values is needed.
    pub(crate) fn of(seed: u64, index: u64) -> Self {
        Self(mixed(mixed(seed).wrapping_add(index)))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below `end`. The bias is too small to show in measurements.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_le_bytes()[..chunk.len()]);
        }
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbouring streams differ, and a stream repeats itself.
    #[test]
    fn streams_are_their_own_and_repeat() {
        let root = |seed, index| Random::of(seed, index).bytes::<32>();
        let all: std::collections::BTreeSet<_> =
            (0..4).flat_map(|seed| (0..1_000).map(move |index| root(seed, index))).collect();
        assert_eq!(all.len(), 4_000);
        assert_eq!(root(3, 7), root(3, 7));
        let mut random = Random::of(1, 1);
        assert!((0..1_000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
