//! Volatile functions, and functions that call them.

use indelible_sdk::prelude::*;
use serde_json::Value;

use crate::effects::{Ended, Spec, send, wait};
use crate::note;

/// Sends a request, and returns how it ended.
#[function(volatile)]
pub fn glance(spec: Spec) -> Result<Ended, Error> {
    wait(&send(&spec))
}

/// The same; doing it again is harmless.
#[function(volatile, idem, backoff = "10ms..1s")]
pub fn glance_idem(spec: Spec) -> Result<Ended, Error> {
    wait(&send(&spec))
}

/// Sleeps so often, one millisecond more each time, and says how long that took in milliseconds.
#[function(volatile)]
pub fn naps(times: u64) -> Result<u64, Error> {
    let began = now();
    for ms in 1..=times {
        sleep(Duration::from_millis(ms))?;
    }
    Ok(now().since(began).as_millis() as u64)
}

/// Labels its execution, which has no row before its end.
#[function(volatile)]
pub fn labels_volatile(stage: String) -> Result<(), Error> {
    label("stage", "a");
    sleep(Duration::from_millis(1))?;
    label("stage", stage);
    Ok(())
}

/// All that a volatile function may do: the time, randomness, a sleep, a request against a timer, a
/// line of the log.
#[function(volatile)]
pub fn everything(spec: Spec) -> Result<(u64, String, Ended), Error> {
    let began = now();
    let number = random_uuid();
    sleep(Duration::from_millis(5))?;
    info!("slept");
    let sent = send(&spec);
    match sent.wait_timeout(Duration::from_secs(3600)) {
        Ok(_) | Err(Error::Failed(_)) => {}
        Err(error) => return Err(error),
    }
    Ok((now().since(began).as_millis() as u64, number, wait(&sent)?))
}

/// Fails as if it might pass until the attempt that it is given, and returns that.
#[function(volatile, retries = 3, backoff = "1ms..4ms")]
pub fn fickle(succeeds_at: u32) -> Result<u32, Error> {
    let attempt = context().attempt;
    if attempt < succeeds_at {
        return Err(Error::transient("not yet"));
    }
    Ok(attempt)
}

/// Sends a request, and panics in its first attempt.
#[function(volatile, backoff = "1ms..4ms")]
pub fn breaks_after(spec: Spec) -> Result<Ended, Error> {
    let ended = wait(&send(&spec))?;
    assert!(context().attempt > 1, "after the request");
    Ok(ended)
}

/// The same; doing it again is harmless.
#[function(volatile, idem, backoff = "1ms..4ms")]
pub fn breaks_after_idem(spec: Spec) -> Result<Ended, Error> {
    let ended = wait(&send(&spec))?;
    assert!(context().attempt > 1, "after the request");
    Ok(ended)
}

/// Does what a volatile function may not.
#[function(volatile, retries = 0)]
pub fn oversteps(what: &str) -> Result<(), Error> {
    match what {
        "call" => drop(note::call("a note")),
        "set" => drop([timer(Duration::ZERO)].into_iter().collect::<JoinSet<()>>()),
        "signal" => drop(signal::<Value>("go").wait()?),
        "race" => drop(signal::<Value>("go").wait_for(Duration::from_secs(1))?),
        _ => {}
    }
    Ok(())
}

fn told(outcome: Result<Value, Error>) -> Result<Value, Error> {
    match outcome {
        Err(Error::Failed(failure)) => Ok(format!("{:?}", failure.kind).into()),
        other => other,
    }
}

/// Calls a function, and returns what that returned, or the kind of its failure.
#[function]
pub fn calls_volatile(function: String, input: Value) -> Result<Value, Error> {
    told(call_remote(function, &input).wait())
}

/// Calls a function with one input and then with another, and with both at once.
#[function]
pub fn calls_two(function: String, one: Value, other: Value) -> Result<Vec<Value>, Error> {
    let call = |input: &Value| call_remote::<Value>(function.clone(), input);
    let mut all = vec![told(call(&one).wait())?, told(call(&other).wait())?];
    let (one, other) = (call(&one), call(&other));
    all.push(told(one.wait())?);
    all.push(told(other.wait())?);
    Ok(all)
}

/// Calls a function, and returns without waiting for it: not before it has begun.
#[function]
pub fn calls_and_leaves(function: String, input: Value) -> Result<String, Error> {
    let _ = call_remote::<Value>(function, &input);
    sleep(Duration::from_millis(1))?;
    Ok("left".to_owned())
}
