//! What is read of a vault: entities, the log, the state, clients. Every answer is durable, and has
//! the height at which it holds.

use std::sync::Arc;

use indelible_api::access::Role;
use indelible_api::ledger::{
    ClientState, Entities, EntityAt, History, KeyedEntity, LastCommitted, Log, Receipt,
    RefusedAttempt, StateAt, Version,
};
use indelible_api::{Code, Problem};
use indelible_ledger::json::{Entity, OperationResult, Text};
use indelible_ledger::{Attempt, ClientId, EntityKey, Height, Sequence, Stream, Success};
use indelible_runtime::ledger;

use super::{actor, height, logged, param, query, scope};
use crate::answer::Answer;
use crate::request::{ApiRequest, malformed};
use crate::state::State;

/// What is under a key.
pub(crate) async fn entity(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (scope, key) = (scope(&asked)?, param::<EntityKey>(&asked, "key")?);
    let found = state.engine.entity(&scope, &key, height(&asked, "at")).await;
    let ledger::EntityAt { height, entity } = found.map_err(|error| state.ledger_error(&error))?;
    let entity = entity.as_ref().map(Entity::of);
    Ok(Answer::ok(&EntityAt { height: height.get(), key: Text(key), entity }))
}

/// A page of entities.
pub(crate) async fn entities(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (scope, after) = (scope(&asked)?, query(&asked, "after")?);
    let prefix = asked.query("prefix").unwrap_or_default();
    let (at, limit) = (height(&asked, "at"), asked.limit());
    let page = state.engine.entities(&scope, prefix, at, after.as_ref(), limit).await;
    let page = page.map_err(|error| state.ledger_error(&error))?;
    let entities = page.entities.into_iter();
    let entities =
        entities.map(|(key, entity)| KeyedEntity { key: Text(key), entity: Entity::of(&entity) });
    Ok(Answer::ok(&Entities {
        height: page.height.get(),
        entities: entities.collect(),
        next: page.next.map(Text),
    }))
}

/// What a key held, newest first.
pub(crate) async fn history(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (scope, key) = (scope(&asked)?, param::<EntityKey>(&asked, "key")?);
    let before = height(&asked, "before");
    let page = state.engine.entity_history(&scope, &key, before, asked.limit()).await;
    let page = page.map_err(|error| state.ledger_error(&error))?;
    let version = |(version, entity): &(Height, Option<_>)| Version {
        version: version.get(),
        entity: entity.as_ref().map(Entity::of),
    };
    Ok(Answer::ok(&History {
        height: page.height.get(),
        versions: page.versions.iter().map(version).collect(),
        next: page.next.map(Height::get),
    }))
}

/// A page of the log.
pub(crate) async fn log(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    let from = height(&asked, "from").unwrap_or(Height::new(1));
    let page = state.engine.ledger_log(&scope, from, asked.limit()).await;
    let page = page.map_err(|error| state.ledger_error(&error))?;
    Ok(Answer::ok(&Log {
        height: page.height.get(),
        transactions: page.entries.iter().map(logged).collect(),
        next: page.next.map(Height::get),
    }))
}

/// A transaction of the log.
pub(crate) async fn transaction(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    let number = asked
        .param("height")
        .parse()
        .ok()
        .filter(|number: &u64| *number > 0 && number.to_string() == asked.param("height"));
    let number = number.ok_or_else(|| malformed("the height in the path is a number from 1"))?;
    let page = state.engine.ledger_log(&scope, Height::new(number), 1).await;
    let page = page.map_err(|error| state.ledger_error(&error))?;
    let entry = page.entries.first().ok_or_else(|| beyond(page.height))?;
    Ok(Answer::ok(&logged(entry)))
}

/// A height that there is not yet.
pub(crate) fn beyond(height: Height) -> Problem {
    Problem::new(Code::NotFound, format!("the height is {height}; there is no later one yet"))
}

/// The state at a height.
pub(crate) async fn state_at(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    let found = state.engine.vault_state(&scope, height(&asked, "at")).await;
    let found = found.map_err(|error| state.ledger_error(&error))?;
    Ok(Answer::ok(&StateAt {
        height: found.height.get(),
        time: Text(found.time),
        head: Text(found.head),
        state_hash: Text(found.state_hash),
    }))
}

/// How a client's stream stands (impl ).
pub(crate) async fn client(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (scope, client) = (scope(&asked)?, param::<ClientId>(&asked, "client")?);
    let sequence = asked.number("sequence").map(Sequence::new).transpose();
    let sequence = sequence.map_err(|error| malformed(error.to_string()))?;
    let actor = actor(&asked);
    // An operator sees every client: handing one over takes that (C-46).
    let asks = (!asked.caller.may(Role::Operate)).then_some(&actor);
    let found = state.engine.ledger_client(&scope, &client, asks, sequence).await;
    let found = found.map_err(|error| state.ledger_error(&error))?;
    let stream = found.stream.as_ref();
    let next_attempt = stream.map_or(Some(Attempt::FIRST), Stream::next_attempt);
    Ok(Answer::ok(&ClientState {
        client_id: Text(client),
        incarnation: found.incarnation.map(Text),
        restores: found.restores.get(),
        last_committed_sequence: stream.map_or(0, Stream::last_sequence),
        last: stream.and_then(|stream| stream.last).map(|last| LastCommitted {
            transaction: Text(last.transaction),
            height: last.height.get(),
            time: Text(last.time),
            request_hash: last.hash.to_string(),
        }),
        owner: stream.map(|stream| stream.owner.to_string()),
        refused: stream.and_then(|stream| stream.refused.as_ref()).map(refused),
        next_attempt: next_attempt.map(Attempt::get),
        receipt: found.receipt.map(|receipt| {
            let Success { transaction, height, time, head, results } = &receipt.success;
            Receipt {
                request_hash: receipt.hash.to_string(),
                transaction: Text(*transaction),
                height: height.get(),
                time: Text(*time),
                head: Text(*head),
                results: results.iter().map(OperationResult::of).collect(),
            }
        }),
    }))
}

/// An attempt that a stream keeps as refused (C-42).
pub(super) fn refused(refused: &indelible_ledger::RefusedAttempt) -> RefusedAttempt {
    let code = refused.refusal.code();
    RefusedAttempt {
        attempt: refused.attempt.get(),
        sequence: refused.sequence.get(),
        request_hash: refused.hash.to_string(),
        code: code.to_string(),
        code_number: code.number(),
    }
}
