//! Join sets (J-48 to J-50, J-67 to J-69, C-15, C-20, C-21, C-26).

use super::{Check, Guest, refuse, require};
use crate::ids::{JoinSetId, PromiseId};
use crate::journal::Journal;
use crate::journal::index::{Child, JoinSet};
use crate::payload::Outcome;
use crate::wait::WAIT_MEMBERS_MAX;

impl Journal {
    /// J-49, JS-1, JS-2, JS-7, C-21, C-26.
    pub(super) fn check_submitted(
        &self,
        guest: Guest,
        join_set: &JoinSetId,
        promise: &PromiseId,
    ) -> Check {
        require!(guest == Guest::Active, J49, "a blocked execution cannot submit");
        let Some((number, set)) = self.join_set(join_set) else {
            refuse!(JS1, "the join set {join_set:#} was never created");
        };
        require!(
            set.taken.is_empty(),
            JS2,
            "{join_set:#} is closed: results were already taken from it"
        );
        // With one more member, a wait for the rest of the set, alone or beside a signal, would
        // have too many.
        require!(
            set.members.len() < WAIT_MEMBERS_MAX - 1,
            J82,
            "the join set {join_set:#} already has {} members",
            set.members.len()
        );
        let Some(invoke) = self.invoke(promise) else {
            refuse!(
                C26,
                "{promise:#} is {}, not a call: it could never be taken out",
                self.child(promise).map_or("missing", Child::noun)
            );
        };
        require!(
            invoke.join_set() != Some(number),
            C21,
            "{promise:#} is already in the join set {join_set:#}"
        );
        require!(invoke.membership.is_none(), JS7, "{promise:#} is already in another join set");
        Ok(())
    }

    /// J-50, JS-3, JS-4, JS-5, C-20. Each member is taken at most once, so no more are taken than
    /// were submitted (JS-6).
    pub(super) fn check_awaited(
        &self,
        guest: Guest,
        join_set: &JoinSetId,
        promise: &PromiseId,
        result: &Outcome,
    ) -> Check {
        require!(guest == Guest::Active, J50, "a blocked execution cannot take results");
        let number = self.join_set(join_set).map(|(number, _)| number);
        let member =
            self.invoke(promise).filter(|invoke| number.is_some() && invoke.join_set() == number);
        let Some(invoke) = member else {
            refuse!(JS3, "{promise:#} was never submitted to {join_set:#}");
        };
        let Some(completed) = invoke.result() else {
            refuse!(JS4, "{promise:#} has not completed");
        };
        require!(!invoke.is_taken(), JS5, "the result of {promise:#} was already taken");
        require!(
            completed == result,
            C20,
            "{promise:#} completed with a result other than the one taken"
        );
        Ok(())
    }

    pub(in crate::journal) fn join_set(&self, id: &JoinSetId) -> Option<(u32, &JoinSet)> {
        let number = id.number_in(self.key.execution_id())?;
        match self.child_at(number)? {
            Child::JoinSet(set) => Some((number, set)),
            _ => None,
        }
    }
}
