//! What another process left to be done: the stored queue, read a page at a time. So few of its
//! executions are on their way to their trees at once that what is new does not wait behind them,
//! and that memory does not grow with the queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use indelible_records::queue::{self, Row};
use indelible_store::{ReadError, Store};

use crate::shared::lock;

/// How many rows are read at a time.
const PAGE: usize = 128;

/// How many executions may be on their way when the next page is read.
const UNDER_WAY_MAX: usize = PAGE;

/// No page is read while so many trees have something to do: each of them is in memory.
const RUNNABLE_MAX: usize = 8_000;

/// What another process left to be done.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// The last row that was read.
    read: Mutex<Option<Row>>,
    /// Whether there may be more.
    pending: AtomicBool,
    /// The last page could not be read: not again at once.
    failed: AtomicBool,
    /// Somebody was told of that.
    told: AtomicBool,
    under_way: Arc<AtomicUsize>,
}

/// An execution is on its way to its tree, and from there to its next run.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
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
            under_way: Arc::default(),
        }
    }

    /// Whether everything that was left has been read.
    pub(crate) fn is_over(&self) -> bool {
        !self.pending.load(Ordering::Acquire)
    }

    /// The next executions to go on with, if it is time for them.
    pub(crate) fn more(
        &self,
        store: &Store,
        runnable: usize,
    ) -> Result<Vec<(Row, UnderWay)>, ReadError> {
        if self.is_over()
            || self.failed.load(Ordering::Acquire)
            || runnable >= RUNNABLE_MAX
            || self.under_way.load(Ordering::Acquire) >= UNDER_WAY_MAX
        {
            return Ok(Vec::new());
        }
        // Whoever finds another at it has other things to do.
        let Ok(mut read) = self.read.try_lock() else { return Ok(Vec::new()) };
        let page: Vec<Row> = loop {
            let page = queue::next(store, read.as_ref(), PAGE);
            let page = page.inspect_err(|_| self.failed.store(true, Ordering::Release))?.value;
            self.told.store(false, Ordering::Release);
            let Some(last) = page.last() else {
                self.pending.store(false, Ordering::Release);
                break Vec::new();
            };
            *read = Some(last.clone());
            // A row of an unknown room was noted as damage, and is left behind.
            let known = |row: &Row| !matches!(row, Row::UnknownRoom(_));
            let entries: Vec<_> = page.into_iter().filter(known).collect();
            if !entries.is_empty() {
                break entries;
            }
        };
        self.under_way.fetch_add(page.len(), Ordering::AcqRel);
        let under_way = || UnderWay(Arc::clone(&self.under_way));
        Ok(page.into_iter().map(|entry| (entry, under_way())).collect())
    }

    /// A page could not be read. Whether that is news.
    pub(crate) fn is_news(&self) -> bool {
        !self.told.swap(true, Ordering::AcqRel)
    }

    /// A page that could not be read may be tried again.
    pub(crate) fn try_again(&self) {
        self.failed.store(false, Ordering::Release);
    }

    /// Nothing more is read.
    pub(crate) fn stop(&self) {
        self.pending.store(false, Ordering::Release);
        *lock(&self.read) = None;
    }
}
