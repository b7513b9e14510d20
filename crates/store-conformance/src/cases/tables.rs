//! Tables that are unknown, new, left out or renumbered.

use indelible_store::{
    Batch, Bounds, Expect, Position, ReadError, Scan, Shape, SubmitError, Table,
};

use crate::compare::{assert_same, dump};
use crate::gate::Gated;
use crate::model::Model;
use crate::{Rng, Subject};

const KEPT: Table = Table::new(1, "kept", Shape::Kept);
const CHURNING: Table = Table::new(2, "churning", Shape::Churn);

/// A table that a store was opened without is refused by name, for reads and writes; the store's
/// own table is refused for writes. Nothing has changed. A table is known by its name: another
/// table with a known number is unknown, too.
pub fn unknown_tables_are_refused(subject: &mut dyn Subject, _rng: Rng) {
    let open = Gated::open(subject, &[KEPT, CHURNING], Bounds::DEFAULT);
    let mut known = Batch::new();
    known.put(KEPT, "k", "v");
    let mut model = Model::default();
    assert_eq!(open.store.try_submit(known.clone()).unwrap(), model.accept_batch(&known));

    let own = Table::new(0, "pipeline", Shape::Kept);
    let higher = Table::new(63, "higher", Shape::Kept);
    let between = Table::new(0, "between", Shape::Kept);
    let renamed = Table::new(1, "renamed", Shape::Kept);
    for table in [own, higher, between, renamed] {
        let mut put = known.clone();
        put.put(table, "k", "w").put(KEPT, "k", "w");
        let mut delete = Batch::new();
        delete.put(KEPT, "k", "w").delete(table, "k");
        let mut expect = Batch::new();
        expect.expect(table, "k", Expect::Absent).put(KEPT, "k", "w");
        for batch in [put, delete, expect] {
            let refused = open.store.try_submit(batch);
            let Err(SubmitError::UnknownTable(name)) = refused else {
                panic!("{table:?}: {refused:?}")
            };
            assert_eq!(name, table.name());
        }
        if table == own {
            continue;
        }
        let snapshot = open.store.snapshot().unwrap();
        let name = table.name();
        let unknown = |error: ReadError| matches!(error, ReadError::UnknownTable(n) if n == name);
        assert!(unknown(open.store.get(table, b"k").unwrap_err()), "{table:?}");
        assert!(unknown(snapshot.get(table, b"k").unwrap_err()), "{table:?}");
        assert!(unknown(open.store.scan(&Scan::all(table, 1)).unwrap_err()), "{table:?}");
        assert!(unknown(snapshot.scan(&Scan::all(table, 0)).unwrap_err()), "{table:?}");
        assert!(unknown(open.store.reclaim(table).unwrap_err()), "{table:?}");
        assert_eq!(open.store.disk_bytes(table), 0, "{table:?}");
    }
    assert_eq!(open.store.accepted(), Position::new(1));
    assert_same(&dump(&open.store, &[KEPT, CHURNING]), model.now(), "after the refusals");
    open.close();
}

/// A table that is new when a store is opened again starts empty, and the others keep their rows;
/// one that is left out comes back with its rows when it is listed again, also under another
/// number: the name is the table.
pub fn tables_come_and_go(subject: &mut dyn Subject, _rng: Rng) {
    let added = Table::new(5, "added", Shape::Large);
    let kept_elsewhere = Table::new(5, "kept", Shape::Kept);
    let churning_elsewhere = Table::new(1, "churning", Shape::Churn);
    let added_elsewhere = Table::new(40, "added", Shape::Large);
    let lists: [&[Table]; 6] = [
        &[KEPT, CHURNING],
        &[KEPT, CHURNING, added],
        &[CHURNING],
        &[],
        // Each number now belongs to another table.
        &[added_elsewhere, kept_elsewhere, churning_elsewhere],
        &[KEPT, CHURNING, added],
    ];
    let mut model = Model::default();
    for (opened, tables) in lists.into_iter().enumerate() {
        let open = Gated::open(subject, tables, Bounds::DEFAULT);
        assert_eq!(open.store.durable_now(), model.position(), "opened {opened} times before");
        for table in tables {
            let got = dump(&open.store, &[*table]);
            let expected: Vec<_> = model.now().rows(*table).collect();
            let got: Vec<_> = got.rows(*table).collect();
            assert_eq!(got, expected, "{table:?}, opened {opened} times before");
        }
        // An empty batch still has a position to keep.
        let mut batch = Batch::new();
        for table in tables {
            let words = format!("{} {opened}", table.name());
            batch.put(*table, "overwritten", words.clone()).put(*table, words, "stays");
        }
        assert_eq!(open.store.try_submit(batch.clone()).unwrap(), model.accept_batch(&batch));
        open.close();
    }
}
