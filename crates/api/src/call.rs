//! Starting functions, and what comes of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a start under a key or operation id learned (see I-8, V-29 to V-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// It was new.
    Fresh,
    /// The operation goes on: the request is attached to it.
    InFlight,
    /// The operation was over: this is its result.
    PriorResult,
    /// The operation was over: this is its error.
    PriorError,
}

impl Verdict {
    /// The word, as it stands in a header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "Fresh",
            Self::InFlight => "InFlight",
            Self::PriorResult => "PriorResult",
            Self::PriorError => "PriorError",
        }
    }
}

/// A function that was started, or that a request was attached to. It is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// Its execution.
    pub execution_id: String,
    /// The id of the operation: sent again, it finds the same execution.
    pub operation_id: String,
    /// The namespace. Keys and operation ids are unique within it.
    pub namespace: String,
    /// What the request met.
    pub verdict: Verdict,
}

/// A function that has returned.
///
/// A function that failed, was cancelled, or whose outcome is unknown gives a problem document
/// instead: see [`Failed`].
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// Its execution.
    pub execution_id: String,
    /// The id of the operation; left out where the execution was asked for, and is no root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// What it returned, if that is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub result: Option<Box<RawValue>>,
    /// What it returned, if that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_payload: Option<Payload>,
}

/// An execution that goes on: where to ask for its outcome is in `Location`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StillRunning {
    /// Its execution.
    pub execution_id: String,
    /// The id of the operation; left out where the execution was asked for, and is no root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
}

/// Why a function did not return, as a problem document has it in `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failed {
    /// What a program can match on: `UserError`, `Trap`, `Timeout`, `Indeterminate` and so on.
    pub kind: String,
    /// For people.
    pub message: String,
    /// The function's own error value, if there is one and it is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<serde_json::Value>,
}

/// Bytes that are not JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Payload {
    /// How they are encoded: `raw`, `text`, `cbor` and so on.
    pub codec: String,
    /// The bytes, in base64 with padding.
    pub base64: String,
}

/// What is known of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Its id.
    pub operation_id: String,
    /// The namespace. The id is unique within it.
    pub namespace: String,
    /// The execution that it led to.
    pub execution_id: String,
    /// When it was accepted.
    pub accepted_at: String,
    /// Whether it goes on.
    pub in_progress: bool,
}
