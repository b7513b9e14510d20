//! `indelible unresolved` and `indelible resolve`: effects of which nobody knows whether they
//! happened, in a data folder that no process has open.

use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use clap::{Args, Subcommand};
use indelible_http::Response;
use indelible_journal::PromiseId;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::{Actor, Decided, Engine, Options, Resolution, UnresolvedEffect, World};
use indelible_store::embedded;
use indelible_store::rows::TABLES;
use serde::Serialize;

use crate::failure::{Failure, Verdict, quiet};

const HELP: &str = "\
An HTTP request that is not idem, and of which nobody knows whether it happened, waits for a person
if its workflow says so. Look at the other side, and say how it ended; who says so, and why, is kept
in the audit record. The workflow goes on from there when it runs again.

Examples:
  indelible unresolved
  indelible resolve PROMISE happened --status 201 --body '{\"id\":7}' --reason 'it is in their list'
  indelible resolve PROMISE did-not-happen --reason 'they never saw it'
  indelible resolve PROMISE run-again --reason 'they say that twice does no harm'";

/// List HTTP requests of which nobody knows whether they happened
#[derive(Args)]
pub(crate) struct Unresolved {
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "indelible-data")]
    data: PathBuf,
    /// Print one JSON object for each
    #[arg(long)]
    json: bool,
}

/// Say how an HTTP request ended of which nobody knows whether it happened
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Resolve {
    /// Which: `indelible unresolved` lists them
    #[arg(value_parser = promise)]
    promise: PromiseId,
    #[command(subcommand)]
    how: How,
}

#[derive(Subcommand)]
enum How {
    /// It happened, and this is what was answered
    Happened {
        /// The status
        #[arg(long, value_parser = clap::value_parser!(u16).range(100..=999), default_value = "200")]
        status: u16,
        /// The body
        #[arg(long, default_value = "")]
        body: String,
        #[command(flatten)]
        common: Common,
    },
    /// It did not happen
    DidNotHappen {
        #[command(flatten)]
        common: Common,
    },
    /// Send it again: it may happen twice
    RunAgain {
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args)]
struct Common {
    /// Why: kept in the audit record
    #[arg(long)]
    reason: String,
    /// Who says so: kept in the audit record; the name of the user, if not given
    #[arg(long)]
    actor: Option<String>,
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "indelible-data")]
    data: PathBuf,
}

fn promise(text: &str) -> Result<PromiseId, String> {
    text.parse().map_err(|error| format!("it is no promise: {error}"))
}

/// How many are read at a time.
const PAGE: usize = 256;

#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    promise: String,
    execution: String,
    attempt: u32,
    since: String,
    label: &'a str,
    why: &'a str,
    state: &'static str,
}

impl Unresolved {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Verdict, Failure> {
        let engine = open(&self.data)?;
        let mut last: Option<UnresolvedEffect> = None;
        loop {
            let page = wait(&engine, engine.unresolved(last.as_ref(), PAGE));
            let page = page.map_err(|error| Failure::new(error.to_string()))?;
            for effect in &page {
                let written = if self.json { json(effect, out) } else { text(effect, out) };
                quiet(written).map_err(|error| Failure::output(&error))?;
            }
            match page.into_iter().last() {
                Some(effect) => last = Some(effect),
                None => return Ok(Verdict::Well),
            }
        }
    }
}

fn state(effect: &UnresolvedEffect) -> &'static str {
    if effect.held { "held" } else { "asking" }
}

fn text(effect: &UnresolvedEffect, out: &mut impl Write) -> std::io::Result<()> {
    let (promise, since, label) = (&effect.promise, effect.since, &effect.label);
    writeln!(out, "{promise}\n  {since}  {}  {label}", state(effect))?;
    let why: String = effect.why.chars().flat_map(char::escape_debug).collect();
    writeln!(out, "  {why}")
}

fn json(effect: &UnresolvedEffect, out: &mut impl Write) -> std::io::Result<()> {
    let line = Line {
        v: 1,
        promise: effect.promise.to_string(),
        execution: effect.execution.to_string(),
        attempt: effect.attempt.get(),
        since: effect.since.to_string(),
        label: &effect.label,
        why: &effect.why,
        state: state(effect),
    };
    serde_json::to_writer(&mut *out, &line)?;
    writeln!(out)
}

impl Resolve {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Verdict, Failure> {
        let (common, resolution) = match &self.how {
            How::Happened { status, body, common } => {
                let body = Bytes::copy_from_slice(body.as_bytes());
                let response = Response { status: *status, headers: Vec::new(), body };
                (common, Resolution::Happened(response))
            }
            How::DidNotHappen { common } => (common, Resolution::DidNotHappen),
            How::RunAgain { common } => (common, Resolution::RunAgain),
        };
        let engine = open(&common.data)?;
        let actor = Actor::new(&common.actor.clone().unwrap_or_else(user));
        let resolved =
            engine.resolve(&self.promise, resolution, Decided::by(actor, &common.reason));
        wait(&engine, resolved).map_err(|error| {
            Failure::new(format!("nothing has changed: {error}"))
                .hint("`indelible unresolved` lists what can be resolved")
        })?;
        let written = writeln!(out, "resolved; its workflow goes on when it runs again");
        quiet(written).map_err(|error| Failure::output(&error))?;
        Ok(Verdict::Well)
    }
}

#[expect(clippy::disallowed_methods, reason = "who says so is who is logged in")]
fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "local".to_owned())
}

/// An engine that sends nothing and runs nothing by itself.
fn open(folder: &Path) -> Result<Engine, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot open {}: {error}", folder.display()))
            .hint("one process at a time may have a data folder; --data names another")
    };
    if !folder.join("store").is_dir() {
        return Err(failed(&"there is no store in it"));
    }
    let store = embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default());
    let store = store.map_err(|error| failed(&error))?;
    let artifacts = Artifacts::folder(folder.join("artifacts")).map_err(|error| failed(&error))?;
    let guests = GuestOptions { guests_max: 8, ..GuestOptions::default() };
    let guests = Guests::new(guests, artifacts).map_err(|error| failed(&error))?;
    let options = Options { workers: 0, effects_in_flight_max: 0, ..Options::default() };
    Engine::open(store, options, World::system(guests)).map_err(|error| failed(&error))
}

/// Runs the engine as far as it has to for this, and no further.
fn wait<F: Future>(engine: &Engine, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        if !engine.step() {
            let store = engine.store();
            // Only the disk is left to wait for; if it has failed, whoever asked is told.
            _ = store.durable(store.accepted()).wait();
        }
    }
}
