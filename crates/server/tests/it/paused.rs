//! A server whose store is paused: what it says of itself, and what it tells callers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the test reads a guest and makes a folder")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use indelible_records::TABLES;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::world::System;
use indelible_runtime::{Attribution, Engine, Options, World};
use indelible_server::{Config, Server};
use indelible_store::backend::{Backend, BackendError, BackendSnapshot, Presence};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Bounds, Sequence, Store, Table, Write};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Memory that cannot be reached while it is away.
#[derive(Default)]
struct Away {
    memory: MemoryBackend,
    away: AtomicBool,
}

impl Backend for Away {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.memory.get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        self.memory.snapshot()
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(BackendError::Unavailable { what: "it is away".to_owned() });
        }
        self.memory.commit(sequence, writes)
    }

    fn has_sequence(&self, _sequence: Sequence) -> Result<Presence, BackendError> {
        Ok(Presence::NotThere)
    }

    fn reclaim(&self, _table: &Table) -> Result<(), BackendError> {
        Ok(())
    }

    fn disk_bytes(&self, _table: &Table) -> u64 {
        0
    }
}

/// The whole answer to a request.
async fn ask(url: &str, head: &str, body: &str) -> String {
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(host).await.unwrap();
    let length = body.len();
    let request = format!(
        "{head}Host: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn start(url: &str) -> String {
    let head = "POST /v1/start/bench/echo HTTP/1.1\r\nIdempotency-Key: \"k\"\r\n";
    ask(url, head, "[1]").await
}

async fn ready(url: &str) -> String {
    ask(url, "GET /v1/ready HTTP/1.1\r\n", "").await
}

async fn metrics(url: &str) -> String {
    ask(url, "GET /metrics HTTP/1.1\r\n", "").await
}

/// D2, D10: while the store is paused the server is not ready and says so in its metrics; a caller is
/// told that it is unknown whether its request was accepted, and to ask again under its name. When the
/// backend is back, so is the server, and the request was carried out once.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_says_so_and_goes_on() {
    let backend = Arc::new(Away::default());
    let bounds = Bounds { pause_told_after: Duration::ZERO, ..Bounds::DEFAULT };
    let store = Store::start(Arc::clone(&backend) as Arc<dyn Backend>, &TABLES, bounds).unwrap();
    let compiled = [env!("CARGO_TARGET_TMPDIR"), "artifacts"].iter().collect::<PathBuf>();
    let options = GuestOptions { guests_max: 100, ..GuestOptions::default() };
    let guests = Guests::new(options, Artifacts::folder(compiled).unwrap()).unwrap();
    let engine = Engine::open(store.clone(), Options::default(), World::system(guests)).unwrap();
    let guest = std::fs::read(indelible_guests::component("bench")).unwrap();
    engine.deploy("bench", &guest, Attribution::default()).await.unwrap();
    let config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
    let listener = Server::listen(&config).unwrap();
    let server = Server::new(config, listener, Arc::new(engine), Arc::new(System));
    let server = server.unwrap();
    let url = server.url();
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.serve(async { drop(stopped.await) }));
    assert!(ready(&url).await.starts_with("HTTP/1.1 200"));
    assert!(metrics(&url).await.contains("indelible_store_paused 0\n"));

    backend.away.store(true, Ordering::SeqCst);
    let told = start(&url).await;
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("store-stopped"), "{told}");
    assert!(told.contains("unknown whether the request was accepted"), "{told}");
    let unready = ready(&url).await;
    assert!(unready.starts_with("HTTP/1.1 503") && unready.contains("paused"), "{unready}");
    assert!(metrics(&url).await.contains("indelible_store_paused 1\n"));

    backend.away.store(false, Ordering::SeqCst);
    store.durable(store.accepted()).through_pauses().await.unwrap();
    let again = start(&url).await;
    assert!(again.starts_with("HTTP/1.1 2"), "{again}");
    assert!(ready(&url).await.starts_with("HTTP/1.1 200"));
    assert!(metrics(&url).await.contains("indelible_store_paused 0\n"));
}
