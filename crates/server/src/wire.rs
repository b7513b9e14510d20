//! Converts the engine's types to those of the wire.

use data_encoding::BASE64;
use indelible_api::call::{Failed, Payload as WirePayload};
use indelible_api::execution::{Execution, State, UsedFor};
use indelible_journal::{Codec, Failure, Payload, Timestamp};
use indelible_records::executions::{Execution as Row, Standing};
use indelible_records::idempotency_keys::Answer;
use serde_json::value::RawValue;

/// JSON as it is; anything else, and what claims to be JSON and is not, as bytes.
pub(crate) fn payload(payload: &Payload) -> (Option<Box<RawValue>>, Option<WirePayload>) {
    if payload.codec == Codec::JSON
        && let Ok(value) = serde_json::from_slice::<Box<RawValue>>(&payload.bytes)
    {
        return (Some(value), None);
    }
    let codec = payload.codec.to_string();
    (None, Some(WirePayload { codec, base64: BASE64.encode(&payload.bytes) }))
}

/// Why a function did not return.
pub(crate) fn failed(failure: &Failure) -> Failed {
    let detail = failure.detail.as_ref().filter(|detail| detail.codec == Codec::JSON);
    Failed {
        kind: failure.kind.to_string(),
        message: failure.message.clone(),
        detail: detail.and_then(|detail| serde_json::from_slice(&detail.bytes).ok()),
    }
}

/// How an execution stands.
pub(crate) fn state(standing: Standing) -> State {
    match standing {
        Standing::Running => State::Running,
        Standing::Blocked => State::Blocked,
        Standing::Cancelling => State::Cancelling,
        Standing::Stuck => State::Stuck,
        Standing::Completed => State::Completed,
        Standing::Failed => State::Failed,
        Standing::Cancelled => State::Cancelled,
        Standing::Indeterminate => State::Indeterminate,
    }
}

/// The same, the other way.
pub(crate) fn standing(state: State) -> Standing {
    match state {
        State::Running => Standing::Running,
        State::Blocked => Standing::Blocked,
        State::Cancelling => Standing::Cancelling,
        State::Stuck => Standing::Stuck,
        State::Completed => Standing::Completed,
        State::Failed => Standing::Failed,
        State::Cancelled => Standing::Cancelled,
        State::Indeterminate => Standing::Indeterminate,
    }
}

/// An execution as lists show it, with the start of the first attempt at it if this is a later one.
pub(crate) fn execution(row: &Row, namespace: &str, first: Option<Timestamp>) -> Execution {
    Execution {
        execution_id: row.key.execution_id().to_string(),
        namespace: namespace.to_owned(),
        function: row.function.to_string(),
        component_digest: row.component.to_string(),
        state: state(row.standing),
        created_at: row.created_at.to_string(),
        first_created_at: first.map(|first| first.to_string()),
        updated_at: row.updated_at.to_string(),
        attempts: row.key.attempts().to_string(),
        events: row.length,
        stuck: row.stuck.clone(),
        key: row.idempotency_key.as_deref().map(str::to_owned),
        labels: row
            .labels
            .iter()
            .map(|label| (label.name().to_owned(), label.value().to_owned()))
            .collect(),
        error: row.error.as_ref().map(|error| Failed {
            kind: error.kind.to_string(),
            message: error.message.clone(),
            detail: None,
        }),
    }
}

/// What a request was that is not a start, by its answer.
pub(crate) fn used_for(answer: Option<Answer>) -> UsedFor {
    match answer {
        Some(Answer::Delivered(_)) => UsedFor::Signal,
        Some(Answer::Cancelling(_)) => UsedFor::Cancel,
        Some(Answer::Deployed { .. }) => UsedFor::Deploy,
        Some(Answer::Done) | None => UsedFor::Command,
    }
}
