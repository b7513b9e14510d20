//! Awaits on replay: satisfied by what came first in the journal, live and replayed alike (C-37).

use std::borrow::Cow;

use super::{AwaitResult, Divergence, GuestMistake, Replay, ReplayError};
use crate::event::Sequence;
use crate::journal::{Child, Journal};
use crate::names::SignalName;
use crate::payload::Payload;
use crate::violation::Rule;
use crate::wait::{WAIT_MEMBERS_MAX, Wait, WaitSet};

impl Replay {
    /// The guest waits.
    pub fn wait<'a>(
        &mut self,
        journal: &'a Journal,
        wait: &Wait,
    ) -> Result<AwaitResult<'a>, ReplayError> {
        self.check(journal, wait)?;
        let awaited = match wait {
            Wait::One(promise) => {
                let at = journal.child(promise).and_then(Child::resolved_at);
                self.promises(journal, at, || AwaitResult::Promise(promise.clone()))
            }
            Wait::Any(set) => {
                let first = match self.rest(journal, set) {
                    Some(rest) if rest.completed == 0 => None,
                    _ => first_resolved(journal, &self.listed(journal, set)),
                };
                self.promises(journal, first.map(|(at, _)| at), || {
                    winner(set, first.expect("only asked for when satisfied").1)
                })
            }
            Wait::All(set) => {
                let at = match self.rest(journal, set) {
                    Some(rest) if rest.completed < rest.all => None,
                    // Satisfied where the last of them resolved; an empty set from the start.
                    _ => journal
                        .resolutions(&self.listed(journal, set))
                        .try_fold(Sequence::ZERO, |last, (_, at)| at.map(|at| last.max(at))),
                };
                self.promises(journal, at, || AwaitResult::All)
            }
            Wait::Signal(name) => self.signal(journal, name, None),
            Wait::SignalOr(name, others) => self.signal(journal, name, Some(others)),
        };
        if awaited == AwaitResult::Pending {
            self.pending(journal, wait)?;
        }
        Ok(awaited)
    }

    /// C-26, C-37: whether a wait can end at all. The answer depends only on what this run has done
    /// so far, so a replay refuses what was refused before.
    fn check(&self, journal: &Journal, wait: &Wait) -> Result<(), GuestMistake> {
        let refused = |rule, reason: &str| Err(GuestMistake { rule, reason: reason.to_owned() });
        let set = match wait {
            Wait::One(promise) => &WaitSet::of_one(promise),
            Wait::Any(set) | Wait::All(set) | Wait::SignalOr(_, set) => set,
            Wait::Signal(_) => return Ok(()),
        };
        if set.execution_id() != journal.key().execution_id() {
            return refused(Rule::C26, "a promise of another execution never resolves here");
        }
        if matches!(wait, Wait::SignalOr(..)) && set.join_set().is_some() {
            return refused(Rule::C37, "the promises raced against a signal must be listed");
        }
        let count = set.listed().map_or(0, <[u32]>::len);
        // The signal takes one place.
        let most = WAIT_MEMBERS_MAX - usize::from(matches!(wait, Wait::SignalOr(..)));
        if count > most {
            return refused(Rule::J82, "a wait has too many members");
        }
        let rest = match set.join_set() {
            None => count,
            Some(join_set) => {
                let number = join_set.number_in(journal.key().execution_id());
                let Some(view) = number.and_then(|number| self.sets.get(&number)) else {
                    return refused(Rule::C26, "only a join set has a rest");
                };
                (view.submitted - view.taken) as usize
            }
        };
        if rest == 0 && matches!(wait, Wait::One(_) | Wait::Any(_)) {
            return refused(Rule::C26, "a wait without promises would never end");
        }
        let hopeless = |number: &&u32| {
            **number >= self.next_child
                || !journal.child_at(**number).is_none_or(Child::is_awaitable)
        };
        match set.listed().unwrap_or_default().iter().find(hopeless) {
            Some(_) => refused(Rule::C26, "a promise that can never resolve is awaited"),
            None => Ok(()),
        }
    }

    /// How much of a join set's rest has completed, if this run has seen all of the set: then its
    /// members need not be looked at.
    fn rest(&self, journal: &Journal, set: &WaitSet) -> Option<Rest> {
        let join_set = set.join_set()?;
        let number = join_set.number_in(journal.key().execution_id())?;
        let (Some(Child::JoinSet(set)), view) = (journal.child_at(number), self.view(number))
        else {
            return None;
        };
        let seen = (view.submitted as usize, view.taken as usize);
        let all = (set.members.len(), set.taken.len());
        (seen == all).then(|| Rest { completed: set.ready_count, all: set.rest_count() })
    }

    /// A wait that is not satisfied must be the last thing that this run does: the journal holds
    /// nothing past it, and if the journal is blocked, then on this wait (C-25).
    pub(super) fn pending(&self, journal: &Journal, wait: &Wait) -> Result<(), Divergence> {
        self.ends_here(journal, "to wait")?;
        if journal.is_blocked_on(wait) {
            return Ok(());
        }
        self.not_blocked(journal, "another wait")
    }

    /// The members of a set, as far as this run has submitted and taken them.
    fn listed<'s>(&self, journal: &Journal, set: &'s WaitSet) -> Cow<'s, WaitSet> {
        match set.join_set() {
            None => Cow::Borrowed(set),
            Some(join_set) => Cow::Owned(self.remaining(journal, &join_set)),
        }
    }

    fn promises<'a>(
        &mut self,
        journal: &Journal,
        satisfied_at: Option<Sequence>,
        satisfied: impl FnOnce() -> AwaitResult<'a>,
    ) -> AwaitResult<'a> {
        if self.tells_cancelled(journal, satisfied_at) {
            return AwaitResult::Cancelled;
        }
        satisfied_at.map_or(AwaitResult::Pending, |_| satisfied())
    }

    /// A wait for a signal, or the first of others. The signal takes a number only if it wins.
    fn signal<'a>(
        &mut self,
        journal: &'a Journal,
        name: &SignalName,
        others: Option<&WaitSet>,
    ) -> AwaitResult<'a> {
        let slot = journal.child_at(self.next_child);
        let signal = slot.and_then(|child| received(child, name));
        let other = others.and_then(|set| first_resolved(journal, set).map(|won| (set, won)));

        let signal_wins = match (&signal, &other) {
            (Some((at, _)), Some((_, (other_at, _)))) => at < other_at,
            (signal, _) => signal.is_some(),
        };
        let satisfied_at = match (signal_wins, &signal, &other) {
            (true, Some((at, _)), _) | (false, _, Some((_, (at, _)))) => Some(*at),
            _ => None,
        };
        if self.tells_cancelled(journal, satisfied_at) {
            return AwaitResult::Cancelled;
        }
        if let (true, Some((_, payload))) = (signal_wins, signal) {
            self.next_child += 1;
            return AwaitResult::Signal(payload);
        }
        match other {
            Some((set, (_, number))) => winner(set, number),
            None => AwaitResult::Pending,
        }
    }
}

/// The members of a join set that were not taken.
struct Rest {
    completed: usize,
    all: usize,
}

fn received<'a>(child: &'a Child, name: &SignalName) -> Option<(Sequence, &'a Payload)> {
    match child {
        Child::Signal(signal) if signal.name == *name => {
            Some((signal.received_at, &signal.payload))
        }
        _ => None,
    }
}

/// The member that resolved first (C-37).
fn first_resolved(journal: &Journal, set: &WaitSet) -> Option<(Sequence, u32)> {
    journal.resolutions(set).filter_map(|(number, at)| Some((at?, number))).min()
}

fn winner<'a>(set: &WaitSet, number: u32) -> AwaitResult<'a> {
    AwaitResult::Promise(set.execution_id().child(number))
}
