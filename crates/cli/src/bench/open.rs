//! How long a store takes to open: after its process was killed under load, and after it was
//! closed.
#![expect(clippy::disallowed_methods, reason = "it starts, watches and kills a process")]

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{self, Child, Stdio};
use std::time::{Duration, Instant};

use indelible_store::Store;
use indelible_store::embedded::{self, Options};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::drive::Windows;
use super::report::{Line, More, round};
use super::{SEED_FILL, close, meters, note, step};
use crate::failure::Failure;

/// How large the folder is to be, for each entry that is to be loaded: with the default about a
/// gigabyte.
const BYTES_PER_ENTRY: u64 = 512;
/// Enough that groups are large: the folder is full sooner.
const PRODUCERS: u32 = 256;
/// A process that fills for longer than this has been forgotten.
const FILL_MAX: Duration = Duration::from_secs(3_600);
const POLL: Duration = Duration::from_millis(50);

/// What it took to open.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Opened {
    after_kill_s: f64,
    close_s: f64,
    after_close_s: f64,
    /// What was there when the process was killed, and after the close.
    disk_bytes: u64,
    closed_disk_bytes: u64,
    /// How many batches the killed process had made durable.
    batches: u64,
}

impl Opened {
    pub(super) fn text(&self) -> String {
        format!(
            "  {} MiB, {} batches, killed under load: opened in {:.3} s\n  \
               closed in {:.3} s, then {} MiB: opened in {:.3} s",
            super::report::mib(self.disk_bytes),
            self.batches,
            self.after_kill_s,
            self.close_s,
            super::report::mib(self.closed_disk_bytes),
            self.after_close_s,
        )
    }
}

pub(super) fn run(
    folder: &Path,
    entries: u64,
    options: &Options,
) -> Result<(Line, String), Failure> {
    let target = entries * BYTES_PER_ENTRY;
    note(&format!("filling a store up to {} MiB, to be killed", super::report::mib(target)));
    let disk_bytes = filled_and_killed(folder, target, options)?;
    let (store, after_kill_s) = timed(|| open(folder, options))?;
    let batches = store.durable_now().number();
    let ((), close_s) = timed(|| close(store))?;
    let closed_disk_bytes = meters::disk_bytes(folder).map_err(|error| failed(&error))?;
    let (store, after_close_s) = timed(|| open(folder, options))?;
    let line = Line::new("open");
    close(store)?;
    let [after_kill_s, close_s, after_close_s] =
        [after_kill_s, close_s, after_close_s].map(|seconds| round(seconds, 4));
    let opened =
        Opened { after_kill_s, close_s, after_close_s, disk_bytes, closed_disk_bytes, batches };
    let text = opened.text();
    Ok((Line { producers: Some(PRODUCERS), more: More::Open(opened), ..line }, text))
}

fn open(folder: &Path, options: &Options) -> Result<Store, Failure> {
    embedded::open(folder, &indelible_records::TABLES, options).map_err(|error| {
        Failure::new(format!("the store cannot be opened: {error}"))
            .hint("this is a defect of the store; please report it")
    })
}

fn timed<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<(T, f64), Failure> {
    let start = Instant::now();
    let done = work()?;
    Ok((done, start.elapsed().as_secs_f64()))
}

/// A process that does not outlive its owner.
struct Filler(Child);

impl Drop for Filler {
    fn drop(&mut self) {
        // SIGKILL: nothing is flushed, nothing is closed.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Lets another process commit steps until the folder is so large; kills it while it does.
fn filled_and_killed(folder: &Path, target: u64, options: &Options) -> Result<u64, Failure> {
    let spawn = || {
        process::Command::new(std::env::current_exe()?)
            .args(["bench", "fill", "--cache-mib"])
            .arg((options.cache_bytes >> 20).to_string())
            .arg("--dir")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Its last words, if it ends by itself. They are no news if it is killed.
            .stderr(Stdio::piped())
            .spawn()
    };
    let mut filler = Filler(spawn().map_err(|error| failed(&error))?);
    loop {
        std::thread::sleep(POLL);
        if let Some(status) = filler.0.try_wait().map_err(|error| failed(&error))? {
            let mut words = String::new();
            let stderr = filler.0.stderr.take();
            _ = stderr.map(|mut stderr| stderr.read_to_string(&mut words));
            let why = words.lines().find_map(|line| line.strip_prefix("error: "));
            let why = why.map_or_else(|| status.to_string(), str::to_owned);
            return Err(failed(&io::Error::other(format!("its process ended early: {why}"))));
        }
        if meters::disk_bytes(folder).map_err(|error| failed(&error))? >= target {
            break;
        }
    }
    drop(filler);
    meters::disk_bytes(folder).map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(format!("a store cannot be filled: {error}"))
        .hint("look at the disk's free space, fill less with --load, or choose another with --dir")
}

/// The process that is killed: commits steps until then.
pub(super) fn fill(runtime: &Runtime, folder: &Path, options: &Options) -> Result<(), Failure> {
    // Whoever started it holds its standard input open: when that ends, so does this.
    std::thread::spawn(|| {
        _ = io::stdin().read_to_end(&mut Vec::new());
        _ = io::stdout().flush();
        process::exit(0);
    });
    let store = open(folder, options)?;
    let windows = Windows { length: FILL_MAX, count: 1 };
    step::run(runtime, &store, SEED_FILL, PRODUCERS, windows, |_| Ok(()))?;
    close(store)
}
