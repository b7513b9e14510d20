//! Whether the server is well, and what it does.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use indelible_api::control::{Done, Ready};
use indelible_api::{Code, Problem};
use indelible_runtime::EngineError;

use crate::answer::Answer;
use crate::request::ApiRequest;
use crate::state::State;

/// The process answers.
pub(super) async fn health(_: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    Ok(Answer::ok(&Done {}))
}

/// The store can be written, and recovery has begun, since it begins with the engine.
///
/// Damage that was found does not make the server unready. All other requests are served, and no other
/// server has these executions: a load balancer that took this one out would turn some failing requests
/// into all of them. The operator sees the damage in the body, in the metrics and in the log.
///
/// A server on hold is not ready: it refuses every new call, and callers should go elsewhere or wait.
/// Operators reach it without a load balancer; `health` says that the process is well.
pub(super) async fn ready(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    if state.is_draining() {
        return Err(Problem::new(Code::Stopping, "the server is stopping"));
    }
    if state.engine.store().poison().is_some() {
        return Err(Problem::new(Code::StoreStopped, "the store has stopped"));
    }
    // Accepted commits wait for the backend, and their callers are not answered before it is back.
    if state.engine.store().pause().is_some() {
        return Err(Problem::new(Code::StoreStopped, "the store is paused and resumes by itself"));
    }
    if state.engine.hold().is_some() {
        return Err(state.engine_error(&EngineError::OnHold));
    }
    Ok(Answer::ok(&Ready { damaged: state.engine.store().damage().places() > 0 }))
}

/// What the server does, for Prometheus.
pub(super) async fn metrics(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let attention = state.attention().await.ok();
    let text = state.metrics.render(&state, attention.as_ref());
    Ok(Answer::of(StatusCode::OK, HeaderValue::from_static(kind), text.into()))
}
