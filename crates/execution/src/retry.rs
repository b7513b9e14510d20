//! Another attempt at an execution whose attempt failed (C-28, C-32): whether, when, and how.

use indelible_journal::{
    ErrorKind, Failure, Idempotency, InvokePhase, JournalKey, Micros, RetryBound, RetryCause,
    RetryPolicy, Timestamp, Violation,
};
use indelible_records::timers::Timer;

use crate::Tree;
use crate::context::Cx;
use crate::context::Purpose;
use crate::execution::{Execution, Phase, caller, number};
use crate::volatile::is_volatile;

/// The most bytes of signals that a next attempt inherits: they are in one commit with its start.
const CARRIED_BYTES_MAX: usize = 32 << 20;

impl Tree {
    /// The failure of an attempt. If the outcome of something that it called is unknown, the
    /// attempt is Indeterminate, too, and no other follows (C-32).
    pub(crate) fn known_or_not(&mut self, key: &JournalKey, failure: Failure) -> Failure {
        if !self.execution(key).journal.has_indeterminate() {
            return failure;
        }
        let message = format!(
            "the function failed, and the outcome of an effect that it called is unknown: {failure}"
        );
        Failure { kind: ErrorKind::Indeterminate, message, detail: failure.detail }
    }

    /// When the next attempt is due; or why there is none.
    pub(crate) fn retry_at(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        failure: &Failure,
    ) -> Result<Timestamp, &'static str> {
        if failure.kind == ErrorKind::Indeterminate {
            return Err("the outcome of an effect that it called is unknown");
        }
        let execution = self.execution(key);
        let journal = &execution.journal;
        // A persist execution goes on with its cleanup; a volatile one may be released (V-40).
        if execution.volatile && journal.cancel_requested().is_some() {
            return Err("the execution was being cancelled");
        }
        let carried: usize = journal.deliveries().map(|(_, payload)| payload.bytes.len()).sum();
        if carried > CARRIED_BYTES_MAX {
            return Err("its buffered signals are too large to carry over to another attempt");
        }
        let effect_started = journal.effect_started();
        let tries = self.tries(cx, key, failure.kind);
        let (policy, retries, since) = tries.ok_or("no attempts are left")?;
        if effect_started && policy.class.idempotency != Idempotency::Idem {
            return Err("it had made calls and is not `idem`");
        }
        let retry_at = cx.now.saturating_add(backoff(cx, key, &policy, retries));
        match policy.deadline {
            Some(deadline) if retry_at > since.saturating_add(deadline) => {
                Err("its deadline has passed")
            }
            _ => Ok(retry_at),
        }
    }

    /// An execution's policy, how many retries it had, and since when it is tried; none if its
    /// policy allows no more.
    fn tries(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        error: ErrorKind,
    ) -> Option<(RetryPolicy, u32, Timestamp)> {
        let Some(caller) = caller(key) else {
            let started = self.execution(key).journal.started()?;
            let policy = started.retry_policy.as_deref()?.clone();
            let retries = key.attempts().own().get() - 1;
            let left = match policy.bound {
                RetryBound::Bounded(most) => retries < most,
                RetryBound::Unbounded => retries < u32::MAX - 1,
            };
            let since = self.operation_accepted_at(cx, key);
            return left.then_some((policy, retries, since));
        };
        self.load(cx, &caller).ok()?;
        let open = self.execution(&caller).journal.open_invoke(key.execution_id().as_promise())?;
        let left = open.may_retry(RetryCause::Failed, error);
        left.then(|| ((*open.retry_policy).clone(), open.retries_counted, open.scheduled_time))
    }

    /// Begins the journal of the next attempt; the attempt runs when it is due.
    pub(crate) fn next_attempt(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        failure: Failure,
        retry_at: Timestamp,
    ) -> Result<(), Violation> {
        let now = cx.now;
        let (volatile, run) = (self.execution(key).volatile, self.execution(key).run);
        if let (true, Some(caller)) = (volatile, caller(key)) {
            return self.retry_volatile(cx, &caller, key, failure, retry_at);
        }
        let (next, entries) = match self.execution(key).journal.next_attempt(now) {
            Ok(next) => next,
            Err(error) => {
                let outcome = Failure::new(failure.kind, format!("{} ({error})", failure.message));
                self.tell_caller(cx, key, outcome.into());
                return Ok(());
            }
        };
        let next_key = next.key().clone();
        let rests_until = volatile.then_some(retry_at);
        let Execution { idempotency_key, labels, .. } = self.execution(key);
        let (idempotency_key, labels) = (idempotency_key.clone(), labels.clone());
        let rests = Execution::new(next, Phase::PendingAttempt);
        let rests = Execution { volatile, run, rests_until, idempotency_key, labels, ..rests };
        self.executions.insert(next_key.clone(), rests);
        self.written(&next_key, entries);
        match caller(key) {
            None => {
                self.put_timer(Timer { due: retry_at, key: next_key.clone(), child: None });
                self.operation_retried(cx, &next_key);
            }
            Some(caller) => {
                let promise = key.execution_id().as_promise();
                let journal = &mut self.execution(&caller).journal;
                let entry =
                    journal.retry_invoke(now, promise, RetryCause::Failed, failure, retry_at)?;
                self.written(&caller, [entry]);
                let child = Some(number(promise));
                self.put_timer(Timer { due: retry_at, key: caller, child });
            }
        }
        Ok(())
    }

    /// The next attempt at a call is due: it is started, and its guest runs.
    pub(crate) fn retry_child(&mut self, cx: Cx<'_>, timer: &Timer, child: u32) {
        let caller = &timer.key;
        let promise = caller.execution_id().child(child);
        let journal = &mut self.execution(caller).journal;
        let Some(open) = journal.open_invoke(&promise) else { return };
        let InvokePhase::Retrying { failed, retry_at, .. } = open.phase else { return };
        // A timer that fires late is not for the attempt that waits now.
        if retry_at != timer.due {
            return;
        }
        if is_volatile(&open.retry_policy) {
            return self.begin_again(cx, caller, &open);
        }
        let Some(next) = failed.next() else { return };
        let key = super::execution::callee(caller, &promise, next);
        if let Err(error) = self.load(cx, &key) {
            let why = format!("the next attempt at {promise:#} cannot be loaded: {error}");
            return self.hold(caller, why);
        }
        let now = cx.now;
        match self.execution(caller).journal.start_invoke(now, &promise) {
            Ok((_, entry)) => {
                self.written(caller, [entry]);
                self.run_rested(cx, &key);
            }
            Err(violation) => {
                self.breaks(caller, &violation);
            }
        }
    }

    /// Runs an attempt that is due.
    pub(crate) fn run_rested(&mut self, cx: Cx<'_>, key: &JournalKey) {
        self.execution(key).rests_until = None;
        if self.execution(key).journal.cancel_requested().is_some() {
            self.limit_cleanup(cx, key);
        }
        self.ready(key);
        self.touch(key);
    }
}

/// How long to wait before the next attempt (O-22): doubled with every retry, give or take a tenth,
/// so that executions that failed together do not come back together.
pub(crate) fn backoff(cx: Cx<'_>, key: &JournalKey, policy: &RetryPolicy, retries: u32) -> Micros {
    let doubled = 1_u64.checked_shl(retries).and_then(|n| policy.backoff.base.get().checked_mul(n));
    let wait = doubled.unwrap_or(u64::MAX).min(policy.backoff.cap.get());
    let mut random = [0; 4];
    cx.surroundings.fill(Purpose::Jitter(key), &mut random);
    jittered(wait, u32::from_le_bytes(random)).min(policy.backoff.cap)
}

/// `wait`, give or take a tenth.
fn jittered(wait: u64, random: u32) -> Micros {
    let spread = wait / 5;
    let part = u128::from(spread) * u128::from(random) / u128::from(u32::MAX);
    let part = u64::try_from(part).unwrap_or(spread);
    Micros::new((wait - wait / 10).saturating_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O-22: the wait before a retry is the backoff, give or take a tenth, and never wraps.
    #[test]
    fn jitter_is_a_tenth_either_way() {
        assert_eq!(jittered(1_000, 0), Micros::new(900));
        assert_eq!(jittered(1_000, u32::MAX), Micros::new(1_100));
        assert_eq!(jittered(0, 17), Micros::ZERO);
        assert!(jittered(u64::MAX, u32::MAX).get() > u64::MAX / 10 * 9);
    }
}
