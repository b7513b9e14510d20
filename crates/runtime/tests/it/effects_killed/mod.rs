//! An engine in a process that is killed with SIGKILL again and again, with thousands of HTTP
//! effects in flight against a peer that answers, is late, breaks off, lies and goes away. The peer
//! lives here and counts what truly arrived. In the end every outcome in every journal is what the
//! peer saw, or Indeterminate where it cannot be known.
//!
//! `INDELIBLE_CRASH_CYCLES=1000` for more than the few kills of every run, `INDELIBLE_SEED` for others.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the test starts processes and makes folders")]
#![allow(clippy::print_stdout, reason = "a failing run says how to repeat it")]

mod effects;
mod fate;
pub(crate) mod keys;
mod specs;
mod verify;
mod work;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::process::{PATIENCE, Process};
use indelible_http_peer::Peer;
use indelible_journal::Timestamp;
use indelible_runtime::world::{Clock as _, System};
use indelible_test_support::Prng;
use specs::Urls;
use tempfile::TempDir;
use verify::{Seen, verify};
use work::Work;

/// In the body of every request, so that a search through the files is known to find something.
pub(crate) const MARK: &str = "a-body-that-anybody-may-see";

/// After so many kills everything comes to its end, is looked at, and a new folder begins.
const KILLS_OF_A_FOLDER: u64 = 10;

/// So many operations are under way at a time, and so many are new in each process, at most.
const OPEN_MAX: usize = 1_500;
const NEW_MAX: usize = 700;

/// An answer that was given so long before a kill is never forgotten. It takes a fraction of that;
/// but this machine may have other things to do.
const SURELY_KEPT: Duration = Duration::from_secs(1);

/// A process that runs so long is killed when it has so many of these.
const KEPT_MIN: usize = 50;

/// A person looks at what is held as often as this.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Everything has to be over so long after the last kill.
const FINISH_MAX: Duration = Duration::from_secs(60);

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// So long after it was started: it may still be opening.
    Opening(Duration),
    /// So long after it was open: it goes on with what was left, and gets more all the time.
    Open(Duration),
}

/// What happened beside what the process did.
#[derive(Default)]
pub(crate) struct History {
    /// When each process had ended: what is written later, another one has written.
    pub(crate) ends: Vec<Timestamp>,
    /// When the peer went down: whatever it was doing broke off.
    pub(crate) downs: Vec<(Timestamp, Timestamp)>,
    /// Arrivals that were answered long before the kill of the process that sent them.
    pub(crate) surely_kept: BTreeSet<usize>,
    /// How many arrivals there were when the process was started.
    first_arrival: usize,
}

/// A folder and the peers, and what was asked. The folder stays if the test fails.
struct Scene {
    seed: u64,
    folder: Option<TempDir>,
    numbers: Prng,
    peer: Peer,
    closing: Peer,
    urls: Urls,
    work: Work,
    history: History,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let (peer, closing) = (Peer::start(), Peer::start());
        let urls = Urls { peer: peer.url(""), closing: closing.url("") };
        Self {
            seed,
            folder: Some(tempfile::tempdir().unwrap()),
            numbers: Prng::new(seed),
            peer,
            closing,
            urls,
            work: Work::default(),
            history: History::default(),
        }
    }

    fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    fn process(&mut self) -> Process {
        let parked = [7_500, 200, 0][self.numbers.below(3) as usize];
        let workers = 1 + self.numbers.below(3);
        let peers = [self.peer.address(), self.closing.address()];
        let process = Process::start(self.folder(), [parked, workers, 0], &peers);
        self.work.new_process(&mut self.numbers);
        self.history.first_arrival = self.peer.log().len();
        process
    }

    /// False: the process did not say in time that it is open.
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

    /// A process runs until its moment has come, and is killed.
    fn run(&mut self, moment: Moment) {
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
            Moment::Open(time) => Instant::now() + time,
        };
        if opened {
            self.busy(&mut process, until);
        }
        for line in process.kill().iter().filter(|line| *line != "open") {
            self.work.heard(line);
        }
        self.history.ends.push(System.now());
        // A peer that was down is there for the next.
        self.peer.up().unwrap();
    }

    /// Starts and resolves until a time, and the peer may go away and come back.
    fn busy(&mut self, process: &mut Process, mut until: Instant) {
        let begin = Instant::now();
        let mut new_left = NEW_MAX;
        let length = until.saturating_duration_since(begin);
        let (mut down, mut up) = (None, None);
        // Not before something is kept: what the peer's going away breaks off shows nothing of that.
        let may_go = !self.history.surely_kept.is_empty();
        if self.numbers.below(3) == 0 && may_go && length > Duration::from_millis(300) {
            let at = begin + length.mul_f64(0.2 + self.numbers.below(60) as f64 / 100.0);
            down = Some(at);
            up = Some(at + Duration::from_millis(20 + self.numbers.below(250)));
        }
        // Of an answer that the peer's going away broke off, it does not know that.
        let mut keep = (down.is_none() && length > SURELY_KEPT).then(|| until - SURELY_KEPT);
        let mut look = begin + LOOK_EVERY;
        loop {
            let now = Instant::now();
            let due = |at: &mut Option<Instant>| at.take_if(|at| *at <= now).is_some();
            if now >= until {
                return;
            }
            if due(&mut keep) && self.keep_in_mind() < KEPT_MIN && now < begin + PATIENCE {
                // A machine under load has hardly begun: the kill waits for it.
                until += LOOK_EVERY;
                keep = Some(now + LOOK_EVERY);
            }
            if due(&mut down) {
                let before = System.now();
                self.peer.down();
                self.history.downs.push((before, System.now()));
            }
            if due(&mut up) {
                self.peer.up().unwrap();
            }
            if now >= look {
                look = now + LOOK_EVERY;
                self.work.look().iter().for_each(|line| process.send(line));
            }
            if new_left > 0 && self.work.has_room() && self.work.open() < OPEN_MAX {
                for _ in 0..new_left.min(100) {
                    self.work.add(&mut self.numbers, &self.urls);
                    new_left -= 1;
                }
            }
            while let Some(line) = self.work.next() {
                process.send(&line);
            }
            let left = until.saturating_duration_since(Instant::now());
            if let Some(line) = process.hear(left.min(Duration::from_millis(5))) {
                self.work.heard(&line);
            }
        }
    }

    /// What this process sent and is answered by now has time to become durable. How much that is.
    fn keep_in_mind(&mut self) -> usize {
        let first = self.history.first_arrival;
        let answered = self.peer.log().into_iter().skip(first).filter(|arrival| arrival.answered);
        let before = self.history.surely_kept.len();
        self.history.surely_kept.extend(answered.map(|arrival| arrival.number));
        self.history.surely_kept.len() - before
    }

    /// Everything comes to its end, and is as it should be.
    fn finish(&mut self) -> Seen {
        let mut process = self.process();
        assert!(Self::opens(&mut process, Instant::now() + PATIENCE), "it does not open");
        let until = Instant::now() + FINISH_MAX;
        let mut look = Instant::now();
        while !self.work.all_shown() {
            let now = Instant::now();
            assert!(
                now < until,
                "{} operations are not over after {FINISH_MAX:?}: {:#?}",
                self.work.open(),
                self.work.not_shown()
            );
            if now >= look {
                look = now + LOOK_EVERY;
                self.work.look().iter().for_each(|line| process.send(line));
            }
            while let Some(line) = self.work.next() {
                process.send(&line);
            }
            if let Some(line) = process.hear(LOOK_EVERY) {
                self.work.heard(&line);
            }
        }
        for line in process.close() {
            self.work.heard(&line);
        }
        let logs = [self.peer.log(), self.closing.log()];
        verify(self.folder(), &self.work, &self.history, &logs, &self.urls)
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

/// D2, D5, C-29, C-38, C-41, J-71: whenever the process is killed, an effect that is not `idem` is
/// Indeterminate if and only if its last attempt may have left and no complete answer was durable,
/// the peer has processed it at most once unless a person had it run again, and what is told of it
/// is what the peer saw; what is `idem` is never Indeterminate, and happens.
#[test]
fn effects_happen_once_or_nobody_can_know() {
    let kills = setting("INDELIBLE_CRASH_CYCLES", 6);
    let seed = setting("INDELIBLE_SEED", 1);
    let mut done = 0;
    while done < kills {
        let mut scene = Scene::new(seed + done);
        let here = KILLS_OF_A_FOLDER.min(kills - done);
        let ms = Duration::from_millis;
        for kill in 0..here {
            let moment = match scene.numbers.below(6) {
                _ if kill == 0 => Moment::Open(ms(1_500 + scene.numbers.below(700))),
                0 => Moment::Opening(ms(scene.numbers.below(300))),
                1 => Moment::Open(ms(scene.numbers.below(200))),
                2 => Moment::Open(ms(200 + scene.numbers.below(800))),
                _ => Moment::Open(ms(1_100 + scene.numbers.below(1_200))),
            };
            scene.run(moment);
        }
        let seen = scene.finish();
        println!("INDELIBLE_SEED={}, {here} kills: {seen:?}", scene.seed);
        // A test of what did not happen shows nothing.
        if here >= 4 {
            seen.has_seen_everything();
        }
        done += here;
    }
}
