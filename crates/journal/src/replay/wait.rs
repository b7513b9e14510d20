//! Awaits on replay: satisfied by what came first in the journal, live and replayed alike (C-37).

use super::{Awaited, Divergence, Replay, diverged};
use crate::event::Sequence;
use crate::journal::{Child, Journal};
use crate::names::SignalName;
use crate::payload::Payload;
use crate::wait::{Wait, WaitSet};

impl Replay {
    /// The guest waits.
    pub fn wait<'a>(
        &mut self,
        journal: &'a Journal,
        wait: &Wait,
    ) -> Result<Awaited<'a>, Divergence> {
        match wait {
            Wait::One(promise) => {
                let at = journal.child(promise).and_then(Child::resolved_at);
                Ok(self.promises(journal, at, || Awaited::Promise(promise.clone())))
            }
            Wait::Any(set) => {
                let first = first_resolved(journal, set);
                Ok(self.promises(journal, first.map(|(at, _)| at), || {
                    winner(set, first.expect("only asked for when satisfied").1)
                }))
            }
            Wait::All(set) => {
                // Satisfied where the last of them resolved; a set of none from the start.
                let at = journal
                    .resolutions(set)
                    .try_fold(Sequence::ZERO, |last, (_, at)| at.map(|at| last.max(at)));
                Ok(self.promises(journal, at, || Awaited::All))
            }
            Wait::Signal(name) => self.signal(journal, name, None),
            Wait::SignalOr(name, others) => self.signal(journal, name, Some(others)),
        }
    }

    fn promises<'a>(
        &mut self,
        journal: &Journal,
        satisfied_at: Option<Sequence>,
        satisfied: impl FnOnce() -> Awaited<'a>,
    ) -> Awaited<'a> {
        if self.tells_cancelled(journal, satisfied_at) {
            return Awaited::Cancelled;
        }
        satisfied_at.map_or(Awaited::Pending, |_| satisfied())
    }

    /// A signal, or the first of others. The signal takes a number only if it wins.
    fn signal<'a>(
        &mut self,
        journal: &'a Journal,
        name: &SignalName,
        others: Option<&WaitSet>,
    ) -> Result<Awaited<'a>, Divergence> {
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
            return Ok(Awaited::Cancelled);
        }
        if let (true, Some((_, payload))) = (signal_wins, signal) {
            self.next_child += 1;
            return Ok(Awaited::Signal(payload));
        }
        if let Some((set, (_, number))) = other {
            return Ok(winner(set, number));
        }
        // Nothing has satisfied it. If the journal goes on at this place all the same, the guest
        // that wrote it did something else here.
        match slot {
            None => Ok(Awaited::Pending),
            Some(recorded) => {
                let promise = journal.key().execution_id().child(self.next_child);
                Err(diverged(promise, recorded, format!("the signal `{name}`")))
            }
        }
    }
}

fn received<'a>(child: &'a Child, name: &SignalName) -> Option<(Sequence, &'a Payload)> {
    match child {
        Child::Signal(signal) if signal.name == *name => {
            Some((signal.received_at, &signal.payload))
        }
        _ => None,
    }
}

/// Which member's resolver has the lowest sequence (C-37).
fn first_resolved(journal: &Journal, set: &WaitSet) -> Option<(Sequence, u32)> {
    journal.resolutions(set).filter_map(|(number, at)| Some((at?, number))).min()
}

fn winner<'a>(set: &WaitSet, number: u32) -> Awaited<'a> {
    Awaited::Promise(set.execution_id().child(number))
}
