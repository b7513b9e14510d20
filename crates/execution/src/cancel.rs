//! Cancelling, in two phases (J-80, C-22, C-24): the request, which reaches everything that the
//! execution has in flight; and the end, when its guest has cleaned up or the time for that is
//! over.

use indelible_journal::{
    ErrorKind, Failure, InvokeKind, InvokePhase, JournalKey, PromiseId, Timestamp,
};
use indelible_records::timers::Timer;

use crate::Tree;
use crate::context::Cx;
use crate::execution::{PendingEnd, Phase, callee, caller, number};
use crate::tree::Work;
use crate::volatile::is_volatile;

/// Why a call that never began is over.
pub(crate) const NOT_BEGUN: &str = "the execution was cancelled before it began";

impl Tree {
    /// Requests the cancel of an execution that is in memory. False if it is over, or was requested
    /// before.
    pub(crate) fn request_cancel(&mut self, cx: Cx<'_>, key: &JournalKey, reason: &str) -> bool {
        let execution = self.execution(key);
        let resting = matches!(execution.phase, Phase::PendingAttempt);
        let entry = match execution.journal.request_cancel(cx.now, reason) {
            Ok(Some(entry)) => entry,
            // An attempt that inherited the request and has not begun never begins.
            Ok(None) if resting => {
                self.abandon(cx, key, reason);
                return true;
            }
            Ok(None) => return false,
            Err(violation) => {
                self.breaks(key, &violation);
                return false;
            }
        };
        self.written(key, [entry]);
        if resting {
            self.abandon(cx, key, reason);
            return true;
        }
        self.limit_cleanup(cx, key);
        self.cascade(key);
        self.wake(cx, key);
        true
    }

    /// Passes a cancel on to what the execution had in flight when it was requested. Calls that it
    /// makes later are part of its cleanup.
    pub(crate) fn cascade(&mut self, key: &JournalKey) {
        let journal = &self.execution(key).journal;
        let Some((requested_at, reason)) = journal.cancel_requested() else { return };
        let work: Vec<_> = journal
            .open_invokes()
            .filter(|open| open.scheduled_at < requested_at)
            .map(|open| Work::Cancel(key.clone(), number(&open.promise_id), reason.to_owned()))
            .collect();
        self.work.extend(work);
    }

    /// A cancel reaches a call: a running one is asked to cancel, any other is over.
    pub(crate) fn cancel_child(
        &mut self,
        cx: Cx<'_>,
        caller: &JournalKey,
        child: u32,
        reason: &str,
    ) {
        let promise = caller.execution_id().child(child);
        let Some(execution) = self.find(caller) else { return };
        let Some(open) = execution.journal.open_invoke(&promise) else { return };
        if open.kind == InvokeKind::Http {
            // An effect in flight is awaited, and an unresolved one waits for the guest's end
            // (C-40): neither can be called back. One that is not in `unstarted` was dropped when
            // its caller ended.
            let dropped = !execution.unstarted.contains_key(&child);
            return match open.phase {
                InvokePhase::Started { .. } => {}
                InvokePhase::Scheduled if dropped => {}
                _ => self.settle_unbegun(cx, caller, child, NOT_BEGUN),
            };
        }
        let volatile = is_volatile(&open.retry_policy);
        // The list of work settles a call that was lost with its process (C-41).
        if execution.lost.contains(&child) {
            return;
        }
        let attempt = match open.phase {
            InvokePhase::Retrying { .. } if volatile => {
                return self.settle_unbegun(cx, caller, child, NOT_BEGUN);
            }
            InvokePhase::Scheduled => {
                // A call that is not in `unstarted` was dropped when its caller ended (C-40).
                if execution.unstarted.remove(&child).is_none() {
                    return;
                }
                return self.settle_cancelled(cx, caller, &promise, NOT_BEGUN);
            }
            InvokePhase::Started { attempt, .. } => attempt,
            InvokePhase::Retrying { failed, .. } => match failed.next() {
                Some(next) => next,
                None => return self.settle_cancelled(cx, caller, &promise, NOT_BEGUN),
            },
        };
        let key = callee(caller, &promise, attempt);
        match self.load(cx, &key) {
            Ok(()) => {
                self.request_cancel(cx, &key, reason);
            }
            Err(error) => {
                let why = format!("the call {promise:#} cannot be loaded: {error}");
                self.hold(caller, why);
            }
        }
    }

    /// An attempt that is not due yet never begins: it is cancelled, and so is the call.
    fn abandon(&mut self, cx: Cx<'_>, key: &JournalKey, reason: &str) {
        let execution = self.execution(key);
        execution.phase = Phase::Ended;
        if let Some(due) = execution.rests_until.take() {
            self.delete_timer(Timer { due, key: key.clone(), child: None });
        }
        let journal = &mut self.execution(key).journal;
        match journal.cancel(cx.now, reason) {
            Ok(entry) => self.written(key, [entry]),
            Err(violation) => {
                return self.breaks(key, &violation);
            }
        }
        let Some(caller) = caller(key) else {
            let failure = Failure::new(ErrorKind::Cancelled, reason);
            return self.tell_caller(cx, key, failure.into());
        };
        if let Err(error) = self.load(cx, &caller) {
            return self.hold(key, format!("the caller cannot be loaded: {error}"));
        }
        let promise = key.execution_id().as_promise().clone();
        let open = self.execution(&caller).journal.open_invoke(&promise);
        if let Some(InvokePhase::Retrying { retry_at, .. }) = open.map(|open| open.phase) {
            let child = Some(number(&promise));
            self.delete_timer(Timer { due: retry_at, key: caller.clone(), child });
        }
        self.has_ended(cx, key);
        self.settle_cancelled(cx, &caller, &promise, reason);
    }

    /// Settles a call that is not in flight as cancelled.
    pub(crate) fn settle_cancelled(
        &mut self,
        cx: Cx<'_>,
        caller: &JournalKey,
        promise: &PromiseId,
        reason: &str,
    ) {
        self.settle_open(cx, caller, promise, Failure::new(ErrorKind::Cancelled, reason));
    }

    /// Settles a call that is not in flight with this failure.
    pub(crate) fn settle_open(
        &mut self,
        cx: Cx<'_>,
        caller: &JournalKey,
        promise: &PromiseId,
        failure: Failure,
    ) {
        let journal = &mut self.execution(caller).journal;
        match journal.settle_invoke(cx.now, promise, failure.into()) {
            Ok(entries) => {
                self.written(caller, entries);
                self.child_ended(cx, caller, number(promise));
            }
            Err(violation) => {
                self.breaks(caller, &violation);
            }
        }
    }

    /// Starts, or starts again, the time that cleanup may take.
    pub(crate) fn limit_cleanup(&mut self, cx: Cx<'_>, key: &JournalKey) {
        let due = cx.now.saturating_add(cx.limits.cleanup_max);
        if let Some(old) = self.execution(key).cleanup_due.replace(due) {
            self.delete_timer(Timer { due: old, key: key.clone(), child: None });
        }
        self.put_timer(Timer { due, key: key.clone(), child: None });
    }

    /// The time to clean up is over. True: the timer's row stays until the end is written, because
    /// after a crash only this row says that the execution has to end.
    pub(crate) fn cleanup_is_over(&mut self, cx: Cx<'_>, key: &JournalKey, due: Timestamp) -> bool {
        let execution = self.execution(key);
        // The timer that began this attempt has the same form, and may fire again.
        let is_another = execution.cleanup_due.is_some_and(|own| own != due);
        if execution.journal.cancel_requested().is_none() || is_another {
            return false;
        }
        match &mut execution.phase {
            Phase::Running { doomed, .. } => {
                *doomed = Some(PendingEnd::OutOfTime);
                execution.cleanup_due = Some(due);
                true
            }
            Phase::Ready | Phase::Waiting => {
                execution.cleanup_due = Some(due);
                self.end(cx, key, PendingEnd::OutOfTime);
                true
            }
            // The timer fired before, and what the guest left in flight is not settled yet: the row
            // stays, for the reason above.
            Phase::Ending { verdict: PendingEnd::OutOfTime, .. } => true,
            // The end is decided already; a next attempt has its own time; an operator decides
            // about a stuck execution.
            Phase::Ending { .. } | Phase::PendingAttempt | Phase::Stuck { .. } | Phase::Ended => {
                false
            }
        }
    }
}
