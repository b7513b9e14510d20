//! What functions log, kept in files to be read afterwards: `logs/NNNNNNNN.jsonl` in the data
//! folder. The number and the size of the files are bounded, and the oldest is deleted. Logs are
//! exempt from the rule that what is shown is durable (D2): no line is synced, and no caller waits
//! for one.
//!
//! - `line`: a line as it is stored. `segments`: the files, and places in them.
//! - `write`, `read`: lines on their way in, and out.
#![expect(clippy::disallowed_methods, reason = "it owns a folder of files")]

mod line;
mod read;
mod segments;
#[cfg(test)]
mod tests;
mod write;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indelible_api::log::Logs;
use indelible_journal::{ExecutionId, Failure, JournalKey};
use indelible_records::executions::Standing;
use indelible_runtime::UnresolvedEffect;
use indelible_runtime::trouble;
use indelible_runtime::world::{AfterFailure, Clock, LogLine, Observer, Trouble};

pub(crate) use self::segments::LogPosition;
use self::write::{WriteOutcome, Writer};
use crate::options::Options;

/// About how many bytes the lines of a page have at most.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// How many bytes of the files are looked at for a page: a few milliseconds' worth.
const SCAN_BYTES_MAX: u64 = 16 << 20;

/// An observer that also keeps what functions log, in files.
pub struct LogFile {
    /// The next observer; it is told everything.
    inner: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    line_bytes_max: usize,
    writer: Mutex<Writer>,
    written: AtomicU64,
    dropped: AtomicU64,
}

impl LogFile {
    /// Keeps lines in this folder. It is not touched before the first line: functions run only once
    /// this process holds the lock of the data folder.
    pub fn new(
        folder: impl Into<PathBuf>,
        options: &Options,
        clock: Arc<dyn Clock>,
        inner: Arc<dyn Observer>,
    ) -> Self {
        let folder = folder.into();
        let bounds = write::Bounds {
            segment_bytes: options.log_segment_bytes,
            segments_max: options.log_segments_max,
        };
        Self {
            inner,
            clock,
            writer: Mutex::new(Writer::new(folder.clone(), bounds)),
            folder,
            // A reader takes a longer line for damage.
            line_bytes_max: options.log_line_bytes_max.min(read::LINE_BYTES_MAX),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// How many lines were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// How many lines were dropped because they could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Lines of an execution and of what it called, the oldest first. It reads files.
    pub(crate) fn read(
        &self,
        execution: &ExecutionId,
        from: Option<LogPosition>,
        lines_max: usize,
    ) -> io::Result<Logs> {
        let bounds = read::Bounds {
            lines_max,
            page_bytes_max: PAGE_BYTES_MAX,
            scan_bytes_max: SCAN_BYTES_MAX,
        };
        let read::Page { lines, next, more } = read::page(&self.folder, execution, from, bounds)?;
        Ok(Logs { lines, next: next.to_string(), more })
    }

    fn keep(&self, line: &LogLine<'_>) {
        let now = self.clock.now();
        let mut bytes = Vec::with_capacity(256 + line.message.len());
        line::write(&mut bytes, now, line, self.line_bytes_max);
        let wrote = {
            // A thread that panicked under this lock left at most a torn line, and `Segment::torn`
            // says so.
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.write(now, &bytes)
        };
        let counter = match &wrote {
            WriteOutcome::Line | WriteOutcome::Again(_) => &self.written,
            WriteOutcome::Dropped | WriteOutcome::Failed(_) => &self.dropped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        match wrote {
            WriteOutcome::Line | WriteOutcome::Dropped => {}
            WriteOutcome::Failed(error) => {
                let folder = self.folder.display();
                trouble!(always self.inner, error, folder = folder, error = error,
                    "function logs cannot be written; dropping them");
            }
            WriteOutcome::Again(dropped) => {
                let folder = self.folder.display();
                trouble!(always self.inner, warn, folder = folder, dropped = dropped,
                    "function logs can be written again");
            }
        }
    }
}

impl Observer for LogFile {
    fn logged(&self, line: LogLine<'_>) {
        self.keep(&line);
        self.inner.logged(line);
    }

    fn attempt_failed(&self, key: &JournalKey, failure: &Failure, then: AfterFailure) {
        self.inner.attempt_failed(key, failure, then);
    }

    fn ended(&self, key: &JournalKey, standing: Standing) {
        self.inner.ended(key, standing);
    }

    fn stuck(&self, key: &JournalKey, why: &str) {
        self.inner.stuck(key, why);
    }

    fn unresolved(&self, effect: &UnresolvedEffect) {
        self.inner.unresolved(effect);
    }

    fn trouble(&self, trouble: &Trouble<'_>) {
        self.inner.trouble(trouble);
    }
}

impl std::fmt::Debug for LogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogFile").field("folder", &self.folder).finish_non_exhaustive()
    }
}
