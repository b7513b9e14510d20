//! Asks a reconciler whether an effect happened (D5). A reconciler is a function of the effect's
//! component, run as the root of its own tree, once for each question. Its operation id names the
//! question, so that asking again after a crash finds the same execution.

use bytes::Bytes;
use data_encoding::BASE64;
use indelible_http::{Part, Request, Response};
use indelible_journal::{
    Attempt, ComponentDigest, Ending, Event, ExecutionId, JournalKey, Namespace, OpenInvoke,
    OperationId, OperationKey, Payload, RootHash, Started,
};
use indelible_machine::CallerId;
use indelible_operations::Binding;
use indelible_records::labels::Labels;
use indelible_records::operations::{self, Operation};
use indelible_records::{executions, journals};
use serde::{Deserialize, Serialize};

use crate::Tree;
use crate::context::Cx;
use crate::effects::{idempotency_key, minted};
use crate::input::{Input, ReconcilerReply, Request as TreeRequest, Start};
use crate::operation::OperationRequest;
use crate::output::Outgoing;

/// The namespace of questions, in which only this module starts operations.
pub const NAMESPACE: &str = indelible_slots::RECONCILE_NAMESPACE;

/// The header of idempotency keys.
const KEY_HEADER: &str = "idempotency-key";

/// The answer of a reconciler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReconcilerAnswer {
    /// The effect happened, and this was, or would have been, the response.
    Happened(Response),
    /// The effect did not happen.
    DidNotHappen,
    /// The reconciler cannot say, or has failed.
    NotKnownYet,
}

impl ReconcilerAnswer {
    /// The answer, for people.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Happened(_) => "it happened",
            Self::DidNotHappen => "it did not happen",
            Self::NotKnownYet => "not known yet",
        }
    }
}

/// What came of asking.
pub(crate) enum QuestionOutcome {
    /// The question is asked by sending this input to this tree.
    Start(RootHash, Box<Input>),
    /// The question was asked before, and is not answered.
    UnderWay,
    /// The question was answered before, or there is no reconciler to ask.
    ReconcilerAnswer(ReconcilerAnswer),
}

/// Identifies a question.
pub(crate) struct QuestionId<'a> {
    pub(crate) key: &'a JournalKey,
    pub(crate) child: u32,
    pub(crate) attempt: Attempt,
    pub(crate) question: u32,
}

/// A question, as a reconciler gets it.
#[derive(Serialize)]
struct Question<'a> {
    idempotency_key: String,
    attempt: u32,
    question: u32,
    method: &'a str,
    url: &'a str,
    headers: Vec<(&'a str, String)>,
    #[serde(flatten)]
    body: Body,
}

/// Bytes in JSON: as text if they are UTF-8, else as base64.
#[derive(Serialize, Deserialize, Default)]
struct Body {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Happened(HttpAnswerDocument),
    DidNotHappen,
    NotKnownYet,
}

#[derive(Deserialize)]
struct HttpAnswerDocument {
    status: u16,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(flatten)]
    body: Body,
}

impl Body {
    fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { body: Some(text), body_base64: None },
            Err(error) => Self { body: None, body_base64: Some(BASE64.encode(error.as_bytes())) },
        }
    }

    fn bytes(self) -> Option<Bytes> {
        match (self.body, self.body_base64) {
            (Some(text), None) => Some(text.into()),
            (None, Some(text)) => BASE64.decode(text.as_bytes()).ok().map(Bytes::from),
            (None, None) => Some(Bytes::new()),
            (Some(_), Some(_)) => None,
        }
    }
}

/// Parts as a reconciler sees them: secrets by their names.
pub(crate) fn shown(parts: &[Part]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => all.extend_from_slice(bytes),
            Part::Secret(name) => all.extend_from_slice(format!("[secret {name}]").as_bytes()),
        }
    }
    all
}

/// The operation id of a question: child, attempt, number of the question, whose effect it is
/// about, and the slot of the execution that asks, to which the answer goes (C-77).
pub(crate) fn operation_id(which: &QuestionId<'_>) -> OperationId {
    let QuestionId { key, child, attempt, question } = which;
    let whose = minted(["reconcile", &key.to_string()]);
    let slot = key.execution_id().root().slot();
    let id = format!("{child}.{attempt}.{question}.{whose}.{slot}");
    OperationId::new(&id).expect("numbers and a hash are a name")
}

/// The child that a question is about.
pub(crate) fn child_of(operation_id: &OperationId) -> Option<u32> {
    operation_id.as_str().split('.').next()?.parse().ok()
}

/// Asks a question, or finds its answer.
pub(crate) fn ask(
    cx: Cx<'_>,
    own: ComponentDigest,
    open: &OpenInvoke,
    which: &QuestionId<'_>,
    request: &Payload,
) -> Result<QuestionOutcome, String> {
    let namespace = Namespace::new(NAMESPACE).expect("it is a name");
    let operation = OperationKey { namespace, operation_id: operation_id(which) };
    let known = operations::get(&cx.reads, &operation).map_err(|error| error.to_string())?;
    if let Some(known) = known.value {
        return found(cx, &known.record);
    }
    let nobody = QuestionOutcome::ReconcilerAnswer(ReconcilerAnswer::NotKnownYet);
    let Some(reconciler) = &open.retry_policy.reconciler else { return Ok(nobody) };
    let request = Request::decode(&request.bytes).map_err(|error| error.to_string())?;
    let header = |header: &indelible_http::Header| {
        String::from_utf8_lossy(&shown(&header.value)).into_owned()
    };
    let asked = Question {
        idempotency_key: key_sent(&request, open),
        attempt: which.attempt.get(),
        question: which.question,
        method: &request.method,
        url: &request.url,
        headers: request.headers.iter().map(|h| (h.name.as_str(), header(h))).collect(),
        body: Body::of(shown(&request.body)),
    };
    let input = Payload::json(serde_json::to_vec(&asked).expect("texts and numbers are JSON"));
    if input.bytes.len() > cx.limits.payload_bytes_max {
        // The JSON is larger than the request was, and than an input may be.
        return Ok(nobody);
    }
    let name = reconciler.function.as_str();
    let Some((function_name, retry_policy)) = cx.surroundings.function(&own, name)? else {
        return Ok(nobody);
    };
    let asker = which.key.execution_id();
    let root = RootHash::derive(&own, Some(asker), &operation);
    let first = JournalKey::first(ExecutionId::root_of(root));
    // The question's record may be purged while its execution is still stored.
    let stored = executions::latest(&cx.reads, first.execution_id());
    if let Some(row) = stored.map_err(|error| error.to_string())?.value {
        return stands(cx, &row);
    }
    let binding = Binding::of(name, &input);
    let started = Started {
        component_digest: own,
        function_name,
        input,
        parent_id: Some(asker.clone()),
        idempotency_key: Some(operation.clone()),
        attempts: first.attempts().clone(),
        limits: cx.limits.guest,
        retry_policy: Some(retry_policy),
        trace_parent: None,
    };
    let request = OperationRequest { operation, root, binding, keyed: None };
    let labels = Labels::default();
    let start = Start { started, request, again: false, actor: None, kept: true, labels };
    // No caller waits for the reply to this start: the answer comes at the question's end.
    let start = Input::Asked(CallerId::NONE, TreeRequest::Start(Box::new(start)));
    Ok(QuestionOutcome::Start(root, Box::new(start)))
}

/// The `Idempotency-Key` that a request was sent with: its own header, or the minted key.
pub(crate) fn key_sent(request: &Request, open: &OpenInvoke) -> String {
    let own = |header: &&indelible_http::Header| header.name.eq_ignore_ascii_case(KEY_HEADER);
    match request.headers.iter().find(own) {
        Some(header) => String::from_utf8_lossy(&shown(&header.value)).into_owned(),
        None => idempotency_key(&open.promise_id),
    }
}

/// What became of a question that was asked before.
fn found(cx: Cx<'_>, record: &Operation) -> Result<QuestionOutcome, String> {
    let execution = record.execution_id();
    let row = executions::latest(&cx.reads, &execution).map_err(|error| error.to_string())?;
    match row.value {
        Some(row) => stands(cx, &row),
        // Retention has purged the tree, and left its outcome in the record.
        None => Ok(QuestionOutcome::ReconcilerAnswer(match record.ending() {
            Some(Ending::Completed(result)) => read(&result),
            _ => ReconcilerAnswer::NotKnownYet,
        })),
    }
}

/// What became of a question whose execution has this row.
fn stands(cx: Cx<'_>, row: &executions::Execution) -> Result<QuestionOutcome, String> {
    if !row.standing.is_terminal() {
        return Ok(QuestionOutcome::UnderWay);
    }
    let last = row.length.saturating_sub(1);
    let page = journals::read(&cx.reads, &row.key, last, 1).map_err(|e| e.to_string())?;
    let answered = match page.value.records.into_iter().last().map(|record| record.event) {
        Some(Event::ExecutionCompleted { result }) => read(&result),
        _ => ReconcilerAnswer::NotKnownYet,
    };
    Ok(QuestionOutcome::ReconcilerAnswer(answered))
}

/// The answer that a reconciler returned. A result that does not decode is no answer.
fn read(result: &Payload) -> ReconcilerAnswer {
    match serde_json::from_slice(&result.bytes) {
        Ok(Answer::Happened(answer)) => {
            let HttpAnswerDocument { status, headers, body } = answer;
            let header = |(name, value): (String, String)| (name.to_lowercase(), value.into());
            match body.bytes() {
                Some(body) if (100..=999).contains(&status) => {
                    ReconcilerAnswer::Happened(Response {
                        status,
                        headers: headers.into_iter().map(header).collect(),
                        body,
                    })
                }
                _ => ReconcilerAnswer::NotKnownYet,
            }
        }
        Ok(Answer::DidNotHappen) => ReconcilerAnswer::DidNotHappen,
        Ok(Answer::NotKnownYet) | Err(_) => ReconcilerAnswer::NotKnownYet,
    }
}

impl Tree {
    /// Whether the tree of an execution is a question to a reconciler.
    pub(crate) fn reconciles(&mut self, cx: Cx<'_>, key: &JournalKey) -> bool {
        if let Some(known) = self.reconciles {
            return known;
        }
        let operation = match self.root_started(cx, key) {
            Some(root) => root.idempotency_key,
            // If the root cannot be read, the stricter rules of a question hold.
            None => return true,
        };
        let known = operation.is_some_and(|operation| operation.namespace.as_str() == NAMESPACE);
        self.reconciles = Some(known);
        known
    }

    /// A root has ended. If it was a question, the execution that asked is told when the end is
    /// durable; if the process dies before that, the timer makes that execution ask again.
    pub(crate) fn answer_asker(&mut self, key: &JournalKey, ending: &Ending) {
        let Some(started) = self.execution(key).journal.started() else { return };
        let (Some(asker), Some(operation)) = (&started.parent_id, &started.idempotency_key) else {
            return;
        };
        if operation.namespace.as_str() != NAMESPACE {
            return;
        }
        let (asker, operation_id) = (asker.clone(), operation.operation_id.clone());
        let answered = match ending {
            Ending::Completed(result) => read(result),
            _ => ReconcilerAnswer::NotKnownYet,
        };
        let root = *asker.root();
        let answer = ReconcilerReply { execution: asker, operation_id, answered };
        let word = Input::ReconcilerReply(Box::new(answer));
        self.pending.outgoing.push(Outgoing::Tell(root, word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_read_or_are_none() {
        let answer = |text: &str| read(&Payload::json(text.to_owned()));
        assert_eq!(answer("\"did-not-happen\""), ReconcilerAnswer::DidNotHappen);
        assert_eq!(answer("\"not-known-yet\""), ReconcilerAnswer::NotKnownYet);
        let response = |body: &'static [u8]| Response {
            status: 201,
            headers: vec![("a".into(), "b".into())],
            body: Bytes::from_static(body),
        };
        assert_eq!(
            answer(r#"{"happened":{"status":201,"headers":[["A","b"]],"body":"{}"}}"#),
            ReconcilerAnswer::Happened(response(b"{}"))
        );
        assert_eq!(
            answer(r#"{"happened":{"status":201,"headers":[["A","b"]],"body_base64":"/w=="}}"#),
            ReconcilerAnswer::Happened(response(b"\xff"))
        );
        for nonsense in [
            "",
            "true",
            r#"{"happened":{}}"#,
            r#"{"happened":{"status":7}}"#,
            r#"{"happened":{"status":200,"body_base64":"?"}}"#,
            r#"{"happened":{"status":200,"body":"","body_base64":""}}"#,
        ] {
            assert_eq!(answer(nonsense), ReconcilerAnswer::NotKnownYet, "{nonsense}");
        }
    }
}
