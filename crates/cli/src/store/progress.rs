//! How far something is that takes long, for whoever watches it at a terminal.

use std::io::{self, IsTerminal as _, Read, Write as _};

use indelible_records::backup::{BackupError, Counts, Header, Reader};

use super::text::bytes;

/// So many bytes go by before they are told of again.
const PROGRESS_BYTES: u64 = 4 << 20;

/// Tells how many bytes went by.
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

    /// So many bytes in all.
    pub(super) fn at(&mut self, count: u64) {
        self.bytes = count;
        if self.shown && self.bytes - self.told >= PROGRESS_BYTES {
            self.told = self.bytes;
            // Nobody is left to tell if stderr is closed.
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

/// As wide as the names of tables are, and more.
const NAME_COLUMNS: usize = 24;

/// Tells which table is checked, where there is so much that it takes long.
pub(super) struct Checking {
    shown: bool,
    tables: usize,
}

impl Checking {
    /// Of so many bytes in all.
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

impl Drop for Checking {
    fn drop(&mut self) {
        if self.shown {
            let tables = format!("{} tables", self.tables);
            _ = writeln!(io::stderr(), "\rchecked {tables:<NAME_COLUMNS$}");
        }
    }
}

/// Reads a backup to its end: whether all of it is good.
pub(super) fn verify<R: Read>(mut reader: Reader<R>) -> Result<(Header, Counts), BackupError> {
    let mut progress = Progress::new("verified");
    while reader.next()?.is_some() {
        progress.at(reader.bytes());
    }
    Ok((*reader.header(), *reader.counts()))
}
