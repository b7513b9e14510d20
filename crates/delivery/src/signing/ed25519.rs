//! Ed25519 keys: of endpoints that are signed for with `v1a`, of people who decide, of the server.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::BASE64;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// The prefix of a public key's text.
pub(super) const PUBLIC_PREFIX: &str = "whpk_";
/// The prefix of a private key's text.
pub(super) const PRIVATE_PREFIX: &str = "whsk_";

/// The text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid key: use `{prefix}` and {bytes} bytes in base64")]
pub struct KeyError {
    pub(super) prefix: &'static str,
    pub(super) bytes: &'static str,
}

/// A key that verifies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// From the bytes that were stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether the signature is this key's over these bytes.
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(bytes, signature).is_ok()
    }
}

/// As Standard Webhooks spells it.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", BASE64.encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let encoded = text.strip_prefix(PUBLIC_PREFIX);
        let bytes = encoded.and_then(|encoded| BASE64.decode(encoded.as_bytes()).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(KeyError { prefix: PUBLIC_PREFIX, bytes: "32" })
    }
}

/// A key that signs. Cheap to clone.
#[derive(Clone)]
pub struct Ed25519Key {
    seed: [u8; 32],
    pair: Arc<Ed25519KeyPair>,
}

impl Ed25519Key {
    /// The key of a seed: 32 random bytes.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("every 32 bytes are a seed");
        Self { seed, pair: Arc::new(pair) }
    }

    /// The seed, to be stored.
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// The key that verifies what this one signs.
    pub fn public(&self) -> PublicKey {
        let bytes = self.pair.public_key().as_ref();
        PublicKey(bytes.try_into().expect("a public key has 32 bytes"))
    }

    /// Signs these bytes.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.pair.sign(bytes).as_ref().try_into().expect("a signature has 64 bytes")
    }

    /// The text of the key: a secret.
    pub fn reveal(&self) -> String {
        let bytes = [&self.seed[..], self.public().as_bytes()].concat();
        format!("{PRIVATE_PREFIX}{}", BASE64.encode(&bytes))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text.strip_prefix(PRIVATE_PREFIX)?.as_bytes()).ok()?;
        let (seed, public) = bytes.split_first_chunk::<32>()?;
        let key = Self::from_seed(*seed);
        // Both halves, as other tools write it, or the seed alone. A public half of another key
        // would make signatures that give the private key away.
        let fits = public.is_empty() || public == key.public().as_bytes();
        fits.then_some(key)
    }
}

impl FromStr for Ed25519Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text).ok_or(KeyError { prefix: PRIVATE_PREFIX, bytes: "64" })
    }
}

impl fmt::Debug for Ed25519Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ed25519Key({})", self.public())
    }
}
