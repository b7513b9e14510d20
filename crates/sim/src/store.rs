//! What a store holds, read back for the checks.

use std::collections::BTreeMap;

use indelible_journal::{ExecutionId, JournalKey, Record, RootHash};
use indelible_records::executions::{self, Execution, Standing};
use indelible_records::journals;
use indelible_records::listing::{self, Filter};
use indelible_store::{Read, ReadError, Scan, Snapshot, Store};

/// A journal as it is stored, not checked yet.
pub(crate) type StoredJournal = (JournalKey, Vec<Record>);

const PAGE: usize = 1_000;

/// The rows of a tree, parents before their children.
pub(crate) fn rows(read: &impl Read, root: &RootHash) -> Result<Vec<Execution>, ReadError> {
    let mut all: Vec<Execution> = Vec::new();
    loop {
        let after = all.last().map(|row| row.key.clone());
        let page = executions::tree(read, root, after.as_ref(), PAGE)?.value;
        let more = page.len() == PAGE;
        all.extend(page);
        if !more {
            return Ok(all);
        }
    }
}

/// All events of a journal.
pub(crate) fn events(read: &impl Read, key: &JournalKey) -> Result<Vec<Record>, ReadError> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let page = journals::read(read, key, from, PAGE)?.value;
        all.extend(page.records);
        next = page.next;
    }
    Ok(all)
}

/// Every journal of a tree, in the order of their keys.
pub(crate) fn tree(store: &Store, root: &ExecutionId) -> Result<Vec<StoredJournal>, ReadError> {
    let snapshot = store.snapshot()?;
    let rows = rows(&snapshot, root.root())?;
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let events = events(&snapshot, &row.key)?;
        all.push((row.key, events));
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(all)
}

/// Every journal of every tree, also of the trees that the engine itself has started.
pub(crate) fn all(store: &Store, with_ended: bool) -> Result<Vec<StoredJournal>, ReadError> {
    let snapshot = store.snapshot()?;
    let standings = Standing::ALL.into_iter().filter(|one| with_ended || !one.is_terminal());
    let filter =
        Filter { standings: standings.collect(), with_children: true, ..Filter::default() };
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = listing::list(&snapshot, &filter, after.as_ref(), PAGE)?.value;
        for row in page.executions {
            let events = events(&snapshot, &row.key)?;
            all.push((row.key, events));
        }
        after = page.next;
        if after.is_none() {
            all.sort_by(|one: &StoredJournal, other| one.0.cmp(&other.0));
            return Ok(all);
        }
    }
}

/// The same, tree by tree.
pub(crate) fn trees(store: &Store) -> Result<BTreeMap<RootHash, Vec<StoredJournal>>, ReadError> {
    let mut trees: BTreeMap<RootHash, Vec<StoredJournal>> = BTreeMap::new();
    for stored in all(store, true)? {
        trees.entry(*stored.0.execution_id().root()).or_default().push(stored);
    }
    Ok(trees)
}

/// How many rows there are, and a hash of all of them.
pub(crate) fn digest(store: &Store) -> Result<(u64, u64), ReadError> {
    let snapshot: Snapshot = store.snapshot()?;
    let (mut count, mut hash) = (0, 0);
    for table in store.tables() {
        let mut scan = Scan::all(*table, PAGE);
        loop {
            let page = snapshot.scan(&scan)?.value;
            for (key, value) in &page.rows {
                count += 1;
                for bytes in [table.name().as_bytes(), key, value] {
                    hash = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, hash);
                }
            }
            match page.rows.last() {
                Some((key, _)) if page.rows.len() == PAGE => scan = scan.after(key.clone()),
                _ => break,
            }
        }
    }
    Ok((count, hash))
}
