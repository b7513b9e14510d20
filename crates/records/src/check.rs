//! `check`: reads everything there is and compares it with itself: every row's seal and body, every
//! journal against the rules, every index against what it points to, both ways. What it finds is
//! said, never mended.

use bytes::Bytes;
use indelible_journal::{ExecutionId, Journal, JournalKey, RootHash};
use indelible_store::{PIPELINE, Position, ReadError, Scan, Snapshot, Store, Table};

use crate::executions::{self, Execution, Standing};
use crate::room::UNKNOWN_ROOM;
use crate::windows::{self, Kind};
use crate::{codec, index, journals, keys};

/// So many problems are told in words; more are counted.
pub const PROBLEMS_MAX: usize = 100;

/// Indexes of executions.
const INDEXES: [Table; 4] =
    [crate::BY_STATUS, crate::BY_FUNCTION, crate::BY_NAMESPACE, crate::FINISHED];

/// Rows are read so many at a time.
const PAGE: usize = 1000;

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// The state that was looked at.
    pub position: Position,
    /// Each table, with what could be read of it.
    pub tables: Vec<Counted>,
    /// How many events there are in all journals.
    pub events: u64,
    /// What is wrong, up to [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// How many problems there are in all.
    pub problems_count: u64,
}

/// A table, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Its name.
    pub table: &'static str,
    /// How many rows it has.
    pub rows: u64,
    /// How many bytes their keys and values have.
    pub bytes: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// In which table,
    pub table: &'static str,
    /// under which key, in hexadecimal,
    pub key: String,
    /// and what.
    pub what: String,
}

/// Reads and compares everything. `progress` is told each table before it is read.
pub fn check(store: &Store, progress: &mut dyn FnMut(&str)) -> Result<Findings, ReadError> {
    let snapshot = store.snapshot()?;
    let mut check = Check { snapshot: &snapshot, orphans: None, findings: Findings::default() };
    check.findings.position = snapshot.position();
    for table in store.tables() {
        progress(table.name());
        let counted = check.table(table)?;
        check.findings.tables.push(counted);
    }
    Ok(check.findings)
}

/// Counts the rows of all tables, without looking into them.
pub fn count(store: &Store) -> Result<Vec<Counted>, ReadError> {
    let snapshot = store.snapshot()?;
    let mut counts = Vec::new();
    for table in store.tables() {
        let mut counted = Counted { table: table.name(), rows: 0, bytes: 0 };
        each_row(&snapshot, Scan::all(*table, PAGE), &mut |key, value| {
            counted.rows += 1;
            counted.bytes += (key.len() + value.len()) as u64;
            Ok(())
        })?;
        counts.push(counted);
    }
    Ok(counts)
}

/// Visits all rows of a scan, page by page.
fn each_row(
    snapshot: &Snapshot,
    mut scan: Scan,
    visit: &mut dyn FnMut(&Bytes, &Bytes) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    loop {
        let page = snapshot.scan(&scan)?.value;
        for (key, value) in &page.rows {
            visit(key, value)?;
        }
        match page.rows.into_iter().next_back() {
            Some((key, _)) if page.more => scan = scan.after(key),
            _ => return Ok(()),
        }
    }
}

struct Check<'a> {
    snapshot: &'a Snapshot,
    /// Whether the last tree with journals but no executions is being swept.
    orphans: Option<(RootHash, bool)>,
    findings: Findings,
}

impl Check<'_> {
    fn problem(&mut self, table: &Table, key: &[u8], what: impl Into<String>) {
        self.findings.problems_count += 1;
        if self.findings.problems.len() < PROBLEMS_MAX {
            let key = data_encoding::HEXLOWER.encode(key);
            self.findings.problems.push(Problem { table: table.name(), key, what: what.into() });
        }
    }

    /// Notes what is wrong with a row; anything but a row's own fault ends the check.
    fn noted<T>(
        &mut self,
        table: &Table,
        key: &[u8],
        result: Result<T, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(ReadError::Poisoned(poison)) => Err(ReadError::Poisoned(poison)),
            Err(ReadError::Row { what, .. }) => {
                self.problem(table, key, what);
                Ok(None)
            }
            Err(error) => {
                self.problem(table, key, error.to_string());
                Ok(None)
            }
        }
    }

    fn table(&mut self, table: &Table) -> Result<Counted, ReadError> {
        let mut counted = Counted { table: table.name(), rows: 0, bytes: 0 };
        let mut last = Bytes::new();
        let snapshot = self.snapshot;
        let result = each_row(snapshot, Scan::all(*table, PAGE), &mut |key, value| {
            counted.rows += 1;
            counted.bytes += (key.len() + value.len()) as u64;
            last = key.clone();
            self.row(table, key, value)
        });
        // Where a table cannot be read on, the others still can.
        self.noted(table, &last, result.map_err(|error| behind(error, table)))?;
        Ok(counted)
    }

    fn row(&mut self, table: &Table, key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let result = match *table {
            known if known == crate::EXECUTIONS => {
                let execution = executions::decode(key, value);
                match self.noted(table, key, execution)? {
                    Some(execution) => self.execution(key, &execution),
                    None => Ok(()),
                }
            }
            known if known == crate::JOURNALS => self.journal_row(key, value),
            index if INDEXES.contains(&index) => self.index_row(table, key),
            known if known == crate::QUEUE => {
                crate::queue::decode(key).and_then(|row| match row.tree() {
                    Some(entry) => self.exists(table, key, &entry.key),
                    None => Err(codec::damaged(table, key, UNKNOWN_ROOM)),
                })
            }
            known if known == crate::TIMERS => {
                crate::timers::decode(key).and_then(|row| match row.tree() {
                    Some(timer) => self.timer(key, &timer.key),
                    None => Err(codec::damaged(table, key, UNKNOWN_ROOM)),
                })
            }
            known if known == crate::UNRESOLVED => crate::unresolved::decode(key, value)
                .and_then(|(effect, _)| self.exists(table, key, &effect.key)),
            known if known == crate::OPERATIONS => self.windowed(Kind::Operation, key, value),
            known if known == crate::IDEMPOTENCY_KEYS => {
                self.windowed(Kind::IdempotencyKey, key, value)
            }
            known if known == crate::ANSWERS => self.windowed(Kind::Answer, key, value),
            known if known == crate::EXPIRIES => self.expiry(key),
            known if known == crate::AUDIT => crate::audit::decode(key, value).map(drop),
            known if known == crate::COMPONENTS => crate::components::check(key, value),
            known if known == crate::SETTINGS => crate::settings::check(key, value),
            known if [crate::OUTBOX, crate::APPLIED].contains(&known) => {
                crate::outbox::check(self.snapshot, known, key, value)
            }
            // Other rooms' tables are theirs to check.
            _ => Ok(()),
        };
        self.noted(table, key, result).map(drop)
    }

    /// An execution's row against its journal and the indexes.
    fn execution(&mut self, key: &Bytes, execution: &Execution) -> Result<(), ReadError> {
        for (table, row) in index::entries(execution).into_iter().flatten() {
            if self.snapshot.get(table, &row)?.value.is_none() {
                let what = format!("the index {} does not have it", table.name());
                self.problem(&crate::EXECUTIONS, key, what);
            }
        }
        let mut journal = Journal::new(execution.key.clone());
        let mut created_at = None;
        let mut failure = None;
        let mut from = Some(0);
        while let Some(at) = from {
            let events = journals::read(self.snapshot, &execution.key, at, PAGE)?.value;
            from = events.next;
            for record in events.records {
                created_at = created_at.or(Some(record.timestamp));
                if let Err(violation) = journal.append_record(record) {
                    failure = Some(violation);
                    from = None;
                    break;
                }
            }
        }
        self.findings.events += journal.len();
        if let Some(violation) = failure {
            let what = format!("its journal breaks a rule: {violation}");
            self.problem(&crate::JOURNALS, key, what);
            return Ok(());
        }
        for what in differences(execution, &journal, created_at) {
            self.problem(&crate::EXECUTIONS, key, what);
        }
        Ok(())
    }

    /// A journal's row that belongs to no execution. Those that do are read with theirs.
    fn journal_row(&mut self, key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let (journal, _) = journals::split(key)?;
        if self.snapshot.get(crate::EXECUTIONS, &keys::journal_key(&journal))?.value.is_some() {
            return Ok(());
        }
        journals::decode(journal.execution_id(), key, value)?;
        // A finished tree that is being swept: its executions go first.
        let root = *journal.execution_id().root();
        let swept = match self.orphans {
            // The rows of a tree are together.
            Some((tree, swept)) if tree == root => swept,
            _ => self.is_being_swept(&root)? || self.is_finished(&root)?,
        };
        self.orphans = Some((root, swept));
        if swept {
            Ok(())
        } else {
            Err(codec::damaged(&crate::JOURNALS, key, "it belongs to no execution"))
        }
    }

    /// Whether a part of a tree is gone, because it is being swept.
    fn is_being_swept(&self, root: &RootHash) -> Result<bool, ReadError> {
        let entry = index::being_swept(root);
        Ok(self.snapshot.get(crate::FINISHED, &entry)?.value.is_some())
    }

    /// Whether a tree has an entry that says how it ended: while they swept it, earlier versions left
    /// that, and no other.
    fn is_finished(&self, root: &RootHash) -> Result<bool, ReadError> {
        let mut found = false;
        each_row(self.snapshot, Scan::all(crate::FINISHED, PAGE), &mut |entry, _| {
            found |= index::read_finished(entry).is_ok_and(|key| key.execution_id().root() == root);
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether a root whose row is gone belongs to a tree that an earlier version was sweeping: its
    /// own journal is still there, or all executions are gone and some journal is. The entry goes with
    /// the last.
    fn was_being_swept(&self, root: &JournalKey) -> Result<bool, ReadError> {
        let tree = Bytes::copy_from_slice(root.execution_id().root().as_bytes());
        Ok(self.any(crate::JOURNALS, keys::journal_key(root))?
            || !self.any(crate::EXECUTIONS, tree.clone())? && self.any(crate::JOURNALS, tree)?)
    }

    /// Whether there are rows whose keys begin so.
    fn any(&self, table: Table, prefix: Bytes) -> Result<bool, ReadError> {
        Ok(!self.snapshot.scan(&Scan::prefix(table, prefix, 1))?.value.rows.is_empty())
    }

    fn index_row(&mut self, table: &Table, key: &Bytes) -> Result<(), ReadError> {
        let malformed = |error: codec::Malformed| codec::damaged(table, key, error.0);
        let journal = if *table == crate::FINISHED {
            index::read_finished(key)
        } else {
            index::read_entry(table, key)
        };
        let journal = journal.map_err(malformed)?;
        let root = journal.execution_id().root();
        if *table == crate::FINISHED && *key == index::being_swept(root) {
            let tree = Bytes::copy_from_slice(root.as_bytes());
            let left = self.any(crate::JOURNALS, tree)?;
            return if left { Ok(()) } else { Err(codec::damaged(table, key, POINTS_NOWHERE)) };
        }
        let at = keys::journal_key(&journal);
        let Some(value) = self.snapshot.get(crate::EXECUTIONS, &at)?.value else {
            let swept = *table == crate::FINISHED && self.was_being_swept(&journal)?;
            return if swept { Ok(()) } else { Err(codec::damaged(table, key, POINTS_NOWHERE)) };
        };
        // A row that cannot be read is told of in its own table.
        let Ok(execution) = executions::decode(&at, &value) else { return Ok(()) };
        let entries = index::entries(&execution);
        if entries.iter().flatten().any(|(other, row)| other == table && row == key) {
            return Ok(());
        }
        Err(codec::damaged(table, key, "the execution that it points to does not stand like this"))
    }

    fn exists(
        &mut self,
        table: &Table,
        key: &Bytes,
        journal: &JournalKey,
    ) -> Result<(), ReadError> {
        match self.snapshot.get(crate::EXECUTIONS, &keys::journal_key(journal))?.value {
            Some(_) => Ok(()),
            None => Err(codec::damaged(table, key, POINTS_NOWHERE)),
        }
    }

    /// An execution that ends with very many timers leaves some, which mean nothing and go when they
    /// are due: its tree may go before.
    fn timer(&mut self, key: &Bytes, journal: &JournalKey) -> Result<(), ReadError> {
        if self.snapshot.get(crate::EXECUTIONS, &keys::journal_key(journal))?.value.is_some() {
            return Ok(());
        }
        let root = *journal.execution_id().root();
        let has_root = self.any(crate::EXECUTIONS, keys::execution(&ExecutionId::root_of(root)))?;
        if has_root && !self.is_being_swept(&root)? {
            return Err(codec::damaged(&crate::TIMERS, key, POINTS_NOWHERE));
        }
        Ok(())
    }

    fn windowed(&mut self, kind: Kind, key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let table = kind.table();
        let record = windows::decode(table, key, value)?;
        let Some(at) = record.expires_at else { return Ok(()) };
        match self.snapshot.get(crate::EXPIRIES, &windows::expiry(at, kind, key))?.value {
            Some(_) => Ok(()),
            None => Err(codec::damaged(&table, key, "the index expiries does not have it")),
        }
    }

    fn expiry(&mut self, key: &Bytes) -> Result<(), ReadError> {
        let (at, kind, record) = windows::read_expiry(key)?;
        let table = kind.table();
        let value = self.snapshot.get(table, &record)?.value;
        let Some(value) = value else {
            return Err(codec::damaged(&crate::EXPIRIES, key, POINTS_NOWHERE));
        };
        match windows::decode(table, &record, &value) {
            Ok(found) if found.expires_at != Some(at) => {
                Err(codec::damaged(&crate::EXPIRIES, key, "its record expires at another time"))
            }
            _ => Ok(()),
        }
    }
}

const POINTS_NOWHERE: &str = "what it points to is not there";

/// An error that ended the reading of a table, as a problem of the row behind the last one read.
fn behind(error: ReadError, table: &Table) -> ReadError {
    match error {
        ReadError::Backend { source, .. } if *table != PIPELINE => {
            let what = format!("the rows behind this one cannot be read: {source}");
            ReadError::Row { table: table.name(), key: Bytes::new(), what }
        }
        error => error,
    }
}

/// Where an execution's row does not say what its journal says.
fn differences(
    execution: &Execution,
    journal: &Journal,
    created_at: Option<indelible_journal::Timestamp>,
) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, row: String, journal: String| {
        if row != journal {
            differences.push(format!("{what} is {row}; by its journal it is {journal}"));
        }
    };
    compare("its length", execution.length.to_string(), journal.len().to_string());
    let (Some(status), Some(started)) = (journal.status(), journal.started()) else {
        return differences;
    };
    let standing = Standing::of(status);
    if execution.standing != Standing::Held || standing.is_terminal() {
        compare("its status", execution.standing.name().to_owned(), standing.name().to_owned());
    }
    let created_at = created_at.map(|at| at.to_string()).unwrap_or_default();
    compare("its time of creation", execution.created_at.to_string(), created_at);
    let updated_at = journal.last_timestamp().to_string();
    compare("the time of its last event", execution.updated_at.to_string(), updated_at);
    let function = started.function_name.to_string();
    compare("its function", execution.function.to_string(), function);
    let component = started.component_digest.to_string();
    compare("its component", execution.component.to_string(), component);
    // Rows that were written before there was one do without.
    if let Some(namespace) = &execution.namespace {
        let operation = started.idempotency_key.as_ref();
        let by_journal = operation.map(|operation| operation.namespace.to_string());
        compare("its namespace", namespace.to_string(), by_journal.unwrap_or_default());
    }
    differences
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indelible_store::memory::MemoryBackend;
    use indelible_store::{Batch, Bounds};

    use super::*;

    /// A row whose seal is right and whose body is not is found, with its table, its key and what is
    /// wrong: nothing in these tables is taken on trust.
    #[test]
    fn bodies_are_looked_into() {
        let engine = Arc::new(MemoryBackend::new());
        let store = Store::start(engine, &crate::TABLES, Bounds::DEFAULT).expect("it starts");
        let effect = [&[7; 32][..], &[0], &[0, 0, 0, 1], &[0, 0, 0, 2]].concat();
        let token = format!("token/{}", "0".repeat(16));
        let manifest = format!("manifest/{}", "ab".repeat(32));
        let versioned = r#"{"version":2}"#;
        let rows: [(Table, &[u8], &str, &str); 15] = [
            (crate::AUDIT, &[0; 24], "resolved", "expected value"),
            (crate::AUDIT, &[1; 24], versioned, "it is of version 2; known is 1"),
            (crate::UNRESOLVED, &effect, "held", "expected value"),
            (crate::COMPONENTS, &[9; 32], "another", "it is not the component of this digest"),
            (crate::SETTINGS, b"retention", "30d", "no setting has this name"),
            (crate::SETTINGS, b"component/a b", versioned, "a component's name has"),
            (crate::SETTINGS, b"component/shop", versioned, "version 2"),
            (crate::SETTINGS, b"manifest/shop", versioned, "its digest is none"),
            (crate::SETTINGS, manifest.as_bytes(), r#"{"version":1}"#, "missing field `functions`"),
            (crate::SETTINGS, token.as_bytes(), versioned, "no JSON of an API key"),
            (crate::SETTINGS, b"retention-clock", versioned, "version 2"),
            (crate::OUTBOX, &[0, 0, 0, 1], "", "a slot is none"),
            (crate::OUTBOX, &[0; 4], "settled", "it is too short"),
            (crate::OUTBOX, &[1 << 4; 12], "x", UNKNOWN_ROOM),
            (crate::APPLIED, &[1 << 4; 12], "", "it has a value"),
        ];
        for (table, key, body, what) in rows {
            let mut batch = Batch::new();
            let key = Bytes::copy_from_slice(key);
            batch.put(table, key.clone(), codec::seal(&table, &key, 1, body.as_bytes()));
            store.try_submit(batch).expect("there is room");
            let problems = check(&store, &mut |_| {}).expect("it reads").problems;
            let [problem] = &problems[..] else { panic!("{what}: {problems:?}") };
            assert_eq!(problem.table, table.name());
            assert_eq!(problem.key, data_encoding::HEXLOWER.encode(&key));
            assert!(problem.what.contains(what), "{problem:?}");
            let mut batch = Batch::new();
            batch.delete(table, key);
            store.try_submit(batch).expect("there is room");
        }
    }
}
