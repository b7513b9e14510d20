//! How rows are encoded: a version, then fields without gaps. Numbers have their high byte first;
//! texts and bytes have their length before them; each choice has a number before it. The bytes are
//! for ever: `tests/it/golden.rs` holds one of each.

use bytes::Bytes;
use indelible_journal::{Micros, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The stored bytes are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Bytes that grow.
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn version(version: u8) -> Self {
        Self(vec![version])
    }

    /// Bytes that are hashed or signed: a domain before them keeps them apart from all others.
    pub(crate) fn domain(domain: &[u8]) -> Self {
        Self(domain.to_vec())
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.raw(&number.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.raw(&number.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.raw(&number.to_be_bytes());
    }

    pub(crate) fn len(&mut self, length: usize) {
        self.u32(u32::try_from(length).expect("everything here is bounded far below"));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.raw(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Settings, which are stored as people write them.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        self.bytes(&serde_json::to_vec(value).expect("texts, numbers and lists are JSON"));
    }

    pub(crate) fn time(&mut self, time: Timestamp) {
        self.u64(time.as_micros());
    }

    pub(crate) fn micros(&mut self, micros: Micros) {
        self.u64(micros.get());
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn list<T>(&mut self, values: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.len(values.len());
        for value in values {
            write(self, value);
        }
    }
}

/// Bytes, read from the front.
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// Reads all of a row of this version.
    pub(crate) fn row<T>(
        bytes: &'a [u8],
        version: u8,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let mut decoder = Self(bytes);
        if decoder.u8()? != version {
            return Err(Malformed("it has another version than this build reads"));
        }
        let value = read(&mut decoder)?;
        if decoder.0.is_empty() { Ok(value) } else { Err(Malformed("it is too long")) }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("take gives as many as were asked for"))
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

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub(crate) fn owned(&mut self) -> Result<Bytes, Malformed> {
        self.bytes().map(Bytes::copy_from_slice)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T, Malformed> {
        serde_json::from_slice(self.bytes()?).map_err(|_| Malformed("settings are not JSON"))
    }

    /// A text that has another form.
    pub(crate) fn parsed<T: std::str::FromStr>(&mut self) -> Result<T, Malformed> {
        self.text()?.parse().map_err(|_| Malformed("a name is not one"))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Malformed> {
        Timestamp::from_micros(self.u64()?).ok_or(Malformed("a time is later than the year 9999"))
    }

    pub(crate) fn micros(&mut self) -> Result<Micros, Malformed> {
        self.u64().map(Micros::new)
    }

    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        // No room is reserved for the count: damaged bytes must not take memory.
        (0..count).map(|_| read(self)).collect()
    }
}
