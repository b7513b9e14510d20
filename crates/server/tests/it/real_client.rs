//! The typed client against the server: what each says of the wire, the other understands.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the test reads guests and makes folders")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indelible_client::UnresolvedFilter;
use indelible_client::api::Code;
use indelible_client::api::access::{NewToken, Role};
use indelible_client::api::call::Verdict;
use indelible_client::api::execution::{State, UsedFor};
use indelible_client::api::unresolved::Resolution;
use indelible_client::{
    Backup, CallError, Client, Error, Filter, IfInFlight, OperationId, StartError,
};
use indelible_journal::Timestamp;
use indelible_records::TABLES;
use indelible_records::backup::Reader;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::world::System;
use indelible_runtime::{Actor, Engine, Options, World};
use indelible_server::auth::Tokens;
use indelible_server::{AccessPolicy, Config, Server};
use indelible_store::embedded;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A server with keys, in this process, and the key of an admin.
struct House {
    _folder: TempDir,
    url: String,
    admin: String,
    _stop: oneshot::Sender<()>,
}

impl House {
    async fn new() -> Self {
        Self::with(indelible_server::Options::default()).await
    }

    async fn with(server_options: indelible_server::Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = embedded::open(&path, &TABLES, &embedded::Options::default()).unwrap();
        let compiled = [env!("CARGO_TARGET_TMPDIR"), "artifacts"].iter().collect::<PathBuf>();
        let options = GuestOptions { guests_max: 100, ..GuestOptions::default() };
        let guests = Guests::new(options, Artifacts::folder(compiled).unwrap()).unwrap();
        let engine = Engine::open(store, Options::default(), World::system(guests)).unwrap();
        let engine = Arc::new(engine);
        let new = key("root", Role::Admin, "*");
        let tokens = Tokens::open(engine.store().clone()).unwrap();
        let now = Timestamp::from_micros(1_750_000_000_000_000).unwrap();
        let admin = tokens.create(&new, now, &Actor::new("system:test")).await.unwrap().secret;
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            letting: AccessPolicy::Keys { sessions: None },
            options: server_options,
            ..Config::default()
        };
        let listener = Server::listen(&config).unwrap();
        let server = Server::new(config, listener, engine, Arc::new(System));
        let server = server.unwrap();
        let url = server.url();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.serve(async { drop(stopped.await) }));
        Self { _folder: folder, url, admin, _stop: stop }
    }

    fn client(&self, token: &str, http2: bool) -> Client {
        let builder = Client::builder(&self.url).token(token);
        if http2 { builder.http2_only().build().unwrap() } else { builder.build().unwrap() }
    }
}

fn key(name: &str, role: Role, namespace: &str) -> NewToken {
    NewToken {
        name: name.to_owned(),
        roles: vec![role],
        namespaces: vec![namespace.to_owned()],
        expires_at: None,
    }
}

fn guest(name: &str) -> Vec<u8> {
    std::fs::read(indelible_guests::component(name)).unwrap()
}

fn code(error: &Error) -> Code {
    match error {
        Error::Refused(problem) | Error::Mismatch(problem) | Error::Expired(problem) => {
            problem.code
        }
        other => panic!("{other}"),
    }
}

/// V-73, V-69: everything that the client can ask, over both protocols, and every outcome told
/// apart.
#[tokio::test(flavor = "multi_thread")]
async fn the_client_and_the_server_mean_the_same() {
    let house = House::new().await;
    for http2 in [false, true] {
        let client = house.client(&house.admin, http2);
        client.health().await.unwrap();
        assert!(client.ready().await.unwrap());
        assert_eq!(client.whoami().await.unwrap().actor, "client:root");
        for name in ["bench", "script"] {
            let deployed = client.deploy(name, guest(name)).await.unwrap();
            assert_eq!((deployed.name.as_str(), deployed.known), (name, http2));
        }
        let (digest, all) = (client.component("bench").await.unwrap().active, client.components());
        assert!(all.await.unwrap().components.iter().any(|one| one.active == digest));
        let functions = client.functions().await.unwrap().functions;
        assert!(functions.iter().any(|one| one.component == "bench" && one.name == "fanout"));
        let none = client.component("nothing").await.unwrap_err();
        assert_eq!(code(&none), Code::NoSuchComponent);

        let client = client.in_namespace(if http2 { "second" } else { "first" }).unwrap();
        calls(&client).await;
        commands(&client).await;
        lists(&client).await;
    }
}

async fn calls(client: &Client) {
    let echo = client.function::<Value, Value>("bench", "echo");
    let input = json!({"a": [1, null, "ä"]});
    assert_eq!(echo.call(&input).await.unwrap(), input);
    assert_eq!(echo.call(&input).idempotency_key("k").await.unwrap(), input);
    let again = echo.start(&input).idempotency_key("k").await.unwrap();
    assert_eq!(again.verdict(), Some(Verdict::PriorResult));
    assert_eq!(again.outcome().await.unwrap(), input);
    let other = echo.call(&json!(2)).idempotency_key("k").await;
    assert!(matches!(other, Err(CallError::Mismatch(_))), "{other:?}");
    let id = OperationId::mint();
    let first = echo.start(&input).operation_id(id).await.unwrap();
    assert_eq!(first.outcome().await.unwrap(), input);
    let other = echo.start(&json!(2)).operation_id(id).await;
    assert!(matches!(other, Err(StartError::Conflict(_))), "{other:?}");
    let operation = client.operation(&id.to_string()).await.unwrap();
    assert_eq!(operation.execution_id, first.execution_id());

    let main = client.function::<Value, Value>("script", "main");
    match main.call(&json!([{"fail": "no"}])).await {
        Err(CallError::Function(error)) => assert_eq!(error.message, "no"),
        other => panic!("{other:?}"),
    }
    let none = client.function::<Value, Value>("script", "none").call(&json!(1)).await;
    let Err(CallError::Refused(problem)) = none else { panic!("{none:?}") };
    assert_eq!(problem.code, Code::NoSuchFunction);
    // It goes on: attached to, in conflict, or waited for no longer.
    let waits = json!([{"signal": "go"}]);
    let handle = main.start(&waits).idempotency_key("waits").await.unwrap();
    assert_eq!(handle.verdict(), Some(Verdict::Fresh));
    let twice = main.start(&waits).idempotency_key("waits").await.unwrap();
    assert_eq!(
        (twice.verdict(), twice.execution_id()),
        (Some(Verdict::InFlight), handle.execution_id())
    );
    let conflict = IfInFlight::Conflict;
    let refused = main.start(&waits).idempotency_key("waits").if_in_flight(conflict).await;
    let Err(StartError::InFlight(in_flight)) = refused else { panic!("{refused:?}") };
    assert_eq!(in_flight.problem.execution_id.as_deref(), Some(handle.execution_id()));
    match main.call(&waits).idempotency_key("waits").wait(Duration::ZERO).await {
        Err(CallError::StillRunning(running)) => {
            assert_eq!(running.execution_id(), handle.execution_id());
        }
        other => panic!("{other:?}"),
    }
    let signal = client.signal(handle.execution_id(), "go", &json!("now"));
    assert_eq!(signal.idempotency_key("s").await.unwrap().delivery_id, 1);
    let signal = client.signal(handle.execution_id(), "go", &json!("now"));
    let again = signal.idempotency_key("s").await.unwrap();
    assert_eq!(again.delivery_id, 1);
    handle.outcome().await.unwrap();
}

async fn commands(client: &Client) {
    let main = client.function::<Value, Value>("script", "main");
    let handle = main.start(&json!([{"signal": "go"}])).await.unwrap();
    let id = handle.execution_id();
    let release = client.release(id, "why not").await.unwrap_err();
    assert_eq!(code(&release), Code::WrongState);
    let fail = client.fail(id, "why not").await.unwrap_err();
    assert_eq!(code(&fail), Code::WrongState);
    let cancelling = client.cancel(id, "enough").idempotency_key("c").await.unwrap();
    assert!(!cancelling.already);
    let cancelled = handle.outcome().await;
    assert!(matches!(cancelled, Err(CallError::Cancelled(_))), "{cancelled:?}");
    // The answer of the first, although it is over.
    let again = client.cancel(id, "enough").idempotency_key("c").await.unwrap();
    assert!(!again.already);
    let late = client.signal(id, "go", &json!(1)).await.unwrap_err();
    assert_eq!(code(&late), Code::WrongState);
    let promise = format!("{id}.1");
    let resolve =
        client.resolve(&promise, Resolution::DidNotHappen {}, "looked").await.unwrap_err();
    assert!([Code::NotFound, Code::WrongState].contains(&code(&resolve)));
    let made = client.make_token(&key("caller", Role::Call, "elsewhere")).await.unwrap();
    assert!(client.tokens().await.unwrap().tokens.contains(&made.token));
    let revoked = client.revoke_token(&made.token.id).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    let none = client.revoke_token("0123456789abcdef").await.unwrap_err();
    assert_eq!(code(&none), Code::NotFound);
}

async fn lists(client: &Client) {
    // A tree of one and five, and its events as they happened.
    let fanout = client.function::<u32, u32>("bench", "fanout");
    let handle = fanout.start(&5).await.unwrap();
    let mut watch = client.watch(handle.execution_id()).unwrap();
    let (mut watched, mut ids) = (Vec::new(), Vec::new());
    while let Some(event) = watch.next().await {
        let event = event.unwrap();
        ids.push(event.id.unwrap());
        watched.push(event.data.get().to_owned());
    }
    assert_eq!(handle.outcome().await.unwrap(), 5);
    let mut pages = client.journal(handle.execution_id(), None).unwrap().limit(2);
    let mut events = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        assert!(page.events.len() <= 2);
        events.extend(page.events.iter().map(|event| event.get().to_owned()));
    }
    assert_eq!(watched, events);
    // From the middle.
    let mut watch = client.watch(handle.execution_id()).unwrap().starting_after(&*ids[2]);
    assert_eq!(watch.next().await.unwrap().unwrap().data.get(), watched[3]);

    let mut pages = client.tree(handle.execution_id()).unwrap().limit(2);
    let mut tree = BTreeSet::new();
    while let Some(page) = pages.next().await.unwrap() {
        for row in page.executions {
            assert!(tree.insert(row.execution_id.clone()), "{} is there twice", row.execution_id);
        }
    }
    assert_eq!(tree.len(), 6);

    let filter = Filter::all().state(State::Completed).function("echo");
    let whole = every(client, &filter, 500).await;
    assert!(whole.len() >= 3, "{whole:?}");
    assert_eq!(every(client, &filter, 1).await, whole);
    assert_eq!(every(client, &filter.latest_only(), 1).await, whole);
    let begins = Filter::all().id_prefix(&whole[0][..8]);
    assert_eq!(every(client, &begins, 500).await, whole[..1]);
    let detail = client.execution(&whole[0]).await.unwrap();
    assert_eq!(detail.execution.state, State::Completed);
    let open = client.unresolved(&UnresolvedFilter::open()).unwrap().next().await;
    assert!(open.unwrap().unwrap().unresolved.is_empty());

    // By label, by key, and whatever the namespace.
    let echo = client.function::<u32, u32>("bench", "echo");
    // Other clients of this test do the same in other namespaces.
    let order = OperationId::mint();
    let start = echo.start(&7).idempotency_key(order.to_string());
    let labelled = start.label("order", order).label("tenant", "größe & x=y").await.unwrap();
    assert_eq!(labelled.outcome().await.unwrap(), 7);
    let by_label = Filter::all().label("order", order).label("tenant", "größe & x=y");
    let own = [labelled.execution_id().to_owned()];
    assert_eq!(every(client, &by_label, 1).await, own);
    let elsewhere = client.in_namespace("elsewhere").unwrap();
    assert!(every(&elsewhere, &by_label, 1).await.is_empty());
    assert_eq!(every(&elsewhere, &by_label.everywhere(), 1).await, own);
    let by_key = Filter::all().idempotency_key(order.to_string());
    let page = client.executions(&by_key).unwrap().next().await.unwrap().unwrap();
    assert_eq!(page.executions[0].execution_id, own[0]);
    assert_eq!(page.executions[0].labels["order"], order.to_string());
    let used = page.key.unwrap();
    assert_eq!(used.used_for, UsedFor::Start);
    let attached = client.attach_operation::<u32>(&used.operation.unwrap());
    assert_eq!(attached.outcome().await.unwrap(), 7);

    // The record, page by page: nothing twice, nothing left out.
    let mut record = Vec::new();
    for limit in [500, 2] {
        let mut pages = client.audit().unwrap().limit(limit);
        let mut entries = Vec::new();
        while let Some(page) = pages.next().await.unwrap() {
            entries.extend(page.entries);
        }
        record.push(entries);
    }
    assert!(record[0].len() > 4);
    assert_eq!(record[0], record[1]);
}

/// The ids of what a filter lets through.
async fn every(client: &Client, filter: &Filter, limit: u32) -> Vec<String> {
    let mut pages = client.executions(filter).unwrap().limit(limit);
    let mut ids = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        ids.extend(page.executions.into_iter().map(|row| row.execution_id));
    }
    ids
}

/// what a key may not do is told apart from what is not there and from a key that is none.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_reach_the_client() {
    let house = House::new().await;
    let admin = house.client(&house.admin, false);
    admin.deploy("bench", guest("bench")).await.unwrap();
    let made = admin.make_token(&key("caller", Role::Call, "own")).await.unwrap();
    let caller = house.client(&made.secret, false);
    assert_eq!(caller.whoami().await.unwrap().namespaces, ["own"]);
    // Its only namespace, without saying.
    let echo = caller.function::<Value, Value>("bench", "echo");
    let own = echo.start(&json!(1)).await.unwrap();
    assert_eq!(caller.execution(own.execution_id()).await.unwrap().execution.namespace, "own");
    let theirs = admin.in_namespace("theirs").unwrap();
    let foreign = theirs.function::<Value, Value>("bench", "echo").start(&json!(1)).await.unwrap();
    let there = caller.execution(foreign.execution_id()).await.unwrap_err();
    let missing: String = foreign.execution_id().chars().rev().collect();
    let missing = caller.execution(&missing).await.unwrap_err();
    assert_eq!(code(&there), Code::NotFound);
    assert_eq!(there.to_string(), missing.to_string());
    let denied = caller.cancel(own.execution_id(), "").await.unwrap_err();
    assert_eq!(code(&denied), Code::Forbidden);
    let elsewhere = caller.in_namespace("theirs").unwrap();
    let denied = elsewhere.function::<Value, Value>("bench", "echo").call(&json!(1)).await;
    let Err(CallError::Refused(problem)) = denied else { panic!("{denied:?}") };
    assert_eq!(problem.code, Code::Forbidden);
    admin.revoke_token(&made.token.id).await.unwrap();
    let gone = caller.whoami().await.unwrap_err();
    assert_eq!(code(&gone), Code::Unauthenticated);
    assert!(!format!("{gone:?} {caller:?}").contains(&made.secret));
}

/// The bytes of a backup.
async fn bytes(backup: &mut Backup) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(piece) = backup.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// A backup comes whole over both protocols, for admins; and one that takes longer than it may ends
/// as a broken connection, so that the client does not take what was sent for all of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_whole_or_broken() {
    let house = House::new().await;
    for http2 in [false, true] {
        let client = house.client(&house.admin, http2);
        let bytes = bytes(&mut client.backup().await.unwrap()).await.unwrap();
        let (header, counts) = Reader::open(&bytes[..]).unwrap().verify().unwrap();
        assert!(header.position.number() > 0 && counts.rows > 0);
    }
    let admin = house.client(&house.admin, false);
    let made = admin.make_token(&key("caller", Role::Operate, "own")).await.unwrap();
    let denied = house.client(&made.secret, false).backup().await.unwrap_err();
    assert_eq!(code(&denied), Code::Forbidden);

    let options = indelible_server::Options {
        backup_time_max: Duration::ZERO,
        ..indelible_server::Options::default()
    };
    let house = House::with(options).await;
    for http2 in [false, true] {
        let client = house.client(&house.admin, http2);
        let error = match client.backup().await {
            Ok(mut backup) => bytes(&mut backup).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Transport(_)), "{error:?}");
        // It holds nothing any more.
        client.health().await.unwrap();
    }
}
