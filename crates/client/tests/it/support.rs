//! A peer that does exactly what a test says, one request a connection, and remembers what came.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indelible_client::api::{Code, Problem};
use indelible_client::{Builder, Client, Function, Retries};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The most attempts of clients under test.
pub(crate) const ATTEMPTS_MAX: u32 = 8;

/// What the peer does with one connection.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Closes it unread.
    DropBefore,
    /// Reads the request, then closes.
    DropAfter,
    /// Reads the request, writes this, then closes.
    Write(Vec<u8>),
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    /// The one value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(header, _)| header == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} came twice");
        value
    }
}

/// A listener with a script.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Peer {
    /// One connection an act. What comes after the script is counted, and closed.
    pub(crate) async fn start(script: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sees = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut script = script.into_iter();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let act = script.next().unwrap_or(Act::DropAfter);
                if matches!(act, Act::DropBefore) {
                    continue;
                }
                let request = read(&mut stream).await.expect("a request breaks off");
                sees.lock().unwrap().push(request);
                if let Act::Write(bytes) = act {
                    stream.write_all(&bytes).await.unwrap();
                    stream.shutdown().await.unwrap();
                }
            }
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder(format!("http://{}", self.address)).retries(quick())
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    /// A function of whatever it is asked to be.
    pub(crate) fn function(&self) -> Function<Value, Value> {
        self.client().function("shop", "order")
    }
}

/// Retries without a wait that a test would notice.
pub(crate) fn quick() -> Retries {
    Retries {
        total: Duration::from_secs(600),
        attempts_max: ATTEMPTS_MAX,
        delay_min: Duration::from_millis(1),
        delay_max: Duration::from_millis(2),
    }
}

/// The next request; `None` if it breaks off.
pub(crate) async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap_or_default();
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&chunk[..count]);
    };
    let mut body = bytes.split_off(head + 4);
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.trim_end().split("\r\n");
    let mut first = lines.next().unwrap().split(' ').map(str::to_owned);
    let (method, target) = (first.next().unwrap(), first.next().unwrap());
    let headers: Vec<_> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    while body.len() < length {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap_or_default();
        if count == 0 {
            return None;
        }
        body.extend_from_slice(&chunk[..count]);
    }
    Some(Seen { method, target, headers, body: String::from_utf8(body).unwrap() })
}

/// An answer with these lines of header.
pub(crate) fn raw(status: u16, headers: &str, body: &str) -> Act {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    Act::Write(text.into_bytes())
}

/// An answer in JSON.
pub(crate) fn answer(status: u16, body: &Value) -> Act {
    raw(status, "content-type: application/json\r\n", &body.to_string())
}

/// A problem document.
pub(crate) fn problem(problem: &Problem) -> Act {
    let headers = "content-type: application/problem+json\r\nretry-after: 0\r\n";
    raw(problem.status, headers, &serde_json::to_string(problem).unwrap())
}

/// A problem of this code.
pub(crate) fn refuse(code: Code) -> Act {
    problem(&Problem::new(code, "because"))
}

/// The id of an execution.
pub(crate) const EXECUTION: &str = "abab.1";

/// What a function that returns is answered with.
pub(crate) fn returned(result: &Value) -> Act {
    answer(200, &json!({ "execution_id": EXECUTION, "operation_id": "o", "result": result }))
}

/// What a function that goes on is answered with.
pub(crate) fn goes_on() -> Act {
    answer(202, &json!({ "execution_id": EXECUTION, "operation_id": "o" }))
}
