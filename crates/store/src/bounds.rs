//! Every bound of the store, by name. A caller that goes past one gets [`OutOfBounds`], which
//! says which, and nothing has changed.

use std::time::Duration;

/// The bounds that can be configured; the defaults suit nearly all uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The longest key, in bytes. The deepest journal key has 552; names have up to 255.
    pub key_bytes_max: usize,
    /// The largest value, in bytes: a WebAssembly component, or all events of a large commit.
    pub value_bytes_max: usize,
    /// The most puts and deletes in a batch: a fan-out to ten thousand children is one commit of
    /// a few rows each.
    pub batch_writes_max: usize,
    /// The most preconditions in a batch: each may read the disk.
    pub batch_conditions_max: usize,
    /// The most bytes in a batch, keys and values together.
    pub batch_bytes_max: usize,
    /// The most rows that one scan returns.
    pub scan_rows_max: usize,
    /// A scan stops after the row that takes it past so many bytes: it always gives one.
    pub scan_bytes_max: usize,
    /// The most batches that wait for the writer. With more, callers that wait for the disk would
    /// queue behind callers that submit without waiting.
    pub waiting_batches_max: usize,
    /// The most bytes that wait for the writer. The group being written is counted apart, so the
    /// overlay holds at most twice this, beside the kept layers. Never less than `batch_bytes_max`.
    pub waiting_bytes_max: usize,
    /// The most bytes that are durable and kept in memory because the backend has not brought its
    /// rows up to date. At this bound the writer waits for the backend: about a second of a busy
    /// store fits. Nothing is kept over a backend whose commit changes the rows.
    pub kept_bytes_max: usize,
    /// How long a store is paused before callers that wait for it are told that it is unknown
    /// whether their batch was accepted. Shorter than clients and proxies wait for an answer.
    pub pause_told_after: Duration,
}

const MIB: usize = 1 << 20;

impl Bounds {
    /// What holds unless configured otherwise.
    pub const DEFAULT: Self = Self {
        key_bytes_max: 2048,
        value_bytes_max: 64 * MIB,
        batch_writes_max: 100_000,
        batch_conditions_max: 10_000,
        batch_bytes_max: 64 * MIB,
        scan_rows_max: 10_000,
        scan_bytes_max: 16 * MIB,
        waiting_batches_max: 512,
        waiting_bytes_max: 64 * MIB,
        kept_bytes_max: 64 * MIB,
        pause_told_after: Duration::from_secs(30),
    };

    /// Refuses bounds under which something could never be accepted, or that no backend can hold.
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        // What a backend can take: u16 for the size of a key, and a batch in memory at once.
        at_most(Bound::KeyBytes, self.key_bytes_max, 60_000)?;
        at_most(Bound::BatchBytes, self.batch_bytes_max, 1024 * MIB)?;
        at_most(Bound::BatchBytes, self.batch_bytes_max, self.waiting_bytes_max)?;
        at_most(Bound::ValueBytes, self.value_bytes_max, self.batch_bytes_max)?;
        at_most(Bound::WaitingBatches, 1, self.waiting_batches_max)?;
        // Room is counted in 32 bits.
        at_most(Bound::WaitingBatches, self.waiting_batches_max, u32::MAX as usize)?;
        at_most(Bound::WaitingBytes, self.waiting_bytes_max, u32::MAX as usize)?;
        at_most(Bound::ScanRows, 1, self.scan_rows_max)
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A bound, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// [`Bounds::key_bytes_max`].
    KeyBytes,
    /// [`Bounds::value_bytes_max`].
    ValueBytes,
    /// [`Bounds::batch_writes_max`].
    BatchWrites,
    /// [`Bounds::batch_conditions_max`].
    BatchConditions,
    /// [`Bounds::batch_bytes_max`].
    BatchBytes,
    /// [`Bounds::scan_rows_max`].
    ScanRows,
    /// [`Bounds::waiting_batches_max`].
    WaitingBatches,
    /// [`Bounds::waiting_bytes_max`].
    WaitingBytes,
}

impl Bound {
    fn words(self) -> &'static str {
        match self {
            Self::KeyBytes => "bytes in a key",
            Self::ValueBytes => "bytes in a value",
            Self::BatchWrites => "writes in a batch",
            Self::BatchConditions => "preconditions in a batch",
            Self::BatchBytes => "bytes in a batch",
            Self::ScanRows => "rows in a scan",
            Self::WaitingBatches => "waiting batches",
            Self::WaitingBytes => "waiting bytes",
        }
    }
}

/// Something is larger than its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{got} {}; at most {max} are allowed", bound.words())]
pub struct OutOfBounds {
    /// Which bound.
    pub bound: Bound,
    /// What was asked for.
    pub got: usize,
    /// What is allowed.
    pub max: usize,
}

pub(crate) fn at_most(bound: Bound, got: usize, max: usize) -> Result<(), OutOfBounds> {
    if got > max { Err(OutOfBounds { bound, got, max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds that contradict each other are refused, in words.
    #[test]
    fn contradictions_are_refused() {
        assert_eq!(Bounds::DEFAULT.check(), Ok(()));
        let small = Bounds { waiting_bytes_max: MIB, ..Bounds::DEFAULT };
        let error = small.check().expect_err("a batch could never be accepted");
        assert_eq!(
            error.to_string(),
            format!("{} bytes in a batch; at most {MIB} are allowed", 64 * MIB)
        );
        assert!(Bounds { key_bytes_max: 70_000, ..Bounds::DEFAULT }.check().is_err());
        assert!(Bounds { waiting_batches_max: 0, ..Bounds::DEFAULT }.check().is_err());
        assert!(Bounds { waiting_batches_max: usize::MAX, ..Bounds::DEFAULT }.check().is_err());
        assert!(Bounds { waiting_bytes_max: usize::MAX, ..Bounds::DEFAULT }.check().is_err());
    }
}
