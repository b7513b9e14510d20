//! The audit record: who did what, why and when, written in the commit of what was done (C-38).
//!
//! ```text
//! audit   time (8) ‖ id (16)   ->   JSON, sealed
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{ComponentDigest, JournalKey, PromiseId, Timestamp};
use indelible_slots::Slot;
use indelible_store::{Batch, Read, ReadError, Scan, Seen};
use serde::{Deserialize, Serialize};

use super::{AUDIT, ComponentName, codec};

const VERSION: u8 = 1;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it was done.
    pub at: Timestamp,
    /// Tells apart entries of one moment. It begins with the slot of the entry's subject.
    pub id: [u8; 16],
    /// Who did it.
    pub actor: String,
    /// What was done.
    pub action: String,
    /// What it was done to.
    pub about: AuditSubject,
    /// The reason that the actor gave.
    pub reason: String,
}

/// A place in the audit record: a time, or the place of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditPosition {
    /// The time.
    pub at: Timestamp,
    /// Which entry of that time; zero is before all of them.
    pub id: [u8; 16],
}

impl From<Timestamp> for AuditPosition {
    fn from(at: Timestamp) -> Self {
        Self { at, id: [0; 16] }
    }
}

/// The subject of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditSubject {
    /// An attempt at an execution.
    Execution(JournalKey),
    /// One of an execution's promises.
    Promise(JournalKey, PromiseId),
    /// A version of a component.
    Component(ComponentName, ComponentDigest),
    /// Anything else, in words.
    Subject(String),
}

impl Entry {
    /// An entry whose id begins with the slot of its subject, and is random otherwise.
    pub fn new(
        at: Timestamp,
        random: [u8; 16],
        actor: &str,
        action: &str,
        about: AuditSubject,
    ) -> Self {
        let mut id = random;
        about.slot().stamp(&mut id);
        let (actor, action) = (actor.to_owned(), action.to_owned());
        Self { at, id, actor, action, about, reason: String::new() }
    }

    /// Its place: entries before it are on the next page.
    pub fn place(&self) -> AuditPosition {
        AuditPosition { at: self.at, id: self.id }
    }

    /// The slot of its subject.
    pub fn slot(&self) -> Slot {
        Slot::at_start_of(&self.id)
    }
}

impl AuditSubject {
    fn slot(&self) -> Slot {
        match self {
            Self::Execution(key) | Self::Promise(key, _) => key.execution_id().root().slot(),
            Self::Component(..) | Self::Subject(_) => Slot::SERVER,
        }
    }
}

/// The body. Unknown keys are ignored: an entry is for people.
#[derive(Default, Serialize, Deserialize)]
struct Stored {
    version: u8,
    actor: String,
    action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    promise: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    component: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    reason: String,
}

/// Adds an entry to a batch.
pub fn put(batch: &mut Batch, entry: &Entry) {
    codec::put(batch, AUDIT, key(entry.place()), VERSION, &encode(entry));
}

fn encode(entry: &Entry) -> Vec<u8> {
    let mut stored = Stored {
        version: codec::JSON_VERSION,
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        reason: entry.reason.clone(),
        ..Stored::default()
    };
    match &entry.about {
        AuditSubject::Execution(key) => stored.execution = Some(key.to_string()),
        AuditSubject::Promise(key, of) => {
            (stored.execution, stored.promise) = (Some(key.to_string()), Some(of.to_string()));
        }
        AuditSubject::Component(name, of) => {
            (stored.component, stored.digest) = (Some(name.to_string()), Some(of.to_string()));
        }
        AuditSubject::Subject(text) => stored.subject = Some(text.clone()),
    }
    codec::write_json(&stored)
}

fn read_body(body: &[u8]) -> Result<(Stored, AuditSubject), String> {
    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
        text.parse().map_err(|error: T::Err| error.to_string())
    }
    let stored: Stored = codec::read_json(body)?;
    let Stored { execution, promise, component, digest, subject, .. } = &stored;
    let about = match (execution, promise, component, digest, subject) {
        (Some(key), None, None, None, None) => AuditSubject::Execution(parsed(key)?),
        (Some(key), Some(of), None, None, None) => AuditSubject::Promise(parsed(key)?, parsed(of)?),
        (None, None, Some(name), Some(of), None) => {
            AuditSubject::Component(parsed(name)?, parsed(of)?)
        }
        (None, None, None, None, Some(text)) => AuditSubject::Subject(text.clone()),
        _ => return Err("its subject is missing".to_owned()),
    };
    Ok((stored, about))
}

fn key(AuditPosition { at, id }: AuditPosition) -> Bytes {
    let mut key = BytesMut::with_capacity(24);
    key.put_u64(at.as_micros());
    key.put_slice(&id);
    key.freeze()
}

/// The newest entries before a time, or before the last entry of a page, at most `limit`. A page
/// may end between entries of one moment.
pub fn before(
    read: &impl Read,
    before: impl Into<AuditPosition>,
    limit: usize,
) -> Result<Seen<Vec<Entry>>, ReadError> {
    let mut scan = Scan::all(AUDIT, limit).reversed();
    scan.range.1 = std::ops::Bound::Excluded(key(before.into()));
    codec::scan(read, &scan, decode)
}

/// The time of the newest entry. The body is not read: it may be damaged.
pub fn newest(read: &impl Read) -> Result<Seen<Option<Timestamp>>, ReadError> {
    read.scan(&Scan::all(AUDIT, 1).reversed())?.try_map(|page| {
        page.rows.first().map(|(key, _)| read_key(key).map(|(at, _)| at)).transpose()
    })
}

fn read_key(key: &Bytes) -> Result<(Timestamp, [u8; 16]), ReadError> {
    codec::parse(&AUDIT, key, key, |reader| Ok((reader.timestamp()?, reader.array()?)))
}

pub(crate) fn decode(key: &Bytes, value: &Bytes) -> Result<Entry, ReadError> {
    let body = codec::unseal(&AUDIT, key, VERSION, value)?;
    let (at, id) = read_key(key)?;
    let (stored, about) = read_body(&body).map_err(|what| codec::damaged(&AUDIT, key, what))?;
    let Stored { actor, action, reason, .. } = stored;
    Ok(Entry { at, id, actor, action, about, reason })
}

#[cfg(test)]
mod tests {
    use indelible_journal::{ExecutionId, RootHash};

    use super::*;

    /// C-38: the text of version 1, for every subject that an entry can have, must still be
    /// readable. An entry with no subject, or with two, is refused.
    #[test]
    fn entries_of_version_1_read() {
        let execution = ExecutionId::root_of(RootHash::from_bytes([7; 32]));
        let (key, promise) = (JournalKey::first(execution.clone()), execution.child(3));
        let digest = ComponentDigest::from_bytes([9; 32]);
        let name = ComponentName::new("shop").expect("it is a name");
        let cases = [
            (AuditSubject::Execution(key.clone()), format!(r#""execution":"{key}""#)),
            (
                AuditSubject::Promise(key.clone(), promise.clone()),
                format!(r#""execution":"{key}","promise":"{promise}""#),
            ),
            (
                AuditSubject::Component(name, digest),
                format!(r#""component":"shop","digest":"{digest}""#),
            ),
            (AuditSubject::Subject("store".to_owned()), r#""subject":"store""#.to_owned()),
        ];
        for (about, part) in cases {
            let text = format!(
                r#"{{"version":1,"actor":"user:ada","action":"did",{part},"reason":"why"}}"#
            );
            let (at, id, reason) = (Timestamp::EPOCH, [1; 16], "why".to_owned());
            let (actor, action) = ("user:ada".to_owned(), "did".to_owned());
            let entry = Entry { at, id, actor, action, about: about.clone(), reason };
            assert_eq!(String::from_utf8(encode(&entry)).expect("it is text"), text);
            let (stored, read) = read_body(text.as_bytes()).expect("it is an entry");
            assert_eq!((stored.actor.as_str(), read), ("user:ada", about));
            let unclear = format!("{part},\"digest\":\"x\"");
            let part_and_comma = format!("{part},");
            let (more, two) = (r#""more":1,"reason"#, r#""subject":"x","execution":"x","reason"#);
            assert!(read_body(text.replace("\"reason", more).as_bytes()).is_ok());
            for (from, to) in [
                ("n\":1", "n\":2"),
                (part_and_comma.as_str(), ""),
                (part.as_str(), unclear.as_str()),
                ("\"reason", two),
                ("0707", "zz"),
                ("shop", "a shop"),
                ("\"store\"", "1"),
            ] {
                let broken = text.replace(from, to);
                assert!(broken == text || read_body(broken.as_bytes()).is_err(), "{broken}");
            }
        }
    }
}
