//! JSON as this library carries it: a text that has been checked once and is kept as it was
//! written, so that a replay gives back every digit.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::canonical;
use crate::text::QuotedText;

/// A checked JSON text: one value, no member twice, within [`Limits`].
///
/// It is kept as text, since a parsed form (serde_json's `Value`) rounds long numbers. Two are
/// equal if their texts are; [`canonical_utf8`](crate::canonical_utf8) tells whether they mean the
/// same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(String);

/// How large a JSON text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text.
    pub bytes_max: usize,
    /// Depth of nested arrays and objects. serde_json, which reads stored values again, goes no
    /// deeper than 127.
    pub depth_max: usize,
}

impl Limits {
    /// For a text that was checked before.
    pub(crate) const NONE: Self = Self { bytes_max: usize::MAX, depth_max: usize::MAX };
}

impl Default for Limits {
    /// 1 MiB, 100 deep: far beyond a request, far below what hurts.
    fn default() -> Self {
        Self { bytes_max: 1 << 20, depth_max: 100 }
    }
}

impl Json {
    /// `null`: the result of an operation that has none.
    pub fn null() -> Self {
        Self("null".to_owned())
    }

    /// Checks a text, within the default [`Limits`].
    pub fn parse(text: impl Into<String>) -> Result<Self, JsonError> {
        Self::parse_within(text, &Limits::default())
    }

    /// Checks a text.
    pub fn parse_within(text: impl Into<String>, limits: &Limits) -> Result<Self, JsonError> {
        Self::parse_canonical(text.into(), limits).map(|(json, _)| json)
    }

    /// A value that can be serialized, within the default [`Limits`].
    pub fn of(value: &impl Serialize) -> Result<Self, JsonError> {
        Self::parse(serialize(value)?)
    }

    /// The text, and its canonical form, which the check makes anyway.
    pub(crate) fn parse_canonical(
        text: String,
        limits: &Limits,
    ) -> Result<(Self, Vec<u8>), JsonError> {
        let canonical = canonical::canonicalize(&text, limits)?;
        Ok((Self(text), canonical))
    }

    /// What is hashed of a request of the operation with this name.
    pub(crate) fn of_operation(&self, name: &str) -> Self {
        let name = serde_json::Value::from(name);
        Self(format!(r#"{{"operation":{name},"request":{}}}"#, self.0))
    }

    /// The text, as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value that it stands for.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As it was written, in the JSON around it.
impl Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.0.clone()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}

pub(crate) fn serialize(value: &impl Serialize) -> Result<String, JsonError> {
    serde_json::to_string(value).map_err(|why| JsonError::Unserializable(why.to_string()))
}

/// Why a text is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// No JSON by RFC 8259.
    #[error("invalid JSON at byte {offset}: {}", QuotedText(why))]
    Syntax {
        /// Where, in bytes from the start.
        offset: u64,
        /// What was wrong there.
        why: String,
    },
    /// A member twice in one object: readers disagree on which one counts.
    #[error(
        "the member {} appears twice in the object that ends at byte {offset}",
        QuotedText(name)
    )]
    DuplicateMember {
        /// Its name.
        name: String,
        /// Where the object ends, in bytes from the start.
        offset: usize,
    },
    /// A number with an exponent beyond a million, either way.
    #[error("the exponent of the number before byte {offset} is outside -1,000,000 to 1,000,000")]
    Exponent {
        /// Where the number ends, in bytes from the start.
        offset: usize,
    },
    /// More than [`Limits::bytes_max`].
    #[error("the JSON has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        max: usize,
    },
    /// More than [`Limits::depth_max`].
    #[error("the JSON is nested more than {max} levels deep, at byte {offset}")]
    TooDeep {
        /// Where, in bytes from the start.
        offset: usize,
        /// How deep it may be.
        max: usize,
    },
    /// A value that has no JSON: a map with keys that are no text, for example.
    #[error("the value cannot be written as JSON: {0}")]
    Unserializable(String),
}
