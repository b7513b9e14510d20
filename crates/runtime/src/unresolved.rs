//! What is known of an effect of which nobody knows whether it happened: a row beside its journal,
//! as long as its reconciler is being asked or it waits for a person (D5).

use bytes::Bytes;
use indelible_journal::{Attempt, JournalKey, PromiseId, Timestamp};
use indelible_records::unresolved::Effect;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;

/// An unresolved effect, as its tree knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unresolved {
    /// The attempt that nobody knows of.
    pub(crate) attempt: Attempt,
    /// Since when nobody knows.
    pub(crate) since: Timestamp,
    /// What it is, for people.
    pub(crate) label: String,
    /// Why nobody knows, for people.
    pub(crate) why: String,
    pub(crate) state: State,
}

/// What is being done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for a person.
    Held,
    /// Its reconciler is being asked.
    Asking(Asking),
}

/// How far its reconciler was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asking {
    /// How many answers there were.
    pub(crate) answers: u32,
    /// The last answer was that it did not happen.
    pub(crate) not_done: bool,
    /// When the next question is asked: its timer.
    pub(crate) ask_at: Timestamp,
}

/// An effect of which nobody knows whether it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnresolvedEffect {
    /// Its promise: what is resolved.
    pub promise: PromiseId,
    /// The execution that it belongs to, and which attempt at that.
    pub execution: JournalKey,
    /// Which attempt at the effect nobody knows of.
    pub attempt: Attempt,
    /// Since when.
    pub since: Timestamp,
    /// What it is: method and address.
    pub label: String,
    /// Why nobody knows.
    pub why: String,
    /// Whether it waits for a person; else its reconciler is being asked.
    pub held: bool,
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
    asking: Option<StoredAsking>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAsking {
    answers: u32,
    not_done: bool,
    ask_at_us: u64,
}

impl Unresolved {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let asking = match self.state {
            State::Held => None,
            State::Asking(Asking { answers, not_done, ask_at }) => {
                Some(StoredAsking { answers, not_done, ask_at_us: ask_at.as_micros() })
            }
        };
        let stored = Stored {
            version: VERSION,
            attempt: self.attempt.get(),
            since_us: self.since.as_micros(),
            label: self.label.clone(),
            why: self.why.clone(),
            asking,
        };
        serde_json::to_vec(&stored).expect("texts and numbers are JSON")
    }

    /// Err: why it makes no sense to this version.
    pub(crate) fn decode(body: &Bytes) -> Result<Self, String> {
        let stored: Stored = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if stored.version != VERSION {
            return Err(format!("it is of version {}", stored.version));
        }
        let time = |us| Timestamp::from_micros(us).ok_or_else(|| "a time is none".to_owned());
        let state = match stored.asking {
            None => State::Held,
            Some(StoredAsking { answers, not_done, ask_at_us }) => {
                State::Asking(Asking { answers, not_done, ask_at: time(ask_at_us)? })
            }
        };
        let attempt = Attempt::new(stored.attempt).ok_or("an attempt is none")?;
        let (label, why) = (stored.label, stored.why);
        Ok(Self { attempt, since: time(stored.since_us)?, label, why, state })
    }

    pub(crate) fn shown(self, effect: Effect) -> UnresolvedEffect {
        let Effect { key, child } = effect;
        UnresolvedEffect {
            promise: key.execution_id().child(child),
            execution: key,
            attempt: self.attempt,
            since: self.since,
            label: self.label,
            why: self.why,
            held: self.state == State::Held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of version 1, as it is described: it must still read.
    #[test]
    fn records_of_version_1_read() {
        let asking = Asking {
            answers: 1,
            not_done: true,
            ask_at: Timestamp::from_micros(60).expect("it is a time"),
        };
        let record = Unresolved {
            attempt: Attempt::FIRST,
            since: Timestamp::from_micros(7).expect("it is a time"),
            label: "POST http://a.b/c".to_owned(),
            why: "no answer".to_owned(),
            state: State::Held,
        };
        let held = r#"{"version":1,"attempt":1,"since_us":7,"label":"POST http://a.b/c","why":"no answer"}"#;
        let text = |record: &Unresolved| String::from_utf8(record.encode()).expect("it is text");
        assert_eq!(text(&record), held);
        let read = |text: &str| Unresolved::decode(&Bytes::copy_from_slice(text.as_bytes()));
        assert_eq!(read(held), Ok(record.clone()));
        let record = Unresolved { state: State::Asking(asking), ..record };
        let more = r#","asking":{"answers":1,"not_done":true,"ask_at_us":60}}"#;
        let asked = held.replace('}', more);
        assert_eq!(text(&record), asked);
        assert_eq!(read(&asked), Ok(record));
        for (from, to) in [("n\":1", "n\":2"), ("attempt\":1", "attempt\":0"), ("}", ",\"x\":1}")] {
            assert!(read(&held.replace(from, to)).is_err(), "{to}");
        }
    }
}
