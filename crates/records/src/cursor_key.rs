//! The key with which cursors are sealed that name what belongs to others. It is a secret of the
//! store's, made once, so a cursor is good after a restart, and at every server of the same store.
//!
//! ```text
//! setting `cursor-key`:   {"version":1,"key":"64 hexadecimal digits"}
//! ```

use data_encoding::HEXLOWER;
use indelible_slots::Slot;
use indelible_store::{Batch, Expect, Read, ReadError, Seen};
use serde::{Deserialize, Serialize};

use super::{SETTINGS, codec, settings};

pub(crate) const NAME: &str = "cursor-key";

/// How many bytes it has.
pub const KEY_BYTES: usize = 32;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    key: String,
}

/// The batch that makes this the key of a store which has none.
pub fn made(key: &[u8; KEY_BYTES]) -> Batch {
    let stored = Stored { version: codec::JSON_VERSION, key: HEXLOWER.encode(key) };
    let mut batch = Batch::in_slots(Slot::SERVER);
    batch.expect(SETTINGS, NAME.as_bytes().to_vec(), Expect::Absent);
    settings::put(&mut batch, NAME, &codec::write_json(&stored));
    batch
}

/// The key, if there is one.
pub fn get(read: &impl Read) -> Result<Seen<Option<[u8; KEY_BYTES]>>, ReadError> {
    settings::read(read, NAME, decode)
}

/// Err says what is wrong, and has no part of the key in it.
pub(crate) fn decode(body: &[u8]) -> Result<[u8; KEY_BYTES], String> {
    let not_one = || "it is no JSON of a key of 64 hexadecimal digits".to_owned();
    let stored: Stored = serde_json::from_slice(body).map_err(|_| not_one())?;
    if stored.version != codec::JSON_VERSION {
        return Err(format!(
            "it is of version {}; known is {}",
            stored.version,
            codec::JSON_VERSION
        ));
    }
    let key = HEXLOWER.decode(stored.key.as_bytes()).ok().and_then(|key| key.try_into().ok());
    key.ok_or_else(not_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form, as it is described: it must still read. Anything else is refused, and no part
    /// of the key is repeated.
    #[test]
    fn the_stored_form() {
        let digits = "0a".repeat(KEY_BYTES);
        let text = format!(r#"{{"version":1,"key":"{digits}"}}"#);
        assert_eq!(decode(text.as_bytes()), Ok([10; KEY_BYTES]));
        for (from, to) in [("n\":1", "n\":2"), ("0a", ""), ("0a", "0A"), ("key", "keys"), ("}", "")]
        {
            let wrong = text.replacen(from, to, 1);
            let why = decode(wrong.as_bytes()).expect_err(&wrong);
            assert!(!why.contains("0a0a"), "{why}");
        }
    }
}
