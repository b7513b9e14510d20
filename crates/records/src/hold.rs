//! The row of the hold: a folder that was restored on hold, which goes on only when an operator
//! lifts the hold. The engine decides what that means.
//!
//! ```text
//! setting `hold`:   {"version":1,"restored_us":…,"backup_us":…}
//! ```

use indelible_journal::Timestamp;
use indelible_slots::Slot;
use indelible_store::{Batch, Position, Read, ReadError, Seen, SubmitError};
use serde::{Deserialize, Serialize};

use super::{codec, settings};

pub(crate) const NAME: &str = "hold";

/// What a folder on hold was restored from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// When it was restored, by the clock of the process that restored it.
    pub at: Timestamp,
    /// When the backup was made.
    pub backup_made_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    restored_us: u64,
    backup_us: u64,
}

/// Puts a store on hold. Blocks this thread.
#[cfg(feature = "store")]
pub fn create(
    store: &indelible_store::Store,
    restored: &Restored,
) -> Result<Position, SubmitError> {
    let mut batch = Batch::in_slots(Slot::SERVER);
    settings::put(&mut batch, NAME, &encode(restored));
    store.submit_blocking(batch)
}

/// Adds to a batch: the store is not on hold.
pub fn delete(batch: &mut Batch) {
    settings::delete(batch, NAME);
}

/// Whether the store is on hold.
pub fn get(read: &impl Read) -> Result<Seen<Option<Restored>>, ReadError> {
    settings::read(read, NAME, decode)
}

fn encode(restored: &Restored) -> Vec<u8> {
    codec::write_json(&Stored {
        version: codec::JSON_VERSION,
        restored_us: restored.at.as_micros(),
        backup_us: restored.backup_made_at.as_micros(),
    })
}

pub(crate) fn decode(body: &[u8]) -> Result<Restored, String> {
    let Stored { restored_us, backup_us, .. } = codec::read_json(body)?;
    let time = codec::read_micros;
    Ok(Restored { at: time(restored_us)?, backup_made_at: time(backup_us)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form must still be readable. Anything else is refused.
    #[test]
    fn the_stored_form() {
        let at = |micros| Timestamp::from_micros(micros).expect("it is a time");
        let text = r#"{"version":1,"restored_us":2,"backup_us":1}"#;
        let restored = Restored { at: at(2), backup_made_at: at(1) };
        assert_eq!(decode(text.as_bytes()), Ok(restored));
        assert_eq!(encode(&restored), text.as_bytes());
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
