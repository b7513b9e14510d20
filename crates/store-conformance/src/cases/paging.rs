//! Scans page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use indelible_store::{Batch, Bounds, Direction, Page, Read, Row, Scan, Table};

use crate::compare::{assert_same_page, brief};
use crate::gate::{Gated, Hold};
use crate::generate::{self, TABLES};
use crate::model::{Keys, Model, State};
use crate::{Rng, Subject};

const T: Table = TABLES[0];
const PAGE_SIZES: [usize; 4] = [1, 2, 3, 7];

/// Paging with [`Scan::after`] gives each row exactly once, in order, in both directions, at any
/// page size and when bytes end a page; and [`Page::more`] is exact: there is a next page if and
/// only if it says so. Rows and deletes are in the backend, on their way to it and waiting.
pub fn pages_give_each_row_once(subject: &mut dyn Subject, mut rng: Rng) {
    let scan_bytes_max = *rng.pick(&[0, 5, 60, Bounds::DEFAULT.scan_bytes_max]);
    let bounds = Bounds { scan_bytes_max, ..Bounds::DEFAULT };
    let open = Gated::open(subject, &TABLES, bounds);
    let mut model = Model::default();
    let mut submit = |batch: &Batch| {
        assert_eq!(open.store.try_submit(batch.clone()).unwrap(), model.accept_batch(batch));
        model.now().clone()
    };
    submit(&some_rows(&mut rng));
    open.settle();
    open.gate.hold(*rng.pick(&[Hold::Before, Hold::After]));
    submit(&some_rows(&mut rng));
    open.gate.wait_until_held();
    let state = submit(&some_rows(&mut rng));
    let snapshot = open.store.snapshot().unwrap();

    for prefix in generate::short_keys() {
        let keys = Keys::BeginningWith(prefix.clone());
        let scan = Scan::prefix(T, prefix, 3);
        check_pages(&snapshot, &scan, &keys, &state, &bounds);
        check_pages(&snapshot, &scan.reversed(), &keys, &state, &bounds);
    }
    let prefix = generate::key(&mut rng);
    let range = generate::range(&mut rng, &state, T);
    let everything = (Bound::Unbounded, Bound::Unbounded);
    for (scan, keys) in [
        (Scan::all(T, 0), Keys::Between(everything)),
        (Scan::prefix(T, prefix.clone(), 0), Keys::BeginningWith(prefix)),
        (Scan { range: range.clone(), ..Scan::all(T, 0) }, Keys::Between(range)),
    ] {
        for scan in [scan.clone(), scan.clone().reversed()] {
            for rows_max in PAGE_SIZES {
                let scan = Scan { rows_max, ..scan.clone() };
                check_pages(&open.store, &scan, &keys, &state, &bounds);
                check_pages(&snapshot, &scan, &keys, &state, &bounds);
            }
            let none = Scan { rows_max: 0, ..scan };
            let page = open.store.scan(&none).unwrap().value;
            assert_eq!(page, Page { rows: Vec::new(), more: keys.can_contain_any() });
        }
    }
}

fn some_rows(rng: &mut Rng) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..40 {
        match rng.percent(70) {
            true => batch.put(T, generate::key(rng), rng.bytes(3)),
            false => batch.delete(T, generate::key(rng)),
        };
    }
    batch
}

fn check_pages(from: &impl Read, scan: &Scan, keys: &Keys, state: &State, bounds: &Bounds) {
    let mut left: Vec<Row> = state
        .rows(scan.table)
        .filter(|(key, _)| keys.contain(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if scan.direction == Direction::Backward {
        left.reverse();
    }
    let mut next = scan.clone();
    loop {
        let page = from.scan(&next).unwrap().value;
        // The page ends at the row limit, or at the row that exceeds the bytes.
        let mut bytes = 0;
        let fits = |(key, value): &&Row| {
            let fits = bytes <= bounds.scan_bytes_max;
            bytes += key.len() + value.len();
            fits
        };
        let expected: Vec<Row> =
            left.iter().take(scan.rows_max).take_while(fits).cloned().collect();
        left.drain(..expected.len());
        let expected = Page { rows: expected, more: !left.is_empty() };
        assert_same_page(&page, &expected, || generate::words(&next, keys));
        match page.rows.last() {
            Some((key, _)) if page.more => next = next.after(key.clone()),
            _ => break,
        }
    }
    assert!(left.is_empty(), "{} rows never came", left.len());
}

/// Going on after a key never makes a range wider: a key before the range, as in a forged or stale
/// cursor, gives the rows of the range and no others; a key after it gives none.
pub fn a_scan_goes_on_within_its_range(subject: &mut dyn Subject, _rng: Rng) {
    let open = Gated::open(subject, &TABLES, Bounds::DEFAULT);
    let mut batch = Batch::new();
    for key in ["a", "b", "b1", "b2", "c"] {
        batch.put(T, key, "");
    }
    open.store.try_submit(batch).unwrap();
    let scan = Scan::prefix(T, "b", 10);
    let between = |start, end| Scan { range: (start, end), ..scan.clone() };
    let (excluded, included) = (
        |key: &'static str| Bound::Excluded(key.into()),
        |key: &'static str| Bound::Included(key.into()),
    );
    let scans = [
        (scan.clone(), &["b", "b1", "b2"][..]),
        (between(excluded("b"), excluded("b2")), &["b1"]),
        (between(included("b1"), included("b1")), &["b1"]),
    ];
    for (scan, rows) in scans {
        for cursor in ["", "a", "a1", "b", "b1", "b2", "b3", "c", "d"] {
            let rest = |scan: Scan| -> Vec<Bytes> {
                let page = open.store.scan(&scan.after(cursor.into())).unwrap().value;
                page.rows.into_iter().map(|(key, _)| key).collect()
            };
            let forward: Vec<_> = rows.iter().copied().filter(|key| *key > cursor).collect();
            assert_eq!(rest(scan.clone()), forward, "{scan:?} after {cursor:?}");
            let mut backward: Vec<_> = rows.iter().copied().filter(|key| *key < cursor).collect();
            backward.reverse();
            assert_eq!(rest(scan.clone().reversed()), backward, "{scan:?} before {cursor:?}");
        }
    }
}

/// Other rows come and go between pages, also the row where a page ended. A row that stays is seen
/// exactly once, and no row twice or out of order.
pub fn rows_that_stay_are_seen_once(subject: &mut dyn Subject, mut rng: Rng) {
    let open = Gated::open(subject, &TABLES, Bounds::DEFAULT);
    for size in PAGE_SIZES {
        for backward in [false, true] {
            open.settle();
            let mut start = Batch::new();
            let mut keys: BTreeSet<Bytes> = (0..60).map(|_| generate::key(&mut rng)).collect();
            for key in &keys {
                start.put(T, key.clone(), "");
            }
            open.store.try_submit(start).unwrap();
            keys.retain(|_| rng.percent(50));
            let stay = keys;
            let mut seen = BTreeMap::new();
            let mut scan = Scan::all(T, size);
            if backward {
                scan = scan.reversed();
            }
            let mut last: Option<Bytes> = None;
            loop {
                let page = open.store.scan(&scan).unwrap().value;
                for (key, _) in &page.rows {
                    let in_order = last.as_ref().is_none_or(|last| (key > last) != backward);
                    assert!(in_order && last.as_ref() != Some(key), "{} again", brief(key));
                    *seen.entry(key.clone()).or_insert(0) += 1;
                    last = Some(key.clone());
                }
                let Some(key) = last.clone().filter(|_| page.more) else { break };
                scan = scan.after(key);
                let mut others = Batch::new();
                let some: Vec<_> = (0..8).map(|_| generate::key(&mut rng)).collect();
                for key in some.into_iter().chain(last.clone()) {
                    if !stay.contains(&key) {
                        match rng.percent(50) {
                            true => others.put(T, key, "other"),
                            false => others.delete(T, key),
                        };
                    }
                }
                open.store.try_submit(others).unwrap();
                open.gate.hold(*rng.pick(&[Hold::Before, Hold::After, Hold::Nowhere]));
            }
            for key in &stay {
                assert_eq!(seen.get(key), Some(&1), "{} with pages of {size}", brief(key));
            }
        }
    }
}
