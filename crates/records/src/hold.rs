//! The row of the hold: a folder that was restored, until an operator lifts the hold. It is on hold as
//! a whole, or only refuses names that it does not know (C-48). The engine decides what that means.
//!
//! ```text
//! setting `hold`:   {"version":1,"restored_us":…,"backup_us":…}
//!                   {"version":1,"restored_us":…,"backup_us":…,"names_only":true}
//! ```

use indelible_journal::Timestamp;
use indelible_slots::Slot;
use indelible_store::{Batch, Position, Read, ReadError, Seen, SubmitError};
use serde::{Deserialize, Serialize};

use super::{codec, settings};

pub(crate) const NAME: &str = "hold";

/// What a folder was restored from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// When it was restored, by the clock of the process that restored it.
    pub at: Timestamp,
    /// When the backup was made.
    pub backup_made_at: Timestamp,
    /// Whether it is on hold. Otherwise only names that it does not know are refused.
    pub on_hold: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    restored_us: u64,
    backup_us: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    names_only: bool,
}

/// Adds the row to a store that was restored. Blocks this thread.
#[cfg(feature = "store")]
pub fn create(
    store: &indelible_store::Store,
    restored: &Restored,
) -> Result<Position, SubmitError> {
    let mut batch = Batch::in_slots(Slot::SERVER);
    settings::put(&mut batch, NAME, &encode(restored));
    store.submit_blocking(batch)
}

/// Adds to a batch: an operator has lifted the hold.
pub fn delete(batch: &mut Batch) {
    settings::delete(batch, NAME);
}

/// What the store was restored from, unless an operator has lifted the hold since.
pub fn get(read: &impl Read) -> Result<Seen<Option<Restored>>, ReadError> {
    settings::read(read, NAME, decode)
}

fn encode(restored: &Restored) -> Vec<u8> {
    codec::write_json(&Stored {
        version: codec::JSON_VERSION,
        restored_us: restored.at.as_micros(),
        backup_us: restored.backup_made_at.as_micros(),
        names_only: !restored.on_hold,
    })
}

pub(crate) fn decode(body: &[u8]) -> Result<Restored, String> {
    let Stored { restored_us, backup_us, names_only, .. } = codec::read_json(body)?;
    let (at, backup_made_at) = (codec::read_micros(restored_us)?, codec::read_micros(backup_us)?);
    Ok(Restored { at, backup_made_at, on_hold: !names_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form must still be readable. Anything else is refused.
    #[test]
    fn the_stored_form() {
        let at = |micros| Timestamp::from_micros(micros).expect("it is a time");
        let text = r#"{"version":1,"restored_us":2,"backup_us":1}"#;
        let names_only = text.replace('}', r#","names_only":true}"#);
        for (text, on_hold) in [(text, true), (&names_only, false)] {
            let restored = Restored { at: at(2), backup_made_at: at(1), on_hold };
            assert_eq!(decode(text.as_bytes()), Ok(restored));
            assert_eq!(encode(&restored), text.as_bytes());
        }
        for (from, to) in [
            ("n\":1", "n\":2"),
            (":2", ":-2"),
            ("_us\":1", "\":1"),
            (":2,", ":18000000000000000000,"),
            ("}", ",\"x\":1}"),
        ] {
            let wrong = text.replacen(from, to, 1);
            assert_ne!(wrong, text);
            assert!(decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
