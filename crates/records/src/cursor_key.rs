//! The row of the key that cursors are sealed with. The server decides what is sealed, and how.
//!
//! ```text
//! setting `cursor-key`:   {"version":1,"key":"64 hexadecimal digits"}
//! ```

use data_encoding::HEXLOWER;
use indelible_slots::Slot;
use indelible_store::{Batch, Expect, Position, Read, ReadError, Seen, SubmitError};
use serde::{Deserialize, Serialize};

use super::{SETTINGS, codec, settings};

pub(crate) const NAME: &str = "cursor-key";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    key: String,
}

/// Stores the key; refused if there is one. Blocks this thread.
#[cfg(feature = "store")]
pub fn create(store: &indelible_store::Store, key: &[u8; 32]) -> Result<Position, SubmitError> {
    let mut batch = Batch::in_slots(Slot::SERVER);
    batch.expect(SETTINGS, NAME, Expect::Absent);
    let stored = Stored { version: codec::JSON_VERSION, key: HEXLOWER.encode(key) };
    settings::put(&mut batch, NAME, &codec::write_json(&stored));
    store.submit_blocking(batch)
}

/// The stored key.
pub fn get(read: &impl Read) -> Result<Seen<Option<[u8; 32]>>, ReadError> {
    settings::read(read, NAME, decode)
}

/// Err says what is wrong, without any part of the key.
pub(crate) fn decode(body: &[u8]) -> Result<[u8; 32], String> {
    let stored: Stored =
        codec::read_json(body).map_err(|_| "it is not the JSON of a cursor key of version 1")?;
    let key = HEXLOWER.decode(stored.key.as_bytes()).ok().and_then(|key| key.try_into().ok());
    key.ok_or_else(|| "the key is not 64 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form must still be readable. Anything else is refused, without any part of the
    /// key in the error.
    #[test]
    fn the_stored_form() {
        let digits = "0a".repeat(32);
        let text = format!(r#"{{"version":1,"key":"{digits}"}}"#);
        assert_eq!(decode(text.as_bytes()), Ok([10; 32]));
        for (from, to) in [("n\":1", "n\":2"), ("0a", ""), ("0a", "0A"), ("key", "keys"), ("}", "")]
        {
            let wrong = text.replacen(from, to, 1);
            let why = decode(wrong.as_bytes()).expect_err(&wrong);
            assert!(!why.contains("0a0a"), "{why}");
        }
    }
}
