//! Numbers by their exact decimal value.
//!
//! A number is its significant digits and where the point stands; nothing passes through a float.
//! It is written the way ECMAScript writes its numbers, and so RFC 8785: plainly where the point
//! is at most 21 digits from the first one, or five zeros before it, else with an exponent. For a
//! number that a double holds exactly as written, the two agree.

/// The largest exponent that is taken, as it is written. No real number needs more, and a bound
/// keeps the arithmetic in range.
const EXPONENT_MAX: i64 = 1_000_000;

/// Where the plain notation ends, as ECMAScript has it.
const PLAIN_DIGITS_MAX: i64 = 21;
const PLAIN_ZEROS_MAX: i64 = 6;

/// An exponent beyond [`EXPONENT_MAX`].
#[derive(Debug)]
pub(super) struct ExponentOutOfRange;

/// Writes a JSON number, given as it stands in the text.
pub(super) fn write(literal: &str, out: &mut Vec<u8>) -> Result<(), ExponentOutOfRange> {
    let (negative, unsigned) = match literal.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, literal),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    let leading = digits.len() - significant.len();
    let significant = significant.trim_end_matches('0').as_bytes();
    if significant.is_empty() {
        // Zero has no sign here: -0 and 0 are one number.
        out.push(b'0');
        return Ok(());
    }
    if negative {
        out.push(b'-');
    }
    // The value is 0.d1d2…dk times ten to the power of `point`.
    let point = whole.len() as i64 - leading as i64 + exponent;
    format(significant, point, out);
    Ok(())
}

fn parse_exponent(text: &str) -> Result<i64, ExponentOutOfRange> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.trim_start_matches('0');
    let size: i64 = match digits {
        "" => 0,
        // Too many digits for an i64 are too many for us.
        _ => digits.parse().map_err(|_| ExponentOutOfRange)?,
    };
    if size > EXPONENT_MAX { Err(ExponentOutOfRange) } else { Ok(sign * size) }
}

fn format(digits: &[u8], point: i64, out: &mut Vec<u8>) {
    let count = digits.len() as i64;
    if (count..=PLAIN_DIGITS_MAX).contains(&point) {
        out.extend_from_slice(digits);
        zeros(point - count, out);
    } else if (1..=PLAIN_DIGITS_MAX).contains(&point) {
        let (whole, fraction) = digits.split_at(point as usize);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else if point > -PLAIN_ZEROS_MAX && point <= 0 {
        out.extend_from_slice(b"0.");
        zeros(-point, out);
        out.extend_from_slice(digits);
    } else {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        let exponent = point - 1;
        out.push(if exponent < 0 { b'-' } else { b'+' });
        out.extend_from_slice(exponent.unsigned_abs().to_string().as_bytes());
    }
}

fn zeros(count: i64, out: &mut Vec<u8>) {
    out.extend(std::iter::repeat_n(b'0', count as usize));
}
