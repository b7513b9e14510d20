//! Exports of a ledger.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use indelible_ledger::export::{Verified, Verifier};

use super::process::{PATIENCE, request};

/// Reads the export of the ledger with this path: it proves itself, and the state that the server shows.
pub(crate) fn verified(address: &str, ledger: &str) -> Verified {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Over HTTP/1.0 the body comes as it is, without chunks.
    write!(stream, "GET {ledger}/export HTTP/1.0\r\nhost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, lines) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    let mut verifier = Verifier::new();
    for line in lines.split_inclusive('\n') {
        verifier.line(line.as_bytes()).unwrap();
    }
    let verified = verifier.finish().unwrap();
    let state = request(address, "GET", &format!("{ledger}/state"), &[], b"").unwrap().json();
    assert_eq!(state["height"], verified.height.get());
    assert_eq!(state["head"], verified.head.to_string());
    assert_eq!(state["state_hash"], verified.state_hash.to_string());
    verified
}
