//! The process that is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use indelible_test_support::example;

/// A process that does not take as long as this to say something is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A secret that the process has. It is only for peers.
pub(crate) const TOKEN: &str = "kJ7w-only-for-the-peers-Zq19";

/// An engine in a process of its own.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    /// Starts it over a folder, with so many places for parked guests, and a clock that is ahead
    /// by so many seconds. Its guests reach these peers.
    pub(crate) fn start(
        folder: &Path,
        [parked, workers, later]: [u64; 3],
        peers: &[SocketAddr],
    ) -> Self {
        let mut child = Command::new(example("engine"))
            .arg(folder)
            .arg(indelible_guests::component("behaviours"))
            .args([parked, workers, later].map(|number| number.to_string()))
            .args(peers.iter().map(SocketAddr::to_string))
            .env("INDELIBLE_TEST_TOKEN", TOKEN)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                // The receiver is gone if the test has failed.
                let _ = said.send(line.unwrap());
            }
        });
        Self { input: child.stdin.take().unwrap(), child, lines }
    }

    pub(crate) fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line; none if it says nothing for so long.
    pub(crate) fn hear(&mut self, time: Duration) -> Option<String> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                panic!("it ended by itself: {}", self.child.wait().unwrap())
            }
        }
    }

    /// Kills it. What it still said before, it said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().collect()
    }

    /// Asks it to end, and waits until it has. What it still said before, it said.
    pub(crate) fn close(mut self) -> Vec<String> {
        self.send("close");
        let said = self.lines.iter().collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "it did not close: {status}");
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Of a test that has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
