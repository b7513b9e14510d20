//! `Histogram`: latencies in a fixed number of buckets.
//!
//! Our own because it is this small: each power of two has 32 buckets, so a percentile is at most
//! 3 % too high, and never too low. Every producer has one, and adding to it allocates nothing.

use super::report::micros;

/// Each power of two is divided into `2^SUB_BITS` buckets.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
/// Everything from `2^EXPONENT_MAX` nanoseconds (73 minutes) on is in the last bucket.
const EXPONENT_MAX: u32 = 42;
const BUCKETS: usize = SUB * (EXPONENT_MAX - SUB_BITS + 1) as usize;

#[derive(Debug, Clone)]
pub(super) struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), count: 0, max: 0 }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += others;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly, in nanoseconds.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// [`Self::per_mille`] of several parts, in microseconds.
    pub(super) fn micros<const N: usize>(&self, per_mille: [u64; N]) -> [f64; N] {
        per_mille.map(|part| micros(self.per_mille(part)))
    }

    /// The time, in nanoseconds, that so many in a thousand did not exceed.
    pub(super) fn per_mille(&self, per_mille: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1_000);
        let mut seen = 0_u128;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if *count > 0 && seen >= rank {
                return last_of(index).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.min((1 << EXPONENT_MAX) - 1);
    // The position of the highest bit; times below `SUB` have a bucket each.
    let shift = (u64::BITS - 1 - nanos.max(1).leading_zeros()).saturating_sub(SUB_BITS);
    // The highest bit is part of the index, so the first row of buckets is twice as long.
    shift as usize * SUB + (nanos >> shift) as usize
}

/// The longest time in a bucket.
fn last_of(index: usize) -> u64 {
    let shift = (index / SUB).saturating_sub(1);
    let first = (index - shift * SUB) as u64;
    ((first + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket's last time is in it, the next one is not, and no time is lost.
    #[test]
    fn buckets_follow_each_other() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(last_of(index)), index);
            if index + 1 < BUCKETS {
                assert_eq!(bucket(last_of(index) + 1), index + 1);
            }
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    /// Percentiles are never too low, and at most a thirty-second too high.
    #[test]
    fn percentiles_are_close() {
        let mut halves = [Histogram::default(), Histogram::default()];
        for nanos in 1..=100_000_u64 {
            halves[(nanos % 2) as usize].add(nanos * 17);
        }
        let [mut all, other] = halves;
        all.merge(&other);
        assert_eq!((all.count(), all.max()), (100_000, 1_700_000));
        for per_mille in [1, 250, 500, 990, 999, 1_000] {
            let exact = per_mille * 100 * 17;
            let told = all.per_mille(per_mille);
            assert!((exact..=exact + exact / 32).contains(&told), "{per_mille}: {told}");
        }
    }

    /// With no time or one, no percentile is invented.
    #[test]
    fn few_are_told_as_they_are() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.per_mille(500), 0);
        histogram.add(1_234_567);
        for per_mille in [0, 500, 999, 1_000] {
            assert_eq!(histogram.per_mille(per_mille), 1_234_567);
        }
    }
}
