//! What other providers sign: Stripe, GitHub, and any HMAC in a header.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use indelible_journal::{Micros, Timestamp};

use super::{HmacKey, Rejected, VerifyingKey, check_time, standard};

/// The most signatures of Stripe that are looked at.
const SIGNATURES_MAX: usize = 16;

/// How a digest is written in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestEncoding {
    /// Hexadecimal digits of either case.
    Hex,
    /// Base64 with padding.
    Base64,
}

/// An HMAC-SHA256 in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hmac {
    /// The header with the signature, in lower case.
    pub header: String,
    /// What stands before the digest: `sha256=`.
    pub prefix: String,
    /// How the digest is written.
    pub encoding: DigestEncoding,
    /// The header with the time in seconds. What is signed is then the time, a `.` and the body;
    /// otherwise the body alone.
    pub timestamp_header: Option<String>,
}

/// How messages of a source are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preset {
    /// `v1` and `v1a`.
    StandardWebhooks,
    /// `Stripe-Signature: t=..,v1=..`.
    Stripe,
    /// `X-Hub-Signature-256: sha256=..`.
    GitHub,
    /// Any HMAC in a header.
    Hmac(Hmac),
    /// Envelopes of the `oip` profile: the signature is in the envelope.
    Oip,
}

/// A request that came, as far as it is signed.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The headers that are text: names in lower case, and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, byte for byte.
    pub body: &'a [u8],
    /// The server's time.
    pub now: Timestamp,
    /// How far the time of a signature may be from ours.
    pub tolerance: Micros,
}

impl<'a> Received<'a> {
    /// The value of a header. One that stands twice has two values, and is none.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        let mut values = self.headers.iter().filter(|(known, _)| *known == name);
        let (_, value) = values.next()?;
        values.next().is_none().then_some(*value)
    }

    fn required(&self, name: &'static str) -> Result<&'a str, Rejected> {
        self.header(name).ok_or(Rejected::Missing(name))
    }
}

impl Preset {
    /// Verifies a request with any of the keys: the time at which it was signed, if it says so.
    pub fn verify(
        &self,
        keys: &[VerifyingKey],
        received: &Received<'_>,
    ) -> Result<Option<Timestamp>, Rejected> {
        match self {
            Self::StandardWebhooks => {
                let headers = standard::Headers {
                    id: received.required(standard::ID)?,
                    timestamp: received.required(standard::TIMESTAMP)?,
                    signature: received.required(standard::SIGNATURE)?,
                };
                let Received { body, now, tolerance, .. } = received;
                standard::verify(keys, &headers, body, *now, *tolerance).map(Some)
            }
            Self::Stripe => stripe(keys, received).map(Some),
            Self::GitHub => github(keys, received).map(|()| None),
            Self::Hmac(hmac) => hmac.verify(keys, received),
            // An envelope is verified where it is read.
            Self::Oip => Err(Rejected::Signature),
        }
    }
}

fn hmac_keys(keys: &[VerifyingKey]) -> impl Iterator<Item = &HmacKey> {
    keys.iter().filter_map(|key| match key {
        VerifyingKey::Hmac(key) => Some(key),
        VerifyingKey::Ed25519(_) => None,
    })
}

fn any_key(keys: &[VerifyingKey], parts: &[&[u8]], tag: &[u8]) -> Result<(), Rejected> {
    if hmac_keys(keys).any(|key| key.verifies(parts, tag)) {
        Ok(())
    } else {
        Err(Rejected::Signature)
    }
}

/// Stripe: `t=TIME,v1=HEX`, with several `v1` while a secret is rotated; other schemes are ignored.
pub fn stripe(keys: &[VerifyingKey], received: &Received<'_>) -> Result<Timestamp, Rejected> {
    const HEADER: &str = "stripe-signature";
    let header = received.required(HEADER)?;
    let (mut time, mut tags) = (None, Vec::new());
    for part in header.split(',') {
        match part.trim().split_once('=') {
            Some(("t", text)) if time.is_none() => time = Some(text),
            Some(("t", _)) | None => return Err(Rejected::Malformed(HEADER)),
            Some(("v1", hex)) if tags.len() < SIGNATURES_MAX => {
                tags.extend(HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok());
            }
            Some(_) => {}
        }
    }
    let text = time.ok_or(Rejected::Malformed(HEADER))?;
    let time = check_time(text, HEADER, received.now, received.tolerance)?;
    let parts = [text.as_bytes(), b".", received.body];
    let is_signed = tags.iter().any(|tag| any_key(keys, &parts, tag).is_ok());
    if is_signed { Ok(time) } else { Err(Rejected::Signature) }
}

/// GitHub: `sha256=HEX` over the body. No time is signed, so the ids are what tells a replay.
pub fn github(keys: &[VerifyingKey], received: &Received<'_>) -> Result<(), Rejected> {
    const HEADER: &str = "x-hub-signature-256";
    let header = received.required(HEADER)?;
    let hex = header.strip_prefix("sha256=").ok_or(Rejected::Malformed(HEADER))?;
    let tag =
        HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).map_err(|_| Rejected::Malformed(HEADER))?;
    any_key(keys, &[received.body], &tag)
}

impl Hmac {
    fn verify(
        &self,
        keys: &[VerifyingKey],
        received: &Received<'_>,
    ) -> Result<Option<Timestamp>, Rejected> {
        const HEADER: &str = "signature";
        let header = received.header(&self.header).ok_or(Rejected::Missing(HEADER))?;
        let digest = header.strip_prefix(&self.prefix).ok_or(Rejected::Malformed(HEADER))?;
        let tag = match self.encoding {
            DigestEncoding::Hex => HEXLOWER_PERMISSIVE.decode(digest.as_bytes()),
            DigestEncoding::Base64 => BASE64.decode(digest.as_bytes()),
        };
        let tag = tag.map_err(|_| Rejected::Malformed(HEADER))?;
        let Some(name) = &self.timestamp_header else {
            return any_key(keys, &[received.body], &tag).map(|()| None);
        };
        let text = received.header(name).ok_or(Rejected::Missing("timestamp"))?;
        let time = check_time(text, "timestamp", received.now, received.tolerance)?;
        any_key(keys, &[text.as_bytes(), b".", received.body], &tag).map(|()| Some(time))
    }
}
