//! Random operations against the model.

use indelible_store::{Bounds, Position, Snapshot, SubmitError};

use crate::compare::{assert_same, assert_same_page, brief, dump, dump_backend};
use crate::gate::{Gated, Hold};
use crate::generate::{self, TABLES};
use crate::model::{Model, State};
use crate::{Rng, Subject};

const OPERATIONS: usize = 400;

/// While a commit is held, no more batches than this pile up behind it: far from any bound.
const BEHIND_MAX: usize = 50;

/// Under any operations in any order, a store agrees with an obviously correct model: in what it
/// accepts and refuses, what it shows and at which position, now and in earlier snapshots, with
/// commits held before or after the backend made them, and after it was closed and opened again.
pub fn random_operations(subject: &mut dyn Subject, mut rng: Rng) {
    let mut run = Run::new(subject, &mut rng);
    for operation in 0..OPERATIONS {
        let context = |what: &str| format!("operation {operation}, {what}");
        match rng.below(100) {
            0..40 => run.submit(&mut rng, &context("batch")),
            40..55 => run.get(&mut rng, &context("get")),
            55..80 => run.scan(&mut rng, &context("scan")),
            80..85 => run.take_snapshot(&mut rng),
            85..93 => run.hold(&mut rng),
            93..97 => run.settle(&mut rng, &context("settled")),
            97 => run.reclaim(&mut rng),
            98 => run.check_all(&context("everything")),
            _ => run = run.reopen(subject, &mut rng, &context("reopened")),
        }
    }
    run.reopen(subject, &mut rng, "at the end");
}

struct Run {
    model: Model,
    bounds: Bounds,
    snapshots: Vec<(Snapshot, State)>,
    hold: Hold,
    /// How many batches were accepted while a commit is held.
    behind: usize,
    /// Declared last: a snapshot keeps the backend open.
    open: Gated,
}

impl Run {
    fn new(subject: &mut dyn Subject, rng: &mut Rng) -> Self {
        Self::over(subject, rng, Model::default())
    }

    fn over(subject: &mut dyn Subject, rng: &mut Rng, model: Model) -> Self {
        let scan_bytes_max = *rng.pick(&[0, 1, 8, 100, 4096, Bounds::DEFAULT.scan_bytes_max]);
        let bounds = Bounds { scan_bytes_max, ..Bounds::DEFAULT };
        let open = Gated::open(subject, &TABLES, bounds);
        Self { model, bounds, snapshots: Vec::new(), hold: Hold::Nowhere, behind: 0, open }
    }

    fn submit(&mut self, rng: &mut Rng, context: &str) {
        let batch = generate::batch(rng, self.model.now());
        let unmet = self.model.now().unmet(batch.conditions());
        let result = match rng.percent(50) {
            true => self.open.store.try_submit(batch.clone()),
            false => self.open.store.submit_blocking(batch.clone()),
        };
        match (unmet, result) {
            (None, Ok(position)) => {
                assert_eq!(position, self.model.accept_batch(&batch), "{context}");
                if self.hold != Hold::Nowhere {
                    self.open.gate.wait_until_held();
                    self.behind += 1;
                }
                if self.behind > BEHIND_MAX {
                    self.set_hold(Hold::Nowhere);
                }
            }
            (Some((index, found)), Err(SubmitError::Refused(refusal))) => {
                assert_eq!(refusal.index, index, "{context}");
                assert_eq!(refusal.condition, batch.conditions()[index], "{context}");
                assert!(refusal.found == found, "{context}: what was found is not what is there");
                assert_eq!(refusal.position, self.model.position(), "{context}");
            }
            (unmet, result) => {
                let unmet = unmet.map(|(index, _)| index);
                panic!("{context}: unmet is precondition {unmet:?}, and the store says {result:?}")
            }
        }
    }

    fn get(&mut self, rng: &mut Rng, context: &str) {
        let (table, key) = (*rng.pick(&TABLES), generate::key(rng));
        let (seen, expected, position) = match self.pick_snapshot(rng) {
            Some((snapshot, state)) => {
                let seen = snapshot.get(table, &key).unwrap();
                (seen, state.get(table, &key), snapshot.position())
            }
            None => {
                let seen = self.open.store.get(table, &key).unwrap();
                (seen, self.model.now().get(table, &key), self.model.position())
            }
        };
        assert!(seen.value == expected, "{context} of {} {}", table.name(), brief(&key));
        assert_eq!(seen.position, position, "{context}");
    }

    fn scan(&mut self, rng: &mut Rng, context: &str) {
        let (scan, keys) = generate::scan(rng, self.model.now());
        let (seen, state, position) = match self.pick_snapshot(rng) {
            Some((snapshot, state)) => (snapshot.scan(&scan).unwrap(), state, snapshot.position()),
            None => {
                let seen = self.open.store.scan(&scan).unwrap();
                (seen, self.model.now(), self.model.position())
            }
        };
        let expected = state.page(&keys, &scan, &self.bounds);
        let what = || format!("{context}: {}", generate::words(&scan, &keys));
        assert_same_page(&seen.value, &expected, what);
        assert_eq!(seen.position, position, "{context}");
    }

    fn pick_snapshot(&self, rng: &mut Rng) -> Option<&(Snapshot, State)> {
        (!self.snapshots.is_empty() && rng.percent(40)).then(|| rng.pick(&self.snapshots))
    }

    fn take_snapshot(&mut self, rng: &mut Rng) {
        if self.snapshots.len() >= 4 {
            let gone = rng.below(self.snapshots.len());
            self.snapshots.swap_remove(gone);
        }
        let snapshot = self.open.store.snapshot().unwrap();
        assert_eq!(snapshot.position(), self.model.position());
        self.snapshots.push((snapshot, self.model.now().clone()));
    }

    fn hold(&mut self, rng: &mut Rng) {
        self.set_hold(*rng.pick(&[Hold::Before, Hold::After, Hold::Nowhere]));
    }

    fn set_hold(&mut self, hold: Hold) {
        self.hold = hold;
        self.open.gate.hold(hold);
        self.behind = 0;
    }

    /// Makes everything durable: then the backend alone agrees with the model.
    fn settle(&mut self, rng: &mut Rng, context: &str) {
        self.set_hold(Hold::Nowhere);
        let last = self.model.position();
        let earlier = Position::new(rng.number() % (last.number() + 1));
        self.open.store.durable(earlier).wait().unwrap();
        assert!(self.open.store.durable_now() >= earlier, "{context}");
        self.open.settle();
        assert_eq!(self.open.store.durable_now(), last, "{context}");
        let backend = self.open.gate.rows_of(&self.open.store);
        assert_same(&dump_backend(&*backend, &TABLES), self.model.now(), context);
    }

    fn reclaim(&mut self, rng: &mut Rng) {
        self.open.store.reclaim(*rng.pick(&TABLES)).unwrap();
    }

    fn check_all(&self, context: &str) {
        assert_eq!(self.open.store.accepted(), self.model.position(), "{context}");
        assert_same(&dump(&self.open.store, &TABLES), self.model.now(), context);
        for (snapshot, state) in &self.snapshots {
            assert_same(&dump(snapshot, &TABLES), state, context);
        }
    }

    fn reopen(mut self, subject: &mut dyn Subject, rng: &mut Rng, context: &str) -> Self {
        self.check_all(context);
        self.snapshots.clear();
        match rng.percent(50) {
            true => self.open.close(),
            false => drop(self.open),
        }
        let run = Self::over(subject, rng, self.model);
        assert_eq!(run.open.store.durable_now(), run.model.position(), "{context}");
        run.check_all(context);
        run
    }
}
