//! Waits of guests: satisfied by what came first in the journal, or recorded as a wait (J-33, J-78,
//! J-91, C-22, C-37).

use std::task::Poll;

use indelible_journal::{
    AwaitResult, Entry, Event, JoinSetId, JournalKey, NextResult, Outcome, SignalName, Status,
    Wait, WaitSet, Waiting,
};

use crate::Tree;
use crate::calls::CallStop;
use crate::context::Cx;
use crate::execution::{Phase, number};
use crate::guest::{Settled, WaitRequest, WaitResult};

/// The size of a result that was taken from a join set.
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
        want: &WaitRequest,
    ) -> Result<Poll<WaitResult>, CallStop> {
        let own = key.execution_id();
        let set = |numbers: &[u32]| {
            WaitSet::of_numbers(own, numbers.to_vec()).map_err(|e| CallStop::Mistake(e.to_string()))
        };
        let signal = |name: &str| {
            SignalName::new(name)
                .map_err(|e| CallStop::Mistake(format!("invalid signal name: {e}")))
        };
        match want {
            WaitRequest::Signal(_) | WaitRequest::SignalOr(..) => {
                self.not_volatile(key, "wait for signals")?;
            }
            WaitRequest::Next(_) | WaitRequest::TakeAll(_) => {
                self.not_volatile(key, "use join sets")?;
            }
            WaitRequest::One(_) | WaitRequest::Any(_) | WaitRequest::All(_) => {}
        }
        match want {
            WaitRequest::One(promise) => {
                self.promises(cx, key, &Wait::One(own.child(*promise)), &[])
            }
            WaitRequest::Any(numbers) => self.promises(cx, key, &Wait::Any(set(numbers)?), &[]),
            WaitRequest::All(numbers) => self.promises(cx, key, &Wait::All(set(numbers)?), numbers),
            WaitRequest::Signal(name) => self.promises(cx, key, &Wait::Signal(signal(name)?), &[]),
            WaitRequest::SignalOr(name, numbers) => {
                let wait = Wait::SignalOr(signal(name)?, set(numbers)?);
                self.promises(cx, key, &wait, &[])
            }
            WaitRequest::Next(join_set) => {
                self.next_result(cx, key, &JoinSetId::at(own.child(*join_set)))
            }
            WaitRequest::TakeAll(join_set) => {
                self.take_all(cx, key, &JoinSetId::at(own.child(*join_set)))
            }
        }
    }

    /// A wait for promises or a signal. `all`: the promises in the order of the guest's list.
    fn promises(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        wait: &Wait,
        all: &[u32],
    ) -> Result<Poll<WaitResult>, CallStop> {
        loop {
            let (journal, replay) = self.execution(key).guest_place();
            let got = match replay.wait(journal, wait)? {
                AwaitResult::Promise(promise) => {
                    let outcome = self.outcome(key, &promise);
                    WaitResult::Settled(Settled { promise: number(&promise), outcome })
                }
                AwaitResult::All => {
                    WaitResult::All(all.iter().map(|promise| self.settled(key, *promise)).collect())
                }
                AwaitResult::Signal(payload) => WaitResult::Signal(payload.clone()),
                AwaitResult::Cancelled => self.cancelled(key),
                AwaitResult::Pending => {
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
    ) -> Result<Poll<WaitResult>, CallStop> {
        loop {
            let (journal, replay) = self.execution(key).guest_place();
            let got = match replay.next(journal, join_set)? {
                NextResult::Taken(promise, outcome) => {
                    let outcome = outcome.clone();
                    WaitResult::Settled(Settled { promise: number(&promise), outcome })
                }
                NextResult::Ready => {
                    let entry = journal.take_next(cx.now, join_set)?;
                    self.add_weight(entry.as_ref().map_or(0, result_bytes));
                    self.written(key, entry);
                    // Taking all of a large set is one call, and may fill several commits.
                    if self.is_full() {
                        self.seal();
                    }
                    continue;
                }
                NextResult::Pending(wait) => {
                    if self.blocks(cx, key, &wait)? {
                        return Ok(Poll::Pending);
                    }
                    continue;
                }
                NextResult::Exhausted => WaitResult::Exhausted,
                NextResult::Cancelled => self.cancelled(key),
            };
            return Ok(Poll::Ready(got));
        }
    }

    /// Takes the rest of a join set: one wait for all of it, and then each result by itself (J-85).
    fn take_all(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        join_set: &JoinSetId,
    ) -> Result<Poll<WaitResult>, CallStop> {
        let rest = WaitSet::rest_of(join_set).expect("it is a child of this execution");
        match self.promises(cx, key, &Wait::All(rest), &[])? {
            Poll::Ready(WaitResult::All(_)) => {}
            other => return Ok(other),
        }
        let mut all = Vec::new();
        loop {
            match self.next_result(cx, key, join_set)? {
                Poll::Ready(WaitResult::Settled(settled)) => all.push(settled),
                Poll::Ready(WaitResult::Exhausted) => return Ok(Poll::Ready(WaitResult::All(all))),
                // All results are there, so nothing else is expected.
                other => return Ok(other),
            }
        }
    }

    /// Records a wait that nothing has satisfied. False: a signal was buffered, so replay is asked
    /// again.
    fn blocks(&mut self, cx: Cx<'_>, key: &JournalKey, wait: &Wait) -> Result<bool, CallStop> {
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

    fn cancelled(&mut self, key: &JournalKey) -> WaitResult {
        let reason = self.execution(key).journal.cancel_requested().map(|(_, reason)| reason);
        WaitResult::Cancelled(reason.unwrap_or_default().to_owned())
    }

    /// Something happened to an execution: if that ends its wait, it goes on. The waits of an
    /// execution that is being cancelled are not recorded, so its guest checks for itself (C-22).
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
