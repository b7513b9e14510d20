//! HTTP effects over a real network: the engine with the real client against a real peer, by class
//! and by what goes wrong; an engine that stops, and one that is killed right after an answer.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the test starts processes and makes folders")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indelible_http::Response;
use indelible_http_client::{Client, Config, Grant, Grants, Network};
use indelible_http_peer::{Hold, Peer};
use indelible_journal::{Ending, ExecutionId, Micros, Namespace, OperationId, Payload};
use indelible_records::TABLES;
use indelible_records::labels::Labels;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::{
    Actor, Attribution, Engine, Options, PersonDecision, Resolution, Start, World,
};
use indelible_store::embedded;
use indelible_test_store::folder::reopen;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::effects_killed::keys;
use crate::support::process::{PATIENCE, Process};

/// An answer that is whole is durable so much later, at most.
const KEPT_AFTER: Duration = Duration::from_millis(50);

/// An engine in a folder, that reaches some peers.
struct House {
    folder: TempDir,
    runtime: Runtime,
    guests: Arc<Guests>,
    peers: Vec<String>,
    engine: Option<Engine>,
}

impl House {
    fn new(peers: &[&Peer], options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let compiled =
            [env!("CARGO_TARGET_TMPDIR"), "artifacts"].iter().collect::<std::path::PathBuf>();
        let guest_options = GuestOptions { guests_max: 1_000, ..GuestOptions::default() };
        let guests = Guests::new(guest_options, Artifacts::folder(compiled).unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let peers = peers.iter().map(|peer| peer.address().to_string()).collect();
        let mut house = Self { folder, runtime, guests, peers, engine: None };
        house.open(options);
        let bytes = std::fs::read(indelible_guests::component("behaviours")).unwrap();
        house
            .runtime
            .block_on(house.engine().deploy("behaviours", &bytes, Attribution::default()))
            .unwrap();
        house
    }

    fn open(&mut self, options: Options) {
        let path = self.folder.path().join("store");
        let store =
            reopen(|| embedded::open(&path, &TABLES, &embedded::Options::default())).unwrap();
        let grant = Grant {
            hosts: self.peers.iter().map(|peer| peer.parse().unwrap()).collect(),
            networks: Network::loopback().to_vec(),
            plain_http: true,
            ..Grant::default()
        };
        let grants = Grants::from_iter([("behaviours", grant)]);
        let mut config = Config { grants, ..Config::default() };
        config.roots.system = false;
        let http = Arc::new(Client::start(config).unwrap());
        let world = World { http, ..World::system(Arc::clone(&self.guests)) };
        self.engine = Some(Engine::open(store, options, world).unwrap());
    }

    /// Stops the engine, and opens another.
    fn stop(&mut self, options: Options) {
        let engine = self.engine.take().unwrap();
        let store = engine.store().clone();
        engine.close();
        store.close().unwrap();
        self.open(options);
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn start(&self, id: &str, function: &str, input: &str) -> ExecutionId {
        let start = Start {
            namespace: Namespace::new("wire").unwrap(),
            operation_id: Some(OperationId::new(id).unwrap()),
            idempotency_key: None,
            component: "behaviours".to_owned(),
            function: function.to_owned(),
            input: Payload::json(input.to_owned()),
            trace_parent: None,
            actor: None,
            labels: Labels::default(),
        };
        self.runtime.block_on(self.engine().start(start)).unwrap().execution_id
    }

    /// What a function that sends one request said: its status, or its error.
    #[track_caller]
    fn said(&self, id: &ExecutionId) -> String {
        let outcome = async { tokio::time::timeout(PATIENCE, self.engine().outcome(id)).await };
        let ending = self.runtime.block_on(outcome).expect("it is over in time").unwrap().unwrap();
        let Ending::Completed(payload) = ending else { panic!("{ending:?}") };
        said(std::str::from_utf8(&payload.bytes).unwrap())
    }

    /// The one effect that is held, when there is one.
    fn held(&self) -> indelible_runtime::UnresolvedEffect {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let all = self.runtime.block_on(self.engine().unresolved(None, 10)).unwrap();
            if let Some(one) = all.into_iter().find(indelible_runtime::UnresolvedEffect::is_held) {
                return one;
            }
            std::thread::yield_now();
        }
        panic!("nothing is held");
    }
}

#[track_caller]
fn said(json: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    match (json["error"].as_str(), json["status"].as_u64()) {
        (Some(error), Some(status)) => format!("{error} ({status})"),
        (Some(error), None) => error.to_owned(),
        (None, status) => status.unwrap().to_string(),
    }
}

/// A request: method, URL, and more fields.
fn spec(method: &str, url: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    format!(r#"{{"method":"{method}","url":"{url}","backoff_ms":10{more}}}"#)
}

/// The key that the effect of an execution sends.
fn key(id: &ExecutionId) -> String {
    keys::of(&id.child(0))
}

/// D5, C-29, C-38: what each misbehaviour of a peer comes to, by class: the outcome, how many
/// requests arrived, and how many had their effect.
#[test]
fn what_the_network_does_comes_to_what_the_class_allows() {
    let (peer, closing) = (Peer::start(), Peer::start());
    let house = House::new(&[&peer, &closing], Options::default());
    let usual = r#""retries":2"#;
    let short = r#""retries":2,"timeout_ms":250"#;
    let declared = r#""retries":2,"no_answer":[],"not_processed":[502]"#;
    let asked = r#""retries":2,"settle_ms":300"#;
    let table = [
        ("answer", usual, ("200", 1, 1), ("200", 1, 1)),
        ("answer-late/50", usual, ("200", 1, 1), ("200", 1, 1)),
        ("process-late/50", usual, ("200", 1, 1), ("200", 1, 1)),
        ("echo", usual, ("200", 1, 1), ("200", 1, 1)),
        ("slow/40/1", usual, ("200", 1, 1), ("200", 1, 1)),
        ("drop-before", usual, ("Transient", 3, 0), ("Indeterminate", 1, 0)),
        ("seq/drop-before,answer", usual, ("200", 2, 1), ("Indeterminate", 1, 0)),
        ("seq/drop-after,answer", usual, ("200", 2, 2), ("Indeterminate", 1, 1)),
        ("seq/half,answer", usual, ("200", 2, 2), ("Indeterminate", 1, 1)),
        ("seq/half-chunked,answer", usual, ("200", 2, 2), ("Indeterminate", 1, 1)),
        ("seq/reset,answer", usual, ("200", 2, 2), ("Indeterminate", 1, 1)),
        ("seq/reset/unprocessed,answer", usual, ("200", 2, 1), ("Indeterminate", 1, 0)),
        ("seq/bad,answer", usual, ("200", 2, 2), ("Indeterminate", 1, 1)),
        ("hang", short, ("Timeout", 3, 3), ("Indeterminate", 1, 1)),
        ("seq/hang/unprocessed,answer", short, ("200", 2, 1), ("Indeterminate", 1, 0)),
        ("seq/retry-after/1/429,answer", usual, ("200", 2, 1), ("200", 2, 1)),
        ("seq/retry-after/0/429,drop-after,answer", usual, ("200", 3, 2), ("Indeterminate", 2, 1)),
        ("retry-after/0/429", usual, ("429", 3, 0), ("429", 3, 0)),
        ("seq/retry-after/1,answer", usual, ("200", 2, 1), ("503", 1, 0)),
        ("seq/retry-date/1,answer", usual, ("200", 2, 1), ("503", 1, 0)),
        ("seq/status/502,answer", usual, ("200", 2, 1), ("Indeterminate (502)", 1, 0)),
        ("seq/status/502/processed,answer", usual, ("200", 2, 2), ("Indeterminate (502)", 1, 1)),
        ("seq/status/504,answer", usual, ("200", 2, 1), ("Indeterminate (504)", 1, 0)),
        ("seq/status/504/processed,answer", usual, ("200", 2, 2), ("Indeterminate (504)", 1, 1)),
        ("seq/status/502,status/504", declared, ("504", 2, 0), ("504", 2, 0)),
        ("status/500/processed", usual, ("500", 1, 1), ("500", 1, 1)),
        ("status/404", usual, ("404", 1, 0), ("404", 1, 0)),
        ("redirect/307/do/answer", usual, ("307", 1, 0), ("307", 1, 0)),
        ("keyed/seq/drop-after,half,answer", usual, ("200", 3, 1), ("Indeterminate", 1, 1)),
        ("forget/seq/drop-after,answer", usual, ("200", 2, 2), ("Indeterminate", 1, 1)),
        ("seq/drop-after,answer", asked, ("200", 2, 2), ("200", 1, 1)),
        ("seq/drop-before,answer", asked, ("200", 2, 1), ("200", 2, 1)),
        ("seq/process-late/100/unprocessed,answer", asked, ("200", 1, 0), ("200", 1, 0)),
    ];
    let mut started = Vec::new();
    for (place, (path, more, idem, not_idem)) in table.into_iter().enumerate() {
        for (method, expected) in [("PUT", idem), ("POST", not_idem)] {
            let input = spec(method, &peer.url(&format!("/do/{path}")), more);
            let id = house.start(&format!("{place}-{method}"), "sends", &input);
            started.push((format!("{method} {path} {more}"), id, expected));
        }
    }
    for (what, id, (outcome, arrivals, processed)) in started {
        assert_eq!(house.said(&id), outcome, "{what}");
        let key = key(&id);
        assert_eq!((peer.arrivals(&key), peer.processed(&key)), (arrivals, processed), "{what}");
    }
    // One after the other: each meets the connection that the one before left, which is closed.
    for place in 0..10 {
        let input = spec("PUT", &closing.url("/do/close-idle"), usual);
        let id = house.start(&format!("idle-{place}"), "sends", &input);
        assert_eq!(house.said(&id), "200");
        assert_eq!(closing.processed(&key(&id)), 1, "{place}");
    }
}

/// D5: a peer that does not listen is sent nothing, and that is known; when it listens again, the
/// request is sent, once.
#[test]
fn a_peer_that_is_down_was_sent_nothing() {
    let (gone, back) = (Peer::start(), Peer::start());
    let house = House::new(&[&gone, &back], Options::default());
    gone.down();
    back.down();
    let mut waiting = Vec::new();
    for method in ["PUT", "POST"] {
        let input = spec(method, &gone.url("/do/answer"), r#""retries":2"#);
        let id = house.start(&format!("gone-{method}"), "sends", &input);
        assert_eq!(house.said(&id), "NotPerformed", "{method}");
        assert_eq!(gone.arrivals(&key(&id)), 0, "{method}");
        let input = spec(method, &back.url("/do/answer"), r#""unbounded":true"#);
        waiting.push(house.start(&format!("back-{method}"), "sends", &input));
    }
    back.up().unwrap();
    for id in waiting {
        assert_eq!(house.said(&id), "200");
        assert_eq!((back.arrivals(&key(&id)), back.processed(&key(&id))), (1, 1));
    }
    // Who may not send there sends nothing either.
    let stranger = Peer::start();
    let id = house.start("stranger", "sends", &spec("POST", &stranger.url("/do/answer"), ""));
    assert_eq!(house.said(&id), "NotPerformed");
    assert_eq!(stranger.log(), []);
}

/// C-38: an answer that comes after its time counts while the effect is held, and changes nothing
/// once the effect has ended; a person resolves what is held.
#[test]
fn a_late_answer_or_a_person_resolves() {
    let peer = Peer::start();
    let house = House::new(&[&peer], Options::default());
    let late = peer.url("/do/answer-late/600");
    let id = house.start("plain", "sends", &spec("POST", &late, r#""timeout_ms":100"#));
    assert_eq!(house.said(&id), "Indeterminate");
    let held = r#""timeout_ms":100,"hold":true"#;
    let id = house.start("held", "sends", &spec("POST", &late, held));
    assert_eq!(house.said(&id), "200", "it waited, and the answer came");
    assert_eq!((peer.arrivals(&key(&id)), peer.processed(&key(&id))), (1, 1));
    let path = peer.url("/do/seq/drop-after,answer");
    let happened = Response { status: 201, headers: Vec::new(), body: "seen".into() };
    let ways = [
        (Resolution::Happened(happened), "201", 1),
        (Resolution::DidNotHappen, "NotPerformed", 1),
        (Resolution::RunAgain, "200", 2),
    ];
    for (place, (resolution, outcome, arrivals)) in ways.into_iter().enumerate() {
        let input = spec("POST", &path, r#""hold":true"#);
        let id = house.start(&format!("resolved-{place}"), "sends", &input);
        let held = house.held();
        assert_eq!(held.promise, id.child(0));
        let ada = Actor::new("ada");
        let resolved = house.engine().resolve(
            &held.promise,
            resolution,
            PersonDecision::by(ada, "she looked"),
        );
        house.runtime.block_on(resolved).unwrap();
        assert_eq!(house.said(&id), outcome);
        let key = key(&id);
        assert_eq!((peer.arrivals(&key), peer.processed(&key)), (arrivals, arrivals), "{outcome}");
    }
}

/// D2: an engine that stops waits for what is in flight; what had not begun, the next one sends.
#[test]
fn a_stop_waits_for_what_is_in_flight() {
    let peer = Peer::start();
    let one = Options { effects_in_flight_max: 1, ..Options::default() };
    let mut house = House::new(&[&peer], one.clone());
    let late = spec("POST", &peer.url("/do/answer-late/400"), "");
    let first = house.start("first", "sends", &late);
    peer.wait_for_arrivals(&key(&first), 1);
    let second = house.start("second", "sends", &late);
    house.stop(one);
    for id in [first, second] {
        assert_eq!(house.said(&id), "200");
        assert_eq!((peer.arrivals(&key(&id)), peer.processed(&key(&id))), (1, 1));
    }
}

/// D5, C-41: an engine that stops without waiting long enough knows nothing of what is in flight.
#[test]
fn a_stop_does_not_wait_for_ever() {
    let peer = Peer::start();
    let hasty = Options { drain_max: Micros::from_millis(1), ..Options::default() };
    let mut house = House::new(&[&peer], hasty.clone());
    let path = peer.url("/do/seq/hang,answer");
    let not_idem = house.start("not", "sends", &spec("POST", &path, ""));
    let idem = house.start("idem", "sends", &spec("PUT", &path, ""));
    for id in [&not_idem, &idem] {
        peer.wait_for_arrivals(&key(id), 1);
    }
    house.stop(hasty);
    assert_eq!(house.said(&not_idem), "Indeterminate");
    assert_eq!(house.said(&idem), "200");
    assert_eq!((peer.arrivals(&key(&not_idem)), peer.arrivals(&key(&idem))), (1, 2));
}

/// A folder whose disk takes no time: how long a disk takes is not what is tested.
fn quick_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

#[track_caller]
fn hear(process: &mut Process) -> String {
    process.hear(PATIENCE).expect("it says something")
}

/// Asks for the outcome of each, and gives what each said.
fn outcomes(process: &mut Process, executions: &[(String, String)]) -> Vec<String> {
    for (operation, execution) in executions {
        process.send(&format!("outcome {operation} {execution}"));
    }
    let line = |line: String| said(line.split_once("completed ").expect("it completed").1);
    executions.iter().map(|_| line(hear(process))).collect()
}

/// D2: a process that is killed 50 ms after an answer came knows it: nothing is Indeterminate, and
/// nothing is sent again. One that is killed before the answer cannot know.
#[test]
fn an_answer_is_kept_after_50_ms() {
    let peer = Peer::start();
    let folder = quick_folder();
    let start = || {
        let mut process = Process::start(folder.path(), [7_500, 2, 0], &[peer.address()]);
        assert_eq!(hear(&mut process), "open");
        process
    };
    let spec = spec("POST", &peer.url("/do/answer"), "");
    let mut process = start();
    let mut all: Vec<(String, String)> = Vec::new();
    for round in 0..4 {
        peer.hold(Hold::BeforeAnswering);
        for place in 0..8 {
            process.send(&format!("start op-{round}-{place} sends {spec}"));
            let line = hear(&mut process);
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[0], "started", "{line}");
            all.push((words[1].to_owned(), words[2].to_owned()));
        }
        peer.wait_for_held(8);
        let answered = round < 3;
        if answered {
            peer.release();
            peer.wait_for(|log| log.iter().all(|arrival| arrival.answered));
            assert_eq!(process.hear(KEPT_AFTER), None, "nobody asked it anything");
        }
        process.kill();
        process = start();
        let expected = if answered { "200" } else { "Indeterminate" };
        let said = outcomes(&mut process, &all[all.len() - 8..]);
        assert!(said.iter().all(|said| said == expected), "round {round}: {said:?}");
    }
    peer.release();
    process.close();
    for (_, execution) in all {
        let id: ExecutionId = execution.parse().unwrap();
        assert_eq!(peer.arrivals(&key(&id)), 1);
    }
}
