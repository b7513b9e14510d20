//! Join sets: many calls at once, whose results are taken in the order in which they arrive.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::error::{Error, Failure};
use crate::host;
use crate::promise::{self, Decoder, Promise};
use crate::several::Settled;

/// Many calls at once, whose results are taken in the order in which they arrive.
///
/// All calls are added before the first result is taken.
pub struct JoinSet<T> {
    number: host::JoinSet,
    members: BTreeMap<host::Promise, Member<T>>,
    /// Calls that never began; their failures are returned first.
    refused: VecDeque<(usize, Failure)>,
    added: usize,
}

struct Member<T> {
    index: usize,
    what: Cow<'static, str>,
    decode: Decoder<T>,
}

/// An empty join set.
#[must_use]
pub fn join_set<T>() -> JoinSet<T> {
    JoinSet {
        number: host::create_join_set(),
        members: BTreeMap::new(),
        refused: VecDeque::new(),
        added: 0,
    }
}

impl<T> JoinSet<T> {
    /// Adds a call and returns its index: how many were added before it.
    pub fn add(&mut self, promise: Promise<T>) -> usize {
        let index = self.added;
        self.added += 1;
        match promise.number() {
            Ok(number) => {
                host::submit(self.number, number);
                let (what, decode) = promise.into_parts();
                self.members.insert(number, Member { index, what, decode });
            }
            Err(refused) => self.refused.push_back((index, refused.clone())),
        }
        index
    }

    /// The next result to arrive; `None` when all were taken.
    ///
    /// # Errors
    /// That call failed, the others can still be taken; or this execution is being cancelled.
    #[expect(clippy::should_implement_trait, reason = "it waits, and it can fail")]
    pub fn next(&mut self) -> Result<Option<T>, Error> {
        match self.next_settled()? {
            Some(settled) => settled.outcome.map(Some).map_err(Error::Failed),
            None => Ok(None),
        }
    }

    /// The next call to end, well or not, and which it was; `None` when all were taken.
    ///
    /// [`Self::next`] ends with the first call that failed if its error is passed on with `?`. This
    /// one returns a failure as a value: the others go on, and [`Settled::index`] says which call it
    /// was, counted from 0 in the order in which they were added. The order in which calls settle
    /// is journaled, so a replay takes them in the same order.
    ///
    /// ```no_run
    /// use indelible_sdk::prelude::*;
    ///
    /// #[function]
    /// fn check(order: String) -> Result<bool, Error> {
    ///     Ok(!order.is_empty())
    /// }
    ///
    /// /// The orders that could not be checked, and why.
    /// #[function]
    /// fn check_all(orders: Vec<String>) -> Result<Vec<String>, Error> {
    ///     let mut checks: JoinSet<bool> = orders.iter().cloned().map(check::call).collect();
    ///     let mut failed = Vec::new();
    ///     while let Some(settled) = checks.next_settled()? {
    ///         if let Err(failure) = settled.outcome {
    ///             failed.push(format!("{}: {failure}", orders[settled.index]));
    ///         }
    ///     }
    ///     Ok(failed)
    /// }
    /// # indelible_sdk::guest!(check, check_all);
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// This execution is being cancelled.
    pub fn next_settled(&mut self) -> Result<Option<Settled<T>>, Error> {
        if let Some((index, refused)) = self.refused.pop_front() {
            return Ok(Some(Settled { index, outcome: Err(refused) }));
        }
        if self.members.is_empty() {
            return Ok(None);
        }
        let next = host::next(self.number).map_err(Error::cancelled)?;
        Ok(next.map(|settled| self.settle(settled)))
    }

    /// Waits for all that were not taken, and takes them in the order in which they arrived.
    ///
    /// # Errors
    /// This execution is being cancelled: nothing was taken.
    pub fn take_all(&mut self) -> Result<Vec<Settled<T>>, Error> {
        let arrived = if self.members.is_empty() {
            Vec::new()
        } else {
            host::take_all(self.number).map_err(Error::cancelled)?
        };
        let mut taken: Vec<Settled<T>> = self
            .refused
            .drain(..)
            .map(|(index, refused)| Settled { index, outcome: Err(refused) })
            .collect();
        taken.extend(arrived.into_iter().map(|settled| self.settle(settled)));
        Ok(taken)
    }

    /// How many were not taken yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len() + self.refused.len()
    }

    /// Whether all were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn settle(&mut self, settled: host::Settled) -> Settled<T> {
        let member =
            self.members.remove(&settled.promise).expect("a set gives each of its calls once");
        let outcome = promise::read(settled.outcome, &member.what, member.decode);
        Settled { index: member.index, outcome }
    }
}

impl<T> Extend<Promise<T>> for JoinSet<T> {
    fn extend<I: IntoIterator<Item = Promise<T>>>(&mut self, promises: I) {
        for promise in promises {
            self.add(promise);
        }
    }
}

impl<T> FromIterator<Promise<T>> for JoinSet<T> {
    fn from_iter<I: IntoIterator<Item = Promise<T>>>(promises: I) -> Self {
        let mut set = join_set();
        set.extend(promises);
        set
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("number", &self.number).field("left", &self.len()).finish()
    }
}
