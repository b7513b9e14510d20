//! Keys as fjall takes them: it has no empty key, and a batch with one would end in a panic.
//!
//! Every key of zeros alone, the empty one included, gets one zero more; all others stay as they
//! are. Keys of zeros sort before all others, so the order is kept, and no two keys become one.

use std::ops::Bound;

use bytes::Bytes;

use crate::backend::KeyRange;

fn is_zeros(key: &[u8]) -> bool {
    key.iter().all(|&byte| byte == 0)
}

/// The key under which fjall has a row.
pub(super) fn stored(key: Bytes) -> Bytes {
    if is_zeros(&key) { vec![0; key.len() + 1].into() } else { key }
}

/// The same, of a key that is only looked up.
pub(super) fn looked_up<T>(key: &[u8], look: impl FnOnce(&[u8]) -> T) -> T {
    if is_zeros(key) { look(&vec![0; key.len() + 1]) } else { look(key) }
}

/// The same, of both ends of a range.
pub(super) fn stored_range((start, end): &KeyRange) -> KeyRange {
    let end_stored = |end: &Bound<Bytes>| end.clone().map(stored);
    (end_stored(start), end_stored(end))
}

/// The key of a row that fjall has.
pub(super) fn given(mut stored: Bytes) -> Bytes {
    if is_zeros(&stored) {
        stored.truncate(stored.len().saturating_sub(1));
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No key is stored as an empty one, each comes back, and the order is the same.
    #[test]
    fn order_is_kept() {
        let mut keys: Vec<Bytes> = vec![Bytes::new()];
        for _ in 0..4 {
            let longer = keys.iter().flat_map(|key| {
                [0, 1, 0xff].map(|byte| Bytes::from([key.as_ref(), &[byte]].concat()))
            });
            let longer: Vec<_> = longer.collect();
            keys.extend(longer);
        }
        keys.sort();
        keys.dedup();
        let all: Vec<_> = keys.iter().cloned().map(stored).collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        assert!(!all[0].is_empty());
        for (key, stored) in keys.iter().zip(all) {
            looked_up(key, |looked_up| assert_eq!(looked_up, stored));
            assert_eq!(given(stored), key);
        }
    }
}
