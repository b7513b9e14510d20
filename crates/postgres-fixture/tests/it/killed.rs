//! A process that is killed with SIGKILL leaves no server and no folder behind, whatever it was
//! doing.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the test starts processes and looks at folders")]

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use indelible_postgres_fixture::shared;
use indelible_test_support::example;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;

/// Waits for the end of a process that is not a child of ours.
struct Watched(OwnedFd);

impl Watched {
    /// It must be alive now, or the number could be another process's.
    fn new(pid: &str) -> Self {
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        Self(pidfd_open(pid, PidfdFlags::empty()).unwrap())
    }

    fn wait(&self) {
        // Far beyond what it takes: a server that is never stopped fails the test.
        let bound = Timespec { tv_sec: 120, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&bound)).unwrap();
        assert_eq!(ended, 1, "the supervisor does not end");
    }
}

/// A place for the folders of servers, where any account may make one.
fn place() -> TempDir {
    let place = tempfile::Builder::new().prefix("fixture-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    place
}

fn holder(place: &Path) -> Command {
    let mut command = Command::new(example("holder"));
    command.env("TMPDIR", place).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The first line that the holder says: the folder of its server.
fn folder_of(holder: &mut Child) -> PathBuf {
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    PathBuf::from(line.trim_end())
}

/// The server and its supervisor.
fn processes_of(folder: &Path) -> (String, Watched) {
    let file = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    let server = file.lines().next().unwrap().to_owned();
    let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    (server, Watched::new(parent))
}

/// Processes that work in a folder, or in one within.
fn working_in(folder: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter(|process| {
            fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
        })
        .collect()
}

fn assert_nothing_left(place: &Path) {
    let files: Vec<_> = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files, Vec::<PathBuf>::new());
    assert_eq!(working_in(place), Vec::<PathBuf>::new());
}

/// Killed while the server runs.
#[test]
fn a_killed_process_leaves_nothing() {
    let place = place();
    let mut holder = holder(place.path()).spawn().unwrap();
    let folder = folder_of(&mut holder);
    assert!(folder.starts_with(place.path()), "{}", folder.display());
    let (server, supervisor) = processes_of(&folder);
    assert!(working_in(&folder).len() > 2, "the server works in its folder");

    holder.kill().unwrap();
    holder.wait().unwrap();
    supervisor.wait();
    assert!(!Path::new(&format!("/proc/{server}")).exists(), "the server still runs");
    assert_nothing_left(place.path());
}

/// A process that ends by itself does not drop its statics; nor does it leave anything.
#[test]
fn a_process_that_returns_leaves_nothing() {
    let place = place();
    let mut holder = holder(place.path()).spawn().unwrap();
    let folder = folder_of(&mut holder);
    let (server, supervisor) = processes_of(&folder);
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    supervisor.wait();
    assert!(!Path::new(&format!("/proc/{server}")).exists(), "the server still runs");
    assert_nothing_left(place.path());
}

/// Killed together with its process group, as a terminal's Ctrl-C or a runner's timeout does.
#[test]
fn a_killed_group_leaves_nothing() {
    use std::os::unix::process::CommandExt as _;

    let place = place();
    let mut holder = holder(place.path()).process_group(0).spawn().unwrap();
    let folder = folder_of(&mut holder);
    let (_, supervisor) = processes_of(&folder);
    let group = Pid::from_child(&holder);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    holder.wait().unwrap();
    supervisor.wait();
    assert_nothing_left(place.path());
}

/// Killed while `initdb` works: it goes on, in a folder that has to go when it is done.
#[test]
fn a_process_killed_while_it_starts_leaves_nothing() {
    // Programs of which `initdb` says that it has begun, and waits until it may go on.
    let programs = place();
    let real = std::path::PathBuf::from(
        shared().sql("postgres", "SELECT setting FROM pg_config WHERE name = 'BINDIR'").unwrap(),
    );
    for name in ["postgres", "psql"] {
        symlink(real.join(name), programs.path().join(name)).unwrap();
    }
    let [begun, go] = ["begun", "go"].map(|name| {
        let path = programs.path().join(name);
        assert!(Command::new("mkfifo").args(["-m", "666"]).arg(&path).status().unwrap().success());
        path
    });
    let initdb = programs.path().join("initdb");
    let script = format!(
        "#!/bin/sh\necho $PPID > {}\nread -r word < {}\nexec {}/initdb \"$@\"\n",
        begun.display(),
        go.display(),
        real.display()
    );
    fs::write(&initdb, script).unwrap();
    fs::set_permissions(&initdb, Permissions::from_mode(0o755)).unwrap();

    let place = place();
    let path = std::env::join_paths(
        [programs.path().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let mut holder = holder(place.path()).env("PATH", path).spawn().unwrap();
    let supervisor = Watched::new(&fs::read_to_string(&begun).unwrap());
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "its folder is there");
    fs::write(&go, "go\n").unwrap();
    supervisor.wait();
    assert_nothing_left(place.path());
}
