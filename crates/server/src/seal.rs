//! Texts that are given to callers to be given back, and that they must not read: cursors that name
//! what belongs to others. The key is a secret of the store's, made once, so a cursor is good after a
//! restart, and at every server of the same store.
//!
//! ```text
//! setting `cursor-key`:   {"version":1,"key":"64 hexadecimal digits"}
//! ```
#![expect(clippy::disallowed_methods, reason = "keys and nonces are random")]

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use indelible_records::{SETTINGS, settings};
use indelible_store::{Batch, Expect, Lost, ReadError, Store, SubmitError};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

/// The name of the setting.
const NAME: &str = "cursor-key";
const VERSION: u8 = 1;

const KEY_BYTES: usize = 32;

/// What is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    version: u8,
    key: String,
}

/// Why the key cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The stored one is not as it should be.
    #[error("the setting {NAME} cannot be read: {0}")]
    Malformed(String),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store did not take it.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The store stopped before it was durable.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// What cursors are sealed with.
pub(crate) struct Seal(LessSafeKey);

impl Seal {
    /// The key of a store, which is made if there is none. It is durable when this returns: a cursor
    /// that was given out is good after a crash. Waits on this thread.
    pub(crate) fn open(store: &Store) -> Result<Self, SealError> {
        if let Some(key) = stored(store)? {
            return Ok(Self::new(&key));
        }
        let mut key = [0; KEY_BYTES];
        fill(&mut key);
        let row = Row { version: VERSION, key: HEXLOWER.encode(&key) };
        let row = serde_json::to_vec(&row).expect("texts and numbers are JSON");
        let mut batch = Batch::new();
        batch.expect(SETTINGS, NAME.as_bytes().to_vec(), Expect::Absent);
        settings::put(&mut batch, NAME, &row);
        match store.submit_blocking(batch) {
            Ok(position) => store.durable(position).wait()?,
            // Another server of this store has made one meanwhile.
            Err(refused @ SubmitError::Refused(_)) => {
                let key = stored(store)?.ok_or(refused)?;
                return Ok(Self::new(&key));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Self::new(&key))
    }

    fn new(key: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key has 32 bytes");
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
fn stored(store: &Store) -> Result<Option<[u8; KEY_BYTES]>, SealError> {
    let seen = settings::get(store, NAME)?;
    let Some(row) = seen.value else { return Ok(None) };
    store.durable(seen.position).wait()?;
    parse(&row).map(Some).map_err(SealError::Malformed)
}

/// Err says what is wrong, and has no part of the key in it.
fn parse(row: &[u8]) -> Result<[u8; KEY_BYTES], String> {
    let place =
        |error: serde_json::Error| format!("it is no such JSON (column {})", error.column());
    let row: Row = serde_json::from_slice(row).map_err(place)?;
    if row.version != VERSION {
        return Err(format!("its version is {}", row.version));
    }
    let key = HEXLOWER.decode(row.key.as_bytes()).ok().and_then(|key| key.try_into().ok());
    key.ok_or_else(|| "the key is not 64 hexadecimal digits".to_owned())
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

    /// The stored form, as it is described: it must still read. Anything else is refused, and no part
    /// of the key is repeated.
    #[test]
    fn the_stored_form() {
        let digits = "0a".repeat(KEY_BYTES);
        let text = format!(r#"{{"version":1,"key":"{digits}"}}"#);
        assert_eq!(parse(text.as_bytes()), Ok([10; KEY_BYTES]));
        for (from, to) in [("n\":1", "n\":2"), ("0a", ""), ("0a", "0A"), ("key", "keys"), ("}", "")]
        {
            let wrong = text.replacen(from, to, 1);
            let why = parse(wrong.as_bytes()).expect_err(&wrong);
            assert!(!why.contains("0a0a"), "{why}");
        }
    }
}
