//! Functions that wait: for calls, timers and signals, one or many.

use indelible_sdk::Settled;
use indelible_sdk::prelude::*;

use crate::add;

/// Adds one, so many times, one call after the other.
#[function]
pub fn sequence(calls: u64) -> Result<u64, Error> {
    let mut sum = 0;
    for _ in 0..calls {
        sum = add::call(sum, 1).wait()?;
    }
    Ok(sum)
}

/// Adds in parallel, and sums up as the results arrive.
#[function]
pub fn fan_out(calls: u64) -> Result<u64, Error> {
    let mut set: JoinSet<u64> = (0..calls).map(|n| add::call(n, 1)).collect();
    let mut sum = 0;
    while let Some(result) = set.next()? {
        sum += result;
    }
    Ok(sum)
}

/// Adds in parallel, and takes all results at once.
#[function]
pub fn fan_out_all(calls: u64) -> Result<u64, Error> {
    let mut set: JoinSet<u64> = (0..calls).map(|n| add::call(n, 1)).collect();
    let mut sum = 0;
    for Settled { index, outcome } in set.take_all()? {
        let result = outcome?;
        assert_eq!(result, index as u64 + 1, "a result belongs to its call");
        sum += result;
    }
    Ok(sum)
}

/// Sleeps.
#[function]
pub fn sleep_ms(milliseconds: u64) -> Result<(), Error> {
    sleep(Duration::from_millis(milliseconds))
}

/// A sleeping call against a timer: who was first.
#[function]
pub fn race_timer(timer_ms: u64, call_ms: u64) -> Result<String, Error> {
    let sleeping = sleep_ms::call(call_ms);
    select! {
        () = sleeping => "call".to_owned(),
        () = timer(Duration::from_millis(timer_ms)) => "timer".to_owned(),
    }
}

/// Waits for a signal and returns what it carries.
#[function]
pub fn wait_signal(name: String) -> Result<serde_json::Value, Error> {
    signal(name).wait()
}

/// Waits for so many signals and returns what they carry.
#[function]
pub fn wait_signals(name: String, count: usize) -> Result<Vec<serde_json::Value>, Error> {
    let signals = signal(name);
    (0..count).map(|_| signals.wait()).collect()
}

/// Waits for a signal, but not for ever: null says that the time was over.
#[function]
pub fn signal_or_timer(
    name: String,
    milliseconds: u64,
) -> Result<Option<serde_json::Value>, Error> {
    signal(name).wait_for(Duration::from_millis(milliseconds))
}

/// A signal against a sleeping call: what came of it.
#[function]
pub fn signal_or_call(name: String, call_ms: u64) -> Result<serde_json::Value, Error> {
    let sleeping = sleep_ms::call(call_ms);
    select! {
        value = signal::<serde_json::Value>(name) => value,
        () = sleeping => serde_json::Value::from("call"),
    }
}

/// The time, twice.
#[function]
pub fn now_twice() -> (Timestamp, Timestamp) {
    (now(), now())
}

/// Random numbers, twice.
#[function]
pub fn random_twice() -> (u32, u32) {
    (random(), random())
}
