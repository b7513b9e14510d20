//! Reads numbers, lengths and texts from a row, each checked. It knows no events. Nothing here
//! allocates or panics because of what the row claims.

use bytes::Bytes;

use super::error::DecodeError;
use super::number::Numbered;
use super::varint::{self, VarintError};
use crate::names::NameError;
use crate::time::Micros;

/// The part of a row that is still to be read.
pub(super) struct Cursor<'a> {
    row: &'a Bytes,
    /// Always a suffix of `row`.
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(row: &'a Bytes) -> Self {
        Self { row, rest: row }
    }

    /// How many bytes have been read.
    pub(super) fn offset(&self) -> usize {
        self.row.len() - self.rest.len()
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let split = self.rest.split_at_checked(count);
        let (taken, rest) = split.ok_or(DecodeError::Truncated { offset: self.offset() })?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let split = self.rest.split_first();
        let (&byte, rest) = split.ok_or(DecodeError::Truncated { offset: self.offset() })?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        match varint::read(self.rest) {
            Ok((value, length)) => {
                self.rest = &self.rest[length..];
                Ok(value)
            }
            Err(error) => Err(self.bad_varint(error)),
        }
    }

    #[cold]
    fn bad_varint(&self, error: VarintError) -> DecodeError {
        let offset = self.offset();
        match error {
            VarintError::Truncated => DecodeError::Truncated { offset },
            VarintError::Overlong => {
                DecodeError::Malformed { offset, what: "a number is longer than it needs to be" }
            }
            VarintError::TooLarge => {
                DecodeError::Malformed { offset, what: "a number is not 64 bits" }
            }
        }
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        let offset = self.offset();
        let wide = self.varint()?;
        u32::try_from(wide)
            .map_err(|_| DecodeError::Malformed { offset, what: "a number is not 32 bits" })
    }

    pub(super) fn micros(&mut self) -> Result<Micros, DecodeError> {
        self.varint().map(Micros::new)
    }

    /// How many elements of at least `bytes_each` follow. They must fit into the rest of the row,
    /// so the row bounds the memory that the caller reserves for them.
    pub(super) fn count(&mut self, bytes_each: usize) -> Result<usize, DecodeError> {
        let offset = self.offset();
        let count = self.varint()?;
        self.room_for(count, bytes_each, offset)
    }

    /// Checks the same for a count that was read at `offset`.
    pub(super) fn room_for(
        &self,
        count: u64,
        bytes_each: usize,
        offset: usize,
    ) -> Result<usize, DecodeError> {
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() / bytes_each => Ok(count),
            _ => Err(DecodeError::Truncated { offset }),
        }
    }

    /// A byte that stands for a variant.
    pub(super) fn numbered<T: Numbered>(&mut self) -> Result<T, DecodeError> {
        let offset = self.offset();
        let number = self.byte()?;
        T::from_number(number).ok_or(DecodeError::Malformed { offset, what: T::UNKNOWN })
    }

    pub(super) fn hash(&mut self) -> Result<[u8; 32], DecodeError> {
        let bytes = self.take(32)?;
        Ok(bytes.try_into().expect("32 bytes were taken"))
    }

    /// Bytes with their length before them: a view of the row, not a copy.
    pub(super) fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let count = self.count(1)?;
        let from = self.offset();
        self.take(count)?;
        Ok(self.row.slice(from..from + count))
    }

    /// Text with its length before it.
    pub(super) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let offset = self.offset();
        let count = self.count(1)?;
        let bytes = self.take(count)?;
        std::str::from_utf8(bytes)
            .map_err(|_| DecodeError::Malformed { offset, what: "a text is not UTF-8" })
    }

    /// Text that must also be a name.
    pub(super) fn name<T>(
        &mut self,
        new: impl FnOnce(&str) -> Result<T, NameError>,
    ) -> Result<T, DecodeError> {
        let offset = self.offset();
        let text = self.text()?;
        new(text).map_err(|source| DecodeError::Name { offset, source })
    }

    /// Checks that the row was read to its end.
    pub(super) fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { offset: self.offset(), count }),
        }
    }
}

/// The last value of a kind that was read, and its bytes. The calls of one batch mostly repeat one
/// function and one policy: equal bytes share the value, which is not parsed again.
///
/// That is sound because an encoding determines where it ends: bytes that begin with it cannot be
/// read as anything else.
pub(super) struct Memo<'a, T> {
    last: Option<(&'a [u8], T)>,
}

impl<'a, T: Clone> Memo<'a, T> {
    pub(super) const EMPTY: Self = Self { last: None };

    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'a>,
        parse: impl FnOnce(&mut Cursor<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if let Some((bytes, value)) = &self.last
            && let Some(rest) = cursor.rest.strip_prefix(*bytes)
        {
            cursor.rest = rest;
            return Ok(value.clone());
        }
        let before = cursor.rest;
        let value = parse(cursor)?;
        let bytes = &before[..before.len() - cursor.rest.len()];
        self.last = Some((bytes, value.clone()));
        Ok(value)
    }
}
