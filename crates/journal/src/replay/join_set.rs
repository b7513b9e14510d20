//! Join sets on replay: the k-th result taken is the k-th recorded (J-91).

use super::{
    Divergence, GuestMistake, NextResult, Replay, ReplayError, ReplayMatch, SetView, diverged,
};
use crate::ids::{JoinSetId, PromiseId};
use crate::journal::{Child, InvokeState, Journal, Membership};
use crate::violation::Rule;
use crate::wait::{WAIT_MEMBERS_MAX, Wait, WaitSet};

impl Replay {
    /// The guest creates a join set.
    pub fn join_set(&mut self, journal: &Journal) -> Result<(JoinSetId, ReplayMatch), ReplayError> {
        let number = self.next_child;
        let (promise, child) = self.take_child(journal, "a join set")?;
        let recorded = match child {
            None => ReplayMatch::Absent,
            Some(Child::JoinSet(_)) => ReplayMatch::Present,
            Some(other) => return Err(diverged(promise, other, "a join set".to_owned()).into()),
        };
        self.sets.insert(number, SetView::default());
        Ok((JoinSetId::at(promise), recorded))
    }

    /// The guest submits a call to a set.
    pub fn submit(
        &mut self,
        journal: &Journal,
        join_set: &JoinSetId,
        promise: &PromiseId,
    ) -> Result<ReplayMatch, ReplayError> {
        let (set, member) = self.check_submit(journal, join_set, promise)?;
        let view = self.view(set);
        // If the set or the call is absent, the guest has just asked for it and it is not appended
        // yet: then this is absent, too.
        let next = match journal.child_at(set) {
            Some(Child::JoinSet(recorded)) => recorded.members.get(view.submitted as usize),
            _ => None,
        };
        if next == Some(&member) {
            self.sets.insert(set, SetView { submitted: view.submitted + 1, ..view });
            self.submitted += 1;
            return Ok(ReplayMatch::Present);
        }
        let own = journal.key().execution_id();
        let elsewhere = member_of(journal, member).map(|(_, membership)| membership.set);
        let elsewhere = elsewhere.map(|set| format!("a submission to {:#}", own.child(set)));
        let here = next.map(|next| format!("a submission of {:#}", own.child(*next)));
        let asked = format!("a submission of {promise:#} to {join_set:#}");
        if let Some(recorded) = elsewhere.or(here) {
            return Err(Divergence { promise_id: promise.clone(), recorded, asked }.into());
        }
        self.check_may_append(journal, &asked)?;
        Ok(ReplayMatch::Absent)
    }

    /// JS-1, JS-2, J-82, C-26, C-21, JS-7: whether this run may submit. The answer depends only on
    /// what this run has done, so a replay refuses what was refused before.
    fn check_submit(
        &self,
        journal: &Journal,
        join_set: &JoinSetId,
        promise: &PromiseId,
    ) -> Result<(u32, u32), GuestMistake> {
        let refused = |rule, reason: String| Err(GuestMistake { rule, reason });
        let own = journal.key().execution_id();
        let mine = |number: &u32| *number < self.next_child;
        let is_set = |number: &u32| self.sets.contains_key(number);
        let Some(set) = join_set.number_in(own).filter(mine).filter(is_set) else {
            return refused(Rule::JS1, format!("the join set {join_set:#} was never created"));
        };
        let view = self.view(set);
        if view.taken > 0 {
            return refused(Rule::JS2, format!("results were already taken from {join_set:#}"));
        }
        if view.submitted as usize >= WAIT_MEMBERS_MAX - 1 {
            return refused(Rule::J82, format!("the join set {join_set:#} is full"));
        }
        let is_call =
            |number: &u32| matches!(journal.child_at(*number), None | Some(Child::Invoke(_)));
        let Some(member) = promise.number_in(own).filter(mine).filter(is_call) else {
            return refused(Rule::C26, format!("{promise:#} is not a call"));
        };
        match member_of(journal, member) {
            Some((_, owner)) if owner.submitted < self.view(owner.set).submitted => {
                let rule = if owner.set == set { Rule::C21 } else { Rule::JS7 };
                refused(rule, format!("{promise:#} is already in a join set"))
            }
            _ => Ok((set, member)),
        }
    }

    /// The guest wants the next result of a set.
    pub fn next<'a>(
        &mut self,
        journal: &'a Journal,
        join_set: &JoinSetId,
    ) -> Result<NextResult<'a>, ReplayError> {
        let own = journal.key().execution_id();
        let Some(number) = join_set.number_in(own) else { return Ok(NextResult::Exhausted) };
        let Some(Child::JoinSet(set)) = journal.child_at(number) else {
            return Ok(NextResult::Exhausted);
        };
        let view = self.view(number);
        if view.taken == view.submitted {
            // There is nothing to wait for, so this is no await, and never tells the guest of a
            // cancel.
            return Ok(NextResult::Exhausted);
        }

        // The result that was recorded for this call, or the one to take now. A member that this
        // run has not submitted yet cannot be the recorded result.
        let recorded = set.taken.get(view.taken as usize).copied();
        let first = recorded.or_else(|| set.ready.front().copied());
        let first = first.and_then(|member| {
            let (invoke, membership) = member_of(journal, member)?;
            (membership.submitted < view.submitted).then_some((member, invoke))
        });
        let completed_at = first.and_then(|(_, invoke)| invoke.completed_at());
        if self.tells_cancelled(journal, completed_at) {
            return Ok(NextResult::Cancelled);
        }
        match (first, recorded) {
            (Some((member, invoke)), Some(_)) => {
                self.sets.insert(number, SetView { taken: view.taken + 1, ..view });
                self.taken += 1;
                let result = invoke.result().expect("what was taken has completed");
                Ok(NextResult::Taken(own.child(member), result))
            }
            (Some(_), None) => {
                self.check_may_append(journal, "the next result of a join set")?;
                Ok(NextResult::Ready)
            }
            (None, _) => {
                let rest = WaitSet::rest_of(join_set).expect("it is a child of this execution");
                let wait = Wait::Any(rest);
                self.pending(journal, &wait)?;
                Ok(NextResult::Pending(wait))
            }
        }
    }

    /// The members that this run has submitted to a set and not taken from it (J-90), as a list, to
    /// wait for them or a signal. To wait for them alone, [`WaitSet::rest_of`] costs less.
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

    pub(super) fn view(&self, set: u32) -> SetView {
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
