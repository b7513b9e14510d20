//! What is shown of executions. Whatever is shown is durable.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::call::{Failed, Operation, Payload};

/// How an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The guest runs, or could.
    Running,
    /// The guest waits.
    Blocked,
    /// A cancel was requested; the guest may clean up.
    Cancelling,
    /// It does not go on by itself: a person has to look.
    Stuck,
    /// The function returned.
    Completed,
    /// The function failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It is unknown whether something that it did happened, and that was its outcome.
    Indeterminate,
}

impl State {
    /// Whether it is over.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Indeterminate)
    }
}

/// An execution, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// Its id.
    pub execution_id: String,
    /// The namespace of the operation that its tree belongs to.
    pub namespace: String,
    /// The function that it runs.
    pub function: String,
    /// The version that it runs, for life.
    pub component_digest: String,
    /// How it stands.
    pub state: State,
    /// When it was started: this attempt at it.
    pub created_at: String,
    /// When the first attempt at it was started, if this is a later one. A tree has each attempt by
    /// itself, and does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_created_at: Option<String>,
    /// When something last happened to it.
    pub updated_at: String,
    /// Which attempt this is, from the root down to it: `1`, or `1.2`.
    pub attempts: String,
    /// How many events its journal has.
    pub events: u64,
    /// Why it is stuck, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// The idempotency key under which it was started, if it was under one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its labels: those of its start, and those that its function has set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Why it failed or was cancelled, if it did: without detail, and with a long message cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failed>,
}

impl Execution {
    /// When it was started, whichever attempt this is.
    pub fn started_at(&self) -> &str {
        self.first_created_at.as_deref().unwrap_or(&self.created_at)
    }
}

/// An execution, whole.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// As lists show it.
    pub execution: Execution,
    /// The operation that its tree belongs to.
    pub operation_id: String,
    /// The execution that called it; a root has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// What it was given, if that is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub input: Option<Box<RawValue>>,
    /// What it was given, if that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_payload: Option<Payload>,
    /// What it waits for now; nothing if it runs or is over.
    pub waits_for: Vec<Wait>,
    /// Since when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<String>,
    /// What it returned, if it did and that is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub result: Option<Box<RawValue>>,
    /// What it returned, if that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_payload: Option<Payload>,
    /// Why it failed or was cancelled, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failed>,
}

/// One thing that an execution waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// What it is.
    pub kind: WaitKind,
    /// Its promise, if it has one already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise_id: Option<String>,
    /// What is called, requested or awaited: a function, method and address, the name of a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Which attempt is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Since when, where that differs from `waits_since`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When it happens: a timer, or the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// Why it is unknown whether it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What an execution can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A call of a function.
    Call,
    /// An HTTP request.
    Http,
    /// An HTTP request of unknown outcome: its reconciler is being asked.
    Reconciling,
    /// An HTTP request of unknown outcome: a person has to decide.
    Unresolved,
    /// A timer.
    Timer,
    /// A signal.
    Signal,
    /// A join set: the next of several calls.
    JoinSet,
}

/// A page of executions, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Executions {
    /// The page. It may be shorter than asked for although more follow.
    pub executions: Vec<Execution>,
    /// Where to go on: `cursor` of the next request. None: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// If they were asked for by idempotency key: what the key was used for. None: it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyUse>,
}

/// What an idempotency key was used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyUse {
    /// The kind of request.
    pub used_for: UsedFor,
    /// The operation, if it was a start. Its execution is in the list, unless it is no longer kept,
    /// or is in memory alone; its outcome is at `/v1/operations/{operation}/outcome` all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
}

/// What a request under an idempotency key can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsedFor {
    /// The start of a function.
    Start,
    /// A signal.
    Signal,
    /// A cancel.
    Cancel,
    /// A deployment.
    Deploy,
    /// Another command: a person's decision, for instance.
    Command,
}

/// A page of events of a journal. Each is an object as `docs/formats/journal-jsonl.md` has it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// The page.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub events: Vec<Box<RawValue>>,
    /// Where to go on: `from` of the next request. None: that was all that there is yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}
