//! Makes a backup of a snapshot piece by piece: the code that takes the pieces sets the pace.

use bytes::Bytes;
use indelible_journal::Timestamp;
use indelible_store::{PIPELINE, ReadError, Row, Scan, Snapshot, Table};
use xxhash_rust::xxh3::Xxh3;

use super::frame::{self, Chain, Kind};
use super::{Counts, Header};

/// A frame of rows has about this many bytes, or one row.
const FRAME_BYTES: usize = 256 << 10;

/// How many rows are read at a time; the store has a bound on their bytes.
const PAGE_ROWS: usize = 1_000;

/// Makes a backup of a snapshot, which it holds until it is dropped: until then rows that were
/// deleted since keep their space on disk.
///
/// The pieces may leave the process when [`Header::position`] is durable, and no earlier (D2).
pub struct Writer {
    snapshot: Snapshot,
    header: Header,
    /// The tables that are left, the next one last.
    tables: Vec<Table>,
    /// Where the current table goes on; none between two tables.
    scan: Option<Scan>,
    /// Rows that were read and not written, the next one last.
    rows: Vec<Row>,
    /// None before the first piece, and after the last.
    chain: Option<Chain>,
    hash: Box<Xxh3>,
    counts: Counts,
    over: bool,
}

impl Writer {
    /// A backup of this snapshot, made at this time.
    pub fn new(snapshot: Snapshot, made_at: Timestamp) -> Self {
        let header = Header { position: snapshot.position(), made_at };
        // The pipeline's own table is about this store's log, not its contents.
        let tables = snapshot.tables().iter().filter(|table| **table != PIPELINE);
        let tables = tables.rev().copied().collect();
        Self {
            snapshot,
            header,
            tables,
            scan: None,
            rows: Vec::new(),
            chain: None,
            hash: Box::default(),
            counts: Counts::default(),
            over: false,
        }
    }

    /// What it is a backup of.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What was written so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The next piece; none after the last. It reads from disk. After an error there are no more
    /// pieces, and those given are no backup.
    #[expect(clippy::should_implement_trait, reason = "an iterator would go on after an error")]
    pub fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        if self.over {
            return Ok(None);
        }
        let piece = self.piece().inspect_err(|_| self.over = true)?;
        self.hash.update(&piece);
        Ok(Some(piece))
    }

    fn piece(&mut self) -> Result<Bytes, ReadError> {
        let Some(mut chain) = self.chain else {
            let (head, chain) = frame::head(&self.header);
            self.chain = Some(chain);
            return Ok(head);
        };
        let (kind, body) = self.body()?;
        self.over = kind == Kind::End;
        let piece = chain.frame(kind, &body);
        self.chain = Some(chain);
        Ok(piece)
    }

    fn body(&mut self) -> Result<(Kind, Bytes), ReadError> {
        if self.scan.is_some() || !self.rows.is_empty() {
            let body = self.some_rows()?;
            if !body.is_empty() {
                return Ok((Kind::Rows, body.into()));
            }
        }
        match self.tables.pop() {
            Some(table) => {
                self.scan = Some(Scan::all(table, PAGE_ROWS));
                self.counts.tables += 1;
                Ok((Kind::Table, frame::table_body(table.name())))
            }
            None => Ok((Kind::End, frame::end_body(&self.counts, self.hash.digest128()))),
        }
    }

    /// Rows of the current table; none at its end.
    fn some_rows(&mut self) -> Result<Vec<u8>, ReadError> {
        let mut body = Vec::new();
        while body.len() < FRAME_BYTES {
            if self.rows.is_empty() && !self.read_page()? {
                break;
            }
            if let Some((key, value)) = self.rows.pop() {
                frame::put_row(&mut body, &key, &value);
                self.counts.add(&key, &value);
            }
        }
        Ok(body)
    }

    /// Reads the next page; false at the end of the table.
    fn read_page(&mut self) -> Result<bool, ReadError> {
        let Some(scan) = self.scan.take() else { return Ok(false) };
        let page = self.snapshot.scan(&scan)?.value;
        let last = page.rows.last().map(|(key, _)| key.clone());
        self.scan = last.filter(|_| page.more).map(|last| scan.after(last));
        self.rows = page.rows;
        self.rows.reverse();
        Ok(!self.rows.is_empty())
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("header", &self.header).finish_non_exhaustive()
    }
}
