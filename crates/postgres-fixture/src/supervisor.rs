//! The process that keeps a server, and ends it when we end (`supervisor.sh`).
#![expect(clippy::disallowed_methods, reason = "it reads what the server logged")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::account::Account;
use crate::error::Error;
use crate::programs::Programs;

const SCRIPT: &str = include_str!("supervisor.sh");

/// The path of a unix socket has at most 107 bytes, and the name of the server's folder and that of
/// the socket are 36 of them.
const BASE_BYTES_MAX: usize = 70;

/// The process that keeps a server. Dropping this stops the server and removes the folder.
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: Child,
    /// The one writing end of the pipe; `None` once it is closed. No other program that we start
    /// may inherit a copy, or the supervisor would not see us end.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Supervisor {
    /// Starts a supervisor. The supervisor makes the folder, so that every folder has a process
    /// that removes it, and belongs to the server's account.
    pub(crate) fn start(programs: &Programs, account: Account) -> Result<Self, Error> {
        let mut command = Command::new("/bin/sh");
        command
            // In a variable, since lists of processes show arguments.
            .env("SUPERVISOR", SCRIPT)
            .args(["-c", "eval \"$SUPERVISOR\"", "indelible-postgres-supervisor"])
            .arg(&programs.folder)
            .arg(base(std::env::temp_dir()))
            .env("LC_ALL", "C")
            // A signal to our process group does not reach the supervisor, so that it can clean up.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let command = account.applied(without_settings(&mut command));
        let mut process = command.spawn().map_err(Error::io("start the server's supervisor"))?;
        let commands = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("its output is piped"));
        let mut started = Self { process, commands, answers, folder: PathBuf::new() };
        let answer = started.answer()?;
        match answer.split_once(' ') {
            Some(("ok", folder)) => {
                started.folder = PathBuf::from(folder);
                Ok(started)
            }
            _ => Err(Error::Folder { said: answer }),
        }
    }

    /// The server's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the cluster's files.
    pub(crate) fn make(&mut self) -> Result<(), Error> {
        self.run("make")?.map_err(|log| Error::Initdb { log })
    }

    /// Starts the server, and waits until it takes connections. One that runs is left alone.
    pub(crate) fn start_server(&mut self, port: u16) -> Result<(), Error> {
        self.run(&format!("start {port}"))?.map_err(|log| Error::Start { log })
    }

    /// Ends the server at once.
    pub(crate) fn crash_server(&mut self) -> Result<(), Error> {
        self.run("crash")?.map_err(|_| Error::Supervisor)
    }

    /// Runs a command; where it failed, gives what was logged meanwhile.
    fn run(&mut self, command: &str) -> Result<Result<(), String>, Error> {
        let log = self.folder.join("log");
        let before = log.metadata().map_or(0, |data| data.len());
        let pipe = self.commands.as_mut().ok_or(Error::Supervisor)?;
        writeln!(pipe, "{command}").map_err(|_| Error::Supervisor)?;
        if self.answer()? == "ok" {
            return Ok(Ok(()));
        }
        let mut said = Vec::new();
        let read = std::fs::File::open(&log).and_then(|mut file| {
            file.seek(SeekFrom::Start(before))?;
            file.read_to_end(&mut said)
        });
        read.map_err(Error::io("read the server's log"))?;
        Ok(Err(crate::error::tail(&String::from_utf8_lossy(&said))))
    }

    fn answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            Ok(0) | Err(_) => Err(Error::Supervisor),
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.commands.take());
        // If the wait fails there is nothing left to do.
        self.process.wait().ok();
    }
}

/// Where the folders of servers are made: the system's temporary folder, if its path is short and
/// has no character that a setting or a URL would have to escape.
fn base(wanted: PathBuf) -> PathBuf {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let bytes = wanted.as_os_str().as_bytes();
    if wanted.is_absolute() && bytes.len() <= BASE_BYTES_MAX && bytes.iter().all(plain) {
        wanted
    } else {
        PathBuf::from("/tmp")
    }
}

/// Takes away the settings for PostgreSQL that we run under: they are about another server.
pub(crate) fn without_settings(command: &mut Command) -> &mut Command {
    let is_setting = |name: &OsStr| name.as_bytes().starts_with(b"PG");
    for name in std::env::vars_os().map(|(name, _)| name).filter(|name| is_setting(name)) {
        command.env_remove(name);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that is too long for a socket, or odd, is not used.
    #[test]
    fn odd_places_are_not_used() {
        for (wanted, base_expected) in [
            ("/var/tmp", "/var/tmp"),
            ("/tmp/.a_b-c/1", "/tmp/.a_b-c/1"),
            ("relative", "/tmp"),
            ("", "/tmp"),
            ("/tmp/with space", "/tmp"),
            ("/tmp/a,b", "/tmp"),
        ] {
            assert_eq!(base(PathBuf::from(wanted)), PathBuf::from(base_expected));
        }
        let long = PathBuf::from(format!("/{}", "x".repeat(BASE_BYTES_MAX - 1)));
        assert_eq!(base(long.clone()), long);
        let socket = long.join("indelible-pg-XXXXXX").join(".s.PGSQL.65535");
        assert!(socket.as_os_str().len() <= 107);
        assert_eq!(base(long.join("x")), PathBuf::from("/tmp"));
    }
}
