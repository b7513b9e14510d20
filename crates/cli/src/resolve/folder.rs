//! What is unknown in a data folder that no process has open.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use indelible_client::api::unresolved::{Unresolved as Listed, UnresolvedDetail};
use indelible_http::Response;
use indelible_journal::{Attempt, PromiseId};
use indelible_records::TABLES;
use indelible_records::doubts::Filter;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::{
    Actor, ControlError, Engine, EngineError, Options, PersonDecision, Resolution, World,
};
use indelible_server::unresolved;
use indelible_store::embedded;

use super::{Decision, OutcomeWord};
use crate::failure::{Exit, Failure, unopened, unopened_store};
use crate::remote::Target;

/// How many are read at a time.
const PAGE: usize = 256;

/// Passes what is unknown, and wanted, to `tell`.
pub(super) fn list(
    folder: &Path,
    wanted: &super::Unresolved,
    tell: &mut impl FnMut(Listed) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let engine = open(folder)?;
    let mut last = None;
    loop {
        let page = wait(&engine, engine.doubts(Filter::default(), true, last, PAGE));
        let page = page.map_err(|error| Failure::new(error.to_string()))?;
        for (id, doubt) in &page.doubts {
            let listed = unresolved::listed(id, doubt);
            if wanted.wants(&listed) {
                tell(listed)?;
            }
        }
        last = page.next;
        if last.is_none() {
            return Ok(());
        }
    }
}

/// The evidence for one question. The states of its callers need a server.
pub(super) fn detail(folder: &Path, promise: &Target) -> Result<UnresolvedDetail, Failure> {
    let promise = whole(promise)?;
    let engine = open(folder)?;
    let tree = Filter { tree: Some(*promise.root()), ..Filter::default() };
    let mut last = None;
    let mut found = None;
    loop {
        let page = wait(&engine, engine.doubts(tree.clone(), true, last, PAGE));
        let page = page.map_err(|error| Failure::new(error.to_string()))?;
        found = page.doubts.into_iter().rfind(|(id, _)| id.promise() == promise).or(found);
        last = page.next;
        if last.is_none() {
            break;
        }
    }
    let (id, doubt) = found.ok_or_else(|| {
        Failure::new("nothing is unknown about this promise")
            .hint("`indelible unresolved --all --data DIR` lists what is, or was")
    })?;
    Ok(unresolved::shown(&id, doubt, Vec::new()))
}

fn whole(promise: &Target) -> Result<PromiseId, Failure> {
    let promise = promise.whole().and_then(|text| text.parse::<PromiseId>().ok());
    promise.ok_or_else(|| {
        Failure::new("with --data, give the whole id of the promise")
            .hint("`indelible unresolved --data DIR` lists them")
            .exit(Exit::Usage)
    })
}

/// Settles a question once `sure` has confirmed it, and returns the whole id of the promise.
pub(super) fn resolve(
    folder: &Path,
    promise: &Target,
    decision: Decision,
    actor: Option<String>,
    sure: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let promise = whole(promise)?;
    let engine = open(folder)?;
    sure(&promise.to_string())?;
    let Decision { ended, attempt, reason } = decision;
    let resolution = match ended {
        OutcomeWord::Happened { status, body } => {
            let body = Bytes::from(body.into_bytes());
            Resolution::Happened(Response { status, headers: Vec::new(), body })
        }
        OutcomeWord::DidNotHappen => Resolution::DidNotHappen,
        OutcomeWord::RunAgain => Resolution::RunAgain,
        OutcomeWord::AcceptUnknown => Resolution::AcceptUnknown,
    };
    let actor = Actor::new(&actor.unwrap_or_else(user));
    let attempt = attempt.and_then(Attempt::new);
    let decided = PersonDecision::by(actor, &reason);
    let resolved = engine.resolve_attempt(&promise, attempt, resolution, decided);
    wait(&engine, resolved).map_err(|error| {
        let hint = match error {
            ControlError::Engine(EngineError::OnHold) => {
                "start a server on the folder, and let it go on with `indelible hold lift`"
            }
            _ => "`indelible unresolved` lists what can be resolved",
        };
        Failure::new(format!("nothing has changed: {error}")).hint(hint)
    })?;
    Ok(promise.to_string())
}

#[expect(clippy::disallowed_methods, reason = "who says so is who is logged in")]
fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "local".to_owned())
}

/// An engine without workers, which sends no requests.
fn open(folder: &Path) -> Result<Engine, Failure> {
    let failed = |error: &dyn std::fmt::Display| unopened(folder, error);
    if !folder.join("store").is_dir() {
        return Err(failed(&"it has no store").hint("give a data folder with --data"));
    }
    let store = embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default());
    let store = store.map_err(|error| unopened_store(folder, &error))?;
    let artifacts = Artifacts::folder(folder.join("artifacts")).map_err(|error| failed(&error))?;
    let guests = GuestOptions { guests_max: 8, ..GuestOptions::default() };
    let guests = Guests::new(guests, artifacts).map_err(|error| failed(&error))?;
    let options = Options { workers: 0, effects_in_flight_max: 0, ..Options::default() };
    Engine::open(store, options, World::system(guests)).map_err(|error| failed(&error))
}

/// Steps the engine until the future is ready, and no further.
fn wait<F: Future>(engine: &Engine, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        if !engine.step() {
            let store = engine.store();
            // The engine has nothing to do, so the future waits for the disk. If the disk has
            // failed, the future itself returns the error.
            _ = store.durable(store.accepted()).wait();
        }
    }
}
