//! `indelible store backup` and `restore`: of a server under load, and of a folder; and whatever is
//! wrong with a backup, nothing is made of it.
//!
//! - `load`: a backup while callers call, and the server that goes on with it.
//! - `server`: what a server gives, to whom, and how often at a time. `refused`: what is refused.
//! - `own`: what is made is its owner's alone. `terminal`: what a person sees meanwhile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and read their files")]

mod load;
mod own;
mod refused;
mod server;
#[cfg(target_os = "linux")]
mod terminal;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a command said, and how it ended.
struct Said {
    out: String,
    errors: String,
    code: Option<i32>,
}

impl Said {
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.errors);
        serde_json::from_str(&self.out).unwrap()
    }

    /// It was refused, with this in its words, and a hint unless it is the connection's fault.
    #[track_caller]
    fn refused(&self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.errors);
        assert_eq!(self.out, "");
        assert!(self.errors.starts_with("error: "), "{}", self.errors);
        let hinted = code == 5 || self.errors.contains("hint: ");
        assert!(self.errors.contains(words) && hinted, "{}", self.errors);
    }
}

/// `indelible store` with these arguments.
fn store(arguments: &[&dyn AsRef<OsStr>]) -> Said {
    let output = command(arguments).output().unwrap();
    Said {
        out: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code(),
    }
}

/// The same, not yet started.
fn command(arguments: &[&dyn AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("store").args(arguments.iter().map(AsRef::as_ref));
    for variable in ["INDELIBLE_URL", "INDELIBLE_TOKEN", "INDELIBLE_CONTEXT", "INDELIBLE_NAMESPACE"]
    {
        command.env_remove(variable);
    }
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    command
}

/// What is in a folder, by name.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
