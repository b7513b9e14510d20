//! A guest for tests: a random program that reacts to what it sees, and an engine of a few lines
//! that runs it over a real journal. Its next call depends on every value it has seen, so a replay
//! that returned anything else would soon ask for something else.
#![allow(unreachable_pub, reason = "shared by test binaries")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use indelible_journal::*;

use indelible_test_support::Prng;

use crate::kit;

/// A few of these, at least one, each once.
fn some<T: Clone>(rng: &mut Prng, all: &[T]) -> Vec<T> {
    let first = rng.index(all.len());
    let count = 1 + rng.index(3.min(all.len() - first));
    all[first..first + count].to_vec()
}

/// Where the guest stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It waits.
    Waiting,
    /// It returned.
    Returned,
    /// It returned after it was told that it is being cancelled.
    Cancelled,
}

/// What the guest is about to do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Op {
    Invoke(FunctionName, Payload),
    Random(usize),
    Now,
    Timer(Micros),
    JoinSet,
    Submit(JoinSetId, PromiseId),
    Next(JoinSetId),
    Wait(Wait),
    Return,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    rng: Prng,
    replay: Replay,
    /// What it saw, in order.
    pub seen: Vec<String>,
    /// Whether it was new, before each call.
    pub news: Vec<bool>,
    pending: Option<Op>,
    handles: Vec<PromiseId>,
    calls: Vec<PromiseId>,
    sets: Vec<JoinSetId>,
    ops_left: usize,
    told_cancelled: bool,
}

impl Guest {
    /// The program with this seed, about to run from the beginning.
    pub fn new(seed: u64, journal: &Journal) -> Self {
        Self {
            rng: Prng::new(seed),
            replay: Replay::begin(journal, &kit::digest()).unwrap(),
            seen: Vec::new(),
            news: Vec::new(),
            pending: None,
            handles: Vec::new(),
            calls: Vec::new(),
            sets: Vec::new(),
            ops_left: 4 + (seed % 24) as usize,
            told_cancelled: false,
        }
    }

    fn choose(&mut self) -> Op {
        if self.ops_left == 0 {
            return Op::Return;
        }
        self.ops_left -= 1;
        let signal = |rng: &mut Prng| kit::name(["go", "stop"][rng.index(2)]);
        loop {
            return match self.rng.index(20) {
                0..3 => {
                    let function = kit::function(["charge", "ship", "mail"][self.rng.index(3)]);
                    Op::Invoke(function, kit::payload(&self.rng.index(100).to_string()))
                }
                3 => Op::Random(1 + self.rng.index(9)),
                4 => Op::Now,
                5 => Op::Timer(Micros::from_millis(self.rng.index(3000) as u64)),
                6 => Op::JoinSet,
                7 | 14 | 15 if !self.sets.is_empty() && !self.calls.is_empty() => {
                    let set = self.sets[self.rng.index(self.sets.len())].clone();
                    let recent = self.calls.len() - self.rng.index(self.calls.len().min(3));
                    let any = |rng: &mut Prng| kit::p(u32::try_from(rng.index(12)).unwrap());
                    match self.rng.index(8) {
                        // Mistakes: what is no call, or no set, or not there yet.
                        0 => Op::Submit(set, any(&mut self.rng)),
                        1 => Op::Submit(
                            JoinSetId::at(any(&mut self.rng)),
                            self.calls[recent - 1].clone(),
                        ),
                        _ => Op::Submit(set, self.calls[recent - 1].clone()),
                    }
                }
                8 | 16 | 17 if !self.sets.is_empty() => {
                    Op::Next(self.sets[self.rng.index(self.sets.len())].clone())
                }
                9 => Op::Wait(Wait::Signal(signal(&mut self.rng))),
                18 if !self.sets.is_empty() => {
                    let set = &self.sets[self.rng.index(self.sets.len())];
                    let rest = WaitSet::rest_of(set).unwrap();
                    Op::Wait(match self.rng.index(4) {
                        0 => Wait::Any(rest),
                        1 => Wait::SignalOr(signal(&mut self.rng), rest),
                        _ => Wait::All(rest),
                    })
                }
                // Mistakes: waits that can never end.
                19 => {
                    let number = u32::try_from(self.rng.index(12)).unwrap();
                    let one = WaitSet::of_numbers(&kit::own(), vec![number]).unwrap();
                    let none = WaitSet::of_numbers(&kit::own(), Vec::new()).unwrap();
                    Op::Wait(match self.rng.index(4) {
                        0 => Wait::Any(none),
                        1 => Wait::SignalOr(signal(&mut self.rng), none),
                        2 => Wait::All(one),
                        _ => Wait::One(kit::p(number)),
                    })
                }
                n @ 10..14 if !self.handles.is_empty() => {
                    let some = some(&mut self.rng, &self.handles);
                    let set = WaitSet::new(&kit::own(), some.clone()).unwrap();
                    Op::Wait(match n {
                        10 => Wait::One(some[0].clone()),
                        11 => Wait::Any(set),
                        12 => Wait::All(set),
                        _ => Wait::SignalOr(signal(&mut self.rng), set),
                    })
                }
                _ => continue,
            };
        }
    }

    fn saw(&mut self, what: String) {
        // What it sees decides what it does.
        self.rng.mix(what.as_bytes());
        self.seen.push(what);
    }

    fn was_cancelled(&mut self) {
        assert!(!self.told_cancelled, "C-22: the guest is told once");
        self.told_cancelled = true;
        self.ops_left = self.ops_left.min(3);
        self.saw("cancelled".to_owned());
    }

    /// Runs until it waits or returns. What is absent is appended; `world` goes on between any two
    /// calls.
    pub fn advance(
        &mut self,
        journal: &mut Journal,
        now: Timestamp,
        log: &mut Vec<Entry>,
        mut world: impl FnMut(&mut Journal, &mut Vec<Entry>),
    ) -> Stop {
        loop {
            let op = match self.pending.take() {
                Some(op) => op,
                None => {
                    self.news.push(self.replay.is_new(journal));
                    self.choose()
                }
            };
            if op == Op::Return {
                self.pending = Some(op);
                return if self.told_cancelled { Stop::Cancelled } else { Stop::Returned };
            }
            if !self.perform(&op, journal, now, log) {
                self.pending = Some(op);
                return Stop::Waiting;
            }
            world(journal, log);
        }
    }

    /// Repeats what is recorded, and stops where it would go on by itself. It appends nothing.
    pub fn repeat(&mut self, journal: &Journal) {
        let (mut copy, mut log) = (journal.clone(), Vec::new());
        while !self.replay.is_live(journal) {
            let op = self.choose();
            assert!(self.perform(&op, &mut copy, journal.last_timestamp(), &mut log));
        }
        assert_eq!(log, []);
    }

    /// One call; false if the guest has to wait for it.
    fn perform(
        &mut self,
        op: &Op,
        journal: &mut Journal,
        now: Timestamp,
        log: &mut Vec<Entry>,
    ) -> bool {
        match op {
            Op::Invoke(name, input) => {
                let kind = InvokeKind::Http;
                let (promise, found) = self.replay.invoke(journal, kind, name, input).unwrap();
                if found == CallLookup::Absent {
                    let (function_name, input) = (name.clone(), input.clone());
                    let retry_policy = RetryPolicy::default().into();
                    let invoke = Invoke { kind, function_name, input, retry_policy };
                    let (allocated, entry) = journal.schedule_invoke(now, invoke).unwrap();
                    assert_eq!(allocated, promise);
                    log.push(entry);
                }
                self.handles.push(promise.clone());
                self.calls.push(promise);
            }
            Op::Random(length) => {
                let value = match self.replay.random(journal, *length).unwrap() {
                    Some(value) => value.clone(),
                    None => {
                        let value = vec![u8::try_from(log.len() % 251).unwrap(); *length];
                        log.push(journal.generate_random(now, value.clone()).unwrap().1);
                        value.into()
                    }
                };
                self.saw(format!("random {value:?}"));
            }
            Op::Now => {
                let time = match self.replay.now(journal).unwrap() {
                    Some(time) => time,
                    None => {
                        let (time, entry) = journal.record_time(now).unwrap();
                        log.push(entry);
                        time
                    }
                };
                self.saw(format!("time {time}"));
            }
            Op::Timer(duration) => {
                let (promise, recorded) = self.replay.timer(journal, *duration).unwrap();
                if recorded == ReplayMatch::Absent {
                    let (allocated, entry) = journal.schedule_timer(now, *duration).unwrap();
                    assert_eq!(allocated, promise);
                    log.push(entry);
                }
                self.handles.push(promise);
            }
            Op::JoinSet => {
                let (set, recorded) = self.replay.join_set(journal).unwrap();
                if recorded == ReplayMatch::Absent {
                    let (allocated, entry) = journal.create_join_set(now).unwrap();
                    assert_eq!(allocated, set);
                    log.push(entry);
                }
                self.sets.push(set);
            }
            Op::Submit(set, promise) => {
                let submitted = match self.replay.submit(journal, set, promise) {
                    Ok(ReplayMatch::Present) => "yes".to_owned(),
                    Ok(ReplayMatch::Absent) => {
                        log.push(journal.submit(now, set, promise).unwrap());
                        let again = self.replay.submit(journal, set, promise);
                        assert_eq!(again, Ok(ReplayMatch::Present));
                        "yes".to_owned()
                    }
                    // A guest's mistake: the same on every run.
                    Err(ReplayError::Refused(refused)) => {
                        assert!(refused.rule.is_guests());
                        refused.rule.to_string()
                    }
                    Err(ReplayError::Diverged(divergence)) => panic!("{divergence}"),
                };
                self.saw(format!("submitted {submitted}"));
            }
            Op::Next(set) => return self.next(set, journal, now, log),
            Op::Wait(wait) => return self.wait(wait, journal, now, log),
            Op::Return => unreachable!("handled by advance"),
        }
        true
    }

    fn next(
        &mut self,
        set: &JoinSetId,
        journal: &mut Journal,
        now: Timestamp,
        log: &mut Vec<Entry>,
    ) -> bool {
        loop {
            let seen = match self.replay.next(journal, set).unwrap() {
                NextResult::Taken(promise, result) => format!("next {promise:#} {result}"),
                NextResult::Exhausted => "next none".to_owned(),
                NextResult::Cancelled => {
                    self.was_cancelled();
                    return true;
                }
                NextResult::Ready => {
                    log.extend(journal.take_next(now, set).unwrap());
                    continue;
                }
                NextResult::Pending(wait) => return self.suspend(&wait, journal, now, log),
            };
            self.saw(seen);
            return true;
        }
    }

    fn wait(
        &mut self,
        wait: &Wait,
        journal: &mut Journal,
        now: Timestamp,
        log: &mut Vec<Entry>,
    ) -> bool {
        loop {
            let seen = match self.replay.wait(journal, wait) {
                Ok(AwaitResult::Promise(promise)) => {
                    let result = journal.result(&promise).map(ToString::to_string);
                    format!("promise {promise:#} {result:?}")
                }
                Ok(AwaitResult::All) => "all".to_owned(),
                Ok(AwaitResult::Signal(payload)) => format!("signal {payload}"),
                Ok(AwaitResult::Cancelled) => {
                    self.was_cancelled();
                    return true;
                }
                Ok(AwaitResult::Pending) => {
                    if self.suspend(wait, journal, now, log) {
                        continue;
                    }
                    return false;
                }
                Err(ReplayError::Refused(refused)) => format!("refused {}", refused.rule),
                Err(ReplayError::Diverged(divergence)) => panic!("{divergence}"),
            };
            self.saw(seen);
            return true;
        }
    }

    /// Writes a wait down; true if it is over already.
    fn suspend(
        &self,
        wait: &Wait,
        journal: &mut Journal,
        now: Timestamp,
        log: &mut Vec<Entry>,
    ) -> bool {
        match journal.wait(now, wait).unwrap() {
            Waiting::Received(entry) => {
                log.push(entry);
                true
            }
            Waiting::Blocked(entry) => {
                log.push(entry);
                false
            }
            Waiting::Already | Waiting::Quiet => false,
        }
    }
}
