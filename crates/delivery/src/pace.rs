//! The rate of an endpoint: when the next attempt may begin so that there are not more than so many
//! a second.

use std::num::NonZeroU32;

use indelible_journal::{Micros, Timestamp};

/// The pace of one endpoint. It is kept in memory: after a restart the next second begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// When the next attempt would begin if they were spread evenly.
    next: Timestamp,
}

impl Pace {
    /// Whether an attempt may begin now; otherwise when. A second that was quiet allows a burst of
    /// one second's attempts.
    pub fn admit(&mut self, now: Timestamp, per_second: NonZeroU32) -> Result<(), Timestamp> {
        const SECOND: u64 = 1_000_000;
        let spacing = SECOND.div_ceil(u64::from(per_second.get()));
        let next = self.next.max(now);
        let burst = Micros::new(SECOND - spacing.min(SECOND));
        if next.saturating_since(now) > burst {
            let wait = next.as_micros() - burst.get();
            return Err(Timestamp::from_micros(wait).unwrap_or(Timestamp::MAX));
        }
        self.next = next.saturating_add(Micros::new(spacing));
        Ok(())
    }
}
