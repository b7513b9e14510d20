//! Durations as people write them: `250ms`, `10s`, `2h`.

/// Units and their microseconds.
const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// Microseconds, or what is wrong.
pub(crate) fn micros(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let found = UNITS.iter().find(|(name, _)| *name == unit.trim());
    let micros = found.and_then(|(_, micros)| number.parse::<u64>().ok()?.checked_mul(*micros));
    micros.ok_or_else(|| {
        format!("`{text}` is not a duration: write a number with us, ms, s, m, h or d, as in `10s`")
    })
}

/// The two ends of a range such as `1s..60s`.
pub(crate) fn range(text: &str) -> Result<(u64, u64), String> {
    let Some((base, cap)) = text.split_once("..") else {
        return Err(format!("`{text}` is not a range of durations: write one as in `1s..60s`"));
    };
    let (base, cap) = (micros(base.trim())?, micros(cap.trim())?);
    if base > cap {
        return Err(format!("`{text}` begins with a longer duration than it ends with"));
    }
    Ok((base, cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(micros("250ms"), Ok(250_000));
        assert_eq!(micros("10 s"), Ok(10_000_000));
        assert_eq!(micros("2h"), Ok(7_200_000_000));
        for wrong in ["", "s", "10", "10 weeks", "-1s", "1.5s", "99999999999999999999s"] {
            assert!(micros(wrong).is_err(), "{wrong}");
        }
        assert_eq!(range("1s..1m"), Ok((1_000_000, 60_000_000)));
        assert!(range("1s").is_err());
        assert!(range("2s..1s").is_err());
    }
}
