//! The body of an error response: a problem document (RFC 9457).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Failed, Verdict};
use crate::code::Code;
use crate::ledger::Refusal;

/// The media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// An error response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The kind of problem, as a URI: `urn:indelible:error:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// A title, the same for every problem with this code.
    pub title: String,
    /// The HTTP status of the response.
    pub status: u16,
    /// A stable code, for programs to match on. `indelible explain CODE` explains it.
    pub code: Code,
    /// What is wrong with this request.
    pub detail: String,
    /// Whether the same request may succeed later. Sent again with the same key or operation id, it
    /// has no second effect.
    pub retryable: bool,
    /// The execution that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// The operation that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// What the request met under its operation id or idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How the function failed, if that is the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failed>,
    /// Why a transaction was not applied, if that is the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Box<Refusal>>,
}

impl Problem {
    /// A problem of this code.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("{URN}{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            detail: detail.into(),
            retryable: code.is_retryable(),
            execution_id: None,
            operation_id: None,
            verdict: None,
            error: None,
            refusal: None,
        }
    }
}

const URN: &str = "urn:indelible:error:";

#[cfg(test)]
mod tests {
    use super::*;

    /// The document as clients see it.
    #[test]
    fn a_problem_on_the_wire() {
        let problem = Problem::new(Code::InFlight, "it goes on");
        let text = serde_json::to_string(&problem).expect("it is JSON");
        assert_eq!(
            text,
            r#"{"type":"urn:indelible:error:in-flight","title":"The operation is still running","status":409,"code":"in-flight","detail":"it goes on","retryable":true}"#
        );
        let read: Problem = serde_json::from_str(&text).expect("it reads");
        assert_eq!(read, problem);
    }

    /// A code that this version does not know is an error of its own kind, not of another.
    #[test]
    fn an_unknown_code() {
        let text = r#"{"type":"x","title":"t","status":418,"code":"teapot","detail":"","retryable":false}"#;
        let read: Problem = serde_json::from_str(text).expect("it reads");
        assert_eq!(read.code, Code::Unknown);
    }
}
