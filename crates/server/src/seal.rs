//! Cursors that callers send back but must not read, since they name data of other namespaces. The
//! key is stored once per store, so a cursor stays good after a restart, and at every server of the
//! same store.
#![expect(clippy::disallowed_methods, reason = "keys and nonces are random")]

use data_encoding::BASE64URL_NOPAD;
use indelible_records::cursor_key;
use indelible_runtime::EngineError;
use indelible_store::{Store, SubmitError};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

const KEY_BYTES: usize = 32;

/// What cursors are sealed with.
pub(crate) struct Seal(LessSafeKey);

impl Seal {
    /// Reads the store's key, or makes it. It is durable when this returns, so a cursor that was
    /// given out is good after a crash. Blocks this thread.
    pub(crate) fn open(store: &Store) -> Result<Self, EngineError> {
        if let Some(key) = stored(store)? {
            return Ok(Self::new(&key));
        }
        let mut key = [0; KEY_BYTES];
        fill(&mut key);
        match cursor_key::create(store, &key) {
            Ok(position) => store.durable(position).wait()?,
            // Another server of this store has made one meanwhile.
            Err(refused @ SubmitError::Refused(_)) => key = stored(store)?.ok_or(refused)?,
            Err(error) => return Err(error.into()),
        }
        Ok(Self::new(&key))
    }

    fn new(key: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key has 32 bytes");
        Self(LessSafeKey::new(key))
    }

    pub(crate) fn close(&self, text: &str) -> String {
        // Random nonces: far too few cursors are made for two to collide.
        let mut nonce = [0; NONCE_LEN];
        fill(&mut nonce);
        let mut bytes = text.as_bytes().to_vec();
        let sealed = Nonce::assume_unique_for_key(nonce);
        let sealed = self.0.seal_in_place_append_tag(sealed, Aad::empty(), &mut bytes);
        sealed.expect("a cursor is short");
        BASE64URL_NOPAD.encode(&[&nonce[..], &bytes].concat())
    }

    pub(crate) fn open_text(&self, text: &str) -> Option<String> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }
}

/// The key of a store, when it is durable.
fn stored(store: &Store) -> Result<Option<[u8; KEY_BYTES]>, EngineError> {
    let seen = cursor_key::get(store)?;
    store.durable(seen.position).wait()?;
    Ok(seen.value)
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
        let seal = Seal::new(&[7; KEY_BYTES]);
        let closed = seal.close("abab@1~abab.0");
        assert!(!closed.contains("abab"));
        assert_eq!(seal.open_text(&closed).as_deref(), Some("abab@1~abab.0"));
        assert_eq!(Seal::new(&[8; KEY_BYTES]).open_text(&closed), None);
        let mut other = closed.into_bytes();
        other[20] = if other[20] == b'A' { b'B' } else { b'A' };
        assert_eq!(seal.open_text(std::str::from_utf8(&other).expect("it is text")), None);
        assert_eq!(seal.open_text(""), None);
    }
}
