//! Time as values: microseconds, never a clock.

use std::fmt;
use std::str::FromStr;

use jiff::fmt::temporal::DateTimePrinter;

/// A point in time, in microseconds since 1970 UTC. In a journal it is a record for people;
/// replay never reads it (J-6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

/// A length of time, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(u64);

/// Why a text or number is not a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid time: use RFC 3339, from 1970 to 9999-12-30T22:00:00Z, with at most microseconds")]
pub struct TimestampError;

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// The last time that can be written as text: 9999-12-30T22:00:00Z.
    pub const MAX: Self = Self(253_402_207_200_000_000);

    /// Microseconds since 1970; none past [`Timestamp::MAX`].
    pub const fn from_micros(micros: u64) -> Option<Self> {
        if micros > Self::MAX.0 { None } else { Some(Self(micros)) }
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time that much later, or [`Timestamp::MAX`].
    pub fn saturating_add(self, by: Micros) -> Self {
        Self(self.0.saturating_add(by.0)).min(Self::MAX)
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn saturating_since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

/// RFC 3339 with six decimals: all of one width, so that columns line up and text sorts.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
        let micros = i64::try_from(self.0).map_err(|_| fmt::Error)?;
        let time = jiff::Timestamp::from_microsecond(micros).map_err(|_| fmt::Error)?;
        f.pad(&PRINTER.timestamp_to_string(&time))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let time: jiff::Timestamp = text.parse().map_err(|_| TimestampError)?;
        if time.as_nanosecond() % 1_000 != 0 {
            return Err(TimestampError);
        }
        u64::try_from(time.as_microsecond()).ok().and_then(Self::from_micros).ok_or(TimestampError)
    }
}

impl Micros {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// That many microseconds.
    pub const fn new(micros: u64) -> Self {
        Self(micros)
    }

    /// That many milliseconds, or the longest there is.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// That many seconds, or the longest there is.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// In microseconds.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// `250us`, `1.5ms`, `30s`: the largest unit that keeps the number at 1 or more.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0 => (1, "s"),
            1..1_000 => (1, "us"),
            1_000..1_000_000 => (1_000, "ms"),
            _ => (1_000_000, "s"),
        };
        let (whole, rest) = (self.0 / unit, self.0 % unit);
        let width = match unit {
            1 => 0,
            1_000 => 3,
            _ => 6,
        };
        let mut text = whole.to_string();
        if rest > 0 {
            text.push('.');
            text.push_str(format!("{rest:0width$}").trim_end_matches('0'));
        }
        text.push_str(name);
        f.pad(&text)
    }
}

impl fmt::Debug for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
