//! Executions: a row for each with its standing, and the one function by which a journal, its
//! execution's row and the indexes change together (D1).

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::binary::{self, EncodeError};
use indelible_journal::{
    ComponentDigest, Ending, Entry, ErrorKind, ExecutionId, FunctionName, Journal, JournalKey,
    Namespace, RootHash, Status, Timestamp,
};
use indelible_store::{Batch, Expect, Read, ReadError, Scan, Seen};

use super::codec::{self, Malformed, Reader, put_text};
use super::labels::Labels;
use super::{EXECUTIONS, FINISHED, JOURNALS, index, keys};

/// The version of a row that has nothing behind the namespace, as all rows had before labels.
const PLAIN_VERSION: u8 = 1;
/// The version of a row that has a key, labels or an error.
const LABELLED_VERSION: u8 = 2;
/// The version of a row that ended as Indeterminate, which was [`Standing::Failed`] before.
const VERSION: u8 = 3;

/// The longest note on why an execution is stuck, in bytes; longer ones are cut.
pub const STUCK_BYTES_MAX: usize = 4096;

/// The longest message of an error in a row, in bytes; longer ones are cut. The journal has all of
/// it.
pub const ERROR_BYTES_MAX: usize = 512;

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
    /// It is unknown whether something that it did happened, and that was its outcome (V-46).
    /// Terminal.
    Indeterminate = 8,
}

impl Standing {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Running,
        Self::Blocked,
        Self::Cancelling,
        Self::Stuck,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Indeterminate,
    ];

    /// The standing by its journal, unless the execution is stuck.
    pub fn of(journal: &Journal) -> Self {
        match (journal.ending(), journal.status()) {
            (Some(ending), _) => Self::of_ending(ending),
            (None, Some(Status::Blocked { .. })) => Self::Blocked,
            (None, Some(Status::Cancelling)) => Self::Cancelling,
            (None, _) => Self::Running,
        }
    }

    /// The standing of what ended like this.
    pub fn of_ending(ending: &Ending) -> Self {
        match ending {
            Ending::Completed(_) => Self::Completed,
            Ending::Failed(failure) if failure.kind == ErrorKind::Indeterminate => {
                Self::Indeterminate
            }
            Ending::Failed(_) => Self::Failed,
            Ending::Cancelled(_) => Self::Cancelled,
        }
    }

    /// Whether it is over.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Indeterminate)
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
            Self::Indeterminate => "Indeterminate",
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
    /// The idempotency key under which a caller started it.
    pub idempotency_key: Option<Arc<str>>,
    /// Its labels (C-79).
    pub labels: Labels,
    /// Why it failed or was cancelled, if it did.
    pub error: Option<EndError>,
}

/// Why an execution failed or was cancelled, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndError {
    /// For a program.
    pub kind: ErrorKind,
    /// For people. Cut at [`ERROR_BYTES_MAX`].
    pub message: String,
}

impl EndError {
    /// The error with which a journal ended, if it did so with one.
    pub fn of(journal: &Journal) -> Option<Self> {
        let (kind, message) = match journal.ending()? {
            Ending::Completed(_) => return None,
            Ending::Failed(failure) => (failure.kind, &failure.message),
            Ending::Cancelled(reason) => (ErrorKind::Cancelled, reason),
        };
        Some(Self { kind, message: cut(message, ERROR_BYTES_MAX).to_owned() })
    }

    /// 0 if there is none; otherwise 1 and the place of its kind in [`ErrorKind::ALL`], and the
    /// message with its length.
    fn put(error: Option<&Self>, out: &mut BytesMut) {
        let Some(Self { kind, message }) = error else { return out.put_u8(0) };
        let place = ErrorKind::ALL.iter().position(|known| known == kind);
        let place = place.and_then(|place| u8::try_from(place + 1).ok());
        out.put_u8(place.expect("the list has all kinds"));
        put_text(out, cut(message, ERROR_BYTES_MAX));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let Some(place) = usize::from(reader.u8()?).checked_sub(1) else { return Ok(None) };
        let kind = ErrorKind::ALL.get(place).ok_or(Malformed("its error is of unknown kind"))?;
        Ok(Some(Self { kind: *kind, message: reader.text()?.to_owned() }))
    }
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
    index::replace(batch, before, after);
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
        ("idempotency key", before.idempotency_key == after.idempotency_key),
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
    let Execution { idempotency_key, labels, error, standing, .. } = execution;
    // A row of an earlier build must be written as it was: a commit demands the stored bytes.
    if idempotency_key.is_none() && labels.is_empty() && error.is_none() {
        return codec::seal(&EXECUTIONS, key, PLAIN_VERSION, &body);
    }
    put_text(&mut body, idempotency_key.as_deref().unwrap_or_default());
    labels.put(&mut body);
    EndError::put(error.as_ref(), &mut body);
    let version = match standing {
        Standing::Indeterminate => VERSION,
        _ => LABELLED_VERSION,
    };
    codec::seal(&EXECUTIONS, key, version, &body)
}

pub(crate) fn decode(key: &Bytes, value: &Bytes) -> Result<Execution, ReadError> {
    let (version, body) = codec::unseal_of(&EXECUTIONS, key, PLAIN_VERSION..=VERSION, value)?;
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
        let (idempotency_key, labels, error) = match version {
            PLAIN_VERSION => (None, Labels::default(), None),
            _ => {
                let key = Some(reader.text()?).filter(|key| !key.is_empty()).map(Arc::from);
                (key, Labels::read(&mut reader)?, EndError::read(&mut reader)?)
            }
        };
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
            idempotency_key,
            labels,
            error,
        })
    };
    read().map_err(|Malformed(what)| codec::damaged(&EXECUTIONS, key, what))
}

/// The beginning of a text, at most `bytes_max` bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;

    /// A row as builds before labels wrote it reads, and is written again byte by byte: the commit
    /// that changes it demands what is stored.
    #[test]
    fn a_row_without_labels_is_as_it_was() {
        let bytes = |text: &str| Bytes::from(HEXLOWER.decode(text.as_bytes()).unwrap());
        let key = bytes(
            "9b1c2e1645f34d0aa07d64b0b5a26c7bf00c3a39ec370f386859d13a2f28d6b8010000000700000001\
             00000002",
        );
        let value = bytes(
            "01000000000000000206000000000000044c00000000000004b06985ca1f4daa5a584a28eae043a239\
             cb96689af1337ea13afb63e00c2bf512fa00076772c3b6c39f650000000000911190ab",
        );
        let row = decode(&key, &value).unwrap();
        assert_eq!((row.standing, row.function.as_str()), (Standing::Failed, "größe"));
        assert_eq!(
            (&row.idempotency_key, &row.labels, &row.error),
            (&None, &Labels::default(), &None)
        );
        assert_eq!(encode(&key, &row), value);
        let newer = codec::seal(&EXECUTIONS, &key, VERSION + 1, b"");
        let error = decode(&key, &newer).unwrap_err().to_string();
        assert!(error.contains("it has version 4; this build reads version 3"), "{error}");
    }

    /// Key, labels and error, each alone, read back; a long message is cut between characters.
    #[test]
    fn what_came_with_labels_reads_back() {
        let key = bytes::Bytes::from([&[7; 32][..], &[0, 0, 0, 0, 1]].concat());
        let plain = Execution {
            key: keys::read_journal_key(&mut Reader(&key)).unwrap(),
            length: 3,
            standing: Standing::Failed,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
            component: ComponentDigest::of(b""),
            function: FunctionName::new("f").unwrap(),
            stuck: None,
            namespace: Some(Namespace::new("n").unwrap()),
            idempotency_key: None,
            labels: Labels::default(),
            error: None,
        };
        let labels = Labels::of_start(["a=1".parse().unwrap()]).unwrap();
        let mut rows = vec![
            Execution { idempotency_key: Some("k".into()), ..plain.clone() },
            Execution { labels, ..plain.clone() },
        ];
        for kind in ErrorKind::ALL {
            let error = Some(EndError { kind, message: "no luck".to_owned() });
            rows.push(Execution { error, ..plain.clone() });
        }
        for row in rows {
            let value = encode(&key, &row);
            assert_eq!(value[0], LABELLED_VERSION);
            assert_eq!(decode(&key, &value).unwrap(), row);
            // Earlier builds do not know this standing.
            if row.error.is_some() {
                let row = Execution { standing: Standing::Indeterminate, ..row };
                let value = encode(&key, &row);
                assert_eq!(value[0], VERSION);
                assert_eq!(decode(&key, &value).unwrap(), row);
            }
        }
        let long = EndError { kind: ErrorKind::Trap, message: "x".to_owned() + &"ß".repeat(256) };
        let value = encode(&key, &Execution { error: Some(long), ..plain });
        let message = decode(&key, &value).unwrap().error.unwrap().message;
        assert_eq!(message, "x".to_owned() + &"ß".repeat(255));
    }
}
