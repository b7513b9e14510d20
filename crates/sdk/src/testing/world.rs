//! What the trees of a test host look at: rows in memory, a time that moves when nothing else can,
//! functions, and random numbers from a seed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use indelible_execution::context::split;
use indelible_execution::policy::{self, Retries};
use indelible_execution::{Context, Environment, Limits, Purpose};
use indelible_journal::{
    ComponentDigest, FunctionName, JournalKey, Micros, Record, RetryPolicy, RootHash, Timestamp,
};
use indelible_operations::retention::{AHEAD_MAX, Retention};
use indelible_records::{executions, journals};
use indelible_store::{
    Batch, DamageLog, Direction, Expect, KeyRange, Page, Position, Read, ReadError, Scan, Seen,
    Table,
};

use crate::function::Definition;

/// The most events of one journal: a function that never ends is found soon.
const JOURNAL_EVENTS_MAX: u64 = 10_000;

/// The largest payload, and the most signals that wait: as in a server that was told nothing else.
const PAYLOAD_BYTES_MAX: usize = 8 << 20;
const SIGNALS_BUFFERED_MAX: usize = 10_000;
const SIGNALS_BUFFERED_BYTES_MAX: usize = 32 << 20;

/// When a test begins, unless it says otherwise: 2026-01-01T00:00:00Z.
const BEGINNING: u64 = 1_767_225_600_000_000;

/// The component that is tested.
const OWN: &str = "component under test";

/// The rows of a table.
type Rows = BTreeMap<Bytes, Bytes>;

pub(super) struct World {
    tables: BTreeMap<&'static str, Rows>,
    damage: DamageLog,
    limits: Limits,
    pub(super) now: Timestamp,
    pub(super) random: Cell<u64>,
    /// The functions of the component that is tested.
    pub(super) functions: &'static [Definition],
    /// Names that the test answers itself: `function`, or `component/function`.
    pub(super) answered: BTreeSet<String>,
}

impl Default for World {
    fn default() -> Self {
        let day = Micros::from_secs(24 * 3_600);
        let guest = indelible_journal::Limits {
            memory_bytes_max: 64 << 20,
            stack_bytes_max: 1 << 20,
            table_elements_max: 10_000,
        };
        let limits = Limits {
            guest,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            cleanup_max: Micros::from_secs(60),
            journal_events_max: JOURNAL_EVENTS_MAX,
            signals_buffered_max: SIGNALS_BUFFERED_MAX,
            signals_buffered_bytes_max: SIGNALS_BUFFERED_BYTES_MAX,
            retention: Retention::new(day, day, AHEAD_MAX).expect("a window as long as retries"),
        };
        Self {
            tables: BTreeMap::new(),
            damage: DamageLog::default(),
            limits,
            now: Timestamp::from_micros(BEGINNING).expect("it is a time of this century"),
            random: Cell::new(0),
            functions: &[],
            answered: BTreeSet::new(),
        }
    }
}

impl World {
    /// The same world, to try something in it.
    pub(super) fn copy(&self) -> Self {
        Self {
            tables: self.tables.clone(),
            damage: DamageLog::default(),
            limits: self.limits.clone(),
            now: self.now,
            random: self.random.clone(),
            functions: self.functions,
            answered: self.answered.clone(),
        }
    }

    pub(super) fn context(&self) -> Context<'_> {
        Context { now: self.now, reads: self, surroundings: self, limits: &self.limits }
    }

    pub(super) fn guest_limits(&self) -> indelible_journal::Limits {
        self.limits.guest
    }

    /// The version of a component: of the one that is tested, without a name.
    pub(super) fn version(component: Option<&str>) -> ComponentDigest {
        ComponentDigest::of(component.unwrap_or(OWN).as_bytes())
    }

    pub(super) fn definition(&self, name: &str) -> Option<&'static Definition> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// The name under which the test answers calls of a function, if it does.
    pub(super) fn answered(&self, version: &ComponentDigest, name: &str) -> Option<&str> {
        let is_it = |answered: &&String| {
            let (component, function) = split(answered);
            function == name && Self::version(component) == *version
        };
        self.answered.iter().find(is_it).map(String::as_str)
    }

    /// Takes a batch, if its conditions hold.
    pub(super) fn apply(&mut self, batch: &Batch) {
        for condition in batch.conditions() {
            let rows = self.tables.get(condition.table.name());
            let row = rows.and_then(|rows| rows.get(&condition.key));
            let holds = match &condition.expect {
                Expect::Absent => row.is_none(),
                Expect::Equal(value) => row == Some(value),
                Expect::Prefix(prefix) => row.is_some_and(|row| row.starts_with(prefix)),
            };
            assert!(holds, "a commit was refused, a defect of Indelible");
        }
        for write in batch.writes() {
            let rows = self.tables.entry(write.table.name()).or_default();
            match &write.value {
                Some(value) => rows.insert(write.key.clone(), value.clone()),
                None => rows.remove(&write.key),
            };
        }
    }

    /// The journals of a tree, callers before their children.
    pub(super) fn journals(&self, root: &RootHash) -> Vec<(JournalKey, Vec<Record>)> {
        let rows = executions::tree(self, root, None, usize::MAX).expect("memory can be read");
        let journal = |row: executions::Execution| {
            let read = journals::read(self, &row.key, 0, usize::MAX).expect("memory can be read");
            (row.key, read.value.records)
        };
        rows.value.into_iter().map(journal).collect()
    }
}

impl Read for World {
    fn get(&self, table: Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        let value = self.tables.get(table.name()).and_then(|rows| rows.get(key).cloned());
        Ok(Seen { value, position: Position::START })
    }

    fn scan(&self, scan: &Scan) -> Result<Seen<Page>, ReadError> {
        let all = self.tables.get(scan.table.name()).filter(|_| !is_empty(&scan.range));
        let found = all.into_iter().flat_map(|rows| rows.range(scan.range.clone()));
        let row = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
        // One row more says whether there are more.
        let most = scan.rows_max.saturating_add(1);
        let mut rows: Vec<_> = match scan.direction {
            Direction::Forward => found.take(most).map(row).collect(),
            Direction::Backward => found.rev().take(most).map(row).collect(),
        };
        let more = rows.len() > scan.rows_max;
        rows.truncate(scan.rows_max);
        Ok(Seen { value: Page { rows, more }, position: Position::START })
    }

    fn damage(&self) -> &DamageLog {
        &self.damage
    }
}

impl Environment for World {
    /// SplitMix64, of Steele, Lea and Flood: a test's numbers need be no secret.
    fn fill(&self, _: Purpose<'_>, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.random.set(state);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }

    fn retention_time(&self) -> Timestamp {
        self.now
    }

    fn callee(
        &self,
        own: &ComponentDigest,
        called: &FunctionName,
    ) -> Result<Arc<RetryPolicy>, String> {
        let (component, name) = split(called.as_str());
        let Some(component) = component else {
            let function = self.function(own, name)?;
            let policy = function.map(|(_, policy)| policy);
            return policy.ok_or_else(|| format!("the component has no function {name:?}"));
        };
        let callee = Some(Self::version(Some(component)));
        Ok(Arc::new(RetryPolicy { callee, ..RetryPolicy::default() }))
    }

    fn function(
        &self,
        version: &ComponentDigest,
        name: &str,
    ) -> Result<Option<(FunctionName, Arc<RetryPolicy>)>, String> {
        let policy = match self.definition(name) {
            Some(function) => function_policy(function)?,
            None if self.answered(version, name).is_some() => RetryPolicy::default(),
            None => return Ok(None),
        };
        let name = FunctionName::new(name).map_err(|error| error.to_string())?;
        Ok(Some((name, Arc::new(policy))))
    }

    fn names_of(&self, _: &ComponentDigest) -> Arc<[String]> {
        Arc::from([OWN.to_owned()])
    }
}

/// Whether no key can be in a range, which a map would not look for.
fn is_empty(range: &KeyRange) -> bool {
    match range {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
        | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

/// The retry policy of a function, as a server would read it from its component.
fn function_policy(function: &Definition) -> Result<RetryPolicy, String> {
    let retries = Retries {
        retries_max: function.retries_max,
        backoff_base: function.backoff_base,
        backoff_cap: function.backoff_cap,
        deadline: function.deadline,
    };
    let policy = retries.of_function(policy::class(function.persist, function.idem));
    policy::check(&policy).map_err(|why| format!("function `{}`: {why}", function.name))?;
    Ok(policy)
}
