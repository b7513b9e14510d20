//! Traces end to end: a real engine that sends real requests, and a collector that keeps what it is
//! told.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the test reads guests and makes folders")]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use indelible_http::Request;
use indelible_http_client::{Client, Grant, Grants, Network};
use indelible_http_peer::Peer;
use indelible_journal::{
    Ending, Event, ExecutionId, JournalKey, Namespace, OperationId, Payload, RootHash, SignalName,
    TraceParent,
};
use indelible_records::labels::Labels;
use indelible_records::{TABLES, journals};
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::world::SilentObserver;
use indelible_runtime::{Attribution, Engine, Options, Start, World};
use indelible_server::traces::{Config, ConfigError, Counters, Exporter, TracingObserver};
use indelible_store::embedded;
use serde_json::{Value, json};
use tempfile::TempDir;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// So long nothing takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collector: it answers these statuses in turn, then 200, and keeps all that it was told.
struct Collector {
    address: SocketAddr,
    told: Arc<Mutex<Vec<(u16, Value)>>>,
}

impl Collector {
    async fn start(statuses: &[u16]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let told: Arc<Mutex<Vec<(u16, Value)>>> = Arc::default();
        let (kept, statuses) = (Arc::clone(&told), statuses.to_vec());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (kept, statuses) = (Arc::clone(&kept), statuses.clone());
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let (kept, statuses) = (Arc::clone(&kept), statuses.clone());
                    async move {
                        assert_eq!(request.method(), "POST");
                        assert_eq!(request.uri(), "/v1/traces");
                        assert_eq!(request.headers()["content-type"], "application/json");
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let mut kept = kept.lock().unwrap();
                        let status = statuses.get(kept.len()).copied().unwrap_or(200);
                        kept.push((status, serde_json::from_slice(&body).unwrap()));
                        let answer = http::Response::builder().status(status);
                        Ok::<_, Infallible>(answer.body(Full::<Bytes>::from("{}")).unwrap())
                    }
                });
                let stream = TokioIo::new(stream);
                tokio::spawn(http1::Builder::new().serve_connection(stream, service));
            }
        });
        Self { address, told }
    }

    fn config(&self) -> Config {
        let backoff = Duration::from_millis(1);
        Config { backoff, ..Config::new(format!("http://{}/v1/traces", self.address)) }
    }

    /// The spans of what it took.
    fn spans(&self) -> Vec<Value> {
        let told = self.told.lock().unwrap();
        let taken = told.iter().filter(|(status, _)| *status == 200);
        let spans = taken.flat_map(|(_, body)| {
            let resource = &body["resourceSpans"][0];
            let name = json!({"key": "service.name", "value": {"stringValue": "indelible"}});
            assert_eq!(resource["resource"]["attributes"][0], name);
            resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()
        });
        spans.collect()
    }
}

struct House {
    _folder: TempDir,
    engine: Engine,
    exporter: Arc<Exporter>,
}

impl House {
    async fn open(config: Config, peer: &Peer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = embedded::open(&path, &TABLES, &embedded::Options::default()).unwrap();
        let compiled =
            [env!("CARGO_TARGET_TMPDIR"), "artifacts"].iter().collect::<std::path::PathBuf>();
        let guest_options = GuestOptions { guests_max: 100, ..GuestOptions::default() };
        let guests = Guests::new(guest_options, Artifacts::folder(compiled).unwrap()).unwrap();
        let grant = Grant {
            hosts: vec![peer.address().to_string().parse().unwrap()],
            networks: Network::loopback().to_vec(),
            plain_http: true,
            ..Grant::default()
        };
        let grants = Grants::from_iter([("script", grant)]);
        let mut client = indelible_http_client::Config { grants, ..Default::default() };
        client.roots.system = false;
        let exporter = Exporter::new(config).unwrap();
        let observer =
            TracingObserver { inner: Arc::new(SilentObserver), exporter: Arc::clone(&exporter) };
        let world = World {
            http: Arc::new(Client::start(client).unwrap()),
            observer: Arc::new(observer),
            ..World::system(guests)
        };
        let engine = Engine::open(store, Options::default(), world).unwrap();
        let bytes = std::fs::read(indelible_guests::component("script")).unwrap();
        engine.deploy("script", &bytes, Attribution::default()).await.unwrap();
        exporter.start(engine.store().clone());
        Self { _folder: folder, engine, exporter }
    }

    async fn start(&self, id: &str, program: &Value, trace_parent: Option<&str>) -> ExecutionId {
        let start = Start {
            namespace: Namespace::new("traces").unwrap(),
            operation_id: Some(OperationId::new(id).unwrap()),
            idempotency_key: None,
            component: "script".to_owned(),
            function: "main".to_owned(),
            input: Payload::json(program.to_string()),
            trace_parent: trace_parent.map(|text| TraceParent::new(text).unwrap()),
            actor: None,
            labels: Labels::default(),
        };
        self.engine.start(start).await.unwrap().execution_id
    }

    async fn completes(&self, id: &ExecutionId) {
        let outcome = tokio::time::timeout(PATIENCE, self.engine.outcome(id)).await;
        let ending = outcome.expect("it is over in time").unwrap().unwrap();
        assert!(matches!(ending, Ending::Completed(_)), "{ending:?}");
    }

    /// What came of all that was queued.
    async fn counters(&self) -> Counters {
        self.exporter.close(PATIENCE).await;
        self.exporter.counters()
    }
}

fn sends(peer: &Peer, path: &str) -> Value {
    let request = json!({"method": "PUT", "url": peer.url(path), "retries": 3, "backoff": 1});
    json!([{ "http": ["h", request] }, { "await": "h" }])
}

fn traces_of(peer: &Peer) -> Vec<Option<String>> {
    let value = |value: &Bytes| String::from_utf8(value.to_vec()).unwrap();
    peer.log().iter().map(|arrival| arrival.header("traceparent").map(value)).collect()
}

/// A workflow with a call, a call that is retried, a request that is retried, a sleep and a signal:
/// its spans are one tree under the caller's span, and the request says which span it is of.
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_one_tree_under_its_caller() {
    let (peer, collector) = (Peer::start(), Collector::start(&[503, 429]).await);
    let house = House::open(collector.config(), &peer).await;
    let again = json!([{ "below": [2, [{ "panic": "the first attempt" }]] }, { "return": 1 }]);
    let program = json!([
        { "call": ["c", "main", sends(&peer, "/do/seq/drop-before,answer")] }, { "await": "c" },
        { "call": ["f", "idem", again] }, { "await": "f" },
        { "timer": ["t", 1] }, { "await": "t" },
        { "signal": "go" },
    ]);
    let id = house.start("a", &program, Some(&format!("00-{TRACE}-{CALLER}-01"))).await;
    let go = SignalName::new("go").unwrap();
    house.engine.signal(&id, &go, Payload::json("1"), Attribution::default()).await.unwrap();
    house.completes(&id).await;
    let counters = house.counters().await;

    let spans = collector.spans();
    let mut names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let expected =
        ["PUT", "call idem", "call main", "idem", "idem", "main", "main", "signal go", "sleep"];
    assert_eq!(names, expected);
    assert_eq!((counters.spans_exported, counters.spans_failed), (9, 0), "{counters:?}");

    let text = |span: &Value, field: &str| span[field].as_str().unwrap().to_owned();
    let parents: BTreeMap<_, _> =
        spans.iter().map(|span| (text(span, "spanId"), text(span, "parentSpanId"))).collect();
    assert_eq!(parents.len(), spans.len(), "no id stands twice");
    assert!(spans.iter().all(|span| span["traceId"] == TRACE));
    let outside: BTreeSet<_> = parents.values().filter(|id| !parents.contains_key(*id)).collect();
    assert_eq!(outside, BTreeSet::from([&CALLER.to_owned()]));
    let path = |span: &Value| {
        let mut path = vec![text(span, "name")];
        let mut parent = text(span, "parentSpanId");
        while let Some(span) = spans.iter().find(|span| span["spanId"] == *parent) {
            path.push(text(span, "name"));
            parent = text(span, "parentSpanId");
        }
        path.join(" < ")
    };
    let paths: BTreeSet<_> = spans.iter().map(path).collect();
    for expected in ["PUT < main < call main < main", "idem < call idem < main", "sleep < main"] {
        assert!(paths.contains(expected), "{expected}: {paths:?}");
    }

    let put = spans.iter().find(|span| span["name"] == "PUT").unwrap();
    assert_eq!(put["kind"], 3);
    assert_eq!(put["events"][0]["name"], "retry");
    let header = format!("00-{TRACE}-{}-01", text(put, "spanId"));
    assert_eq!(traces_of(&peer), [Some(header.clone()), Some(header)], "both attempts say it");

    // What is journaled of the request does not have it: a replay compares those bytes.
    let child = JournalKey::first(ExecutionId::new(id.child(0)).unwrap());
    let events = journals::read(house.engine.store(), &child, 0, 100).unwrap().value;
    let request = events.records.iter().find_map(|record| match &record.event {
        Event::InvokeScheduled { input, .. } => Some(Request::decode(&input.bytes).unwrap()),
        _ => None,
    });
    assert!(!request.unwrap().has_header("traceparent"));
    house.engine.close();
}

/// A trace that is not sampled is passed on, but no spans of it are exported; without one there is
/// nothing to pass on.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_sampled_is_passed_on_and_not_told() {
    let (peer, collector) = (Peer::start(), Collector::start(&[]).await);
    let house = House::open(collector.config(), &peer).await;
    let program = sends(&peer, "/do/answer");
    let parents = [Some(format!("00-{TRACE}-{CALLER}-00")), Some("nonsense".to_owned()), None];
    for (place, parent) in parents.iter().enumerate() {
        let id = house.start(&format!("{place}"), &program, parent.as_deref()).await;
        house.completes(&id).await;
    }
    assert_eq!(house.counters().await, Counters::default());
    assert_eq!(*collector.told.lock().unwrap(), []);
    let arrived = traces_of(&peer);
    let [Some(passed_on), None, None] = &arrived[..] else { panic!("{arrived:?}") };
    assert!(passed_on.starts_with(&format!("00-{TRACE}-")) && passed_on.ends_with("-00"));
    assert!(!passed_on.contains(CALLER), "it is under the span of the step: {passed_on}");
    house.engine.close();
}

/// What a collector refuses, or does not take however often, is given up and counted.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_collector_takes_is_given_up() {
    let peer = Peer::start();
    let refuses = Collector::start(&[400]).await;
    let never = Collector::start(&[503; 100]).await;
    for (collector, tries) in [(refuses, 1), (never, 5)] {
        let house = House::open(collector.config(), &peer).await;
        let sampled = format!("00-{TRACE}-{CALLER}-01");
        let id = house.start("a", &json!([{ "return": 1 }]), Some(&sampled)).await;
        house.completes(&id).await;
        let counters = house.counters().await;
        assert_eq!((counters.spans_exported, counters.spans_failed), (0, 1), "{counters:?}");
        assert_eq!(collector.told.lock().unwrap().len(), tries);
        house.engine.close();
    }
}

#[test]
fn what_does_not_fit_is_dropped_and_counted() {
    let config = Config::new("http://127.0.0.1:1/v1/traces");
    let exporter = Exporter::new(Config { queue_max: NonZeroUsize::MIN, ..config }).unwrap();
    let key = JournalKey::first(ExecutionId::root_of(RootHash::from_bytes([1; 32])));
    for _ in 0..3 {
        exporter.queue(&key);
    }
    assert_eq!(exporter.counters().executions_dropped, 2);
}

#[test]
fn an_endpoint_is_checked_at_once() {
    for bad in ["", "collector:4318", "https://a/v1/traces", "http://", "http://u:p@a/", "/v1"] {
        let Err(ConfigError::Endpoint(error)) = Exporter::new(Config::new(bad)) else {
            panic!("{bad:?} is taken");
        };
        assert!(error.to_string().contains("http://HOST"), "{error}");
    }
    for good in ["http://127.0.0.1:4318/v1/traces", "http://[::1]:4318/v1/traces", "http://a"] {
        assert!(Exporter::new(Config::new(good)).is_ok(), "{good}");
    }
}
