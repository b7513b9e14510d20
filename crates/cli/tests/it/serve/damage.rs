//! A server over a data folder in which bits were flipped. Every answer is the right one or says
//! `damaged`, or the server does not start and says why; and once damage was met, the server shows it.

use std::fs;
use std::path::{Path, PathBuf};

use indelible_test_support::Prng;

use crate::support::process::{Answer, Server, request};

const ECHO: &str = "/v1/call/bench/echo";
const APPROVE: &str = "/v1/start/approval/approve";
/// It waits for a decision for most of a century.
const PATIENT: &str = r#"{"who":"bob","cents":9900,"seconds":2500000000}"#;

/// How many calls there are. With [`INPUT_BYTES`] each, the journals take several blocks of the
/// engine: where one is damaged, others are not.
const CALLS: usize = 12;
const INPUT_BYTES: usize = 3_000;

/// How many damaged copies there are, unless `INDELIBLE_FLIPS` says.
const COPIES: usize = 16;

/// A request and its key.
struct Question {
    method: &'static str,
    path: String,
    key: Option<String>,
    body: String,
}

impl Question {
    fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), key: None, body: String::new() }
    }

    fn post(path: &str, key: String, body: String) -> Self {
        Self { method: "POST", path: path.to_owned(), key: Some(key), body }
    }

    /// None: the server is gone.
    fn ask(&self, server: &Server) -> Option<Answer> {
        let mut headers = Vec::new();
        if self.method == "POST" {
            headers.push(("content-type", "application/json"));
        }
        headers.extend(self.key.as_deref().map(|key| ("idempotency-key", key)));
        request(&server.address, self.method, &self.path, &headers, self.body.as_bytes()).ok()
    }
}

fn calls(from: usize, to: usize) -> impl Iterator<Item = Question> {
    (from..to).map(|number| {
        let mut numbers = Prng::new(number as u64);
        let text: String =
            (0..INPUT_BYTES / 16).map(|_| format!("{:016x}", numbers.number())).collect();
        Question::post(ECHO, format!("call-{number}"), format!("\"{text}\""))
    })
}

/// A folder that a server has served, and what to ask it: most of it is in tables, the rest in the
/// engine's journal.
fn make(data: &Path) -> Vec<Question> {
    let mut questions: Vec<_> = calls(0, CALLS + CALLS / 4).collect();
    let start =
        |number: usize| Question::post(APPROVE, format!("start-{number}"), PATIENT.to_owned());
    let mut ids = Vec::new();
    let mut ask = |server: &Server, question: &Question| {
        let answer = question.ask(server).unwrap();
        assert!(answer.status < 300, "{}", String::from_utf8_lossy(&answer.body));
        ids.push(answer.json()["execution_id"].as_str().unwrap().to_owned());
    };
    let server = Server::start(data, &[]);
    server.deploy("bench", "bench");
    server.deploy("approval", "approval");
    let token = r#"{"name":"some","roles":["call"],"namespaces":["default"]}"#;
    assert_eq!(server.post("/v1/tokens", &[], token).status, 201);
    calls(0, CALLS).for_each(|call| ask(&server, &call));
    (0..3).for_each(|number| ask(&server, &start(number)));
    // A stop writes the memtables into tables; after a kill the newest rows are in the journal alone.
    server.stop();
    let server = Server::start(data, &[]);
    calls(CALLS, CALLS + CALLS / 4).for_each(|call| ask(&server, &call));
    server.kill();
    questions.extend((0..3).map(start));
    for id in &ids {
        for part in ["", "/journal", "/tree"] {
            questions.push(Question::get(format!("/v1/executions/{id}{part}")));
        }
    }
    for path in ["executions?limit=500", "audit?limit=500", "unresolved", "tokens", "components"] {
        questions.push(Question::get(format!("/v1/{path}")));
    }
    questions
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with("LOCK") {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let at = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &at);
        } else if path.extension().is_some_and(|extension| extension == "jnl") {
            // A journal is preallocated: the zeros behind its last batch need no copy.
            let mut content = fs::read(&path).unwrap();
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            content.truncate(end);
            fs::write(at, content).unwrap();
        } else {
            fs::copy(&path, at).unwrap();
        }
    }
}

/// What came of a damaged copy.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    /// The server did not start.
    Refused,
    /// It ended by itself.
    Ended,
    /// It answered, so often that something is damaged.
    Served(usize),
}

/// Starts a server over a folder and asks it everything.
fn serve(data: &Path, questions: &[Question], expected: &[Answer]) -> Result<Came, String> {
    let server = match Server::try_start(data, &[]) {
        Ok(server) => server,
        Err((code, said)) => {
            let clear = said.contains("error: ") && said.contains("hint: ");
            return if code != Some(1) || !clear || said.contains("--data") {
                Err(format!("ended with {code:?}: {said}"))
            } else {
                Ok(Came::Refused)
            };
        }
    };
    let mut damaged = 0;
    for (question, expected) in questions.iter().zip(expected) {
        let Some(answer) = question.ask(&server) else {
            let said = server.said();
            return match server.wait() {
                Some(1) => Ok(Came::Ended),
                code => Err(format!("ended with {code:?}: {said}")),
            };
        };
        let what = format!("{} {}", question.method, question.path);
        let told = (answer.status, String::from_utf8_lossy(&answer.body));
        if (answer.status, &answer.body) == (expected.status, &expected.body) {
            continue;
        }
        if !told.1.starts_with('{') || answer.json()["code"] != "damaged" {
            return Err(format!(
                "{what}: {told:?}, not {:?}",
                String::from_utf8_lossy(&expected.body)
            ));
        }
        let problem = answer.json();
        if (answer.status, &problem["retryable"]) != (500, &false.into()) {
            return Err(format!("{what}: {told:?}"));
        }
        damaged += 1;
    }
    // The metrics read rows, too, and may be the first to meet damage.
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    let ready = server.get("/v1/ready");
    let places =
        metrics.lines().find_map(|line| line.strip_prefix("indelible_store_damaged_places "));
    let places: Option<usize> = places.map(|places| places.parse().unwrap());
    let (said, shown) = (server.said(), &ready.json()["damaged"]);
    let lines = said.lines().filter(|line| line.contains("stored data is damaged ")).count();
    // Background work may have met damage that no question has.
    let agrees = *shown == (places > Some(0)) && (damaged == 0 || places > Some(0));
    if ready.status != 200 || !agrees || Some(lines) > places.max(Some(damaged)) {
        let ready = String::from_utf8_lossy(&ready.body);
        return Err(format!("{damaged} damaged, {places:?} places, {lines} lines, ready: {ready}"));
    }
    Ok(Came::Served(damaged))
}

/// A random bit is flipped in a random file of a data folder. The server refuses the folder, or gives
/// the right answer, or answers `damaged`; then readiness and the metric show it. No request is
/// answered `internal`.
#[test]
fn flipped_bits_are_told_and_never_served() {
    let copies = std::env::var("INDELIBLE_FLIPS").map_or(COPIES, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (live, whole) = (folder.path().join("live"), folder.path().join("whole"));
    let questions = make(&live);
    copy(&live, &whole);
    let expected: Vec<_> = {
        let data = folder.path().join("as it is");
        copy(&whole, &data);
        let server = Server::start(&data, &[]);
        questions.iter().map(|question| question.ask(&server).unwrap()).collect()
    };
    for (question, answer) in questions.iter().zip(&expected) {
        assert!(answer.status < 300, "{}: {}", question.path, answer.status);
    }
    let files = files(&whole);
    let tables: Vec<_> = files
        .iter()
        .filter(|file| file.components().any(|part| part.as_os_str() == "tables"))
        .collect();
    // Components are the largest rows and lie in the cache of compiled code too; journals come next.
    let mut by_size = tables.clone();
    by_size.sort_by_key(|file| std::cmp::Reverse(fs::metadata(file).unwrap().len()));
    let journals = by_size[1];
    let mut numbers = Prng::new(7);
    let (mut refused, mut ended, mut late, mut harmless) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for number in 0..copies {
        let broken = folder.path().join(format!("broken-{number}"));
        copy(&whole, &broken);
        // Every other one is in a table, and half of these in the journals, which are read late and
        // by many questions; the others are anywhere.
        let file = match number % 4 {
            0 => journals,
            2 => tables[numbers.index(tables.len())],
            _ => &files[numbers.index(files.len())],
        };
        let bits = usize::try_from(fs::metadata(file).unwrap().len()).unwrap() * 8;
        let bit = numbers.index(bits);
        let name = file.strip_prefix(&whole).unwrap();
        let mut content = fs::read(file).unwrap();
        let Some(byte) = content.get_mut(bit / 8) else { continue };
        *byte ^= 1 << (bit % 8);
        fs::write(broken.join(name), &content).unwrap();
        match serve(&broken, &questions, &expected) {
            Ok(Came::Refused) => refused += 1,
            Ok(Came::Ended) => ended += 1,
            Ok(Came::Served(0)) => harmless += 1,
            Ok(Came::Served(_)) => late += 1,
            Err(what) => wrong.push(format!("bit {bit} of {}: {what}", name.display())),
        }
        fs::remove_dir_all(&broken).unwrap();
    }
    let seen = format!(
        "{copies} copies: {refused} refused, {ended} ended, {late} told, {harmless} harmless, {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{seen}\n{}", wrong.join("\n"));
    // A test in which nothing was told would have looked nowhere.
    assert!(refused > copies / 10 && late > copies / 10, "{seen}");
    eprintln!("{seen}");
}
