//! A server process, a plain HTTP client for it, and waiting for what must come.
#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(clippy::print_stderr, reason = "what a server says belongs to a test's output")]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long is waited for what must come: far longer than it takes on a machine that has much else to
/// do, so that a test that fails ends.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often is looked: others have work to do.
const PAUSE: Duration = Duration::from_millis(1);

/// Looks until something is there; a test whose wait has no end says what for.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// The lines that something writes, as they come; they end when it does.
pub fn lines(from: impl Read + Send + 'static) -> impl Iterator<Item = String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                // The iterator was dropped: the test has seen enough.
                return;
            }
        }
    });
    std::iter::from_fn(move || match told.recv_timeout(PATIENCE) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("never: another line, or the end"),
    })
}

/// A server that runs until it is dropped.
pub struct Server {
    child: Child,
    pub address: String,
    /// What it has said on standard error so far.
    said: Arc<Mutex<String>>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }
}

impl Server {
    /// Starts a server over a data folder, on any port.
    pub fn start(data: &Path, arguments: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0", data, arguments)
    }

    /// Starts a server over a data folder.
    pub fn start_on(address: &str, data: &Path, arguments: &[&str]) -> Self {
        Self::try_start_on(address, data, arguments)
            .unwrap_or_else(|(_, text)| panic!("the server ended at once: {text}"))
    }

    /// Starts a server over a data folder, on any port. One that ends at once: its exit code, and
    /// what it has said.
    pub fn try_start(data: &Path, arguments: &[&str]) -> Result<Self, (Option<i32>, String)> {
        Self::try_start_on("127.0.0.1:0", data, arguments)
    }

    fn try_start_on(
        address: &str,
        data: &Path,
        arguments: &[&str],
    ) -> Result<Self, (Option<i32>, String)> {
        let child = Command::new(env!("CARGO_BIN_EXE_indelible"))
            .args(["serve", "--listen", address, "--data"])
            .arg(data)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Self { child, address: String::new(), said: Arc::default() };
        let first = lines(server.child.stdout.take().unwrap()).next();
        let mut errors = server.child.stderr.take().unwrap();
        let Some(line) = first else {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            let code = server.child.wait().unwrap().code();
            return Err((code, text));
        };
        // What it says is read, or its pipe would fill.
        let said = Arc::clone(&server.said);
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                eprintln!("server: {line}");
                let mut said = said.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        server.address = line.strip_prefix("http://").unwrap().to_owned();
        Ok(server)
    }

    /// What it has said on standard error so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Ends it like a power cut.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, and waits until it has.
    #[track_caller]
    pub fn stop(self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.wait(), Some(0));
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self) -> Option<i32> {
        until("the server ends", || self.child.try_wait().unwrap()).code()
    }

    pub fn get(&self, path: &str) -> Answer {
        request(&self.address, "GET", path, &[], b"").unwrap()
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        request(&self.address, "POST", path, &all, body.as_bytes()).unwrap()
    }

    /// Deploys a guest of the project.
    pub fn deploy(&self, name: &str, guest: &str) {
        let bytes = std::fs::read(indelible_guests::component(guest)).unwrap();
        let kind = [("content-type", "application/wasm")];
        let path = format!("/v1/components/{name}");
        let answer = request(&self.address, "PUT", &path, &kind, &bytes).unwrap();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own. Err: the connection broke, and it is unknown whether the
/// request arrived.
pub fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| std::io::Error::other("the answer broke off"))
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let answer = Answer { status, headers, body: bytes[end + 4..].to_vec() };
    match answer.header("content-length") {
        Some(length) if length.parse().ok() != Some(answer.body.len()) => None,
        _ => Some(answer),
    }
}
