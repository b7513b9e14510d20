//! A small language, so that a test can write any scenario as JSON.
//!
//! A program is a list of steps; each leaves a value, and the list of all values is the result.
//! Steps that start something leave a number by which later steps refer to it.

use indelible_sdk::prelude::*;
use serde_json::{Value, json};

/// A step of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Calls a function and waits for it.
    Call(String, Value),
    /// Starts a call; leaves its number.
    Start(String, Value),
    /// Starts a timer, in milliseconds; leaves its number.
    Timer(u64),
    /// Waits for what was started.
    Await(usize),
    /// Waits for all of these, and leaves their values.
    All(Vec<usize>),
    /// Waits for the first of these; leaves its number and value.
    Race(Vec<usize>),
    /// Puts these calls into a join set; leaves numbers and values as they arrive.
    Join(Vec<usize>),
    /// As `join`, but takes all at once.
    JoinAll(Vec<usize>),
    /// Sleeps, in milliseconds.
    Sleep(u64),
    /// Waits for a signal.
    Signal(String),
    /// Waits for a signal, but only for so many milliseconds.
    SignalOr(String, u64),
    /// The time, in microseconds.
    Now,
    /// A random number.
    Random,
    /// Writes to the log.
    Log(String),
    /// Runs steps; if one fails or is cancelled, leaves the error's text and goes on.
    Try(Vec<Step>),
    /// Runs steps so many times; leaves the values of the last time.
    Repeat(u32, Vec<Step>),
    /// Fails.
    Fail(String),
    /// Panics.
    Panic(String),
}

/// Runs a program and returns the values of its steps.
#[function]
pub fn interpreter(program: Vec<Step>) -> Result<Vec<Value>, Error> {
    run(&program, &mut Vec::new())
}

fn run(program: &[Step], started: &mut Vec<Option<Promise<Value>>>) -> Result<Vec<Value>, Error> {
    program.iter().map(|step| run_step(step, started)).collect()
}

fn run_step(step: &Step, started: &mut Vec<Option<Promise<Value>>>) -> Result<Value, Error> {
    match step {
        Step::Call(function, input) => call_remote(function.clone(), input).wait(),
        Step::Start(function, input) => {
            started.push(Some(call_remote(function.clone(), input)));
            Ok(json!(started.len() - 1))
        }
        // A call that sleeps is the timer of this language: all that is started has one type.
        Step::Timer(milliseconds) => {
            started.push(Some(call_remote("sleep_ms", milliseconds)));
            Ok(json!(started.len() - 1))
        }
        Step::Await(number) => borrow(started, *number)?.wait(),
        Step::All(numbers) => {
            let promises = take(started, numbers)?;
            let values = wait_all(&promises);
            give_back(started, numbers, promises);
            Ok(json!(values?))
        }
        Step::Race(numbers) => {
            let promises = take(started, numbers)?;
            let settled = race(&promises);
            give_back(started, numbers, promises);
            let settled = settled?;
            Ok(json!([numbers[settled.index], settled.outcome?]))
        }
        Step::Join(numbers) => {
            let mut set: JoinSet<Value> = take(started, numbers)?.into_iter().collect();
            let mut values = Vec::new();
            while let Some(settled) = set.next_settled()? {
                values.push(json!([numbers[settled.index], settled.outcome?]));
            }
            Ok(json!(values))
        }
        Step::JoinAll(numbers) => {
            let mut set: JoinSet<Value> = take(started, numbers)?.into_iter().collect();
            let mut values = Vec::new();
            for settled in set.take_all()? {
                values.push(json!([numbers[settled.index], settled.outcome?]));
            }
            Ok(json!(values))
        }
        Step::Sleep(milliseconds) => {
            sleep(Duration::from_millis(*milliseconds)).map(|()| Value::Null)
        }
        Step::Signal(name) => signal(name.clone()).wait(),
        Step::SignalOr(name, milliseconds) => {
            let waited = signal(name.clone()).wait_for(Duration::from_millis(*milliseconds));
            waited.map(Option::unwrap_or_default)
        }
        Step::Now => Ok(json!(now())),
        Step::Random => Ok(json!(random::<u32>())),
        Step::Log(message) => {
            info!("{message}");
            Ok(Value::Null)
        }
        Step::Try(steps) => match run(steps, started) {
            Ok(values) => Ok(json!(values)),
            Err(error) => Ok(json!(error.to_string())),
        },
        Step::Repeat(times, steps) => {
            let mut values = Vec::new();
            for _ in 0..*times {
                values = run(steps, started)?;
            }
            Ok(json!(values))
        }
        Step::Fail(message) => Err(message.into()),
        Step::Panic(message) => panic!("{message}"),
    }
}

fn borrow(started: &[Option<Promise<Value>>], number: usize) -> Result<&Promise<Value>, Error> {
    let promise = started.get(number).and_then(Option::as_ref);
    promise.ok_or_else(|| unknown(number))
}

fn take(
    started: &mut [Option<Promise<Value>>],
    numbers: &[usize],
) -> Result<Vec<Promise<Value>>, Error> {
    let taken = numbers.iter().map(|number| {
        started.get_mut(*number).and_then(Option::take).ok_or_else(|| unknown(*number))
    });
    taken.collect()
}

fn give_back(
    started: &mut [Option<Promise<Value>>],
    numbers: &[usize],
    promises: Vec<Promise<Value>>,
) {
    for (number, promise) in numbers.iter().zip(promises) {
        started[*number] = Some(promise);
    }
}

fn unknown(number: usize) -> Error {
    format!("nothing was started as {number}, or it is in a join set").into()
}
