//! What a person at a terminal sees, and does: waiting, Ctrl-C, and saying yes.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::kit::{House, User, guest, until};
use crate::support::process::{PATIENCE, lines};
use crate::support::pty;

/// A terminal of a test's own.
struct Terminal {
    master: OwnedFd,
}

impl Terminal {
    fn new() -> Self {
        Self { master: pty::open() }
    }

    /// Starts a command at it; what is on stdout is not on the terminal.
    fn start(&self, user: &User, arguments: &[&str]) -> Child {
        let peer = || Stdio::from(pty::peer(&self.master));
        let mut command = user.command();
        command.args(arguments).stdin(peer()).stderr(peer()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    fn lines(&self) -> impl Iterator<Item = String> + use<> {
        lines(File::from(self.master.try_clone().unwrap()))
    }

    fn types(&self, text: &str) {
        File::from(self.master.try_clone().unwrap()).write_all(text.as_bytes()).unwrap();
    }
}

const EXPENSE: &str = r#"{"who":"ann","cents":9900,"seconds":3600}"#;

/// Who waits for long is told for what; Ctrl-C stops the waiting and nothing else, and the same
/// call waits again.
#[test]
fn an_interrupted_wait() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    user.does(&["deploy", &guest("approval")]);
    let terminal = Terminal::new();
    let mut child = terminal.start(&user, &["call", "approve", EXPENSE, "--key", "e-1"]);
    let mut lines = terminal.lines();
    let line = lines.next().unwrap();
    let waiting = " is running; waiting (Ctrl-C stops waiting, not the execution)";
    assert!(line.starts_with("execution ") && line.ends_with(waiting), "{line}");
    let id = line.split(' ').nth(1).unwrap().to_owned();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(ended(&mut child), Some(130));
    let said: Vec<_> = lines.take(2).collect();
    assert_eq!(
        said.join("\n"),
        format!(
            "error: interrupted; execution {id} is still \
             running\nhint: see its progress with `indelible \
             show {id}`; the same call with --key 'e-1' waits for it again"
        )
    );
    assert_eq!(user.does(&["signal", "last", "decision", r#"{"by":"bob","approved":true}"#]), "");
    let again = user.run(&["call", "approve", EXPENSE, "--key", "e-1"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "\"approved by bob\"\n"));
}

/// How a command ended.
#[track_caller]
fn ended(child: &mut Child) -> Option<i32> {
    until("the command ends", || child.try_wait().unwrap()).code()
}

/// Ctrl-C before there is any answer: the name is told under which the same call is done once.
#[test]
fn an_interrupted_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let accept = || {
        let (stream, _) = until("it connects", || listener.accept().ok());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut child = User::new()
        .command()
        .args(["call", "shop/order", "--url", &url])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut asked = accept();
    _ = asked.read(&mut [0; 4096]).unwrap();
    asked.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    drop(asked);
    // The call itself arrives, and is not answered.
    let mut call = accept();
    let mut bytes = [0; 4096];
    let count = call.read(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes[..count]).to_lowercase();
    let id = text.lines().find_map(|line| line.strip_prefix("indelible-operation-id: ")).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(ended(&mut child), Some(130));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(
        said,
        format!(
            "error: interrupted before the server answered; the request may have been \
             accepted\nhint: repeat the command with \
             --id {id}: it waits for the execution and does not start another\n"
        )
    );
}

/// A question is answered with y, or nothing is done.
#[test]
fn a_question() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    user.does(&["deploy", &guest("approval")]);
    let id = user.does(&["start", "approve", EXPENSE]);
    let id = id.trim();
    until("it waits", || (house.state(id) == "blocked").then_some(()));
    for (answer, code, state) in
        [("n\n", 1, "blocked"), ("\n", 1, "blocked"), ("y\n", 0, "cancelled")]
    {
        let terminal = Terminal::new();
        terminal.types(answer);
        let mut child = terminal.start(&user, &["cancel", id]);
        assert_eq!(ended(&mut child), Some(code), "{answer:?}");
        until("it stands so", || (house.state(id) == state).then_some(()));
    }
}
