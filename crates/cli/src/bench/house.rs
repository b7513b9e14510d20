//! An engine in a folder, for the benchmarks of the engine: with the component to call, a clock
//! that can be moved, and an observer of the guests' lines.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use indelible_journal::{Ending, ExecutionId, Micros, Namespace, Payload, Timestamp};
use indelible_records::TABLES;
use indelible_records::labels::Labels;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::world::{Clock, Observer, System};
use indelible_runtime::{Attribution, Engine, Options, Start, World};
use indelible_store::{Store, embedded};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::drive::{Producer, Stretch, drive_for};
use super::meters::Usage;
use super::place::BenchFolder;
use super::report::{Measurement, Report};
use super::{FolderArguments, guest};
use crate::failure::Failure;

/// The name under which the component is deployed.
pub(super) const COMPONENT: &str = "bench";
/// How many calls [`many`] has under way at once.
const IN_FLIGHT: u32 = 256;
/// The time between two checks of a condition.
const POLL: Duration = Duration::from_millis(2);

/// The store is at rest after [`STRETCHES`] quiet stretches in a row, or after `REST_MAX`. It
/// flushes once no writes have come for a second.
const REST_MAX: Duration = Duration::from_secs(60);
const STRETCH: Duration = Duration::from_millis(500);
const STRETCHES: u32 = 5;
const LITTLE: Duration = Duration::from_millis(10);

/// Arguments that all benchmarks of the engine share.
#[derive(Args)]
pub(crate) struct EngineArguments {
    #[command(flatten)]
    pub(super) folder: FolderArguments,
    /// The component to call, which must export the benchmark's functions; by default, the one that
    /// comes with this program is built
    #[arg(long, value_name = "FILE")]
    pub(super) guest: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// A benchmark of the engine: its own arguments, and where it runs.
#[derive(Args)]
pub(crate) struct EngineBench<A: Args> {
    #[command(flatten)]
    arguments: A,
    #[command(flatten)]
    place: EngineArguments,
}

/// Runs a benchmark, and reports it.
pub(crate) trait Measure {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure>;
}

/// Where a benchmark runs.
pub(crate) struct Site<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) place: &'a BenchFolder,
    /// The component that `--guest` names, if it is given.
    pub(super) guest: Option<&'a Path>,
}

impl<A: Args + Measure> EngineBench<A> {
    pub(super) fn run(&self, runtime: &Runtime, out: &mut impl Write) -> Result<(), Failure> {
        let place = self.place.folder.make(runtime)?;
        let site = Site { runtime, place: &place, guest: self.place.guest.as_deref() };
        let measured = self.arguments.measure(&site)?;
        Report::new(out, self.place.json).measurement(&measured)
    }
}

impl Site<'_> {
    /// A new world for an engine here.
    pub(super) fn world(&self) -> Result<World, Failure> {
        Ok(World::system(guests(self.place.path())?))
    }

    /// An engine here, with the component deployed.
    pub(super) fn engine(&self, world: World) -> Result<Arc<Engine>, Failure> {
        let component = guest::component(self.guest)?;
        let engine = Arc::new(open(self.place.path(), world)?);
        deploy(self.runtime, &engine, &component)?;
        Ok(engine)
    }

    /// Runs producers on an engine for so many seconds; also returns how often its store synced.
    pub(super) fn drive<P: Producer>(
        &self,
        engine: &Engine,
        producers: Vec<P>,
        seconds: u32,
    ) -> Result<(Stretch, u64), Failure> {
        let before = engine.readings().store.groups;
        let driven = drive_for(self.runtime, producers, Duration::from_secs(seconds.into()))?;
        Ok((driven, engine.readings().store.groups - before))
    }
}

/// The system's clock plus an offset.
#[derive(Debug, Default)]
pub(super) struct MovedClock(AtomicU64);

impl MovedClock {
    /// Moves the clock forward.
    pub(super) fn move_on(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        let moved = System.now().as_micros().saturating_add(self.0.load(Ordering::SeqCst));
        Timestamp::from_micros(moved).unwrap_or(Timestamp::MAX)
    }

    fn elapsed(&self) -> Micros {
        let moved = self.0.load(Ordering::SeqCst);
        Micros::new(System.elapsed().get().saturating_add(moved))
    }
}

/// The runtime of guests. A process makes only one, because it reserves much address space.
pub(super) fn guests(folder: &Path) -> Result<Arc<Guests>, Failure> {
    let failed = |error: String| unopened(folder, &error);
    let artifacts =
        Artifacts::folder(folder.join("artifacts")).map_err(|error| failed(error.to_string()))?;
    Guests::new(GuestOptions::default(), artifacts).map_err(|error| failed(error.to_string()))
}

/// The store in this folder.
pub(super) fn store(folder: &Path) -> Result<Store, Failure> {
    let store = embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default());
    store.map_err(|error| unopened(folder, &error.to_string()))
}

/// An engine over a store.
pub(super) fn engine(store: Store, world: World) -> Result<Engine, Failure> {
    Engine::open(store, Options::default(), world)
        .map_err(|error| super::unable("open an engine", &error))
}

/// An engine over the store in this folder.
pub(super) fn open(folder: &Path, world: World) -> Result<Engine, Failure> {
    engine(store(folder)?, world)
}

fn unopened(folder: &Path, error: &str) -> Failure {
    Failure::new(format!("cannot open an engine in {}: {error}", folder.display()))
        .hint("check the disk's free space and the limits of this process")
}

/// A world with this observer.
pub(super) fn world(guests: Arc<Guests>, observer: Arc<dyn Observer>) -> World {
    World { observer, ..World::system(guests) }
}

/// Deploys the component, and calls it once, because the first call loads it.
pub(super) fn deploy(runtime: &Runtime, engine: &Engine, component: &[u8]) -> Result<(), Failure> {
    runtime.block_on(engine.deploy(COMPONENT, component, Attribution::default())).map_err(
        |error| {
            Failure::new(format!("cannot deploy the component: {error}"))
                .hint("set --guest to a component that exports the benchmark's functions")
        },
    )?;
    runtime.block_on(call(engine, "echo", "1".to_owned()))?;
    Ok(())
}

/// A start of a function of the component.
pub(super) fn start(function: &str, input: String) -> Start {
    Start {
        namespace: Namespace::new("bench").expect("it is a name"),
        operation_id: None,
        idempotency_key: None,
        component: COMPONENT.to_owned(),
        function: function.to_owned(),
        input: Payload::json(input),
        trace_parent: None,
        actor: None,
        labels: Labels::default(),
    }
}

/// Calls a function, and returns its result.
pub(super) async fn call(
    engine: &Engine,
    function: &str,
    input: String,
) -> Result<Payload, Failure> {
    match engine.call(start(function, input)).await {
        Ok((_, Ending::Completed(payload))) => Ok(payload),
        Ok((id, other)) => {
            Err(broken(format!("the call {:#} did not complete: {other:?}", id.execution_id)))
        }
        Err(error) => Err(broken(format!("a call failed: {error}"))),
    }
}

/// Starts a function.
pub(super) async fn begin(
    engine: &Engine,
    function: &str,
    input: String,
) -> Result<ExecutionId, Failure> {
    let started = engine.start(start(function, input)).await;
    Ok(started.map_err(|error| broken(format!("a start failed: {error}")))?.execution_id)
}

pub(super) fn broken(what: String) -> Failure {
    Failure::new(what)
        .hint("this is a defect of the engine, or --guest is not a component for this benchmark")
}

/// A number that tells the names of one run from those of another.
pub(super) fn moment() -> u128 {
    std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros()
}

/// Runs `count` pieces of work with an engine, many at once; returns the results in no order.
pub(super) fn many<T, F>(
    runtime: &Runtime,
    engine: &Arc<Engine>,
    count: u64,
    work: impl Fn(Arc<Engine>) -> F + Clone + Send + 'static,
) -> Result<Vec<T>, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send,
{
    let next = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let (next, engine, work) = (Arc::clone(&next), Arc::clone(engine), work.clone());
            tasks.spawn(async move {
                let mut done = Vec::new();
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    done.push(work(Arc::clone(&engine)).await?);
                }
                Ok(done)
            });
        }
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.map_err(|error| broken(format!("a task ended early: {error}")))?;
            all.extend(ended?);
        }
        Ok(all)
    })
}

/// Waits until a condition holds, at most so long; returns how long it took.
pub(super) fn until(
    what: &str,
    most: Duration,
    mut has_come: impl FnMut() -> bool,
) -> Result<Duration, Failure> {
    let start = Instant::now();
    while !has_come() {
        if start.elapsed() > most {
            let seconds = most.as_secs();
            return Err(broken(format!("timed out after {seconds} s waiting for {what}")));
        }
        std::thread::sleep(POLL);
    }
    Ok(start.elapsed())
}

/// Waits until everything that was accepted is durable.
pub(super) fn settle(engine: &Engine) -> Result<(), Failure> {
    let store = engine.store();
    let durable = store.durable(store.accepted()).wait();
    durable.map_err(|error| broken(format!("the store has stopped: {error}")))
}

/// The processor time that this process uses in a stretch of time while it is idle.
pub(super) fn used_in(time: Duration) -> Duration {
    let before = Usage::now();
    std::thread::sleep(time);
    Usage::now().since(before).cpu
}

/// Waits until the store has flushed and compacted its writes, and little processor time is used.
pub(super) fn come_to_rest() {
    let start = Instant::now();
    let mut quiet = 0;
    while quiet < STRETCHES && start.elapsed() < REST_MAX {
        quiet = if used_in(STRETCH) > LITTLE { 0 } else { quiet + 1 };
    }
}
