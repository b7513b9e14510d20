//! The clock by which records and finished executions are deleted.

use std::sync::Arc;

use indelible_api::Problem;
use indelible_api::control::{ConfirmClock, Done, RetentionClock};
use indelible_idempotency::ConsumerNamespace;
use indelible_journal::Timestamp;
use indelible_runtime::PersonDecision;

use super::control::{answer, decision};
use crate::answer::Answer;
use crate::request::{ApiRequest, SERVER_NAMESPACE, malformed};
use crate::state::State;

/// The retention clock, beside the wall clock.
pub(super) async fn clock(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let now = state.engine.retention_time().await;
    let now = now.map_err(|error| state.engine_error(&error))?;
    Ok(Answer::ok(&RetentionClock {
        retention_clock: now.time.to_string(),
        wall_clock: now.wall.to_string(),
        lag_seconds: now.lag_seconds(),
    }))
}

/// Sets the retention clock to the wall clock.
pub(super) async fn confirm(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let ConfirmClock { time, reason } = asked.json()?;
    let reason = decision(reason)?;
    let time = time.parse::<Timestamp>();
    let time = time.map_err(|_| {
        malformed(
            "invalid time: use RFC 3339, such as 2027-01-01T00:00:00Z, with at most microseconds",
        )
    })?;
    let key = asked.key(&ConsumerNamespace::new(SERVER_NAMESPACE).expect("it is one"))?;
    let decided = PersonDecision { actor: asked.caller.actor().clone(), reason, key };
    let done = state.engine.confirm_clock(time, decided).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &Done {}))
}
