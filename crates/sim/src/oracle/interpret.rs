//! A plain interpreter of programs, written from the description of their steps alone (the table
//! in `guests/script`). It knows no journal: what was free to vary comes from [`Facts`], and
//! everything else it computes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// How a call ended, as its caller sees it.
pub(super) type Outcome = Result<Value, Failure>;

/// A failure, as a program sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Its kind, by name.
    pub(super) kind: &'static str,
    pub(super) message: String,
}

/// What a program waits for. Numbers count what it has asked for, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wait {
    One(u32),
    Any(Vec<u32>),
    All(Vec<u32>),
    /// A signal, or the first of these. It takes the next number if it comes.
    Signal {
        name: String,
        or: Vec<u32>,
        next: u32,
    },
    /// The next result of a join set: `rest` are submitted and not taken; `taken` counts the
    /// others.
    Next {
        set: u32,
        rest: Vec<u32>,
        taken: usize,
    },
}

/// What came of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    /// Everything that was waited for is there.
    All,
    /// This came first.
    First(u32),
    /// The signal came, with this value.
    Signal(Value),
    /// A cancel, for this reason.
    Cancelled(String),
}

/// Why an interpretation stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// The program ends.
    End(End),
    /// The program was ended here, from outside.
    Cut,
    /// What happens next depends on something that is free to vary.
    Free,
    /// What happened is not what the program does.
    Wrong(String),
}

/// How a program ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Returned(Value),
    Failed(Failure),
    /// It panicked with this text, or made a mistake for which it is stopped.
    Trapped(Option<String>),
    /// It was told of a cancel for this reason. Only within the interpreter.
    Cancelled(String),
}

/// What was free to vary, and a place to say what the program does.
pub(super) trait Facts {
    /// Which attempt this is, from 1.
    fn attempt(&self) -> u64;
    fn call(&mut self, number: u32, function: &str, input: &Value) -> Result<(), Halt>;
    fn http(&mut self, number: u32, request: &Value) -> Result<(), Halt>;
    fn timer(&mut self, number: u32, millis: u64) -> Result<(), Halt>;
    fn set(&mut self, number: u32) -> Result<(), Halt>;
    fn submit(&mut self, set: u32, place: usize, number: u32) -> Result<(), Halt>;
    fn now(&mut self, number: u32) -> Result<Value, Halt>;
    fn random(&mut self, number: u32, length: u64) -> Result<Value, Halt>;
    fn wait(&mut self, wait: &Wait) -> Result<WaitOutcome, Halt>;
    /// The outcome of something that has ended.
    fn outcome(&mut self, number: u32) -> Result<Outcome, Halt>;
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttemptResult {
    pub(super) halt: Halt,
    /// It was told of a cancel: what it did from then on is cleaning up.
    pub(super) told: bool,
    /// How many numbers it has taken.
    pub(super) numbers: u32,
    /// Its sets, with how many were submitted and taken.
    pub(super) sets: BTreeMap<u32, (usize, usize)>,
}

/// Runs a program.
pub(super) fn run(program: &Value, facts: &mut dyn Facts) -> AttemptResult {
    let mut run = Run {
        facts,
        slots: BTreeMap::new(),
        notes: Vec::new(),
        cleanup: None,
        next: 0,
        sets: BTreeMap::new(),
    };
    let mut told = false;
    let mut halt = run.program(program);
    if let Halt::End(End::Cancelled(reason)) = halt {
        told = true;
        halt = match run.cleanup.take() {
            None => Halt::End(End::Failed(Failure { kind: "Cancelled", message: reason })),
            Some(cleanup) => {
                run.notes.push(json!({ "cancelled": reason }));
                run.program(&cleanup)
            }
        };
    }
    let sets = run.sets.iter();
    let sets = sets.map(|(set, own)| (*set, (own.members.len(), own.taken.len()))).collect();
    AttemptResult { halt, told, numbers: run.next, sets }
}

#[derive(Default)]
struct Set {
    members: Vec<u32>,
    taken: Vec<u32>,
}

struct Run<'a> {
    facts: &'a mut dyn Facts,
    slots: BTreeMap<String, u32>,
    notes: Vec<Value>,
    cleanup: Option<Value>,
    next: u32,
    sets: BTreeMap<u32, Set>,
}

impl Run<'_> {
    fn program(&mut self, program: &Value) -> Halt {
        match self.steps(program) {
            Ok(()) => Halt::End(End::Returned(Value::Array(std::mem::take(&mut self.notes)))),
            Err(halt) => halt,
        }
    }

    fn steps(&mut self, steps: &Value) -> Result<(), Halt> {
        for step in steps.as_array().into_iter().flatten() {
            for (what, with) in step.as_object().into_iter().flatten() {
                self.step(what, with)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, what: &str, with: &Value) -> Result<(), Halt> {
        let failed = |kind| Failure { kind, message: text(with).to_owned() };
        match what {
            "call" => {
                self.facts.call(self.next, text(&with[1]), &with[2])?;
                self.keep(&with[0]);
            }
            "http" => {
                self.facts.http(self.next, &with[1])?;
                self.keep(&with[0]);
            }
            "timer" => {
                self.facts.timer(self.next, with[1].as_u64().unwrap_or_default())?;
                self.keep(&with[0]);
            }
            "await" => {
                let number = self.slot(with);
                self.wait(&Wait::One(number))?;
                let outcome = self.facts.outcome(number)?;
                self.notes.push(noted(&outcome));
            }
            "any" => {
                let first = self.wait(&Wait::Any(self.slots(with)))?;
                self.note_first(&first)?;
            }
            "all" => {
                let numbers = self.slots(with);
                self.wait(&Wait::All(numbers.clone()))?;
                let mut all = Vec::new();
                for number in numbers {
                    all.push(noted(&self.facts.outcome(number)?));
                }
                self.notes.push(all.into());
            }
            "signal" => self.signal(text(with), Vec::new())?,
            "signal_or" => self.signal(text(&with[0]), self.slots(&with[1]))?,
            "set" => {
                self.facts.set(self.next)?;
                self.sets.insert(self.next, Set::default());
                self.keep(with);
            }
            "submit" => self.submit(self.slot(&with[0]), self.slot(&with[1]))?,
            "next" => {
                let note = match self.take(self.slot(with))? {
                    Some(number) => self.settled(number)?,
                    None => json!("exhausted"),
                };
                self.notes.push(note);
            }
            "take_all" => {
                let set = self.slot(with);
                self.wait(&Wait::All(self.rest(set)))?;
                let mut all = Vec::new();
                while let Some(number) = self.take(set)? {
                    all.push(self.settled(number)?);
                }
                self.notes.push(all.into());
            }
            "now" => {
                let time = self.facts.now(self.next)?;
                self.next += 1;
                self.notes.push(time);
            }
            "random" => {
                let length = with.as_u64().unwrap_or_default();
                let bytes = self.facts.random(self.next, length)?;
                self.next += 1;
                self.notes.push(bytes);
            }
            "note" => self.notes.push(with.clone()),
            "return" => return Err(Halt::End(End::Returned(with.clone()))),
            "fail" => return Err(Halt::End(End::Failed(failed("UserError")))),
            "transient" => return Err(Halt::End(End::Failed(failed("Transient")))),
            "unknown" => return Err(Halt::End(End::Failed(failed("Indeterminate")))),
            "panic" => return Err(Halt::End(End::Trapped(Some(text(with).to_owned())))),
            "cancelled" => self.cleanup = Some(with.clone()),
            "below" => {
                if self.facts.attempt() < with[0].as_u64().unwrap_or_default() {
                    self.steps(&with[1])?;
                }
            }
            "repeat" => {
                for _ in 0..with[0].as_u64().unwrap_or_default() {
                    self.steps(&with[1])?;
                }
            }
            other => return Err(Halt::Wrong(format!("the oracle does not know {other:?}"))),
        }
        Ok(())
    }

    fn wait(&mut self, wait: &Wait) -> Result<WaitOutcome, Halt> {
        match self.facts.wait(wait)? {
            WaitOutcome::Cancelled(reason) => Err(Halt::End(End::Cancelled(reason))),
            came => Ok(came),
        }
    }

    fn signal(&mut self, name: &str, or: Vec<u32>) -> Result<(), Halt> {
        let came = self.wait(&Wait::Signal { name: name.to_owned(), or, next: self.next })?;
        if let WaitOutcome::Signal(value) = came {
            self.next += 1;
            self.notes.push(json!({ "signal": value }));
            return Ok(());
        }
        self.note_first(&came)
    }

    fn note_first(&mut self, came: &WaitOutcome) -> Result<(), Halt> {
        let WaitOutcome::First(number) = came else {
            return Err(Halt::Wrong(format!("the first of several was {came:?}")));
        };
        let note = self.settled(*number)?;
        self.notes.push(note);
        Ok(())
    }

    /// A set takes no more once a result was taken, and no call twice: a mistake of the program's.
    fn submit(&mut self, set: u32, number: u32) -> Result<(), Halt> {
        let twice = self.sets.values().any(|set| set.members.contains(&number));
        let own = self.sets.entry(set).or_default();
        if twice || !own.taken.is_empty() {
            return Err(Halt::End(End::Trapped(None)));
        }
        self.facts.submit(set, own.members.len(), number)?;
        own.members.push(number);
        Ok(())
    }

    fn rest(&self, set: u32) -> Vec<u32> {
        let Some(set) = self.sets.get(&set) else { return Vec::new() };
        set.members.iter().copied().filter(|number| !set.taken.contains(number)).collect()
    }

    fn take(&mut self, set: u32) -> Result<Option<u32>, Halt> {
        let rest = self.rest(set);
        if rest.is_empty() {
            return Ok(None);
        }
        let taken = self.sets.get(&set).map_or(0, |set| set.taken.len());
        match self.wait(&Wait::Next { set, rest, taken })? {
            WaitOutcome::First(number) => {
                self.sets.entry(set).or_default().taken.push(number);
                Ok(Some(number))
            }
            came => Err(Halt::Wrong(format!("the next of a set was {came:?}"))),
        }
    }

    fn settled(&mut self, number: u32) -> Result<Value, Halt> {
        let slot = self.slots.iter().find(|(_, own)| **own == number);
        let slot = slot.map_or("?", |(slot, _)| slot.as_str()).to_owned();
        Ok(json!([slot, noted(&self.facts.outcome(number)?)]))
    }

    /// What was asked for has the next number, and is kept in a slot.
    fn keep(&mut self, slot: &Value) {
        self.slots.insert(text(slot).to_owned(), self.next);
        self.next += 1;
    }

    fn slot(&self, slot: &Value) -> u32 {
        self.slots.get(text(slot)).copied().unwrap_or(u32::MAX)
    }

    fn slots(&self, slots: &Value) -> Vec<u32> {
        slots.as_array().into_iter().flatten().map(|slot| self.slot(slot)).collect()
    }
}

fn noted(outcome: &Outcome) -> Value {
    match outcome {
        Ok(value) => value.clone(),
        Err(Failure { kind, message }) => {
            json!({ "err": format!("ErrorKind::{kind}"), "message": message })
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
