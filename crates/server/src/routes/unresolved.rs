//! What is unknown: lists with every open question, the evidence for one, and people's decisions.

use std::sync::Arc;

use bytes::Bytes;
use indelible_api::unresolved::{CallerState, Resolution as Wanted, Resolve, UnresolvedPage};
use indelible_api::{Problem, control};
use indelible_http::Response;
use indelible_journal::{Attempt, ExecutionId, Namespace, OperationId, PromiseId};
use indelible_records::doubts::{Doubt, DoubtId, Evidence, Filter, Place, StateName};
use indelible_runtime::{EngineError, Lane, Reads, Resolution};

use super::control::{answer, decided, decision};
use crate::answer::Answer;
use crate::auth::{ALL_NAMESPACES, Namespaces};
use crate::refusal::not_found;
use crate::request::{ApiRequest, malformed};
use crate::state::{OwnedExecution, State};
use crate::unresolved::{listed, shown};
use crate::wire;

/// The words of states, for queries.
pub(super) const STATES: &[&str] = &["held", "asking", "ended", "settled"];

/// Lists what is unknown: in the namespace that is named, or else in all that the credential may
/// see, so that an empty list hides nothing.
pub(super) async fn list(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespaces = match asked.query("namespace").filter(|name| *name != ALL_NAMESPACES) {
        Some(_) => vec![asked.namespace()?.to_string()],
        None => match asked.caller.namespaces() {
            Namespaces::All => Vec::new(),
            Namespaces::Some(own) => own.iter().map(ToString::to_string).collect(),
        },
    };
    let tree = match asked.query("tree") {
        None => None,
        Some(text) => {
            let root = text.parse::<ExecutionId>();
            Some(*root.map_err(|_| malformed("tree is not the id of an execution"))?.root())
        }
    };
    let only = asked.query("state").map(|word| match word {
        "held" => StateName::Held,
        "asking" => StateName::Asking,
        "ended" => StateName::Ended,
        _ => StateName::Settled,
    });
    let filter = Filter {
        namespaces,
        function: asked.query("function").map(str::to_owned),
        host: asked.query("host").map(str::to_owned),
        states: only.into_iter().collect(),
        since: asked.time("since"),
        before: asked.time("before"),
        tree,
    };
    let with_settled = asked.flag("all") || only == Some(StateName::Settled);
    let limit = asked.limit();
    let after = match asked.query("cursor") {
        None => None,
        Some(text) => {
            let place = state.seal.open_text(text).and_then(|text| text.parse::<Place>().ok());
            Some(place.ok_or_else(|| {
                malformed("cursor was not issued for this list; leave it out to begin anew")
            })?)
        }
    };
    // Only the seal is captured: a read that waits in its lane must not keep the engine alive.
    let seal = Arc::clone(&state.seal);
    let answer = state.read(Lane::Lists, move |reads| {
        let page = reads.doubts(&filter, with_settled, after.as_ref(), limit)?;
        let unresolved = page.doubts.iter().map(|(id, doubt)| listed(id, doubt)).collect();
        let next = page.next.map(|place| seal.close(&place.to_string()));
        Ok(Answer::ok(&UnresolvedPage { unresolved, next }))
    });
    answer.await
}

/// The evidence for one question.
pub(super) async fn detail(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let promise = state.promise(&asked, "promise").await?;
    let (id, doubt) = found(&state, &asked, &promise).await?.ok_or_else(not_found)?;
    let answer = state.read(Lane::Views, move |reads| {
        let callers = callers(reads, &id)?;
        Ok(Answer::ok(&shown(&id, doubt, callers)))
    });
    answer.await
}

/// Resolves an effect, or settles what has ended as Indeterminate: a person says what happened.
pub(super) async fn resolve(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let promise = state.promise(&asked, "promise").await?;
    // The execution may be deleted; then the doubt itself says whose it is.
    let owner = match found(&state, &asked, &promise).await? {
        Some((_, doubt)) => owner(&doubt.evidence),
        None => None,
    };
    let owner = match owner {
        Some(owner) => owner,
        None => state.find(&asked, &promise.parent().ok_or_else(not_found)?).await?,
    };
    let Resolve { resolution, reason, attempt } = asked.json()?;
    let reason = decision(reason)?;
    let attempt = match attempt {
        None => None,
        Some(number) => {
            let attempt = Attempt::new(number);
            Some(attempt.ok_or_else(|| malformed("attempt must be a number from 1 on"))?)
        }
    };
    let resolution = match resolution {
        Wanted::DidNotHappen {} => Resolution::DidNotHappen,
        Wanted::RunAgain {} => Resolution::RunAgain,
        Wanted::AcceptUnknown {} => Resolution::AcceptUnknown,
        Wanted::Happened { status, headers, body } => {
            if !(100..=999).contains(&status) {
                return Err(malformed("status must be a number from 100 to 999"));
            }
            let headers = headers.into_iter().map(|(name, value)| (name, Bytes::from(value)));
            let (headers, body) = (headers.collect(), Bytes::from(body));
            Resolution::Happened(Response { status, headers, body })
        }
    };
    let decided = decided(&asked, &owner, reason)?;
    let done = state.engine.resolve_attempt(&promise, attempt, resolution, decided).await;
    let done = done.map_err(|error| state.not_done(&error))?;
    Ok(answer(&done, &control::Done {}).id(&promise))
}

/// The doubt about a promise, if the caller may see it: the open one, else the latest.
async fn found(
    state: &State,
    asked: &ApiRequest,
    promise: &PromiseId,
) -> Result<Option<(DoubtId, Doubt)>, Problem> {
    let promise = promise.clone();
    let mut found = state.read(Lane::Lookups, move |reads| reads.doubts_of(&promise)).await?;
    found.retain(|(_, doubt)| asked.caller.in_namespace(&doubt.evidence.namespace));
    let open = found.iter().rposition(|(_, doubt)| doubt.is_open());
    Ok(match open {
        Some(at) => Some(found.swap_remove(at)),
        None => found.pop(),
    })
}

fn owner(evidence: &Evidence) -> Option<OwnedExecution> {
    let namespace = Namespace::new(&evidence.namespace).ok()?;
    let operation_id = OperationId::new(&evidence.operation).ok()?;
    Some(OwnedExecution { namespace, operation_id })
}

/// The execution of a doubt and its callers, up to the root.
fn callers(reads: &Reads<'_>, id: &DoubtId) -> Result<Vec<CallerState>, EngineError> {
    let mut callers = Vec::new();
    let mut execution = Some(id.key.execution_id().clone());
    while let Some(own) = execution {
        if let Some(row) = reads.execution(&own)? {
            callers.push(CallerState {
                execution_id: own.to_string(),
                function: row.function.to_string(),
                state: wire::state(row.standing),
            });
        }
        execution = own.as_promise().parent();
    }
    Ok(callers)
}
