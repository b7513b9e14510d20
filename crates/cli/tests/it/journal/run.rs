//! Runs the binary.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `indelible journal` with these arguments and this standard input.
#[track_caller]
pub(crate) fn journal(arguments: &[&str], stdin: &str) -> Ran {
    journal_of_bytes(arguments, stdin.as_bytes())
}

/// The same with a standard input that is no text.
#[track_caller]
pub(crate) fn journal_of_bytes(arguments: &[&str], stdin: &[u8]) -> Ran {
    let mut child = spawn(arguments);
    // It may have seen enough before all is written.
    _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) fn spawn(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_indelible"))
        .arg("journal")
        .args(arguments)
        .env("COLUMNS", "100")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

impl Ran {
    /// It went well: this on stdout, nothing on stderr.
    #[track_caller]
    pub(crate) fn well(&self, stdout: &str) {
        assert_eq!(self.stderr, "");
        assert_eq!(self.stdout, stdout);
        assert_eq!(self.code, Some(0));
    }

    /// It went wrong: exactly this on stderr.
    #[track_caller]
    pub(crate) fn wrong(&self, stderr: &str) {
        assert_eq!(self.stderr, stderr);
        assert_eq!(self.code, Some(1), "{}", self.stdout);
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}
