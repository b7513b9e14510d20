//! A server that is killed and started again, and callers who ask the next one.

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use indelible_http_peer::Port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::process::{Answer, Server, request};
pub use crate::support::process::{PATIENCE, until};

/// A data folder and a port, and the server that has them now.
pub struct House {
    arguments: Vec<String>,
    server: Option<Server>,
    pub place: Arc<Place>,
    /// Reserved while the server is down: a client that connects then is refused.
    port: Port,
    // Last: the server ends before its folder does.
    folder: TempDir,
}

impl House {
    pub fn new() -> Self {
        Self::with(&[], tempfile::tempdir().unwrap())
    }

    /// One whose servers get these arguments.
    pub fn with(arguments: &[String], folder: TempDir) -> Self {
        let arguments = arguments.to_vec();
        let port = Port::take(0).unwrap();
        let mut house = Self { arguments, server: None, place: Arc::default(), port, folder };
        house.start();
        house
    }

    pub fn start(&mut self) {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let address = self.port.address().to_string();
        let server = Server::start_on(&address, &self.data(), &arguments);
        self.place.started(&server.address);
        self.server = Some(server);
    }

    /// A power cut.
    pub fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    /// A power cut, and another start.
    pub fn crash(&mut self) {
        self.kill();
        self.start();
    }

    /// The data folder of the servers.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Asks the process to end.
    pub fn terminate(&self) {
        let id = self.server.as_ref().unwrap().id();
        let id = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
    }

    /// The exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.server.take().unwrap().wait()
    }

    pub fn deploy(&self, guest: &str) {
        self.server.as_ref().unwrap().deploy(guest, guest);
    }

    pub fn get(&self, path: &str) -> Answer {
        self.server.as_ref().unwrap().get(path)
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.server.as_ref().unwrap().post(path, headers, body)
    }

    /// A call whose caller does not read, and goes when the connection is dropped.
    pub fn leave(&self, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        self.place.leave(path, headers, body).unwrap()
    }
}

/// Where the server is, and which of its lives this is.
#[derive(Default)]
pub struct Place {
    /// How often it was started, and its address.
    now: Mutex<(u32, String)>,
    again: Condvar,
}

impl Place {
    pub fn now(&self) -> (u32, String) {
        self.now.lock().unwrap().clone()
    }

    fn started(&self, address: &str) {
        let mut now = self.now.lock().unwrap();
        *now = (now.0 + 1, address.to_owned());
        self.again.notify_all();
    }

    /// Waits for the server that comes after one.
    pub fn after(&self, life: u32) {
        let waiting =
            self.again.wait_timeout_while(self.now.lock().unwrap(), PATIENCE, |now| now.0 <= life);
        assert!(
            !waiting.unwrap().1.timed_out(),
            "a connection broke, and nobody killed the server"
        );
    }

    /// Asks until there is an answer: a caller that loses its connection asks the next server.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        loop {
            let (life, address) = self.now();
            match request(&address, method, path, headers, body.as_bytes()) {
                Ok(answer) => return answer,
                Err(_) => self.after(life),
            }
        }
    }

    /// A call whose caller does not read, and goes when the connection is dropped. Err: it is unknown
    /// whether the request arrived.
    pub fn leave(&self, path: &str, headers: &[(&str, &str)], body: &str) -> io::Result<TcpStream> {
        let (_, address) = self.now();
        let mut stream = TcpStream::connect(&address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        let mut text = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\n");
        text.push_str(&format!("content-type: application/json\r\ncontent-length: {length}\r\n"));
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{body}"));
        stream.write_all(text.as_bytes())?;
        Ok(stream)
    }

    /// A call with JSON.
    pub fn post(&self, path: &str, header: (&str, &str), body: &str) -> Answer {
        self.ask("POST", path, &[("content-type", "application/json"), header], body)
    }

    /// JSON that must be there.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &[], "");
        assert_eq!(answer.status, 200, "{path}: {}", text(&answer));
        answer.json()
    }

    /// All pages of a list.
    pub fn rows(&self, path: &str, field: &str) -> Vec<Value> {
        let (mut all, mut next) = (Vec::new(), String::new());
        loop {
            let page = self.json(&format!("{path}{next}"));
            all.extend(page[field].as_array().unwrap().iter().cloned());
            let before = next;
            match page["next"].as_str() {
                Some(cursor) => next = format!("&cursor={cursor}"),
                None => return all,
            }
            assert_ne!(next, before, "a page leads to itself: {path}");
        }
    }

    /// The events of an execution.
    pub fn journal(&self, execution: &str) -> Vec<Value> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let path = format!("/v1/executions/{execution}/journal?limit=500&from={from}");
            let page = self.json(&path);
            all.extend(page["events"].as_array().unwrap().iter().cloned());
            let before = from;
            match page["next"].as_u64() {
                Some(next) => from = next,
                None => return all,
            }
            assert!(from > before, "a page leads back: {path}");
        }
    }

    /// How often something was done to an execution, as the audit record has it.
    pub fn audited(&self, action: &str, execution: &str) -> usize {
        let of = |entry: &&Value| {
            let key = entry["execution"].as_str().unwrap_or_default();
            entry["action"] == action && key.split('@').next() == Some(execution)
        };
        self.rows("/v1/audit?limit=500", "entries").iter().filter(of).count()
    }
}

pub fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// Status, code of the problem, and verdict.
pub fn met(answer: &Answer) -> (u16, String, &str) {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let code = body["code"].as_str().unwrap_or_default().to_owned();
    (answer.status, code, answer.header("indelible-verdict").unwrap_or("none"))
}

/// What came of it: the body without what the request met.
pub fn outcome(answer: &Answer) -> Value {
    let mut body = answer.json();
    body.as_object_mut().unwrap().remove("verdict");
    body
}

pub fn execution(answer: &Answer) -> String {
    let body = answer.json();
    body["execution_id"].as_str().unwrap_or_else(|| panic!("no execution: {body}")).to_owned()
}

/// A UUIDv7 that was made so many seconds from now.
pub fn uuid(seconds: i64, number: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let ms = i64::try_from(now).unwrap() + seconds * 1_000;
    format!("{:08x}-{:04x}-7000-8000-{number:012x}", ms >> 16, ms & 0xffff)
}
