//! What is unknown: effects and lost calls of which it is, or was, unknown whether they happened.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An effect or a lost call of which it is, or was, unknown whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unresolved {
    /// Its promise: what is resolved.
    pub promise_id: String,
    /// The execution that it belongs to.
    pub execution_id: String,
    /// Which attempts at the execution and its callers, such as `1` or `1.2`.
    pub attempts: String,
    /// The namespace of its tree.
    pub namespace: String,
    /// The function whose request or call it is.
    pub function: String,
    /// The idempotency key that the caller of the tree's root gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The labels of the root, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What it is: method and address, or the function that was called.
    pub label: String,
    /// The attempt whose outcome is unknown.
    pub attempt: u32,
    /// Since when.
    pub since: String,
    /// Why the outcome is unknown.
    pub why: String,
    /// What has become of it.
    pub state: UnresolvedState,
    /// The `Idempotency-Key` that the other side got; none of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_key: Option<String>,
    /// How it was settled; only if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
}

/// What has become of something whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnresolvedState {
    /// Its execution waits for a person.
    Held,
    /// Its execution waits for its reconciler, which is being asked.
    Asking,
    /// It ended as Indeterminate, and its execution went on or ended. The question is open.
    Ended,
    /// It is known, or accepted as unknown.
    Settled,
}

impl UnresolvedState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Held, Self::Asking, Self::Ended, Self::Settled];

    /// Its word in JSON, in queries and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Asking => "asking",
            Self::Ended => "ended",
            Self::Settled => "settled",
        }
    }
}

/// How a question was settled. It is settled once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settled {
    /// What is known now.
    pub finding: Finding,
    /// The status of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Who settled it: a person's credential, `reconciler`, or `peer` for an answer that came late.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: String,
}

/// What is known of something when it is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It happened.
    Happened,
    /// It did not happen.
    DidNotHappen,
    /// A person had it run again.
    RunAgain,
    /// It stays unknown.
    AcceptedUnknown,
}

/// A page of what is unknown, the oldest first; what is settled comes last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnresolvedPage {
    /// The page. It may be shorter than asked for although more follow.
    pub unresolved: Vec<Unresolved>,
    /// Where to go on: `cursor` of the next request. None: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Something whose outcome is unknown, with what a person needs to find out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnresolvedDetail {
    /// What it is, and what has become of it.
    #[serde(flatten)]
    pub unresolved: Unresolved,
    /// The operation of the tree's root.
    pub operation_id: String,
    /// What the function was called with.
    pub input: Excerpt,
    /// The request as it was sent; none of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<SentRequest>,
    /// The input of a lost call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Excerpt>,
    /// The attempts that are known, the last one last.
    pub tried: Vec<Tried>,
    /// What the reconciler said, the last answer last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ReconcilerAnswer>,
    /// The execution that it belongs to and its callers, up to the root, as they are now. Those that
    /// are not kept any more are left out.
    pub callers: Vec<CallerState>,
}

/// A request as it was sent; secrets stand there by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentRequest {
    /// The method.
    pub method: String,
    /// The address.
    pub url: String,
    /// The `Idempotency-Key` that the other side got.
    pub idempotency_key: String,
    /// The headers, as pairs of name and value.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Excerpt,
}

/// An attempt whose outcome is unknown, or that came before one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// Its number.
    pub attempt: u32,
    /// When it was started.
    pub started: String,
    /// How it ended.
    pub end: String,
}

/// An answer of a reconciler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReconcilerAnswer {
    /// When it came.
    pub at: String,
    /// What it said.
    pub answer: String,
}

/// An execution that waits, or has ended, because of something unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallerState {
    /// The execution.
    pub execution_id: String,
    /// Its function.
    pub function: String,
    /// Its state.
    pub state: crate::execution::State,
}

/// The beginning of some bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// How many bytes there are in all.
    pub bytes: u64,
    /// The beginning, if all of it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The beginning in base64, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The SHA-256 of all of it, if more than the beginning was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A person's decision about something whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// How it ended.
    pub resolution: Resolution,
    /// Why: kept in the audit record.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// The attempt that the decision is about. It is refused if another attempt is in doubt by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub attempt: Option<u32>,
}

/// What a person found out.
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
    /// It is sent again: it may happen twice. Only while its execution waits for the decision.
    RunAgain {},
    /// It cannot be found out: it stays unknown, and the question is closed.
    AcceptUnknown {},
}

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
