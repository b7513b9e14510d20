//! What is deployed. Components belong to the whole server, not to a namespace.

use std::sync::Arc;

use indelible_api::call::Verdict;
use indelible_api::component::{
    Activate, Activated, Component, Components, Deployed, Function, Functions,
    Version as WireVersion,
};
use indelible_api::{Code, Problem};
use indelible_idempotency::ConsumerNamespace;
use indelible_journal::{ComponentDigest, Durability, Idempotency};
use indelible_runtime::guest::Manifest;
use indelible_runtime::{Attribution, ComponentName, IfBreaking, Lane, Version};
use tracing::error;

use crate::answer::Answer;
use crate::request::{ApiRequest, SERVER_NAMESPACE, malformed};
use crate::state::State;

type Row = (ComponentName, ComponentDigest, Vec<Version>);

/// All components.
pub(super) async fn list(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let mut components = Vec::new();
    for row in rows(&state).await? {
        components.push(component(&state, row, Shown::Names).await?);
    }
    Ok(Answer::ok(&Components { components }))
}

/// One of them.
pub(super) async fn get(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let name = asked.param("component");
    let row = rows(&state).await?.into_iter().find(|(known, ..)| known.as_str() == name);
    let none = || Problem::new(Code::NoSuchComponent, "no component of this name is deployed");
    Ok(Answer::ok(&component(&state, row.ok_or_else(none)?, Shown::Schemas).await?))
}

/// What can be called.
pub(super) async fn functions(state: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let mut functions = Vec::new();
    for row in rows(&state).await? {
        let (name, active, _) = row;
        // The versions are not shown.
        functions
            .extend(component(&state, (name, active, Vec::new()), Shown::Schemas).await?.functions);
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
    let if_breaking = if_breaking(&asked);
    let (engine, called, bytes) = (Arc::clone(&state.engine), name.clone(), asked.body);
    let runtime = tokio::runtime::Handle::current();
    // Compiling takes a second, so it must not block connections. It continues if the caller
    // disconnects, and its bytes are counted until it ends. The engine bounds how many compile at a
    // time, since it knows how much work each is.
    let held = asked.held;
    let deploy = move || {
        let deployed = runtime.block_on(engine.deploy_with(&called, &bytes, if_breaking, wanted));
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
        functions: functions_of(&name, &deployment.manifest, Shown::Names),
        name,
    })
    .verdict(verdict))
}

/// Makes an earlier version the active one.
pub(super) async fn activate(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let name = asked.param("component").to_owned();
    let namespace = ConsumerNamespace::new(SERVER_NAMESPACE).expect("it is one");
    let key = asked.key(&namespace)?;
    if !rows(&state).await?.iter().any(|(known, ..)| known.as_str() == name) {
        let none = "no component of this name is deployed";
        return Err(Problem::new(Code::NoSuchComponent, none));
    }
    let Activate { digest } = asked.json()?;
    let digest: ComponentDigest =
        digest.parse().map_err(|_| malformed("digest must be the whole SHA-256 of a version"))?;
    let wanted =
        Attribution { actor: Some(asked.caller.actor().clone()), reason: String::new(), key };
    let done = state.engine.activate(&name, &digest, if_breaking(&asked), wanted).await;
    let done = done.map_err(|refused| state.not_deployed(&refused))?;
    let verdict = if done.prior { Verdict::PriorResult } else { Verdict::Fresh };
    let functions = functions_of(&name, &done.value.manifest, Shown::Names);
    let digest = done.value.digest.to_string();
    Ok(Answer::ok(&Activated { name, digest, functions }).verdict(verdict))
}

fn if_breaking(asked: &ApiRequest) -> IfBreaking {
    if asked.flag("force") { IfBreaking::Proceed } else { IfBreaking::Refuse }
}

async fn rows(state: &State) -> Result<Vec<Row>, Problem> {
    state.engine.components().await.map_err(|error| state.engine_error(&error))
}

/// How much of a function is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Names,
    Schemas,
}

async fn component(
    state: &State,
    (name, active, versions): Row,
    how: Shown,
) -> Result<Component, Problem> {
    let manifest = state.engine.manifest(&active).await;
    let manifest = manifest.map_err(|error| state.engine_error(&error))?;
    let (of, manifest) = (name.to_string(), manifest.into_iter());
    // Schemas may have megabytes: they are read where that holds up no connection.
    let functions = state.read(Lane::Lists, move |_| {
        Ok(manifest.flat_map(|manifest| functions_of(&of, &manifest, how)).collect())
    });
    let digests: Vec<_> = versions.iter().map(|version| version.digest).collect();
    let counts = match how {
        Shown::Names => Vec::new(),
        Shown::Schemas => {
            let counted = state.engine.unfinished_by_version(&digests).await;
            counted.map_err(|error| state.engine_error(&error))?
        }
    };
    let versions = versions.into_iter().enumerate().map(|(index, version)| {
        let count = counts.get(index);
        WireVersion {
            digest: version.digest.to_string(),
            deployed_at: version.deployed_at.to_string(),
            unfinished: count.map(|count| count.found),
            unfinished_more: count.is_some_and(|count| count.more),
        }
    });
    Ok(Component {
        name: name.to_string(),
        active: active.to_string(),
        versions: versions.collect(),
        functions: functions.await?,
    })
}

fn functions_of(component: &str, manifest: &Manifest, how: Shown) -> Vec<Function> {
    let schema = |schema: &Option<Arc<str>>| {
        let schema = schema.as_ref().filter(|_| how == Shown::Schemas)?;
        serde_json::from_str(schema).ok()
    };
    let function = |spec: &indelible_runtime::guest::FunctionSpec| Function {
        component: component.to_owned(),
        name: spec.name.to_string(),
        description: spec.description.clone(),
        persist: spec.retry_policy.class.durability == Durability::Persist,
        idem: spec.retry_policy.class.idempotency == Idempotency::Idem,
        input_schema: schema(&spec.input_schema),
        output_schema: schema(&spec.output_schema),
    };
    manifest.functions().iter().map(function).collect()
}
