//! Writes lines into the files. A line is one `write`: it survives a killed process, and perhaps
//! not a power cut. Nothing here waits for a disk, and a line that cannot be written is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use indelible_journal::{Micros, Timestamp};

use super::segments;

/// For so long after a failed write, lines are dropped without another try: a full disk stays full
/// for a while, and each try costs a call.
const PAUSE: Micros = Micros::from_millis(1_000);

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) segment_bytes: u64,
    pub(super) segments_max: usize,
}

/// What came of a line.
#[derive(Debug)]
pub(super) enum WriteOutcome {
    /// It is there.
    Line,
    /// It was dropped, like the line before it.
    Dropped,
    /// It was dropped, and the line before it was not.
    Failed(io::Error),
    /// It is there, and so many before it were dropped.
    Again(u64),
}

/// Writes to the newest segment.
pub(super) struct Writer {
    folder: PathBuf,
    bounds: Bounds,
    /// Opened with the first line: before that, another process may hold the folder.
    open: Option<Segment>,
    /// Since when lines are dropped, and how many were.
    failing: Option<(Timestamp, u64)>,
}

struct Segment {
    number: u64,
    file: File,
    bytes: u64,
    /// The file does not end with a whole line, so a line feed comes before the next one.
    torn: bool,
}

impl Writer {
    pub(super) fn new(folder: PathBuf, bounds: Bounds) -> Self {
        Self { folder, bounds, open: None, failing: None }
    }

    /// Writes a line, or drops it.
    pub(super) fn write(&mut self, now: Timestamp, line: &[u8]) -> WriteOutcome {
        if let Some((since, dropped)) = &mut self.failing
            // A clock that was set back does not make the pause longer.
            && (*since..since.saturating_add(PAUSE)).contains(&now)
        {
            *dropped += 1;
            return WriteOutcome::Dropped;
        }
        let wrote = self.try_write(line);
        if wrote.is_err() {
            // Opened again by the next try: the file may be gone, or end with half a line.
            self.open = None;
        }
        match (wrote, self.failing.take()) {
            (Ok(()), None) => WriteOutcome::Line,
            (Ok(()), Some((_, dropped))) => WriteOutcome::Again(dropped),
            (Err(error), None) => {
                self.failing = Some((now, 1));
                WriteOutcome::Failed(error)
            }
            (Err(_), Some((_, dropped))) => {
                self.failing = Some((now, dropped + 1));
                WriteOutcome::Dropped
            }
        }
    }

    fn try_write(&mut self, line: &[u8]) -> io::Result<()> {
        let segment = match &mut self.open {
            Some(segment) => segment,
            none => none.insert(Segment::last(&self.folder)?),
        };
        if segment.bytes > 0 && segment.bytes + line.len() as u64 > self.bounds.segment_bytes {
            *segment = Segment::next(&self.folder, segment.number, self.bounds.segments_max)?;
        }
        segment.append(line)
    }
}

/// Opens a segment to append to. What functions log may be anything: only the server's own user may
/// read it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

impl Segment {
    /// The newest that is there, or the first.
    fn last(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let number = segments::list(folder)?.pop().unwrap_or(1);
        let path = segments::path(folder, number);
        let mut file = open(&path)?;
        let bytes = file.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if bytes > 0 {
            file.seek(SeekFrom::Start(bytes - 1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Self { number, file, bytes, torn: last != *b"\n" })
    }

    /// The one after a segment that is full. The oldest go first: they make room for it.
    fn next(folder: &Path, full: u64, segments_max: usize) -> io::Result<Self> {
        let there = segments::list(folder)?;
        let too_many = (there.len() + 1).saturating_sub(segments_max.max(1));
        for oldest in there.iter().take(too_many) {
            fs::remove_file(segments::path(folder, *oldest))?;
        }
        let path = segments::path(folder, full + 1);
        let file = open(&path)?;
        Ok(Self { number: full + 1, file, bytes: 0, torn: false })
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let mut ended;
        let mut rest = line;
        if self.torn {
            ended = Vec::with_capacity(line.len() + 1);
            ended.push(b'\n');
            ended.extend_from_slice(line);
            rest = &ended;
        }
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.bytes += count as u64;
                    rest = &rest[count..];
                    // Torn until the last byte is written.
                    self.torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
