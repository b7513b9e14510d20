//! Keys that sort as the things they name: all journals of a tree together, by depth, then by path,
//! then by attempts.
//!
//! ```text
//! journal key   root hash (32) ‖ depth (1) ‖ path (4 each) ‖ attempts (4 each, depth + 1)
//! ```
//! Numbers are big-endian. The depth determines the length of the key, so no key is a prefix of
//! another, and more bytes may follow.

use bytes::{BufMut, Bytes, BytesMut};
use indelible_journal::{
    Attempt, Attempts, ExecutionId, JournalKey, Namespace, PromiseId, RootHash,
};

use super::codec::{Malformed, Reader, put_text};

/// Capacity for a key that is not deep, and the number behind it.
const KEY_BYTES_GUESS: usize = 64;

pub(crate) fn put_journal_key(out: &mut impl BufMut, key: &JournalKey) {
    put_execution(out, key.execution_id());
    for attempt in key.attempts().as_slice() {
        out.put_u32(attempt.get());
    }
}

fn put_execution(out: &mut impl BufMut, execution: &ExecutionId) {
    out.put_slice(execution.root().as_bytes());
    out.put_u8(u8::try_from(execution.depth()).expect("executions are at most 64 deep"));
    for segment in execution.path() {
        out.put_u32(*segment);
    }
}

/// The prefix of the keys of all attempts at an execution, and of no others.
pub(crate) fn execution(execution: &ExecutionId) -> Bytes {
    let mut out = BytesMut::with_capacity(KEY_BYTES_GUESS);
    put_execution(&mut out, execution);
    out.freeze()
}

pub(crate) fn journal_key(key: &JournalKey) -> Bytes {
    let mut out = BytesMut::with_capacity(KEY_BYTES_GUESS);
    put_journal_key(&mut out, key);
    out.freeze()
}

pub(crate) fn read_journal_key(reader: &mut Reader<'_>) -> Result<JournalKey, Malformed> {
    let root = RootHash::from_bytes(reader.array()?);
    let depth = usize::from(reader.u8()?);
    let path = (0..depth).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
    let promise = PromiseId::new(root, &path).map_err(|_| Malformed("its path is too deep"))?;
    let execution = ExecutionId::new(promise).map_err(|_| Malformed("its path is too deep"))?;
    let attempts = (0..=depth)
        .map(|_| Attempt::new(reader.u32()?).ok_or(Malformed("an attempt is 0")))
        .collect::<Result<Vec<_>, _>>()?;
    let attempts = Attempts::new(&attempts).ok_or(Malformed("it has too many attempts"))?;
    JournalKey::new(execution, attempts)
        .map_err(|_| Malformed("the number of its attempts does not match its path"))
}

/// The journal's row that begins with this entry.
pub(crate) fn journal_row(key: &JournalKey, first: u64) -> Bytes {
    let mut out = BytesMut::with_capacity(KEY_BYTES_GUESS);
    put_journal_key(&mut out, key);
    out.put_u64(first);
    out.freeze()
}

/// The key of something that is unique within a namespace.
pub(crate) fn namespaced(namespace: &Namespace, name: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(KEY_BYTES_GUESS);
    put_text(&mut out, namespace.as_str());
    out.put_slice(name.as_bytes());
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(root: u8, path: &[u32], attempts: &[u32]) -> JournalKey {
        let promise = PromiseId::new(RootHash::from_bytes([root; 32]), path).unwrap();
        let attempts: Vec<_> = attempts.iter().map(|n| Attempt::new(*n).unwrap()).collect();
        let execution = ExecutionId::new(promise).unwrap();
        JournalKey::new(execution, Attempts::new(&attempts).unwrap()).unwrap()
    }

    /// Keys read back, sort by tree, depth, path and attempts as numbers do, and none begins
    /// with another.
    #[test]
    fn journal_keys_sort_and_read_back() {
        let deepest: Vec<u32> = (0..63).collect();
        let sorted = [
            key(1, &[], &[1]),
            key(1, &[], &[2]),
            key(1, &[], &[256]),
            key(1, &[0], &[1, 1]),
            key(1, &[2], &[1, 1]),
            key(1, &[10], &[1, 1]),
            key(1, &[10], &[1, 2]),
            key(1, &[10], &[2, 1]),
            key(1, &[0, 0], &[1, 1, 1]),
            key(1, &deepest, &[7; 64]),
            key(2, &[], &[1]),
        ];
        let bytes: Vec<_> = sorted.iter().map(journal_key).collect();
        assert!(bytes.is_sorted());
        for (key, bytes) in sorted.iter().zip(&bytes) {
            let mut reader = Reader(bytes);
            assert_eq!(read_journal_key(&mut reader).as_ref(), Ok(key));
            assert_eq!(reader.end(), Ok(()));
            for cut in 0..bytes.len() {
                assert!(read_journal_key(&mut Reader(&bytes[..cut])).is_err());
            }
        }
        for a in &bytes {
            assert_eq!(bytes.iter().filter(|b| b.starts_with(a)).count(), 1);
        }
        // The number of an entry sorts behind the key, and the deepest row fits the bound.
        assert!(journal_row(&sorted[0], 9) < journal_row(&sorted[0], 10));
        assert!(journal_row(&sorted[0], u64::MAX) < bytes[1]);
        let row = journal_row(&sorted[9], 0);
        assert!(row.len() < indelible_store::Bounds::DEFAULT.key_bytes_max / 2, "{}", row.len());
    }

    /// A key that this code never writes is refused, not guessed at.
    #[test]
    fn impossible_journal_keys_are_refused() {
        let mut zero_attempt = journal_key(&key(1, &[], &[1])).to_vec();
        *zero_attempt.last_mut().unwrap() = 0;
        assert!(read_journal_key(&mut Reader(&zero_attempt)).is_err());
        let mut too_deep = vec![0; 33 + 65 * 4 * 2];
        too_deep[32] = 64;
        assert!(read_journal_key(&mut Reader(&too_deep)).is_err());
    }
}
