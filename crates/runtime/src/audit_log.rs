//! The audit record, read back: who did what, why, when.

use indelible_journal::{JournalKey, PromiseId, Timestamp};
use indelible_records::audit;
use serde::Deserialize;

const VERSION: u8 = 1;

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

#[derive(Deserialize)]
struct Stored {
    version: u8,
    actor: String,
    action: String,
    #[serde(default)]
    execution: Option<String>,
    #[serde(default)]
    promise: Option<String>,
    #[serde(default)]
    component: Option<String>,
    #[serde(default)]
    digest: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    reason: String,
}

impl AuditEntry {
    /// Its place: those before it are on the next page.
    pub fn place(&self) -> AuditPlace {
        AuditPlace { at: self.at, id: self.id }
    }

    /// Err: why it makes no sense to this version.
    pub(crate) fn decode(entry: &audit::Entry) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("an entry of the audit record: {why}");
        let stored: Stored = serde_json::from_slice(&entry.body).map_err(|error| wrong(&error))?;
        if stored.version != VERSION {
            return Err(wrong(&format_args!("it is of version {}", stored.version)));
        }
        let execution = stored.execution.map(|text| text.parse()).transpose();
        let promise = stored.promise.map(|text| text.parse()).transpose();
        Ok(Self {
            at: entry.at,
            id: entry.id,
            actor: stored.actor,
            action: stored.action,
            execution: execution.map_err(|error| wrong(&error))?,
            promise: promise.map_err(|error| wrong(&error))?,
            subject: match (stored.component, stored.digest) {
                (Some(component), Some(digest)) => Some(format!("{component} {digest}")),
                _ => stored.subject,
            },
            reason: stored.reason,
        })
    }
}
