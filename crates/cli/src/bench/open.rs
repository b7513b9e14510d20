//! Measures how long a store takes to open: after its process was killed under load, and after it
//! was closed.
#![expect(clippy::disallowed_methods, reason = "it starts, watches and kills a process")]

use std::io::{self, Read as _};
use std::path::Path;
use std::process::{self, Child, Stdio};
use std::time::{Duration, Instant};

use indelible_store::Store;
use indelible_store::embedded::{self, Options};
use tokio::runtime::Runtime;

use super::drive::Windows;
use super::report::{Line, figures, mib, round};
use super::{SEED_FILL, close, end_with_parent, meters, note, step};
use crate::failure::Failure;

/// The size of the folder for each entry to load: with the default number, about a gigabyte.
const BYTES_PER_ENTRY: u64 = 512;
/// Many producers make large groups, which fill the folder sooner.
const PRODUCERS: u32 = 256;
/// The bound for filling the folder.
const FILL_MAX: Duration = Duration::from_secs(3_600);
const POLL: Duration = Duration::from_millis(50);

pub(super) fn run(
    folder: &Path,
    entries: u64,
    options: &Options,
) -> Result<(Line, String), Failure> {
    let target = entries * BYTES_PER_ENTRY;
    note(&format!("filling a store up to {} MiB, to be killed", mib(target)));
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
    let text = format!(
        "  {} MiB, {batches} batches, killed under load: opened in {after_kill_s:.3} s\n  \
           closed in {close_s:.3} s, then {} MiB: opened in {after_close_s:.3} s",
        mib(disk_bytes),
        mib(closed_disk_bytes),
    );
    let more = figures! {
        after_kill_s, close_s, after_close_s, disk_bytes, closed_disk_bytes, batches,
    };
    Ok((Line { producers: Some(PRODUCERS), more, ..line }, text))
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

/// A process that is killed when this is dropped.
struct Filler(Child);

impl Drop for Filler {
    fn drop(&mut self) {
        // SIGKILL: nothing is flushed or closed.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Starts a process that commits steps, and kills it when the folder has the target size.
fn filled_and_killed(folder: &Path, target: u64, options: &Options) -> Result<u64, Failure> {
    let spawn = || {
        process::Command::new(std::env::current_exe()?)
            .args(["bench", "fill", "--cache-mib"])
            .arg((options.cache_bytes >> 20).to_string())
            .arg("--dir")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Its stderr is shown only if it ends by itself.
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
            return Err(failed(&io::Error::other(format!(
                "the process that fills the store ended \
                 early: {why}"
            ))));
        }
        if meters::disk_bytes(folder).map_err(|error| failed(&error))? >= target {
            break;
        }
    }
    drop(filler);
    meters::disk_bytes(folder).map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(format!("cannot fill a store: {error}")).hint(
        "check the disk's free space, fill less with --load, or choose another disk with \
             --dir",
    )
}

/// The process that is killed: commits steps until then.
pub(super) fn fill(runtime: &Runtime, folder: &Path, options: &Options) -> Result<(), Failure> {
    end_with_parent();
    let store = open(folder, options)?;
    step::run(runtime, &store, SEED_FILL, PRODUCERS, Windows::one(FILL_MAX), |_| Ok(()))?;
    close(store)
}
