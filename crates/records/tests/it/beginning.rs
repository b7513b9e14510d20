//! Tests of finding roots by the beginning of their id.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

use std::sync::Arc;

use indelible_journal::{
    Attempt, Attempts, ComponentDigest, ExecutionId, FunctionName, JournalKey, Namespace,
    PromiseId, RootHash, Timestamp,
};
use indelible_records::beginning::TREES_MAX;
use indelible_records::executions::{self, Execution, Standing};
use indelible_records::labels::Labels;
use indelible_records::listing::{self, Cursor, Filter, Listing};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, Store};

fn memory() -> Store {
    Store::start(Arc::new(MemoryBackend::new()), &indelible_records::TABLES, Bounds::DEFAULT)
        .unwrap()
}

/// A root of this beginning, with a number at its end; or what it called.
fn key(beginning: &str, number: u32, path: &[u32], attempt: u32) -> JournalKey {
    let hash: RootHash = format!("{beginning:0<56}{number:08x}").parse().unwrap();
    let promise = PromiseId::new(hash, path).unwrap();
    let attempts: Vec<_> = (0..=path.len()).map(|_| Attempt::new(attempt).unwrap()).collect();
    JournalKey::new(ExecutionId::new(promise).unwrap(), Attempts::new(&attempts).unwrap()).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Adds the row of an execution, without a journal: the hash of a real root cannot be chosen.
fn put(batch: &mut Batch, key: &JournalKey, namespace: &str, created: u64) {
    let is_root = key.execution_id().is_root();
    let row = Execution {
        key: key.clone(),
        length: 0,
        standing: Standing::Running,
        created_at: at(created),
        updated_at: at(created),
        component: ComponentDigest::of(b"component"),
        function: FunctionName::new("order").unwrap(),
        stuck: None,
        namespace: is_root.then(|| Namespace::new(namespace).unwrap()),
        idempotency_key: None,
        labels: Labels::default(),
        error: None,
    };
    executions::advance(batch, None, &row, &[]).unwrap();
}

fn start(store: &Store, key: &JournalKey, namespace: &str, created: u64) {
    let mut batch = Batch::new();
    put(&mut batch, key, namespace, created);
    store.submit_blocking(batch).unwrap();
}

fn filter(prefix: &str) -> Filter {
    let whose = Namespace::new("shop").unwrap().into();
    Filter { whose, id_prefix: Some(prefix.parse().unwrap()), ..Filter::default() }
}

fn page(store: &Store, filter: &Filter, after: Option<&Cursor>, limit: usize) -> Listing {
    listing::list(&store.snapshot().unwrap(), filter, after, limit).unwrap().value
}

fn keys(listing: &Listing) -> Vec<JournalKey> {
    listing.executions.iter().map(|row| row.key.clone()).collect()
}

/// Roots that begin so, of the namespace, each once as its last attempt stands, the newest first;
/// what they called is not among them, and other filters go together with it.
#[test]
fn roots_are_found_by_their_beginning() {
    let store = memory();
    let found: Vec<_> = (0..5).map(|number| key("abcdef", number, &[], 1)).collect();
    for (number, key) in found.iter().enumerate() {
        start(&store, key, "shop", 100 + number as u64);
    }
    // Another attempt at one, with its calls; neighbours; a root of another namespace.
    let again = key("abcdef", 2, &[], 2);
    start(&store, &again, "shop", 200);
    for child in 0..20 {
        start(&store, &key("abcdef", 2, &[child], 2), "shop", 201);
    }
    for neighbour in ["abcdee", "abcdf0", "abcde", "ffffff", "000000"] {
        start(&store, &key(neighbour, 1, &[], 1), "shop", 300);
    }
    start(&store, &key("abcdef", 9, &[], 1), "other", 400);

    let expected = [&again, &found[4], &found[3], &found[1], &found[0]].map(Clone::clone);
    let all = page(&store, &filter("abcdef"), None, 10);
    assert_eq!((keys(&all), all.next.is_none(), all.crowded), (expected.to_vec(), true, false));
    for limit in 1..5 {
        let (mut seen, mut cursor): (Vec<JournalKey>, Option<Cursor>) = (Vec::new(), None);
        loop {
            let page = page(&store, &filter("abcdef"), cursor.as_ref(), limit);
            seen.extend(keys(&page));
            let Some(next) = page.next else { break };
            cursor = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(seen, expected, "{limit}");
    }
    let odd = page(&store, &filter("abcdef0"), None, 10);
    assert_eq!(keys(&odd), expected);
    assert_eq!(keys(&page(&store, &filter("abcdef1"), None, 10)), []);
    assert_eq!(keys(&page(&store, &filter("ffffff"), None, 10)), [key("ffffff", 1, &[], 1)]);
    let whole = found[3].execution_id().root().to_string();
    assert_eq!(keys(&page(&store, &filter(&whole), None, 10)), [found[3].clone()]);

    let from = Filter { created_from: Some(at(104)), ..filter("abcdef") };
    assert_eq!(keys(&page(&store, &from, None, 10)), [again.clone(), found[4].clone()]);
    let before = Filter { created_before: Some(at(101)), ..filter("abcdef") };
    assert_eq!(keys(&page(&store, &before, None, 10)), [found[0].clone()]);
    let failed = Filter { standings: vec![Standing::Failed], ..filter("abcdef") };
    assert_eq!(keys(&page(&store, &failed, None, 10)), []);
    let function = Some(FunctionName::new("other").unwrap());
    assert_eq!(keys(&page(&store, &Filter { function, ..filter("abcdef") }, None, 10)), []);
    // A child's beginning is its root's.
    let children = Filter { with_children: true, ..filter("abcdef") };
    assert_eq!(keys(&page(&store, &children, None, 10)), expected);
}

/// A beginning that very many have looks at a bounded number of trees, says so, and shows nothing;
/// more digits find the one. A tree of very many executions is passed over in one step.
#[test]
fn a_beginning_of_many_is_bounded() {
    let store = memory();
    let mut batch = Batch::new();
    for number in 0..u32::try_from(TREES_MAX).unwrap() {
        put(&mut batch, &key("abcdef", number, &[], 1), "other", 10);
        if number % 500 == 0 {
            store.submit_blocking(std::mem::take(&mut batch)).unwrap();
        }
    }
    for child in 0..2_000 {
        put(&mut batch, &key("abcdef", 0, &[child], 1), "other", 10);
        if child % 500 == 0 {
            store.submit_blocking(std::mem::take(&mut batch)).unwrap();
        }
    }
    store.submit_blocking(batch).unwrap();
    let listing = page(&store, &filter("abcdef"), None, 10);
    assert_eq!((keys(&listing), listing.next, listing.crowded), (vec![], None, false));
    // One more is one too many, whichever namespace it is in.
    let own = key("abcdef", u32::MAX, &[], 1);
    start(&store, &own, "shop", 10);
    let listing = page(&store, &filter("abcdef"), None, 10);
    assert_eq!((keys(&listing), listing.next, listing.crowded), (vec![], None, true));
    let more = &own.execution_id().root().to_string()[..57];
    let listing = page(&store, &filter(more), None, 10);
    assert_eq!((keys(&listing), listing.next, listing.crowded), (vec![own], None, false));
}
