//! The state machine: accepts an event or refuses it, and keeps what the next decision needs.

use crate::event::{Entry, Event, Record, Sequence};
use crate::ids::JournalKey;
use crate::status::Status;
use crate::time::Timestamp;
use crate::violation::Violation;

/// One attempt at an execution (interface only, for now).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    key: JournalKey,
    length: u64,
    status: Option<Status>,
}

impl Journal {
    /// An empty journal.
    pub fn new(key: JournalKey) -> Self {
        Self { key, length: 0, status: None }
    }

    /// Accepts an event, or refuses it and stays as it was.
    pub fn append(&mut self, timestamp: Timestamp, event: Event) -> Result<Entry, Violation> {
        let sequence = Sequence::new(self.length);
        self.append_record(Record { sequence, timestamp, event })
    }

    /// The same for an event that says where it stands.
    pub fn append_record(&mut self, record: Record) -> Result<Entry, Violation> {
        self.length += 1;
        self.status = Some(self.status.take().unwrap_or(Status::Running).after(&record.event));
        Ok(Entry::accepted(record))
    }

    /// Rebuilds a journal from its stored events.
    pub fn recover(
        key: JournalKey,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Self, Violation> {
        let mut journal = Self::new(key);
        for record in records {
            journal.append_record(record)?;
        }
        Ok(journal)
    }

    /// What it is stored under.
    pub fn key(&self) -> &JournalKey {
        &self.key
    }

    /// How many events it has: its version (J-6).
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The status; none while it is empty.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }
}
