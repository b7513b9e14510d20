//! An engine in a process that is killed with SIGKILL again and again, with thousands of
//! executions in flight: while it opens, while it recovers, under load. Starts, signals and
//! cancels go on all the time. What was acknowledged is kept here; in the end everything has
//! happened once, with the right outcome.
//!
//! `INDELIBLE_CRASH_CYCLES=1000` for more than the few kills of every run, `INDELIBLE_SEED` for others.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the test starts processes and makes folders")]
#![allow(clippy::print_stdout, reason = "a failing run says how to repeat it")]

mod promises;
mod verify;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::process::{PATIENCE, Process};
use indelible_test_support::Prng;
use promises::{Mood, Promises};
use tempfile::TempDir;
use verify::verify;

/// So many wait at each kill, at least.
const WAITING_MIN: usize = 2_000;
/// After so many kills everything comes to its end, is looked at, and a new folder begins.
const KILLS_OF_A_FOLDER: u64 = 20;

/// How long an execution may clean up: the engine's default.
const CLEANUP_SECONDS: u64 = 60;

/// When a process ends.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// So long after it was started: it may still be opening.
    Opening(Duration),
    /// So long after it was open: it goes on with what was left.
    Recovering(Duration),
    /// When so many wait, and it has acknowledged so much.
    Loaded(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Killed,
    Closed,
}

/// A folder, and what was promised about it. It stays if the test fails.
struct Scene {
    seed: u64,
    folder: Option<TempDir>,
    numbers: Prng,
    promises: Promises,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let folder = Some(tempfile::tempdir().unwrap());
        Self { seed, folder, numbers: Prng::new(seed), promises: Promises::default() }
    }

    fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    fn process(&mut self) -> Process {
        let parked = [7_500, 200, 0][self.numbers.below(3) as usize];
        let workers = 1 + self.numbers.below(4);
        let process = Process::start(self.folder(), [parked, workers, 0], &[]);
        self.promises.new_process(&mut self.numbers);
        process
    }

    /// Hears lines until a time. False: the process did not say that it is open.
    fn opens(process: &mut Process, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        match process.hear(left) {
            Some(line) => {
                assert_eq!(line, "open");
                true
            }
            None => false,
        }
    }

    /// A process runs until its moment has come.
    fn run(&mut self, moment: Moment, how: How) {
        let mut process = self.process();
        let start = Instant::now();
        let opened = match moment {
            Moment::Opening(time) => Self::opens(&mut process, start + time),
            _ => {
                assert!(Self::opens(&mut process, start + PATIENCE), "it does not open");
                true
            }
        };
        let until = match moment {
            Moment::Opening(time) => start + time,
            Moment::Recovering(time) => Instant::now() + time,
            Moment::Loaded(_) => Instant::now() + PATIENCE,
        };
        let mut heard = 0;
        while opened && Instant::now() < until {
            while let Some(line) = self.promises.next(&mut self.numbers, Mood::Busy) {
                process.send(&line);
            }
            let left = until.saturating_duration_since(Instant::now());
            let Some(line) = process.hear(left) else { break };
            self.promises.heard(&line);
            heard += 1;
            if matches!(moment, Moment::Loaded(lines) if heard >= lines)
                && self.promises.waiting() > WAITING_MIN
            {
                break;
            }
        }
        if let Moment::Loaded(_) = moment {
            let waiting = self.promises.waiting();
            assert!(waiting > WAITING_MIN, "only {waiting} wait after {heard} lines");
        }
        let said = match how {
            How::Killed => process.kill(),
            How::Closed => process.close(),
        };
        for line in said.iter().filter(|line| *line != "open") {
            self.promises.heard(line);
        }
    }

    /// Everything comes to its end, and is as it was promised.
    fn finish(&mut self) {
        let mut process = self.process();
        assert!(Self::opens(&mut process, Instant::now() + PATIENCE), "it does not open");
        while !self.promises.all_shown() {
            while let Some(line) = self.promises.next(&mut self.numbers, Mood::Finishing) {
                process.send(&line);
            }
            let line = process.hear(PATIENCE).expect("it says nothing any more");
            self.promises.heard(&line);
        }
        process.close();
        self.sweep();
        verify(self.folder(), &self.promises);
    }

    /// What is over leaves no timer, except the limit of a cleaning up that a kill cut in two: it
    /// means nothing any more, and goes when it is due.
    fn sweep(&self) {
        let mut process = Process::start(self.folder(), [0, 1, CLEANUP_SECONDS + 1], &[]);
        assert!(Self::opens(&mut process, Instant::now() + PATIENCE), "it does not open");
        process.send("rest");
        assert_eq!(process.hear(PATIENCE).as_deref(), Some("rested"), "timers are left");
        process.close();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            println!("INDELIBLE_SEED={}; the folder is {}", self.seed, folder.keep().display());
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// J-71, C-41: whenever the process is killed, every acknowledged start, signal and cancel takes
/// effect once, executions go on where they were, and an outcome that was shown stays.
#[test]
fn what_was_acknowledged_happens_once() {
    let kills = setting("INDELIBLE_CRASH_CYCLES", 8);
    let seed = setting("INDELIBLE_SEED", 1);
    let mut done = 0;
    while done < kills {
        let mut scene = Scene::new(seed + done);
        let here = KILLS_OF_A_FOLDER.min(kills - done);
        // The folder itself and the component are new: killed while they are made.
        let short = Duration::from_millis(scene.numbers.below(300));
        scene.run(Moment::Opening(short), How::Killed);
        for _ in 1..here {
            let moment = match scene.numbers.below(4) {
                _ if scene.promises.waiting() < WAITING_MIN => Moment::Loaded(0),
                0 => Moment::Opening(Duration::from_millis(scene.numbers.below(200))),
                1 => Moment::Recovering(Duration::from_millis(scene.numbers.below(100))),
                _ => Moment::Loaded(1 + scene.numbers.below(2_000)),
            };
            scene.run(moment, How::Killed);
            let waiting = scene.promises.waiting();
            assert!(waiting >= WAITING_MIN, "only {waiting} waited: {moment:?}");
        }
        scene.finish();
        done += here;
    }
}

/// A process that is asked to end under load loses nothing of what it acknowledged either.
#[test]
fn closing_under_load_loses_nothing() {
    let mut scene = Scene::new(setting("INDELIBLE_SEED", 1) + 1_000_000);
    scene.run(Moment::Loaded(0), How::Closed);
    scene.run(Moment::Loaded(1_500), How::Closed);
    scene.finish();
}
