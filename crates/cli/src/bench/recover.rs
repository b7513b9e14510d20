//! `indelible bench recover`: a process with many waiting executions is killed. Measures how long
//! the next one takes until it is usable, and has resumed all due executions.
#![expect(clippy::disallowed_methods, reason = "it starts, times and kills processes")]

use std::io::{self, BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum, value_parser};
use indelible_runtime::{Engine, Readings};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::hearing::LineCounter;
use super::house::{self, Measure, Site};
use super::place::{BenchFolder, Guest};
use super::report::{Measurement, figures, memory, round, seconds};
use super::{end_with_parent, guest, meters, note};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
A process starts N executions: --due percent of them sleep, and the others wait for a signal. When
all starts are acknowledged, the process is killed, and the sleepers become due while nothing runs.
Then another process opens the same folder. Times are from the start of that process: until it is
ready (its engine is open and has answered a trivial call), until all due executions have resumed,
and until they have ended and are durable. Memory is measured before the kill and after it. The rate
of the N starts is reported, too.

Examples:
  indelible bench recover
  indelible bench recover --n 10000 --due 50 --json";

/// The longest time for all due executions to resume, and to end.
const DUE_MAX: Duration = Duration::from_secs(1_800);
/// How many executions are started to estimate how long a start takes.
const SAMPLE: u64 = 1_000;
/// The factor by which the machine may become slower than that estimate.
const SLOWER: u32 = 4;
/// The time between the last start, as estimated, and the first due timer.
const MARGIN: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct RecoverArguments {
    /// How many executions wait
    #[arg(long, value_name = "N", default_value = "100000",
        value_parser = value_parser!(u64).range(1..=10_000_000))]
    n: u64,
    /// How many percent of them sleep, and are due when the next process starts
    #[arg(long, value_name = "PERCENT", default_value = "10",
        value_parser = value_parser!(u64).range(0..=100))]
    due: u64,
}

#[derive(Args)]
pub(crate) struct WaitArguments {
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    guest: PathBuf,
    #[arg(long, value_enum)]
    part: Part,
    /// How many wait for a signal
    #[arg(long, default_value = "0")]
    signals: u64,
    /// How many sleep
    #[arg(long, default_value = "0")]
    sleepers: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Starts the waiting executions, until it is killed.
    First,
    /// Resumes them.
    Second,
}

/// A line that a process prints at the next point. Figures that do not apply are 0 or none.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Point {
    /// How long it took to start all executions.
    started_s: f64,
    /// When the sleepers are due, in microseconds since 1970.
    due_at: u64,
    rss_bytes: Option<u64>,
    parked: usize,
    trees: usize,
    evicted: u64,
    replays: u64,
}

impl Point {
    fn of(engine: &Engine) -> Self {
        let Readings { parked, trees, evicted, replays, .. } = engine.readings();
        let rss_bytes = meters::rss_bytes();
        Self { rss_bytes, parked, trees, evicted, replays, ..Self::default() }
    }
}

impl Measure for RecoverArguments {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
        let n = self.n;
        let due = n * self.due / 100;
        let component = guest::path(site.guest)?;
        guest::component(Some(&component))?;
        let place = site.place;
        note(&format!("starting {n} executions, to be killed"));
        let mut first = Process::start(place, &component, Part::First, n - due, due)?;
        let (before, _) = first.hear()?;
        drop(first);
        let disk_bytes = meters::disk_bytes(place.path()).ok();
        let left = Duration::from_micros(before.due_at.saturating_sub(now()));
        if due > 0 && left.is_zero() {
            return Err(Failure::new("some executions were due before the process was killed").hint(
                "this machine is too slow or too busy for that many: use a smaller --n or --due",
            ));
        }
        std::thread::sleep(left);

        note("killed; starting another process");
        let mut second = Process::start(place, &component, Part::Second, n - due, due)?;
        let (_, store_open_s) = second.hear()?;
        let (_, open_s) = second.hear()?;
        let (ready, ready_s) = second.hear()?;
        let (_, gone_on_s) = second.hear()?;
        let (after, ended_s) = second.hear()?;
        let started_per_s = round(n as f64 / before.started_s.max(f64::MIN_POSITIVE), 1);
        let text = format!(
            "recover: {n} waiting ({started_per_s:.0} started per s): {} MiB, {} parked, {} evicted\n  \
               killed and restarted: store open after {store_open_s:.2} s, engine after {open_s:.2} s\n  \
               ready after {ready_s:.2} s with {} MiB\n  \
               {due} due: all resumed after {gone_on_s:.2} s, all ended after {ended_s:.2} s\n  \
               then {} MiB, {} parked, {} replayed",
            memory(before.rss_bytes),
            before.parked,
            before.evicted,
            memory(ready.rss_bytes),
            memory(after.rss_bytes),
            after.parked,
            after.replays,
        );
        let figures = figures! { n, due, started_per_s }
            .with("before_rss_bytes", before.rss_bytes)
            .with("before_parked", before.parked)
            .with("before_trees", before.trees)
            .with("before_evicted", before.evicted)
            .and(figures! { store_open_s, open_s, ready_s })
            .with("ready_rss_bytes", ready.rss_bytes)
            .and(figures! { gone_on_s, ended_s })
            .with("after_rss_bytes", after.rss_bytes)
            .with("after_parked", after.parked)
            .with("after_trees", after.trees)
            .with("after_evicted", after.evicted)
            .with("after_replays", after.replays)
            .and(figures! { disk_bytes });
        Ok(Measurement::new("recover", figures, text))
    }
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// A process that is killed when this is dropped.
struct Process<'a> {
    place: &'a BenchFolder,
    guest: Guest,
    said: BufReader<ChildStdout>,
    start: Instant,
}

impl<'a> Process<'a> {
    fn start(
        place: &'a BenchFolder,
        component: &Path,
        part: Part,
        signals: u64,
        sleepers: u64,
    ) -> Result<Self, Failure> {
        let part = if part == Part::First { "first" } else { "second" };
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut command = process::Command::new(program);
        command
            .args(["bench", "wait", "--part", part])
            .args(["--signals", &signals.to_string(), "--sleepers", &sleepers.to_string()])
            .arg("--dir")
            .arg(place.path())
            .arg("--guest")
            .arg(component)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let start = Instant::now();
        let (guest, said) = place.let_in(&mut command).map_err(|error| failed(&error))?;
        let said = said.ok_or_else(|| failed(&io::Error::other("it printed nothing")))?;
        Ok(Self { place, guest, said: BufReader::new(said), start })
    }

    /// The next line of the process, and how many seconds after its start it came.
    fn hear(&mut self) -> Result<(Point, f64), Failure> {
        let mut line = String::new();
        let read = self.said.read_line(&mut line);
        let time = seconds(self.start.elapsed());
        let said = read.and_then(|_| {
            serde_json::from_str(&line).map_err(|_| io::Error::other("it ended early"))
        });
        let said = self.place.unless_removed(said).map_err(|error| failed(&error))?;
        Ok((said, time))
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        self.guest.kill();
    }
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(format!("the process of the benchmark failed: {error}"))
        .hint("see its output above; check the disk's free space, or use a smaller --n")
}

/// The process that starts the waiting executions, or resumes them.
pub(super) fn wait(
    arguments: &WaitArguments,
    runtime: &Runtime,
    out: &mut impl Write,
) -> Result<(), Failure> {
    end_with_parent();
    match arguments.part {
        Part::First => first(arguments, runtime, out),
        Part::Second => second(arguments, runtime, out),
    }
}

fn say(out: &mut impl Write, said: &Point) -> Result<(), Failure> {
    let line = serde_json::to_string(said).map_err(io::Error::from);
    let written = line.and_then(|line| writeln!(out, "{line}")).and_then(|()| out.flush());
    written.map_err(|error| Failure::output(&error))
}

fn first(
    arguments: &WaitArguments,
    runtime: &Runtime,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let &WaitArguments { signals, sleepers, .. } = arguments;
    let component = guest::component(Some(&arguments.guest))?;
    let world = house::world(house::guests(&arguments.dir)?, Arc::new(LineCounter::default()));
    let engine = Arc::new(house::open(&arguments.dir, world)?);
    house::deploy(runtime, &engine, &component)?;
    let start = Instant::now();
    house::many(runtime, &engine, signals, |engine| async move {
        house::begin(&engine, "listen", "1".to_owned()).await.map(drop)
    })?;
    let lead = MARGIN + SLOWER * lead_time(runtime, &engine, sleepers)?;
    let due_at = now() + u64::try_from(lead.as_micros()).unwrap_or(u64::MAX);
    house::many(runtime, &engine, sleepers, move |engine| async move {
        let micros = due_at.saturating_sub(now());
        house::begin(&engine, "doze", micros.to_string()).await.map(drop)
    })?;
    let started_s = start.elapsed().as_secs_f64();
    say(out, &Point { started_s, due_at, ..Point::of(&engine) })?;
    loop {
        std::thread::park();
    }
}

/// Estimates how long it takes to start so many executions, by starting some.
fn lead_time(runtime: &Runtime, engine: &Arc<Engine>, count: u64) -> Result<Duration, Failure> {
    let some = count.min(SAMPLE);
    let start = Instant::now();
    house::many(runtime, engine, some, |engine| async move {
        house::begin(&engine, "echo", "1".to_owned()).await.map(drop)
    })?;
    let seconds = start.elapsed().as_secs_f64() * count as f64 / some.max(1) as f64;
    Ok(Duration::from_secs_f64(seconds))
}

fn second(
    arguments: &WaitArguments,
    runtime: &Runtime,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let sleepers = arguments.sleepers;
    let counting = Arc::new(LineCounter::default());
    let world = house::world(house::guests(&arguments.dir)?, Arc::clone(&counting) as _);
    let store = house::store(&arguments.dir)?;
    say(out, &Point::default())?;
    let engine = house::engine(store, world)?;
    say(out, &Point::default())?;
    runtime.block_on(house::call(&engine, "echo", "1".to_owned()))?;
    say(out, &Point::of(&engine))?;
    house::until("all executions to resume", DUE_MAX, || counting.count() >= sleepers)?;
    say(out, &Point::default())?;
    house::until("all executions to end", DUE_MAX, || {
        let left = indelible_records::timers::next(engine.store(), None, 1);
        engine.readings().recovered && left.is_ok_and(|left| left.value.is_empty())
    })?;
    house::settle(&engine)?;
    say(out, &Point::of(&engine))?;
    loop {
        std::thread::park();
    }
}
