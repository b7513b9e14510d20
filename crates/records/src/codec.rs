//! How rows are encoded: numbers that sort, text with its length, and the seal around a value.
//!
//! A sealed value is `version ‖ body ‖ check`. The check covers the table, the key and all before
//! it, so that a value under the wrong key is damage, however it came there.

use std::ops::RangeInclusive;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::Timestamp;
use indelible_store::{Batch, Read, ReadError, Scan, Seen, Table};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// How many bytes the check at the end has.
const CHECK_BYTES: usize = 4;

/// A value with its version before and its check behind it.
pub(crate) fn seal(table: &Table, key: &[u8], version: u8, body: &[u8]) -> Bytes {
    let mut value = BytesMut::with_capacity(1 + body.len() + CHECK_BYTES);
    value.put_u8(version);
    value.put_slice(body);
    let check = check(table, key, &value);
    value.put_u32(check);
    value.freeze()
}

/// The body of a value of this version.
pub(crate) fn unseal(
    table: &Table,
    key: &Bytes,
    version: u8,
    value: &Bytes,
) -> Result<Bytes, ReadError> {
    unseal_of(table, key, version..=version, value).map(|(_, body)| body)
}

/// The body of a value of one of these versions, and its version.
pub(crate) fn unseal_of(
    table: &Table,
    key: &Bytes,
    versions: RangeInclusive<u8>,
    value: &Bytes,
) -> Result<(u8, Bytes), ReadError> {
    let wrong = |what: String| damaged(table, key, what);
    let Some(end) = value.len().checked_sub(CHECK_BYTES).filter(|end| *end > 0) else {
        return Err(wrong(format!("it has only {} bytes", value.len())));
    };
    if value[end..] != check(table, key, &value[..end]).to_be_bytes() {
        return Err(wrong("its checksum does not match: it is damaged".to_owned()));
    }
    let version = value[0];
    if !versions.contains(&version) {
        let last = versions.end();
        return Err(wrong(format!("it has version {version}; this build reads version {last}")));
    }
    Ok((version, value.slice(1..end)))
}

fn check(table: &Table, key: &[u8], value: &[u8]) -> u32 {
    let place = xxh3_64_with_seed(key, xxh3_64(table.name().as_bytes()));
    (xxh3_64_with_seed(value, place) >> 32) as u32
}

pub(crate) fn damaged(table: &Table, key: &Bytes, what: impl Into<String>) -> ReadError {
    ReadError::Row { table: table.name(), key: key.clone(), what: what.into() }
}

/// Decodes what was read. Rows that do not decode are noted as damage of their store.
pub(crate) fn decoded<T, U>(
    read: &impl Read,
    seen: Seen<T>,
    decode: impl FnOnce(T) -> Result<U, ReadError>,
) -> Result<Seen<U>, ReadError> {
    read.damage().noted(seen.try_map(decode))
}

/// Adds to a batch: this row has this body, sealed.
pub(crate) fn put(batch: &mut Batch, table: Table, key: Bytes, version: u8, body: &[u8]) {
    let value = seal(&table, &key, version, body);
    batch.put(table, key, value);
}

/// One row, decoded.
pub(crate) fn get<T>(
    read: &impl Read,
    table: Table,
    key: &[u8],
    decode: impl FnOnce(&Bytes) -> Result<T, ReadError>,
) -> Result<Seen<Option<T>>, ReadError> {
    decoded(read, read.get(table, key)?, |value| value.as_ref().map(decode).transpose())
}

/// The rows of a scan, decoded.
pub(crate) fn scan<T>(
    read: &impl Read,
    scan: &Scan,
    decode: impl Fn(&Bytes, &Bytes) -> Result<T, ReadError>,
) -> Result<Seen<Vec<T>>, ReadError> {
    decoded(read, read.scan(scan)?, |page| {
        page.rows.iter().map(|(key, value)| decode(key, value)).collect()
    })
}

/// How many rows are read at once of those that can be large.
const STEP_ROWS: usize = 16;

/// A page of rows that can be large ends with the step that brings it to so many bytes.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// The rows of a scan, decoded, until they have many bytes, and whether more follow. A page has at most
/// [`PAGE_BYTES`] and what 16 rows have.
pub(crate) fn scan_large<T>(
    read: &impl Read,
    mut scan: Scan,
    decode: impl Fn(&Bytes, &Bytes) -> Result<T, ReadError>,
) -> Result<Seen<(Vec<T>, bool)>, ReadError> {
    let (mut rows, mut bytes, mut left) = (Vec::new(), 0, scan.rows_max);
    loop {
        scan.rows_max = left.min(STEP_ROWS);
        let seen = read.scan(&scan)?;
        let (position, more) = (seen.position, seen.value.more);
        let last = seen.value.rows.last().map(|(key, _)| key.clone());
        left -= seen.value.rows.len();
        bytes += seen.value.rows.iter().map(|(_, value)| value.len()).sum::<usize>();
        let page = decoded(read, seen, |page| {
            page.rows.iter().map(|(key, value)| decode(key, value)).collect::<Result<Vec<_>, _>>()
        })?;
        rows.extend(page.value);
        match last {
            Some(last) if more && left > 0 && bytes < PAGE_BYTES => scan = scan.after(last),
            _ => return Ok(Seen { value: (rows, more), position }),
        }
    }
}

/// Parses all of these bytes, which are the key or the body of the row with this key.
pub(crate) fn parse<T>(
    table: &Table,
    key: &Bytes,
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<T, ReadError> {
    let mut reader = Reader(bytes);
    let parsed = read(&mut reader).and_then(|parsed| reader.end().map(|()| parsed));
    parsed.map_err(|Malformed(what)| damaged(table, key, what))
}

/// The version of every body in JSON.
pub(crate) const JSON_VERSION: u8 = 1;

/// A body in JSON, of [`JSON_VERSION`]. Err: why it is not one. The error may quote the body, so
/// bodies with secrets need their own.
pub(crate) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    // The version comes before the rest: another version has other fields.
    let Versioned { version } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if version != u32::from(JSON_VERSION) {
        return Err(format!("it has version {version}; this build reads version {JSON_VERSION}"));
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

pub(crate) fn write_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts, numbers and lists are JSON")
}

/// A time in microseconds, from a body in JSON.
pub(crate) fn read_micros(micros: u64) -> Result<Timestamp, String> {
    Timestamp::from_micros(micros).ok_or_else(|| format!("{micros} is not a valid time"))
}

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

impl From<Malformed> for &'static str {
    fn from(Malformed(what): Malformed) -> Self {
        what
    }
}

/// Bytes, read from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take gives as many as were asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("it is neither 0 nor 1")),
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp, Malformed> {
        Timestamp::from_micros(self.u64()?).ok_or(Malformed("a time is later than the year 9999"))
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// A text with its length before it.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u16()?;
        let bytes = self.take(usize::from(length))?;
        str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("it is too long")) }
    }
}

/// A text with its length before it. Texts here are names of at most 255 bytes, or were cut.
pub(crate) fn put_text(out: &mut impl bytes::BufMut, text: &str) {
    let length = u16::try_from(text.len()).expect("texts in rows are bounded");
    out.put_u16(length);
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EXECUTIONS, JOURNALS};

    /// A sealed value reads back under its own table, key and version; anything else is noticed:
    /// any changed bit, another key, another table, a cut, a newer version.
    #[test]
    fn seals_notice_every_change() {
        let key = Bytes::from_static(b"key");
        for body in [&b""[..], b"x", b"a body of some length"] {
            let value = seal(&JOURNALS, &key, 1, body);
            assert_eq!(unseal(&JOURNALS, &key, 1, &value).unwrap(), body);
            for bit in 0..value.len() * 8 {
                let mut flipped = value.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(unseal(&JOURNALS, &key, 1, &flipped.into()).is_err(), "bit {bit}");
            }
            for length in 0..value.len() {
                assert!(unseal(&JOURNALS, &key, 1, &value.slice(..length)).is_err());
            }
            assert!(unseal(&JOURNALS, &Bytes::from_static(b"kez"), 1, &value).is_err());
            assert!(unseal(&EXECUTIONS, &key, 1, &value).is_err());
            let newer = seal(&JOURNALS, &key, 2, body);
            let error = unseal(&JOURNALS, &key, 1, &newer).unwrap_err();
            assert!(error.to_string().contains("version 2"), "{error}");
        }
    }
}
