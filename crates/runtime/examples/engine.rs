//! A process with an engine in it, for the test that kills it: it does what it reads, line by
//! line, and says what the engine acknowledged, not earlier.
//!
//! `engine FOLDER COMPONENT PARKED WORKERS LATER [PEER…]` opens the store and the engine in a
//! folder, deploys the component there if it is not yet, and says `open`. It keeps so many parked
//! guests, and its clock is so many seconds ahead. The component may send HTTP requests to these
//! peers, with the secret `TOKEN` from the environment's `INDELIBLE_TEST_TOKEN`. Then:
//!
//! | it reads | it says |
//! |---|---|
//! | `start OPERATION FUNCTION INPUT` | `started OPERATION EXECUTION` |
//! | `signal TOKEN EXECUTION NAME PAYLOAD` | `signalled TOKEN DELIVERY`, or `late TOKEN` if it is over |
//! | `cancel OPERATION EXECUTION` | `cancelled OPERATION` |
//! | `outcome OPERATION EXECUTION` | `ended OPERATION OUTCOME` |
//! | `unresolved TOKEN COUNT` | `unresolved TOKEN`, and the `PROMISE ATTEMPT` of each that is held |
//! | `resolve TOKEN PROMISE HOW` | `resolved TOKEN`, or `refused TOKEN` if it is not unresolved |
//! | `rest` | `rested`, when no timer is left |
//! | `close` | nothing more: it drops what it was asked, closes and ends |
//!
//! `engine compile …` is another process: the one that compiles a component for its parent.
//!
//! What the engine refuses, and what it holds or is troubled by, is said as `trouble …`.
#![allow(clippy::unwrap_used, reason = "if anything fails, the test that reads this must notice")]
#![allow(clippy::disallowed_methods, reason = "it is a process of its own")]

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indelible_http::Response;
use indelible_http_client::{Bounds, Client, Config, Grant, Grants, Network, SecretSource};
use indelible_journal::{
    ExecutionId, JournalKey, Micros, Namespace, OperationId, Payload, PromiseId, SignalName,
    Timestamp,
};
use indelible_records::labels::Labels;
use indelible_records::{TABLES, timers};
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests, compile_for_parent};
use indelible_runtime::world::{Clock, Observer, System, Trouble};
use indelible_runtime::{
    Actor, Attribution, CommandRefusal, ControlError, Engine, Options, Parking, ParkingBounds,
    PersonDecision, Resolution, Start, World,
};
use indelible_store::embedded;
use indelible_test_store::outcome;
use tokio::task::JoinSet;

const COMPONENT: &str = "behaviours";

/// Requests in flight, and connections to one peer: many, so that a kill meets many.
const IN_FLIGHT_MAX: usize = 4_096;
const CONNECTIONS_MAX: usize = 1_500;

/// One write a line: lines of several threads do not mix, and a kill does not cut one.
fn say(line: &str) {
    let line = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Says what should not be.
struct Aloud;

impl Observer for Aloud {
    fn stuck(&self, key: &JournalKey, why: &str) {
        say(&format!("trouble {key} is stuck: {why}"));
    }

    fn trouble(&self, trouble: &Trouble<'_>) {
        say(&format!("trouble {trouble}"));
    }
}

/// A clock that is ahead.
struct Ahead(Micros);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        System.now().saturating_add(self.0)
    }

    fn elapsed(&self) -> Micros {
        System.elapsed()
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = &arguments[..]
        && first == "compile"
    {
        return compile_for_parent(rest.iter().cloned()).unwrap();
    }
    let [folder, component, parked, workers, later, peers @ ..] = &arguments[..] else {
        panic!("usage: engine FOLDER COMPONENT PARKED WORKERS LATER [PEER…]");
    };
    let parking = match parked.parse().unwrap() {
        0 => Parking::Drop,
        guests_max => Parking::Keep(ParkingBounds::for_guests(guests_max)),
    };
    let options = Options {
        workers: workers.parse().unwrap(),
        parking,
        effects_in_flight_max: IN_FLIGHT_MAX,
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let clock = Ahead(Micros::from_secs(later.parse().unwrap()));
    let engine = Arc::new(open(folder.as_ref(), options, clock, peers));
    runtime.block_on(deploy(&engine, component.as_ref()));
    say("open");
    let mut asked = JoinSet::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        match line.as_str() {
            "close" => break,
            "rest" => rest(&engine),
            _ => {
                asked.spawn_on(run_command(Arc::clone(&engine), line), runtime.handle());
            }
        }
        while asked.try_join_next().is_some() {}
    }
    // Requests that were not acknowledged by now get no answer any more.
    runtime.block_on(asked.shutdown());
    let store = engine.store().clone();
    Arc::into_inner(engine).unwrap().close();
    store.close().unwrap();
}

fn open(folder: &Path, options: Options, clock: Ahead, peers: &[String]) -> Engine {
    let store =
        embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default()).unwrap();
    let artifacts = Artifacts::folder(folder.join("artifacts")).unwrap();
    let guests = Guests::new(GuestOptions::default(), artifacts).unwrap();
    let (clock, observer) = (Arc::new(clock), Arc::new(Aloud));
    let mut world = World { clock, observer, ..World::system(guests) };
    if !peers.is_empty() {
        world.http = Arc::new(client(peers));
    }
    Engine::open(store, options, world).unwrap()
}

/// A client that reaches these peers, and no other host.
fn client(peers: &[String]) -> Client {
    let grant = Grant {
        hosts: peers.iter().map(|peer| peer.parse().unwrap()).collect(),
        networks: Network::loopback().to_vec(),
        plain_http: true,
        secrets: [("TOKEN".to_owned(), Vec::new())].into(),
        ..Grant::default()
    };
    let token = SecretSource::Environment("INDELIBLE_TEST_TOKEN".to_owned());
    let bounds = Bounds {
        in_flight_max: IN_FLIGHT_MAX,
        in_flight_per_origin_max: CONNECTIONS_MAX,
        ..Bounds::default()
    };
    let mut config = Config {
        grants: Grants::from_iter([(COMPONENT, grant)]),
        secrets: [("TOKEN".to_owned(), token)].into(),
        bounds,
        ..Config::default()
    };
    config.roots.system = false;
    Client::start(config).unwrap()
}

/// Deploys the component, unless an earlier process did.
async fn deploy(engine: &Engine, component: &Path) {
    if engine.components().await.unwrap().is_empty() {
        engine
            .deploy(COMPONENT, &std::fs::read(component).unwrap(), Attribution::default())
            .await
            .unwrap();
    }
}

/// Waits until no timer is left: the engine deletes those that mean nothing when they are due.
fn rest(engine: &Engine) {
    while !timers::next(engine.store(), None, 1).unwrap().value.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    say("rested");
}

async fn run_command(engine: Arc<Engine>, line: String) {
    let mut words = line.splitn(3, ' ');
    let (what, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let done = match what {
        "start" => start(&engine, name, rest).await,
        "signal" => signal(&engine, name, rest).await,
        "cancel" => cancel(&engine, name, rest).await,
        "outcome" => ended(&engine, name, rest).await,
        "unresolved" => unresolved(&engine, name, rest).await,
        "resolve" => resolve(&engine, name, rest).await,
        other => Err(format!("nobody knows {other}")),
    };
    match done {
        Ok(said) => say(&said),
        Err(error) => say(&format!("trouble {line}: {error}")),
    }
}

async fn start(engine: &Engine, operation: &str, rest: &str) -> Result<String, String> {
    let (function, input) = rest.split_once(' ').unwrap();
    let start = Start {
        namespace: Namespace::new("killed").unwrap(),
        operation_id: Some(OperationId::new(operation).unwrap()),
        idempotency_key: None,
        component: COMPONENT.to_owned(),
        function: function.to_owned(),
        input: Payload::json(input.to_owned()),
        trace_parent: None,
        actor: None,
        labels: Labels::default(),
    };
    let started = engine.start(start).await.map_err(|error| error.to_string())?;
    Ok(format!("started {operation} {}", started.execution_id))
}

async fn signal(engine: &Engine, token: &str, rest: &str) -> Result<String, String> {
    let mut words = rest.splitn(3, ' ');
    let execution: ExecutionId = words.next().unwrap().parse().unwrap();
    let name = SignalName::new(words.next().unwrap()).unwrap();
    let payload = Payload::json(words.next().unwrap().to_owned());
    match engine.signal(&execution, &name, payload, Attribution::default()).await {
        Ok(delivery) => Ok(format!("signalled {token} {}", delivery.value)),
        Err(ControlError::CommandRefusal(CommandRefusal::Over(_))) => Ok(format!("late {token}")),
        Err(error) => Err(error.to_string()),
    }
}

async fn cancel(engine: &Engine, operation: &str, execution: &str) -> Result<String, String> {
    match engine.cancel(&execution.parse().unwrap(), Attribution::because("enough")).await {
        // Asked again after a crash, it may be over already.
        Ok(_) | Err(ControlError::CommandRefusal(CommandRefusal::Over("it was cancelled"))) => {
            Ok(format!("cancelled {operation}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

async fn ended(engine: &Engine, operation: &str, execution: &str) -> Result<String, String> {
    let ending = engine.outcome(&execution.parse().unwrap()).await;
    let ending = ending.map_err(|error| error.to_string())?.ok_or("there is none")?;
    Ok(format!("ended {operation} {}", outcome::text(&ending)))
}

async fn unresolved(engine: &Engine, token: &str, count: &str) -> Result<String, String> {
    let all = engine.unresolved(None, count.parse().unwrap()).await;
    let all = all.map_err(|error| error.to_string())?;
    let held = all.iter().filter(|effect| effect.is_held());
    let held: Vec<_> =
        held.map(|effect| format!(" {} {}", effect.promise, effect.attempt)).collect();
    Ok(format!("unresolved {token}{}", held.concat()))
}

async fn resolve(engine: &Engine, token: &str, rest: &str) -> Result<String, String> {
    let (promise, how) = rest.split_once(' ').unwrap();
    let promise: PromiseId = promise.parse().unwrap();
    let resolution = match how {
        "happened" => {
            let body = "as ada saw it".into();
            Resolution::Happened(Response { status: 299, headers: Vec::new(), body })
        }
        "did-not-happen" => Resolution::DidNotHappen,
        "run-again" => Resolution::RunAgain,
        other => return Err(format!("nobody knows {other}")),
    };
    match engine
        .resolve(&promise, resolution, PersonDecision::by(Actor::new("ada"), "she looked"))
        .await
    {
        Ok(_) => Ok(format!("resolved {token}")),
        Err(ControlError::CommandRefusal(_)) => Ok(format!("refused {token}")),
        Err(error) => Err(error.to_string()),
    }
}
