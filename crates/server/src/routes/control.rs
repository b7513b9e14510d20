//! Signals, cancels, and people's decisions. Each is answered when it is durable, and done once
//! under a key.

use std::sync::Arc;

use bytes::Bytes;
use indelible_api::call::Verdict;
use indelible_api::control::{self, Cancelling, Delivered, Reason, Resolve};
use indelible_api::execution::{UnresolvedEffect, UnresolvedEffects};
use indelible_api::{Code, Problem};
use indelible_http::Response;
use indelible_idempotency::ConsumerNamespace;
use indelible_journal::{JournalKey, Namespace, PromiseId, SignalName};
use indelible_runtime::{
    Attribution, CancelOutcome, EngineError, Lane, PersonDecision, Reads, Receipt, Resolution,
};
use serde::Serialize;

use crate::answer::Answer;
use crate::refusal::not_found;
use crate::request::{ApiRequest, domain, malformed};
use crate::seal::Seal;
use crate::state::{OwnedExecution, State};

/// The longest reason, in bytes: what the audit record keeps.
const REASON_BYTES_MAX: usize = indelible_runtime::AUDIT_TEXT_BYTES_MAX;

/// How many unresolved effects one page looks at; those of other namespaces are skipped. Up to
/// three reads each: a page takes some milliseconds.
const UNRESOLVED_LOOKED_AT_MAX: usize = 100;

/// Sends a signal.
pub(super) async fn signal(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let name = SignalName::new(asked.param("signal"));
    let name = name.map_err(|error| malformed(format!("invalid signal name: {error}")))?;
    let payload = asked.any_json()?;
    let wanted = wanted(&asked, &found, String::new())?;
    let done = state.engine.signal(&execution, &name, payload, wanted).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &Delivered { delivery_id: done.value.get() }))
}

/// Asks an execution to end.
pub(super) async fn cancel(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let wanted = wanted(&asked, &found, reason(&asked)?)?;
    let done = state.engine.cancel(&execution, wanted).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &Cancelling { already: done.value == CancelOutcome::Already }))
}

/// Lets a stuck execution go on.
pub(super) async fn release(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let decided = decided(&asked, &found, reason(&asked)?)?;
    let done = state.engine.release(&execution, decided).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &control::Done {}))
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
    Ok(answer(&done, &control::Done {}))
}

/// Resolves an effect: a person says how it ended.
pub(super) async fn resolve(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let promise = asked.param("promise").parse::<PromiseId>();
    let promise = promise.map_err(|_| malformed("the promise id in the path is invalid"))?;
    let execution = promise.parent().ok_or_else(not_found)?;
    let found = state.find(&asked, &execution).await?;
    let Resolve { resolution, reason } = asked.json()?;
    let reason = decision(reason)?;
    let resolution = match resolution {
        control::Resolution::DidNotHappen {} => Resolution::DidNotHappen,
        control::Resolution::RunAgain {} => Resolution::RunAgain,
        control::Resolution::Happened { status, headers, body } => {
            if !(100..=999).contains(&status) {
                return Err(malformed("status must be a number from 100 to 999"));
            }
            let headers = headers.into_iter().map(|(name, value)| (name, Bytes::from(value)));
            let (headers, body) = (headers.collect(), Bytes::from(body));
            Resolution::Happened(Response { status, headers, body })
        }
    };
    let decided = decided(&asked, &found, reason)?;
    let done = state.engine.resolve(&promise, resolution, decided).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &control::Done {}))
}

/// Lists unresolved effects.
pub(super) async fn unresolved(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespace = domain(&asked.namespace()?);
    let limit = asked.limit();
    let after = match asked.query("cursor") {
        None => None,
        Some(text) => {
            let place = state.seal.open_text(text).and_then(|text| place(&text));
            Some(place.ok_or_else(|| {
                malformed("cursor was not issued for this list; leave it out to begin anew")
            })?)
        }
    };
    // Only the seal is captured: a read that waits in its lane must not keep the engine alive.
    let seal = Arc::clone(&state.seal);
    let answer = state.read(Lane::Lists, move |reads| {
        let page = unresolved_page(&seal, reads, after.as_ref(), limit, &namespace)?;
        Ok(Answer::ok(&page))
    });
    answer.await
}

/// A page of a namespace's effects after `after`. If it was filled by effects of other namespaces,
/// its cursor continues after those.
fn unresolved_page(
    seal: &Seal,
    reads: &Reads<'_>,
    after: Option<&(JournalKey, PromiseId)>,
    limit: usize,
    namespace: &Namespace,
) -> Result<UnresolvedEffects, EngineError> {
    let after = after.map(|(key, promise)| (key, promise));
    let rows = reads.unresolved_after(after, UNRESOLVED_LOOKED_AT_MAX)?;
    let full = rows.len() == UNRESOLVED_LOOKED_AT_MAX;
    let (mut effects, mut last, mut known) = (Vec::new(), None::<String>, None);
    for effect in rows {
        // Effects of a tree stand together.
        let root = *effect.execution.execution_id().root();
        let is_own = match &known {
            Some((known, is_own)) if *known == root => *is_own,
            _ => reads.root_operation(&root)?.is_some_and(|own| own.namespace == *namespace),
        };
        known = Some((root, is_own));
        if is_own && effects.len() == limit {
            return Ok(UnresolvedEffects { effects, next: last.map(|place| seal.close(&place)) });
        }
        last = Some(format!("{}~{}", effect.execution, effect.promise));
        if !is_own {
            continue;
        }
        effects.push(UnresolvedEffect {
            promise_id: effect.promise.to_string(),
            execution_id: effect.execution.execution_id().to_string(),
            attempt: effect.attempt.get(),
            since: effect.since.to_string(),
            label: effect.label,
            why: effect.why,
            held: effect.held,
        });
    }
    let next = last.filter(|_| full).map(|place| seal.close(&place));
    Ok(UnresolvedEffects { effects, next })
}

/// `JOURNAL~PROMISE`.
fn place(text: &str) -> Option<(JournalKey, PromiseId)> {
    let (key, promise) = text.split_once('~')?;
    Some((key.parse().ok()?, promise.parse().ok()?))
}

/// The reason in the body, if there is one.
fn reason(asked: &ApiRequest) -> Result<String, Problem> {
    let Reason { reason } = asked.optional_json()?;
    bounded(reason)
}

fn bounded(reason: String) -> Result<String, Problem> {
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

fn decided(
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
