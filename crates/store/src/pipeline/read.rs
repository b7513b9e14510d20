//! Reads of accepted state: `Snapshot`, and scans that merge the layers of the overlay with what
//! the backend has.

use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;

use super::layer::{Change, Changes, Layer};
use super::{Shared, State, Store, UNLOCKED_READS_MAX};
use crate::backend::{BackendError, BackendSnapshot, Direction};
use crate::bounds::{self, at_most};
use crate::damage::DamageLog;
use crate::error::ReadError;
use crate::position::{Position, Seen};
use crate::read::{Page, Read, Scan, ordered};
use crate::table::Table;

impl Read for Store {
    fn get(&self, table: Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        Store::get(self, table, key)
    }

    fn scan(&self, scan: &Scan) -> Result<Seen<Page>, ReadError> {
        Store::scan(self, scan)
    }

    fn damage(&self) -> &DamageLog {
        Store::damage(self)
    }
}

impl Read for Snapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        Snapshot::get(self, table, key)
    }

    fn scan(&self, scan: &Scan) -> Result<Seen<Page>, ReadError> {
        Snapshot::scan(self, scan)
    }

    fn damage(&self) -> &DamageLog {
        Snapshot::damage(self)
    }
}

/// All tables at one position. It keeps what it shows from being cleaned up: hold it for a
/// request, not for a session.
pub struct Snapshot {
    shared: Arc<Shared>,
    position: Position,
    /// The newest first.
    layers: Layers,
    backend: Box<dyn BackendSnapshot>,
}

/// The layers of a snapshot: the open and the closing one, and few that are kept.
type Layers = SmallVec<[Arc<Layer>; 2]>;

impl Snapshot {
    /// The position whose state this is.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The damage that was found since the store was opened.
    pub fn damage(&self) -> &DamageLog {
        &self.shared.damage
    }

    /// The tables that the store was opened with, the pipeline's own first.
    pub fn tables(&self) -> &[Table] {
        &self.shared.list
    }

    /// The value of a key.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        self.check(&table)?;
        let value = match self.layers.iter().find_map(|layer| layer.get(&table, key)) {
            Some(change) => change.clone(),
            None => {
                let value = self.backend.get(&table, key);
                value.map_err(|source| self.shared.unread(&table, key, source))?
            }
        };
        Ok(Seen { value, position: self.position })
    }

    /// Rows of a table.
    pub fn scan(&self, scan: &Scan) -> Result<Seen<Page>, ReadError> {
        self.check(&scan.table)?;
        let bounds = &self.shared.bounds;
        at_most(bounds::Bound::ScanRows, scan.rows_max, bounds.scan_rows_max)?;
        let mut page = Collect {
            page: Page::default(),
            rows_max: scan.rows_max,
            bytes: Some(bounds.scan_bytes_max),
        };
        if scan.rows_max == 0 {
            page.page.more = !scan.is_empty();
        } else if !scan.is_empty() {
            self.collect(scan, &mut page)?;
        }
        Ok(Seen { value: page.page, position: self.position })
    }

    fn collect(&self, scan: &Scan, page: &mut Collect) -> Result<(), ReadError> {
        let direction = scan.direction;
        let ranges = self.layers.iter();
        let ranges =
            ranges.map(|layer| layer.range(&scan.table, &scan.range, direction).peekable());
        let mut overlay = MergedLayers { direction, newest_first: ranges.collect() }.peekable();
        let scanned = self.backend.scan(&scan.table, &scan.range, direction, &mut |key, value| {
            // Changes that come before this row, and the one that replaces it.
            let comes_first =
                |(changed, _): &(&Bytes, _)| ordered(direction, changed, &key).is_le();
            while let Some((changed, change)) = overlay.next_if(comes_first) {
                page.take(changed, change)?;
                if *changed == key {
                    return ControlFlow::Continue(());
                }
            }
            page.take(&key, &Some(value))
        });
        scanned.map_err(|source| {
            // Damage is reported after the last row that was read, or at the start of the range.
            let key = page.page.rows.last().map(|(key, _)| key.clone()).unwrap_or_else(|| {
                match &scan.range.0 {
                    Bound::Included(key) | Bound::Excluded(key) => key.clone(),
                    Bound::Unbounded => Bytes::new(),
                }
            });
            self.shared.unread(&scan.table, &key, source)
        })?;
        if !page.page.more {
            _ = overlay.try_for_each(|(key, change)| page.take(key, change));
        }
        Ok(())
    }

    fn check(&self, table: &Table) -> Result<(), ReadError> {
        self.shared.known_for_read(table)?;
        // What a stopped store accepted last is lost: no reader may see it any more.
        self.shared.lock().check_readable()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("position", &self.position).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn get(&self, table: &Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        self.known_for_read(table)?;
        let position = {
            let state = self.lock();
            state.check_readable()?;
            if let Some(change) = state.overlaid(table, key) {
                return Ok(Seen { value: change.clone(), position: state.accepted });
            }
            state.accepted
        };
        // The backend may have applied later groups meanwhile. What it shows is durable, so this
        // position is still enough.
        let value = self.backend.get(table, key);
        let value = value.map_err(|source| self.unread(table, key, source))?;
        Ok(Seen { value, position })
    }

    /// The layers over a snapshot of the rows. The order matters: (1) open the rows; (2) look at
    /// the layers, under the lock; (3) start again if a group was retired in between. Then the rows
    /// show every group that is in no layer, and any other group that they show was taken before,
    /// so it is in a layer and within the position. With the layers first, the rows could show a
    /// group that was accepted after the position.
    pub(super) fn snapshot(self: &Arc<Self>) -> Result<Snapshot, ReadError> {
        for _ in 0..UNLOCKED_READS_MAX {
            let retired = self.retired.load(Ordering::Acquire);
            let rows = self.backend.snapshot();
            let state = self.lock();
            if state.retired == retired || rows.is_err() || state.poison.is_some() {
                return self.layered(&state, rows);
            }
        }
        let state = self.lock();
        // Under the lock nothing is retired.
        self.layered(&state, self.backend.snapshot())
    }

    fn layered(
        self: &Arc<Self>,
        state: &State,
        rows: Result<Box<dyn BackendSnapshot>, BackendError>,
    ) -> Result<Snapshot, ReadError> {
        state.check_readable()?;
        let rows = rows.map_err(|error| ReadError::Snapshot(Arc::new(error)))?;
        let open = (!state.open.is_empty()).then_some(&state.open);
        let closing = state.closing.as_ref().map(|closing| &closing.layer);
        let layers = open.into_iter().chain(closing).chain(state.kept.newest_first());
        Ok(Snapshot {
            shared: Arc::clone(self),
            position: state.accepted,
            layers: layers.cloned().collect(),
            backend: rows,
        })
    }
}

/// A page being filled. It takes one row more than fits, to know whether there is one.
struct Collect {
    page: Page,
    rows_max: usize,
    /// How many more bytes it takes; `None` once it is past them.
    bytes: Option<usize>,
}

impl Collect {
    /// Takes a row, unless it is deleted.
    fn take(&mut self, key: &Bytes, change: &Change) -> ControlFlow<()> {
        let Some(value) = change else { return ControlFlow::Continue(()) };
        if self.page.rows.len() == self.rows_max || self.bytes.is_none() {
            self.page.more = true;
            return ControlFlow::Break(());
        }
        self.bytes = self.bytes.and_then(|bytes| bytes.checked_sub(key.len() + value.len()));
        self.page.rows.push((key.clone(), value.clone()));
        ControlFlow::Continue(())
    }
}

/// All layers as one: of a key that is in several, the newest change.
struct MergedLayers<'a> {
    direction: Direction,
    newest_first: SmallVec<[Peekable<Changes<'a>>; 2]>,
}

impl<'a> Iterator for MergedLayers<'a> {
    type Item = (&'a Bytes, &'a Change);

    fn next(&mut self) -> Option<Self::Item> {
        let direction = self.direction;
        let heads = self.newest_first.iter_mut().enumerate();
        let heads = heads.filter_map(|(place, changes)| Some((changes.peek()?.0, place)));
        // Of several that are the same, the first: the newest.
        let (key, place) = heads.min_by(|(a, _), (b, _)| ordered(direction, a, b))?;
        for older in &mut self.newest_first[place + 1..] {
            older.next_if(|(other, _)| *other == key);
        }
        self.newest_first[place].next()
    }
}
