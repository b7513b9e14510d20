//! Finds roots by a prefix of their id, since people do not type 64 digits. Executions are stored
//! by the hash of their root, so matching roots are adjacent; a tree is passed over in one step,
//! however large it is.

use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use indelible_journal::{ExecutionId, RootHash};
use indelible_store::{KeyRange, ReadError, Scan, Seen, Snapshot, prefix_range};

use super::executions;
use super::index::place;
use super::listing::{Cursor, Filter, Listing, PAGE_MAX};
use super::{EXECUTIONS, codec};

/// The shortest prefix: six digits stand for one root in sixteen million.
pub const DIGITS_MIN: usize = 6;

/// The longest prefix: a whole root hash.
pub const DIGITS_MAX: usize = 64;

/// The most trees that are looked at for a page, of any namespace: a client that chooses operation
/// ids can make root ids with the same prefix. Each tree takes two reads: a page takes some
/// milliseconds. By chance so many trees share six digits only when there are more than a billion.
pub const TREES_MAX: usize = 100;

/// A prefix of the ids of roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdPrefix {
    /// The digits that make whole bytes.
    bytes: Bytes,
    /// The last digit, if the number of digits is odd.
    half: Option<u8>,
}

/// A text that is not the prefix of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use {DIGITS_MIN} to {DIGITS_MAX} lower-case hexadecimal digits")]
pub struct IdPrefixError;

impl FromStr for IdPrefix {
    type Err = IdPrefixError;

    fn from_str(text: &str) -> Result<Self, IdPrefixError> {
        if !(DIGITS_MIN..=DIGITS_MAX).contains(&text.len()) {
            return Err(IdPrefixError);
        }
        // An odd number of digits gets one more to decode, which is removed again.
        let is_odd = text.len() % 2 == 1;
        let digits = if is_odd { format!("{text}0") } else { text.to_owned() };
        let mut bytes = HEXLOWER.decode(digits.as_bytes()).map_err(|_| IdPrefixError)?;
        let half = if is_odd { bytes.pop().map(|byte| byte >> 4) } else { None };
        Ok(Self { bytes: bytes.into(), half })
    }
}

impl fmt::Display for IdPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.bytes))?;
        self.half.map_or(Ok(()), |half| write!(f, "{half:x}"))
    }
}

impl IdPrefix {
    /// The keys of all trees with this prefix.
    pub(super) fn range(&self) -> KeyRange {
        let Some(half) = self.half else { return prefix_range(self.bytes.clone()) };
        let with = |digit: u8| {
            let mut bytes = self.bytes.to_vec();
            bytes.push(digit << 4);
            Bytes::from(bytes)
        };
        match half {
            0xf => (Bound::Included(with(half)), prefix_range(self.bytes.clone()).1),
            _ => (Bound::Included(with(half)), Bound::Excluded(with(half + 1))),
        }
    }
}

/// A page of the roots with this prefix, each by its last attempt, the newest first.
pub(super) fn list(
    snapshot: &Snapshot,
    filter: &Filter,
    prefix: &IdPrefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Seen<Listing>, ReadError> {
    let position = snapshot.position();
    let mut found = Vec::new();
    let mut scan = Scan { range: prefix.range(), ..Scan::all(EXECUTIONS, 1) };
    for looked_at in 0.. {
        let Some((key, _)) = snapshot.scan(&scan)?.value.rows.into_iter().next() else { break };
        if looked_at == TREES_MAX {
            let value = Listing { crowded: true, ..Listing::default() };
            return Ok(Seen { value, position });
        }
        let hash = key.get(..32).and_then(|hash| <[u8; 32]>::try_from(hash).ok());
        let hash = hash.ok_or_else(|| codec::damaged(&EXECUTIONS, &key, "its key is too short"));
        let hash = snapshot.damage().noted(hash)?;
        let root = ExecutionId::root_of(RootHash::from_bytes(hash));
        // Only a tree that is being swept has no root.
        if let Some(execution) = executions::latest(snapshot, &root)?.value
            && filter.passes(&execution)
        {
            found.push((place(execution.created_at, &execution.key), execution));
        }
        match prefix_range(key.slice(..32)).1 {
            Bound::Excluded(next) => scan.range.0 = Bound::Included(next),
            _ => break,
        }
    }
    found.retain(|(place, _)| after.is_none_or(|Cursor(after)| place > after));
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    let limit = limit.clamp(1, PAGE_MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = if more { found.last().map(|(place, _)| Cursor(place.clone())) } else { None };
    let executions = found.into_iter().map(|(_, execution)| execution).collect();
    Ok(Seen { value: Listing { executions, next, crowded: false }, position })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only digits, neither too few nor too many; read back as they were written.
    #[test]
    fn beginnings_are_digits() {
        let whole = "0123456789abcdef".repeat(4);
        for good in ["000000", "abcdef0", "ffffff", "fffffff", &whole, &whole[..63]] {
            assert_eq!(good.parse::<IdPrefix>().unwrap().to_string(), good);
        }
        let long = format!("{whole}0");
        for bad in
            ["", "abcde", "ABCDEF", "abcdeg", "abc.ef", " abcdef", "abcdé", "１２３４５６", &long]
        {
            assert_eq!(bad.parse::<IdPrefix>(), Err(IdPrefixError), "{bad}");
        }
    }

    /// The range holds exactly the keys with the prefix, also at the very end.
    #[test]
    fn ranges_hold_what_begins_so() {
        use std::ops::RangeBounds as _;
        let keys = ["abcdef", "abcde0", "abcdf0", "abcdee", "ffffff", "fffffe", "000000", "abcd00"];
        let bytes = |text: &str| {
            let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
            Bytes::from(vec![byte(0), byte(2), byte(4), 7, 7])
        };
        let prefixes = ["abcdef", "abcde0", "ffffff", "000000", "fffffe", "abcdef0", "abcdef07"];
        for prefix in prefixes {
            let range = prefix.parse::<IdPrefix>().unwrap().range();
            for key in keys {
                let begins = format!("{key}0707").starts_with(prefix);
                assert_eq!(range.contains(&bytes(key)), begins, "{prefix} {key}");
            }
        }
        let odd = "abcdeff".parse::<IdPrefix>().unwrap().range();
        assert!(odd.contains(&Bytes::from_static(&[0xab, 0xcd, 0xef, 0xff, 0xff])));
        assert!(!odd.contains(&Bytes::from_static(&[0xab, 0xcd, 0xf0])));
        let last = "fffffff".parse::<IdPrefix>().unwrap().range();
        assert!(last.contains(&Bytes::from_static(&[0xff; 40])));
        assert!(!last.contains(&Bytes::from_static(&[0xff, 0xff, 0xff, 0xef])));
    }
}
