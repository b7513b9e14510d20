//! What functions logged, as it is shown afterwards. Logs are not durable: lines of the last
//! moments before a crash may come twice, and the oldest lines are deleted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How important a line is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The finest detail.
    Trace,
    /// For debugging.
    Debug,
    /// What happens.
    Info,
    /// Something an operator may want to look at.
    Warn,
    /// Something an operator has to look at.
    Error,
}

impl Level {
    /// Its word.
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
    /// When.
    pub at: String,
    /// Which execution: the one that was asked for, or one that it called.
    pub execution_id: String,
    /// Which attempt at it, from the root down to it: `1`, or `1.2`.
    pub attempts: String,
    /// How important.
    pub level: Level,
    /// The line as the function logged it: it may contain any character.
    pub message: String,
    /// The fields logged with it.
    pub fields: BTreeMap<String, String>,
    /// Whether it was too long: what is missing of a text is marked with `…`, and fields may be
    /// missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A page of lines, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Logs {
    /// The page. It may be empty although more follow.
    pub lines: Vec<LogLine>,
    /// Where to go on: `from` of the next request, now or later. It is always there.
    pub next: String,
    /// Whether more may be there already: ask again at once. If not, that was all that there is
    /// yet, and what is logged from now on comes behind `next`.
    pub more: bool,
}
