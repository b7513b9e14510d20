//! Waits for several promises of one type at once.

use crate::error::{Error, Failure};
use crate::host;
use crate::promise::Promise;

/// One of several promises, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled<T> {
    /// Which, counted from 0 in the order in which they were given.
    pub index: usize,
    /// How it ended.
    pub outcome: Result<T, Failure>,
}

/// Waits until all have ended, and returns their results in the order of the promises.
///
/// # Errors
/// The first failure, in the order of the promises, once all have ended; or this execution is
/// being cancelled.
pub fn wait_all<T>(promises: &[Promise<T>]) -> Result<Vec<T>, Error> {
    settle_all(promises)?.into_iter().map(|outcome| outcome.map_err(Error::Failed)).collect()
}

/// Waits until all have ended, and tells how each did, in the order of the promises.
///
/// # Errors
/// This execution is being cancelled.
pub fn settle_all<T>(promises: &[Promise<T>]) -> Result<Vec<Result<T, Failure>>, Error> {
    let started: Vec<host::Promise> =
        promises.iter().filter_map(|promise| promise.number().ok()).collect();
    let mut outcomes = if started.is_empty() {
        Vec::new()
    } else {
        host::await_all(&started).map_err(Error::cancelled)?
    }
    .into_iter();
    let settled = promises.iter().map(|promise| match promise.number() {
        Ok(_) => promise.read(outcomes.next().expect("the host answers for each promise")),
        Err(refused) => Err(refused.clone()),
    });
    Ok(settled.collect())
}

/// Waits for the first of some promises to end, well or not. The others go on.
///
/// # Errors
/// This execution is being cancelled.
///
/// # Panics
/// The list is empty: the wait would never end.
pub fn race<T>(promises: &[Promise<T>]) -> Result<Settled<T>, Error> {
    assert!(!promises.is_empty(), "a race needs somebody to win it");
    let mut numbers = Vec::with_capacity(promises.len());
    for (index, promise) in promises.iter().enumerate() {
        match promise.number() {
            Ok(number) => numbers.push(number),
            // A call that never began has ended before all others.
            Err(refused) => return Ok(Settled { index, outcome: Err(refused.clone()) }),
        }
    }
    let settled = host::await_any(&numbers).map_err(Error::cancelled)?;
    let index = numbers
        .iter()
        .position(|number| *number == settled.promise)
        .expect("the host answers with one of the promises");
    Ok(Settled { index, outcome: promises[index].read(settled.outcome) })
}
