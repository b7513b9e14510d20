//! Secrets with which messages are signed and verified: `whsec_` and `whsk_`, and `whpk_` for
//! verification alone.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;
use ring::hmac;

use super::ed25519::{Ed25519Key, PublicKey};
use crate::bytes::{Decoder, Encoder, Malformed};

const PREFIX: &str = "whsec_";
/// How long the key of a `whsec_` secret may be, by Standard Webhooks.
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;
/// How long the key of another provider may be.
const FOREIGN_BYTES_MAX: usize = 1_024;

/// The text is no secret. It is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid secret: use `whsec_` and {BYTES_MIN} to {BYTES_MAX} bytes in base64, or `whsk_` and \
     an Ed25519 key of 64 bytes in base64"
)]
pub struct SecretError;

/// A symmetric key.
#[derive(Clone)]
pub struct HmacKey {
    bytes: Vec<u8>,
    key: hmac::Key,
}

impl HmacKey {
    /// A key of another provider: its bytes as they are.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        if bytes.is_empty() || bytes.len() > FOREIGN_BYTES_MAX {
            return Err(SecretError);
        }
        Ok(Self::of(bytes))
    }

    fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), key: hmac::Key::new(hmac::HMAC_SHA256, bytes) }
    }

    /// The key of a `whsec_` text.
    pub fn parse_standard(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretError)?;
        let bytes = BASE64.decode(encoded.as_bytes()).map_err(|_| SecretError)?;
        if !(BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) {
            return Err(SecretError);
        }
        Ok(Self::of(&bytes))
    }

    /// The HMAC-SHA256 of the parts, one after the other.
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        parts.iter().for_each(|part| context.update(part));
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Whether the tag is this key's over the parts, in constant time.
    pub fn verifies(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        hmac::verify(&self.key, &parts.concat(), tag).is_ok()
    }
}

impl PartialEq for HmacKey {
    fn eq(&self, other: &Self) -> bool {
        let tag = hmac::sign(&self.key, &other.bytes);
        hmac::verify(&self.key, &self.bytes, tag.as_ref()).is_ok()
    }
}

impl Eq for HmacKey {}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey(..)")
    }
}

/// A secret that signs.
#[derive(Debug, Clone)]
pub enum Secret {
    /// `v1`: HMAC-SHA256.
    Hmac(HmacKey),
    /// `v1a`: Ed25519.
    Ed25519(Ed25519Key),
}

impl Secret {
    /// A new symmetric secret of random bytes.
    pub fn hmac(random: &[u8; 32]) -> Self {
        Self::Hmac(HmacKey::of(random))
    }

    /// A new Ed25519 secret of random bytes.
    pub fn ed25519(random: [u8; 32]) -> Self {
        Self::Ed25519(Ed25519Key::from_seed(random))
    }

    /// What a receiver needs in order to verify: of a symmetric secret, the secret.
    pub fn verifying_key(&self) -> VerifyingKey {
        match self {
            Self::Hmac(key) => VerifyingKey::Hmac(key.clone()),
            Self::Ed25519(key) => VerifyingKey::Ed25519(key.public()),
        }
    }

    /// The text of the secret. It is shown once, when the secret is made.
    pub fn reveal(&self) -> String {
        match self {
            Self::Hmac(key) => format!("{PREFIX}{}", BASE64.encode(&key.bytes)),
            Self::Ed25519(key) => key.reveal(),
        }
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::Hmac(key) => {
                out.u8(1);
                out.bytes(&key.bytes);
            }
            Self::Ed25519(key) => {
                out.u8(2);
                out.raw(key.seed());
            }
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            1 => Ok(Self::Hmac(decode_hmac(from)?)),
            2 => Ok(Self::ed25519(from.array()?)),
            _ => Err(Malformed("a secret is of unknown kind")),
        }
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Hmac(one), Self::Hmac(other)) => one == other,
            // Equal public keys are those of equal seeds.
            (Self::Ed25519(one), Self::Ed25519(other)) => one.public() == other.public(),
            _ => false,
        }
    }
}

impl Eq for Secret {}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        match text.parse() {
            Ok(key) => Ok(Self::Ed25519(key)),
            Err(_) => HmacKey::parse_standard(text).map(Self::Hmac),
        }
    }
}

/// A key that verifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyingKey {
    /// A symmetric key.
    Hmac(HmacKey),
    /// A public key.
    Ed25519(PublicKey),
}

impl VerifyingKey {
    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::Hmac(key) => {
                out.u8(1);
                out.bytes(&key.bytes);
            }
            Self::Ed25519(key) => {
                out.u8(2);
                out.raw(key.as_bytes());
            }
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            1 => Ok(Self::Hmac(decode_hmac(from)?)),
            2 => Ok(Self::Ed25519(PublicKey::from_bytes(from.array()?))),
            _ => Err(Malformed("a key is of unknown kind")),
        }
    }
}

fn decode_hmac(from: &mut Decoder<'_>) -> Result<HmacKey, Malformed> {
    HmacKey::new(from.bytes()?).map_err(|_| Malformed("a secret has no or too many bytes"))
}

/// `whsec_`, `whpk_`, or `whsk_`, of which the public half is taken.
impl FromStr for VerifyingKey {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        match text.parse() {
            Ok(key) => Ok(Self::Ed25519(key)),
            Err(_) => text.parse::<Secret>().map(|secret| secret.verifying_key()),
        }
    }
}
