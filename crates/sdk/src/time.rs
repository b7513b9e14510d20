//! Time: what the host says it is, and waiting for it to pass.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::host;
use crate::promise::{self, Promise};

const MICROS_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// A moment, to the microsecond. The same when the function runs again after a crash.
///
/// As JSON it is the number of microseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

/// The time. It never goes back within an execution.
///
/// `SystemTime::now()` and `Instant::now()` panic in a guest: what they say could not be repeated.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp(host::now())
}

/// Waits for some time, for years if need be.
///
/// # Errors
/// This execution is being cancelled.
pub fn sleep(duration: Duration) -> Result<(), Error> {
    timer(duration).wait()
}

/// Starts a timer: a promise that ends after some time. Nothing need be done with it.
pub fn timer(duration: Duration) -> Promise<()> {
    promise::timer(duration)
}

/// Microseconds, in which the contract counts; longer durations become the longest that fits.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Timestamp {
    /// So many microseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long it is since an earlier moment; zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }
}

impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// As RFC 3339 has it, in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / MICROS_PER_SECOND, self.0 % MICROS_PER_SECOND);
        let (day, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        let (year, month, day) = date(day);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Year, month and day of a day since 1970. Years are counted from March, so that the day that
/// leap years add is their last, and months have a regular length: 153 days in five.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097; // 400 years
    const FROM_YEAR_0: u64 = 719_468; // 0000-03-01 to 1970-01-01
    let days = days + FROM_YEAR_0;
    let (era, day) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (951_868_799_999_999, "2000-02-29T23:59:59.999999Z"),
            (951_868_800_000_000, "2000-03-01T00:00:00.000000Z"),
            (1_763_257_916_000_001, "2025-11-16T01:51:56.000001Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
        }
    }

    #[test]
    fn arithmetic() {
        let start = Timestamp::from_micros(5);
        let later = start + Duration::from_millis(2);
        assert_eq!(later.as_micros(), 2_005);
        assert_eq!(later - start, Duration::from_millis(2));
        assert_eq!(start - later, Duration::ZERO);
        assert_eq!(micros(Duration::MAX), u64::MAX);
    }
}
