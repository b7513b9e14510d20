//! Times for people: how long ago, how long until, and times as people write them.

use indelible_journal::{Micros, Timestamp};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// A time as a user writes it: absolute, or so long before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    Ago(Micros),
}

/// For clap: `30m`, `2d`, or a time as RFC 3339 has it.
pub(crate) fn when(text: &str) -> Result<When, String> {
    if let Ok(time) = text.parse() {
        return Ok(When::At(time));
    }
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "s" => SECOND,
        "m" | "min" => MINUTE,
        "h" => HOUR,
        "d" => DAY,
        "w" => WEEK,
        _ => 0,
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(micros) if unit > 0 => Ok(When::Ago(Micros::new(micros))),
        _ => Err("give a time as an age (45s, 30m, 2h or 7d) or as 2026-03-14T09:26:53Z".into()),
    }
}

impl When {
    /// The absolute time.
    pub(crate) fn time(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(micros) => {
                let micros = now.as_micros().saturating_sub(micros.get());
                Timestamp::from_micros(micros).unwrap_or(Timestamp::EPOCH)
            }
        }
    }
}

/// A time as a server writes it.
pub(crate) fn told(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// The time to the second.
pub(crate) fn second(time: Timestamp) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// `12 s`, `3 min`, `2 h`, `5 d`: cut, not rounded.
fn roughly(micros: u64) -> String {
    match micros {
        0..MINUTE => format!("{} s", micros / SECOND),
        MINUTE..HOUR => format!("{} min", micros / MINUTE),
        HOUR..DAY => format!("{} h", micros / HOUR),
        _ => format!("{} d", micros / DAY),
    }
}

/// How long ago a time was. Clocks differ: a time in the future counts as now.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> String {
    match now.saturating_since(time).get() {
        0..SECOND => "just now".to_owned(),
        micros => format!("{} ago", roughly(micros)),
    }
}

/// How long it is until a time.
pub(crate) fn until(time: Timestamp, now: Timestamp) -> String {
    match time.saturating_since(now).get() {
        0..SECOND => "now".to_owned(),
        micros => format!("in {}", roughly(micros)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A duration in one unit or an absolute time is read; anything else is refused.
    #[test]
    fn times_that_people_name() {
        let ago = |micros| Ok(When::Ago(Micros::new(micros)));
        assert_eq!(when("45s"), ago(45 * SECOND));
        assert_eq!(when("30m"), ago(30 * MINUTE));
        assert_eq!(when("30min"), ago(30 * MINUTE));
        assert_eq!(when("1h"), ago(HOUR));
        assert_eq!(when("2d"), ago(2 * DAY));
        assert_eq!(when("1w"), ago(WEEK));
        let at = "2026-03-14T09:26:53Z";
        assert_eq!(when(at), Ok(When::At(time(at))));
        assert_eq!(when("2026-03-14T10:26:53+01:00"), Ok(When::At(time(at))));
        for bad in ["", "5", "h", "-1h", "1.5h", "1y", "yesterday", "99999999999999999999d", "日"]
        {
            assert!(when(bad).is_err(), "{bad}");
        }
        let now = time(at);
        assert_eq!(second(when("1h").unwrap().time(now)), "2026-03-14T08:26:53Z");
        assert_eq!(when("999999w").unwrap().time(now), Timestamp::EPOCH);
    }

    /// Durations are cut, not rounded, and never negative.
    #[test]
    fn how_long_ago_and_until() {
        let now = time("2026-03-14T09:26:53.5Z");
        assert_eq!(ago(time("2026-03-14T09:26:53Z"), now), "just now");
        assert_eq!(ago(time("2026-03-14T09:26:50Z"), now), "3 s ago");
        assert_eq!(ago(time("2026-03-14T09:23:50Z"), now), "3 min ago");
        assert_eq!(ago(time("2026-03-14T06:23:50Z"), now), "3 h ago");
        assert_eq!(ago(time("2026-03-11T06:23:50Z"), now), "3 d ago");
        assert_eq!(ago(time("2027-03-11T06:23:50Z"), now), "just now", "clocks differ");
        assert_eq!(until(time("2026-03-14T09:26:53Z"), now), "now");
        assert_eq!(until(time("2026-03-14T09:31:53.5Z"), now), "in 5 min");
        assert_eq!(second(now), "2026-03-14T09:26:53Z");
    }
}
