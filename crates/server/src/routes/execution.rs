//! What is shown of executions: lists, details, trees, journals. Whatever is shown is durable (D2):
//! the engine waits for what it has read.

use std::sync::Arc;

use indelible_api::Problem;
use indelible_api::call::{Failed, Operation};
use indelible_api::execution::{
    Detail, Events, Execution, Executions, KeyUse as WireKeyUse, UsedFor, Wait, WaitKind,
};
use indelible_idempotency::{ConsumerNamespace, IdempotencyKey, parse_key};
use indelible_journal::{
    Attempts, AwaitKind, Ending, FunctionName, JournalKey, Namespace, PromiseId, Timestamp, json,
};
use indelible_records::beginning::TREES_MAX;
use indelible_records::executions::Execution as Row;
use indelible_records::listing::{Cursor, Filter, NAMESPACES_MAX};
use indelible_runtime::{EngineError, KeyUse, Lane, Open, Reads, Stage, View};
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::auth::{ALL_NAMESPACES, Namespaces};
use crate::refusal::not_found;
use crate::request::{ApiRequest, SERVER_NAMESPACE, malformed, state as state_of};
use crate::state::State;
use crate::wire;

/// The most bytes of events on a page, unless one alone has more.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// A page of executions.
pub(super) async fn list(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    if let Some(key) = asked.query("key") {
        return by_key(&state, &asked, key).await;
    }
    let words = asked.query("state").into_iter().flat_map(|words| words.split(','));
    let function = asked.query("function").map(FunctionName::new).transpose();
    let filter = Filter {
        whose: asked.whose()?,
        labels: asked.labels()?.iter().cloned().collect(),
        standings: words.filter_map(state_of).map(wire::standing).collect(),
        function: function.map_err(|error| malformed(format!("function is invalid: {error}")))?,
        created_from: asked.time("created_from"),
        created_before: asked.time("created_before"),
        with_children: false,
        latest_only: asked.flag("latest"),
        id_prefix: asked.query("id_prefix").and_then(|digits| digits.parse().ok()),
    };
    let cursor = asked.query("cursor").map(str::parse::<Cursor>).transpose();
    let cursor = cursor.map_err(|error| malformed(format!("cursor: {error}")))?;
    let reading = state.engine.enter_lane(Lane::Lists).await;
    let mut reading = reading.map_err(|error| state.engine_error(&error))?;
    let page = reading.list(&filter, cursor.as_ref(), asked.limit()).await;
    let page = page.map_err(|error| state.engine_error(&error))?;
    if page.crowded {
        return Err(malformed(match filter.id_prefix {
            Some(_) => {
                format!("id_prefix matches more than {TREES_MAX} executions; give more digits")
            }
            None => format!(
                "more than {NAMESPACES_MAX} namespaces have executions; name one to look for a label"
            ),
        }));
    }
    let answer = reading.run(move |reads| {
        let rows = page.executions.iter().map(|row| listed(reads, row));
        let next = page.next.map(|next| next.to_string());
        let executions = rows.collect::<Result<_, _>>()?;
        Ok(Answer::ok(&Executions { executions, next, key: None }))
    });
    answer.await.map_err(|error| state.engine_error(&error))
}

/// A root, as lists show it.
fn listed(reads: &Reads<'_>, row: &Row) -> Result<Execution, EngineError> {
    let namespace = row.namespace.as_ref().map_or("", Namespace::as_str);
    Ok(wire::execution(row, namespace, reads.first_created_at(&row.key)?))
}

/// The execution that was started under an idempotency key, and what else a key was used for.
async fn by_key(state: &State, asked: &ApiRequest, key: &str) -> Result<Answer, Problem> {
    const BESIDE: [&str; 3] = ["key", "namespace", "limit"];
    if asked.query("namespace") == Some(ALL_NAMESPACES) {
        return Err(malformed("a key belongs to one namespace: name it"));
    }
    if let Some((other, _)) = asked.query.iter().find(|(name, _)| !BESIDE.contains(&name.as_str()))
    {
        return Err(malformed(format!("key finds one execution: leave {other} out")));
    }
    let namespace = asked.namespace()?;
    let parsed = |namespace| {
        let key = parse_key(namespace, Some(key)).map_err(|error| malformed(error.to_string()))?;
        key.ok_or_else(|| malformed("key is empty"))
    };
    let used = |key: IdempotencyKey| async move {
        state.engine.key_use(&key).await.map_err(|error| state.engine_error(&error))
    };
    let mut found = used(parsed(&namespace)?).await?;
    if found.is_none() && *asked.caller.namespaces() == Namespaces::All {
        // Commands to the whole server have keys, too.
        let own = ConsumerNamespace::new(SERVER_NAMESPACE).expect("it is one");
        found = used(parsed(&own)?).await?;
    }
    let mut page = Executions { executions: Vec::new(), next: None, key: None };
    let Some(found) = found else { return Ok(Answer::ok(&page)) };
    page.key = Some(match found {
        KeyUse::Start { operation_id, operation, in_progress, row } => {
            if let Some(row) = row {
                let read = state.read(Lane::Lookups, move |reads| listed(reads, &row));
                page.executions.push(read.await?);
            }
            let operation = Operation {
                operation_id: operation_id.to_string(),
                namespace: namespace.to_string(),
                execution_id: operation.execution_id().to_string(),
                accepted_at: operation.accepted_at.to_string(),
                in_progress,
            };
            WireKeyUse { used_for: UsedFor::Start, operation: Some(operation) }
        }
        KeyUse::Command(answer) => WireKeyUse { used_for: wire::used_for(answer), operation: None },
        _ => WireKeyUse { used_for: UsedFor::Command, operation: None },
    });
    Ok(Answer::ok(&page))
}

/// An execution, and what it waits for.
pub(super) async fn detail(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let view = state.engine.view(&execution).await;
    let view = view.map_err(|error| state.engine_error(&error))?.ok_or_else(not_found)?;
    let answer = state.read(Lane::Views, move |reads| {
        let first = reads.first_created_at(&view.execution.key)?;
        Ok(Answer::ok(&shown(&view, &found.namespace, found.operation_id.to_string(), first)))
    });
    answer.await
}

fn shown(
    view: &View,
    namespace: &Namespace,
    operation_id: String,
    first: Option<Timestamp>,
) -> Detail {
    let (input, input_payload) = wire::payload(&view.input);
    let (mut result, mut result_payload, mut error) = (None, None, None);
    match &view.ending {
        Some(Ending::Completed(payload)) => (result, result_payload) = wire::payload(payload),
        Some(Ending::Failed(failure)) => error = Some(wire::failed(failure)),
        Some(Ending::Cancelled(reason)) => {
            let (kind, message) = ("Cancelled".to_owned(), reason.clone());
            error = Some(Failed { kind, message, detail: None });
        }
        None => {}
    }
    Detail {
        execution: wire::execution(&view.execution, namespace.as_str(), first),
        operation_id,
        parent_id: view.parent.as_ref().map(ToString::to_string),
        input,
        input_payload,
        waits_for: waits(view),
        waits_since: view.waits.guest.as_ref().map(|wait| wait.since.to_string()),
        result,
        result_payload,
        error,
    }
}

/// What an execution has open, and the signal or join set that its guest waits for.
fn waits(view: &View) -> Vec<Wait> {
    let wait = |kind, promise: Option<&PromiseId>, label: Option<String>| Wait {
        kind,
        promise_id: promise.map(ToString::to_string),
        label,
        attempt: None,
        since: None,
        due: None,
        why: None,
    };
    let mut waits = Vec::new();
    if let Some(guest) = &view.waits.guest {
        match &guest.kind {
            AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } => {
                waits.push(wait(WaitKind::Signal, None, Some(name.to_string())));
            }
            _ => {}
        }
        if let Some(set) = &guest.join_set {
            waits.push(wait(WaitKind::JoinSet, Some(set.place()), None));
        }
    }
    if let Some(resting) = view.resting {
        let due = resting.until.map(|until| until.to_string());
        let attempt = Some(view.execution.key.attempts().own().get());
        let label = Some(view.execution.function.to_string());
        waits.push(Wait { due, attempt, ..wait(WaitKind::Call, None, label) });
    }
    for open in &view.waits.open {
        waits.push(match open {
            Open::Http { promise, label, stage } => {
                staged(wait(WaitKind::Http, Some(promise), Some(label.to_string())), *stage)
            }
            Open::Call { promise, function, stage } => {
                staged(wait(WaitKind::Call, Some(promise), Some(function.to_string())), *stage)
            }
            Open::Timer { promise, since, due } => Wait {
                since: Some(since.to_string()),
                due: Some(due.to_string()),
                ..wait(WaitKind::Timer, Some(promise), None)
            },
            Open::Unresolved(effect) => {
                let kind =
                    if effect.is_held() { WaitKind::Unresolved } else { WaitKind::Reconciling };
                Wait {
                    attempt: Some(effect.attempt.get()),
                    since: Some(effect.since.to_string()),
                    why: Some(effect.why.clone()),
                    ..wait(kind, Some(&effect.promise), Some(effect.label.clone()))
                }
            }
            _ => continue,
        });
    }
    waits
}

fn staged(wait: Wait, stage: Stage) -> Wait {
    let text = |time: Timestamp| Some(time.to_string());
    match stage {
        Stage::Scheduled { since } => Wait { since: text(since), ..wait },
        Stage::InFlight { attempt, since } => {
            Wait { attempt: Some(attempt.get()), since: text(since), ..wait }
        }
        Stage::Retrying { failed, retry_at } => {
            Wait { attempt: Some(failed.get()), due: text(retry_at), ..wait }
        }
    }
}

/// An execution's whole tree.
pub(super) async fn tree(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, found) = state.execution(&asked).await?;
    let after = asked.query("cursor").map(str::parse::<JournalKey>).transpose();
    let after = after.map_err(|_| {
        malformed("cursor was not issued for this list; leave it out to begin anew")
    })?;
    let limit = asked.limit();
    let answer = state.read(Lane::Views, move |reads| {
        let page = reads.tree(execution.root(), after.as_ref(), limit)?;
        let namespace = found.namespace.as_str();
        let rows = page.executions.iter().map(|row| wire::execution(row, namespace, None));
        let next = page.next.map(|next| next.to_string());
        Ok(Answer::ok(&Executions { executions: rows.collect(), next, key: None }))
    });
    answer.await
}

/// The events of an execution.
pub(super) async fn journal(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, _) = state.execution(&asked).await?;
    let key = match asked.query("attempts") {
        Some(text) => {
            let attempts = text.parse::<Attempts>().ok();
            let key =
                attempts.and_then(|attempts| JournalKey::new(execution.clone(), attempts).ok());
            Some(key.ok_or_else(|| {
                malformed(
                    "attempts must have one number for each level of the execution, such as 1.2",
                )
            })?)
        }
        None => None,
    };
    let (from, limit) = (asked.number("from").unwrap_or(0), asked.limit());
    let answer = state.read(Lane::Views, move |reads| {
        let key = match key {
            Some(key) => key,
            None => match reads.execution(&execution)? {
                Some(row) => row.key,
                None => return Ok(None),
            },
        };
        let page = reads.events(&key, from, limit, PAGE_BYTES_MAX)?;
        if page.records.is_empty() && from == 0 {
            return Ok(None);
        }
        let events = page.records.iter().map(|record| {
            let mut line = Vec::new();
            json::write_line(&key, record, &mut line);
            line.truncate(line.trim_ascii_end().len());
            let line = String::from_utf8(line).expect("the export is text");
            RawValue::from_string(line).expect("the export is JSON")
        });
        let next = page.more.then_some(page.next);
        Ok(Some(Answer::ok(&Events { events: events.collect(), next })))
    });
    answer.await?.ok_or_else(not_found)
}
