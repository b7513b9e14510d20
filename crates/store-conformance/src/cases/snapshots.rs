//! Snapshots and point reads while others write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use indelible_store::{Batch, Bounds, Expect, Position, Store, SubmitError, Table, Write};

use crate::compare::{assert_same, dump, dump_backend};
use crate::gate::{Gated, Hold};
use crate::generate::TABLES;
use crate::model::{Model, State};
use crate::{Rng, Subject};

const ACCOUNTS: [Table; 2] = [TABLES[0], TABLES[1]];
const RECEIPTS: Table = TABLES[2];
const ACCOUNTS_PER_TABLE: usize = 4;
const OPENING: u64 = 1000;
const WRITERS: usize = 3;
const TRANSFERS: usize = 120;

/// While writers move money between accounts of two tables, each snapshot has the same sum, and
/// is exactly the state at the position it says; a point read shows what the key was at its
/// position or became before the read ended. Positions are given once each, without a gap.
pub fn snapshots_show_one_position_each(subject: &mut dyn Subject, mut rng: Rng) {
    let open = Gated::open(subject, &TABLES, Bounds::DEFAULT);
    let store = &open.store;
    let mut accounts = Batch::new();
    for (table, key) in all_accounts() {
        accounts.put(table, key, money(OPENING));
    }
    let mut log = vec![(store.try_submit(accounts.clone()).unwrap(), accounts.writes().to_vec())];
    let writing = AtomicBool::new(true);
    let (snapshots, gets) = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| (writer, rng.fork()))
            .map(|(writer, rng)| scope.spawn(move || transfer(store, writer, rng)))
            .collect();
        let snapshots = scope.spawn(|| take_snapshots(store, &writing));
        let gets = rng.fork();
        let gets = scope.spawn(|| get_accounts(store, gets, &writing));
        let logs: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        writing.store(false, Ordering::Release);
        for writer in logs {
            log.extend(rethrown(writer));
        }
        (rethrown(snapshots.join()), rethrown(gets.join()))
    });
    let model = Model::of_log(log);
    assert_eq!(store.accepted(), model.position());
    assert!(snapshots.is_sorted_by_key(|(position, _)| position), "a later one shows less");
    let positions = snapshots.iter().map(|(position, _)| *position);
    for (expected, (position, got)) in model.states(positions).zip(&snapshots) {
        assert_same(got, &expected, &format!("the snapshot at {position}"));
    }
    for get in &gets {
        get.check(&model);
    }
    open.settle();
    assert_same(&dump(store, &TABLES), model.now(), "at the end");
}

type Log = Vec<(Position, Vec<Write>)>;

/// The result of a thread; its panic goes on here.
fn rethrown<T>(joined: thread::Result<T>) -> T {
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn all_accounts() -> impl Iterator<Item = (Table, Bytes)> {
    let numbers = 0..ACCOUNTS_PER_TABLE;
    ACCOUNTS.into_iter().flat_map(move |table| {
        numbers.clone().map(move |number| (table, Bytes::from(format!("account {number}"))))
    })
}

fn money(amount: u64) -> Bytes {
    Bytes::copy_from_slice(&amount.to_be_bytes())
}

fn amount(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}

/// Moves money a fixed number of times. A transfer that loses a race reads again.
fn transfer(store: &Store, writer: usize, mut rng: Rng) -> Log {
    let accounts: Vec<_> = all_accounts().collect();
    let mut log = Log::new();
    while log.len() < TRANSFERS {
        let (from, to) = (rng.pick(&accounts), rng.pick(&accounts));
        if from == to {
            continue;
        }
        let snapshot = store.snapshot().unwrap();
        let balance = |(table, key): &(Table, Bytes)| {
            snapshot.get(*table, key).unwrap().value.expect("accounts stay")
        };
        let (from_had, to_had) = (balance(from), balance(to));
        let sent = rng.number() % (amount(&from_had) + 1);
        let receipt = |number: usize| format!("receipt {writer} {number}");
        let mut batch = Batch::new();
        batch
            .expect(from.0, from.1.clone(), Expect::Equal(from_had.clone()))
            .expect(to.0, to.1.clone(), Expect::Equal(to_had.clone()))
            .put(from.0, from.1.clone(), money(amount(&from_had) - sent))
            .put(to.0, to.1.clone(), money(amount(&to_had) + sent))
            .put(RECEIPTS, receipt(log.len()), "paid");
        if let Some(old) = log.len().checked_sub(3) {
            batch.delete(RECEIPTS, receipt(old));
        }
        match store.submit_blocking(batch.clone()) {
            Ok(position) => log.push((position, batch.writes().to_vec())),
            Err(SubmitError::Refused(refusal)) => {
                let expected = [from_had, to_had][refusal.index].clone();
                assert_ne!(refusal.found, Some(expected), "refused for what it demanded");
                assert!(refusal.position > snapshot.position(), "nothing changed since");
            }
            Err(error) => panic!("{error}"),
        }
        // Now and then the disk catches up, so that reads meet all mixtures of the layers.
        if rng.percent(10) {
            store.durable(store.accepted()).wait().unwrap();
        }
    }
    log
}

fn take_snapshots(store: &Store, writing: &AtomicBool) -> Vec<(Position, State)> {
    let mut taken = Vec::new();
    while writing.load(Ordering::Acquire) || taken.is_empty() {
        let snapshot = store.snapshot().unwrap();
        let state = dump(&snapshot, &TABLES);
        let all = ACCOUNTS.into_iter().flat_map(|table| state.rows(table));
        let sum: u64 = all.map(|(_, value)| amount(value)).sum();
        let expected = OPENING * all_accounts().count() as u64;
        assert_eq!(sum, expected, "a torn snapshot at {}", snapshot.position());
        taken.push((snapshot.position(), state));
    }
    taken
}

/// A point read, and the position accepted when it had ended.
struct Get {
    account: (Table, Bytes),
    value: Option<Bytes>,
    position: Position,
    ended: Position,
}

impl Get {
    fn check(&self, model: &Model) {
        let (table, key) = &self.account;
        let [said, ended] = [self.position, self.ended].map(|p| p.number() as usize);
        let before = model.states([self.position]).next().unwrap().get(*table, key);
        let later = model.accepted()[said..ended].iter().flatten();
        let later = later.filter(|write| write.table == *table && write.key == key);
        let mut possible = std::iter::once(&before).chain(later.map(|write| &write.value));
        assert!(possible.any(|value| *value == self.value), "a get at {said}, ended at {ended}");
    }
}

fn get_accounts(store: &Store, mut rng: Rng, writing: &AtomicBool) -> Vec<Get> {
    let accounts: Vec<_> = all_accounts().collect();
    let mut gets = Vec::new();
    while writing.load(Ordering::Acquire) && gets.len() < 1000 {
        let account = rng.pick(&accounts).clone();
        let seen = store.get(account.0, &account.1).unwrap();
        let (value, position) = (seen.value, seen.position);
        gets.push(Get { account, value, position, ended: store.accepted() });
    }
    gets
}

/// A snapshot shows the same for as long as it is held, of the store and of the backend, while
/// thousands of batches overwrite and delete everything in it and the backend cleans up.
pub fn a_long_lived_snapshot_stays_as_it_is(subject: &mut dyn Subject, mut rng: Rng) {
    const ROUNDS: usize = 6;
    const BATCHES: usize = 300;
    let open = Gated::open(subject, &TABLES, Bounds::DEFAULT);
    let mut model = Model::default();
    let mut submit = |batch: &Batch| {
        assert_eq!(open.store.submit_blocking(batch.clone()).unwrap(), model.accept_batch(batch));
        model.now().clone()
    };
    // Half of the batches in the backend, then some on their way, then some that wait.
    (0..150).for_each(|_| _ = submit(&churn(&mut rng)));
    open.settle();
    let rows = || open.gate.rows_of(&open.store);
    let backend = (rows(), dump_backend(&*rows(), &TABLES));
    open.gate.hold(Hold::Before);
    submit(&churn(&mut rng));
    open.gate.wait_until_held();
    let before = submit(&churn(&mut rng));
    let snapshot = open.store.snapshot().unwrap();
    let position = snapshot.position();
    for round in 0..ROUNDS {
        let what = format!("round {round}");
        assert_same(&dump(&snapshot, &TABLES), &before, &what);
        assert_same(&dump_backend(&*backend.0, &TABLES), &backend.1, &what);
        (0..BATCHES / 10).for_each(|_| _ = submit(&churn(&mut rng)));
        assert_same(&dump(&snapshot, &TABLES), &before, &what);
        open.gate.hold(Hold::Nowhere);
        (0..BATCHES).for_each(|_| _ = submit(&churn(&mut rng)));
        open.settle();
        open.store.reclaim(*rng.pick(&TABLES)).unwrap();
        open.gate.hold(Hold::After);
        submit(&churn(&mut rng));
        open.gate.wait_until_held();
    }
    assert_eq!(snapshot.position(), position);
    assert_same(&dump(&snapshot, &TABLES), &before, "at the end");
    assert_same(&dump_backend(&*backend.0, &TABLES), &backend.1, "at the end");
    open.settle();
    assert_same(&dump(&open.store, &TABLES), model.now(), "what is there now");
}

/// Overwrites and deletes some of a few hundred rows.
fn churn(rng: &mut Rng) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..3 {
        let (table, key) = (*rng.pick(&TABLES), format!("row {}", rng.below(150)));
        match rng.percent(70) {
            true => {
                let len = rng.below(600);
                batch.put(table, key, rng.bytes(len))
            }
            false => batch.delete(table, key),
        };
    }
    batch
}
