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

/// A person's decision on an unresolved effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// How it ended.
    pub resolution: Resolution,
    /// Why: kept in the audit record.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// How an unresolved effect ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Resolution {
    /// It happened, and this is what was answered.
    Happened {
        /// The status.
        #[schemars(range(min = 100, max = 999))]
        status: u16,
        /// The headers, as pairs of name and value.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<(String, String)>,
        /// The body, as text.
        #[serde(default)]
        body: String,
    },
    /// It did not happen.
    // With braces: otherwise serde passes over fields that do not belong here.
    DidNotHappen {},
    /// It is sent again: it may happen twice.
    RunAgain {},
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

/// Nothing to say: it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decision with fields that do not belong to it is refused.
    #[test]
    fn decisions_are_read_strictly() {
        let read = |text: &str| serde_json::from_str::<Resolution>(text);
        assert_eq!(read(r#"{"kind":"run_again"}"#).unwrap(), Resolution::RunAgain {});
        assert_eq!(read(r#"{"kind":"did_not_happen"}"#).unwrap(), Resolution::DidNotHappen {});
        for wrong in [
            r#"{"kind":"run_again","status":200}"#,
            r#"{"kind":"did_not_happen","body":""}"#,
            r#"{"kind":"happened","status":200,"x":1}"#,
            r#"{"kind":"other"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
