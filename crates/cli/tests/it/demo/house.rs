//! A place for one demo: a temporary folder of its own, so that what the demo leaves behind can be
//! found, files and processes alike.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) struct House {
    temporary: TempDir,
    /// Where it is run: nothing of the project is near.
    elsewhere: TempDir,
}

impl House {
    pub(crate) fn new() -> Self {
        Self { temporary: tempfile::tempdir().unwrap(), elsewhere: tempfile::tempdir().unwrap() }
    }

    /// `indelible demo`, in an empty folder that is the home, too. Variables that are set for other
    /// servers and for other traffic must not disturb it.
    pub(crate) fn demo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
        command
            .arg("demo")
            .args(arguments)
            .current_dir(self.elsewhere.path())
            .env("HOME", self.elsewhere.path())
            .env("TMPDIR", self.temporary.path())
            .env("INDELIBLE_KEYS", "true")
            .env("INDELIBLE_LISTEN", "127.0.0.1:1")
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .env("http_proxy", "http://127.0.0.1:1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.demo(arguments).output().unwrap()
    }

    pub(crate) fn elsewhere(&self) -> &Path {
        self.elsewhere.path()
    }

    /// The processes that work for a demo of this house: their command lines name its folder.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let folder = self.temporary.path().to_str().unwrap();
        let works_here = |process: &u32| {
            // It may be gone meanwhile.
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(folder)
        };
        let numbers = fs::read_dir("/proc").unwrap();
        let numbers = numbers.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        numbers.filter(works_here).collect()
    }

    /// Nothing of it is left: no process, and no file.
    #[track_caller]
    pub(crate) fn is_left_clean(&self) {
        assert_eq!(self.processes(), Vec::<u32>::new(), "a process is left");
        let left: Vec<_> = fs::read_dir(self.temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "a file is left: {left:?}");
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
