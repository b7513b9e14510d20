//! Indexes of executions by status, function, namespace and label, and the index of finished trees.
//! An index entry is written with the row that it points to, in the same batch (D1). Lists are
//! filtered by keys alone. The index of namespaces has the function as its value, so that a list of
//! one function passes over the others without reading their rows.
//! ```text
//! executions_by_status      scope (1) ‖ standing (1) ‖ newest first (8) ‖ journal key
//! executions_by_function    function ‖ 00 ‖ scope ‖ standing ‖ newest first ‖ journal key
//! executions_by_namespace   namespace ‖ 00 ‖ standing ‖ newest first ‖ journal key -> function; roots alone
//! executions_by_label       namespace ‖ 00 ‖ label's name ‖ 00 ‖ its value ‖ 00 ‖ newest first ‖ journal key; roots alone
//! finished_trees            standing ‖ finished at (8) ‖ journal key of the root
//!                           00 ‖ 0 (8) ‖ journal key of the root's first attempt: it is being swept
//! ```
//! *Newest first* is the time of creation counted down. The scope tells roots from children, so
//! that a tree of ten thousand executions does not bury the list of roots. The index of labels has no
//! standing: an execution may have many labels, and its standing changes often.

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{ExecutionId, FunctionName, JournalKey, Namespace, RootHash, Timestamp};
use indelible_store::{Batch, Table};

use super::codec::{Malformed, Reader};
use super::executions::{Execution, Standing};
use super::labels::Label;
use super::{BY_FUNCTION, BY_LABEL, BY_NAMESPACE, BY_STATUS, FINISHED, keys};

/// Roots, or executions that have a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Scope {
    Root = 0,
    Child = 1,
}

impl Scope {
    pub(crate) const ALL: [Self; 2] = [Self::Root, Self::Child];

    pub(crate) fn of(key: &JournalKey) -> Self {
        if key.execution_id().is_root() { Self::Root } else { Self::Child }
    }
}

/// A row of an index: table, key, value.
type Entry = (Table, Bytes, Bytes);

/// Makes the indexes say what `after` does where they said what `before` does. Entries that stay are
/// not written.
pub(crate) fn replace(batch: &mut Batch, before: Option<&Execution>, after: &Execution) {
    replace_labels(batch, before, after);
    let (before, after) = (before.map(by_standing), by_standing(after));
    if before.as_ref() == Some(&after) {
        return;
    }
    for (table, key, _) in before.into_iter().flatten().flatten() {
        batch.delete(table, key);
    }
    for (table, key, value) in after.into_iter().flatten() {
        batch.put(table, key, value);
    }
}

/// The same for the index of labels. What else is in its keys is fixed for an execution's life.
fn replace_labels(batch: &mut Batch, before: Option<&Execution>, after: &Execution) {
    if before.is_some_and(|before| before.labels == after.labels) {
        return;
    }
    let gone = before.into_iter().flat_map(|before| {
        let gone = before.labels.iter().filter(|label| !after.labels.has(label));
        gone.filter_map(|label| by_label(before, label))
    });
    for (table, key, _) in gone {
        batch.delete(table, key);
    }
    let is_new = |label: &&Label| before.is_none_or(|before| !before.labels.has(label));
    let new = after.labels.iter().filter(is_new).filter_map(|label| by_label(after, label));
    for (table, key, value) in new {
        batch.put(table, key, value);
    }
}

/// The entries that the indexes have for an execution.
pub(crate) fn entries(execution: &Execution) -> impl Iterator<Item = Entry> {
    let labels = execution.labels.iter().filter_map(|label| by_label(execution, label));
    by_standing(execution).into_iter().flatten().chain(labels)
}

/// The entry that the index of labels has for a label of an execution, if that is a root.
fn by_label(execution: &Execution, label: &Label) -> Option<Entry> {
    let namespace = execution.namespace.as_ref()?;
    let mut out = BytesMut::from(&labelled(namespace, label)[..]);
    out.put_slice(&place(execution.created_at, &execution.key));
    Some((BY_LABEL, out.freeze(), Bytes::new()))
}

/// The prefix of the entries that the index of labels has for a label.
pub(crate) fn labelled(namespace: &Namespace, label: &Label) -> Bytes {
    let mut out = BytesMut::with_capacity(96);
    for text in [namespace.as_str(), label.name(), label.value()] {
        // None of them has control characters, so the zero ends it.
        out.put_slice(text.as_bytes());
        out.put_u8(0);
    }
    out.freeze()
}

/// The entries of an execution in the other indexes.
fn by_standing(execution: &Execution) -> [Option<Entry>; 4] {
    let Execution { key, standing, created_at, updated_at, function, namespace, .. } = execution;
    let partition = Partition { scope: Scope::of(key), standing: *standing };
    let entry = |by: IndexOrder<'_>| {
        let mut out = BytesMut::with_capacity(96);
        let table = partition.put(&mut out, by);
        out.put_slice(&place(*created_at, key));
        let value = match by {
            IndexOrder::Namespace(_) => Bytes::copy_from_slice(function.as_str().as_bytes()),
            IndexOrder::Status | IndexOrder::Function(_) => Bytes::new(),
        };
        (table, out.freeze(), value)
    };
    let namespace = namespace.as_ref().filter(|_| partition.scope == Scope::Root);
    let finished = (partition.scope == Scope::Root && standing.is_terminal())
        .then(|| (FINISHED, finished(*standing, *updated_at, key), Bytes::new()));
    [
        Some(entry(IndexOrder::Status)),
        Some(entry(IndexOrder::Function(function))),
        finished,
        namespace.map(|namespace| entry(IndexOrder::Namespace(namespace))),
    ]
}

/// What an index is ordered by before the standing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexOrder<'a> {
    Status,
    Function(&'a FunctionName),
    Namespace(&'a Namespace),
}

/// Executions that are together in an index, ordered by their [`place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) scope: Scope,
    pub(crate) standing: Standing,
}

impl Partition {
    fn put(self, out: &mut BytesMut, by: IndexOrder<'_>) -> Table {
        let (table, name) = match by {
            IndexOrder::Status => (BY_STATUS, None),
            IndexOrder::Function(function) => (BY_FUNCTION, Some(function.as_str())),
            IndexOrder::Namespace(namespace) => (BY_NAMESPACE, Some(namespace.as_str())),
        };
        if let Some(name) = name {
            // Names have no control characters, so the zero ends them.
            out.put_slice(name.as_bytes());
            out.put_u8(0);
        }
        // The index of namespaces has only roots.
        if table != BY_NAMESPACE {
            out.put_u8(self.scope as u8);
        }
        out.put_u8(self.standing as u8);
        table
    }

    /// The table of a partition, and the prefix of its keys.
    pub(crate) fn prefix(self, by: IndexOrder<'_>) -> (Table, Bytes) {
        let mut out = BytesMut::with_capacity(64);
        let table = self.put(&mut out, by);
        (table, out.freeze())
    }
}

/// The place of an execution in a list: the newest first, then by key.
pub(crate) fn place(created_at: Timestamp, key: &JournalKey) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(newest_first(created_at));
    keys::put_journal_key(&mut out, key);
    out.freeze()
}

pub(crate) fn newest_first(created_at: Timestamp) -> u64 {
    !created_at.as_micros()
}

/// Decodes a place.
pub(crate) fn read_place(place: &[u8]) -> Result<(Timestamp, JournalKey), Malformed> {
    let mut reader = Reader(place);
    let created_at = Timestamp::from_micros(!reader.u64()?);
    let created_at = created_at.ok_or(Malformed("a time is later than the year 9999"))?;
    let key = keys::read_journal_key(&mut reader)?;
    reader.end()?;
    Ok((created_at, key))
}

pub(crate) fn finished(standing: Standing, at: Timestamp, key: &JournalKey) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u8(standing as u8);
    out.put_u64(at.as_micros());
    keys::put_journal_key(&mut out, key);
    out.freeze()
}

/// What is wrong with an index entry that has lost its row.
pub(crate) const POINTS_NOWHERE: &str = "it points to a row that does not exist";

/// Stands in place of a standing when a part of the tree is deleted.
pub(crate) const BEING_SWEPT: u8 = 0;

/// The index entry of a tree that is partly deleted. It names only the tree, so that the start of a
/// root can look it up by key; and it sorts before all others, so that no file is read for that.
pub(crate) fn being_swept(root: &RootHash) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u8(BEING_SWEPT);
    out.put_u64(0);
    keys::put_journal_key(&mut out, &JournalKey::first(ExecutionId::root_of(*root)));
    out.freeze()
}

/// The root of a finished tree, from its index entry.
pub(crate) fn read_finished(entry: &[u8]) -> Result<JournalKey, Malformed> {
    let mut reader = Reader(entry);
    reader.take(9)?;
    let key = keys::read_journal_key(&mut reader)?;
    reader.end()?;
    Ok(key)
}

/// The execution that an index entry points to.
pub(crate) fn read_entry(table: &Table, entry: &[u8]) -> Result<JournalKey, Malformed> {
    let (names, standing) = match *table {
        table if table == BY_STATUS => (0, 2),
        table if table == BY_NAMESPACE => (1, 1),
        table if table == BY_LABEL => (3, 0),
        _ => (1, 2),
    };
    let mut reader = Reader(entry);
    for _ in 0..names {
        let end = reader.0.iter().position(|byte| *byte == 0);
        reader.take(end.ok_or(Malformed("its name is not terminated"))? + 1)?;
    }
    reader.take(standing)?;
    Ok(read_place(reader.0)?.1)
}
