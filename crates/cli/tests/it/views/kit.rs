//! A server with the project's guests, executions in it, and the binary that looks at them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use indelible_http_peer::{Peer, Port};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::process::{PATIENCE, Server};

/// How often is looked: what a terminal shows is computed from its first byte on.
const PAUSE: Duration = Duration::from_millis(10);

/// A server, and a peer that its functions may send requests to.
pub struct House {
    pub server: Server,
    pub peer: Peer,
    /// Reserved for the server also while it is down.
    port: Port,
    folder: TempDir,
}

/// What a run of the binary left behind.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl House {
    /// With these guests deployed under their own names.
    pub fn new(guests: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let peer = Peer::start();
        let config = format!(
            "[components.behaviours]\nhosts = [\"{}\"]\nnetworks = [\"loopback\"]\nplain_http = true\n",
            peer.address()
        );
        std::fs::write(folder.path().join("config.toml"), config).unwrap();
        let port = Port::take(0).unwrap();
        let server = start(folder.path(), &port);
        for guest in guests {
            server.deploy(guest, guest);
        }
        Self { server, peer, port, folder }
    }

    /// Kills the server, does something, and starts it again over the same data, on the same port.
    pub fn while_down(self, act: impl FnOnce(&Path)) -> Self {
        let Self { server, peer, port, folder } = self;
        server.kill();
        act(&folder.path().join("data"));
        Self { server: start(folder.path(), &port), peer, port, folder }
    }

    /// Starts a function: the id of its execution.
    pub fn start(&self, function: &str, input: &Value) -> String {
        let answer = self.server.post(&format!("/v1/start/{function}"), &[], &input.to_string());
        let body = answer.json();
        assert_eq!(answer.status, 202, "{body}");
        body["execution_id"].as_str().unwrap().to_owned()
    }

    /// Calls a function, and waits until it is over: the id of its execution.
    pub fn call(&self, function: &str, input: &Value) -> String {
        let id = self.start(function, input);
        self.over(&id);
        id
    }

    pub fn over(&self, id: &str) {
        self.until(id, |detail| {
            let state = detail["execution"]["state"].as_str().unwrap();
            ["completed", "failed", "cancelled", "indeterminate"].contains(&state)
        });
    }

    /// Waits until an execution is as it should be.
    pub fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) {
        let path = format!("/v1/executions/{id}");
        eventually(
            || is_so(&self.server.get(&path).json()),
            || format!("{:#}", self.server.get(&path).json()),
        );
    }

    /// Waits until it waits for something of this kind.
    pub fn until_waits(&self, id: &str, kind: &str) {
        self.until(id, |detail| {
            let waits = detail["waits_for"].as_array().unwrap();
            waits.iter().any(|wait| wait["kind"] == kind)
                && detail["execution"]["state"] == "blocked"
        });
    }

    /// What `behaviours/sends` is told to send to the peer.
    pub fn request(&self, method: &str, behaviour: &str, more: &Value) -> Value {
        let url = self.peer.url(&format!("/do/{behaviour}"));
        let mut spec = json!({ "method": method, "url": url, "backoff_ms": 1 });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    }

    /// The binary with these arguments, beside this server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
        command
            .args(arguments)
            .env("INDELIBLE_URL", format!("http://{}", self.server.address))
            .env("XDG_CONFIG_HOME", self.folder.path())
            .env("COLUMNS", "100")
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .env_remove("INDELIBLE_CONTEXT")
            .env_remove("INDELIBLE_NAMESPACE")
            .env_remove("INDELIBLE_TOKEN");
        command
    }

    /// Runs it in a pipe.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs it in a pipe; it goes well, and this is what it prints.
    #[track_caller]
    pub fn prints(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
        ran.stdout
    }

    #[track_caller]
    pub fn prints_json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.prints(arguments)).unwrap()
    }
}

fn start(folder: &Path, port: &Port) -> Server {
    let (address, config) = (port.address().to_string(), folder.join("config.toml"));
    Server::start_on(&address, &folder.join("data"), &["--config", config.to_str().unwrap()])
}

/// Asks until it is so.
#[track_caller]
pub fn eventually(is_so: impl Fn() -> bool, otherwise: impl Fn() -> String) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it does not come: {}", otherwise());
        std::thread::sleep(PAUSE);
    }
}
