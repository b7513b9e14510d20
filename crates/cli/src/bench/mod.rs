//! `indelible bench`: what this machine can do, measured the same way everywhere.
//!
//! - `measure`: runs the workloads of the store in turn. `step`, `raw`, `reads`, `sustained`,
//!   `open`: one workload each.
//! - `steps`: the rows that a step writes. `load`: fills a store with them. `drive`: runs producers
//!   and measures their latency.
//! - `server`: calls to a server, over HTTP. `ledger`: transactions, over HTTP or not. `calls`, `http`, `signals`, `timers`, `recover`,
//!   `history`: benchmarks of the engine. `house`: opens their engine in a folder. `guest`: the
//!   component that they call. `hearing`: observes the lines that its functions log.
//! - `place`: the folder of a benchmark. `meters`: memory, processor time and disk that it uses.
//!   `histogram`: latencies. `random`: seeded random bytes. `report`: the output.

mod calls;
mod deliver;
mod drive;
mod guest;
mod hearing;
mod histogram;
mod history;
mod house;
mod http;
mod ledger;
mod load;
mod measure;
mod meters;
mod open;
mod place;
pub(crate) mod random;
mod raw;
mod reads;
mod recover;
mod report;
mod server;
mod signals;
mod step;
mod steps;
mod sustained;
mod timers;

use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum, value_parser};
use indelible_store::Store;
use indelible_store::embedded::Options;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use self::house::EngineBench;
use self::measure::Bench as StoreBench;
use self::place::BenchFolder;
use self::report::Report;
use crate::failure::Failure;

// The seeds of the random streams. Each use has its own, so that no two write the same bytes.
const SEED_RAW: u64 = 0;
const SEED_STEPS: u64 = 1;
const SEED_LOAD: u64 = 2;
const SEED_READS: u64 = 3;
const SEED_SUSTAINED: u64 = 4;
const SEED_FILL: u64 = 5;
const SEED_LEDGER: u64 = 6;

const STORE_HELP: &str = "\
step commits steps of executions. A step writes about 780 bytes: a row with two journal entries of
250 bytes each, the execution's row under a precondition, and a new queue row in place of an old
one. Its latency is the time from its submission to the store until it is durable.

raw measures the disk itself with the same producers and bytes: for each group, one write and one
fdatasync of a growing file. Half of its time is right before each measurement of step and half
right after it; `ratio` is the rate of step divided by the mean rate of these two.

scan reads whole journals of 20 entries, and get reads single rows of 2 entries: on one thread, by
random keys, after everything was read once. sustained commits steps of 64 producers into the loaded
store. open kills a process under load and opens the store that it left, which has about 512 bytes
for each entry of --load.

Examples:
  indelible bench store
  indelible bench store --workload step --producers 64 --seconds 20 --json
  indelible bench store --workload sustained --seconds 600 --dir /data/bench";

const SERVER_HELP: &str = "\
Without a subcommand, measures calls to a server over HTTP: first on many kept-alive connections,
then on a single connection, compared with the disk itself, and last with idempotency keys that the
server knows already. The function returns its input, and each call has its own idempotency key.
Without --url, the server is started for the measurement, in a folder of its own and on the same
cores.

Examples:
  indelible bench
  indelible bench --url http://127.0.0.1:7070 --connections 64 --seconds 20
  indelible bench store";

/// Measure what this machine can do
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = SERVER_HELP)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    server: server::ServerArguments,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Measure the store: commits and reads, compared with the disk itself
    #[command(after_long_help = STORE_HELP)]
    Store(StoreArguments),
    /// Measure calls of a trivial function, each until its outcome is durable
    #[command(after_long_help = calls::INVOKE_HELP)]
    Invoke(EngineBench<calls::Load>),
    /// Measure workflows that make many calls, one after the other
    #[command(after_long_help = calls::STEPS_HELP)]
    Steps(EngineBench<calls::StepsArguments>),
    /// Measure workflows that make many calls at once
    #[command(after_long_help = calls::FANOUT_HELP)]
    Fanout(EngineBench<calls::FanoutArguments>),
    /// Measure workflows that send HTTP requests, one after the other
    #[command(after_long_help = http::HELP)]
    Http(EngineBench<http::HttpArguments>),
    /// Measure signals to executions that wait for them
    #[command(after_long_help = signals::HELP)]
    Signals(EngineBench<signals::SignalsArguments>),
    /// Measure what many pending timers cost, how late a short sleep is, and a flood of due ones
    #[command(after_long_help = timers::HELP)]
    Timers(EngineBench<timers::TimersArguments>),
    /// Measure a restart after a kill, with many executions waiting
    #[command(after_long_help = recover::HELP)]
    Recover(EngineBench<recover::RecoverArguments>),
    /// Measure calls with many finished executions in the store, against an empty one
    #[command(after_long_help = history::HELP)]
    History(EngineBench<history::HistoryArguments>),
    /// Measure messages that are delivered to an endpoint
    #[command(after_long_help = deliver::HELP)]
    Deliver(EngineBench<deliver::DeliverArguments>),
    /// Measure sequenced transactions on a vault of the ledger, over HTTP or in this process
    #[command(after_long_help = ledger::HELP)]
    Ledger(Box<ledger::LedgerArguments>),
    /// Start waiting executions until killed, or resume them; `recover` starts this
    #[command(hide = true)]
    Wait(recover::WaitArguments),
    /// Commit steps until killed; `open` starts this
    #[command(hide = true)]
    Fill(FillArguments),
}

#[derive(Args)]
pub(crate) struct StoreArguments {
    #[command(flatten)]
    folder: FolderArguments,
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
        default_values_t = [Workload::Step, Workload::Raw, Workload::Scan, Workload::Get])]
    workload: Vec<Workload>,
    /// How many journal entries scan, get, sustained and open find in the store
    #[arg(long, value_name = "N", default_value = "2000000",
        value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    load: u64,
    #[command(flatten)]
    cache: CacheArgument,
    /// Print one JSON object for each measurement
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct FolderArguments {
    /// Where to measure: a folder that is empty or absent
    ///
    /// By default, a new one in the current directory. It is removed afterwards; a folder that was
    /// there before is only emptied.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the contents of the folder afterwards
    #[arg(long, requires = "dir")]
    keep: bool,
}

impl FolderArguments {
    /// The folder to measure in. Dropping its last handle, or an interrupt, removes it.
    fn make(&self, runtime: &Runtime) -> Result<Arc<BenchFolder>, Failure> {
        let place = Arc::new(BenchFolder::make(self.dir.as_deref(), self.keep)?);
        remove_when_interrupted(runtime, &place)
            .map_err(|error| unable("listen for signals", &error))?;
        note(&format!("measuring in {}", place.path().display()));
        if place.is_in_memory() {
            note(
                "warning: this folder is in memory, where a sync costs nothing; choose a folder \
                 on a disk with --dir",
            );
        }
        Ok(place)
    }
}

#[derive(Args)]
pub(crate) struct FillArguments {
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    cache: CacheArgument,
}

#[derive(Args)]
struct CacheArgument {
    /// The size of the store's read cache, in MiB; the store's own default if not given
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_048_576))]
    cache_mib: Option<u64>,
}

impl CacheArgument {
    fn options(&self) -> Options {
        let mut options = Options::default();
        if let Some(mib) = self.cache_mib {
            options.cache_bytes = mib << 20;
        }
        options
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Commits of steps, each until it is durable
    Step,
    /// The same bytes, written to the disk itself; always runs together with step
    Raw,
    /// Reads of whole journals
    Scan,
    /// Reads of single rows
    Get,
    /// Steps of 64 producers into the loaded store, in windows of ten seconds
    Sustained,
    /// Opening the store of a killed process, and that of one that closed it
    Open,
}

pub(crate) fn run(bench: Bench, out: &mut impl Write) -> Result<(), Failure> {
    let runtime = runtime().map_err(|error| unable("start the benchmark's threads", &error))?;
    let Some(command) = bench.command else {
        return server::run(&bench.server, &runtime, out);
    };
    match command {
        Command::Store(arguments) => store(&arguments, runtime, out),
        Command::Invoke(measured) => measured.run(&runtime, out),
        Command::Steps(measured) => measured.run(&runtime, out),
        Command::Fanout(measured) => measured.run(&runtime, out),
        Command::Http(measured) => measured.run(&runtime, out),
        Command::Signals(measured) => measured.run(&runtime, out),
        Command::Timers(measured) => measured.run(&runtime, out),
        Command::Recover(measured) => measured.run(&runtime, out),
        Command::History(measured) => measured.run(&runtime, out),
        Command::Deliver(measured) => measured.run(&runtime, out),
        Command::Ledger(arguments) => ledger::run(&arguments, &runtime, out),
        Command::Wait(arguments) => recover::wait(&arguments, &runtime, out),
        Command::Fill(arguments) => {
            open::fill(&runtime, &arguments.dir, &arguments.cache.options())
        }
    }
}

fn store(
    arguments: &StoreArguments,
    runtime: Runtime,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let place = arguments.folder.make(&runtime)?;
    let options = arguments.cache.options();
    let bench = StoreBench { arguments, options, runtime: &runtime, place: &place };
    let result = bench.run(&mut Report::new(out, arguments.json));
    // Ends the runtime's tasks before `place`, the last handle of the folder, removes it.
    drop(runtime);
    result
}

/// A runtime with as many threads as cores, like a server's.
fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

fn remove_when_interrupted(runtime: &Runtime, place: &Arc<BenchFolder>) -> io::Result<()> {
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

fn unable(what: &str, error: &dyn std::error::Error) -> Failure {
    Failure::new(format!("cannot {what}: {error}")).hint("check the limits of this process")
}

/// Writes a message to stderr.
fn note(text: &str) {
    // A closed stderr does not matter to a benchmark.
    _ = writeln!(io::stderr(), "{text}");
}

/// Makes this child process end with its parent, which holds the child's standard input open.
fn end_with_parent() {
    std::thread::spawn(|| {
        _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

fn close(store: Store) -> Result<(), Failure> {
    store.close().map_err(|error| {
        Failure::new(format!("cannot close the store: {error}"))
            .hint("check the disk's free space and health")
    })
}
