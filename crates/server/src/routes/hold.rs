//! The hold: a server that shows everything, and an operator who lets it go on.

use std::sync::Arc;

use indelible_api::Problem;
use indelible_api::control::{Hold, LiftHold, Lifted, Restored};
use indelible_records::executions::Standing;
use indelible_runtime::{Lane, LiftOutcome};

use super::control::decision;
use crate::answer::Answer;
use crate::metrics::ATTENTION_MAX;
use crate::request::ApiRequest;
use crate::state::State;

/// What executions that are not over can be.
const UNFINISHED: [Standing; 4] =
    [Standing::Running, Standing::Blocked, Standing::Cancelling, Standing::Stuck];

/// Whether the server is on hold or closed to unknown names, and what would go on.
pub(super) async fn show(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let (hold, restored) = (state.engine.hold(), state.engine.restored());
    let closed_until = state.engine.closed_until().map(|until| until.to_string());
    let read = state.read(Lane::Lists, move |reads| {
        let mut unfinished = 0;
        for standing in UNFINISHED {
            unfinished += reads.count(standing, ATTENTION_MAX)?;
        }
        let (unresolved, _) = reads.open_doubts(ATTENTION_MAX)?;
        let restored = restored.map(|restored| Restored {
            at: restored.at.to_string(),
            backup_made_at: restored.backup_made_at.to_string(),
        });
        Ok(Answer::ok(&Hold {
            on_hold: hold.is_some(),
            paused: hold.is_some_and(|hold| hold.paused),
            restored,
            closed_until,
            unfinished: unfinished as u64,
            unresolved: unresolved as u64,
        }))
    });
    read.await
}

/// Lets the server go on. Doing so again changes nothing, with an idempotency key or without.
pub(super) async fn lift(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let LiftHold { reason } = asked.json()?;
    let reason = decision(reason)?;
    asked.check_unused_key()?;
    let lifted = state.engine.lift_hold(asked.caller.actor(), &reason).await;
    let lifted = lifted.map_err(|error| state.engine_error(&error))?;
    Ok(Answer::ok(&Lifted { already: lifted == LiftOutcome::NotOnHold }))
}
