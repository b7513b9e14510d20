//! Scenarios: a program for the guest `script`, and what happens to it from outside. Each is run
//! with its guests parked, with its guests dropped at every wait, and with the process dying after
//! every single commit.

use std::sync::Arc;

use indelible_journal::{Ending, Event, ExecutionId, Micros, Payload, SignalName};
use indelible_records::check;
use indelible_records::{queue, timers};
use indelible_runtime::{Attribution, Options, Pace, Parking};
use indelible_sim::agree::{agree, end_in_order};
use serde_json::Value;

use super::disk::Disk;
use super::{House, KEEP, by_hand, untimed};

/// Something that happens from outside, when there is nothing to do.
#[derive(Debug, Clone)]
pub enum Act {
    /// A signal to the root.
    Signal(&'static str, Value),
    /// A cancel of the root.
    Cancel,
    /// Time passes, in milliseconds.
    Pass(u64),
}

/// A program, and what happens to it.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub function: &'static str,
    pub program: Value,
    pub acts: Vec<Act>,
    pub options: Options,
}

/// What a scenario came to.
pub struct Ran {
    pub house: House,
    pub id: ExecutionId,
    pub ending: Ending,
}

/// A program of `script/main`, to which nothing happens.
pub fn main(program: Value) -> Scenario {
    Scenario { function: "script/main", program, acts: Vec::new(), options: by_hand(KEEP) }
}

/// The same for another function.
pub fn of(function: &'static str, program: Value) -> Scenario {
    Scenario { function, ..main(program) }
}

impl Scenario {
    pub fn acts(mut self, acts: impl IntoIterator<Item = Act>) -> Self {
        self.acts.extend(acts);
        self
    }

    /// Runs it in every way, and says what it came to: the same in all of them.
    #[track_caller]
    pub fn check(&self) -> Ran {
        let parked = self.run(KEEP);
        let dropped = self.run(Parking::Drop);
        assert_eq!(parked.ending, dropped.ending, "parked and dropped end differently");
        let (one, other) = (parked.house.tree(&parked.id), dropped.house.tree(&dropped.id));
        assert_eq!(untimed(&one), untimed(&other), "parked and dropped differ");
        self.crash_everywhere(&parked.ending);
        parked
    }

    /// Runs it once.
    #[track_caller]
    pub fn run(&self, parking: Parking) -> Ran {
        let options = Options { parking, ..self.options.clone() };
        let house = House::new(options);
        house.deploy("script");
        let id = house.start("one", self.function, &self.program.to_string());
        house.work();
        for act in &self.acts {
            perform(&house, &id, act);
            house.work();
        }
        house.work_through();
        let ending = house.ending(&id);
        at_rest(&house, &id);
        Ran { house, id, ending }
    }

    /// Runs it again and again, with the disk dying after one commit more each time; the engine is
    /// opened anew over what the disk had taken, and comes to the same end (J-81).
    #[track_caller]
    fn crash_everywhere(&self, expected: &Ending) {
        for parking in [KEEP, Parking::Drop] {
            let mut commits = 0;
            loop {
                let options = Options { parking, pace: Pace::Lockstep, ..self.options.clone() };
                let house = House::on(Arc::new(Disk::new()), options);
                house.deploy("script");
                commits += 1;
                house.disk.dies_after(commits);
                if !self.crash_once(house, expected, commits) {
                    break;
                }
            }
            assert!(commits > 2, "it never died");
        }
    }

    /// False: it came to its end before the disk died.
    #[track_caller]
    fn crash_once(&self, mut house: House, expected: &Ending, commits: u64) -> bool {
        let request = house.request("one", self.function, &self.program.to_string());
        let mut crashed = false;
        let mut survive = |house: &mut House| {
            if house.disk.is_dead() {
                house.crash();
                house.told.trouble.lock().unwrap().clear();
                crashed = true;
            }
        };
        let started = house.wait(house.engine().start(request.clone()));
        house.work();
        survive(&mut house);
        let id = match started {
            Ok(started) => started.execution_id,
            // The caller was not told that it has begun, and asks again.
            Err(_) => house.wait(house.engine().start(request)).unwrap().execution_id,
        };
        house.work();
        survive(&mut house);
        for (number, act) in self.acts.iter().enumerate() {
            self.ensure(&mut house, &id, number, act, &mut survive);
            house.work();
            survive(&mut house);
        }
        for _ in 0..3 {
            house.work_through();
            survive(&mut house);
        }
        let ending = house.ending(&id);
        assert_eq!(ending, *expected, "after the death at commit {commits}");
        at_rest(&house, &id);
        for (key, records) in house.tree(&id) {
            // C-41: a function that was interrupted goes on; that is no other attempt.
            let lost = records.iter().any(|record| {
                matches!(&record.event, Event::InvokeRetrying { cause, .. }
                    if *cause != indelible_journal::RetryCause::Failed)
            });
            assert!(!lost, "{key} was retried because of a crash");
        }
        crashed
    }

    /// Acts, and acts again if the disk died before anybody said that it was done.
    fn ensure(
        &self,
        house: &mut House,
        id: &ExecutionId,
        number: usize,
        act: &Act,
        survive: &mut impl FnMut(&mut House),
    ) {
        let sent = self.acts[..=number].iter().filter(|act| matches!(act, Act::Signal(..))).count();
        let mut tries = 0;
        while !self.is_done(house, id, act, sent, tries) {
            match act {
                Act::Signal(name, value) => {
                    let name = SignalName::new(name).unwrap();
                    let payload = Payload::json(value.to_string());
                    let _ = house.wait(house.engine().signal(
                        id,
                        &name,
                        payload,
                        Attribution::default(),
                    ));
                }
                Act::Cancel => {
                    let _ = house.wait(house.engine().cancel(id, Attribution::because("enough")));
                }
                Act::Pass(ms) => house.pass(Micros::from_millis(*ms)),
            }
            survive(house);
            tries += 1;
            assert!(tries < 5, "{act:?} is never done");
        }
    }

    fn is_done(&self, house: &House, id: &ExecutionId, act: &Act, sent: usize, tries: u32) -> bool {
        let count = |wanted: fn(&Event) -> bool| {
            house.events(id).iter().filter(|record| wanted(&record.event)).count()
        };
        match act {
            Act::Signal(..) => {
                count(|event| matches!(event, Event::SignalDelivered { .. })) >= sent
            }
            Act::Cancel => count(|event| matches!(event, Event::CancelRequested { .. })) > 0,
            Act::Pass(_) => tries > 0,
        }
    }
}

fn perform(house: &House, id: &ExecutionId, act: &Act) {
    match act {
        Act::Signal(name, value) => {
            house.signal(id, name, &value.to_string());
        }
        Act::Cancel => house.cancel(id),
        Act::Pass(ms) => house.pass(Micros::from_millis(*ms)),
    }
}

/// Everything is over: nothing is left to be done, every journal is one, and rows, journals and
/// indexes say the same.
#[track_caller]
pub fn at_rest(house: &House, id: &ExecutionId) {
    assert_eq!(*house.told.stuck.lock().unwrap(), [""; 0], "something is stuck");
    assert_eq!(*house.told.trouble.lock().unwrap(), [""; 0], "something went wrong");
    let store = house.engine().store();
    assert_eq!(queue::next(store, None, 10).unwrap().value, [], "something is queued");
    assert_eq!(timers::next(store, None, 10).unwrap().value, [], "a timer is left");
    let tree = house.tree(id);
    agree(&tree).and_then(|()| end_in_order(&tree)).unwrap();
    let findings = check::check(store, &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    let readings = house.engine().readings();
    let left = (readings.trees, readings.runnable, readings.parked);
    assert_eq!(left, (0, 0, 0), "something stays in memory");
}
