//! How often the store was restored from a backup (C-48). A restore takes clients' streams back in
//! time: a client that is ahead of its stream is told so by this number.
//!
//! ```text
//! setting `restores`:   {"version":1,"count":…}
//! ```

use indelible_store::{Batch, Read, ReadError, Seen};
use serde::{Deserialize, Serialize};

use super::{codec, settings};

pub(crate) const NAME: &str = "restores";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    count: u64,
}

/// Adds to a batch: the store was restored so often.
pub fn put(batch: &mut Batch, count: u64) {
    let stored = Stored { version: codec::JSON_VERSION, count };
    settings::put(batch, NAME, &codec::write_json(&stored));
}

/// Counts a restore, and returns the position at which that is durable. Blocks this thread.
#[cfg(feature = "store")]
pub fn raise(
    store: &indelible_store::Store,
) -> Result<indelible_store::Position, Box<dyn std::error::Error>> {
    let before = get(store)?.value;
    let mut batch = Batch::in_slots(indelible_slots::Slot::SERVER);
    put(&mut batch, before + 1);
    Ok(store.submit_blocking(batch)?)
}

/// How often the store was restored.
pub fn get(read: &impl Read) -> Result<Seen<u64>, ReadError> {
    let seen = settings::read(read, NAME, decode)?;
    Ok(seen.map(Option::unwrap_or_default))
}

pub(crate) fn decode(body: &[u8]) -> Result<u64, String> {
    codec::read_json(body).map(|Stored { count, .. }| count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form must still be readable. Anything else is refused.
    #[test]
    fn the_stored_form() {
        let text = r#"{"version":1,"count":7}"#;
        assert_eq!(decode(text.as_bytes()), Ok(7));
        for (from, to) in [("n\":1", "n\":2"), (":7", ":-7"), ("}", ",\"x\":1}")] {
            let wrong = text.replacen(from, to, 1);
            assert_ne!(wrong, text);
            assert!(decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
