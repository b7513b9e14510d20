//! How requests and answers are written down: a version, then texts and bytes, each behind its
//! length. Lengths and counts are unsigned LEB128.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// Why bytes are not a request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes of an HTTP effect cannot be read: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// Writes.
pub(crate) struct Writer(BytesMut);

impl Writer {
    pub(crate) fn new(version: u8, room: usize) -> Self {
        let mut out = BytesMut::with_capacity(room);
        out.put_u8(version);
        Self(out)
    }

    pub(crate) fn u8(&mut self, byte: u8) {
        self.0.put_u8(byte);
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.0.put_u16(number);
    }

    pub(crate) fn count(&mut self, count: usize) {
        let mut rest = count as u64;
        while rest >= 0x80 {
            self.0.put_u8((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.0.put_u8(rest as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.put_slice(bytes);
    }

    /// Bytes without a length, up to the end: nothing may follow.
    pub(crate) fn rest(&mut self, bytes: &[u8]) {
        self.0.put_slice(bytes);
    }

    pub(crate) fn done(self) -> Bytes {
        self.0.freeze()
    }
}

/// Reads, without a copy.
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) fn new(version: u8, bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Self(bytes.clone());
        match reader.u8()? {
            found if found == version => Ok(reader),
            _ => Err(Malformed("it has another version")),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.0.try_get_u8().map_err(|_| Malformed("it is too short"))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.0.try_get_u16().map_err(|_| Malformed("it is too short"))
    }

    /// A number of things, each of which takes a byte at least.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let mut count = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = self.u8()?;
            count |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 != 0 {
                continue;
            }
            if byte == 0 && shift > 0 {
                return Err(Malformed("a number is longer than it needs to be"));
            }
            return match usize::try_from(count) {
                Ok(count) if count <= self.0.len() => Ok(count),
                _ => Err(Malformed("it is too short")),
            };
        }
        Err(Malformed("a number is too large"))
    }

    pub(crate) fn bytes(&mut self) -> Result<Bytes, Malformed> {
        let length = self.count()?;
        Ok(self.0.split_to(length))
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| Malformed("a text is not UTF-8"))
    }

    pub(crate) fn rest(self) -> Bytes {
        self.0
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("data follows its end")) }
    }
}
