//! A load: tasks over keys on one database, the trouble they are given, and the verdict.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use indelible_idempotency::store::RawIdempotencyStore;
use indelible_idempotency::{IdempotencyKey, Request, parse_key};
use sqlx::Connection as _;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use crate::chaos::base::{Base, Connection, Trouble, sql_trouble, store_trouble};
use crate::chaos::ledger::{Counts, Ledger, name};
use crate::chaos::numbers::Numbers;

/// How large a load is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) tasks: usize,
    pub(crate) keys: usize,
    /// One piece of trouble for so many transactions.
    pub(crate) trouble_every: u64,
}

/// A load on a database.
pub(crate) struct Run<B> {
    pub(crate) base: B,
    pub(crate) keys: Vec<Key>,
    seed: u64,
    ledger: RefCell<Ledger>,
    trouble_every: u64,
    visits: Cell<u64>,
    trouble_due: Notify,
}

/// A key, the request under it, and one that is not the one under it.
pub(crate) struct Key {
    pub(crate) key: IdempotencyKey,
    pub(crate) request: Request,
    pub(crate) other: Request,
}

impl<B: Base> Run<B> {
    pub(crate) fn new(base: B, seed: u64, size: Size) -> Rc<Self> {
        let namespace = base.factory().settings().namespace().clone();
        let key = |number| Key {
            key: parse_key(&namespace, Some(&name(number))).unwrap().unwrap(),
            request: Request::of(&(number, "this")).unwrap(),
            other: Request::of(&(number, "other")).unwrap(),
        };
        Rc::new(Self {
            keys: (0..size.keys).map(key).collect(),
            base,
            seed,
            ledger: RefCell::default(),
            trouble_every: size.trouble_every,
            visits: Cell::new(0),
            trouble_due: Notify::new(),
        })
    }

    pub(crate) fn ledger(&self) -> RefMut<'_, Ledger> {
        self.ledger.borrow_mut()
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.ledger().counts);
    }

    /// Numbers of a task's own.
    pub(crate) fn numbers(&self, task: usize) -> Numbers {
        Numbers::new(self.seed.wrapping_mul(1_000).wrapping_add(task as u64))
    }

    /// Says that another transaction begins: from time to time that brings trouble.
    pub(crate) fn visited(&self) {
        self.visits.set(self.visits.get() + 1);
        self.count(|counts| counts.visits += 1);
        if self.visits.get().is_multiple_of(self.trouble_every) {
            self.trouble_due.notify_one();
        }
    }

    /// Waits until there should be trouble.
    pub(crate) async fn trouble_due(&self) {
        self.trouble_due.notified().await;
    }

    /// A connection, however often it takes.
    pub(crate) async fn connect(&self) -> Connection<B> {
        loop {
            match self.base.connect().await {
                Ok(connection) => return connection,
                Err(error) => {
                    sql_trouble(&self.base, &error);
                }
            }
        }
    }

    pub(crate) async fn open<'c>(
        &self,
        connection: &'c mut Connection<B>,
    ) -> Result<sqlx::Transaction<'c, B::Db>, Trouble> {
        let opened = connection.begin_with(self.base.opening()).await;
        opened.map_err(|error| sql_trouble(&self.base, &error))
    }

    pub(crate) fn store<'c>(
        &'c self,
        connection: &'c mut Connection<B>,
    ) -> RawIdempotencyStore<'c, B::Client> {
        self.base.factory().in_connection(connection)
    }

    pub(crate) fn of_store<T>(
        &self,
        result: Result<T, indelible_idempotency::store::StoreError>,
    ) -> Result<T, Trouble> {
        result.map_err(|error| store_trouble(&self.base, error))
    }

    pub(crate) fn of_sql<T>(&self, result: Result<T, sqlx::Error>) -> Result<T, Trouble> {
        result.map_err(|error| sql_trouble(&self.base, &error))
    }

    /// Notes trouble; gives the connection back if it is still one.
    pub(crate) fn after<C>(&self, trouble: Trouble, connection: C) -> Option<C> {
        self.count(|counts| match trouble {
            Trouble::Collision => counts.collisions += 1,
            Trouble::Lost => counts.connections_lost += 1,
            Trouble::Refused | Trouble::Ended => counts.refused += 1,
        });
        (trouble != Trouble::Lost).then_some(connection)
    }

    /// Runs the tasks, and the trouble beside them until they have ended; then compares.
    pub(crate) async fn finish<T, W>(
        self: &Rc<Self>,
        tasks: usize,
        task: impl Fn(Rc<Self>, usize) -> T,
        trouble: W,
    ) -> Counts
    where
        T: Future<Output = ()> + 'static,
        W: Future<Output = ()>,
    {
        let local = LocalSet::new();
        let mut running = JoinSet::new();
        for number in 0..tasks {
            running.spawn_local_on(task(Rc::clone(self), number), &local);
        }
        let ended = async {
            while let Some(ended) = running.join_next().await {
                if let Err(failed) = ended {
                    std::panic::resume_unwind(failed.into_panic());
                }
            }
        };
        local
            .run_until(async {
                tokio::select! {
                    () = ended => {}
                    () = trouble => unreachable!("trouble never ends by itself"),
                }
            })
            .await;
        let counts = self.ledger().counts;
        println!("{counts:?}");
        counts
    }

    /// Compares the database with what tasks were told.
    pub(crate) async fn verify(&self) {
        let ledger = std::mem::take(&mut *self.ledger());
        ledger.verify(&self.base, self.keys.len()).await;
    }
}
