//! The bytes of a backup: its head, and the frames that follow.
//!
//! ```text
//! head    magic (16) ‖ version (4) ‖ position (8) ‖ made at (8) ‖ check (8)
//! frame   kind (1) ‖ number (8) ‖ length (4) ‖ check of these (4) ‖ body ‖ check (8)
//! ```
//! Each check continues the one before, so that a frame is good only in its place.

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_store::Position;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{Counts, Header, VERSION};
use crate::codec::{Malformed, Reader, put_text};

/// The first bytes of every backup.
pub(super) const MAGIC: &[u8; 16] = b"indelible backup";

/// How many bytes the magic and the version have, which are the same in every version.
pub(super) const BEGIN_BYTES: usize = 20;

/// How many bytes the whole head has.
pub(super) const HEAD_BYTES: usize = BEGIN_BYTES + 8 + 8 + CHECK_BYTES;

/// How many bytes come before the body of a frame.
pub(super) const FRAME_HEAD_BYTES: usize = 1 + 8 + 4 + 4;

/// How many bytes the check at the end of the head, or of a frame, has.
pub(super) const CHECK_BYTES: usize = 8;

/// How many bytes the hash over everything has.
pub(super) const HASH_BYTES: usize = 16;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The name of the table that the next rows are of.
    Table = 1,
    /// Rows of the last table.
    Rows = 2,
    /// The end of the backup.
    End = 3,
}

impl Kind {
    fn from_number(number: u8) -> Option<Self> {
        [Self::Table, Self::Rows, Self::End].into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A place in a backup, which the checks of the next frame depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain {
    check: u64,
    number: u64,
}

/// The head of a frame, which comes before the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) kind: Kind,
    pub(super) length: usize,
}

/// The head of a backup, and the place where its frames begin.
pub(super) fn head(header: &Header) -> (Bytes, Chain) {
    let mut out = BytesMut::with_capacity(HEAD_BYTES);
    out.put_slice(MAGIC);
    out.put_u32(VERSION);
    out.put_u64(header.position.number());
    out.put_u64(header.made_at.as_micros());
    let check = xxh3_64(&out);
    out.put_u64(check);
    (out.freeze(), Chain { check, number: 0 })
}

/// Decodes a head of this version. Its magic and version were checked before.
pub(super) fn read_head(bytes: &[u8; HEAD_BYTES]) -> Result<(Header, Chain), Malformed> {
    let (said, check) = bytes.split_at(HEAD_BYTES - CHECK_BYTES);
    let found = xxh3_64(said);
    if found.to_be_bytes() != *check {
        return Err(Malformed("the checksum of the file header does not match"));
    }
    let mut reader = Reader(&said[BEGIN_BYTES..]);
    let position = Position::new(reader.u64()?);
    let made_at = reader.timestamp()?;
    reader.end()?;
    Ok((Header { position, made_at }, Chain { check: found, number: 0 }))
}

impl Chain {
    /// Encodes a whole frame.
    pub(super) fn frame(&mut self, kind: Kind, body: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(FRAME_HEAD_BYTES + body.len() + CHECK_BYTES);
        out.put_u8(kind as u8);
        out.put_u64(self.number);
        out.put_u32(u32::try_from(body.len()).expect("a frame has some rows, or a large one"));
        let check = self.head_check(&out);
        out.put_u32(check);
        out.put_slice(body);
        self.check = xxh3_64_with_seed(&out, self.check);
        self.number += 1;
        out.put_u64(self.check);
        out.freeze()
    }

    /// Decodes a frame's head, if it is the head of the next frame.
    pub(super) fn read_frame_head(
        self,
        bytes: &[u8; FRAME_HEAD_BYTES],
    ) -> Result<FrameHead, Malformed> {
        let mut reader = Reader(bytes);
        let said = Malformed("the checksum of a frame header does not match");
        let (kind, number, length) = (reader.u8()?, reader.u64()?, reader.u32()?);
        if reader.u32()? != self.head_check(&bytes[..FRAME_HEAD_BYTES - 4]) {
            return Err(said);
        }
        if number != self.number {
            return Err(Malformed("a frame is out of order"));
        }
        let kind = Kind::from_number(kind).ok_or(Malformed("a frame is of unknown kind"))?;
        let length = usize::try_from(length).map_err(|_| Malformed("a frame is too long"))?;
        Ok(FrameHead { kind, length })
    }

    /// Checks the bytes behind a frame's body.
    pub(super) fn read_frame_end(
        &mut self,
        head: &[u8; FRAME_HEAD_BYTES],
        body: &[u8],
        check: [u8; CHECK_BYTES],
    ) -> Result<(), Malformed> {
        // The hash covers head and body as one run of bytes, as the writer made it.
        let mut hash = xxhash_rust::xxh3::Xxh3::with_seed(self.check);
        hash.update(head);
        hash.update(body);
        self.check = hash.digest();
        self.number += 1;
        if self.check.to_be_bytes() == check {
            Ok(())
        } else {
            Err(Malformed("the checksum of a frame does not match"))
        }
    }

    fn head_check(self, head: &[u8]) -> u32 {
        (xxh3_64_with_seed(head, self.check) >> 32) as u32
    }
}

/// The body of a frame that names a table.
pub(super) fn table_body(name: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(2 + name.len());
    put_text(&mut out, name);
    out.freeze()
}

/// The name in the body of such a frame.
pub(super) fn read_table_body(body: &[u8]) -> Result<String, Malformed> {
    let mut reader = Reader(body);
    let name = reader.text()?.to_owned();
    reader.end()?;
    Ok(name)
}

/// Adds a row to the body of a frame of rows.
pub(super) fn put_row(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.put_u16(u16::try_from(key.len()).expect("the longest key has two bytes for its length"));
    out.put_u32(u32::try_from(value.len()).expect("the largest value has four for its length"));
    out.put_slice(key);
    out.put_slice(value);
}

/// Takes the next row from the body of a frame of rows.
pub(super) fn take_row(body: &mut Bytes) -> Result<(Bytes, Bytes), Malformed> {
    let mut reader = Reader(body);
    let (key, value) = (usize::from(reader.u16()?), reader.u32()?);
    let value = usize::try_from(value).map_err(|_| Malformed("a value is too large"))?;
    let wanted = key.checked_add(value).and_then(|both| both.checked_add(6));
    if wanted.is_none_or(|wanted| wanted > body.len()) {
        return Err(Malformed("a row is cut off"));
    }
    let _ = body.split_to(6);
    let key = body.split_to(key);
    Ok((key, body.split_to(value)))
}

/// The body of the last frame.
pub(super) fn end_body(counts: &Counts, hash: u128) -> Bytes {
    let mut out = BytesMut::with_capacity(20 + HASH_BYTES);
    out.put_u32(counts.tables);
    out.put_u64(counts.rows);
    out.put_u64(counts.bytes);
    out.put_u128(hash);
    out.freeze()
}

/// Decodes the body of the last frame.
pub(super) fn read_end_body(body: &[u8]) -> Result<(Counts, u128), Malformed> {
    let mut reader = Reader(body);
    let (tables, rows, bytes) = (reader.u32()?, reader.u64()?, reader.u64()?);
    let hash = u128::from_be_bytes(reader.array()?);
    reader.end()?;
    Ok((Counts { tables, rows, bytes }, hash))
}
