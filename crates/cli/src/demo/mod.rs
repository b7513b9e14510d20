//! `indelible demo`: a shop takes orders while its server is killed again and again, and every card
//! is charged once. Then the same with a retry loop. Processes, SIGKILL, HTTP and disk are real,
//! and the payment service does the counting.
//!
//! - `plan`: what the seed decides. `acts`: the two acts. `report`: the end.
//! - `payments`, `book`: the payment service, and what it knows. `customers`: place orders.
//!   `person`: resolves the held order. `kills`: kills the process.
//! - `process`, `server`, `retry_loop`, `place`: processes and their folder.
//! - `event`, `board`, `paint`, `stage`: what is shown.
#![expect(
    clippy::disallowed_methods,
    reason = "it asks the environment how to draw, and for a seed"
)]

mod acts;
mod board;
mod book;
mod customers;
mod event;
mod kills;
mod paint;
mod payments;
mod person;
mod place;
mod plan;
mod process;
mod report;
mod retry_loop;
mod server;
mod stage;

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

use self::acts::{Act, Durable};
use self::event::EventSender;
use self::place::DemoFolder;
use self::plan::Plan;
use self::report::Report;
use self::stage::{Stage, View};
use crate::failure::{CommandEnd, Exit, Failure, quiet};
use crate::screen::Screen;
use crate::signals::Signals;

const HELP: &str = "\
Starts a private server in a temporary folder, on a free port of this machine, and a small payment
service next to it. Customers place orders, each of them twice. The server is killed with SIGKILL
while cards are being charged, and started again. One answer is lost for good: that order is held,
and the demo resolves it as a person would. Then a plain retry loop does the same work, with the
same faults, and is killed at the same points.

The payment service keeps its own count. Like many real ones, it records idempotency keys but does
not honour them.

On a terminal the demo is one screen; otherwise it prints a line for each event. With --json, one
object goes to standard output and the events go to standard error. Exit codes:
  0    Indelible charged every card exactly once
  1    it did not, or the demo could not be run
  2    invalid arguments
  130  interrupted; nothing is left behind

If the demo itself is killed with SIGKILL, it leaves its temporary folder behind and, on systems
other than Linux, its processes.

Examples:
  indelible demo
  indelible demo --orders 200 --kills 10
  indelible demo --seed 7 --keep demo-data";

/// How many orders, or charges, are under way at once.
const AT_ONCE: usize = 8;

/// The argument that makes this process the retry loop.
const AS_RETRY_LOOP: &str = "--as-retry-loop";

/// Random seeds are below this, so that they are short enough to type.
const SEEDS: u64 = 1_000_000;

/// On a smaller terminal, the demo prints lines instead of redrawing a screen.
const LIVE_COLUMNS_MIN: usize = 60;
const LIVE_ROWS_MIN: u16 = 22;

/// See a shop survive crashes, with every card charged once
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Demo {
    /// How many orders are placed
    #[arg(long, value_name = "N", default_value = "60", value_parser = value_parser!(u32).range(1..=1_000))]
    orders: u32,
    /// How often the process is killed
    #[arg(long, value_name = "N", default_value = "5", value_parser = value_parser!(u32).range(0..=20))]
    kills: u32,
    /// The seed of the plan: what goes wrong, and when. By default it is random
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
    /// Keep everything in this folder, which must be empty or absent
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Be the retry loop, and do the work in this file
    #[arg(long, value_name = "FILE", hide = true)]
    as_retry_loop: Option<PathBuf>,
    /// Be another command, as a child of this process
    #[arg(long, value_name = "PROCESS", hide = true, requires = "command")]
    child_of: Option<u32>,
    /// The command
    #[arg(last = true, hide = true, requires = "child_of")]
    command: Vec<OsString>,
}

/// How the demo ended.
enum End {
    Finished(Result<(Durable, Act), Failure>),
    Interrupted,
    TooLong,
}

impl Demo {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<CommandEnd, Failure> {
        if let Some(parent) = self.child_of {
            return Err(process::become_child(parent, &self.command));
        }
        if let Some(file) = &self.as_retry_loop {
            return retry_loop::run(file, out).map(|()| CommandEnd::Well);
        }
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one("demo") % SEEDS);
        let plan = Plan::new(seed, self.orders, self.kills);
        let place = DemoFolder::make(self.keep.as_deref())?;
        let view = self.view(screen);
        let mut errors = io::stderr();
        let seen: &mut dyn Write = if self.json { &mut errors } else { out };
        let mut stage = Stage::new(seen, view, &plan);
        let end = self.play(&plan, &place, &mut stage)?;
        let elapsed = stage.elapsed();
        let (durable, retried) = match end {
            End::Finished(acts) => acts?,
            // Children and folder are removed before the error is printed.
            End::Interrupted => return Err(self.interrupted(seed)),
            End::TooLong => return Err(self.too_long(&place)),
        };
        let kept = self.keep.as_ref().map(|_| place.path());
        let report = Report { plan: &plan, durable: &durable, retried: &retried, elapsed, kept };
        if self.json {
            drop(stage);
            quiet(writeln!(out, "{}", report.json())).map_err(|error| Failure::output(&error))?;
        } else {
            quiet(stage.close(&report.lines())).map_err(|error| Failure::output(&error))?;
        }
        Ok(report.verdict())
    }

    /// Runs and shows both acts, until they are over, interrupted or out of time. No process is
    /// left when this returns.
    fn play(&self, plan: &Plan, place: &DemoFolder, stage: &mut Stage<'_>) -> Result<End, Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot start: {error}"));
        // On this thread alone: the system ends children with the thread that started them.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        runtime.block_on(async {
            let ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let mut signals = Signals::listen(ends).map_err(failed)?;
            let (sender, mut events) = mpsc::unbounded_channel();
            let end = tokio::select! {
                acts = both_acts(plan, place, &sender) => End::Finished(acts),
                () = stage.pump(&mut events) => unreachable!("`sender` keeps it open"),
                () = signals.any() => End::Interrupted,
                () = tokio::time::sleep(self.time_max()) => End::TooLong,
            };
            stage.finish(&mut events);
            Ok(end)
        })
    }

    /// The longest time that the demo may take, on a busy machine: about three minutes by default.
    fn time_max(&self) -> Duration {
        let kills = Duration::from_secs(10) * self.kills;
        Duration::from_secs(120) + kills + Duration::from_millis(100) * self.orders
    }

    fn interrupted(&self, seed: u64) -> Failure {
        let left = match &self.keep {
            None => "nothing is left behind".to_owned(),
            Some(folder) => format!("what was written so far is in {}", folder.display()),
        };
        Failure::new(format!("interrupted; {left}"))
            .hint(format!("repeat the same plan with --seed {seed}"))
            .exit(Exit::Interrupted)
    }

    fn too_long(&self, place: &DemoFolder) -> Failure {
        Failure::new(format!(
            "the demo did not finish within {:?} and was stopped",
            self.time_max()
        ))
        .list(process::tail(&place.join(server::LOG)))
        .hint("see the last lines of its server above; fewer --orders or --kills take less time")
    }

    fn view(&self, screen: Screen) -> View {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let terminal = screen.is_terminal && !dumb && !self.json;
        let rows = terminal_size::terminal_size_of(io::stdout()).map_or(0, |(_, rows)| rows.0);
        let live = terminal && screen.columns >= LIVE_COLUMNS_MIN && rows >= LIVE_ROWS_MIN;
        // With --json the demo is shown on stderr, which may be a file.
        View { live, screen: Screen { colours: screen.colours && !self.json, ..screen } }
    }
}

async fn both_acts(
    plan: &Plan,
    place: &DemoFolder,
    events: &EventSender,
) -> Result<(Durable, Act), Failure> {
    let durable = acts::play_with_server(plan, place, events).await?;
    let retried = acts::play_with_retry_loop(plan, place, events).await?;
    Ok((durable, retried))
}
