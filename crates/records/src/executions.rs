//! Executions: a row for each with its standing, and the one function by which a journal, its
//! execution's row and the indexes change together (D1).

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::binary::{self, EncodeError};
use indelible_journal::{
    ComponentDigest, Entry, ExecutionId, FunctionName, JournalKey, Namespace, RootHash, Status,
    Timestamp,
};
use indelible_store::{Batch, Expect, Read, ReadError, Scan, Seen};

use super::codec::{self, Malformed, Reader, put_text};
use super::{EXECUTIONS, FINISHED, JOURNALS, index, keys};

const VERSION: u8 = 1;

/// The longest note on why an execution is stuck, in bytes; longer ones are cut.
pub const STUCK_BYTES_MAX: usize = 4096;

/// How an execution stands, as lists show it: its journal's status, or that it is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Standing {
    /// The guest runs, or could.
    Running = 1,
    /// The guest waits.
    Blocked = 2,
    /// A cancel was requested; the guest may clean up.
    Cancelling = 3,
    /// It does not go on by itself: stuck (see C-25), or an outcome that a person has to settle.
    Stuck = 4,
    /// The function returned. Terminal.
    Completed = 5,
    /// The function failed. Terminal.
    Failed = 6,
    /// Cancelled. Terminal.
    Cancelled = 7,
}

impl Standing {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Blocked,
        Self::Cancelling,
        Self::Stuck,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The standing for this status, unless the execution is stuck.
    pub fn of(status: &Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Blocked { .. } => Self::Blocked,
            Status::Cancelling => Self::Cancelling,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }

    /// Whether it is over.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Blocked => "Blocked",
            Self::Cancelling => "Cancelling",
            Self::Stuck => "Stuck",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|standing| *standing as u8 == number)
    }
}

/// What is stored of an execution beside its journal: enough for lists, and to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Which attempt at which execution.
    pub key: JournalKey,
    /// How many entries its journal has.
    pub length: u64,
    /// How it stands.
    pub standing: Standing,
    /// When it was started: the time of its first entry.
    pub created_at: Timestamp,
    /// The time of its last entry.
    pub updated_at: Timestamp,
    /// The code it runs, fixed for its life.
    pub component: ComponentDigest,
    /// Its function in the component.
    pub function: FunctionName,
    /// Why it is stuck, if it is. Cut at [`STUCK_BYTES_MAX`].
    pub stuck: Option<String>,
    /// The namespace of a root's operation. None for children.
    pub namespace: Option<Namespace>,
}

/// Why an execution cannot be changed like this: a mistake of the calling code, found before
/// anything is submitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdvanceError {
    /// The length after is not the length before plus the new entries.
    #[error("a journal of {before} events with {entries} more cannot have {after}")]
    Length {
        /// The length before.
        before: u64,
        /// How many entries are new.
        entries: usize,
        /// The length after, as the calling code says.
        after: u64,
    },
    /// The new entries do not follow the stored ones.
    #[error("the first new event has sequence {first}, not {expected}")]
    Sequence {
        /// The sequence of the first new entry.
        first: u64,
        /// The journal's length.
        expected: u64,
    },
    /// A field that is fixed for an execution's life has changed.
    #[error("the {0} of an execution cannot change")]
    Fixed(&'static str),
    /// An entry cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Adds to a batch: the journal gets these entries, the execution's row becomes `after`, the
/// indexes follow. The store accepts it only if the row still is `before`, and so the journal as
/// long (D1): then the index entries of `before` are the stored ones. A new root is accepted only
/// when nothing is left of an earlier tree of the same root.
pub fn advance(
    batch: &mut Batch,
    before: Option<&Execution>,
    after: &Execution,
    entries: &[Entry],
) -> Result<(), AdvanceError> {
    check(before, after, entries)?;
    let key = keys::journal_key(&after.key);
    match before {
        None => batch.expect(EXECUTIONS, key.clone(), Expect::Absent),
        Some(before) => batch.expect(EXECUTIONS, key.clone(), Expect::Equal(encode(&key, before))),
    };
    if before.is_none() && after.key.execution_id().is_root() {
        // An earlier tree of the same root may be partly deleted: its entries would be taken for
        // this one's, and the sweep would delete this one's with them.
        let earlier = index::being_swept(after.key.execution_id().root());
        batch.expect(FINISHED, earlier, Expect::Absent);
    }
    for entries in binary::batches(entries) {
        let first = entries.first().expect("no batch is empty").sequence().get();
        let row = binary::encode(after.key.execution_id(), entries)?;
        let key = keys::journal_row(&after.key, first);
        let value = codec::seal(&JOURNALS, &key, super::journals::VERSION, &row);
        batch.put(JOURNALS, key, value);
    }
    batch.put(EXECUTIONS, key.clone(), encode(&key, after));
    index::replace(batch, before, Some(after));
    Ok(())
}

fn check(
    before: Option<&Execution>,
    after: &Execution,
    entries: &[Entry],
) -> Result<(), AdvanceError> {
    let length = before.map_or(0, |before| before.length);
    if length.checked_add(entries.len() as u64) != Some(after.length) {
        let (before, entries, after) = (length, entries.len(), after.length);
        return Err(AdvanceError::Length { before, entries, after });
    }
    if let Some(first) = entries.first().map(|entry| entry.sequence().get())
        && first != length
    {
        return Err(AdvanceError::Sequence { first, expected: length });
    }
    let Some(before) = before else { return Ok(()) };
    let fixed = [
        ("key", before.key == after.key),
        ("time of creation", before.created_at == after.created_at),
        ("component", before.component == after.component),
        ("function", before.function == after.function),
        ("namespace", before.namespace == after.namespace),
    ];
    match fixed.iter().find(|(_, same)| !same) {
        Some((what, _)) => Err(AdvanceError::Fixed(what)),
        None => Ok(()),
    }
}

/// One execution.
pub fn get(read: &impl Read, key: &JournalKey) -> Result<Seen<Option<Execution>>, ReadError> {
    let key = keys::journal_key(key);
    let decode = |value: Option<Bytes>| value.map(|value| decode(&key, &value)).transpose();
    codec::decoded(read, read.get(EXECUTIONS, &key)?, decode)
}

/// The last attempt at an execution: the one that goes on, or whose end is its end.
pub fn latest(
    read: &impl Read,
    execution: &ExecutionId,
) -> Result<Seen<Option<Execution>>, ReadError> {
    let prefix = keys::execution(execution);
    // Attempts sort by number from the root down, so the last key is the last attempt.
    let seen = read.scan(&Scan::prefix(EXECUTIONS, prefix, 1).reversed())?;
    codec::decoded(read, seen, |page| {
        page.rows.into_iter().next().map(|(key, value)| decode(&key, &value)).transpose()
    })
}

/// The attempt at an execution that follows another; without one, the first stored.
pub fn attempt_after(
    read: &impl Read,
    execution: &ExecutionId,
    after: Option<&JournalKey>,
) -> Result<Seen<Option<Execution>>, ReadError> {
    let mut scan = Scan::prefix(EXECUTIONS, keys::execution(execution), 1);
    if let Some(after) = after {
        scan = scan.after(keys::journal_key(after));
    }
    codec::decoded(read, read.scan(&scan)?, |page| {
        page.rows.into_iter().next().map(|(key, value)| decode(&key, &value)).transpose()
    })
}

/// The executions of a tree, all attempts, callers before their children: those after `after`, at
/// most `limit`.
pub fn tree(
    read: &impl Read,
    root: &RootHash,
    after: Option<&JournalKey>,
    limit: usize,
) -> Result<Seen<Vec<Execution>>, ReadError> {
    let prefix = Bytes::copy_from_slice(root.as_bytes());
    let mut scan = Scan::prefix(EXECUTIONS, prefix, limit);
    if let Some(after) = after {
        scan = scan.after(keys::journal_key(after));
    }
    codec::decoded(read, read.scan(&scan)?, |page| {
        page.rows.iter().map(|(key, value)| decode(key, value)).collect()
    })
}

pub(crate) fn encode(key: &[u8], execution: &Execution) -> Bytes {
    let stuck = execution.stuck.as_deref().map_or("", |stuck| cut(stuck, STUCK_BYTES_MAX));
    let namespace = execution.namespace.as_ref().map_or("", Namespace::as_str);
    let texts = execution.function.as_str().len() + stuck.len() + namespace.len();
    let mut body = BytesMut::with_capacity(96 + texts);
    body.put_u64(execution.length);
    body.put_u8(execution.standing as u8);
    body.put_u64(execution.created_at.as_micros());
    body.put_u64(execution.updated_at.as_micros());
    body.put_slice(execution.component.as_bytes());
    put_text(&mut body, execution.function.as_str());
    body.put_u8(u8::from(execution.stuck.is_some()));
    put_text(&mut body, stuck);
    put_text(&mut body, namespace);
    codec::seal(&EXECUTIONS, key, VERSION, &body)
}

pub(crate) fn decode(key: &Bytes, value: &Bytes) -> Result<Execution, ReadError> {
    let body = codec::unseal(&EXECUTIONS, key, VERSION, value)?;
    let read = || -> Result<Execution, Malformed> {
        let mut reader = Reader(key);
        let key = keys::read_journal_key(&mut reader)?;
        reader.end()?;
        let mut reader = Reader(&body);
        let length = reader.u64()?;
        let standing = Standing::from_number(reader.u8()?).ok_or(Malformed("unknown state"))?;
        let created_at = reader.timestamp()?;
        let updated_at = reader.timestamp()?;
        let component = ComponentDigest::from_bytes(reader.array()?);
        let function = FunctionName::new(reader.text()?);
        let function = function.map_err(|_| Malformed("the name of its function is invalid"))?;
        let is_stuck = reader.bool()?;
        let stuck = reader.text()?;
        let stuck = is_stuck.then(|| stuck.to_owned());
        let namespace = Some(reader.text()?).filter(|name| !name.is_empty()).map(Namespace::new);
        reader.end()?;
        let namespace = namespace.transpose();
        Ok(Execution {
            key,
            length,
            standing,
            created_at,
            updated_at,
            component,
            function,
            stuck,
            namespace: namespace.map_err(|_| Malformed("the name of its namespace is invalid"))?,
        })
    };
    read().map_err(|Malformed(what)| codec::damaged(&EXECUTIONS, key, what))
}

/// The beginning of a text, at most `bytes_max` bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
