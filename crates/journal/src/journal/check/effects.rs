//! The phases of a call (J-40 to J-42, J-58 to J-62, C-17, C-18, C-28, C-29, C-41).

use super::{Check, Refusal, refuse, require};
use crate::event::InvokeKind;
use crate::ids::{Attempt, PromiseId};
use crate::journal::Journal;
use crate::journal::index::Phase;
use crate::payload::ErrorKind;
use crate::policy::{Durability, Idempotency, RetryBound, RetryCause, RetryPolicy};
use crate::violation::Rule;

impl Journal {
    /// J-40, SE-1, SE-4 with C-17, and the order of attempts (C-18).
    pub(super) fn check_invoke_started(&self, promise: &PromiseId, attempt: Attempt) -> Check {
        let Some(invoke) = self.invoke(promise) else {
            refuse!(SE1, "{promise:#} was never scheduled");
        };
        let due = match invoke.phase {
            Phase::Scheduled => Some(Attempt::FIRST),
            Phase::Retrying(failed, _) => failed.next(),
            Phase::Started(running, _) => {
                refuse!(C18, "attempt {running} of {promise:#} is still in flight");
            }
            Phase::Completed { .. } => {
                refuse!(SE4, "{promise:#} has completed");
            }
        };
        require!(
            due == Some(attempt),
            C18,
            "attempt {attempt} of {promise:#} is out of order: {}",
            due.map_or("there are no more".to_owned(), |due| format!("attempt {due} is due"))
        );
        Ok(())
    }

    /// J-41, SE-2: once, and for the attempt in flight (C-18).
    pub(super) fn check_invoke_completed(&self, promise: &PromiseId, attempt: Attempt) -> Check {
        let phase = self.invoke(promise).map(|invoke| &invoke.phase);
        match phase {
            None | Some(Phase::Scheduled) => {
                refuse!(SE2, "{promise:#} was never started");
            }
            Some(Phase::Completed { .. }) => {
                refuse!(J41, "{promise:#} has already completed");
            }
            Some(Phase::Retrying(failed, _)) => {
                refuse!(
                    C18,
                    "attempt {failed} of {promise:#} has ended, and no other is in flight"
                );
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
            refuse!(SE3, "{promise:#} was never started");
        };
        match &invoke.phase {
            Phase::Scheduled => refuse!(SE3, "{promise:#} was never started"),
            Phase::Completed { .. } => refuse!(SE4, "{promise:#} has completed"),
            Phase::Retrying(last, _) if failed <= *last => {
                refuse!(C18, "attempt {failed} of {promise:#} has already ended");
            }
            Phase::Started(running, _) if failed < *running => {
                refuse!(C18, "attempt {failed} of {promise:#} has already ended");
            }
            Phase::Retrying(last, _) => {
                refuse!(SE3, "attempt {failed} of {promise:#} never started: {last} did");
            }
            Phase::Started(running, _) => require!(
                failed == *running,
                SE3,
                "attempt {failed} of {promise:#} never started: {running} did"
            ),
        }
        let refusal =
            retry_refusal(invoke.kind, &invoke.retry_policy, invoke.retries_counted, cause, error);
        match refusal {
            None => Ok(()),
            Some((rule, reason)) => Err(Refusal { rule, reason: format!("{promise:#}: {reason}") }),
        }
    }
}

/// Why a call may not be tried again; none if it may. If the outcome of the last attempt is
/// unknown, another may follow only if doing it twice is safe (V-24).
pub(in crate::journal) fn retry_refusal(
    kind: InvokeKind,
    policy: &RetryPolicy,
    retries_counted: u32,
    cause: RetryCause,
    error: ErrorKind,
) -> Option<(Rule, &'static str)> {
    let idem = policy.class.idempotency == Idempotency::Idem;
    let function = kind == InvokeKind::Function;
    let persist_function = function && policy.class.durability == Durability::Persist;
    let left = match policy.bound {
        RetryBound::Bounded(most) if cause.counts() => retries_counted < most,
        // This keeps the count from wrapping. At one retry a second that is 136 years.
        _ => retries_counted < u32::MAX,
    };
    let (rule, reason) = match (cause, error) {
        _ if !left => (Rule::SE5, "it has been retried as often as its policy allows"),
        (RetryCause::EngineLost | RetryCause::ReconciledNotDone, _) if persist_function => (
            Rule::C41,
            "the outcome of a persist function is never unknown: its own journal continues",
        ),
        (RetryCause::EngineLost, _) if !idem => {
            (Rule::C29, "its outcome is unknown, and repeating it is not safe")
        }
        (RetryCause::ReconciledNotDone, _) if policy.reconciler.is_none() => {
            (Rule::C29, "it has no reconciler that could have reported this")
        }
        (RetryCause::Failed, ErrorKind::Indeterminate) if function || !idem => {
            (Rule::C29, "an attempt that is Indeterminate has not failed")
        }
        (RetryCause::Failed, ErrorKind::Timeout) if !function && !idem => {
            (Rule::C29, "it is unknown whether it happened in time, and repeating it is not safe")
        }
        (RetryCause::Failed, ErrorKind::UserError | ErrorKind::Cancelled) if function => {
            (Rule::C28, "what a function returned is its outcome, not a failed attempt")
        }
        _ => return None,
    };
    Some((rule, reason))
}
