//! What is deployed. Components belong to the whole server, not to a namespace.

use std::sync::Arc;

use indelible_api::call::Verdict;
use indelible_api::component::{
    Component, Components, Deployed, Function, Functions, Version as WireVersion,
};
use indelible_api::{Code, Problem};
use indelible_idempotency::ConsumerNamespace;
use indelible_journal::{ComponentDigest, Durability, Idempotency};
use indelible_runtime::guest::Manifest;
use indelible_runtime::{Attribution, ComponentName, Version};
use tracing::error;

use crate::answer::Answer;
use crate::request::{ApiRequest, SERVER_NAMESPACE};
use crate::state::State;

type Row = (ComponentName, ComponentDigest, Vec<Version>);

/// All components.
pub(super) async fn list(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let mut components = Vec::new();
    for row in rows(&state).await? {
        components.push(component(&state, row).await?);
    }
    Ok(Answer::ok(&Components { components }))
}

/// One of them.
pub(super) async fn get(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let name = asked.param("component");
    let row = rows(&state).await?.into_iter().find(|(known, ..)| known.as_str() == name);
    let none = || Problem::new(Code::NoSuchComponent, "no component of this name is deployed");
    Ok(Answer::ok(&component(&state, row.ok_or_else(none)?).await?))
}

/// What can be called.
pub(super) async fn functions(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let mut functions = Vec::new();
    for row in rows(&state).await? {
        functions.extend(component(&state, row).await?.functions);
    }
    Ok(Answer::ok(&Functions { functions }))
}

/// Deploys a component.
pub(super) async fn deploy(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let name = asked.param("component").to_owned();
    let namespace = ConsumerNamespace::new(SERVER_NAMESPACE).expect("it is one");
    let key = asked.key(&namespace)?;
    let wanted =
        Attribution { actor: Some(asked.caller.actor().clone()), reason: String::new(), key };
    let (engine, called, bytes) = (Arc::clone(&state.engine), name.clone(), asked.body);
    let runtime = tokio::runtime::Handle::current();
    // Compiling takes a second, so it must not block connections. It continues if the caller
    // disconnects, and its bytes are counted until it ends. The engine bounds how many compile at a
    // time, since it knows how much work each is.
    let held = asked.held;
    let deploy = move || {
        let deployed = runtime.block_on(engine.deploy(&called, &bytes, wanted));
        drop(held);
        deployed
    };
    let done = tokio::task::spawn_blocking(deploy).await.map_err(|error| {
        error!(%error, "deployment panicked");
        Problem::new(Code::Internal, "an internal error occurred; see the server's log")
    })?;
    let done = done.map_err(|refused| state.not_deployed(&refused))?;
    let verdict = if done.prior { Verdict::PriorResult } else { Verdict::Fresh };
    let deployment = done.value;
    Ok(Answer::ok(&Deployed {
        digest: deployment.digest.to_string(),
        known: deployment.known,
        functions: shown(&name, &deployment.manifest),
        name,
    })
    .verdict(verdict))
}

async fn rows(state: &State) -> Result<Vec<Row>, Problem> {
    state.engine.components().await.map_err(|error| state.engine_error(&error))
}

async fn component(state: &State, (name, active, versions): Row) -> Result<Component, Problem> {
    let manifest = state.engine.manifest(&active).await;
    let manifest = manifest.map_err(|error| state.engine_error(&error))?;
    let functions = manifest.map(|manifest| shown(name.as_str(), &manifest));
    let versions = versions.into_iter().map(|version| WireVersion {
        digest: version.digest.to_string(),
        deployed_at: version.deployed_at.to_string(),
    });
    Ok(Component {
        name: name.to_string(),
        active: active.to_string(),
        versions: versions.collect(),
        functions: functions.unwrap_or_default(),
    })
}

fn shown(component: &str, manifest: &Manifest) -> Vec<Function> {
    let function = |spec: &indelible_runtime::guest::FunctionSpec| Function {
        component: component.to_owned(),
        name: spec.name.to_string(),
        persist: spec.retry_policy.class.durability == Durability::Persist,
        idem: spec.retry_policy.class.idempotency == Idempotency::Idem,
    };
    manifest.functions().iter().map(function).collect()
}
