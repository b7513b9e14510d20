//! Many clients on the same keys while connections are killed, handlers are dropped half-way and
//! the server crashes: each key's effect is there exactly once, and all clients are told the same.
//!
//! `INDELIBLE_SEEDS=20` runs so many seeds instead of one; `INDELIBLE_SEED=7` the one.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::print_stdout, reason = "how much happened is said in a test's output")]

mod abandon;
mod base;
mod ledger;
mod numbers;
mod one;
mod postgres;
mod run;
mod seeds;
mod sqlite;
mod two;

use std::future::pending;
use std::rc::Rc;

use crate::chaos::base::Base;
use crate::chaos::ledger::Counts;
use crate::chaos::postgres::{Postgres, READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE};
use crate::chaos::run::{Run, Size};
use crate::chaos::seeds::for_each_seed;
use crate::chaos::sqlite::{DEFERRED, IMMEDIATE, Sqlite};
use crate::chaos::two::Forgotten;

const SIZE: Size = Size { tasks: 64, keys: 1_000, trouble_every: 100 };

/// In two transactions each key is begun, lost and taken over a few times.
const SIZE_TWO: Size = Size { tasks: 32, keys: 200, trouble_every: 100 };

/// How many connections are killed at a time.
const KILLED: i64 = 2;

/// Kills connections now and then.
async fn killing(run: &Run<Postgres>) {
    let mut admin = run.base.admin().await;
    loop {
        run.trouble_due().await;
        run.base.kill(&mut admin, KILLED).await;
    }
}

/// Crashes the server now and then.
async fn crashing(run: &Run<Postgres>) {
    loop {
        run.trouble_due().await;
        run.base.crash().await;
        run.count(|counts| counts.crashes += 1);
    }
}

/// Everything that a load is for has happened.
fn assert_eventful(counts: &Counts) {
    assert!(counts.acknowledged > 0 && counts.replayed > 0, "{counts:?}");
    assert!(counts.mismatched > 0 && counts.abandoned > 0, "{counts:?}");
}

async fn killed_in_one_transaction(opening: &'static str, seed: u64) {
    let run = Run::new(Postgres::shared(opening), seed, SIZE);
    let counts = run.finish(SIZE.tasks, one::task, killing(&run)).await;
    assert_eventful(&counts);
    assert!(counts.connections_lost > 0 && counts.lost_acknowledged > 0, "{counts:?}");
    run.verify().await;
}

/// I-13, I-11, I-14: 64 tasks over 1,000 keys with connections killed at random: each effect is
/// there once, losers' transactions stay usable, and no task sees a deadlock. At READ COMMITTED.
#[test]
fn killed_connections_at_read_committed() {
    for_each_seed(|seed| killed_in_one_transaction(READ_COMMITTED, seed));
}

/// I-13, I-11, I-14: the same at REPEATABLE READ.
#[test]
fn killed_connections_at_repeatable_read() {
    for_each_seed(|seed| killed_in_one_transaction(REPEATABLE_READ, seed));
}

/// I-13, I-11, I-14: the same at SERIALIZABLE.
#[test]
fn killed_connections_at_serializable() {
    for_each_seed(|seed| killed_in_one_transaction(SERIALIZABLE, seed));
}

/// I-11: crashes of the server in the middle of the load lose and double nothing.
#[test]
fn a_server_that_crashes() {
    for_each_seed(async |seed| {
        let size = Size { trouble_every: 6_000, ..SIZE };
        let run = Run::new(Postgres::alone(READ_COMMITTED), seed, size);
        let counts = run.finish(size.tasks, one::task, crashing(&run)).await;
        assert_eventful(&counts);
        assert!(counts.connections_lost > 0 && counts.crashes >= 3, "{counts:?}");
        run.verify().await;
    });
}

async fn sqlite_in_one_transaction(opening: &'static str, seed: u64) -> Counts {
    let run = Run::new(Sqlite::new(opening).await, seed, SIZE);
    let counts = run.finish(SIZE.tasks, one::task, pending()).await;
    assert_eventful(&counts);
    run.verify().await;
    counts
}

/// I-13, I-11, I-14: the same on SQLite, where writers queue; connections are dropped at random.
#[test]
fn dropped_connections_on_sqlite() {
    for_each_seed(async |seed| {
        sqlite_in_one_transaction(IMMEDIATE, seed).await;
    });
}

/// I-13, I-11, I-14: the same with a plain `BEGIN`, where writers collide.
#[test]
fn dropped_connections_on_sqlite_with_a_plain_begin() {
    for_each_seed(async |seed| {
        let counts = sqlite_in_one_transaction(DEFERRED, seed).await;
        assert!(counts.collisions > 0, "{counts:?}");
    });
}

async fn in_two_transactions<B: Base>(run: &Rc<Run<B>>, trouble: impl Future<Output = ()>) {
    let forgotten = Rc::new(Forgotten::default());
    let task = |run, number| two::task(run, Rc::clone(&forgotten), number);
    let counts = run.finish(SIZE_TWO.tasks, task, trouble).await;
    assert_eventful(&counts);
    assert!(counts.forgotten > 0 && counts.refused > 0, "{counts:?}");
    assert!(counts.lost_acknowledged > 0, "{counts:?}");
    two::refuse_the_late(run, &forgotten).await;
    run.verify().await;
}

async fn killed_in_two_transactions(opening: &'static str, seed: u64) {
    let run = Run::new(Postgres::shared(opening), seed, SIZE_TWO);
    in_two_transactions(&run, killing(&run)).await;
}

/// C-34, I-13, I-28: owners are lost between two transactions and others take over: each effect is
/// there once, and an owner that comes late is refused. At READ COMMITTED.
#[test]
fn lost_owners_at_read_committed() {
    for_each_seed(|seed| killed_in_two_transactions(READ_COMMITTED, seed));
}

/// C-34, I-13, I-28: the same at REPEATABLE READ.
#[test]
fn lost_owners_at_repeatable_read() {
    for_each_seed(|seed| killed_in_two_transactions(REPEATABLE_READ, seed));
}

/// C-34, I-13, I-28: the same at SERIALIZABLE.
#[test]
fn lost_owners_at_serializable() {
    for_each_seed(|seed| killed_in_two_transactions(SERIALIZABLE, seed));
}

/// C-34, I-13, I-28: the same on SQLite.
#[test]
fn lost_owners_on_sqlite() {
    for opening in [IMMEDIATE, DEFERRED] {
        for_each_seed(async |seed| {
            let run = Run::new(Sqlite::new(opening).await, seed, SIZE_TWO);
            in_two_transactions(&run, pending()).await;
        });
    }
}
