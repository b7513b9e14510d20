//! Unsigned LEB128, in its one shortest form.
//!
//! Seven bits a byte, the lowest first; the top bit says that another byte follows. A reader that
//! took longer forms would let one journal have many encodings, and then bytes could not be
//! compared in place of events.

/// The most bytes that a `u64` takes.
pub(super) const BYTES_MAX: usize = 10;

/// Why bytes do not begin with a varint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VarintError {
    /// They end before it does.
    Truncated,
    /// A shorter form of the same number exists.
    Overlong,
    /// The number does not fit 64 bits.
    TooLarge,
}

/// Appends `value`.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number that `bytes` begin with, and how many bytes it takes.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    match bytes.first() {
        // Most numbers are child numbers, lengths and time steps: one byte.
        Some(&byte) if byte < 0x80 => Ok((u64::from(byte), 1)),
        _ => read_long(bytes),
    }
}

fn read_long(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        // Nine times seven bits leave one for the last byte; so there is never an eleventh, and
        // the shift below never passes 63.
        if index == BYTES_MAX - 1 && byte > 1 {
            return Err(VarintError::TooLarge);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            let overlong = byte == 0 && index > 0;
            return if overlong { Err(VarintError::Overlong) } else { Ok((value, index + 1)) };
        }
    }
    Err(VarintError::Truncated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, value);
        out
    }

    /// The edges of each length, byte for byte.
    #[test]
    fn edges() {
        assert_eq!(written(0), [0]);
        assert_eq!(written(127), [0x7f]);
        assert_eq!(written(128), [0x80, 1]);
        assert_eq!(written(16_383), [0xff, 0x7f]);
        assert_eq!(written(16_384), [0x80, 0x80, 1]);
        let most = written(u64::MAX);
        assert_eq!(most, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(read(&most), Ok((u64::MAX, BYTES_MAX)));
    }

    /// A number has one form: no other is read.
    #[test]
    fn other_forms_are_refused() {
        assert_eq!(read(&[]), Err(VarintError::Truncated));
        assert_eq!(read(&[0x80]), Err(VarintError::Truncated));
        assert_eq!(read(&[0xff; 9]), Err(VarintError::Truncated));
        assert_eq!(read(&[0x80, 0]), Err(VarintError::Overlong));
        assert_eq!(read(&[0xff, 0x80, 0]), Err(VarintError::Overlong));
        let mut long = [0xff; 11];
        assert_eq!(read(&long), Err(VarintError::TooLarge));
        long[9] = 2;
        assert_eq!(read(&long), Err(VarintError::TooLarge));
        long[9] = 0;
        assert_eq!(read(&long), Err(VarintError::Overlong));
    }

    proptest! {
        /// What is written is read, whatever follows it.
        #[test]
        fn round_trip(bits in 0_u32..64, value: u64, rest: Vec<u8>) {
            let value = value >> bits;
            let mut bytes = written(value);
            let length = bytes.len();
            bytes.extend(rest);
            prop_assert_eq!(read(&bytes), Ok((value, length)));
        }

        /// What is read would be written the same.
        #[test]
        fn canonical(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            if let Ok((value, length)) = read(&bytes) {
                prop_assert_eq!(written(value), &bytes[..length]);
            }
        }
    }
}
