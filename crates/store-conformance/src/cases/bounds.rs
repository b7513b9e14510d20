//! Bounds at their edges.

use indelible_store::{
    Batch, Bound, Bounds, Expect, OutOfBounds, ReadError, Scan, SubmitError, Table,
};

use crate::compare::{assert_same, dump};
use crate::gate::{Gated, Hold};
use crate::generate::TABLES;
use crate::model::Model;
use crate::{Rng, Subject};

const T: Table = TABLES[0];

/// Exactly as much as a bound says is accepted; one more is refused by the name of the bound with
/// both numbers, and nothing has changed.
pub fn bounds_hold_at_their_edges(subject: &mut dyn Subject, mut rng: Rng) {
    let bounds = Bounds {
        key_bytes_max: 20,
        value_bytes_max: 100,
        batch_writes_max: 4,
        batch_conditions_max: 3,
        batch_bytes_max: 200,
        scan_rows_max: 5,
        ..Bounds::DEFAULT
    };
    let open = Gated::open(subject, &TABLES, bounds);
    let mut model = Model::default();
    let writes = |count: usize| {
        let mut batch = Batch::new();
        (0..count).for_each(|i| _ = batch.put(T, vec![i as u8], "x").delete(T, vec![i as u8]));
        batch
    };
    let conditions = |count: usize| {
        let mut batch = Batch::new();
        (0..count).for_each(|_| _ = batch.expect(T, "never", Expect::Absent));
        batch
    };
    let mut one = |fill: &mut dyn FnMut(&mut Batch, &mut Rng)| {
        let mut batch = Batch::new();
        fill(&mut batch, &mut rng);
        batch
    };
    let edges = [
        (Bound::KeyBytes, 20, one(&mut |b, rng| _ = b.put(T, rng.bytes(20), "x"))),
        (Bound::KeyBytes, 21, one(&mut |b, rng| _ = b.put(T, rng.bytes(21), "x"))),
        (Bound::KeyBytes, 20, one(&mut |b, rng| _ = b.delete(T, rng.bytes(20)))),
        (Bound::KeyBytes, 21, one(&mut |b, rng| _ = b.delete(T, rng.bytes(21)))),
        (Bound::KeyBytes, 20, one(&mut |b, rng| _ = b.expect(T, rng.bytes(20), Expect::Absent))),
        (Bound::KeyBytes, 21, one(&mut |b, rng| _ = b.expect(T, rng.bytes(21), Expect::Absent))),
        (Bound::ValueBytes, 100, one(&mut |b, rng| _ = b.put(T, "v", rng.bytes(100)))),
        (Bound::ValueBytes, 101, one(&mut |b, rng| _ = b.put(T, "v", rng.bytes(101)))),
        (Bound::BatchWrites, 4, writes(2)),
        (Bound::BatchWrites, 5, one(&mut |b, _| _ = b.extend(writes(2)).put(T, "fifth", "x"))),
        (Bound::BatchConditions, 3, conditions(3)),
        (Bound::BatchConditions, 4, conditions(4)),
        (Bound::BatchBytes, 200, two_values(99)),
        (Bound::BatchBytes, 201, one(&mut |b, _| _ = b.extend(two_values(99)).delete(T, "y"))),
    ];
    let max = |bound| match bound {
        Bound::KeyBytes => 20,
        Bound::ValueBytes => 100,
        Bound::BatchWrites => 4,
        Bound::BatchConditions => 3,
        Bound::BatchBytes => 200,
        other => panic!("{other:?} has no edge here"),
    };
    for (bound, got, batch) in edges {
        let max = max(bound);
        let result = open.store.try_submit(batch.clone());
        if got <= max {
            assert_eq!(result.unwrap(), model.accept_batch(&batch), "{bound:?} {got}");
        } else {
            let Err(SubmitError::OutOfBounds(error)) = result else {
                panic!("{bound:?} {got}: {result:?}")
            };
            assert_eq!(error, OutOfBounds { bound, got, max });
        }
        assert_eq!(open.store.accepted(), model.position(), "{bound:?} {got}");
        assert_same(&dump_few(&open), model.now(), &format!("{bound:?} {got}"));
    }
    let refused = open.store.scan(&Scan::all(T, 6));
    let Err(ReadError::OutOfBounds(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error, OutOfBounds { bound: Bound::ScanRows, got: 6, max: 5 });
    open.settle();
    assert_same(&dump_few(&open), model.now(), "settled");
}

fn two_values(len: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(T, "1", vec![1; len]).put(T, "2", vec![2; len]);
    batch
}

/// All rows, in pages that these small bounds allow.
fn dump_few(open: &Gated) -> crate::model::State {
    let mut state = crate::model::State::default();
    let mut scan = Scan::all(T, 5);
    loop {
        let page = open.store.scan(&scan).unwrap().value;
        let last = page.rows.last().map(|(key, _)| key.clone());
        page.rows.into_iter().for_each(|(key, value)| state.insert(T, key, value));
        match last {
            Some(last) if page.more => scan = scan.after(last),
            _ => return state,
        }
    }
}

/// While the disk is busy, exactly as many batches wait as the bounds allow, by number and by
/// bytes, and the next one is refused; once the disk has caught up there is as much room as before.
pub fn waiting_is_bounded_at_its_edges(subject: &mut dyn Subject, _rng: Rng) {
    const KIB: usize = 1024;
    // By number: no bytes to speak of, and a number that divides nothing evenly.
    for (batches, bytes) in [(1, 1000), (3, 1000), (300, 1000), (600, 1000), (512, 64 * KIB)] {
        waiting(subject, batches, bytes * KIB, 0, batches);
    }
    // By bytes: to the byte where the number divides them, and the largest batch in any case.
    waiting(subject, 512, 64 * KIB, 16 * KIB, 4);
    waiting(subject, 512, 64 * KIB, 16 * KIB + 1, 3);
    waiting(subject, 512, 64 * KIB, 64 * KIB, 1);
    waiting(subject, 7, 64 * KIB, 64 * KIB, 1);
    waiting(subject, 7, 64 * KIB, 30 * KIB, 2);
}

fn waiting(subject: &mut dyn Subject, batches: usize, bytes: usize, each: usize, fit: usize) {
    let bounds = Bounds {
        waiting_batches_max: batches,
        waiting_bytes_max: bytes,
        batch_bytes_max: bytes.min(Bounds::DEFAULT.batch_bytes_max),
        value_bytes_max: bytes.min(Bounds::DEFAULT.value_bytes_max),
        ..Bounds::DEFAULT
    };
    let open = Gated::open(subject, &TABLES, bounds);
    let mut batch = Batch::new();
    batch.put(T, "k", vec![7; each.saturating_sub(1)]);
    for round in 0..2 {
        open.gate.hold(Hold::Before);
        open.store.try_submit(batch.clone()).unwrap();
        open.gate.wait_until_held();
        let what = format!("round {round} of {fit} with {each} bytes, {batches} in {bytes}");
        for i in 0..fit {
            let result = open.store.try_submit(batch.clone());
            assert!(result.is_ok(), "{what}: {i} wait, and it says {result:?}");
        }
        let accepted = open.store.accepted();
        let full = open.store.try_submit(batch.clone());
        let Err(SubmitError::Full { waiting }) = full else { panic!("{what}: {full:?}") };
        assert_eq!(waiting, fit, "{what}");
        assert_eq!(open.store.accepted(), accepted, "{what}");
        open.settle();
        assert_eq!(open.store.accepted(), accepted, "{what}: a refused batch came through");
    }
    open.close();
}

/// The backend itself holds what the default bounds allow, also after it was opened again: the
/// longest keys, the most bytes and the most writes in a batch.
pub fn the_largest_batches_go_through(subject: &mut dyn Subject, mut rng: Rng) {
    let bounds = Bounds::DEFAULT;
    let open = Gated::open(subject, &TABLES, bounds);
    let mut model = Model::default();
    let mut bytes = Batch::new();
    let key = rng.bytes(bounds.key_bytes_max);
    bytes.put(T, key.clone(), rng.bytes(bounds.batch_bytes_max - key.len()));
    let mut writes = Batch::new();
    for number in 0..bounds.batch_writes_max {
        writes.put(TABLES[1], format!("{number:06}"), "x");
    }
    let mut conditions = Batch::new();
    for number in 0..bounds.batch_conditions_max {
        conditions.expect(TABLES[1], format!("{number:06}"), Expect::Equal("x".into()));
    }
    for batch in [bytes, writes, conditions] {
        assert_eq!(open.store.submit_blocking(batch.clone()).unwrap(), model.accept_batch(&batch));
    }
    open.settle();
    open.close();
    let open = Gated::open(subject, &TABLES, bounds);
    assert_same(&dump(&open.store, &TABLES), model.now(), "opened again");
}
