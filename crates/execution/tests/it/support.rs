//! What a tree may look at, as values: rows in a map, a time, and functions that never change.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use indelible_execution::guest::Stop;
use indelible_execution::input::{Request, Start};
use indelible_execution::operation::OperationRequest;
use indelible_execution::output::Event;
use indelible_execution::{Context, Environment, Limits, Purpose, Tree};
use indelible_http::{End, Response};
use indelible_journal::{
    Attempt, Attempts, ComponentDigest, FunctionName, Journal, JournalKey, Micros, Namespace,
    OperationId, OperationKey, Payload, RetryPolicy, RootHash, Started, Timestamp,
};
use indelible_machine::Machine as _;
use indelible_operations::Binding;
use indelible_operations::retention::{AHEAD_MAX, Retention};
use indelible_records::labels::Labels;
use indelible_records::operations::{self, Operation};
use indelible_records::windows::WindowedRecord;
use indelible_records::{journals, queue, timers};
use indelible_store::{
    Batch, DamageLog, Expect, Page, Position, Read, ReadError, Scan, Seen, Table,
};

/// Everything that a tree may look at.
pub(crate) struct World {
    rows: BTreeMap<(&'static str, Bytes), Bytes>,
    damage: DamageLog,
    limits: Limits,
    pub(crate) now: Timestamp,
}

impl World {
    pub(crate) fn new() -> Self {
        let day = Micros::from_secs(24 * 3600);
        let guest = indelible_journal::Limits {
            memory_bytes_max: 1,
            stack_bytes_max: 1,
            table_elements_max: 1,
        };
        let limits = Limits {
            guest,
            payload_bytes_max: 8 << 20,
            cleanup_max: Micros::from_secs(60),
            journal_events_max: 1_000,
            signals_buffered_max: 10,
            signals_buffered_bytes_max: 1 << 10,
            retention: Retention::new(day, day, AHEAD_MAX).unwrap(),
        };
        let now = Timestamp::EPOCH.saturating_add(Micros::from_secs(1));
        Self { rows: BTreeMap::new(), damage: DamageLog::default(), limits, now }
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context { now: self.now, reads: self, surroundings: self, limits: &self.limits }
    }

    /// Takes a batch, if its conditions hold.
    pub(crate) fn apply(&mut self, batch: &Batch) -> bool {
        for condition in batch.conditions() {
            let row = self.rows.get(&(condition.table.name(), condition.key.clone()));
            let holds = match &condition.expect {
                Expect::Absent => row.is_none(),
                Expect::Equal(value) => row == Some(value),
                Expect::Prefix(prefix) => row.is_some_and(|row| row.starts_with(prefix)),
            };
            if !holds {
                return false;
            }
        }
        for write in batch.writes() {
            let key = (write.table.name(), write.key.clone());
            match &write.value {
                Some(value) => self.rows.insert(key, value.clone()),
                None => self.rows.remove(&key),
            };
        }
        true
    }

    /// Takes everything that a tree has to store; the events of it.
    pub(crate) fn take(&mut self, tree: &mut Tree) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(changes) = tree.changes() {
            assert!(self.apply(&changes.rows.unwrap()), "a commit was refused");
            events.extend(changes.events);
        }
        events
    }

    pub(crate) fn journal(&self, key: &JournalKey) -> Journal {
        let records = journals::read(self, key, 0, 100).unwrap().value.records;
        Journal::recover(key.clone(), records).unwrap()
    }

    pub(crate) fn record(&self, id: &str) -> WindowedRecord<Operation> {
        operations::get(self, &operation(id)).unwrap().value.unwrap()
    }

    pub(crate) fn queue(&self) -> Vec<queue::Row> {
        queue::next(self, None, 10).unwrap().value
    }

    pub(crate) fn timers(&self) -> Vec<timers::Timer> {
        let rows = timers::next(self, None, 10).unwrap().value;
        rows.into_iter().filter_map(timers::Row::tree).collect()
    }

    /// The start of `order`.
    pub(crate) fn start(&self, id: &str) -> Request {
        self.start_of_version(id, 1)
    }

    pub(crate) fn start_of_version(&self, id: &str, version: u8) -> Request {
        let function = "order";
        let operation = operation(id);
        let digest = ComponentDigest::from_bytes([version; 32]);
        let root = RootHash::derive(&digest, None, &operation);
        let input = Payload::json("null");
        let started = Started {
            component_digest: digest,
            function_name: FunctionName::new(function).unwrap(),
            input: input.clone(),
            parent_id: None,
            idempotency_key: Some(operation.clone()),
            attempts: Attempts::new(&[Attempt::FIRST]).unwrap(),
            limits: self.limits.guest,
            retry_policy: Some(Arc::default()),
            trace_parent: None,
        };
        let binding = Binding::of(function, &input);
        let request = OperationRequest { operation, root, binding, keyed: None };
        let labels = Labels::default();
        Request::Start(Box::new(Start {
            started,
            request,
            again: false,
            actor: None,
            kept: true,
            labels,
        }))
    }
}

fn operation(id: &str) -> OperationKey {
    let namespace = Namespace::new("tests").unwrap();
    OperationKey { namespace, operation_id: OperationId::new(id).unwrap() }
}

impl Read for World {
    fn get(&self, table: Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        let key = (table.name(), Bytes::copy_from_slice(key));
        Ok(Seen { value: self.rows.get(&key).cloned(), position: Position::START })
    }

    fn scan(&self, scan: &Scan) -> Result<Seen<Page>, ReadError> {
        let of_table = self.rows.iter().filter(|((table, _), _)| *table == scan.table.name());
        let mut rows: Vec<_> = of_table
            .filter(|((_, key), _)| std::ops::RangeBounds::contains(&scan.range, key))
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect();
        if scan.direction == indelible_store::Direction::Backward {
            rows.reverse();
        }
        let more = rows.len() > scan.rows_max;
        rows.truncate(scan.rows_max);
        Ok(Seen { value: Page { rows, more }, position: Position::START })
    }

    fn damage(&self) -> &DamageLog {
        &self.damage
    }
}

impl Environment for World {
    fn fill(&self, _purpose: Purpose<'_>, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn retention_time(&self) -> Timestamp {
        self.now
    }

    fn callee(
        &self,
        _own: &ComponentDigest,
        _function: &FunctionName,
    ) -> Result<Arc<RetryPolicy>, String> {
        Ok(Arc::default())
    }

    fn function(
        &self,
        _version: &ComponentDigest,
        name: &str,
    ) -> Result<Option<(FunctionName, Arc<RetryPolicy>)>, String> {
        Ok(FunctionName::new(name).ok().map(|name| (name, Arc::default())))
    }

    fn names_of(&self, _version: &ComponentDigest) -> Arc<[String]> {
        Arc::from(["shop".to_owned()])
    }
}

pub(crate) fn request() -> indelible_http::Request {
    let (method, url) = ("POST".to_owned(), "http://peer.test/charge".to_owned());
    indelible_http::Request { method, url, headers: Vec::new(), body: Vec::new() }
}

pub(crate) fn answer(status: u16) -> End {
    End::Answered(Response { status, headers: Vec::new(), body: Bytes::new() })
}

pub(crate) fn returns(json: &'static str) -> Stop {
    Stop::Returned(Ok(Payload::json(json)))
}
