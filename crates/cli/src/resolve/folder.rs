//! The effects in a data folder that no process has open.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use indelible_http::Response;
use indelible_journal::PromiseId;
use indelible_records::TABLES;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::{
    Actor, Engine, Options, PersonDecision, Resolution, UnresolvedEffect, World,
};
use indelible_store::embedded;

use super::{Line, OutcomeWord, state};
use crate::failure::{Exit, Failure, unopened, unopened_store};
use crate::remote::Target;

/// How many are read at a time.
const PAGE: usize = 256;

/// Passes every unresolved effect to `tell`.
pub(super) fn list(
    folder: &Path,
    tell: &mut impl FnMut(Line) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let engine = open(folder)?;
    let mut last: Option<UnresolvedEffect> = None;
    loop {
        let page = wait(&engine, engine.unresolved(last.as_ref(), PAGE));
        let page = page.map_err(|error| Failure::new(error.to_string()))?;
        for effect in &page {
            tell(Line {
                promise: effect.promise.to_string(),
                execution: effect.execution.execution_id().to_string(),
                attempt: effect.attempt.get(),
                since: effect.since.to_string(),
                label: effect.label.clone(),
                why: effect.why.clone(),
                state: state(effect.held),
            })?;
        }
        match page.into_iter().last() {
            Some(effect) => last = Some(effect),
            None => return Ok(()),
        }
    }
}

/// Resolves an effect once `sure` has confirmed it, and returns the effect's whole id.
pub(super) fn resolve(
    folder: &Path,
    promise: &Target,
    ended: OutcomeWord,
    actor: Option<String>,
    reason: &str,
    sure: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let promise = promise.whole().and_then(|text| text.parse::<PromiseId>().ok());
    let promise = promise.ok_or_else(|| {
        Failure::new("with --data, give the whole id of the promise")
            .hint("`indelible unresolved --data DIR` lists them")
            .exit(Exit::Usage)
    })?;
    let engine = open(folder)?;
    sure(&promise.to_string())?;
    let resolution = match ended {
        OutcomeWord::Happened { status, body } => {
            let body = Bytes::from(body.into_bytes());
            Resolution::Happened(Response { status, headers: Vec::new(), body })
        }
        OutcomeWord::DidNotHappen => Resolution::DidNotHappen,
        OutcomeWord::RunAgain => Resolution::RunAgain,
    };
    let actor = Actor::new(&actor.unwrap_or_else(user));
    let resolved = engine.resolve(&promise, resolution, PersonDecision::by(actor, reason));
    wait(&engine, resolved).map_err(|error| {
        Failure::new(format!("nothing has changed: {error}"))
            .hint("`indelible unresolved` lists what can be resolved")
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
