//! Faults of the disk under a program: builds the shim (`shim.c`) and runs a command with it.
//!
//! ```ignore
//! let run = Faults::new(&root).record(&file).acks(&acks).run(Command::new(program).arg(&root));
//! ```
//!
//! Linux on x86_64 or aarch64, with a C compiler.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own files has failed")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]

pub(crate) mod chain;
pub(crate) mod power;
pub(crate) mod record;

use std::collections::BTreeMap;
use std::env::consts::DLL_SUFFIX;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output, Stdio};
use std::sync::OnceLock;

const SOURCE: &str = include_str!("shim.c");

/// The compiled shim. Kept between runs under the hash of its source.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let mut hash = DefaultHasher::new();
        SOURCE.hash(&mut hash);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
        let shim = folder.join(format!("shim-{:016x}{DLL_SUFFIX}", hash.finish()));
        if !shim.exists() {
            fs::create_dir_all(&folder).expect("the target folder can be written");
            build(&folder, &shim);
        }
        shim
    })
}

/// Test processes may build at the same time: each to a name of its own, and the last rename wins.
fn build(folder: &Path, shim: &Path) {
    let source = folder.join(format!("{}.c", process::id()));
    let unnamed = folder.join(format!("{}{DLL_SUFFIX}", process::id()));
    fs::write(&source, SOURCE).expect("the target folder can be written");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-pthread", "-o"])
        .args([&unnamed, &source])
        .output()
        .unwrap_or_else(|e| panic!("these tests need a C compiler: `cc` cannot be run: {e}"));
    let said = String::from_utf8_lossy(&cc.stderr);
    assert!(cc.status.success(), "cc does not compile tests/it/faults/shim.c:\n{said}");
    fs::rename(&unnamed, shim).expect("the target folder can be written");
    fs::remove_file(&source).expect("the source was just written");
}

/// What shall go wrong, or be watched, under one folder.
#[derive(Clone)]
pub(crate) struct Faults {
    environment: Vec<(&'static str, OsString)>,
}

impl Faults {
    /// Nothing yet, for paths under `root`, which is made if it is not there.
    pub(crate) fn new(root: &Path) -> Self {
        fs::create_dir_all(root).expect("the root of a test can be made");
        Self { environment: vec![("FAULTS_ROOT", root.into())] }
    }

    fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Records every change to `file`, for [`record::Record::load`]. The file must be new.
    pub(crate) fn record(self, file: &Path) -> Self {
        self.with("FAULTS_RECORD", file)
    }

    /// Writes to `file` are the program's promises: [`record::Record::acks_before`].
    pub(crate) fn acks(self, file: &Path) -> Self {
        self.with("FAULTS_ACKS", file)
    }

    /// The disk is full after `bytes` were written.
    pub(crate) fn disk_bytes(self, bytes: u64) -> Self {
        self.with("FAULTS_DISK_BYTES", bytes.to_string())
    }

    /// While `file` exists, the disk has room again.
    pub(crate) fn disk_free(self, file: &Path) -> Self {
        self.with("FAULTS_DISK_FREE", file)
    }

    /// The `k`-th sync, from one, fails with `EIO`.
    pub(crate) fn sync_fails_at(self, k: u64) -> Self {
        self.with("FAULTS_SYNC_FAILS_AT", k.to_string())
    }

    /// The `k`-th write, from one, fails with `EIO`.
    pub(crate) fn write_fails_at(self, k: u64) -> Self {
        self.with("FAULTS_WRITE_FAILS_AT", k.to_string())
    }

    /// Every sync takes so many microseconds longer.
    pub(crate) fn sync_delay_us(self, delay: u64) -> Self {
        self.with("FAULTS_SYNC_DELAY_US", delay.to_string())
    }

    /// Syncs reach no disk: for a run that is only recorded, or thrown away.
    pub(crate) fn sync_skip(self) -> Self {
        self.with("FAULTS_SYNC_SKIP", "1")
    }

    /// The program is ended by a signal after so many seconds.
    pub(crate) fn seconds(self, seconds: u32) -> Self {
        self.with("FAULTS_SECONDS", seconds.to_string())
    }

    /// Faults only for files whose name ends so. The record is of all files in any case.
    pub(crate) fn name(self, suffix: &str) -> Self {
        self.with("FAULTS_NAME", suffix)
    }

    /// Puts the shim under `command`, which must not start other programs.
    pub(crate) fn under<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("LD_PRELOAD", shim()).envs(self.environment.iter().cloned())
    }

    /// Runs `command` to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Output {
        output(self.under(command)).expect("the program under test can be started")
    }
}

/// Runs a program to its end.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output()
}

/// A folder on the disk that cargo builds on: the one for temporary files may be small.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A folder in memory, where syncs cost nothing, if there is room for what a test makes of it.
pub(crate) fn scratch_in_memory() -> tempfile::TempDir {
    const ROOM: u64 = 2 << 30;
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory).is_ok_and(|at| at.f_bavail * at.f_frsize > ROOM);
    let made = if has_room { tempfile::tempdir_in(memory).ok() } else { None };
    made.unwrap_or_else(scratch)
}

/// Every file under a folder, with what is in it.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                all.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    all
}
