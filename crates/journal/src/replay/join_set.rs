//! Join sets on replay: the k-th result taken is the k-th recorded (J-91).

use super::{Divergence, Next, Recorded, Replay, SetView, diverged};
use crate::ids::{JoinSetId, PromiseId};
use crate::journal::{Child, Journal};
use crate::wait::WaitSet;

impl Replay {
    /// The guest creates a join set.
    pub fn join_set(&mut self, journal: &Journal) -> Result<(JoinSetId, Recorded), Divergence> {
        let number = self.next_child;
        let (promise, child) = self.take_child(journal);
        let recorded = match child {
            None => Recorded::Absent,
            Some(Child::JoinSet(_)) => Recorded::Present,
            Some(other) => return Err(diverged(promise, other, "a join set".to_owned())),
        };
        self.sets.insert(number, SetView::default());
        Ok((JoinSetId::at(promise), recorded))
    }

    /// The guest submits a call to a set. A submission that the rules forbid is absent here, and
    /// refused when it is appended, live and replayed alike.
    pub fn submit(
        &mut self,
        journal: &Journal,
        join_set: &JoinSetId,
        promise: &PromiseId,
    ) -> Result<Recorded, Divergence> {
        let own = journal.key().execution_id();
        let (Some(set), Some(member)) = (join_set.number_in(own), promise.number_in(own)) else {
            return Ok(Recorded::Absent);
        };
        let Some(Child::Invoke(invoke)) = journal.child_at(member) else {
            return Ok(Recorded::Absent);
        };
        let Some(owner) = invoke.join_set else { return Ok(Recorded::Absent) };
        if self.sets.get(&owner).is_some_and(|view| view.submitted.contains(&member)) {
            // This run has submitted it already: a second time is the guest's mistake.
            return Ok(Recorded::Absent);
        }
        if self.sets.get(&set).is_some_and(|view| view.taken > 0) {
            // This run has closed the set (JS-2): the submission was refused, and went elsewhere.
            return Ok(Recorded::Absent);
        }
        if owner != set {
            return Err(Divergence {
                promise_id: promise.clone(),
                recorded: format!("a submission to {:#}", own.child(owner)),
                asked: format!("a submission to {join_set:#}"),
            });
        }
        self.sets.entry(set).or_default().submitted.insert(member);
        Ok(Recorded::Present)
    }

    /// The guest wants the next result of a set.
    pub fn next<'a>(&mut self, journal: &'a Journal, join_set: &JoinSetId) -> Next<'a> {
        let own = journal.key().execution_id();
        let Some(number) = join_set.number_in(own) else { return Next::Exhausted };
        let Some(Child::JoinSet(set)) = journal.child_at(number) else { return Next::Exhausted };
        let view = self.sets.entry(number).or_default();
        if view.taken == view.submitted.len() {
            // There is nothing to wait for, so this is no await, and never tells of a cancel.
            return Next::Exhausted;
        }

        // What this next() came to before, or comes to now. A member that this run has not
        // submitted yet cannot be what it came to.
        let recorded = set.taken.get(view.taken).copied();
        let first = recorded.or_else(|| set.ready.front().copied());
        let first = first.filter(|member| view.submitted.contains(member));
        let completed_at = first.and_then(|member| journal.child_at(member)?.resolved_at());
        if self.tells_cancelled(journal, completed_at) {
            return Next::Cancelled;
        }
        match (first, recorded) {
            (Some(member), Some(_)) => {
                self.sets.entry(number).or_default().taken += 1;
                let promise = own.child(member);
                let result = journal.result(&promise).expect("what was taken has completed");
                Next::Taken(promise, result)
            }
            (Some(_), None) => Next::Ready,
            (None, _) => Next::Pending(self.remaining(journal, join_set)),
        }
    }

    /// What this run has submitted to a set and not taken from it (J-90).
    pub fn remaining(&self, journal: &Journal, join_set: &JoinSetId) -> WaitSet {
        let own = journal.key().execution_id();
        let number = join_set.number_in(own);
        let mut rest = Vec::new();
        if let Some(number) = number
            && let (Some(Child::JoinSet(set)), Some(view)) =
                (journal.child_at(number), self.sets.get(&number))
        {
            let mut open = view.submitted.clone();
            for member in set.taken.iter().take(view.taken) {
                open.remove(member);
            }
            rest.extend(open);
        }
        WaitSet::of_numbers(own, rest).expect("a set has no duplicates")
    }
}
