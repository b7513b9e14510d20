//! Standard Webhooks: three headers, and a signature over the id, the time and the body with dots
//! between them.

use data_encoding::BASE64;
use indelible_journal::{Micros, Timestamp};

use super::{HmacKey, Rejected, Secret, VerifyingKey, check_time};

/// The header with the id of the message.
pub const ID: &str = "webhook-id";
/// The header with the time of the attempt, in seconds.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// The header with the signatures.
pub const SIGNATURE: &str = "webhook-signature";

/// The most signatures that are looked at: a header may have more, from a hostile sender.
const SIGNATURES_MAX: usize = 16;

/// The three headers, as they came.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    /// [`ID`].
    pub id: &'a str,
    /// [`TIMESTAMP`].
    pub timestamp: &'a str,
    /// [`SIGNATURE`].
    pub signature: &'a str,
}

/// The value of [`TIMESTAMP`] for an attempt at this time (impl C-60).
pub fn timestamp(attempted: Timestamp) -> String {
    (attempted.as_micros() / 1_000_000).to_string()
}

/// The value of [`SIGNATURE`]: one signature for each secret. The id must not contain a `.`: the
/// parts of what is signed could be divided elsewhere.
pub fn sign<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    id: &str,
    timestamp: &str,
    body: &[u8],
) -> String {
    let mut header = String::with_capacity(96);
    for secret in secrets {
        if !header.is_empty() {
            header.push(' ');
        }
        match secret {
            Secret::Hmac(key) => {
                header.push_str("v1,");
                BASE64.encode_append(&hmac(key, id, timestamp, body), &mut header);
            }
            Secret::Ed25519(key) => {
                header.push_str("v1a,");
                let signature = key.sign(&content(id, timestamp, body));
                BASE64.encode_append(&signature, &mut header);
            }
        }
    }
    header
}

/// Whether a message is of one of these keys, and was signed about now: the time of the signature.
pub fn verify(
    keys: &[VerifyingKey],
    headers: &Headers<'_>,
    body: &[u8],
    now: Timestamp,
    tolerance: Micros,
) -> Result<Timestamp, Rejected> {
    if headers.id.is_empty() || headers.id.contains('.') {
        return Err(Rejected::Malformed(ID));
    }
    let time = check_time(headers.timestamp, TIMESTAMP, now, tolerance)?;
    let signatures = headers.signature.split(' ').filter(|text| !text.is_empty());
    for signature in signatures.take(SIGNATURES_MAX) {
        // What is malformed, or of a version that is not known here, may stand beside a good one.
        let Some((version, encoded)) = signature.split_once(',') else { continue };
        let Ok(bytes) = BASE64.decode(encoded.as_bytes()) else { continue };
        let is_of = |key: &VerifyingKey| match (version, key) {
            ("v1", VerifyingKey::Hmac(key)) => {
                key.verifies(&parts(headers.id, headers.timestamp, body), &bytes)
            }
            ("v1a", VerifyingKey::Ed25519(key)) => {
                key.verifies(&content(headers.id, headers.timestamp, body), &bytes)
            }
            _ => false,
        };
        if keys.iter().any(is_of) {
            return Ok(time);
        }
    }
    Err(Rejected::Signature)
}

fn parts<'a>(id: &'a str, timestamp: &'a str, body: &'a [u8]) -> [&'a [u8]; 5] {
    [id.as_bytes(), b".", timestamp.as_bytes(), b".", body]
}

fn hmac(key: &HmacKey, id: &str, timestamp: &str, body: &[u8]) -> [u8; 32] {
    key.sign(&parts(id, timestamp, body))
}

fn content(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    parts(id, timestamp, body).concat()
}
