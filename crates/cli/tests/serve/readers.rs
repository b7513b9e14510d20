//! What viewers cost a server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::process::{PATIENCE, Server, until};

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
