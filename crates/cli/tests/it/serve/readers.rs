//! What viewers cost a server, and what they may expect of it across a restart.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use indelible_http_peer::Peer;
use serde_json::json;

use crate::support::process::{PATIENCE, Server, until};

/// Pieces of streams that the server has read so far.
fn pieces(server: &Server) -> u64 {
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    let line =
        text.lines().find(|line| line.starts_with("indelible_reads_total{lane=\"streams\"}"));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

fn ask_for_events(server: &Server, execution: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = &server.address;
    let path = format!("/v1/executions/{execution}/events");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
    stream
}

/// A client that asks for a long journal and reads nothing costs what the sockets hold on the way,
/// whatever the journal has, while another that reads gets all of it.
#[test]
fn a_client_that_reads_nothing_costs_a_few_pieces() {
    /// Two sockets hold some hundred kilobytes, and a piece has about 50.
    const PIECES_MAX: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("bench", "bench");
    let started = server.post("/v1/start/bench/steps", &[], "5000").json();
    let id = started["execution_id"].as_str().unwrap().to_owned();
    until("it is over", || {
        let outcome = server.get(&format!("/v1/executions/{id}/outcome"));
        (outcome.status == 200).then_some(())
    });
    let silent: Vec<_> = (0..8).map(|_| ask_for_events(&server, &id)).collect();
    // They had their first pieces before the last one of this, which has its turn like them.
    let before = pieces(&server);
    let mut reads = ask_for_events(&server, &id);
    let (mut text, mut part) = (Vec::new(), vec![0; 64 << 10]);
    while !text.ends_with(b"event: over\ndata: {}\n\n\r\n0\r\n\r\n") {
        let read = reads.read(&mut part).unwrap();
        assert!(read > 0, "the stream ended before its end");
        text.extend_from_slice(&part[..read]);
    }
    let events = text.windows(4).filter(|window| window == b"id: ").count();
    assert!(events > 15_000, "{events}");
    let own = events as u64 / 256 + 2;
    assert!(own > 3 * PIECES_MAX, "{own}");
    let all = pieces(&server);
    assert!(
        all <= own + 8 * PIECES_MAX,
        "{all} pieces, {before} before, {own} of the one that reads"
    );
    drop(silent);
}

/// A cursor that a server gave out is good at the next one over the same folder, stopped or killed;
/// one that no server made is refused, and says what to do.
#[test]
fn cursors_outlive_a_server() {
    let peer = Peer::start();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let config = folder.path().join("indelible.toml");
    let lines = format!(
        "[components.behaviours]\nhosts = [\"{}\"]\nnetworks = [\"loopback\"]\nplain_http = true\n",
        peer.address()
    );
    std::fs::write(&config, lines).unwrap();
    let start = || Server::start(&data, &["--config", config.to_str().unwrap()]);
    let mut server = start();
    server.deploy("behaviours", "behaviours");
    let url = peer.url("/do/drop-after");
    let spec = json!({"method": "POST", "url": url, "backoff_ms": 1, "hold": true}).to_string();
    for _ in 0..3 {
        assert_eq!(server.post("/v1/start/behaviours/sends", &[], &spec).status, 202);
    }
    let all = until("all are held", || {
        let all = server.get("/v1/unresolved").json()["unresolved"].as_array().unwrap().clone();
        (all.len() == 3 && all.iter().all(|effect| effect["state"] == "held")).then_some(all)
    });
    let mut path = "/v1/unresolved?limit=1".to_owned();
    for (number, effect) in all.iter().enumerate() {
        let page = server.get(&path).json();
        assert_eq!(page["unresolved"], json!([effect]), "page {number}");
        let Some(next) = page["next"].as_str() else {
            assert_eq!(number, 2);
            break;
        };
        path = format!("/v1/unresolved?limit=1&cursor={next}");
        if number == 0 {
            server.stop();
        } else {
            server.kill();
        }
        server = start();
    }
    let refused = server.get("/v1/unresolved?cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!((refused.status, &refused.json()["code"]), (400, &"malformed-request".into()));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("leave it out to begin anew"), "{detail}");
}
