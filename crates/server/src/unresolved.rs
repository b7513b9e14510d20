//! What is unknown, as the API shows it.

use indelible_api::unresolved::{
    CallerState, Excerpt, Finding, ReconcilerAnswer, SentRequest, Settled, Tried, Unresolved,
    UnresolvedDetail, UnresolvedState,
};
use indelible_journal::Timestamp;
use indelible_records::doubts::{self, Doubt, DoubtId, DoubtState};

/// A doubt in a list.
pub fn listed(id: &DoubtId, doubt: &Doubt) -> Unresolved {
    let evidence = &doubt.evidence;
    let (state, settled) = match &doubt.state {
        DoubtState::Held => (UnresolvedState::Held, None),
        DoubtState::Asking(_) => (UnresolvedState::Asking, None),
        DoubtState::Ended { .. } => (UnresolvedState::Ended, None),
        DoubtState::Settled(settled) => (UnresolvedState::Settled, Some(settlement(settled))),
    };
    Unresolved {
        promise_id: id.promise().to_string(),
        execution_id: id.key.execution_id().to_string(),
        attempts: id.key.attempts().to_string(),
        namespace: evidence.namespace.clone(),
        function: evidence.function.clone(),
        key: evidence.key.clone(),
        labels: evidence.labels.clone(),
        label: doubt.label.clone(),
        attempt: doubt.attempt.get(),
        since: doubt.since.to_string(),
        why: doubt.why.clone(),
        state,
        sent_key: evidence.request.as_ref().map(|request| request.idempotency_key.clone()),
        settled,
    }
}

fn settlement(settled: &doubts::Settlement) -> Settled {
    Settled {
        finding: match settled.finding {
            doubts::Finding::Happened => Finding::Happened,
            doubts::Finding::DidNotHappen => Finding::DidNotHappen,
            doubts::Finding::RunAgain => Finding::RunAgain,
            doubts::Finding::AcceptedUnknown => Finding::AcceptedUnknown,
        },
        status: settled.status,
        actor: settled.actor.clone(),
        reason: settled.reason.clone(),
        at: time(settled.at_us),
    }
}

/// A doubt with its evidence.
pub fn shown(id: &DoubtId, doubt: Doubt, callers: Vec<CallerState>) -> UnresolvedDetail {
    let unresolved = listed(id, &doubt);
    let evidence = *doubt.evidence;
    let tried = evidence.attempts.into_iter().map(|own| Tried {
        attempt: own.attempt,
        started: time(own.started_us),
        end: own.end,
    });
    let answers = evidence
        .answers
        .into_iter()
        .map(|own| ReconcilerAnswer { at: time(own.at_us), answer: own.answer });
    UnresolvedDetail {
        unresolved,
        operation_id: evidence.operation,
        input: excerpt(evidence.input),
        request: evidence.request.map(|request| SentRequest {
            method: request.method,
            url: request.url,
            idempotency_key: request.idempotency_key,
            headers: request.headers,
            body: excerpt(request.body),
        }),
        call: evidence.call.map(excerpt),
        tried: tried.collect(),
        answers: answers.collect(),
        callers,
    }
}

fn excerpt(stored: doubts::Excerpt) -> Excerpt {
    let doubts::Excerpt { bytes, text, base64, sha256 } = stored;
    Excerpt { bytes, text, base64, sha256 }
}

fn time(micros: u64) -> String {
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX).to_string()
}
