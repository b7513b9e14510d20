//! A user of the command line, with a home of their own, and what they are told: with everything
//! that differs from run to run filtered.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::process::Server;
pub(crate) use crate::support::process::until;

/// A user with an empty home, in an empty folder.
pub(crate) struct User {
    folder: tempfile::TempDir,
    url: Option<String>,
    token: Option<String>,
}

/// What came of a command.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    folder: PathBuf,
}

impl User {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), url: None, token: None }
    }

    /// A user of this server, unless a command names another.
    pub(crate) fn of(server: &Server) -> Self {
        Self::at(&format!("http://{}", server.address))
    }

    pub(crate) fn at(url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..Self::new() }
    }

    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The command, as yet without arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
        command.current_dir(self.folder()).stdin(Stdio::null());
        let own = ["URL", "CONTEXT", "NAMESPACE", "TOKEN"];
        for name in own {
            command.env_remove(format!("INDELIBLE_{name}"));
        }
        command.env("XDG_CONFIG_HOME", self.folder().join("config")).env("USER", "ann");
        command.envs(self.url.as_ref().map(|url| ("INDELIBLE_URL", url)));
        command.envs(self.token.as_ref().map(|token| ("INDELIBLE_TOKEN", token)));
        command
    }

    /// Runs it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.said(&self.command().args(arguments).output().unwrap())
    }

    /// Runs it with this on stdin.
    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &str) -> Said {
        let mut child = self
            .command()
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The write fails if the command closes its stdin early, having read enough.
        _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        self.said(&child.wait_with_output().unwrap())
    }

    /// Runs it, and it does what it should: what is on stdout.
    #[track_caller]
    pub(crate) fn does(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
        said.stdout
    }

    /// The same, as JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let text = self.does(&[arguments, &["--json"]].concat());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["v"], 1, "{text}");
        value
    }

    fn said(&self, output: &Output) -> Said {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            folder: self.folder().to_owned(),
        }
    }
}

impl Said {
    /// Compares all of it: the exit code, what is on stdout, and behind `---` what is on stderr.
    #[track_caller]
    pub(crate) fn check(&self, code: i32, expected: &str) {
        let mut text = self.stdout.clone();
        if !self.stderr.is_empty() {
            _ = write!(text, "---\n{}", self.stderr);
        }
        let text = filter(&text, &self.folder);
        assert_eq!(text.trim_end(), dedent(expected).trim_end(), "all of it:\n{text}");
        assert_eq!(self.code, code, "{text}");
    }
}

/// What differs from run to run is replaced by what it is.
fn filter(text: &str, folder: &Path) -> String {
    let text = text.replace(folder.to_str().unwrap(), "[FOLDER]");
    let part = |c: char| c.is_ascii_alphanumeric() || ":.-_".contains(c);
    let mut filtered = String::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        filtered.push_str(&named(word));
        let other = behind.find(part).unwrap_or(behind.len());
        filtered.push_str(&behind[..other]);
        rest = &behind[other..];
    }
    filtered
}

fn named(word: &str) -> String {
    let digits = word.chars().take_while(|c| "0123456789abcdef".contains(*c)).count();
    let behind = &word[digits..];
    let is_time = word.len() > 19 && word.as_bytes()[10] == b'T' && word.starts_with("20");
    if is_time {
        return "[TIME]".to_owned();
    }
    if word.len() == 36 && word.matches('-').count() == 4 {
        return "[UUID]".to_owned();
    }
    if word.starts_with("ind_") && word.len() > 20 {
        return "[SECRET]".to_owned();
    }
    // Where servers listen by default is the same in every run.
    if let Some(port) = word.strip_prefix("127.0.0.1:").filter(|port| *port != "7070") {
        let port = port.trim_start_matches(|c: char| c.is_ascii_digit());
        return format!("127.0.0.1:[PORT]{port}");
    }
    match digits {
        64 if behind.is_empty() || behind.starts_with(['.', ':']) => format!("[ID]{behind}"),
        16 if behind.is_empty() => "[KEY]".to_owned(),
        8 if behind.is_empty() || behind.starts_with(['.', ':']) => format!("[SHORT]{behind}"),
        _ => word.to_owned(),
    }
}

/// Without the first line end, and without what all lines begin with.
fn dedent(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let indent = lines.map(|line| line.len() - line.trim_start().len()).min().unwrap_or_default();
    let mut dedented = String::new();
    for line in text.lines() {
        dedented.push_str(line.get(indent..).unwrap_or_default());
        dedented.push('\n');
    }
    dedented
}

/// The path of a guest of the project.
pub(crate) fn guest(name: &str) -> String {
    indelible_guests::component(name).to_str().unwrap().to_owned()
}

/// A server with its data folder.
pub(crate) struct House {
    pub(crate) server: Server,
    pub(crate) data: tempfile::TempDir,
}

impl House {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        Self { server: Server::start(data.path(), arguments), data }
    }

    /// How an execution stands.
    pub(crate) fn state(&self, id: &str) -> String {
        let detail = self.server.get(&format!("/v1/executions/{id}")).json();
        detail["execution"]["state"].as_str().unwrap_or_default().to_owned()
    }
}
