//! Connections that say nothing, or say it slowly, while others call.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use crate::serve_access::support::{Running, json};
use crate::support::process::PATIENCE;

/// Of each kind.
const IDLE: usize = 1_600;
const SLOW: usize = 400;

/// Two thousand connections take nothing from a caller; a head that does not end is not waited for,
/// and one that says nothing stays.
#[test]
fn a_crowd_does_not_keep_callers_from_being_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    server.deploy(None);
    let connect = || {
        let stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut idle: Vec<_> = (0..IDLE).map(|_| connect()).collect();
    let mut slow: Vec<_> = (0..SLOW).map(|_| connect()).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        let head = format!("POST /v1/call/bench/echo HTTP/1.1\r\nhost: {}\r\n", server.address);
        stream.write_all(&head.as_bytes()[..1 + number % (head.len() - 1)]).unwrap();
    }
    for number in 0..50 {
        let body = number.to_string();
        let answer = server.ask("POST", "/v1/call/bench/echo", None, json(&body));
        assert_eq!((answer.status, answer.json()["result"].clone()), (200, number.into()));
    }
    // Each is ended by the server.
    for stream in &mut slow {
        let mut rest = Vec::new();
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "it is not ended");
        }
        assert!(!rest.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&rest));
    }
    // And these are still served.
    for stream in idle.iter_mut().step_by(100) {
        let head = format!("GET /v1/health HTTP/1.1\r\nhost: {}\r\n", server.address);
        stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let list = server.ask("GET", "/v1/executions?limit=500", None, None).json();
    assert_eq!(list["executions"].as_array().unwrap().len(), 50);
}
