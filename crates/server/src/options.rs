//! What can be configured of the server. Every bound is here, by name, with its default.

use std::time::Duration;

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most requests under way, those that wait included: past it, further ones are refused.
    /// Each holds a few kilobytes and its body.
    pub requests_max: usize,
    /// The most requests that wait for an outcome or for events.
    pub waiters_max: usize,
    /// The most bytes of a JSON body: as large as a payload may be, and a little more.
    pub body_bytes_max: usize,
    /// The most bytes of a component.
    pub component_bytes_max: usize,
    /// The most bytes of large answers that wait to be read, of all connections together.
    pub answer_bytes_max: usize,
    /// For how long a body may take.
    pub body_time_max: Duration,
    /// For how long a backup may take. Until it ends, its snapshot keeps old data from being
    /// cleaned up.
    pub backup_time_max: Duration,
    /// The most bytes of a file of function logs.
    pub log_segment_bytes: u64,
    /// The most such files; the oldest goes.
    pub log_segments_max: usize,
    /// The most bytes of such a line; what is longer is cut. At most 128 KiB.
    pub log_line_bytes_max: usize,
    /// The most requests that search such files at a time.
    pub log_readers_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            requests_max: 16_384,
            waiters_max: 12_288,
            body_bytes_max: (4 << 20) + (64 << 10),
            component_bytes_max: 32 << 20,
            answer_bytes_max: 256 << 20,
            body_time_max: Duration::from_secs(30),
            backup_time_max: Duration::from_secs(3_600),
            log_segment_bytes: 8 << 20,
            log_segments_max: 8,
            log_line_bytes_max: 32 << 10,
            log_readers_max: 2,
        }
    }
}
