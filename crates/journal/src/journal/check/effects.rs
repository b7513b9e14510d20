//! The phases of a call (J-40 to J-42, J-58 to J-62, C-17, C-18, C-28, C-29, C-41).

use super::{Check, require};
use crate::event::InvokeKind;
use crate::ids::{Attempt, PromiseId};
use crate::journal::Journal;
use crate::journal::index::{InvokeState, Phase};
use crate::payload::ErrorKind;
use crate::policy::{Durability, Idempotency, RetryBound, RetryCause};

impl Journal {
    /// J-40, SE-1, SE-4 with C-17, and the order of attempts (C-18).
    pub(super) fn check_invoke_started(&self, promise: &PromiseId, attempt: Attempt) -> Check {
        let Some(invoke) = self.invoke(promise) else {
            require!(false, SE1, "{promise:#} was never scheduled");
            return Ok(());
        };
        let due = match invoke.phase {
            Phase::Scheduled => Some(Attempt::FIRST),
            Phase::Retrying(failed, _) => failed.next(),
            Phase::Started(running, _) => {
                require!(false, C18, "attempt {running} of {promise:#} is still in flight");
                return Ok(());
            }
            Phase::Completed { .. } => {
                require!(false, SE4, "{promise:#} has completed");
                return Ok(());
            }
        };
        require!(
            due == Some(attempt),
            C18,
            "attempt {attempt} of {promise:#} is out of turn: {}",
            due.map_or("there are no more".to_owned(), |due| format!("attempt {due} is due"))
        );
        Ok(())
    }

    /// J-41, SE-2: once, and for the attempt in flight (C-18).
    pub(super) fn check_invoke_completed(&self, promise: &PromiseId, attempt: Attempt) -> Check {
        let phase = self.invoke(promise).map(|invoke| &invoke.phase);
        match phase {
            None | Some(Phase::Scheduled) => {
                require!(false, SE2, "{promise:#} was never started");
            }
            Some(Phase::Completed { .. }) => {
                require!(false, J41, "{promise:#} has completed already");
            }
            Some(Phase::Retrying(failed, _)) => {
                require!(false, C18, "attempt {failed} of {promise:#} is over, none is in flight");
            }
            Some(Phase::Started(running, _)) => {
                require!(
                    *running == attempt,
                    C18,
                    "attempt {running} of {promise:#} is in flight, not attempt {attempt}"
                );
            }
        }
        Ok(())
    }

    /// J-42, SE-3, SE-4, SE-5 with C-1, and C-28, C-29, C-41.
    pub(super) fn check_invoke_retrying(
        &self,
        promise: &PromiseId,
        failed: Attempt,
        cause: RetryCause,
        error: ErrorKind,
    ) -> Check {
        let Some(invoke) = self.invoke(promise) else {
            require!(false, SE3, "{promise:#} was never started");
            return Ok(());
        };
        match &invoke.phase {
            Phase::Scheduled => require!(false, SE3, "{promise:#} was never started"),
            Phase::Completed { .. } => require!(false, SE4, "{promise:#} has completed"),
            Phase::Retrying(last, _) if failed <= *last => {
                require!(false, C18, "attempt {failed} of {promise:#} is over already");
            }
            Phase::Started(running, _) if failed < *running => {
                require!(false, C18, "attempt {failed} of {promise:#} is over already");
            }
            Phase::Retrying(last, _) => {
                require!(false, SE3, "attempt {failed} of {promise:#} never started: {last} did");
            }
            Phase::Started(running, _) => require!(
                failed == *running,
                SE3,
                "attempt {failed} of {promise:#} never started: {running} did"
            ),
        }
        Self::check_retry_allowed(invoke, promise, cause)?;
        Self::check_retry_safe(invoke, promise, cause, error)
    }

    /// Whether the call's policy has an attempt left.
    fn check_retry_allowed(invoke: &InvokeState, promise: &PromiseId, cause: RetryCause) -> Check {
        match invoke.retry_policy.bound {
            RetryBound::Bounded(most) if cause.counts() => require!(
                invoke.retries_counted < most,
                SE5,
                "{promise:#} may be retried {most} times, and has been"
            ),
            // So that the count cannot wrap. At one retry a second that is 136 years.
            _ => require!(
                invoke.retries_counted < u32::MAX,
                SE5,
                "{promise:#} has been retried as often as can be counted"
            ),
        }
        Ok(())
    }

    /// Whether another attempt could do twice what happens once: never where the outcome of the
    /// last one is unknown, unless that is safe (V-24).
    fn check_retry_safe(
        invoke: &InvokeState,
        promise: &PromiseId,
        cause: RetryCause,
        error: ErrorKind,
    ) -> Check {
        let policy = &invoke.retry_policy;
        let idem = policy.class.idempotency == Idempotency::Idem;
        let function = invoke.kind == InvokeKind::Function;
        let persist_function = function && policy.class.durability == Durability::Persist;
        match cause {
            RetryCause::EngineLost | RetryCause::ReconciledNotDone if persist_function => require!(
                false,
                C41,
                "{promise:#} is a persist function: its own journal goes on, nothing is unknown"
            ),
            RetryCause::EngineLost => require!(
                idem,
                C29,
                "nobody knows whether {promise:#} happened, and doing it again is not safe"
            ),
            RetryCause::ReconciledNotDone => require!(
                policy.reconciler.is_some(),
                C29,
                "{promise:#} has no reconciler that could have said so"
            ),
            RetryCause::Failed => {
                require!(
                    error != ErrorKind::Indeterminate,
                    C29,
                    "an attempt at {promise:#} that is Indeterminate has not failed"
                );
                require!(
                    error != ErrorKind::Timeout || idem || function,
                    C29,
                    "nobody knows whether {promise:#} happened in time, and doing it again is not \
                     safe"
                );
                require!(
                    !function || !matches!(error, ErrorKind::UserError | ErrorKind::Cancelled),
                    C28,
                    "{promise:#} returned {error}: that is its outcome, not a failed attempt"
                );
            }
            RetryCause::NotSent | RetryCause::Operator => {}
        }
        Ok(())
    }
}
