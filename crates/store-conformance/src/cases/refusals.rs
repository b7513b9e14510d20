//! Refusals, one by one.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use indelible_store::backend::Backend as _;
use indelible_store::{Batch, Bounds, Expect, Refusal, Sequence, Store, SubmitError};

use crate::compare::{assert_same, dump};
use crate::gate::{Gated, Hold};
use crate::generate::TABLES;
use crate::model::Model;
use crate::{Rng, Subject};

const T: indelible_store::Table = TABLES[0];
const U: indelible_store::Table = TABLES[1];

/// A batch with an unmet precondition is refused with the index of the first unmet one, the value
/// found, and the position of the state that refused; nothing has changed, and its room is free
/// again. That holds wherever the row is: in the backend, on its way there, or waiting.
pub fn refusals_say_what_and_change_nothing(subject: &mut dyn Subject, mut rng: Rng) {
    let bounds = Bounds { waiting_batches_max: 8, ..Bounds::DEFAULT };
    let open = Gated::open(subject, &TABLES, bounds);
    let mut model = Model::default();
    let mut accept = |batch: &Batch| {
        assert_eq!(open.store.try_submit(batch.clone()).unwrap(), model.accept_batch(batch));
    };

    // Keys named after the layer where they were last written; each has another value in the layers
    // below.
    let names = ["backend", "closing", "open", "gone_in_closing", "gone_in_open"];
    let mut batch = Batch::new();
    for name in names {
        batch.put(T, name, "old");
    }
    batch.put(T, "backend", "backend value");
    accept(&batch);
    open.settle();
    let hold = *rng.pick(&[Hold::Before, Hold::After]);
    open.gate.hold(hold);
    let mut batch = Batch::new();
    batch.put(T, "closing", "closing value").delete(T, "gone_in_closing").put(T, "open", "older");
    accept(&batch);
    open.gate.wait_until_held();
    let mut batch = Batch::new();
    batch.put(T, "open", "open value").delete(T, "gone_in_open");
    accept(&batch);

    for name in names.into_iter().chain(["never"]) {
        let found = model.now().get(T, name.as_bytes());
        for expect in unmet_by(found.as_ref()) {
            for index in [0, 1, 7] {
                let mut batch = Batch::new();
                // First preconditions that are met, since they are about the state before the
                // batch; then two that are not.
                (0..index)
                    .for_each(|_| _ = batch.expect(T, "backend", Expect::Prefix("back".into())));
                batch.expect(T, name, expect.clone());
                batch.expect(T, "backend", Expect::Absent);
                batch
                    .put(T, name, "new")
                    .put(T, "backend", "new")
                    .delete(U, "x")
                    .put(U, "y", "new");
                let refusal = refused(&open.store, batch.clone());
                let condition = batch.conditions()[index].clone();
                let found = found.clone();
                let expected = Refusal { index, condition, found, position: model.position() };
                assert_eq!(refusal, expected, "on {name}, {hold:?}");
            }
        }
    }
    assert_eq!(open.store.accepted(), model.position());
    assert_same(&dump(&open.store, &TABLES), model.now(), "after the refusals");
    open.settle();
    assert_same(&dump(&open.store, &TABLES), model.now(), "after the refusals, settled");
    let room = (0..1000).map(|_| refused(&open.store, demanding_the_impossible()));
    assert_eq!(room.count(), 1000, "a refused batch gives its room back");
    open.close();
}

/// The state at acceptance decides. Case: a row is read from the backend, then changes, and the
/// change reaches the backend before the decision, so that no layer holds it any more. The decision
/// must not use the stale value, however often this happens.
pub fn a_stale_look_decides_nothing(subject: &mut dyn Subject, _rng: Rng) {
    let open = Gated::open(subject, &TABLES, Bounds::DEFAULT);
    let mut number = 0;
    let mut put = |batch: &mut Batch| {
        number += 1;
        batch.put(T, "k", format!("{number}"));
        Bytes::from(format!("{number}"))
    };
    let mut first = Batch::new();
    let mut now = put(&mut first);
    open.store.try_submit(first).unwrap();
    // At most three: after three reads the pipeline takes its lock for the next one.
    for changes in 0..=3 {
        for met in [true, false] {
            open.settle();
            let seen = now.clone();
            let mut batches: Vec<_> = (0..changes)
                .map(|_| {
                    let mut batch = Batch::new();
                    now = put(&mut batch);
                    (batch, now.clone())
                })
                .collect();
            let expected = if met { now.clone() } else { seen.clone() };
            batches.reverse();
            let current = Arc::new(Mutex::new(seen));
            for (batch, value) in batches {
                let (store, current) = (open.store.clone(), Arc::clone(&current));
                open.gate.after_get(move || {
                    let position = store.try_submit(batch).unwrap();
                    store.durable(position).wait().unwrap();
                    *current.lock().unwrap() = value;
                });
            }
            let mut batch = Batch::new();
            batch.expect(T, "k", Expect::Equal(expected.clone()));
            batch.put(U, "k", now.clone());
            let result = open.store.try_submit(batch);
            let unused = open.gate.forget_after_gets();
            let what =
                format!("{changes} changes, expected the {}", if met { "last" } else { "first" });
            // A change that a layer still holds is seen at once: no second read is needed.
            if open.gate.applied() == Sequence::MAX {
                assert_eq!(unused, 0, "{what}: not looked at often enough");
            }
            now = current.lock().unwrap().clone();
            match result {
                Ok(_) => assert_eq!(expected, now, "{what}: accepted over a stale look"),
                Err(SubmitError::Refused(refusal)) => {
                    assert_ne!(expected, now, "{what}: refused over a stale look");
                    assert_eq!(refusal.found.as_ref(), Some(&now), "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

/// Each kind of expectation that a key with this value does not meet, some only just.
fn unmet_by(found: Option<&Bytes>) -> Vec<Expect> {
    match found {
        None => vec![
            Expect::Equal("old".into()),
            Expect::Equal(Bytes::new()),
            Expect::Prefix("old".into()),
            Expect::Prefix(Bytes::new()),
        ],
        Some(value) => vec![
            Expect::Absent,
            Expect::Equal("old".into()),
            Expect::Equal(Bytes::new()),
            Expect::Equal(value.slice(1..)),
            Expect::Equal(value.slice(..value.len() - 1)),
            Expect::Prefix(value.slice(1..)),
            Expect::Prefix([value.as_ref(), b"!"].concat().into()),
        ],
    }
}

fn demanding_the_impossible() -> Batch {
    let mut batch = Batch::new();
    batch.expect(T, "backend", Expect::Absent).put(T, "backend", "new");
    batch
}

fn refused(store: &Store, batch: Batch) -> Refusal {
    match store.try_submit(batch) {
        Err(SubmitError::Refused(refusal)) => refusal,
        other => panic!("it should have been refused: {other:?}"),
    }
}
