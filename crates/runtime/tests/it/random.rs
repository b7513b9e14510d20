//! Random programs, and random acts from outside, run parked, dropped at every wait, and with few
//! places to park: they have to write the same journals. And many at once, in an engine with
//! threads of its own and a disk that dies. What a crash may do otherwise is `indelible-sim`'s.
//!
//! `INDELIBLE_SEEDS=1000` runs so many seeds; `INDELIBLE_SEED=0x…` the one that a failure printed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "a test is configured where it runs")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use indelible_journal::{
    AwaitKind, Event, ExecutionId, Journal, JournalKey, Micros, Payload, Record, SignalName, Status,
};
use indelible_records::timers::Row;
use indelible_records::{executions, timers};
use indelible_runtime::{
    Attribution, CommandRefusal, ControlError, Options, Parking, ParkingBounds,
};
use indelible_sim::Rng;
use indelible_sim::agree::cancels_arrive;
use indelible_sim::program::{Program, SIGNALS};

use crate::support::disk::Disk;
use crate::support::scenario::at_rest;
use crate::support::{House, KEEP, by_hand, guests, untimed};

/// Where seeds begin.
const FIRST: u64 = 0x1de1_1b1e;

/// Something that happens from outside, when there is nothing to do.
#[derive(Debug, Clone, PartialEq)]
enum Act {
    /// Time passes, in milliseconds.
    Pass(u64),
    /// Time passes until nothing happens by itself any more.
    Through,
    /// A signal with a value that no other has.
    Signal(ExecutionId, &'static str, u64),
    Cancel(ExecutionId),
}

/// How an act was answered.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Done,
    /// It made no sense to the execution.
    Refused(CommandRefusal),
    /// The disk died: it is unknown whether it was done.
    Unknown,
}

/// A program that runs in a house.
struct Play {
    house: House,
    program: Program,
    id: ExecutionId,
    /// What was acknowledged.
    signals: Vec<(ExecutionId, u64)>,
    cancels: Vec<ExecutionId>,
}

/// How a program ran, to be compared with others.
struct Ran {
    /// What happened, and how it was answered.
    acts: Vec<(Act, Answer)>,
    tree: Vec<(JournalKey, Vec<Record>)>,
}

/// A house in which nothing depends on how busy the machine is.
fn quiet(options: Options) -> House {
    let house = House::with(Arc::new(Disk::new()), options, guests::unhurried());
    house.deploy("script");
    house
}

impl Play {
    /// Deploys and starts.
    fn start(program: &Program, options: Options) -> Self {
        let house = quiet(options);
        let id = Self::started(&house, program).unwrap();
        Self::of(house, program, id)
    }

    fn of(house: House, program: &Program, id: ExecutionId) -> Self {
        Self { house, program: program.clone(), id, signals: Vec::new(), cancels: Vec::new() }
    }

    fn started(house: &House, program: &Program) -> Option<ExecutionId> {
        let function = format!("script/{}", program.function);
        let request = house.request("one", &function, &program.steps.to_string());
        let started = house.wait_at_rest(house.engine().start(request));
        started.ok().map(|started| started.execution_id)
    }

    /// Acts, once.
    fn act(&mut self, act: &Act) -> Answer {
        let house = &self.house;
        let answer = |result: Result<(), ControlError>| match result {
            Ok(()) => Answer::Done,
            Err(ControlError::CommandRefusal(why)) => Answer::Refused(why),
            Err(_) => Answer::Unknown,
        };
        match act {
            Act::Pass(ms) => {
                house.pass(Micros::from_millis(*ms));
                Answer::Done
            }
            Act::Through => {
                house.work_through();
                Answer::Done
            }
            Act::Signal(id, name, value) => {
                let name = SignalName::new(name).unwrap();
                let payload = Payload::json(value.to_string());
                let sent = house.wait_at_rest(house.engine().signal(
                    id,
                    &name,
                    payload,
                    Attribution::default(),
                ));
                let answer = answer(sent.map(|_| ()));
                if answer == Answer::Done {
                    self.signals.push((id.clone(), *value));
                }
                answer
            }
            Act::Cancel(id) => {
                let asked =
                    house.wait_at_rest(house.engine().cancel(id, Attribution::because("enough")));
                let answer = answer(asked.map(|_| ()));
                if answer == Answer::Done {
                    self.cancels.push(id.clone());
                }
                answer
            }
        }
    }

    fn is_over(&self) -> bool {
        self.house.row(&self.id).standing.is_terminal()
    }

    /// The executions that are not over.
    fn journals(&self) -> Vec<Journal> {
        let tree = self.house.tree(&self.id).into_iter();
        let journals = tree.map(|(key, records)| Journal::recover(key, records).unwrap());
        journals.filter(|journal| !journal.status().unwrap().is_terminal()).collect()
    }

    /// Draws what happens next.
    fn draw(&self, rng: &mut Rng, number: u64) -> Act {
        let kind = rng.below(100);
        if kind < 45 {
            return Act::Pass(rng.between(1, 3_000));
        }
        let going: Vec<_> =
            self.journals().iter().map(|journal| journal.key().execution_id().clone()).collect();
        let target = match rng.below(10) {
            0..2 => self.id.clone(),
            2 if !going.is_empty() => {
                // One that may never be there, or is over.
                let promise = going[0].child(rng.below(4) as u32);
                ExecutionId::new(promise).unwrap()
            }
            _ if going.is_empty() => self.id.clone(),
            _ => rng.pick(&going).clone(),
        };
        if kind < 80 {
            Act::Signal(target, rng.pick::<&str>(&SIGNALS), number)
        } else {
            Act::Cancel(target)
        }
    }

    /// Nothing happens by itself any more: everything that is not over waits for a signal, or for a
    /// call that does. The signals returned here end that.
    fn missing(&self, rng: &mut Rng, number: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        let journals = self.journals();
        for journal in &journals {
            let Some(Status::Blocked { kind, .. }) = journal.status() else {
                panic!("{} hangs: it is {}", journal.key(), journal.status().unwrap());
            };
            assert!(!journal.can_wake(), "{} hangs: its wait is over", journal.key());
            if let AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } = kind {
                let name = SIGNALS.iter().find(|known| **known == name.as_str()).unwrap();
                let id = journal.key().execution_id().clone();
                acts.push(Act::Signal(id, name, number + acts.len() as u64));
            } else {
                let waits = journals.iter().any(|other| {
                    other.key().execution_id().parent().as_ref()
                        == Some(journal.key().execution_id())
                });
                assert!(waits, "{} hangs: it waits for nobody", journal.key());
            }
        }
        assert!(!acts.is_empty(), "it hangs: nobody waits for a signal");
        if rng.percent(20) {
            acts = vec![Act::Cancel(self.id.clone())];
        }
        acts.push(Act::Through);
        acts
    }

    /// Whether no timer is left of an execution that is over. After a crash there may be one,
    /// which means nothing when it is due; so may one of an attempt that never began.
    fn no_timer_is_left(&self) {
        let store = self.house.engine().store();
        for timer in
            timers::next(store, None, 1_000).unwrap().value.into_iter().filter_map(Row::tree)
        {
            let row = executions::get(store, &timer.key).unwrap().value.unwrap();
            let left = row.standing.is_terminal() && timer.child.is_some();
            assert!(!left, "{} is over, and {timer:?} is left", timer.key);
        }
    }

    /// Everything is over: what is left, and what there must be.
    fn check(&self) -> Ran {
        let house = &self.house;
        at_rest(house, &self.id);
        let tree = house.tree(&self.id);
        for (id, value) in &self.signals {
            let found = deliveries(&tree, id, *value);
            assert_eq!(found, 1, "the signal {value} of {id:#} was acknowledged");
        }
        for id in &self.cancels {
            assert!(was_cancelled(&tree, id), "the cancel of {id:#} was acknowledged");
        }
        // A caller that asks again is told of this execution.
        assert_eq!(Self::started(house, &self.program).as_ref(), Some(&self.id));
        Ran { acts: Vec::new(), tree }
    }
}

/// How often the last attempts at an execution got this signal. An execution that was called
/// again by another attempt at its caller is another one: signals stay with the one they reached.
fn deliveries(tree: &[(JournalKey, Vec<Record>)], id: &ExecutionId, value: u64) -> usize {
    let payload = Payload::json(value.to_string());
    let mut last = BTreeMap::new();
    for (key, records) in tree.iter().filter(|(key, _)| key.execution_id() == id) {
        let attempts = key.attempts().as_slice();
        last.insert(attempts[..attempts.len() - 1].to_vec(), records);
    }
    let delivered = |record: &&Record| matches!(&record.event, Event::SignalDelivered { payload: found, .. } if *found == payload);
    last.values().map(|records| records.iter().filter(delivered).count()).sum()
}

fn was_cancelled(tree: &[(JournalKey, Vec<Record>)], id: &ExecutionId) -> bool {
    tree.iter().filter(|(key, _)| key.execution_id() == id).any(|(_, records)| {
        records.iter().any(|record| matches!(record.event, Event::CancelRequested { .. }))
    })
}

/// Runs a program for the first time, and draws what happens to it.
fn first(program: &Program, rng: &mut Rng) -> Ran {
    let mut play = Play::start(program, by_hand(KEEP));
    play.house.work();
    let mut acts = Vec::new();
    let mut perform = |play: &mut Play, act: Act| {
        let answer = play.act(&act);
        play.house.work();
        play.no_timer_is_left();
        acts.push((act, answer));
    };
    for number in 0..rng.below(9) {
        let act = play.draw(rng, number);
        perform(&mut play, act);
    }
    perform(&mut play, Act::Through);
    let mut rounds = 1;
    while !play.is_over() {
        for act in play.missing(rng, rounds * 1_000) {
            perform(&mut play, act);
        }
        rounds += 1;
        assert!(rounds < 100, "it never ends");
    }
    let ran = play.check();
    cancels_arrive(&ran.tree).unwrap();
    Ran { acts, ..ran }
}

/// Runs it again in another way, with nothing that could make it another run.
fn again(program: &Program, expected: &Ran, options: Options) {
    let mut play = Play::start(program, options);
    play.house.work();
    for (act, answer) in &expected.acts {
        assert_eq!(play.act(act), *answer, "{act:?}");
        play.house.work();
        play.no_timer_is_left();
    }
    let ran = play.check();
    same_journals(&ran.tree, &expected.tree);
}

/// Says where the first difference is: all of two trees would fill screens.
fn same_journals(one: &[(JournalKey, Vec<Record>)], other: &[(JournalKey, Vec<Record>)]) {
    let keys = |tree: &[(JournalKey, _)]| tree.iter().map(|(key, _)| key.to_string()).collect();
    let (these, those): (Vec<_>, Vec<_>) = (keys(one), keys(other));
    assert_eq!(these, those, "other executions");
    for ((key, these), (_, those)) in untimed(one).iter().zip(&untimed(other)) {
        let place = these.iter().zip(those).position(|(this, that)| this != that);
        if let Some(place) = place {
            assert_eq!(these[place], those[place], "{key} differs at {place}");
        }
        assert_eq!(these.len(), those.len(), "{key} is shorter, or longer");
    }
}

fn one(seed: u64) {
    let mut rng = Rng::new(seed);
    let program = Program::draw(&mut rng.fork());
    let ran = first(&program, &mut rng.fork());
    again(&program, &ran, by_hand(Parking::Drop));
    let few = Parking::Keep(ParkingBounds::for_guests(rng.between(1, 2) as usize));
    again(&program, &ran, by_hand(few));
}

/// Many programs at once, in an engine with threads of its own.
struct Crowd {
    house: House,
    programs: Vec<(Program, ExecutionId)>,
    next_value: AtomicU64,
    /// What was acknowledged.
    signals: Mutex<Vec<(ExecutionId, u64)>>,
    cancels: Mutex<Vec<ExecutionId>>,
}

impl Crowd {
    fn draw(rng: &mut Rng) -> Self {
        let parking =
            *rng.pick(&[KEEP, Parking::Drop, Parking::Keep(ParkingBounds::for_guests(3))]);
        let house = House::new(Options { workers: 4, ..by_hand(parking) });
        house.deploy("script");
        let programs = (0..rng.between(2, 6)).map(|_| Program::draw(rng)).collect::<Vec<_>>();
        let mut crowd = Self {
            house,
            programs: Vec::new(),
            next_value: AtomicU64::new(0),
            signals: Mutex::default(),
            cancels: Mutex::default(),
        };
        for (number, program) in programs.into_iter().enumerate() {
            let id = crowd.start(number, &program).unwrap();
            crowd.programs.push((program, id));
        }
        crowd
    }

    fn start(&self, number: usize, program: &Program) -> Option<ExecutionId> {
        let function = format!("script/{}", program.function);
        let request =
            self.house.request(&format!("number-{number}"), &function, &program.steps.to_string());
        let started = self.house.wait(self.house.engine().start(request));
        started.ok().map(|started| started.execution_id)
    }

    /// Acts on one of them, or on something that it may have called.
    fn act(&self, rng: &mut Rng) {
        let number = rng.below(self.programs.len() as u64) as usize;
        let (program, id) = &self.programs[number];
        let mut target = id.clone();
        while rng.percent(40) {
            target = ExecutionId::new(target.child(rng.below(6) as u32)).unwrap();
        }
        let engine = self.house.engine();
        match rng.below(100) {
            0..60 => {
                let value = self.next_value.fetch_add(1, Ordering::SeqCst);
                let name = SignalName::new(rng.pick::<&str>(&SIGNALS)).unwrap();
                let payload = Payload::json(value.to_string());
                if self
                    .house
                    .wait(engine.signal(&target, &name, payload, Attribution::default()))
                    .is_ok()
                {
                    self.signals.lock().unwrap().push((target, value));
                }
            }
            60..75 => {
                if self.house.wait(engine.cancel(&target, Attribution::because("enough"))).is_ok() {
                    self.cancels.lock().unwrap().push(target);
                }
            }
            75..90 => {
                if let Some(started) = self.start(number, program) {
                    assert_eq!(started, *id);
                }
            }
            _ => self.house.move_clock(Micros::from_secs(rng.below(10))),
        }
    }

    /// Two threads act, a third makes time pass, and the engine works.
    fn bustle(&self, rng: &mut Rng) {
        let (mut one, mut other) = (rng.fork(), rng.fork());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    self.house.move_clock(Micros::from_millis(100));
                    let _ = self.house.engine().fire_due();
                    thread::yield_now();
                }
            });
            let act = |rng: &mut Rng| (0..15).for_each(|_| self.act(rng));
            let acting = [scope.spawn(move || act(&mut one)), scope.spawn(move || act(&mut other))];
            for thread in acting {
                let ended = thread.join();
                over.store(true, Ordering::SeqCst);
                ended.unwrap();
            }
        });
    }

    fn is_over(&self) -> bool {
        let readings = self.house.engine().readings();
        let over = |(_, id): &(_, ExecutionId)| self.house.row(id).standing.is_terminal();
        let store = self.house.engine().store();
        self.programs.iter().all(over)
            && (readings.trees, readings.runnable) == (0, 0)
            && timers::next(store, None, 1).unwrap().value.is_empty()
    }

    fn finish(&self) {
        for turn in 0..20_000 {
            if self.is_over() {
                break;
            }
            if turn == 20 {
                // Those that wait for signals which the test never sends.
                for (_, id) in &self.programs {
                    let _ = self
                        .house
                        .wait(self.house.engine().cancel(id, Attribution::because("late")));
                }
            }
            self.house.work();
            self.house.move_clock(Micros::from_secs(1));
            thread::sleep(Duration::from_micros(500));
        }
        for (_, id) in &self.programs {
            at_rest(&self.house, id);
            let tree = self.house.tree(id);
            for (target, value) in self.signals.lock().unwrap().iter() {
                if target.root() == id.root() {
                    let found = deliveries(&tree, target, *value);
                    assert_eq!(found, 1, "the signal {value} of {target:#} was acknowledged");
                }
            }
            for target in self.cancels.lock().unwrap().iter() {
                if target.root() == id.root() {
                    let found = was_cancelled(&tree, target);
                    assert!(found, "the cancel of {target:#} was acknowledged");
                }
            }
        }
    }
}

fn crowd(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut crowd = Crowd::draw(&mut rng.fork());
    for _ in 0..rng.between(1, 3) {
        if rng.percent(50) {
            crowd.house.disk.dies_after(rng.between(1, 60));
        }
        crowd.bustle(&mut rng);
        let dead = crowd.house.disk.is_dead();
        if dead || rng.percent(30) {
            crowd.house.crash();
            crowd.house.told.trouble.lock().unwrap().clear();
        } else {
            crowd.house.disk.revive();
            crowd.house.reopen();
        }
    }
    crowd.finish();
}

/// Runs a test for each seed; a failure says which one.
fn seeds(usual: u64, test: fn(u64), shown: fn(u64) -> String) {
    let setting = |name: &str| std::env::var(name).ok();
    let (first, count) = match (setting("INDELIBLE_SEED"), setting("INDELIBLE_SEEDS")) {
        (Some(seed), _) => {
            let digits = seed.trim_start_matches("0x");
            (u64::from_str_radix(digits, 16).expect("INDELIBLE_SEED is a hexadecimal number"), 1)
        }
        (None, Some(count)) => (FIRST, count.parse().expect("INDELIBLE_SEEDS is a number")),
        (None, None) => (FIRST, usual),
    };
    for seed in (0..count).map(|i| first.wrapping_add(i)) {
        if catch_unwind(AssertUnwindSafe(|| test(seed))).is_err() {
            panic!("{}\nrun with INDELIBLE_SEED={seed:#x}", shown(seed));
        }
    }
}

#[test]
fn random_programs() {
    seeds(200, one, |seed| {
        let program = Program::draw(&mut Rng::new(seed).fork());
        format!("script/{} {}", program.function, program.steps)
    });
}

/// A seed says what is asked of the engine, not in which order its threads do it.
#[test]
fn random_programs_with_threads() {
    seeds(40, crowd, |_| String::new());
}
