//! A server process of which every word is kept, keys for it, and requests byte by byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::JoinHandle;

use serde_json::Value;

use crate::support::process::{Answer, PATIENCE, lines, request, until};

/// A server that runs until it is dropped. Everything that it says and answers is kept.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: String,
    errors: Option<JoinHandle<String>>,
    seen: Mutex<Vec<Answer>>,
}

/// A body and its media type.
pub(crate) type Body<'a> = Option<(&'a str, &'a [u8])>;

/// A body of JSON.
pub(crate) fn json(text: &str) -> Body<'_> {
    Some(("application/json", text.as_bytes()))
}

impl Running {
    /// Starts a server over a data folder.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_indelible"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                eprintln!("server: {line}");
                text.push_str(&line);
                text.push('\n');
            }
            text
        });
        let line = lines(child.stdout.take().unwrap()).next().expect("it has started");
        let address = line.strip_prefix("http://").expect("it has started").to_owned();
        Self { child, address, errors: Some(errors), seen: Mutex::default() }
    }

    /// A request with this credential, which is sent after `Bearer`.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        credential: Option<&str>,
        body: Body<'_>,
    ) -> Answer {
        let bearer = credential.map(|credential| format!("Bearer {credential}"));
        let mut headers = Vec::new();
        if let Some(bearer) = &bearer {
            headers.push(("authorization", bearer.as_str()));
        }
        if let Some((kind, _)) = body {
            headers.push(("content-type", kind));
        }
        let bytes = body.map_or(&b""[..], |(_, bytes)| bytes);
        let answer = request(&self.address, method, path, &headers, bytes).unwrap();
        self.keep(answer)
    }

    /// Sends a message in a namespace; its id.
    pub(crate) fn send_message(&self, credential: Option<&str>, namespace: &str) -> String {
        let bearer = format!("Bearer {}", credential.unwrap());
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "a message"),
        ];
        let path = format!("/v1/messages?namespace={namespace}");
        let body = br#"{"topic":"t","body":1}"#;
        let answer = self.keep(request(&self.address, "POST", &path, &headers, body).unwrap());
        assert_eq!(answer.status, 202, "{}", text(&answer));
        answer.json()["message"].as_str().unwrap().to_owned()
    }

    fn keep(&self, answer: Answer) -> Answer {
        self.seen.lock().unwrap().push(answer.clone());
        answer
    }

    /// Bytes on a connection of their own, and what is answered until it is closed. If the client
    /// stops in the middle, it says so.
    pub(crate) fn raw(&self, bytes: &[u8], stops: bool) -> Vec<Answer> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server may have closed it before all is written: then it has said why.
        let _ = stream.write_all(bytes);
        if stops {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut got = Vec::new();
        match stream.read_to_end(&mut got) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("neither an answer nor an end: {}", String::from_utf8_lossy(bytes))
            }
            _ => parse(&got).into_iter().map(|answer| self.keep(answer)).collect(),
        }
    }

    /// Deploys a guest of the project.
    pub(crate) fn deploy(&self, credential: Option<&str>) {
        let bytes = std::fs::read(indelible_guests::component("bench")).unwrap();
        let body = Some(("application/wasm", &bytes[..]));
        let answer = self.ask("PUT", "/v1/components/bench", credential, body);
        assert_eq!(answer.status, 200, "{}", text(&answer));
    }

    /// Starts a function of it, and sees `echo` end, or another wait; the ids of execution and
    /// operation.
    pub(crate) fn begin(
        &self,
        credential: Option<&str>,
        function: &str,
        namespace: &str,
        input: &str,
    ) -> (String, String) {
        let path = format!("/v1/start/bench/{function}?namespace={namespace}");
        let answer = self.ask("POST", &path, credential, json(input));
        assert_eq!(answer.status, 202, "{}", text(&answer));
        let body = answer.json();
        let id = |name: &str| body[name].as_str().unwrap().to_owned();
        let (execution, operation) = (id("execution_id"), id("operation_id"));
        if function == "echo" {
            let outcome = format!("/v1/executions/{execution}/outcome");
            assert_eq!(self.ask("GET", &outcome, credential, None).status, 200);
        } else {
            // It is seen waiting, or what is shown of it would change by itself.
            let detail = format!("/v1/executions/{execution}");
            let state = || self.ask("GET", &detail, credential, None).json();
            until("it waits", || (state()["execution"]["state"] == "blocked").then_some(()));
        }
        (execution, operation)
    }

    /// All that can be seen of what was done: equal before and after, if nothing was.
    pub(crate) fn snapshot(&self, credential: Option<&str>) -> Vec<Vec<u8>> {
        let paths = ["/v1/audit?limit=500", "/v1/executions?limit=500", "/v1/components"];
        let get = |path: &&str| {
            let answer = self.ask("GET", path, credential, None);
            assert_eq!(answer.status, 200, "{}", text(&answer));
            answer.body
        };
        paths.iter().map(get).collect()
    }

    /// Everything that was answered.
    pub(crate) fn seen(&self) -> Vec<Answer> {
        self.seen.lock().unwrap().clone()
    }

    /// Ends it; what it said on standard error.
    pub(crate) fn stop(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.errors.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body as text.
pub(crate) fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// An answer without its date: what can be compared.
pub(crate) fn undated(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("date"));
    answer
}

/// The answers on a connection, one after the other. What was cut off is none.
fn parse(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers: Vec<_> = headers.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let rest = &bytes[end + 4..];
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        answer.body = rest.get(..length).expect("an answer is whole").to_vec();
        answers.push(answer);
        bytes = &rest[length..];
    }
    answers
}

/// An API key.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) secret: String,
}

/// Makes an API key in a data folder that no server has open.
pub(crate) fn key(data: &Path, name: &str, more: &[&str]) -> Key {
    try_key(data, name, more).unwrap_or_else(|said| panic!("{said}"))
}

/// The same. Err: what is told if none is made.
pub(crate) fn try_key(data: &Path, name: &str, more: &[&str]) -> Result<Key, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["token", "create", name, "--json", "--data"])
        .arg(data)
        .args(more)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    let field = |value: &Value| value.as_str().unwrap().to_owned();
    Ok(Key { id: field(&made["token"]["id"]), secret: field(&made["secret"]) })
}
