//! A process that was stopped while a request was on its way: an answer that arrived meanwhile
//! counts, also if the time of the attempt is over when the process goes on.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use indelible_http::{Attempt, End};
use indelible_http_client::Client;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::support::{LONG, answered, attempt, config, grant, request, send};

/// An answer after which the connection is not used again: each request is to come on its own.
fn answer(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").into()
}

/// The time of an attempt: enough for a request to arrive on a busy machine, and it has to pass.
const TIME: Duration = Duration::from_millis(400);

/// A process whose only thread is this test's: it stands still unless it is driven.
struct Process {
    runtime: Runtime,
    client: Client,
    listener: TcpListener,
}

impl Process {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let config = config(grant(&[&listener.local_addr().unwrap().to_string()]));
        let client = Client::start_on(runtime.handle().clone(), config).unwrap();
        Self { runtime, client, listener }
    }

    /// Sends a request that has a short time, until it has arrived; and stands still until that time
    /// is over, while the peer writes these bytes.
    fn paused_during(&self, idem: bool, bytes: &[u8]) -> (UnboundedReceiver<End>, TcpStream) {
        let mut attempt: Attempt =
            attempt(request("POST", &format!("http://{}/", self.listener.local_addr().unwrap())));
        attempt.timeout = TIME;
        attempt.idem = idem;
        let sent = Instant::now();
        let mut told = send(&self.client, attempt);
        let mut stream = self.accept(&mut told);
        stream.write_all(bytes).unwrap();
        let (_never, passed) = channel::<()>();
        let left = (TIME + Duration::from_millis(20)).saturating_sub(sent.elapsed());
        assert!(passed.recv_timeout(left).is_err(), "time has passed");
        (told, stream)
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Goes on until the request whose end is told here has arrived on a new connection.
    fn accept(&self, told: &mut UnboundedReceiver<End>) -> TcpStream {
        let stream = self.runtime.block_on(async {
            self.listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(self.listener.try_clone().unwrap());
            let listener = listener.unwrap();
            let stream = tokio::select! {
                accepted = listener.accept() => accepted.unwrap().0,
                end = told.recv() => panic!("it did not arrive: {end:?}"),
            };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                stream.readable().await.unwrap();
                let mut byte = [0];
                match stream.try_read(&mut byte) {
                    Ok(1) => head.push(byte[0]),
                    Ok(_) => panic!("it closed"),
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                }
            }
            stream.into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        stream
    }

    /// Goes on until there is an end.
    fn goes_on(&self, told: &mut UnboundedReceiver<End>) -> End {
        self.runtime.block_on(told.recv()).expect("every attempt ends")
    }
}

#[test]
fn an_answer_that_arrived_during_a_pause_counts() {
    let process = Process::new();
    for round in 0..4 {
        for idem in [true, false] {
            // From one segment to more than one read.
            let body = "x".repeat(1 + round * 12_000);
            let (mut told, _stream) = process.paused_during(idem, &answer(&body));
            assert_eq!(answered(&process.goes_on(&mut told)), (200, body));
        }
    }
}

#[test]
fn half_an_answer_that_arrived_during_a_pause_does_not() {
    let process = Process::new();
    let answer = answer("answer");
    for bytes in [&answer[..0], &answer[..10], &answer[..answer.len() - 1]] {
        let (mut told, mut stream) = process.paused_during(true, bytes);
        let end = process.goes_on(&mut told);
        assert!(matches!(end, End::Unknown { timed_out: true, .. }), "{end:?}");
        process.runtime.block_on(tokio::task::yield_now());
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "the connection is gone");
    }
}

/// The peer closes an idle connection, or says something that nothing asked for, while the process
/// stands still: the next request finds that out before its first byte, though nothing has told the
/// process yet.
#[test]
fn a_connection_that_closed_during_a_pause_carries_nothing() {
    for last_words in ["", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"] {
        let mut process = Process::new();
        let mut config = config(grant(&[&process.address().to_string()]));
        config.bounds.idle_time_not_idem = LONG;
        process.client = Client::start_on(process.runtime.handle().clone(), config).unwrap();
        let attempt = Attempt {
            idem: false,
            ..attempt(request("POST", &format!("http://{}/", process.address())))
        };
        for _ in 0..50 {
            let mut told = send(&process.client, attempt.clone());
            let mut stream = process.accept(&mut told);
            stream.write_all(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n").unwrap();
            assert_eq!(answered(&process.goes_on(&mut told)).0, 200);
            // Until the connection is given back.
            process.runtime.block_on(async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            });
            stream.write_all(last_words.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Both).unwrap();
        }
    }
}
