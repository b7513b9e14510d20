//! Signals, cancels, and what people decide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A signal that was sent. It is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivered {
    /// Its number among those of its name, from 1.
    pub delivery_id: u64,
}

/// Why something is done: kept in the audit record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// For people.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub reason: String,
}

/// What a cancel came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelling {
    /// Whether the execution was being cancelled already.
    pub already: bool,
}

/// That the server takes requests and can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// Whether damage was found in the data folder since the server started. Requests that need a
    /// damaged row get the code `damaged`; all others are served.
    pub damaged: bool,
}

/// The clock by which records and finished executions are deleted, beside the server's wall clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionClock {
    /// What the retention clock says, RFC 3339.
    pub retention_clock: String,
    /// What the wall clock says.
    pub wall_clock: String,
    /// By how many seconds the wall clock is ahead of the retention clock; less than 0 if it is
    /// behind. What would be deleted by the wall clock is deleted by so much later.
    pub lag_seconds: i64,
}

/// An operator says that the server's wall clock is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmClock {
    /// What time it is by the operator's own clock, RFC 3339: the server's may differ by ten minutes.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// Why: kept in the audit record.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// Whether the server is on hold or closed to unknown keys and ids, and what would go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hold {
    /// Whether it is: everything is shown, and nothing goes on until an operator lifts the hold.
    pub on_hold: bool,
    /// Whether this process was started paused. Lifting that lasts until the process ends.
    pub paused: bool,
    /// What the data folder was restored from, if the server is on hold or closed because of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// Until when the server is closed to keys and operation ids that it does not know, RFC 3339:
    /// the data folder was restored, and what was accepted under them may have been forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_until: Option<String>,
    /// Executions that are not over, stuck ones included, of all namespaces; of each state at most
    /// 10,000 are counted.
    pub unfinished: u64,
    /// Open questions: requests and calls of which it is unknown whether they happened; at most
    /// 10,000 are counted.
    pub unresolved: u64,
}

/// What a data folder was restored from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// When it was restored, RFC 3339.
    pub at: String,
    /// When the backup was made. The data folder knows nothing of what happened after that.
    pub backup_made_at: String,
}

/// An operator lets the server go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LiftHold {
    /// Why: kept in the audit record.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// That the server goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lifted {
    /// Whether it was neither on hold nor closed, so that nothing has changed.
    pub already: bool,
}

/// Nothing to say: it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}
