//! Signals, cancels, and people's decisions. Each is answered when it is durable, and done once
//! under a key.

use std::sync::Arc;

use indelible_api::call::Verdict;
use indelible_api::control::{self, Cancelling, Delivered, Reason};
use indelible_api::{Code, Problem};
use indelible_idempotency::ConsumerNamespace;
use indelible_journal::SignalName;
use indelible_runtime::{Attribution, CancelOutcome, PersonDecision, Receipt};
use serde::Serialize;

use crate::answer::Answer;
use crate::request::{ApiRequest, malformed};
use crate::state::{OwnedExecution, State};

/// The longest reason, in bytes: what the audit record keeps.
const REASON_BYTES_MAX: usize = indelible_runtime::AUDIT_TEXT_BYTES_MAX;

/// Sends a signal.
pub(super) async fn signal(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let name = SignalName::new(asked.param("signal"));
    let name = name.map_err(|error| malformed(format!("invalid signal name: {error}")))?;
    let payload = asked.any_json()?;
    let wanted = wanted(&asked, &found, String::new())?;
    let done = state.engine.signal(&execution, &name, payload, wanted).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &Delivered { delivery_id: done.value.get() }).id(&execution))
}

/// Asks an execution to end.
pub(super) async fn cancel(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let wanted = wanted(&asked, &found, reason(&asked)?)?;
    let done = state.engine.cancel(&execution, wanted).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    let already = done.value == CancelOutcome::Already;
    Ok(answer(&done, &Cancelling { already }).id(&execution))
}

/// Lets a stuck execution go on.
pub(super) async fn release(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let decided = decided(&asked, &found, reason(&asked)?)?;
    let done = state.engine.release(&execution, decided).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &control::Done {}).id(&execution))
}

/// Ends a stuck execution as failed.
pub(super) async fn fail(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let _waiter = state.waiter()?;
    let (execution, found) = state.execution(&asked).await?;
    let decided = decided(&asked, &found, reason(&asked)?)?;
    // Ending takes as long as the requests in flight, and a stop does not wait for it.
    let done = tokio::select! {
        done = state.engine.fail(&execution, decided) => done,
        () = state.draining() => return Err(Problem::new(Code::Stopping, "the server is stopping")),
    };
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &control::Done {}).id(&execution))
}

/// The reason in the body, if there is one.
fn reason(asked: &ApiRequest) -> Result<String, Problem> {
    let Reason { reason } = asked.optional_json()?;
    bounded(reason)
}

pub(super) fn bounded(reason: String) -> Result<String, Problem> {
    if reason.len() > REASON_BYTES_MAX {
        return Err(malformed(format!("reason must not exceed {REASON_BYTES_MAX} bytes")));
    }
    Ok(reason)
}

/// The reason of a decision, which has one.
pub(super) fn decision(reason: String) -> Result<String, Problem> {
    if reason.trim().is_empty() {
        return Err(malformed("reason is missing: a decision needs one"));
    }
    bounded(reason)
}

/// A command's idempotency key belongs to the namespace of the execution that it is about.
fn key_namespace(found: &OwnedExecution) -> Result<ConsumerNamespace, Problem> {
    ConsumerNamespace::new(found.namespace.as_str()).map_err(|_| {
        Problem::new(
            Code::ReservedNamespace,
            "a request about the server itself does not take an idempotency key",
        )
    })
}

fn wanted(
    asked: &ApiRequest,
    found: &OwnedExecution,
    reason: String,
) -> Result<Attribution, Problem> {
    let PersonDecision { actor, reason, key } = decided(asked, found, reason)?;
    Ok(Attribution { actor: Some(actor), reason, key })
}

pub(super) fn decided(
    asked: &ApiRequest,
    found: &OwnedExecution,
    reason: String,
) -> Result<PersonDecision, Problem> {
    let key = match asked.header(indelible_api::header::IDEMPOTENCY_KEY)? {
        None => None,
        Some(_) => asked.key(&key_namespace(found)?)?,
    };
    Ok(PersonDecision { actor: asked.caller.actor().clone(), reason, key })
}

/// What was done, and whether it had been done before.
pub(super) fn answer<T>(done: &Receipt<T>, body: &impl Serialize) -> Answer {
    let verdict = if done.prior { Verdict::PriorResult } else { Verdict::Fresh };
    Answer::ok(body).verdict(verdict)
}
