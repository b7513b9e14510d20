//! Reads a backup and verifies it on the way: a part that is cut off, changed, left out or moved is
//! noticed before it is used.

use std::io::{self, Read};

use bytes::Bytes;
use indelible_store::Row;
use indelible_store::embedded::LAST_TO_READ_FORMAT_1;
use xxhash_rust::xxh3::Xxh3;

use super::frame::{
    self, BEGIN_BYTES, CHECK_BYTES, Chain, FRAME_HEAD_BYTES, FrameHead, HEAD_BYTES, Kind, MAGIC,
};
use super::{Counts, Header, VERSION};
use crate::codec::Malformed;

/// Why bytes are no backup that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The bytes do not begin like a backup.
    #[error("it is not a backup of Indelible")]
    NotABackup,
    /// A newer version of the program made it.
    #[error("it is a backup of format {found}; this program reads format {VERSION}")]
    Newer {
        /// Its version.
        found: u32,
    },
    /// An earlier version of the program made it.
    #[error(
        "it is a backup of format {found}; this program reads format {VERSION}. Use a build of \
         commit {LAST_TO_READ_FORMAT_1} to read it"
    )]
    Older {
        /// Its version.
        found: u32,
    },
    /// The backup has no end.
    #[error("it is incomplete: it ends after {at} bytes")]
    CutOff {
        /// How many bytes there are.
        at: u64,
    },
    /// The bytes are not those that were written.
    #[error("it is damaged, near byte {at}: {what}")]
    Damaged {
        /// Where the damaged part begins.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Some rows of a table, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The table's name.
    pub table: String,
    /// The rows; none where the table begins.
    pub rows: Vec<Row>,
}

/// Reads a backup, and verifies it on the way. All of it was good only when [`Reader::next`] has
/// returned `None`.
pub struct Reader<R> {
    source: R,
    header: Header,
    chain: Chain,
    hash: Box<Xxh3>,
    /// How many bytes were read.
    at: u64,
    counts: Counts,
    /// The current table, and those before it.
    tables: Vec<String>,
    /// The last key of the current table.
    last: Option<Bytes>,
    over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads and checks the head.
    pub fn open(mut source: R) -> Result<Self, BackupError> {
        let mut head = [0; HEAD_BYTES];
        let begun = fill(&mut source, &mut head[..BEGIN_BYTES])?;
        let magic = &head[..MAGIC.len().min(begun)];
        if begun == 0 || !MAGIC.starts_with(magic) {
            return Err(BackupError::NotABackup);
        }
        if begun < BEGIN_BYTES {
            return Err(BackupError::CutOff { at: begun as u64 });
        }
        let found = head[MAGIC.len()..BEGIN_BYTES].try_into().expect("it has four bytes");
        let found = u32::from_be_bytes(found);
        // The version decides how the rest is read.
        if found > VERSION {
            return Err(BackupError::Newer { found });
        }
        if found == 1 {
            return Err(BackupError::Older { found });
        }
        let rest = fill(&mut source, &mut head[BEGIN_BYTES..])?;
        let at = (BEGIN_BYTES + rest) as u64;
        if rest < HEAD_BYTES - BEGIN_BYTES {
            return Err(BackupError::CutOff { at });
        }
        let read = if found == VERSION {
            frame::read_head(&head)
        } else {
            Err(Malformed("it has no version"))
        };
        let (header, chain) = read.map_err(|Malformed(what)| damaged(0, what))?;
        let mut hash = Box::<Xxh3>::default();
        hash.update(&head);
        Ok(Self {
            source,
            header,
            chain,
            hash,
            at,
            counts: Counts::default(),
            tables: Vec::new(),
            last: None,
            over: false,
        })
    }

    /// What it is a backup of.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What was read so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many bytes were read.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// The next rows; none when everything was read and was good.
    #[expect(clippy::should_implement_trait, reason = "an iterator would go on after an error")]
    pub fn next(&mut self) -> Result<Option<Rows>, BackupError> {
        if self.over {
            return Ok(None);
        }
        let begins = self.at;
        let wrong = |Malformed(what)| damaged(begins, what);
        let before = self.hash.digest128();
        let (kind, body) = self.frame()?;
        match kind {
            Kind::Table => {
                let table = frame::read_table_body(&body).map_err(wrong)?;
                if self.tables.contains(&table) {
                    return Err(damaged(begins, "a table appears twice"));
                }
                self.tables.push(table.clone());
                self.last = None;
                self.counts.tables += 1;
                Ok(Some(Rows { table, rows: Vec::new() }))
            }
            Kind::Rows => self.rows(body).map(Some).map_err(wrong),
            Kind::End => {
                let (counts, hash) = frame::read_end_body(&body).map_err(wrong)?;
                if hash != before {
                    return Err(damaged(begins, "the hash of the whole backup does not match"));
                }
                if counts != self.counts {
                    return Err(damaged(
                        begins,
                        "the number of rows differs from the number at its end",
                    ));
                }
                if fill(&mut self.source, &mut [0])? > 0 {
                    return Err(damaged(self.at, "data follows its end"));
                }
                self.over = true;
                Ok(None)
            }
        }
    }

    /// Reads to the end: whether all of it is good.
    pub fn verify(mut self) -> Result<(Header, Counts), BackupError> {
        while self.next()?.is_some() {}
        Ok((self.header, self.counts))
    }

    fn rows(&mut self, mut body: Bytes) -> Result<Rows, Malformed> {
        let table = self
            .tables
            .last()
            .cloned()
            .ok_or(Malformed("a frame of rows comes before any table"))?;
        if body.is_empty() {
            return Err(Malformed("a frame of rows is empty"));
        }
        let mut rows = Vec::new();
        while !body.is_empty() {
            let (key, value) = frame::take_row(&mut body)?;
            if self.last.as_ref().is_some_and(|last| *last >= key) {
                return Err(Malformed("rows are not in the order of their keys"));
            }
            self.counts.add(&key, &value);
            self.last = Some(key.clone());
            rows.push((key, value));
        }
        Ok(Rows { table, rows })
    }

    /// The next frame, if it is good.
    fn frame(&mut self) -> Result<(Kind, Bytes), BackupError> {
        let begins = self.at;
        let wrong = |Malformed(what)| damaged(begins, what);
        let mut head = [0; FRAME_HEAD_BYTES];
        self.read(&mut head)?;
        let FrameHead { kind, length } = self.chain.read_frame_head(&head).map_err(wrong)?;
        // This takes as much memory as there are bytes, whatever the length says.
        let mut body = Vec::new();
        let read = (&mut self.source).take(length as u64).read_to_end(&mut body)?;
        self.at += read as u64;
        if read < length {
            return Err(BackupError::CutOff { at: self.at });
        }
        let mut check = [0; CHECK_BYTES];
        self.read(&mut check)?;
        self.chain.read_frame_end(&head, &body, check).map_err(wrong)?;
        self.hash.update(&head);
        self.hash.update(&body);
        self.hash.update(&check);
        Ok((kind, body.into()))
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        let read = fill(&mut self.source, bytes)?;
        self.at += read as u64;
        if read < bytes.len() { Err(BackupError::CutOff { at: self.at }) } else { Ok(()) }
    }
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("header", &self.header).finish_non_exhaustive()
    }
}

fn damaged(at: u64, what: &'static str) -> BackupError {
    BackupError::Damaged { at, what }
}

/// Fills the buffer as far as there are bytes.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < bytes.len() {
        match source.read(&mut bytes[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
