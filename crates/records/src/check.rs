//! `check` reads everything and compares it with itself: every row's seal and body, every journal
//! against the rules, every index against the rows that it points to, both ways. It reports
//! problems and repairs none.

use bytes::Bytes;
use indelible_journal::{
    ExecutionId, Journal, JournalKey, Namespace, OperationKey, RootHash, Timestamp,
};
use indelible_store::{PIPELINE, Position, ReadError, Scan, Snapshot, Store, Table};

use crate::executions::{self, EndError, Execution, Standing};
use crate::idempotency_keys::{KeyOutcome, KeyRecord};
use crate::index::POINTS_NOWHERE;
use crate::operations::Operation;
use crate::room::UNKNOWN_ROOM;
use crate::windows::{self, Id, Kind, RecordBody, WindowedRecord};
use crate::{codec, doubts, index, journals, keys};

/// How many problems are described; more are only counted.
pub const PROBLEMS_MAX: usize = 100;

/// Indexes of executions.
const INDEXES: [Table; 5] =
    [crate::BY_STATUS, crate::BY_FUNCTION, crate::BY_NAMESPACE, crate::BY_LABEL, crate::FINISHED];

/// How many rows are read at a time.
const PAGE: usize = 1000;

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// The position whose state was checked.
    pub position: Position,
    /// Each table, with the rows that could be read.
    pub tables: Vec<TableCount>,
    /// How many entries all journals have.
    pub events: u64,
    /// The problems, up to [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// How many problems there are in all.
    pub problems_count: u64,
}

/// A table, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableCount {
    /// Its name.
    pub table: &'static str,
    /// How many rows it has.
    pub rows: u64,
    /// How many bytes the keys and values have.
    pub bytes: u64,
}

/// A problem with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The table of the row.
    pub table: &'static str,
    /// The key of the row, in hexadecimal.
    pub key: String,
    /// What is wrong.
    pub what: String,
}

/// Reads and compares everything. `progress` gets the name of each table before it is read.
pub fn check(store: &Store, progress: &mut dyn FnMut(&str)) -> Result<Findings, ReadError> {
    let snapshot = store.snapshot()?;
    let mut check = Check { snapshot: &snapshot, findings: Findings::default() };
    check.findings.position = snapshot.position();
    for table in store.tables() {
        progress(table.name());
        let counted = check.table(table)?;
        check.findings.tables.push(counted);
    }
    Ok(check.findings)
}

/// Counts the rows of all tables, without decoding them.
pub fn count(store: &Store) -> Result<Vec<TableCount>, ReadError> {
    let snapshot = store.snapshot()?;
    let mut counts = Vec::new();
    for table in store.tables() {
        let mut counted = TableCount { table: table.name(), rows: 0, bytes: 0 };
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

    /// Notes what is wrong with a row; an error that is not about the row ends the check.
    fn noted<T>(
        &mut self,
        table: &Table,
        key: &[u8],
        result: Result<T, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ ReadError::Poisoned(_)) => Err(error),
            Err(error) if error.is_pause() => Err(error),
            Err(error) => {
                let what = match error {
                    ReadError::Row { what, .. } => what,
                    error => error.to_string(),
                };
                self.problem(table, key, what);
                Ok(None)
            }
        }
    }

    fn table(&mut self, table: &Table) -> Result<TableCount, ReadError> {
        let mut counted = TableCount { table: table.name(), rows: 0, bytes: 0 };
        let mut last = Bytes::new();
        let snapshot = self.snapshot;
        let result = each_row(snapshot, Scan::all(*table, PAGE), &mut |key, value| {
            counted.rows += 1;
            counted.bytes += (key.len() + value.len()) as u64;
            last = key.clone();
            self.row(table, key, value)
        });
        // If a table cannot be read to its end, the others still are.
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
            index if INDEXES.contains(&index) => self.index_row(table, key, value),
            known if known == crate::QUEUE => crate::queue::decode(key).and_then(|row| match row {
                crate::queue::Row::Tree(entry) => self.exists(table, key, &entry.key),
                crate::queue::Row::Room(_, room) if room.is_known() => Ok(()),
                _ => Err(codec::damaged(table, key, UNKNOWN_ROOM)),
            }),
            known if known == crate::TIMERS => {
                crate::timers::decode(key).and_then(|row| match row {
                    crate::timers::Row::Tree(timer) => self.timer(key, &timer.key),
                    crate::timers::Row::Room(timer) if timer.key.is_known() => Ok(()),
                    _ => Err(codec::damaged(table, key, UNKNOWN_ROOM)),
                })
            }
            known if known == crate::DOUBTS => self.doubt(key, value),
            known if known == crate::DOUBTS_BY_TIME => self.doubt_place(key),
            known if known == crate::OPERATIONS => self.operation(key, value),
            known if known == crate::IDEMPOTENCY_KEYS => {
                self.key_record(Kind::IdempotencyKey, key, value)
            }
            known if known == crate::ANSWERS => self.key_record(Kind::Answer, key, value),
            known if known == crate::EXPIRIES => self.expiry(key),
            known if known == crate::AUDIT => crate::audit::decode(key, value).map(drop),
            known if known == crate::COMPONENTS => crate::components::check(key, value),
            known if known == crate::SETTINGS => crate::settings::check(key, value),
            known if [crate::OUTBOX, crate::APPLIED].contains(&known) => {
                crate::outbox::check(self.snapshot, known, key, value)
            }
            known if crate::delivery::check::TABLES.contains(&known) => {
                crate::delivery::check::check(self.snapshot, known, key, value)
            }
            known if crate::ledger::check::TABLES.contains(&known) => {
                crate::ledger::check::check(self.snapshot, known, key, value)
            }
            // Tables of other kinds of machines are checked by the code that owns them.
            _ => Ok(()),
        };
        self.noted(table, key, result).map(drop)
    }

    /// Compares an execution's row with its journal and the indexes.
    fn execution(&mut self, key: &Bytes, execution: &Execution) -> Result<(), ReadError> {
        for (table, row, value) in index::entries(execution) {
            if self.snapshot.get(table, &row)?.value != Some(value) {
                let what = format!("it is missing in the index {}", table.name());
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
        self.key_of_row(key, execution, &journal)
    }

    /// Compares the idempotency key in an execution's row with the record of its operation. An
    /// operation whose record has expired may have begun again, with another root.
    fn key_of_row(
        &mut self,
        key: &Bytes,
        execution: &Execution,
        journal: &Journal,
    ) -> Result<(), ReadError> {
        let operation = journal.started().and_then(|started| started.idempotency_key.as_ref());
        let (Some(by_row), Some(operation)) = (&execution.idempotency_key, operation) else {
            return Ok(());
        };
        let at = Id::operation(operation).key();
        let Some(value) = self.snapshot.get(crate::OPERATIONS, &at)?.value else { return Ok(()) };
        // A record that does not decode is reported in its own table.
        let found = windows::decode::<Operation>(crate::OPERATIONS, &at, &value);
        let differs = found.is_ok_and(|found| {
            found.record.root == *execution.key.execution_id().root()
                && found.record.key.as_deref() != Some(by_row)
        });
        if differs {
            let what = "its idempotency key differs from that of its operation";
            self.problem(&crate::EXECUTIONS, key, what);
        }
        Ok(())
    }

    /// Checks a journal's row that belongs to no execution. The others are read with their
    /// execution.
    fn journal_row(&mut self, key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let (journal, _) = journals::split(key)?;
        if self.snapshot.get(crate::EXECUTIONS, &keys::journal_key(&journal))?.value.is_some() {
            return Ok(());
        }
        journals::decode(journal.execution_id(), key, value)?;
        // A sweep deletes the executions of a tree before its journals.
        if self.is_being_swept(journal.execution_id().root())? {
            Ok(())
        } else {
            Err(codec::damaged(&crate::JOURNALS, key, "it belongs to no execution"))
        }
    }

    /// Whether a tree is partly deleted by a sweep.
    fn is_being_swept(&self, root: &RootHash) -> Result<bool, ReadError> {
        let entry = index::being_swept(root);
        Ok(self.snapshot.get(crate::FINISHED, &entry)?.value.is_some())
    }

    /// Whether there are rows with this prefix.
    fn any(&self, table: Table, prefix: Bytes) -> Result<bool, ReadError> {
        Ok(!self.snapshot.scan(&Scan::prefix(table, prefix, 1))?.value.rows.is_empty())
    }

    fn index_row(&mut self, table: &Table, key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
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
            let left = self.any(crate::JOURNALS, tree)? && value.is_empty();
            return if left { Ok(()) } else { Err(codec::damaged(table, key, POINTS_NOWHERE)) };
        }
        let at = keys::journal_key(&journal);
        let Some(value) = self.snapshot.get(crate::EXECUTIONS, &at)?.value else {
            return Err(codec::damaged(table, key, POINTS_NOWHERE));
        };
        // A row that does not decode is reported in its own table.
        let Ok(execution) = executions::decode(&at, &value) else { return Ok(()) };
        if index::entries(&execution).any(|(other, row, _)| other == *table && row == *key) {
            return Ok(());
        }
        Err(codec::damaged(table, key, "the execution that it points to is in another state"))
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

    /// Compares a doubt with its index. While its execution waits for the answer, both are stored.
    fn doubt(&mut self, key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let (id, doubt) = doubts::decode(key, value)?;
        let (table, entry) = doubts::entry(&id, &doubt);
        if self.snapshot.get(table, &entry)?.value.is_none() {
            let what = format!("it is missing in the index {}", table.name());
            self.problem(&crate::DOUBTS, key, what);
        }
        if doubt.is_awaited() { self.exists(&crate::DOUBTS, key, &id.key) } else { Ok(()) }
    }

    fn doubt_place(&self, key: &Bytes) -> Result<(), ReadError> {
        let place = doubts::decode_place(key)?;
        let found = doubts::get(self.snapshot, &place.id).map(|seen| seen.value);
        let is_there = match &found {
            Ok(Some(doubt)) => doubts::Place::of(&place.id, doubt) == place,
            Ok(None) => false,
            // A row that does not decode is reported in its own table.
            Err(_) => true,
        };
        if is_there {
            Ok(())
        } else {
            Err(codec::damaged(&crate::DOUBTS_BY_TIME, key, POINTS_NOWHERE))
        }
    }

    /// An execution that ends with very many timers leaves some, which are deleted when they are
    /// due: its tree may be deleted before that.
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

    fn windowed<R: RecordBody>(
        &self,
        kind: Kind,
        key: &Bytes,
        value: &Bytes,
    ) -> Result<(Id, WindowedRecord<R>), ReadError> {
        let (table, id) = (kind.table(), Id::read(kind, key)?);
        let record = windows::decode(table, key, value)?;
        if let Some(at) = record.expires_at
            && self.snapshot.get(crate::EXPIRIES, &windows::expiry(at, kind, key))?.value.is_none()
        {
            return Err(codec::damaged(&table, key, "it is missing in the index expiries"));
        }
        Ok((id, record))
    }

    /// Whether a record that another one names is there, and `is_so` holds for it. A record that
    /// does not decode is reported in its own table.
    fn is_paired<R: RecordBody>(
        &self,
        other: &Id,
        is_so: impl FnOnce(WindowedRecord<R>) -> bool,
    ) -> Result<bool, ReadError> {
        let (table, key) = (other.kind.table(), other.key());
        let found = self.snapshot.get(table, &key)?.value;
        Ok(found.is_some_and(|value| windows::decode(table, &key, &value).map_or(true, is_so)))
    }

    /// Checks the record of an operation, and that its key leads to it. After the operation's end
    /// this does not hold: the key's record expires first, and the key may be used again while this
    /// record is there.
    fn operation(&self, key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let (id, found) = self.windowed::<Operation>(Kind::Operation, key, value)?;
        let damaged = |what| Err(codec::damaged(&crate::OPERATIONS, key, what));
        if found.record.end.is_some() && found.record.ending().is_none() {
            return damaged("its end differs from the end of its execution");
        }
        let Some(led_here) = found.record.key.as_ref().filter(|_| found.is_in_progress()) else {
            return Ok(());
        };
        let led_here = Id::idempotency_key(&id.namespace, led_here);
        let is_paired = self.is_paired(&led_here, |other: WindowedRecord<KeyRecord>| {
            matches!(other.record.led_to, KeyOutcome::Operation(led_to) if led_to.as_str() == id.name)
        })?;
        if is_paired { Ok(()) } else { damaged("the record of its key points elsewhere") }
    }

    /// Checks the record of a key, or an answer. The record of a start leads to the record of an
    /// operation that names the key and, once the operation is over, expires a microsecond later.
    /// All other records have a window.
    fn key_record(&self, kind: Kind, key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let (id, found) = self.windowed::<KeyRecord>(kind, key, value)?;
        let damaged = |what| Err(codec::damaged(&kind.table(), key, what));
        let WindowedRecord { expires_at, record: KeyRecord { led_to, .. } } = found;
        let root = id.name.split_once(':').map(|(root, _)| root.parse::<RootHash>());
        if kind == Kind::Answer && !matches!(root, Some(Ok(_))) {
            return damaged("it names no target");
        }
        let operation_id = match (kind, led_to) {
            (Kind::Answer, KeyOutcome::Operation(_) | KeyOutcome::Target(_)) => {
                return damaged("it is not a valid answer");
            }
            (_, KeyOutcome::Operation(operation_id)) => operation_id,
            _ if expires_at.is_none() => return damaged("it has no window"),
            _ => return Ok(()),
        };
        let operation = OperationKey { namespace: id.namespace, operation_id };
        let is_paired =
            self.is_paired(&Id::operation(&operation), |other: WindowedRecord<Operation>| {
                let earlier = other.expires_at.map(|at| at.as_micros().saturating_sub(1));
                other.record.key.as_ref() == Some(&id.name)
                    && earlier == expires_at.map(Timestamp::as_micros)
            })?;
        if is_paired { Ok(()) } else { damaged("it contradicts the record of its operation") }
    }

    fn expiry(&mut self, key: &Bytes) -> Result<(), ReadError> {
        let (at, kind, record) = windows::read_expiry(key)?;
        let table = kind.table();
        let value = self.snapshot.get(table, &record)?.value;
        let Some(value) = value else {
            return Err(codec::damaged(&crate::EXPIRIES, key, POINTS_NOWHERE));
        };
        match windows::unseal(table, &record, &value) {
            Ok((expires_at, _)) if expires_at != Some(at) => {
                Err(codec::damaged(&crate::EXPIRIES, key, "its record expires at another time"))
            }
            _ => Ok(()),
        }
    }
}

/// Turns an error that ended the reading of a table into a problem of the last row that was read.
fn behind(error: ReadError, table: &Table) -> ReadError {
    match error {
        ReadError::Backend { source, .. } if *table != PIPELINE => {
            let what = format!("the rows after this one cannot be read: {source}");
            ReadError::Row { table: table.name(), key: Bytes::new(), what }
        }
        error => error,
    }
}

/// Where an execution's row differs from its journal.
fn differences(
    execution: &Execution,
    journal: &Journal,
    created_at: Option<Timestamp>,
) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, row: String, journal: String| {
        if row != journal {
            differences.push(format!("{what} is {row}, but {journal} in its journal"));
        }
    };
    compare("its length", execution.length.to_string(), journal.len().to_string());
    let Some(started) = journal.started() else { return differences };
    let standing = Standing::of(journal);
    let is_known = match (execution.standing, standing) {
        (Standing::Stuck, standing) => !standing.is_terminal(),
        // An earlier build wrote the row.
        (Standing::Failed, Standing::Indeterminate) => true,
        _ => false,
    };
    if !is_known {
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
    let namespace =
        |namespace: Option<&Namespace>| namespace.map_or(String::new(), Namespace::to_string);
    let by_journal = started.idempotency_key.as_ref().map(|operation| &operation.namespace);
    compare("its namespace", namespace(execution.namespace.as_ref()), namespace(by_journal));
    // A row that an earlier build wrote has no error.
    if let Some(by_row) = &execution.error {
        let text = |error: &EndError| format!("{}: {}", error.kind, error.message);
        let by_journal = EndError::of(journal).as_ref().map(text).unwrap_or_default();
        compare("its error", text(by_row), by_journal);
    }
    differences
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indelible_store::memory::MemoryBackend;
    use indelible_store::{Batch, Bounds};

    use super::*;

    /// A row whose seal is right and whose body is wrong is found, with its table, its key and what
    /// is wrong: no body is taken on trust.
    #[test]
    fn bodies_are_looked_into() {
        let engine = Arc::new(MemoryBackend::new());
        let store = Store::start(engine, &crate::TABLES, Bounds::DEFAULT).expect("it starts");
        let effect = [&[7; 32][..], &[0], &[0, 0, 0, 1], &[0, 0, 0, 2]].concat();
        let token = format!("token/{}", "0".repeat(16));
        let manifest = format!("manifest/{}", "ab".repeat(32));
        let versioned = r#"{"version":2}"#;
        let answer = format!("\0\x04shop{}:key", "0".repeat(64));
        let rows: [(Table, &[u8], &str, &str); 19] = [
            (crate::OPERATIONS, b"\0\x04shopid", "\0outcome", "it is too short"),
            (crate::IDEMPOTENCY_KEYS, b"\0\x04shopkey", "\0done", "it is too short"),
            (crate::ANSWERS, answer.as_bytes(), "\0done", "it is too short"),
            (crate::AUDIT, &[0; 24], "resolved", "expected value"),
            (crate::AUDIT, &[1; 24], versioned, "it has version 2; this build reads version 1"),
            (crate::DOUBTS, &effect, "held", "expected value"),
            (crate::COMPONENTS, &[9; 32], "another", "its bytes do not match its digest"),
            (crate::SETTINGS, b"retention", "30d", "unknown setting"),
            (crate::SETTINGS, b"component/a b", versioned, "invalid component name"),
            (crate::SETTINGS, b"component/shop", versioned, "version 2"),
            (crate::SETTINGS, b"manifest/shop", versioned, "its digest is invalid"),
            (crate::SETTINGS, manifest.as_bytes(), r#"{"version":1}"#, "missing field `functions`"),
            (crate::SETTINGS, token.as_bytes(), versioned, "it is not the JSON of an API key"),
            (crate::SETTINGS, b"retention-clock", versioned, "version 2"),
            (crate::SETTINGS, b"hold", versioned, "version 2"),
            (crate::OUTBOX, &[0, 0, 0, 1], "", "a slot is invalid"),
            (crate::OUTBOX, &[0; 4], "settled", "it is too short"),
            (crate::OUTBOX, &[1 << 4; 12], "x", UNKNOWN_ROOM),
            (crate::APPLIED, &[1 << 4; 12], "", "its value is not empty"),
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
