//! Vaults: made, shown, deleted. And whose a client id is.

use std::sync::Arc;

use http::StatusCode;
use indelible_api::Problem;
use indelible_api::control::Done;
use indelible_api::ledger::{DeletedVault, HandOver, Vault, VaultSettings, Vaults};
use indelible_journal::Micros;
use indelible_ledger::bounds::ACTOR_BYTES_MAX;
use indelible_ledger::json::Text;
use indelible_ledger::{Actor, ClientId};
use indelible_runtime::ledger::{self, VaultState};
use indelible_runtime::{Attribution, PersonDecision};

use super::{namespace, param, pinned, query, scope};
use crate::answer::Answer;
use crate::request::{ApiRequest, malformed};
use crate::routes::control::{bounded, decision};
use crate::state::State;

const MICROS_PER_SECOND: u64 = 1_000_000;

/// Makes a vault, or gives one that is there new settings. Doing so again changes nothing.
pub(crate) async fn put(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    asked.check_unused_key()?;
    let VaultSettings { log_retention_seconds } = asked.optional_json()?;
    let log_retention = log_retention_seconds.map(|seconds| {
        let micros = seconds.checked_mul(MICROS_PER_SECOND).map(Micros::new);
        micros.ok_or_else(|| malformed(format!("log_retention_seconds: {seconds} is too long")))
    });
    let settings = ledger::VaultSettings { log_retention: log_retention.transpose()? };
    let actor = asked.caller.actor().clone();
    let put = state.engine.put_vault(&scope, settings, Some(actor)).await;
    let (vault, made) = put.map_err(|error| state.ledger_error(&error))?;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Answer::json(status, &shown(&vault)))
}

/// The vaults of a namespace.
pub(crate) async fn list(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespace = namespace(&asked)?;
    let after = query(&asked, "after")?;
    let page = state.engine.vaults(&namespace, after.as_ref(), asked.limit()).await;
    let page = page.map_err(|error| state.ledger_error(&error))?;
    let vaults = page.vaults.iter().map(shown).collect();
    Ok(Answer::ok(&Vaults { vaults, next: page.next.map(Text) }))
}

/// A vault.
pub(crate) async fn show(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let vault = state.engine.vault(&scope(&asked)?).await;
    Ok(Answer::ok(&shown(&vault.map_err(|error| state.ledger_error(&error))?)))
}

/// Deletes a vault and everything in it. Doing so again gives the same answer, while the name is not
/// free.
pub(crate) async fn delete(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (scope, pinned) = (scope(&asked)?, pinned(&asked)?);
    asked.check_unused_key()?;
    let reason = bounded(asked.query("reason").unwrap_or_default().to_owned())?;
    let by = Attribution { actor: Some(asked.caller.actor().clone()), reason, key: None };
    let free_at = state.engine.delete_vault(&scope, pinned, by).await;
    let free_at = free_at.map_err(|error| state.ledger_error(&error))?;
    Ok(Answer::ok(&DeletedVault { name_free_at: Text(free_at) }))
}

/// Hands a client id over (impl C-46). Doing so again changes nothing.
pub(crate) async fn hand_over(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    let client: ClientId = param(&asked, "client")?;
    asked.check_unused_key()?;
    let HandOver { owner, reason } = asked.json()?;
    let owner = owner_named(&owner)?;
    let by = PersonDecision {
        actor: asked.caller.actor().clone(),
        reason: decision(reason)?,
        key: None,
    };
    let handed = state.engine.hand_over_client(&scope, &client, owner, by).await;
    handed.map_err(|error| state.ledger_error(&error))?;
    Ok(Answer::ok(&Done {}))
}

/// An actor as a person writes it. One that no credential can be would lock the client id for good.
fn owner_named(text: &str) -> Result<Actor, Problem> {
    let name = ["user:", "client:", "system:"].iter().find_map(|kind| text.strip_prefix(kind));
    let is_plain =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    if text.len() > ACTOR_BYTES_MAX || !name.is_some_and(is_plain) {
        return Err(malformed(
            "owner: use user:ID, client:NAME or system:NAME, as the audit record names actors",
        ));
    }
    Ok(Actor::new(text))
}

fn shown(state: &VaultState) -> Vault {
    let VaultState { scope, settings, .. } = state;
    let made = "a vault is made before it is shown";
    Vault {
        vault: Text(scope.vault.clone().expect("only vaults have names, and only they are shown")),
        namespace: scope.namespace.to_string(),
        incarnation: Text(state.incarnation.expect(made)),
        height: state.height.get(),
        time: Text(state.time),
        head: Text(state.head.expect(made)),
        state_hash: Text(state.state_hash),
        created_at: Text(state.created_at.expect(made)),
        log_retention_seconds: settings.log_retention.map(|kept| kept.get() / MICROS_PER_SECOND),
        log_from: state.log_from.get(),
        restores: state.restores.get(),
    }
}
