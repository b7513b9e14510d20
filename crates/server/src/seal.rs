//! Texts that are given to callers to be given back, and that they must not read: cursors that name
//! what belongs to others.
#![expect(clippy::disallowed_methods, reason = "the key is random, and of this process")]

use data_encoding::BASE64URL_NOPAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// A key that lives as long as its process.
pub(crate) struct Seal(LessSafeKey);

impl Seal {
    pub(crate) fn new() -> Self {
        let mut key = [0; 32];
        fill(&mut key);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("a key has 32 bytes");
        Self(LessSafeKey::new(key))
    }

    pub(crate) fn close(&self, text: &str) -> String {
        // Random: far fewer are made than would let two be equal.
        let mut nonce = [0; NONCE_LEN];
        fill(&mut nonce);
        let mut bytes = text.as_bytes().to_vec();
        let sealed = Nonce::assume_unique_for_key(nonce);
        let sealed = self.0.seal_in_place_append_tag(sealed, Aad::empty(), &mut bytes);
        sealed.expect("a cursor is short");
        BASE64URL_NOPAD.encode(&[&nonce[..], &bytes].concat())
    }

    pub(crate) fn open(&self, text: &str) -> Option<String> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }
}

fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has no randomness to give");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was sealed is read by the same key alone, and not when a bit of it is another.
    #[test]
    fn only_the_same_key_opens() {
        let seal = Seal::new();
        let closed = seal.close("abab@1~abab.0");
        assert!(!closed.contains("abab"));
        assert_eq!(seal.open(&closed).as_deref(), Some("abab@1~abab.0"));
        assert_eq!(Seal::new().open(&closed), None);
        let mut other = closed.into_bytes();
        other[20] = if other[20] == b'A' { b'B' } else { b'A' };
        assert_eq!(seal.open(std::str::from_utf8(&other).expect("it is text")), None);
        assert_eq!(seal.open(""), None);
    }
}
