//! Unresolved effects: their outcome is unknown, and their reconciler is being asked or they wait
//! for a person (D5).
//!
//! ```text
//! unresolved   journal key ‖ child (4)   ->   JSON, sealed
//! ```

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{Attempt, JournalKey, Timestamp};
use indelible_store::{Batch, Read, ReadError, Scan, Seen};
use serde::{Deserialize, Serialize};

use super::{UNRESOLVED, codec, keys};

const VERSION: u8 = 1;

/// Which effect: a child of an execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    /// The execution.
    pub key: JournalKey,
    /// Its child.
    pub child: u32,
}

/// What is known of an unresolved effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// The attempt whose outcome is unknown.
    pub attempt: Attempt,
    /// Since when it is unknown.
    pub since: Timestamp,
    /// What it is, for people.
    pub label: String,
    /// Why it is unknown, for people.
    pub why: String,
    /// What is being done about it.
    pub state: State,
}

/// What is being done about an unresolved effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits for a person.
    Held,
    /// Its reconciler is being asked.
    Asking(ReconcilerProgress),
}

/// How far a reconciler was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconcilerProgress {
    /// How many answers it gave.
    pub answers: u32,
    /// The last answer was that the effect did not happen.
    pub not_done: bool,
    /// When the next question is asked: the due time of its timer.
    pub ask_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    attempt: u32,
    since_us: u64,
    label: String,
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asking: Option<StoredProgress>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredProgress {
    answers: u32,
    not_done: bool,
    ask_at_us: u64,
}

fn write_body(known: &Unresolved) -> Vec<u8> {
    let asking = match known.state {
        State::Held => None,
        State::Asking(ReconcilerProgress { answers, not_done, ask_at }) => {
            Some(StoredProgress { answers, not_done, ask_at_us: ask_at.as_micros() })
        }
    };
    codec::write_json(&Stored {
        version: codec::JSON_VERSION,
        attempt: known.attempt.get(),
        since_us: known.since.as_micros(),
        label: known.label.clone(),
        why: known.why.clone(),
        asking,
    })
}

fn read_body(body: &[u8]) -> Result<Unresolved, String> {
    let stored: Stored = codec::read_json(body)?;
    let state = match stored.asking {
        None => State::Held,
        Some(StoredProgress { answers, not_done, ask_at_us }) => {
            State::Asking(ReconcilerProgress {
                answers,
                not_done,
                ask_at: codec::read_micros(ask_at_us)?,
            })
        }
    };
    let attempt = Attempt::new(stored.attempt).ok_or("an attempt is invalid")?;
    let since = codec::read_micros(stored.since_us)?;
    Ok(Unresolved { attempt, since, label: stored.label, why: stored.why, state })
}

/// Adds to a batch: this effect is unresolved, with this state.
pub fn put(batch: &mut Batch, effect: &Effect, known: &Unresolved) {
    codec::put(batch, UNRESOLVED, encode(effect), VERSION, &write_body(known));
}

/// Adds to a batch: this effect is resolved.
pub fn delete(batch: &mut Batch, effect: &Effect) {
    batch.delete(UNRESOLVED, encode(effect));
}

/// What is known of an effect; none if it is not unresolved.
pub fn get(read: &impl Read, effect: &Effect) -> Result<Seen<Option<Unresolved>>, ReadError> {
    let key = encode(effect);
    codec::get(read, UNRESOLVED, &key, |value| decode(&key, value).map(|(_, known)| known))
}

/// Unresolved effects after `after`, at most `limit`.
pub fn next(
    read: &impl Read,
    after: Option<&Effect>,
    limit: usize,
) -> Result<Seen<Vec<(Effect, Unresolved)>>, ReadError> {
    let mut scan = Scan::all(UNRESOLVED, limit);
    if let Some(after) = after {
        scan.range.0 = Bound::Excluded(encode(after));
    }
    codec::scan(read, &scan, decode)
}

fn encode(effect: &Effect) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    keys::put_journal_key(&mut out, &effect.key);
    out.put_u32(effect.child);
    out.freeze()
}

pub(crate) fn decode(key: &Bytes, value: &Bytes) -> Result<(Effect, Unresolved), ReadError> {
    let body = codec::unseal(&UNRESOLVED, key, VERSION, value)?;
    let effect = codec::parse(&UNRESOLVED, key, key, |reader| {
        Ok(Effect { key: keys::read_journal_key(reader)?, child: reader.u32()? })
    })?;
    let known = read_body(&body).map_err(|what| codec::damaged(&UNRESOLVED, key, what))?;
    Ok((effect, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of version 1 must still be readable.
    #[test]
    fn bodies_of_version_1_read() {
        let at = |micros| Timestamp::from_micros(micros).expect("it is a time");
        let known = Unresolved {
            attempt: Attempt::FIRST,
            since: at(7),
            label: "POST http://a.b/c".to_owned(),
            why: "no answer".to_owned(),
            state: State::Held,
        };
        let held = r#"{"version":1,"attempt":1,"since_us":7,"label":"POST http://a.b/c","why":"no answer"}"#;
        assert_eq!(write_body(&known), held.as_bytes());
        assert_eq!(read_body(held.as_bytes()), Ok(known.clone()));
        let asking = ReconcilerProgress { answers: 1, not_done: true, ask_at: at(60) };
        let known = Unresolved { state: State::Asking(asking), ..known };
        let more = r#","asking":{"answers":1,"not_done":true,"ask_at_us":60}}"#;
        let asked = held.replace('}', more);
        assert_eq!(write_body(&known), asked.as_bytes());
        assert_eq!(read_body(asked.as_bytes()), Ok(known));
        for (from, to) in [("n\":1", "n\":2"), ("attempt\":1", "attempt\":0"), ("}", ",\"x\":1}")] {
            assert!(read_body(held.replace(from, to).as_bytes()).is_err(), "{to}");
        }
    }
}
