//! A journal file, read through a window of fixed size: whatever lengths the file claims, this is
//! all the memory that reading it takes.
#![expect(clippy::disallowed_methods, reason = "fjall's files are read before it opens")]

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

/// Bytes held at once.
pub(super) const WINDOW: usize = 256 * 1024;

/// What is compared with to find out whether bytes are all zero: faster than one by one.
static ZEROS: [u8; 4096] = [0; 4096];

/// Whether there is nothing in these bytes.
pub(super) fn all_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

/// A file and the part of it that is in memory.
pub(super) struct Source {
    file: File,
    len: u64,
    window: Vec<u8>,
    /// Where in the file the window starts.
    window_at: u64,
    /// A byte that reads as changed, and in which bits: to try a repair.
    changed: Option<(u64, u8)>,
}

impl Source {
    /// Opens a file to read it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len, window: Vec::with_capacity(WINDOW), window_at: 0, changed: None })
    }

    /// How long the file is.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// From now on, these bits of one byte read as if they were changed; or none.
    pub(super) fn change(&mut self, changed: Option<(u64, u8)>) {
        self.changed = changed;
        self.window.clear();
    }

    /// The bytes from `at`: as many as asked for, or what there is until the end of the file.
    pub(super) fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        debug_assert!(count <= WINDOW);
        let left = self.len.saturating_sub(at);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(count);
        let inside = at.checked_sub(self.window_at).and_then(|skip| usize::try_from(skip).ok());
        let skip = match inside {
            Some(skip) if skip.saturating_add(count) <= self.window.len() => skip,
            _ => {
                self.fill(at)?;
                0
            }
        };
        self.window.get(skip..skip + count).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            )
        })
    }

    fn fill(&mut self, at: u64) -> io::Result<()> {
        self.window.clear();
        self.window_at = at;
        self.file.seek(SeekFrom::Start(at))?;
        (&self.file).take(WINDOW as u64).read_to_end(&mut self.window)?;
        if let Some((place, bits)) = self.changed
            && let Some(skip) = place.checked_sub(at).and_then(|skip| usize::try_from(skip).ok())
            && let Some(byte) = self.window.get_mut(skip)
        {
            *byte ^= bits;
        }
        Ok(())
    }

    /// Gives `visit` the bytes of `from..to`, piece by piece.
    pub(super) fn pieces(
        &mut self,
        from: u64,
        to: u64,
        mut visit: impl FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        let mut at = from;
        while at < to.min(self.len) {
            // What is in the window already is used up before the next read.
            let buffered = (self.window_at + self.window.len() as u64).saturating_sub(at);
            let there = at >= self.window_at && buffered > 0;
            let most = if there { buffered } else { WINDOW as u64 };
            let count = usize::try_from(most.min(to - at)).unwrap_or(WINDOW).min(WINDOW);
            let piece = self.bytes(at, count)?;
            visit(at, piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// The checksum that fjall keeps for a run of bytes.
    pub(super) fn hash(&mut self, from: u64, to: u64) -> io::Result<Xxh3> {
        let mut hasher = Xxh3::new();
        self.pieces(from, to, |_, piece| hasher.update(piece))?;
        Ok(hasher)
    }

    /// Where the data of the file ends: the place after its last byte that is not zero, and not
    /// before `from`.
    pub(super) fn data_end(&mut self, from: u64) -> io::Result<u64> {
        let mut end = self.len;
        while end > from {
            let start = end.saturating_sub(WINDOW as u64).max(from);
            let count = usize::try_from(end - start).expect("at most a window");
            let piece = self.bytes(start, count)?;
            if !all_zero(piece) {
                let last = piece.iter().rposition(|byte| *byte != 0).expect("one is not zero");
                return Ok(start + last as u64 + 1);
            }
            end = start;
        }
        Ok(from)
    }
}
