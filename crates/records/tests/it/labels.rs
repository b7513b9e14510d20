//! Labels (C-79): their index, lists by them and of all namespaces, and what the check finds.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

use std::sync::Arc;

use indelible_journal::{JournalKey, Micros, Namespace};
use indelible_records::executions::Standing;
use indelible_records::labels::{LABELS_MAX, Label};
use indelible_records::listing::{
    self, Cursor, Filter, LOOKED_AT_MAX, Listing, NAMESPACES_MAX, Whose,
};
use indelible_records::retention::{self, Retention};
use indelible_records::{BY_LABEL, check};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, Scan, Store};
use indelible_test_store::rows::{NAMESPACES, Run, at, key};

fn memory() -> Store {
    Store::start(Arc::new(MemoryBackend::new()), &indelible_records::TABLES, Bounds::DEFAULT)
        .unwrap()
}

fn problems(store: &Store) -> Vec<String> {
    let findings = check::check(store, &mut |_| {}).unwrap();
    findings.problems.into_iter().map(|found| format!("{}: {}", found.table, found.what)).collect()
}

/// The keys of the index.
fn entries(store: &Store) -> Vec<Vec<u8>> {
    let rows = store.scan(&Scan::all(BY_LABEL, 1_000)).unwrap().value.rows;
    rows.into_iter().map(|(key, _)| key.to_vec()).collect()
}

fn by(label: &str) -> Filter {
    Filter { labels: vec![label.parse().unwrap()], ..Filter::default() }
}

fn list(store: &Store, filter: &Filter, after: Option<&Cursor>) -> Listing {
    listing::list(&store.snapshot().unwrap(), filter, after, 10).unwrap().value
}

fn found(store: &Store, filter: &Filter) -> Vec<JournalKey> {
    list(store, filter, None).executions.into_iter().map(|row| row.key).collect()
}

/// C-79: an execution is found by the labels that it has, and not by those that it had; a child has
/// labels in its row alone; with the tree the entries go.
#[test]
fn the_index_follows_the_row() {
    let store = memory();
    let mut root = Run::start(1, &key(1, &[], &[1]), "order", at(10));
    root.label("order=1");
    root.label("stage=new");
    root.submit(&store);
    let mut child = Run::start(1, &key(1, &[0], &[1, 1]), "charge", at(11));
    child.label("order=1");
    child.submit(&store);
    assert_eq!(found(&store, &by("order=1")), [root.key().clone()]);
    assert_eq!(found(&store, &by("stage=new")), [root.key().clone()]);
    assert_eq!(found(&store, &by("order=")), []);
    assert_eq!(entries(&store).len(), 2);

    root.label("stage=charged");
    root.submit(&store);
    assert_eq!(found(&store, &by("stage=new")), []);
    assert_eq!(found(&store, &by("stage=charged")), [root.key().clone()]);
    assert_eq!(problems(&store), [""; 0]);

    // Every attempt has them; a list of last attempts has the last.
    root.end(at(20), Standing::Failed);
    root.submit(&store);
    let mut again = root.again(at(21));
    again.submit(&store);
    assert_eq!(found(&store, &by("order=1")), [again.key().clone(), root.key().clone()]);
    let latest = Filter { latest_only: true, ..by("order=1") };
    assert_eq!(found(&store, &latest), [again.key().clone()]);
    let running = Filter { standings: vec![Standing::Running], ..by("order=1") };
    assert_eq!(found(&store, &running), [again.key().clone()]);
    let both = Filter {
        labels: vec!["order=1".parse().unwrap(), "stage=new".parse().unwrap()],
        ..by("order=1")
    };
    assert_eq!(found(&store, &both), []);

    child.end(at(22), Standing::Completed);
    child.submit(&store);
    again.end(at(30), Standing::Completed);
    again.submit(&store);
    assert_eq!(problems(&store), [""; 0]);
    let retention = Retention { completed: Some(Micros::ZERO), ..Retention::default() };
    // Row by row: what is left is sound at every moment.
    loop {
        let sweep = retention::sweep(&store, at(100), &retention, 1);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(swept) = std::pin::pin!(sweep).poll(&mut context) else {
            panic!("there is room")
        };
        assert_eq!(problems(&store), [""; 0]);
        if swept.unwrap().rows == 0 {
            break;
        }
    }
    assert_eq!(entries(&store), [b""; 0]);
}

/// C-79: the check finds an entry that is missing, and one that says what no row says; and an error
/// in a row that its journal does not have.
#[test]
fn the_check_knows_labels() {
    let store = memory();
    let mut root = Run::start(1, &key(1, &[], &[1]), "order", at(10));
    root.label("order=1");
    root.submit(&store);
    let [entry] = &entries(&store)[..] else { panic!() };
    let change = |change: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        change(&mut batch);
        store.submit_blocking(batch).unwrap();
    };
    change(&|batch| _ = batch.delete(BY_LABEL, entry.clone()));
    assert_eq!(
        problems(&store),
        ["executions: it is missing in the index executions_by_label".to_owned()]
    );
    change(&|batch| _ = batch.put(BY_LABEL, entry.clone(), ""));
    assert_eq!(problems(&store), [""; 0]);
    let mut other = entry.clone();
    let digit = other.iter().position(|byte| *byte == b'1').unwrap();
    other[digit] = b'2';
    change(&|batch| _ = batch.put(BY_LABEL, other.clone(), ""));
    let elsewhere = "executions_by_label: the execution that it points to is in another state";
    assert_eq!(problems(&store), [elsewhere.to_owned()]);
    change(&|batch| _ = batch.delete(BY_LABEL, other.clone()));

    let before = root.stored.clone().unwrap();
    let mut ended = Run::start(2, &key(2, &[], &[1]), "order", at(10));
    ended.end(at(11), Standing::Failed);
    let after =
        indelible_records::executions::Execution { error: ended.row().error, ..before.clone() };
    change(&|batch| {
        indelible_records::executions::advance(batch, Some(&before), &after, &[]).unwrap();
    });
    let wrong = "executions: its error is UserError: no luck, but  in its journal";
    assert_eq!(problems(&store), [wrong.to_owned()]);
}

/// Lists of all namespaces leave out what the server starts itself; lists by label look through all
/// namespaces, but not through too many.
#[test]
fn all_namespaces_of_callers() {
    let store = memory();
    let start = |tree: u64, namespace: &str| {
        let mut run = Run::start(tree, &key(tree, &[], &[1]), "order", at(10 + tree));
        run.namespace = Some(Namespace::new(namespace).unwrap());
        run.label("order=1");
        run.submit(&store);
        run.key().clone()
    };
    let shop = start(1, "shop");
    let bank = start(2, "bank");
    let own = start(3, "_own");
    start(5, "indelible.reconcile");
    let shop2 = start(4, "shop");
    let callers = |filter: Filter| Filter { whose: Whose::Callers, ..filter };
    let all = [shop2.clone(), bank.clone(), shop.clone()];
    assert_eq!(found(&store, &callers(Filter::default())), all);
    assert_eq!(found(&store, &callers(by("order=1"))), all);
    assert_eq!(found(&store, &Filter::default()).len(), 5);
    let some = |names: &[&str]| {
        let names = names.iter().map(|name| Namespace::new(name).unwrap());
        Whose::Namespaces(names.collect())
    };
    let two = Filter { whose: some(&["bank", "_own"]), ..by("order=1") };
    assert_eq!(found(&store, &two), [own, bank.clone()]);
    assert_eq!(found(&store, &Filter { whose: some(&[]), ..Filter::default() }), []);
    assert_eq!(
        found(&store, &Filter { whose: some(&["bank", "ban"]), ..Filter::default() }),
        [bank]
    );

    for number in 0..NAMESPACES_MAX as u64 - 2 {
        start(100 + number, &format!("n{number}"));
    }
    assert_eq!(found(&store, &callers(by("order=1"))).len(), 10);
    start(99, "one-more");
    assert!(list(&store, &callers(by("order=1")), None).crowded);
    assert_eq!(found(&store, &Filter { whose: some(&["shop"]), ..by("order=1") }), [shop2, shop]);
}

/// A page by label and anything else looks at a bounded number of executions, and says where to go
/// on.
#[test]
fn a_page_by_label_is_bounded() {
    let store = memory();
    let mut batch = Batch::new();
    for tree in 0..=LOOKED_AT_MAX as u64 {
        let mut run = Run::start(tree, &key(tree, &[], &[1]), "order", at(10 + tree));
        run.namespace = Some(Namespace::new("shop").unwrap());
        run.label("tenant=x");
        if tree == 0 {
            run.label("order=1");
        }
        run.flush(&mut batch);
        if tree % 500 == 0 {
            store.submit_blocking(std::mem::take(&mut batch)).unwrap();
        }
    }
    store.submit_blocking(batch).unwrap();
    let mut filter = Filter { whose: Namespace::new("shop").unwrap().into(), ..by("tenant=x") };
    filter.labels.push("order=1".parse().unwrap());
    let first = list(&store, &filter, None);
    assert!(first.executions.is_empty() && first.next.is_some(), "{first:?}");
    let second = list(&store, &filter, first.next.as_ref());
    let keys: Vec<_> = second.executions.into_iter().map(|row| row.key).collect();
    assert_eq!((keys, second.next), (vec![key(0, &[], &[1])], None));
    filter.labels.reverse();
    assert_eq!(found(&store, &filter), [key(0, &[], &[1])]);
}

/// The largest labels fit into keys and rows.
#[test]
fn the_largest_labels_fit() {
    let store = memory();
    let mut run = Run::start(1, &key(1, &[], &[1]), "order", at(10));
    let labels = (0..LABELS_MAX)
        .map(|number| Label::new(&format!("{number:0>64}"), &"✓".repeat(85)).unwrap());
    let labels: Vec<_> = labels.collect();
    for label in &labels {
        run.labels.set(label.clone()).unwrap();
    }
    run.submit(&store);
    assert_eq!(entries(&store).len(), LABELS_MAX);
    let last = Filter { labels: vec![labels[LABELS_MAX - 1].clone()], ..Filter::default() };
    assert_eq!(found(&store, &last), [run.key().clone()]);
    assert_eq!(problems(&store), [""; 0]);
    assert!(NAMESPACES.contains(&run.namespace.unwrap().as_str()));
}
