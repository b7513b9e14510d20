//! Lines of an execution and of what it called, found by looking through the files: a piece at a
//! time, and a bounded number of bytes for a page.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use indelible_api::log::LogLine;
use indelible_journal::ExecutionId;

use super::line;
use super::segments::{self, LogPosition};

/// How much of a file is in memory at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The longest line that can be read: with its end, it fits into a piece.
pub(super) const LINE_BYTES_MAX: usize = PIECE_BYTES / 2;

/// How much one page takes at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// How many lines.
    pub(super) lines_max: usize,
    /// About how many bytes those have.
    pub(super) page_bytes_max: usize,
    /// How many bytes of the files are looked at.
    pub(super) scan_bytes_max: u64,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) lines: Vec<LogLine>,
    pub(super) next: LogPosition,
    pub(super) more: bool,
}

/// Reads lines from a position on, or from the oldest line if none is given.
pub(super) fn page(
    folder: &Path,
    execution: &ExecutionId,
    from: Option<LogPosition>,
    bounds: Bounds,
) -> io::Result<Page> {
    let numbers = segments::list(folder)?;
    let (Some(oldest), Some(newest)) = (numbers.first(), numbers.last()) else {
        let next = from.unwrap_or(LogPosition::FIRST);
        return Ok(Page { lines: Vec::new(), next, more: false });
    };
    let first = LogPosition { segment: *oldest, offset: 0 };
    // A position may lie before the oldest file, if that was deleted, or after the newest, if files
    // were lost.
    let last = LogPosition { segment: *newest, offset: u64::MAX };
    let from = from.unwrap_or(first).clamp(first, last);
    let mut found = LogScan { execution, bounds, lines: Vec::new(), bytes: 0, scanned: 0 };
    let mut next = from;
    for number in numbers.iter().filter(|number| **number >= from.segment) {
        if *number != next.segment {
            next = LogPosition { segment: *number, offset: 0 };
        }
        let file = match File::open(segments::path(folder, *number)) {
            // The writer deleted it meanwhile, as the oldest.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let (offset, ended) = found.segment(&file, next.offset, number == newest)?;
        next.offset = offset;
        if !ended {
            return Ok(Page { lines: found.lines, next, more: true });
        }
    }
    Ok(Page { lines: found.lines, next, more: false })
}

struct LogScan<'a> {
    execution: &'a ExecutionId,
    bounds: Bounds,
    lines: Vec<LogLine>,
    bytes: usize,
    scanned: u64,
}

impl LogScan<'_> {
    fn is_full(&self) -> bool {
        self.lines.len() >= self.bounds.lines_max
            || self.bytes >= self.bounds.page_bytes_max
            || self.scanned >= self.bounds.scan_bytes_max
    }

    /// Takes lines from a segment. Where it stopped, and whether that is its end.
    fn segment(&mut self, file: &File, offset: u64, newest: bool) -> io::Result<(u64, bool)> {
        let length = file.metadata()?.len();
        let mut offset = offset.min(length);
        // A client may send any offset. One inside a line must not make half a line look whole.
        let mut within = offset > 0 && byte_at(file, offset - 1)? != Some(b'\n');
        let mut piece = vec![0; PIECE_BYTES];
        while offset < length {
            if self.is_full() {
                return Ok((offset, false));
            }
            let room = usize::try_from(length - offset).map_or(PIECE_BYTES, |n| n.min(PIECE_BYTES));
            let count = read_at(file, &mut piece[..room], offset)?;
            let (mut begin, piece) = (0, &piece[..count]);
            while let Some(end) = piece[begin..].iter().position(|byte| *byte == b'\n') {
                let line = &piece[begin..begin + end];
                begin += end + 1;
                self.scanned += (end + 1) as u64;
                if !std::mem::take(&mut within) {
                    self.take(line);
                }
                if self.is_full() {
                    let offset = offset + begin as u64;
                    return Ok((offset, newest && offset >= length));
                }
            }
            if begin == 0 {
                if count < PIECE_BYTES {
                    // A line that is being written, or that a crash tore. In the newest file it may
                    // still be completed.
                    return Ok((if newest { offset } else { length }, true));
                }
                // No line is so long, so these bytes are damaged.
                within = true;
                begin = count;
                self.scanned += count as u64;
            }
            offset += begin as u64;
        }
        Ok((offset, true))
    }

    fn take(&mut self, bytes: &[u8]) {
        if !line::may_be_of(bytes, self.execution.root()) {
            return;
        }
        if let Some((id, line)) = line::read(bytes)
            && id.root() == self.execution.root()
            && id.path().starts_with(self.execution.path())
        {
            self.bytes += bytes.len();
            self.lines.push(line);
        }
    }
}

fn byte_at(file: &File, offset: u64) -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok((read_at(file, &mut byte, offset)? == 1).then_some(byte[0]))
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < bytes.len() {
        match file.read_at(&mut bytes[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
