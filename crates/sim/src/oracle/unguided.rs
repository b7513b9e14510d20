//! The unguided oracle: the outcome of a program that has no race, signal or cancel, and so has the
//! same outcome whatever happens. Values from the clock, randomness and panic texts match anything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::guided::{nobody, policy};
use super::interpret::{self, End, Facts, Failure, Halt, Outcome, Wait, WaitOutcome};

/// Matches any value.
const ANY: &str = "\u{0}whatever it was";

/// The outcome of a program. `None`: it depends on something that is free to vary.
pub(super) fn outcome(function: &str, program: &Value) -> Option<Outcome> {
    compute(function, program).ok()
}

/// Whether an outcome is the one that was computed.
pub(super) fn fits(expected: &Outcome, found: &Outcome) -> bool {
    match (expected, found) {
        (Ok(expected), Ok(found)) => is_like(expected, found),
        (Err(expected), Err(found)) => {
            expected.kind == found.kind
                && (expected.message == ANY || expected.message == found.message)
        }
        _ => false,
    }
}

fn is_like(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(text), _) if text == ANY => true,
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected.iter().zip(found).all(|(one, other)| is_like(one, other))
        }
        (Value::Object(expected), Value::Object(found)) => {
            expected.len() == found.len()
                && expected
                    .iter()
                    .all(|(name, one)| found.get(name).is_some_and(|other| is_like(one, other)))
        }
        _ => expected == found,
    }
}

fn compute(function: &str, program: &Value) -> Result<Outcome, Halt> {
    let Some((retries, idem)) = policy(function) else { return Ok(Err(nobody(function))) };
    for attempt in 1.. {
        let mut plain =
            Unguided { attempt, calls: BTreeMap::new(), settled: BTreeSet::new(), unknown: false };
        let failure = match interpret::run(program, &mut plain).halt {
            Halt::End(End::Returned(value)) => return Ok(Ok(value)),
            Halt::End(End::Failed(failure)) if failure.kind == "Transient" => failure,
            Halt::End(End::Failed(failure)) => return Ok(Err(failure)),
            Halt::End(End::Trapped(_)) => Failure { kind: "Trap", message: ANY.to_owned() },
            halt => return Err(halt),
        };
        // The program did not wait for some call: whether that call began, and how it ended,
        // depends on timing.
        let left = plain.settled.len() < plain.calls.len();
        let matters = (attempt <= retries && !idem) || may_be_unknown(program);
        if left && matters {
            return Err(Halt::Free);
        }
        if plain.unknown {
            return Ok(Err(Failure { kind: "Indeterminate", message: ANY.to_owned() }));
        }
        if attempt > retries || (!idem && !plain.settled.is_empty()) {
            return Ok(Err(failure));
        }
    }
    Err(Halt::Free)
}

/// Whether some call in a program may end as Indeterminate.
fn may_be_unknown(program: &Value) -> bool {
    let text = program.to_string();
    text.contains("\"unknown\"") || text.contains("\"http\"")
}

struct Unguided {
    attempt: u64,
    calls: BTreeMap<u32, (String, Value)>,
    /// The calls that were waited for.
    settled: BTreeSet<u32>,
    /// Whether one of them ended as Indeterminate.
    unknown: bool,
}

impl Facts for Unguided {
    fn attempt(&self) -> u64 {
        self.attempt
    }

    fn call(&mut self, number: u32, function: &str, input: &Value) -> Result<(), Halt> {
        self.calls.insert(number, (function.to_owned(), input.clone()));
        Ok(())
    }

    /// The outcome of a request depends on the wire.
    fn http(&mut self, _number: u32, _request: &Value) -> Result<(), Halt> {
        Err(Halt::Free)
    }

    fn timer(&mut self, _number: u32, _millis: u64) -> Result<(), Halt> {
        Ok(())
    }

    fn set(&mut self, _number: u32) -> Result<(), Halt> {
        Ok(())
    }

    fn submit(&mut self, _set: u32, _place: usize, _number: u32) -> Result<(), Halt> {
        Ok(())
    }

    fn now(&mut self, _number: u32) -> Result<Value, Halt> {
        Ok(json!(ANY))
    }

    fn random(&mut self, _number: u32, _length: u64) -> Result<Value, Halt> {
        Ok(json!(ANY))
    }

    fn wait(&mut self, wait: &Wait) -> Result<WaitOutcome, Halt> {
        match wait {
            Wait::One(_) | Wait::All(_) => Ok(WaitOutcome::All),
            Wait::Any(_) | Wait::Signal { .. } | Wait::Next { .. } => Err(Halt::Free),
        }
    }

    fn outcome(&mut self, number: u32) -> Result<Outcome, Halt> {
        match self.calls.get(&number) {
            Some((function, input)) => {
                self.settled.insert(number);
                let outcome = compute(function, input)?;
                let unknown = |failure: &Failure| failure.kind == "Indeterminate";
                self.unknown |= outcome.as_ref().is_err_and(unknown);
                Ok(outcome)
            }
            None => Ok(Ok(Value::Null)),
        }
    }
}
