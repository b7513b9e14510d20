//! Functions whose outcome can be computed from what they were given and sent, however often the
//! process dies under them.

use std::collections::BTreeSet;

use indelible_sdk::prelude::*;

use crate::add;
use crate::waiting::{fan_out, sequence, sleep_ms};

/// What a signal brings.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part {
    /// Which part: one that comes again counts once.
    pub number: u64,
    /// What it adds.
    pub value: u64,
}

/// Whether a journey takes place.
#[derive(Debug, Serialize, Deserialize)]
pub struct Decision {
    /// It does.
    pub go: bool,
}

/// Adds up what signals bring, one call for each, until every part below `count` came.
#[function]
pub fn collect(count: usize) -> Result<u64, Error> {
    gather(count, count)
}

/// As `collect`, but the first attempt panics after half of the parts.
#[function(idem, retries = 3, backoff = "1ms..1ms")]
pub fn collect_again(count: usize) -> Result<u64, Error> {
    gather(count, if context().attempt == 1 { count / 2 } else { count })
}

fn gather(count: usize, panics_at: usize) -> Result<u64, Error> {
    let parts = signal::<Part>("part");
    let mut seen = BTreeSet::new();
    let mut sum = 0;
    while seen.len() < count {
        assert!(seen.len() < panics_at, "the first attempt panics");
        let part = parts.wait()?;
        if seen.insert(part.number) {
            sum = add::call(sum, part.value).wait()?;
        }
    }
    Ok(sum)
}

/// Calls at once, calls one after the other, sleeps of its own and of others.
#[function]
pub fn errands(calls: u64, milliseconds: u64) -> Result<u64, Error> {
    let sum = fan_out::call(calls).wait()?;
    sleep(Duration::from_millis(milliseconds))?;
    let naps: Vec<_> = (0..calls).map(|nap| sleep_ms::call(nap * milliseconds / 4)).collect();
    wait_all(&naps)?;
    Ok(sum + sequence::call(calls).wait()?)
}

/// A stop of a journey.
#[function]
pub fn book(stop: u64) -> u64 {
    stop
}

/// Takes a stop back.
#[function]
pub fn unbook(stop: u64) -> u64 {
    stop
}

/// Books stops and waits for a decision. Declined or cancelled, what was booked is taken back,
/// the last first.
#[function]
pub fn travel(stops: u64) -> Result<u64, Error> {
    let mut booked = Vec::new();
    let why = match book_all(stops, &mut booked) {
        Ok(true) => return Ok(booked.len() as u64),
        Ok(false) => "declined".into(),
        Err(error) => error,
    };
    for stop in booked.into_iter().rev() {
        unbook::call(stop).wait()?;
    }
    Err(why)
}

fn book_all(stops: u64, booked: &mut Vec<u64>) -> Result<bool, Error> {
    for stop in 0..stops {
        let booking = book::call(stop);
        let result = booking.wait();
        // Told of a cancel, it waits again to learn how the call ended.
        let ended = if result.is_err() { booking.wait() } else { Ok(stop) };
        if ended.is_ok() {
            booked.push(stop);
        }
        result?;
    }
    let decision = signal::<Decision>("decision").wait_for(Duration::from_secs(3600))?;
    Ok(decision.is_some_and(|decision| decision.go))
}
