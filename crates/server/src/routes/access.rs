//! API keys, and the record of who did what.

use std::sync::Arc;

use http::StatusCode;
use indelible_api::Problem;
use indelible_api::access::{AuditEntry, AuditPage, NewToken, Tokens, WhoAmI};
use indelible_journal::Timestamp;
use indelible_records::audit::{AuditPosition, AuditSubject};
use indelible_runtime::Lane;

use crate::answer::Answer;
use crate::auth::TokenId;
use crate::refusal::not_found;
use crate::request::{ApiRequest, malformed};
use crate::state::State;

/// Who a credential stands for.
pub(super) async fn who(_: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    Ok(Answer::ok(&WhoAmI::from(&asked.caller)))
}

/// All API keys.
pub(super) async fn list(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let tokens = state.tokens.list().await.map_err(|error| state.token_error(&error))?;
    Ok(Answer::ok(&Tokens { tokens }))
}

/// Makes an API key.
pub(super) async fn create(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    if asked.header(indelible_api::header::IDEMPOTENCY_KEY)?.is_some() {
        return Err(malformed(
            "creating an API key does not take an idempotency key, because the response contains a \
             secret",
        ));
    }
    let new: NewToken = asked.json()?;
    let made = state.tokens.create(&new, state.now(), asked.caller.actor()).await;
    let made = made.map_err(|error| state.token_error(&error))?;
    Ok(Answer::json(StatusCode::CREATED, &made))
}

/// Revokes an API key. Revoking it again does the same, with an idempotency key or without.
pub(super) async fn revoke(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let id = asked.param("token").parse::<TokenId>();
    let id = id.map_err(|_| malformed("the token id in the path is invalid"))?;
    asked.check_unused_key()?;
    let token = state.tokens.revoke(id, state.now(), asked.caller.actor()).await;
    let token = token.map_err(|error| state.token_error(&error))?;
    Ok(Answer::ok(&token.ok_or_else(not_found)?))
}

/// A page of the audit record.
pub(super) async fn audit(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let place = match (asked.query("cursor"), asked.time("before")) {
        (Some(_), Some(_)) => return Err(malformed("before and cursor cannot be used together")),
        (Some(cursor), None) => read_place(cursor).ok_or_else(|| {
            malformed("cursor was not issued for this list; leave it out to begin anew")
        })?,
        (None, before) => before.unwrap_or(Timestamp::MAX).into(),
    };
    let limit = asked.limit();
    let answer = state.read(Lane::Lists, move |reads| {
        let entries = reads.audit(place, limit)?;
        let next = entries.last().filter(|_| entries.len() == limit);
        let next = next.map(|entry| write_place(&entry.place()));
        let entries = entries.into_iter().map(|entry| {
            let (execution, promise, subject) = match entry.about {
                AuditSubject::Execution(key) => (Some(key), None, None),
                AuditSubject::Promise(key, promise) => (Some(key), Some(promise), None),
                AuditSubject::Component(name, digest) => {
                    (None, None, Some(format!("{name} {digest}")))
                }
                AuditSubject::Subject(subject) => (None, None, Some(subject)),
            };
            AuditEntry {
                at: entry.at.to_string(),
                actor: entry.actor,
                action: entry.action,
                execution: execution.map(|key| key.to_string()),
                promise_id: promise.map(|promise| promise.to_string()),
                subject,
                reason: entry.reason,
            }
        });
        Ok(Answer::ok(&AuditPage { entries: entries.collect(), next }))
    });
    answer.await
}

/// `TIME_ID`: microseconds, and the id in hexadecimal digits.
fn write_place(place: &AuditPosition) -> String {
    format!("{}_{}", place.at.as_micros(), data_encoding::HEXLOWER.encode(&place.id))
}

fn read_place(text: &str) -> Option<AuditPosition> {
    let (at, id) = text.split_once('_')?;
    let id = data_encoding::HEXLOWER.decode(id.as_bytes()).ok()?;
    Some(AuditPosition { at: Timestamp::from_micros(at.parse().ok()?)?, id: id.try_into().ok()? })
}
