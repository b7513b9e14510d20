//! What guests wait for: satisfied by what came first in the journal, or written down as a wait
//! (J-33, J-78, J-91, C-22, C-37).

use std::task::Poll;

use indelible_journal::{
    Awaited, Entry, Event, JoinSetId, JournalKey, Next, Outcome, SignalName, Status, Wait, WaitSet,
    Waiting,
};

use crate::Tree;
use crate::calls::Stopped;
use crate::context::Cx;
use crate::execution::{Phase, number};
use crate::guest::{Got, Settled, Want};

/// How many bytes the result has that was taken from a set.
fn result_bytes(entry: &Entry) -> usize {
    match entry.event() {
        Event::JoinSetAwaited { result: Outcome::Ok(payload), .. } => payload.bytes.len(),
        _ => 0,
    }
}

impl Tree {
    /// The guest waits.
    pub(crate) fn wait(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        want: &Want,
    ) -> Result<Poll<Got>, Stopped> {
        let own = key.execution_id();
        let set = |numbers: &[u32]| {
            WaitSet::of_numbers(own, numbers.to_vec()).map_err(|e| Stopped::Mistake(e.to_string()))
        };
        let signal = |name: &str| {
            SignalName::new(name).map_err(|e| Stopped::Mistake(format!("no signal's name: {e}")))
        };
        match want {
            Want::Signal(_) | Want::SignalOr(..) => self.not_volatile(key, "wait for signals")?,
            Want::Next(_) | Want::TakeAll(_) => self.not_volatile(key, "use join sets")?,
            Want::One(_) | Want::Any(_) | Want::All(_) => {}
        }
        match want {
            Want::One(promise) => self.promises(cx, key, &Wait::One(own.child(*promise)), &[]),
            Want::Any(numbers) => self.promises(cx, key, &Wait::Any(set(numbers)?), &[]),
            Want::All(numbers) => self.promises(cx, key, &Wait::All(set(numbers)?), numbers),
            Want::Signal(name) => self.promises(cx, key, &Wait::Signal(signal(name)?), &[]),
            Want::SignalOr(name, numbers) => {
                let wait = Wait::SignalOr(signal(name)?, set(numbers)?);
                self.promises(cx, key, &wait, &[])
            }
            Want::Next(join_set) => self.next_result(cx, key, &JoinSetId::at(own.child(*join_set))),
            Want::TakeAll(join_set) => self.take_all(cx, key, &JoinSetId::at(own.child(*join_set))),
        }
    }

    /// A wait for promises or a signal. `all`: the promises in the order of the guest's list.
    fn promises(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        wait: &Wait,
        all: &[u32],
    ) -> Result<Poll<Got>, Stopped> {
        loop {
            let (journal, replay) = self.execution(key).guest_place();
            let got = match replay.wait(journal, wait)? {
                Awaited::Promise(promise) => {
                    let outcome = self.outcome(key, &promise);
                    Got::Settled(Settled { promise: number(&promise), outcome })
                }
                Awaited::All => {
                    Got::All(all.iter().map(|promise| self.settled(key, *promise)).collect())
                }
                Awaited::Signal(payload) => Got::Signal(payload.clone()),
                Awaited::Cancelled => self.cancelled(key),
                Awaited::Pending => {
                    if self.blocks(cx, key, wait)? {
                        return Ok(Poll::Pending);
                    }
                    continue;
                }
            };
            return Ok(Poll::Ready(got));
        }
    }

    /// The next result of a join set (J-91).
    fn next_result(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        join_set: &JoinSetId,
    ) -> Result<Poll<Got>, Stopped> {
        loop {
            let (journal, replay) = self.execution(key).guest_place();
            let got = match replay.next(journal, join_set)? {
                Next::Taken(promise, outcome) => {
                    let outcome = outcome.clone();
                    Got::Settled(Settled { promise: number(&promise), outcome })
                }
                Next::Ready => {
                    let entry = journal.take_next(cx.now, join_set)?;
                    self.weighs(entry.as_ref().map_or(0, result_bytes));
                    self.written(key, entry);
                    // All of a large set are taken in one call.
                    if self.is_full() {
                        self.seal();
                    }
                    continue;
                }
                Next::Pending(wait) => {
                    if self.blocks(cx, key, &wait)? {
                        return Ok(Poll::Pending);
                    }
                    continue;
                }
                Next::Exhausted => Got::Exhausted,
                Next::Cancelled => self.cancelled(key),
            };
            return Ok(Poll::Ready(got));
        }
    }

    /// Everything that is left of a join set: one wait for all of it, and then each by itself
    /// (J-85).
    fn take_all(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        join_set: &JoinSetId,
    ) -> Result<Poll<Got>, Stopped> {
        let rest = WaitSet::rest_of(join_set).expect("it is a child of this execution");
        match self.promises(cx, key, &Wait::All(rest), &[])? {
            Poll::Ready(Got::All(_)) => {}
            other => return Ok(other),
        }
        let mut all = Vec::new();
        loop {
            match self.next_result(cx, key, join_set)? {
                Poll::Ready(Got::Settled(settled)) => all.push(settled),
                Poll::Ready(Got::Exhausted) => return Ok(Poll::Ready(Got::All(all))),
                // They are all there: nothing is left to wait for, or to be told of.
                other => return Ok(other),
            }
        }
    }

    /// Writes down a wait that nothing has satisfied. False: a signal was there, so ask again.
    fn blocks(&mut self, cx: Cx<'_>, key: &JournalKey, wait: &Wait) -> Result<bool, Stopped> {
        let journal = &mut self.execution(key).journal;
        match journal.wait(cx.now, wait)? {
            Waiting::Received(entry) => {
                self.written(key, [entry]);
                Ok(false)
            }
            Waiting::Blocked(entry) => {
                self.execution(key).blocked_since = Some(entry.timestamp());
                self.written(key, [entry]);
                Ok(true)
            }
            Waiting::Already | Waiting::Quiet => Ok(true),
        }
    }

    fn settled(&mut self, key: &JournalKey, promise: u32) -> Settled {
        let outcome = self.outcome(key, &key.execution_id().child(promise));
        Settled { promise, outcome }
    }

    fn cancelled(&mut self, key: &JournalKey) -> Got {
        let reason = self.execution(key).journal.cancel_requested().map(|(_, reason)| reason);
        Got::Cancelled(reason.unwrap_or_default().to_owned())
    }

    /// Something happened to an execution: if that ends its wait, it goes on. While it is being
    /// cancelled its waits are not written, so its guest looks for itself (C-22).
    pub(crate) fn wake(&mut self, cx: Cx<'_>, key: &JournalKey) {
        let execution = self.execution(key);
        match execution.journal.status() {
            Some(Status::Blocked { .. }) if execution.journal.can_wake() => {
                match execution.journal.wake(cx.now) {
                    Ok(entries) => self.written(key, entries),
                    Err(violation) => {
                        return self.breaks(key, &violation);
                    }
                }
            }
            Some(Status::Cancelling) => {}
            _ => return,
        }
        match &mut self.execution(key).phase {
            Phase::Waiting => self.ready(key),
            Phase::Running { woken, .. } => *woken = true,
            _ => {}
        }
    }
}
