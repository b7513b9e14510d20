//! Starting functions, and their outcomes. A repeated request finds what the first one led to,
//! whatever happened in between.

use std::sync::Arc;

use http::StatusCode;
use indelible_api::call::{Failed, Operation, Returned, Started, StillRunning, Verdict};
use indelible_api::{Code, Problem};
use indelible_idempotency::ConsumerNamespace;
use indelible_journal::{Ending, ErrorKind, ExecutionId, Failure, OperationId, Timestamp};
use indelible_runtime::{OperationView, Start, StartedExecution, Submission, Verdict as Met};

use crate::answer::Answer;
use crate::refusal::not_found;
use crate::request::{ApiRequest, domain, operation_named};
use crate::state::State;
use crate::wire;

/// Starts a function and waits for its outcome.
pub(super) async fn call(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let _waiter = state.waiter()?;
    // If the caller disconnects, this is dropped, and a volatile function with it (V-13, V-18).
    let mut submitted = start_call(&state, &asked).await?;
    let ended = tokio::select! {
        biased;
        ended = submitted.outcome() => Some(ended.map_err(|error| state.engine_error(&error))?),
        () = state.wait(asked.wait()) => None,
    };
    let started = submitted.started();
    let (execution, operation) = (&started.execution_id, started.operation_id.to_string());
    let met = started.verdict;
    match ended {
        Some(ending) => told(execution, Some(operation), &ending, Some(met)),
        None => {
            // C-2: the first request and a duplicate are both told where to ask. What is told must
            // be durable.
            let durable = submitted.durable().await;
            durable.map_err(|error| state.engine_error(&error))?;
            let answer = goes_on(execution, Some(operation), &where_to_ask(&asked, started)?);
            let answer = answer.verdict(verdict(met, false));
            submitted.detach();
            Ok(answer)
        }
    }
}

/// Starts a function.
pub(super) async fn start(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let submitted = start_call(&state, &asked).await?;
    submitted.durable().await.map_err(|error| state.engine_error(&error))?;
    let started = submitted.started();
    let body = Started {
        execution_id: started.execution_id.to_string(),
        operation_id: started.operation_id.to_string(),
        namespace: asked.namespace()?.to_string(),
        verdict: verdict(started.verdict, false),
    };
    let answer = Answer::json(StatusCode::ACCEPTED, &body)
        .location(&where_to_ask(&asked, started)?)
        .verdict(body.verdict);
    submitted.detach();
    Ok(answer)
}

async fn start_call(state: &State, asked: &ApiRequest) -> Result<Submission, Problem> {
    let namespace = asked.namespace()?;
    let conflict = asked.conflict_if_in_flight()?;
    let start = Start {
        operation_id: asked.operation_id()?,
        idempotency_key: asked.key(&namespace)?,
        namespace: domain(&namespace),
        component: asked.param("component").to_owned(),
        function: asked.param("function").to_owned(),
        input: asked.any_json()?,
        trace_parent: asked.trace_parent(),
        actor: Some(asked.caller.actor().clone()),
        labels: asked.labels()?,
    };
    let submitted = state.engine.submit(start).await;
    let submitted = submitted.map_err(|refused| state.start_refused(&refused))?;
    if conflict && submitted.started().verdict == Met::InFlight {
        // The answer "in flight" must be durable too (D2).
        submitted.durable().await.map_err(|error| state.engine_error(&error))?;
        // This caller asked not to be attached, so `submitted` is dropped and not detached.
        let started = submitted.started().clone();
        let problem =
            Problem::new(Code::InFlight, "an operation under this key or id is still running");
        return Err(Problem {
            execution_id: Some(started.execution_id.to_string()),
            operation_id: Some(started.operation_id.to_string()),
            verdict: Some(Verdict::InFlight),
            ..problem
        });
    }
    Ok(submitted)
}

/// Waits for the outcome of an execution.
pub(super) async fn outcome(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let _waiter = state.waiter()?;
    let (execution, found) = state.execution(&asked).await?;
    let operation = execution.is_root().then(|| found.operation_id.to_string());
    let ended = tokio::select! {
        biased;
        ended = state.engine.outcome(&execution) => {
            let ended = ended.map_err(|error| state.engine_error(&error))?;
            // It existed a moment ago: retention has deleted it, or it was volatile and is gone.
            Some(ended.ok_or_else(not_found)?)
        }
        () = state.wait(asked.wait()) => None,
    };
    match ended {
        Some(ending) => told(&execution, operation, &ending, None),
        None => Ok(goes_on(&execution, operation, &outcome_path(&execution))),
    }
}

/// The execution that an operation led to.
pub(super) async fn operation(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespace = asked.namespace()?;
    let id = operation_named(asked.param("operation"))?;
    let known = known(&state, &namespace, &id).await?;
    Ok(Answer::ok(&Operation {
        operation_id: id.to_string(),
        namespace: namespace.to_string(),
        execution_id: known.execution_id.to_string(),
        accepted_at: known.accepted_at.to_string(),
        in_progress: known.in_progress,
    }))
}

/// Waits for the outcome of an operation, also if retention has deleted its execution (V-31).
pub(super) async fn operation_outcome(
    state: Arc<State>,
    asked: ApiRequest,
) -> Result<Answer, Problem> {
    let _waiter = state.waiter()?;
    let namespace = asked.namespace()?;
    let id = operation_named(asked.param("operation"))?;
    let execution = known(&state, &namespace, &id).await?.execution_id;
    let of = domain(&namespace);
    let ended = tokio::select! {
        biased;
        ended = state.engine.operation_outcome(&of, &id) => {
            let ended = ended.map_err(|error| state.engine_error(&error))?;
            // Not 404: that would read as if it had never been (V-33, V-35).
            Some(ended.ok_or_else(|| {
                let detail = "the operation was only in memory and is lost; repeat the request \
                     under the same key or id to learn whether it can run again";
                Problem {
                    operation_id: Some(id.to_string()),
                    ..Problem::new(Code::Indeterminate, detail)
                }
            })?)
        }
        () = state.wait(asked.wait()) => None,
    };
    let operation = Some(id.to_string());
    match ended {
        Some(ending) => told(&execution, operation, &ending, None),
        None => Ok(goes_on(&execution, operation, &outcome_path_by_name(&namespace, &id))),
    }
}

/// An operation that is remembered.
struct KnownOperation {
    execution_id: ExecutionId,
    in_progress: bool,
    accepted_at: Timestamp,
}

async fn known(
    state: &State,
    namespace: &ConsumerNamespace,
    id: &OperationId,
) -> Result<KnownOperation, Problem> {
    let view = state.engine.operation(&domain(namespace), id).await;
    match view.map_err(|error| state.engine_error(&error))? {
        OperationView::Known { execution_id, in_progress, accepted_at } => {
            Ok(KnownOperation { execution_id, in_progress, accepted_at })
        }
        OperationView::Unknown => Err(not_found()),
        OperationView::Expired => {
            let detail = "the operation id is unknown and older than the retention of operations";
            Err(Problem::new(Code::Expired, detail))
        }
        OperationView::FromTheFuture => {
            let detail = "the operation id lies in the future";
            Err(Problem::new(Code::OperationIdFromTheFuture, detail))
        }
    }
}

/// The verdict as the API names it.
fn verdict(met: Met, failed: bool) -> Verdict {
    match met {
        Met::Fresh => Verdict::Fresh,
        Met::InFlight => Verdict::InFlight,
        Met::Prior if failed => Verdict::PriorError,
        Met::Prior => Verdict::PriorResult,
    }
}

/// The outcome of an execution as an answer.
fn told(
    execution: &ExecutionId,
    operation_id: Option<String>,
    ending: &Ending,
    met: Option<Met>,
) -> Result<Answer, Problem> {
    let execution_id = execution.to_string();
    let failed = |code: Code, failed: Failed| Problem {
        execution_id: Some(execution_id.clone()),
        operation_id: operation_id.clone(),
        verdict: met.map(|met| verdict(met, true)),
        error: Some(failed.clone()),
        ..Problem::new(code, failed.message)
    };
    match ending {
        Ending::Completed(payload) => {
            let (result, result_payload) = wire::payload(payload);
            let body = Returned { execution_id, operation_id, result, result_payload };
            let answer = Answer::ok(&body);
            Ok(match met {
                Some(met) => answer.verdict(verdict(met, false)),
                None => answer,
            })
        }
        Ending::Failed(failure) => Err(failed(code_of(failure), wire::failed(failure))),
        Ending::Cancelled(reason) => Err(failed(
            Code::Cancelled,
            Failed { kind: "Cancelled".to_owned(), message: reason.clone(), detail: None },
        )),
    }
}

fn code_of(failure: &Failure) -> Code {
    match failure.kind {
        ErrorKind::Indeterminate => Code::Indeterminate,
        ErrorKind::Cancelled => Code::Cancelled,
        _ => Code::FunctionFailed,
    }
}

fn outcome_path(execution: &ExecutionId) -> String {
    format!("/v1/executions/{execution}/outcome")
}

fn outcome_path_by_name(namespace: &ConsumerNamespace, operation: &OperationId) -> String {
    format!("/v1/operations/{operation}/outcome?namespace={namespace}")
}

/// The path of the outcome. For an operation in flight it names the execution, which may be kept
/// for longer than the operation's record. For one that is over it names the operation, since its
/// execution may be deleted already.
fn where_to_ask(asked: &ApiRequest, started: &StartedExecution) -> Result<String, Problem> {
    Ok(match started.verdict {
        Met::Fresh | Met::InFlight => outcome_path(&started.execution_id),
        Met::Prior => outcome_path_by_name(&asked.namespace()?, &started.operation_id),
    })
}

/// 202, with where to ask.
fn goes_on(execution: &ExecutionId, operation_id: Option<String>, location: &str) -> Answer {
    let body = StillRunning { execution_id: execution.to_string(), operation_id };
    Answer::json(StatusCode::ACCEPTED, &body).location(location)
}
