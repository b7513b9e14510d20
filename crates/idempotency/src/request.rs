//! What a caller asks for, and the hash that tells two requests apart.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::canonical::canonical_utf8;
use crate::json::{Json, JsonError, Limits};

/// A request as it is recorded under its key: its JSON, and the hash of what must not differ in a
/// repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    json: Json,
    hash: RequestHash,
}

impl Request {
    /// A request that is compared as a whole.
    pub fn new(json: Json) -> Self {
        let hash = RequestHash::of(&json);
        Self { json, hash }
    }

    /// A request of which only `hashed` is compared (I-25). The rest, such as a trace id or the
    /// time of sending, may differ between repetitions: it is recorded only.
    pub fn hashed_as(json: Json, hashed: &Json) -> Self {
        let hash = RequestHash::of(hashed);
        Self { json, hash }
    }

    /// A request as it was recorded, with its recorded hash: to take over an attempt that
    /// [`lookup`](crate::store::RawIdempotencyStore::lookup) shows.
    pub fn recorded(json: Json, hash: RequestHash) -> Self {
        Self { json, hash }
    }

    /// A request from a value that can be serialized, all of it.
    pub fn of(value: &impl Serialize) -> Result<Self, JsonError> {
        Self::parse(crate::json::serialize(value)?, &Limits::default())
    }

    /// A request from its text, all of it.
    pub fn parse(text: impl Into<String>, limits: &Limits) -> Result<Self, JsonError> {
        let (json, canonical) = Json::parse_canonical(text.into(), limits)?;
        Ok(Self { json, hash: RequestHash::of_canonical(&canonical) })
    }

    /// The request as it is recorded.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// What it is compared by.
    pub fn hash(&self) -> RequestHash {
        self.hash
    }
}

/// SHA-256 of a request's canonical JSON (I-7, C-6). Two are equal if their bytes are (I-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestHash([u8; 32]);

impl RequestHash {
    /// The hash of a JSON text, whichever way it is written.
    pub fn of(json: &Json) -> Self {
        Self::of_canonical(&canonical_utf8(json))
    }

    fn of_canonical(canonical: &[u8]) -> Self {
        Self(Sha256::digest(canonical).into())
    }

    /// From the bytes that were stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for RequestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}
