//! Work that another process left: the stored queue, read a page at a time. Only so many of its
//! executions are on their way to their trees at once that new calls do not wait behind them, and
//! that memory does not grow with the queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use indelible_records::queue::{self, Row};
use indelible_store::{ReadError, Store};
use tracing::info;

use crate::shared::lock;

/// How many rows are read at a time.
const PAGE: usize = 128;

/// How many executions may be on their way when the next page is read.
const UNDER_WAY_MAX: usize = PAGE;

/// No page is read while so many trees have something to do: each of them is in memory.
const RUNNABLE_MAX: usize = 8_000;

#[derive(Debug)]
pub(crate) struct Recovery {
    /// The last row that was read.
    read: Mutex<Option<Row>>,
    /// Whether there may be more.
    pending: AtomicBool,
    /// The last page could not be read: wait for `try_again`.
    failed: AtomicBool,
    /// The failure was logged.
    told: AtomicBool,
    /// How many rows were read from the queue's beginning on.
    rows: AtomicUsize,
    /// The queue was read to its end before.
    ended: AtomicBool,
    under_way: Arc<AtomicUsize>,
}

/// An execution on its way to its tree, and from there to its next run.
#[derive(Debug)]
pub(crate) struct RecoveryPermit(Arc<AtomicUsize>);

impl Drop for RecoveryPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Recovery {
    pub(crate) fn new() -> Self {
        Self {
            read: Mutex::default(),
            pending: true.into(),
            failed: false.into(),
            told: false.into(),
            rows: AtomicUsize::new(0),
            ended: false.into(),
            under_way: Arc::default(),
        }
    }

    /// Whether the whole queue has been read.
    pub(crate) fn is_over(&self) -> bool {
        !self.pending.load(Ordering::Acquire)
    }

    /// The next executions to go on with, unless enough are under way.
    pub(crate) fn more(
        &self,
        store: &Store,
        runnable: usize,
    ) -> Result<Vec<(Row, RecoveryPermit)>, ReadError> {
        if self.is_over()
            || self.failed.load(Ordering::Acquire)
            || runnable >= RUNNABLE_MAX
            || self.under_way.load(Ordering::Acquire) >= UNDER_WAY_MAX
        {
            return Ok(Vec::new());
        }
        // Another thread is reading a page: this one has other work.
        let Ok(mut read) = self.read.try_lock() else { return Ok(Vec::new()) };
        let page: Vec<Row> = loop {
            let page = queue::next(store, read.as_ref(), PAGE);
            let page = page.inspect_err(|_| self.failed.store(true, Ordering::Release))?.value;
            self.told.store(false, Ordering::Release);
            let Some(last) = page.last() else {
                self.pending.store(false, Ordering::Release);
                let executions = self.rows.swap(0, Ordering::Relaxed);
                // Later passes recover what a machine dropped from memory, and are not logged.
                if !self.ended.swap(true, Ordering::Relaxed) && executions > 0 {
                    info!(executions, "resuming executions of the previous process");
                }
                break Vec::new();
            };
            *read = Some(last.clone());
            // A row of an unknown kind of machine was noted as damage, and is skipped.
            let known = |row: &Row| !matches!(row, Row::UnknownRoom(_));
            let entries: Vec<_> = page.into_iter().filter(known).collect();
            if !entries.is_empty() {
                break entries;
            }
        };
        self.rows.fetch_add(page.len(), Ordering::Relaxed);
        self.under_way.fetch_add(page.len(), Ordering::AcqRel);
        let under_way = || RecoveryPermit(Arc::clone(&self.under_way));
        Ok(page.into_iter().map(|entry| (entry, under_way())).collect())
    }

    /// Whether a failure to read a page has not been logged yet.
    pub(crate) fn is_news(&self) -> bool {
        !self.told.swap(true, Ordering::AcqRel)
    }

    /// Reads the queue from its beginning again, because a machine dropped from memory work that
    /// the queue names. All other rows name work that is in memory: recovering it again changes
    /// nothing.
    pub(crate) fn start_over(&self) {
        let mut read = lock(&self.read);
        *read = None;
        // Under the lock: a page that is being read must not end the recovery after this.
        self.pending.store(true, Ordering::Release);
    }

    /// The same, after the next look at the timers: the cause may persist until then.
    pub(crate) fn start_over_later(&self) {
        self.failed.store(true, Ordering::Release);
        self.start_over();
    }

    /// Lets a page that could not be read be tried again.
    pub(crate) fn try_again(&self) {
        self.failed.store(false, Ordering::Release);
    }

    /// Nothing more is read.
    pub(crate) fn stop(&self) {
        self.pending.store(false, Ordering::Release);
        *lock(&self.read) = None;
    }
}
