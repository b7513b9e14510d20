//! The audit record, read back: who did what, why, when.

use indelible_journal::{JournalKey, PromiseId, Timestamp};
use indelible_records::audit::{About, Entry};

/// An entry of the audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// Tells entries of one moment apart.
    pub id: [u8; 16],
    /// Who.
    pub actor: String,
    /// What was done.
    pub action: String,
    /// To which execution, and which attempt at it.
    pub execution: Option<JournalKey>,
    /// About which of its promises.
    pub promise: Option<PromiseId>,
    /// To what else: a component with its version, an API key.
    pub subject: Option<String>,
    /// Why.
    pub reason: String,
}

/// A place in the audit record: a time, or that of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditPlace {
    /// The time.
    pub at: Timestamp,
    /// Which entry of that time; zero is before all of them.
    pub id: [u8; 16],
}

impl From<Timestamp> for AuditPlace {
    fn from(at: Timestamp) -> Self {
        Self { at, id: [0; 16] }
    }
}

impl AuditEntry {
    /// Its place: those before it are on the next page.
    pub fn place(&self) -> AuditPlace {
        AuditPlace { at: self.at, id: self.id }
    }
}

impl From<Entry> for AuditEntry {
    fn from(entry: Entry) -> Self {
        let (execution, promise, subject) = match entry.about {
            About::Execution(key) => (Some(key), None, None),
            About::Promise(key, promise) => (Some(key), Some(promise), None),
            About::Component(name, digest) => (None, None, Some(format!("{name} {digest}"))),
            About::Subject(subject) => (None, None, Some(subject)),
        };
        let Entry { at, id, actor, action, reason, .. } = entry;
        Self { at, id, actor, action, execution, promise, subject, reason }
    }
}
