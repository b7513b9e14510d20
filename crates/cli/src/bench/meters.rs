//! What this process uses: processor time, memory, disk. A figure that the system does not give is
//! none.
#![expect(clippy::disallowed_methods, reason = "meters read the system's files")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::report::round;

/// A reading of counters that only grow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// Processor time, user and system, of all threads.
    pub(super) cpu: Duration,
    /// Bytes that this process caused to be written to a disk.
    pub(super) written: Option<u64>,
}

impl Default for Usage {
    /// Zero, and known; a sum with an unknown figure is unknown.
    fn default() -> Self {
        Self { cpu: Duration::ZERO, written: Some(0) }
    }
}

impl Usage {
    pub(super) fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            cpu: Duration::new(
                u64::try_from(cpu.tv_sec).unwrap_or(0),
                u32::try_from(cpu.tv_nsec).unwrap_or(0),
            ),
            written: number("/proc/self/io", "write_bytes:"),
        }
    }

    /// The use since an earlier reading.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            written: self.written.zip(earlier.written).map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// The use in two stretches of time.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            written: self.written.zip(other.written).map(|(one, other)| one + other),
        }
    }
}

/// How much memory this process has now, in mebibytes.
pub(super) fn rss_mb() -> Option<f64> {
    rss_mb_of("self")
}

/// How much memory a process has now, in mebibytes.
pub(super) fn rss_mb_of(process: &str) -> Option<f64> {
    let kib = number(&format!("/proc/{process}/status"), "VmRSS:")?;
    Some(round(kib as f64 / 1024.0, 1))
}

/// How much memory this process has now, in bytes.
pub(super) fn rss_bytes() -> Option<u64> {
    number("/proc/self/status", "VmRSS:").map(|kib| kib * 1024)
}

/// The number after a name, in a file of `/proc`.
fn number(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

/// The size of a folder on disk, in bytes. Files may come and go meanwhile.
pub(super) fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let mut bytes = 0;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if gone(&error) => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Err(error) if gone(&error) => {}
                Err(error) => return Err(error),
                Ok(metadata) => {
                    bytes += metadata.blocks() * 512;
                    if metadata.is_dir() {
                        folders.push(entry.path());
                    }
                }
            }
        }
    }
    Ok(bytes)
}
