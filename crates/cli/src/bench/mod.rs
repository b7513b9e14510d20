//! `indelible bench`: what this machine can do, measured the same way everywhere.
//!
//! - `place`: the folder it happens in. `meters`: what the process takes from the machine.
//!   `histogram`: latencies. `random`: bytes. `report`: what is printed.
//! - `steps`: the rows of the workload. `drive`: producers, and the time they take.
//! - `step`, `raw`: the workloads.
#![allow(dead_code, reason = "the workloads that use the rest come next")]

mod drive;
mod histogram;
mod meters;
mod place;
mod random;
mod raw;
mod report;
mod step;
mod steps;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, value_parser};
use indelible_store::embedded::{self, Options};
use indelible_store::{Store, rows};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use self::drive::Windows;
use self::place::Place;
use self::report::{Line, More, Report, round};
use crate::failure::{Failure, Verdict};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Measure the store: commits, reads, and beside them the disk itself
    Store(StoreArguments),
}

#[derive(Args)]
pub(crate) struct StoreArguments {
    /// Where to measure: a folder that is empty or absent
    ///
    /// Without it, one in the current directory, which is removed afterwards.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Leave what was made in the folder
    #[arg(long, requires = "dir")]
    keep: bool,
    /// How many producers commit at once, one measurement for each number
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8,64,256",
        value_parser = value_parser!(u32).range(1..=4096))]
    producers: Vec<u32>,
    /// How long each measurement takes
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// What to measure
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum,
        default_values_t = [Workload::Step, Workload::Raw])]
    workload: Vec<Workload>,
    /// How much memory the store keeps for what it reads, in MiB
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_048_576))]
    cache_mib: Option<u64>,
    /// Print one JSON object for each measurement
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Commits of two journal entries with all that belongs to them, each until it is durable
    Step,
    /// The same bytes, one write and one sync of a file for each group; always beside step
    Raw,
}

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<Verdict, Failure> {
    match command {
        Command::Store(arguments) => measure(&arguments, out),
    }
}

fn measure(arguments: &StoreArguments, out: &mut impl Write) -> Result<Verdict, Failure> {
    let runtime = runtime().map_err(|error| {
        Failure::new(format!("cannot start: {error}")).hint("look at the limits of this process")
    })?;
    let place = Arc::new(Place::make(arguments.dir.as_deref(), arguments.keep)?);
    remove_when_interrupted(&runtime, &place).map_err(|error| {
        Failure::new(format!("cannot listen for signals: {error}"))
            .hint("look at the limits of this process")
    })?;
    let mut options = Options::default();
    if let Some(mib) = arguments.cache_mib {
        options.cache_bytes = mib << 20;
    }
    let bench = Bench { arguments, options, runtime: &runtime, place: &place };
    let result = bench.run(&mut Report::new(out, arguments.json));
    // The last handle removes the folder: nothing may run in it any more.
    drop(runtime);
    result.map(|()| Verdict::Well)
}

/// As many workers as cores: the number that a server would have.
fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

fn remove_when_interrupted(runtime: &Runtime, place: &Arc<Place>) -> io::Result<()> {
    let _context = runtime.enter();
    for (kind, code) in [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143)] {
        let mut signal = signal(kind)?;
        let place = Arc::clone(place);
        runtime.spawn(async move {
            signal.recv().await;
            place.remove();
            note("interrupted");
            std::process::exit(code);
        });
    }
    Ok(())
}

/// Tells whoever watches what is going on.
fn note(text: &str) {
    // Whether anybody does is no concern of a benchmark.
    _ = writeln!(io::stderr(), "{text}");
}

struct Bench<'a> {
    arguments: &'a StoreArguments,
    options: Options,
    runtime: &'a Runtime,
    place: &'a Place,
}

impl Bench<'_> {
    fn wants(&self, workload: Workload) -> bool {
        self.arguments.workload.contains(&workload)
    }

    fn run(&self, report: &mut Report<'_, impl Write>) -> Result<(), Failure> {
        note(&format!("measuring in {}", self.place.path().display()));
        if self.wants(Workload::Step) || self.wants(Workload::Raw) {
            for producers in &self.arguments.producers {
                self.commits(*producers, report)?;
            }
        }
        Ok(())
    }

    /// Steps, and the raw disk right before and right after them: the machine may not be the same
    /// from one minute to the next.
    fn commits(&self, producers: u32, report: &mut Report<'_, impl Write>) -> Result<(), Failure> {
        let length = Duration::from_secs(u64::from(self.arguments.seconds));
        let half = Windows { length: length / 2, count: 1 };
        let file = self.place.join("raw");
        let mut raw = raw::run(self.runtime, &file, producers, half)?;
        let steps = if self.wants(Workload::Step) { Some(self.steps(producers)?) } else { None };
        let after = raw::run(self.runtime, &file, producers, half)?;
        let rates = [raw.driven.all.per_s(), after.driven.all.per_s()];
        raw.driven.all.merge(&after.driven.all);
        let mean = (rates[0] + rates[1]) / 2.0;
        report.line(&Line {
            producers: Some(producers),
            fsyncs: Some(raw.fsyncs + after.fsyncs),
            bytes_given: Some(raw.bytes_given + after.bytes_given),
            more: More::Raw { before_per_s: round(rates[0], 1), after_per_s: round(rates[1], 1) },
            ..Line::of("raw", &raw.driven.all)
        })?;
        steps.map_or(Ok(()), |line| report.line(&line.beside(mean)))
    }

    fn steps(&self, producers: u32) -> Result<Line, Failure> {
        let folder = self.place.join(&format!("step-{producers}"));
        let store = self.open(&folder)?;
        let length = Duration::from_secs(u64::from(self.arguments.seconds));
        let windows = Windows { length, count: 1 };
        let ran = step::run(self.runtime, &store, 1, producers, windows, |_| Ok(()))?;
        let line = Line {
            producers: Some(producers),
            fsyncs: Some(ran.fsyncs),
            bytes_given: Some(ran.bytes_given),
            ..Line::of("step", &ran.driven.all)
        };
        close(store)?;
        self.place.done_with(&folder);
        Ok(line)
    }

    fn open(&self, folder: &Path) -> Result<Store, Failure> {
        embedded::open(folder, &rows::TABLES, &self.options).map_err(|error| {
            Failure::new(format!("cannot open a store: {error}"))
                .hint("choose a folder on another disk with --dir")
        })
    }
}

fn close(store: Store) -> Result<(), Failure> {
    store.close().map_err(|error| {
        Failure::new(format!("cannot close the store: {error}"))
            .hint("look at the disk's free space and its health")
    })
}
