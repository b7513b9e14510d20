//! Randomness: what the host gives, the same when the function runs again after a crash.

use std::fmt::Write as _;

use crate::host;

/// What can be had at random.
pub trait Random {
    /// One of all the values that there are, each as likely as any other.
    fn random() -> Self;
}

/// A random value: `random::<u64>()`, `random::<[u8; 32]>()`.
#[must_use]
pub fn random<T: Random>() -> T {
    T::random()
}

/// A random UUID, version 4, as text.
#[must_use]
pub fn random_uuid() -> String {
    uuid(random())
}

/// Bytes that were drawn as a UUID: six bits say that they are random.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        _ = write!(text, "{byte:02x}");
    }
    text
}

/// The host gives at most 65,536 bytes at once.
impl<const N: usize> Random for [u8; N] {
    fn random() -> Self {
        let mut bytes = [0; N];
        for part in bytes.chunks_mut(65_536) {
            let drawn = host::random(u32::try_from(part.len()).unwrap_or(u32::MAX));
            part.copy_from_slice(&drawn);
        }
        bytes
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Random for $number {
            fn random() -> Self {
                Self::from_le_bytes(random())
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

impl Random for bool {
    fn random() -> Self {
        u8::random() & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_says_what_it_is() {
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}
