//! Journals as JSON Lines: the export for people and tools, and the way back.
//!
//! One line is one event and needs no other line, so lines of several executions may be mixed in
//! one file. `docs/formats/journal-jsonl.md` describes the format. It is exact: what is read back
//! equals what was written, down to the bytes of every payload.
//!
//! This module knows nothing of files, and checks no order: [`crate::Journal`] decides whether an
//! event may follow those before it.
//!
//! - `wire`: what a line looks like, as separate types. The domain's types promise nothing to
//!   readers of files; these do.
//! - `parts`: how wire types are read more strictly than `serde` does by itself.
//! - `export`, `import`: the two conversions.

mod export;
mod import;
mod parts;
mod wire;

#[cfg(test)]
mod tests;

pub use export::write_line;
pub use import::parse_line;

/// The version that is written, and the only one that is read.
pub const VERSION: u64 = 2;

/// The last commit of this project that reads lines of version 1, whose ids have no slots.
const LAST_TO_READ_1: &str = "98696c0";

/// Why a line is not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ParseError {
    /// Where in the line reading stopped, in bytes from 1: at the offending token, or right
    /// after a value that was read and refused.
    pub column: usize,
    /// Why, for people: one short line, free of control characters whatever the input was.
    pub message: String,
}
