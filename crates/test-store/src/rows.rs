//! Executions with real journals, for tests of the rows: what an engine would write, without one.
#![allow(clippy::unwrap_used, reason = "a test helper: a panic is how a test fails")]

use std::sync::Arc;

use indelible_journal::{
    Attempt, Attempts, ComponentDigest, Entry, ErrorKind, ExecutionId, Failure, FunctionName,
    Journal, JournalKey, Limits, Namespace, OperationId, OperationKey, Payload, PromiseId,
    RootHash, SignalName, Started, Timestamp, Wait, Waiting,
};
use indelible_records::doubts::{Doubt, DoubtState, Evidence};
use indelible_records::executions::{self, EndError, Execution, Standing};
use indelible_records::labels::Labels;
use indelible_records::{audit, retention_clock};
use indelible_store::{Batch, Shape, Store, Table};

/// An entry of the audit record.
pub fn audit_entry(micros: u64, id: [u8; 16]) -> audit::Entry {
    audit::Entry {
        at: at(micros),
        id,
        actor: "user:ada".to_owned(),
        action: "backup".to_owned(),
        about: audit::AuditSubject::Subject("store".to_owned()),
        reason: String::new(),
    }
}

/// The doubt about an effect that is held for a person.
pub fn held() -> Doubt {
    Doubt {
        attempt: Attempt::FIRST,
        since: at(60),
        label: "POST http://a.b/größe".to_owned(),
        why: "no answer".to_owned(),
        state: DoubtState::Held,
        evidence: Box::new(Evidence { function: "größe".to_owned(), ..Evidence::default() }),
    }
}

/// The retention clock at a time: a setting.
pub fn put_clock(batch: &mut Batch, micros: u64) {
    let row = retention_clock::Row { time: at(micros), wall: at(micros), purged: at(1) };
    retention_clock::put(batch, &row);
}

/// The time of so many microseconds.
pub fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Namespaces that begin alike, and one that is not ASCII.
pub const NAMESPACES: [&str; 4] = ["test", "test2", "tes", "größe"];

/// The operation that started the tree of this number. Eight trees in a row are of one namespace.
pub fn operation(tree: u64) -> OperationKey {
    OperationKey {
        namespace: Namespace::new(NAMESPACES[(tree / 8 % 4) as usize]).unwrap(),
        operation_id: OperationId::new(&format!("op-{tree}")).unwrap(),
    }
}

fn component() -> ComponentDigest {
    ComponentDigest::of(b"component")
}

/// The journal key of an execution in the tree of this number.
pub fn key(tree: u64, path: &[u32], attempts: &[u32]) -> JournalKey {
    let root = RootHash::derive(&component(), None, &operation(tree));
    let promise = PromiseId::new(root, path).unwrap();
    let attempts: Vec<_> = attempts.iter().map(|n| Attempt::new(*n).unwrap()).collect();
    JournalKey::new(ExecutionId::new(promise).unwrap(), Attempts::new(&attempts).unwrap()).unwrap()
}

/// An execution under way: its journal, and what of it is stored.
pub struct Run {
    /// What happened in it.
    pub journal: Journal,
    /// Its row, as it was written last.
    pub stored: Option<Execution>,
    /// Why it is stuck, if it is.
    pub stuck: Option<String>,
    /// The namespace of its operation, if it is a root.
    pub namespace: Option<Namespace>,
    /// The idempotency key under which it was started, if it was under one.
    pub idempotency_key: Option<Arc<str>>,
    /// Its labels.
    pub labels: Labels,
    created_at: Timestamp,
    pending: Vec<Entry>,
}

impl Run {
    /// Starts an execution in the tree of this number.
    pub fn start(tree: u64, key: &JournalKey, function: &str, now: Timestamp) -> Self {
        let is_root = key.execution_id().is_root();
        let (journal, started) = Journal::start(
            key.clone(),
            now,
            Started {
                component_digest: component(),
                function_name: FunctionName::new(function).unwrap(),
                input: Payload::json("{}"),
                parent_id: key.execution_id().parent(),
                idempotency_key: is_root.then(|| operation(tree)),
                attempts: key.attempts().clone(),
                limits: Limits {
                    memory_bytes_max: 1 << 20,
                    stack_bytes_max: 1 << 16,
                    table_elements_max: 100,
                },
                retry_policy: None,
                trace_parent: None,
            },
        )
        .unwrap();
        let namespace = is_root.then(|| operation(tree).namespace);
        Self {
            journal,
            stored: None,
            stuck: None,
            namespace,
            idempotency_key: None,
            labels: Labels::default(),
            created_at: now,
            pending: vec![started],
        }
    }

    /// Where its journal is.
    pub fn key(&self) -> &JournalKey {
        self.journal.key()
    }

    /// Starts another attempt of a failed execution.
    pub fn again(&self, now: Timestamp) -> Self {
        let (journal, pending) = self.journal.next_attempt(now).unwrap();
        Self {
            created_at: journal.last_timestamp(),
            journal,
            stored: None,
            stuck: None,
            namespace: self.namespace.clone(),
            idempotency_key: self.idempotency_key.clone(),
            labels: self.labels.clone(),
            pending,
        }
    }

    /// The guest asks for the time, so many times.
    pub fn work(&mut self, now: Timestamp, count: usize) {
        for _ in 0..count {
            self.pending.push(self.journal.record_time(now).unwrap().1);
        }
    }

    /// The guest waits for a signal that has not come.
    pub fn block(&mut self, now: Timestamp) {
        let wait = Wait::Signal(SignalName::new("go").unwrap());
        match self.journal.wait(now, &wait).unwrap() {
            Waiting::Blocked(entry) => self.pending.push(entry),
            waiting => panic!("{waiting:?}"),
        }
    }

    /// The signal comes.
    pub fn wake(&mut self, now: Timestamp) {
        let name = SignalName::new("go").unwrap();
        let delivered = self.journal.deliver_signal(now, &name, Payload::json("1")).unwrap();
        self.pending.extend(delivered.map(|(_, entry)| entry));
        self.pending.extend(self.journal.wake(now).unwrap());
    }

    /// A caller asks for its cancel.
    pub fn request_cancel(&mut self, now: Timestamp) {
        self.pending.extend(self.journal.request_cancel(now, "enough").unwrap());
    }

    /// It ends like this.
    pub fn end(&mut self, now: Timestamp, standing: Standing) {
        let entry = match standing {
            Standing::Completed => self.journal.complete(now, Payload::json("1")),
            Standing::Failed => {
                self.journal.fail(now, Failure::new(ErrorKind::UserError, "no luck"))
            }
            Standing::Indeterminate => {
                self.journal.fail(now, Failure::new(ErrorKind::Indeterminate, "no answer"))
            }
            Standing::Cancelled => {
                self.request_cancel(now);
                self.journal.cancel(now, "enough")
            }
            _ => panic!("{standing:?} is no end"),
        };
        self.pending.push(entry.unwrap());
    }

    /// The row as it is after what is pending.
    pub fn row(&self) -> Execution {
        let started = self.journal.started().unwrap();
        let standing = match &self.stuck {
            Some(_) => Standing::Stuck,
            None => Standing::of(&self.journal),
        };
        Execution {
            key: self.journal.key().clone(),
            length: self.journal.len(),
            standing,
            created_at: self.created_at,
            updated_at: self.journal.last_timestamp(),
            component: started.component_digest,
            function: started.function_name.clone(),
            stuck: self.stuck.clone(),
            namespace: self.namespace.clone(),
            idempotency_key: self.idempotency_key.clone(),
            labels: self.labels.clone(),
            error: EndError::of(&self.journal),
        }
    }

    /// Gives it a label.
    pub fn label(&mut self, label: &str) {
        self.labels.set(label.parse().unwrap()).unwrap();
    }

    /// Adds what is pending to a batch.
    pub fn flush(&mut self, batch: &mut Batch) {
        let row = self.row();
        executions::advance(batch, self.stored.as_ref(), &row, &self.pending).unwrap();
        self.pending.clear();
        self.stored = Some(row);
    }

    /// Submits what is pending by itself.
    pub fn submit(&mut self, store: &Store) {
        let mut batch = Batch::new();
        self.flush(&mut batch);
        store.submit_blocking(batch).unwrap();
    }
}

/// A row for each batch, of the tests that count them.
pub const LOG: Table = Table::new(40, "log", Shape::Kept);

/// All tables, and the log.
pub fn log_tables() -> Vec<Table> {
    let mut tables = indelible_records::TABLES.to_vec();
    tables.push(LOG);
    tables
}

/// The key of a batch's row.
pub fn log_key(thread: u64, number: u64) -> Vec<u8> {
    [thread.to_be_bytes(), number.to_be_bytes()].concat()
}

/// The thread and the number, from the key of a batch's row.
pub fn read_log_key(key: &[u8]) -> (u64, u64) {
    let (thread, number) = key.split_at(8);
    let number_of = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    (number_of(thread), number_of(number))
}

/// The value of a batch's row: which journal the batch extends, and the journal's new length.
pub fn log_value(key: &JournalKey, length: u64) -> Vec<u8> {
    format!("{length} {key}").into_bytes()
}

/// The journal and its length, from a batch's row.
pub fn read_log_value(value: &[u8]) -> (JournalKey, u64) {
    let text = std::str::from_utf8(value).unwrap();
    let (length, key) = text.split_once(' ').unwrap();
    (key.parse().unwrap(), length.parse().unwrap())
}
