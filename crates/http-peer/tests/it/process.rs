//! A peer in another process: the example `peer`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use indelible_http_peer::{Hold, Peer, Remote};
use indelible_test_support::example;

use crate::client::{Client, json, ok};

fn peer() -> Command {
    Command::new(example("peer"))
}

#[test]
fn a_peer_in_another_process_tells_what_arrived() {
    let peer = Remote::spawn(peer().arg("--until-input-closes")).unwrap();
    let mut client = Client::at(peer.address());
    let key = "a/ä %41,?";
    client.post("drop-after", key);
    client.expect_closed();
    let mut client = Client::at(peer.address());
    client.post("answer", key);
    client.expect(ok(key, 2));
    client.post("answer/unprocessed", key);
    client.expect(ok(key, 2));
    assert_eq!((peer.arrivals(key).unwrap(), peer.processed(key).unwrap()), (3, 2));
    assert_eq!(peer.arrivals("nobody").unwrap(), 0);
    client.send("GET /fast HTTP/1.1\r\n\r\n");
    client.expect("HTTP/1.1 200 OK");
    assert_eq!(peer.fast().unwrap(), 1);
    let log = peer.log().unwrap();
    assert_eq!(log.len(), 3);
    let seen: Vec<_> = log.iter().map(|arrival| (arrival.processed, arrival.answered)).collect();
    assert_eq!(seen, [(true, false), (true, true), (false, true)]);
    assert_eq!(log[0].key.as_deref(), Some(key));
    assert_eq!(log[2].body, "{}");

    peer.hold(Hold::BeforeProcessing).unwrap();
    let mut client = Client::at(peer.address());
    client.post("answer", "held");
    peer.wait_for_arrivals("held", 1).unwrap();
    peer.wait_for_held(1).unwrap();
    assert_eq!(peer.processed("held").unwrap(), 0);
    peer.hold(Hold::BeforeAnswering).unwrap();
    peer.wait_for_processed("held", 1).unwrap();
    client.expect_silence();
    peer.release().unwrap();
    client.expect(ok("held", 1));

    // Dropped, it is gone.
    let address = peer.address();
    drop(peer);
    client.expect_closed();
    assert!(Remote::at(address).log().is_err());
}

/// The controls, byte for byte. They are no arrivals.
#[test]
fn controls_speak_http() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.send("GET /control/log HTTP/1.1\r\n\r\n");
    client.expect(json("200 OK", "", ""));
    client.post("status/500", "k");
    client.expect("HTTP/1.1 500 Internal Server Error\r\n");
    let mut client = Client::of(&peer);
    client.send("GET /control/count/%6B HTTP/1.1\r\n\r\n");
    client.expect(json("200 OK", "", "{\"arrivals\":1,\"processed\":0}"));
    client.send("GET /control/log HTTP/1.1\r\nconnection: close\r\n\r\n");
    let log = client.rest();
    let (_, lines) = log.split_once("\r\n\r\n").unwrap();
    assert!(lines.starts_with("{\"number\":1,\"nth\":1,\"key\":\"k\",\"method\":\"POST\","));
    assert!(
        lines.ends_with(",\"body\":\"{}\",\"processed\":false,\"answered\":true}\n"),
        "{lines}"
    );
    for unknown in ["GET /control/", "GET /control/hold/before-processing", "POST /control/hold/x"]
    {
        let mut client = Client::of(&peer);
        client.send(format!("{unknown} HTTP/1.1\r\n\r\n"));
        client.expect("HTTP/1.1 404 Not Found\r\n");
    }
    assert_eq!(peer.log().len(), 1);
}

/// The address is in the first line, and on the port that was asked for. It ends with its input
/// where that is asked for, and so is never left over.
#[test]
fn the_program_ends_with_its_input() {
    // Below the range of ephemeral ports, so that the system does not hand it to another socket;
    // each test process starts its search at another number.
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let port = (first..32_000).find(|port| Peer::start_on(*port).is_ok()).unwrap();
    let mut command = peer();
    command.arg(port.to_string()).arg("--until-input-closes");
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, format!("127.0.0.1:{port}\n"));
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
    assert_eq!(output.read(&mut [0]).unwrap(), 0);
    // What says no address is no peer.
    assert!(Remote::spawn(Command::new("echo").arg("hello")).is_err());
}
