//! A process that commits as fast as it can from many threads and says, line by line, what it was
//! promised. The tests of crashes, of power loss and of failing disks read what it said and
//! compare it with what is left.
//!
//! `committer FOLDER ROUND THREADS [NAME=VALUE…]` says `opened POSITION`, then `accepted POSITION
//! THREAD NUMBER` when a batch was accepted and `durable POSITION` when it was durable.
//!
//! - `batches`: so many from each thread, then the store is closed; else it goes on until it is
//!   killed.
//! - `large`: one of so many batches has a large value.
//! - `memtable`: how large memtables grow, in bytes.
//! - `acks`: a file to say it to, instead of the standard output.
//! - `lax`: with 1, it says `durable` of what was only accepted, to see that a test finds out.
//!
//! When the store stops, it asks for everything that a store can be asked for, to see that every
//! call says why, says so itself on the standard error, and ends with 1; with 2 if the store did
//! not open.
#![allow(clippy::unwrap_used, reason = "if anything fails, the test that reads this must notice")]
#![allow(clippy::print_stderr, reason = "the test that runs it reads what it says")]
#![allow(clippy::disallowed_methods, reason = "it is a process of its own")]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use indelible_store::embedded;
use indelible_store::{Lost, Poison, Position, ReadError, Store, SubmitError};

use indelible_test_store::rows::{LOG, log_tables};
use indelible_test_store::said::small_options;
use indelible_test_store::work::Work;
use indelible_test_support::Prng;

#[derive(Clone)]
struct Settings {
    folder: PathBuf,
    round: u64,
    threads: u64,
    batches: u64,
    large: u64,
    memtable: u64,
    lax: bool,
    acks: Option<Arc<File>>,
}

impl Settings {
    fn read() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [folder, round, threads, rest @ ..] = &arguments[..] else {
            panic!("usage: committer FOLDER ROUND THREADS [NAME=VALUE...]");
        };
        let mut settings = Self {
            folder: folder.into(),
            round: round.parse().unwrap(),
            threads: threads.parse().unwrap(),
            batches: u64::MAX,
            large: 200,
            // Small, so that flushes and compactions are under way when the process ends.
            memtable: 128 << 10,
            lax: false,
            acks: None,
        };
        for word in rest {
            match word.split_once('=').unwrap() {
                ("batches", n) => settings.batches = n.parse().unwrap(),
                ("large", n) => settings.large = n.parse().unwrap(),
                ("memtable", n) => settings.memtable = n.parse().unwrap(),
                ("lax", n) => settings.lax = n == "1",
                ("acks", path) => {
                    let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
                    settings.acks = Some(Arc::new(file));
                }
                _ => panic!("{word:?}"),
            }
        }
        settings
    }

    /// One write a line: lines of several threads do not mix, and a kill does not cut one.
    fn say(&self, line: &str) {
        let line = format!("{line}\n");
        match &self.acks {
            Some(file) => (&**file).write_all(line.as_bytes()).unwrap(),
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(line.as_bytes()).unwrap();
                out.flush().unwrap();
            }
        }
    }
}

fn main() -> ExitCode {
    let settings = Settings::read();
    let mut options = small_options();
    options.memtable_bytes = Some(settings.memtable);
    let store = match embedded::open(&settings.folder, &log_tables(), &options) {
        Ok(store) => store,
        Err(error) => {
            eprintln!("unopened: {error}\n{error:?}");
            return ExitCode::from(2);
        }
    };
    settings.say(&format!("opened {}", store.durable_now()));
    let workers: Vec<_> = (0..settings.threads)
        .map(|thread| {
            let (store, settings) = (store.clone(), settings.clone());
            let thread = settings.round << 32 | thread;
            std::thread::spawn(move || commit(&store, &settings, thread))
        })
        .collect();
    let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    let ended = ended.into_iter().collect::<Result<Vec<()>, Poison>>();
    let last = store.accepted();
    match ended.and_then(|_| store.clone().close()) {
        Ok(()) => {
            settings.say(&format!("durable {last}"));
            ExitCode::SUCCESS
        }
        Err(poison) => {
            every_call_says_why(store, &poison);
            eprintln!("stopped: {poison}");
            ExitCode::FAILURE
        }
    }
}

/// Commits one batch after the other, until there are enough or the store stops.
fn commit(store: &Store, settings: &Settings, thread: u64) -> Result<(), Poison> {
    let mut work = Work::new(thread, settings.large);
    // Apart from the work: what is written does not depend on who waits.
    let mut numbers = Prng::new(!thread);
    while work.number() < settings.batches {
        let number = work.number();
        let position = match store.submit_blocking(work.batch()) {
            Ok(position) => position,
            Err(SubmitError::Poisoned(poison)) => return Err(poison),
            Err(error) => panic!("{error}"),
        };
        settings.say(&format!("accepted {position} {thread} {number}"));
        if settings.lax {
            settings.say(&format!("durable {position}"));
        } else if numbers.below(3) > 0 {
            // Others run ahead of the disk, as an engine does.
            durable(store, position)?;
            settings.say(&format!("durable {position}"));
        }
    }
    Ok(())
}

fn durable(store: &Store, position: Position) -> Result<(), Poison> {
    match store.durable(position).wait() {
        Ok(()) => Ok(()),
        Err(Lost::Poisoned(poison)) => Err(poison),
        Err(error) => panic!("{error}"),
    }
}

/// A store that has stopped says so in every call, in the same words, and returns at once.
fn every_call_says_why(store: Store, poison: &Poison) {
    let why = poison.to_string();
    let same = |said: &Poison| assert_eq!(said.to_string(), why);
    same(&store.poison().unwrap());
    let batch = || Work::new(0, 0).batch();
    for result in [store.submit_blocking(batch()), store.try_submit(batch())] {
        match result {
            Err(SubmitError::Poisoned(poison)) => same(&poison),
            result => panic!("{result:?}"),
        }
    }
    for read in [store.get(LOG, b"key").map(drop), store.snapshot().map(drop)] {
        match read {
            Err(ReadError::Poisoned(poison)) => same(&poison),
            result => panic!("{result:?}"),
        }
    }
    if store.accepted() > store.durable_now() {
        same(&durable(&store, store.accepted()).unwrap_err());
    }
    durable(&store, store.durable_now()).unwrap();
    same(&store.close().unwrap_err());
}
