//! The log lines of functions, as the server shows them later. Logs are not durable: the last lines
//! before a crash may appear twice, and the oldest lines are deleted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The level of a line.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Finest detail.
    Trace,
    /// For debugging.
    Debug,
    /// Normal events.
    Info,
    /// Something that an operator may want to look at.
    Warn,
    /// Something that an operator has to look at.
    Error,
}

impl Level {
    /// The level in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// A line that a function logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// When the line was logged.
    pub at: String,
    /// The execution that logged it: the requested one, or one that it called.
    pub execution_id: String,
    /// The attempts, from the root down to that execution: `1`, or `1.2`.
    pub attempts: String,
    /// The level.
    pub level: Level,
    /// The text as the function logged it. It may contain any character.
    pub message: String,
    /// The fields of the line.
    pub fields: BTreeMap<String, String>,
    /// Whether the line was too long and was cut: `…` marks where a text was cut, and fields may be
    /// missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A page of lines, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Logs {
    /// The lines. A page may be empty although more follow.
    pub lines: Vec<LogLine>,
    /// Where to continue: `from` of the next request, now or later. It is always present.
    pub next: String,
    /// Whether there may be more lines already: ask again at once. If false, these were the last so
    /// far, and new lines come after `next`.
    pub more: bool,
}
