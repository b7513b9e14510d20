//! The row of the retention clock: the time by which records and finished trees are deleted (C-3).
//! The engine decides how the clock advances.
//!
//! ```text
//! setting `retention-clock`:   {"version":1,"time_us":…,"wall_us":…,"purged_us":…}
//! ```

use indelible_journal::Timestamp;
use indelible_store::{Batch, Read, ReadError, Seen};
use serde::{Deserialize, Serialize};

use super::{codec, settings};

pub(crate) const NAME: &str = "retention-clock";

/// The state of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The time of the retention clock.
    pub time: Timestamp,
    /// The wall clock's time at that moment.
    pub wall: Timestamp,
    /// The latest time by which records were purged; the epoch if none were.
    pub purged: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    time_us: u64,
    wall_us: u64,
    purged_us: u64,
}

/// Adds to a batch: the clock has this state.
pub fn put(batch: &mut Batch, row: &Row) {
    settings::put(batch, NAME, &encode(row));
}

/// The state of the clock.
pub fn get(read: &impl Read) -> Result<Seen<Option<Row>>, ReadError> {
    settings::read(read, NAME, decode)
}

fn encode(row: &Row) -> Vec<u8> {
    codec::write_json(&Stored {
        version: codec::JSON_VERSION,
        time_us: row.time.as_micros(),
        wall_us: row.wall.as_micros(),
        purged_us: row.purged.as_micros(),
    })
}

pub(crate) fn decode(body: &[u8]) -> Result<Row, String> {
    let Stored { time_us, wall_us, purged_us, .. } = codec::read_json(body)?;
    let time = codec::read_micros;
    Ok(Row { time: time(time_us)?, wall: time(wall_us)?, purged: time(purged_us)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form must still be readable. Anything else is refused.
    #[test]
    fn the_stored_form() {
        let at = |micros| Timestamp::from_micros(micros).expect("it is a time");
        let text = r#"{"version":1,"time_us":1,"wall_us":2,"purged_us":3}"#;
        let row = Row { time: at(1), wall: at(2), purged: at(3) };
        assert_eq!(decode(text.as_bytes()), Ok(row));
        assert_eq!(encode(&row), text.as_bytes());
        for (from, to) in [
            ("n\":1", "n\":2"),
            (":3", ":-3"),
            (":2", ":\"2\""),
            ("_us\":1", "\":1"),
            (":1,\"w", ":18000000000000000000,\"w"),
        ] {
            let wrong = text.replacen(from, to, 1);
            assert_ne!(wrong, text);
            assert!(decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
