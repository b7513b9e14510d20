//! Join sets on replay: the k-th result taken is the k-th recorded (J-91).

use super::{Divergence, Next, Recorded, Replay, SetView, diverged};
use crate::ids::{JoinSetId, PromiseId};
use crate::journal::{Child, InvokeState, Journal, Membership};
use crate::wait::{Wait, WaitSet};

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
        let (Some(Child::Invoke(invoke)), Some(Child::JoinSet(recorded))) =
            (journal.child_at(member), journal.child_at(set))
        else {
            return Ok(Recorded::Absent);
        };
        let view = self.view(set);
        let next = recorded.members.get(view.submitted as usize).copied();
        if next == Some(member) {
            self.sets.insert(set, SetView { submitted: view.submitted + 1, ..view });
            return Ok(Recorded::Present);
        }
        // Refused before, as it will be now: this run has closed the set (JS-2), or has submitted
        // the call already, here (C-21) or to another set (JS-7).
        let submitted = invoke
            .membership
            .is_some_and(|membership| membership.submitted < self.view(membership.set).submitted);
        if view.taken > 0 || submitted {
            return Ok(Recorded::Absent);
        }
        let elsewhere =
            invoke.join_set().map(|set| format!("a submission to {:#}", own.child(set)));
        let here = next.map(|next| format!("a submission of {:#}", own.child(next)));
        match elsewhere.or(here) {
            None => Ok(Recorded::Absent),
            Some(recorded) => {
                let asked = format!("a submission of {promise:#} to {join_set:#}");
                Err(Divergence { promise_id: promise.clone(), recorded, asked })
            }
        }
    }

    /// The guest wants the next result of a set.
    pub fn next<'a>(
        &mut self,
        journal: &'a Journal,
        join_set: &JoinSetId,
    ) -> Result<Next<'a>, Divergence> {
        let own = journal.key().execution_id();
        let Some(number) = join_set.number_in(own) else { return Ok(Next::Exhausted) };
        let Some(Child::JoinSet(set)) = journal.child_at(number) else {
            return Ok(Next::Exhausted);
        };
        let view = self.view(number);
        if view.taken == view.submitted {
            // There is nothing to wait for, so this is no await, and never tells of a cancel.
            return Ok(Next::Exhausted);
        }

        // What this next() came to before, or comes to now. A member that this run has not
        // submitted yet cannot be what it came to.
        let recorded = set.taken.get(view.taken as usize).copied();
        let first = recorded.or_else(|| set.ready.front().copied());
        let first = first.and_then(|member| {
            let (invoke, membership) = member_of(journal, member)?;
            (membership.submitted < view.submitted).then_some((member, invoke))
        });
        let completed_at = first.and_then(|(_, invoke)| invoke.completed_at());
        if self.tells_cancelled(journal, completed_at) {
            return Ok(Next::Cancelled);
        }
        match (first, recorded) {
            (Some((member, invoke)), Some(_)) => {
                self.sets.insert(number, SetView { taken: view.taken + 1, ..view });
                let result = invoke.result().expect("what was taken has completed");
                Ok(Next::Taken(own.child(member), result))
            }
            (Some(_), None) => Ok(Next::Ready),
            (None, _) => {
                let rest = WaitSet::rest_of(join_set).expect("it is a child of this execution");
                let wait = Wait::Any(rest);
                self.pending(journal, &wait)?;
                Ok(Next::Pending(wait))
            }
        }
    }

    /// What this run has submitted to a set and not taken from it (J-90), listed: to race it
    /// against a signal. To wait for it alone, [`WaitSet::rest_of`] costs less.
    pub fn remaining(&self, journal: &Journal, join_set: &JoinSetId) -> WaitSet {
        let own = journal.key().execution_id();
        let mut rest = Vec::new();
        if let Some(number) = join_set.number_in(own)
            && let Some(Child::JoinSet(set)) = journal.child_at(number)
        {
            let view = self.view(number);
            let submitted = set.members.iter().take(view.submitted as usize).copied();
            rest.extend(submitted.filter(|member| {
                let taken =
                    member_of(journal, *member).and_then(|(_, membership)| membership.taken);
                taken.is_none_or(|taken| taken >= view.taken)
            }));
        }
        WaitSet::of_numbers(own, rest).expect("a call is submitted once")
    }

    fn view(&self, set: u32) -> SetView {
        self.sets.get(&set).copied().unwrap_or_default()
    }
}

/// A call that was submitted to a set, and its place there.
fn member_of(journal: &Journal, number: u32) -> Option<(&InvokeState, Membership)> {
    match journal.child_at(number)? {
        Child::Invoke(invoke) => Some((invoke, invoke.membership?)),
        _ => None,
    }
}
