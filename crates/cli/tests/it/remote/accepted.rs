//! A call that the server has, and that then has no answer: it is asked for under its name, and never
//! told as if nothing had been done. The server's part is played, answer by answer.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use indelible_api::{Code, Problem};
use serde_json::{Value, json};

use super::kit::User;

/// A status, a media type and a body.
type Answer = (u16, &'static str, String);

/// A server that is well, and answers calls and questions for an outcome in turn.
struct Played {
    url: String,
    /// The operation ids of calls, in the order in which they came.
    names: Arc<Mutex<Vec<String>>>,
}

fn document(status: u16, body: &Value) -> Answer {
    (status, "application/json", body.to_string())
}

fn problem(code: Code) -> Answer {
    let problem = Problem::new(code, "so it is");
    (problem.status, "application/problem+json", serde_json::to_string(&problem).unwrap())
}

fn goes_on() -> Answer {
    document(202, &json!({ "execution_id": "ab".repeat(32) }))
}

fn returned() -> Answer {
    document(200, &json!({ "execution_id": "ab".repeat(32), "result": 7 }))
}

impl Played {
    /// Whatever else is asked for is not there.
    fn start(calls: Vec<Answer>, outcomes: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let names = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&names);
        std::thread::spawn(move || {
            let (mut calls, mut outcomes) = (VecDeque::from(calls), VecDeque::from(outcomes));
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut reader = BufReader::new(&stream);
                let (mut head, mut length) = (String::new(), 0);
                while !head.ends_with("\r\n\r\n") {
                    let from = head.len();
                    assert!(reader.read_line(&mut head).unwrap() > 0, "cut off: {head}");
                    let line = head[from..].trim_end().to_lowercase();
                    if let Some(name) = line.strip_prefix("indelible-operation-id: ") {
                        heard.lock().unwrap().push(name.to_owned());
                    }
                    if let Some(bytes) = line.strip_prefix("content-length: ") {
                        length = bytes.parse().unwrap();
                    }
                }
                reader.read_exact(&mut vec![0; length]).unwrap();
                let next = if head.starts_with("POST /v1/call/") {
                    calls.pop_front()
                } else if head.starts_with("GET /v1/operations/") {
                    None
                } else if head.contains("/outcome?") {
                    outcomes.pop_front()
                } else {
                    Some(document(200, &json!({})))
                };
                let (status, media, body) = next.unwrap_or_else(|| problem(Code::NotFound));
                let length = body.len();
                write!(
                    &stream,
                    "HTTP/1.1 {status} .\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\
                     connection: close\r\n\r\n{body}"
                )
                .unwrap();
            }
        });
        Self { url, names }
    }

    fn names(&self) -> Vec<String> {
        self.names.lock().unwrap().clone()
    }
}

/// V-69: an execution that is gone, with its server's memory or its retention, is asked for under the
/// name of its call, which finds what came of it.
#[test]
fn what_is_gone_is_asked_for_under_its_name() {
    let server = Played::start(vec![goes_on(), returned()], vec![problem(Code::NotFound)]);
    let said = User::new().run(&["call", "shop/order", "--url", &server.url]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "7\n"), "{}", said.stderr);
    let names = server.names();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0], names[1]);
}

/// Gone for good, or a key that was revoked meanwhile: what was accepted is never called refused, and
/// its name is told; programs get the execution.
#[test]
fn what_was_accepted_is_not_refused() {
    for (code, calls) in [(Code::NotFound, 2), (Code::Unauthenticated, 1)] {
        let server = Played::start(
            vec![goes_on(), goes_on()],
            vec![problem(code), problem(code), problem(code), problem(code)],
        );
        let said = User::new().run(&["call", "shop/order", "--json", "--url", &server.url]);
        assert_eq!(said.code, 6, "{}", said.stderr);
        let names = server.names();
        assert_eq!(names.len(), calls, "{code}");
        for words in
            ["execution abababab was accepted", &format!("the same call with --id {}", names[0])]
        {
            assert!(said.stderr.contains(words), "{}", said.stderr);
        }
        let document: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(document["execution_id"], "ab".repeat(32));
        assert_eq!((&document["result"], &document["error"]), (&Value::Null, &Value::Null));
    }
}

/// A wait that is over: programs get the execution, too.
#[test]
fn a_wait_that_is_over_names_the_execution() {
    let server = Played::start(vec![goes_on()], vec![]);
    let arguments = ["call", "shop/order", "--wait", "0", "--json", "--url", &server.url];
    let said = User::new().run(&arguments);
    assert_eq!(said.code, 6, "{}", said.stderr);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(document["execution_id"], "ab".repeat(32));
}

/// A server that does not answer is asked again, and the waiting user is told once.
#[test]
fn silence_is_told() {
    let busy = || problem(Code::Busy);
    let server = Played::start(vec![busy(), busy(), busy(), busy(), returned()], vec![]);
    let said = User::new().run(&["call", "shop/order", "--url", &server.url]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "7\n"), "{}", said.stderr);
    assert_eq!(said.stderr.matches("retrying for 60 seconds").count(), 1, "{}", said.stderr);
    assert!(said.stderr.contains("no response from http://127.0.0.1:"), "{}", said.stderr);
}
