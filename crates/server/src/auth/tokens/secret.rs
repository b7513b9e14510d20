//! The text of an API key: `ind_`, its id, `_`, its secret. Only this file has a secret in hand.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use indelible_records::tokens::TokenId;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

/// What every API key begins with: it distinguishes API keys from session tokens, and lets secret
/// scanners find leaked ones.
pub const KEY_PREFIX: &str = "ind_";

const SECRET_BYTES: usize = 32;
/// Its secret as base64url without padding.
const SECRET_CHARS: usize = 43;

/// What is stored of a secret: its SHA-256. A secret has 256 random bits and cannot be guessed, so
/// a slow hash would only slow every request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SecretHash(pub(super) [u8; 32]);

impl SecretHash {
    /// Stands in for the hash of an unknown id. No known secret has this hash.
    pub(super) const UNMATCHABLE: Self = Self([0; 32]);

    fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Compares in constant time.
    pub(super) fn matches(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

/// Not even the hash is shown: it belongs in the store alone.
impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

/// A new secret for an id: the key's whole text, which is shown once, and what is kept.
pub(super) fn mint(id: TokenId) -> (String, SecretHash) {
    let secret = BASE64URL_NOPAD.encode(&random::<SECRET_BYTES>());
    debug_assert_eq!(secret.len(), SECRET_CHARS);
    (format!("{KEY_PREFIX}{id}_{secret}"), SecretHash::of(&secret))
}

/// The parts of a presented text, if it can be an API key at all.
pub(super) fn parse(presented: &str) -> Option<(TokenId, SecretHash)> {
    let (id, secret) = presented.strip_prefix(KEY_PREFIX)?.split_once('_')?;
    if secret.len() != SECRET_CHARS {
        return None;
    }
    Some((id.parse().ok()?, SecretHash::of(secret)))
}

#[expect(clippy::disallowed_methods, reason = "secrets come from the system's randomness alone")]
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // An attacker could guess a key made without randomness: better to stop.
    getrandom::fill(&mut bytes).expect("the system has no randomness to give");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is minted parses, and has the form that is described.
    #[test]
    fn the_text_of_a_key() {
        let id = TokenId::from_bytes(random());
        let (text, hash) = mint(id);
        assert_eq!(text.len(), 4 + 16 + 1 + 43);
        assert_eq!(parse(&text), Some((id, hash)));
        assert_ne!(mint(id).0, text);
        let id = id.to_string();
        for bad in [
            "",
            "ind_",
            "ind__",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}A"),
            &format!(" {text}"),
            &text.replacen("ind_", "IND_", 1),
            &text.replacen(&id, &id[1..], 1),
            &text.replacen(&id, &format!("{id}00"), 1),
            &text.replacen(&id, "0123456789ABCDEF", 1),
            &text.replacen(&id, "0123456789abcdeé", 1),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    /// A hash matches itself and nothing else, and is not shown.
    #[test]
    fn hashes() {
        let (_, hash) = mint(TokenId::from_bytes(random()));
        assert!(bool::from(hash.matches(&hash)));
        assert!(!bool::from(hash.matches(&SecretHash::UNMATCHABLE)));
        assert_eq!(format!("{hash:?}"), "SecretHash(…)");
    }
}
