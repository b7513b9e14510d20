//! Signals, cancels, and what people decide. Everything is answered when it is durable, and done
//! once under a key.

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
    Asked as Wanted, Cancelling as Done, Decided, Done as Outcome, EngineError, Lane, Reads,
    Resolution,
};
use serde::Serialize;

use crate::answer::Answer;
use crate::refusal::not_found;
use crate::request::{Asked, domain, malformed};
use crate::seal::Seal;
use crate::state::{Found, State};

/// The longest reason, in bytes: what the audit record keeps.
const REASON_BYTES_MAX: usize = indelible_runtime::AUDIT_TEXT_BYTES_MAX;

/// So many unresolved effects are looked at for one page: others' are passed over. Up to three reads
/// each: a page takes some milliseconds.
const UNRESOLVED_LOOKED_AT_MAX: usize = 100;

/// Sends a signal.
pub(super) async fn signal(state: Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let name = SignalName::new(asked.param("signal"));
    let name = name.map_err(|error| malformed(format!("the signal's name: {error}")))?;
    let payload = asked.any_json()?;
    let wanted = wanted(&asked, &found, String::new())?;
    let done = state.engine.signal(&execution, &name, payload, wanted).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &Delivered { delivery_id: done.value.get() }))
}

/// Asks an execution to end.
pub(super) async fn cancel(state: Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let wanted = wanted(&asked, &found, reason(&asked)?)?;
    let done = state.engine.cancel(&execution, wanted).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &Cancelling { already: done.value == Done::Already }))
}

/// Lets a held execution go on.
pub(super) async fn release(state: Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let decided = decided(&asked, &found, reason(&asked)?)?;
    let done = state.engine.release(&execution, decided).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &control::Done {}))
}

/// Ends a held execution as failed.
pub(super) async fn fail(state: Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let _waiter = state.waiter()?;
    let (execution, found) = state.execution(&asked).await?;
    let decided = decided(&asked, &found, reason(&asked)?)?;
    // It takes as long as what is in flight: a stop does not wait for that.
    let done = tokio::select! {
        done = state.engine.fail(&execution, decided) => done,
        () = state.draining() => return Err(Problem::new(Code::Stopping, "the server stops")),
    };
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &control::Done {}))
}

/// Says how an effect ended of which nobody knew.
pub(super) async fn resolve(state: Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let promise = asked.param("promise").parse::<PromiseId>();
    let promise = promise.map_err(|_| malformed("the promise in the path is none"))?;
    let execution = promise.parent().ok_or_else(not_found)?;
    let found = state.find(&asked, &execution).await?;
    let Resolve { resolution, reason } = asked.json()?;
    let reason = decision(reason)?;
    let resolution = match resolution {
        control::Resolution::DidNotHappen {} => Resolution::DidNotHappen,
        control::Resolution::RunAgain {} => Resolution::RunAgain,
        control::Resolution::Happened { status, headers, body } => {
            if !(100..=999).contains(&status) {
                return Err(malformed("status: a number from 100 to 999"));
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

/// Effects of which nobody knows whether they happened.
pub(super) async fn unresolved(state: Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let namespace = domain(&asked.namespace()?);
    let limit = asked.limit();
    let after = match asked.query("cursor") {
        None => None,
        Some(text) => {
            let place = state.seal.open_text(text).and_then(|text| place(&text));
            Some(place.ok_or_else(|| {
                malformed("cursor: not one of this list; without one the list begins anew")
            })?)
        }
    };
    // Not the state: what waits to be read must not hold the engine.
    let seal = Arc::clone(&state.seal);
    let answer = state.read(Lane::Lists, move |reads| {
        let page = unresolved_page(&seal, reads, after.as_ref(), limit, &namespace)?;
        Ok(Answer::ok(&page))
    });
    answer.await
}

/// Effects of a namespace behind one. Who has looked at many of others' goes on behind those.
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
fn reason(asked: &Asked) -> Result<String, Problem> {
    let Reason { reason } = asked.optional_json()?;
    bounded(reason)
}

fn bounded(reason: String) -> Result<String, Problem> {
    if reason.len() > REASON_BYTES_MAX {
        return Err(malformed(format!("reason: more than {REASON_BYTES_MAX} bytes")));
    }
    Ok(reason)
}

/// The reason of a decision, which has one.
pub(super) fn decision(reason: String) -> Result<String, Problem> {
    if reason.trim().is_empty() {
        return Err(malformed("reason: a decision has one"));
    }
    bounded(reason)
}

/// Keys of commands belong to the namespace of what they are about.
fn key_namespace(found: &Found) -> Result<ConsumerNamespace, Problem> {
    ConsumerNamespace::new(found.namespace.as_str()).map_err(|_| {
        Problem::new(Code::ReservedNamespace, "what is the server's own takes no idempotency key")
    })
}

fn wanted(asked: &Asked, found: &Found, reason: String) -> Result<Wanted, Problem> {
    let Decided { actor, reason, key } = decided(asked, found, reason)?;
    Ok(Wanted { actor: Some(actor), reason, key })
}

fn decided(asked: &Asked, found: &Found, reason: String) -> Result<Decided, Problem> {
    let key = match asked.header(indelible_api::header::IDEMPOTENCY_KEY)? {
        None => None,
        Some(_) => asked.key(&key_namespace(found)?)?,
    };
    Ok(Decided { actor: asked.caller.actor().clone(), reason, key })
}

/// What was done, and whether it had been done before.
pub(super) fn answer<T>(done: &Outcome<T>, body: &impl Serialize) -> Answer {
    let verdict = if done.prior { Verdict::PriorResult } else { Verdict::Fresh };
    Answer::ok(body).verdict(verdict)
}
