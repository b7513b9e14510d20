//! Progress of long work, for a person at a terminal.

use std::io::{self, IsTerminal as _, Read, Write as _};

use indelible_records::backup::{BackupError, Counts, Header, Reader};

use super::text::bytes;

/// How many bytes pass between two messages.
const PROGRESS_BYTES: u64 = 4 << 20;

/// Tells how many bytes have passed.
pub(super) struct Progress {
    word: &'static str,
    shown: bool,
    bytes: u64,
    told: u64,
}

impl Progress {
    pub(super) fn new(word: &'static str) -> Self {
        Self { word, shown: io::stderr().is_terminal(), bytes: 0, told: 0 }
    }

    pub(super) fn add(&mut self, count: usize) {
        self.at(self.bytes + count as u64);
    }

    /// So many bytes have passed in all.
    pub(super) fn at(&mut self, count: u64) {
        self.bytes = count;
        if self.shown && self.bytes - self.told >= PROGRESS_BYTES {
            self.told = self.bytes;
            // If stderr is closed there is no other place to say so.
            _ = write!(io::stderr(), "\r{} {}   ", self.word, bytes(self.bytes));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told > 0 {
            _ = writeln!(io::stderr(), "\r{} {}   ", self.word, bytes(self.bytes));
        }
    }
}

/// Wider than the names of tables.
const NAME_COLUMNS: usize = 24;

/// Tells which table is being checked, if there is so much data that it takes long.
pub(super) struct CheckProgress {
    shown: bool,
    tables: usize,
}

impl CheckProgress {
    /// `bytes` is the size of all tables.
    pub(super) fn new(bytes: u64) -> Self {
        Self { shown: bytes >= PROGRESS_BYTES && io::stderr().is_terminal(), tables: 0 }
    }

    pub(super) fn at(&mut self, table: &str) {
        self.tables += 1;
        if self.shown {
            _ = write!(io::stderr(), "\rchecking {table:<NAME_COLUMNS$}");
        }
    }
}

impl Drop for CheckProgress {
    fn drop(&mut self) {
        if self.shown {
            let tables = format!("{} tables", self.tables);
            _ = writeln!(io::stderr(), "\rchecked {tables:<NAME_COLUMNS$}");
        }
    }
}

/// Reads a backup to its end, which verifies all of it.
pub(super) fn verify<R: Read>(mut reader: Reader<R>) -> Result<(Header, Counts), BackupError> {
    let mut progress = Progress::new("verified");
    while reader.next()?.is_some() {
        progress.at(reader.bytes());
    }
    Ok((*reader.header(), *reader.counts()))
}
