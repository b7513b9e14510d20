//! Identity: the place of a promise in the tree of calls (J-1 to J-5, C-31, C-32).
//!
//! Ids depend on position alone, so that a replay makes the same ids again (J-2). They know nothing
//! of keys, of storage, or of versions of a component other than the digest that a root was started
//! with.

mod digest;
mod execution;
mod join_set;
mod promise;
#[cfg(test)]
mod tests;

pub use digest::{ComponentDigest, RootHash};
pub use execution::{Attempt, Attempts, ExecutionId, JournalKey};
pub use join_set::JoinSetId;
pub use promise::{DEPTH_MAX, PromiseId};

/// Why a text or a set of parts is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// A 32-byte hash is written as 64 lower-case hexadecimal digits.
    #[error("invalid hash: use 64 lower-case hexadecimal digits")]
    Hash,
    /// A path segment is a decimal `u32` without sign or leading zeros.
    #[error("`{0}` is not a child number (0 to 4294967295, no leading zeros)")]
    Segment(String),
    /// More path segments than a tree may be deep.
    #[error("the path is deeper than {DEPTH_MAX} calls")]
    TooDeep,
    /// An attempt is a decimal `u32` from 1.
    #[error("`{0}` is not an attempt (1 to 4294967295, no leading zeros)")]
    Attempt(String),
    /// A journal's key has one attempt for the root and one for each path segment.
    #[error("{attempts} attempts for an execution at depth {depth}: there must be {}", depth + 1)]
    AttemptCount {
        /// How many attempts were given.
        attempts: usize,
        /// How deep the execution is.
        depth: usize,
    },
    /// A journal's key is an execution id, `@`, and the attempts.
    #[error("invalid journal key: use ID@ATTEMPTS, such as 1f…9c.0.2@1.1.1")]
    KeyWithoutAttempts,
}

/// Keeps hostile text out of an error message: a short, printable excerpt.
fn excerpt(text: &str) -> String {
    text.chars().take(16).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A decimal `u32` in its one canonical spelling.
fn parse_u32(text: &str) -> Option<u32> {
    let canonical = text == "0" || (!text.starts_with('0') && !text.is_empty());
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    (canonical && digits).then(|| text.parse().ok()).flatten()
}
