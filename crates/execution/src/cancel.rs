//! Cancelling, in two phases (J-80, C-22, C-24): the request, which reaches everything that the
//! execution had in flight, and the end, when its guest has cleaned up or its time for that is
//! over.

use indelible_journal::{
    ErrorKind, Failure, InvokeKind, InvokePhase, JournalKey, PromiseId, Timestamp,
};
use indelible_records::timers::Timer;

use crate::Tree;
use crate::context::Cx;
use crate::execution::{Phase, Verdict, callee, caller, number};
use crate::output::Event;
use crate::tree::Work;
use crate::volatile::is_volatile;

/// Why a call that never began is over.
pub(crate) const NOT_BEGUN: &str = "it was cancelled before it began";

impl Tree {
    /// Somebody asks to cancel an execution that is in memory. False if it is over, or was asked
    /// before.
    pub(crate) fn request_cancel(&mut self, cx: Cx<'_>, key: &JournalKey, reason: &str) -> bool {
        let execution = self.execution(key);
        let resting = matches!(execution.phase, Phase::Resting);
        let entry = match execution.journal.request_cancel(cx.now, reason) {
            Ok(Some(entry)) => entry,
            // An attempt that inherited the request and has not begun need not begin.
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

    /// A cancel reaches what the execution had in flight when it was asked for. What it calls
    /// from then on is its cleaning up.
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

    /// A cancel reaches a call: one that runs is asked, one that does not is over.
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
            // What is in flight is awaited, and what a person has to resolve waits for the guest's
            // end (C-40): neither can be called back.
            // What is not in the list was dropped when its caller came to its end.
            let dropped = !execution.unstarted.contains_key(&child);
            return match open.phase {
                InvokePhase::Started { .. } => {}
                InvokePhase::Scheduled if dropped => {}
                _ => self.settle_unbegun(cx, caller, child, NOT_BEGUN),
            };
        }
        let volatile = is_volatile(&open.retry_policy);
        // Somebody sees to it: nobody knows how it ended (C-41).
        if execution.lost.contains(&child) {
            return;
        }
        let attempt = match open.phase {
            InvokePhase::Retrying { .. } if volatile => {
                return self.settle_unbegun(cx, caller, child, NOT_BEGUN);
            }
            InvokePhase::Scheduled => {
                // What is not in the list was dropped when its caller came to its end (C-40).
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
                let why = format!("its call {promise:#} cannot be loaded: {error}");
                self.hold(caller, why);
            }
        }
    }

    /// An attempt whose time has not come will not begin: it is cancelled, and so is the call.
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
            return self.hold(key, format!("its caller cannot be loaded: {error}"));
        }
        let promise = key.execution_id().as_promise().clone();
        let open = self.execution(&caller).journal.open_invoke(&promise);
        if let Some(InvokePhase::Retrying { retry_at, .. }) = open.map(|open| open.phase) {
            let child = Some(number(&promise));
            self.delete_timer(Timer { due: retry_at, key: caller.clone(), child });
        }
        let ending = self.execution(key).journal.ending().cloned().expect("it was cancelled");
        self.pending.events.push(Event::Ended(key.clone(), ending));
        self.settle_cancelled(cx, &caller, &promise, reason);
    }

    /// A call that is not in flight is over as cancelled.
    pub(crate) fn settle_cancelled(
        &mut self,
        cx: Cx<'_>,
        caller: &JournalKey,
        promise: &PromiseId,
        reason: &str,
    ) {
        self.settle_open(cx, caller, promise, Failure::new(ErrorKind::Cancelled, reason));
    }

    /// A call that is not in flight is over as this.
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

    /// Cleaning up takes so long at most.
    pub(crate) fn limit_cleanup(&mut self, cx: Cx<'_>, key: &JournalKey) {
        let due = cx.now.saturating_add(cx.limits.cleanup_max);
        if let Some(old) = self.execution(key).cleanup_due.replace(due) {
            self.delete_timer(Timer { due: old, key: key.clone(), child: None });
        }
        self.put_timer(Timer { due, key: key.clone(), child: None });
    }

    /// The time to clean up is over. True: the timer's row stays until the end is written. If the
    /// process dies before that, nothing else remembers that this execution is to end.
    pub(crate) fn cleanup_is_over(&mut self, cx: Cx<'_>, key: &JournalKey, due: Timestamp) -> bool {
        let execution = self.execution(key);
        // The time at which an attempt began is a timer of the same kind, and may be told again.
        let is_another = execution.cleanup_due.is_some_and(|own| own != due);
        if execution.journal.cancel_requested().is_none() || is_another {
            return false;
        }
        match &mut execution.phase {
            Phase::Running { doomed, .. } => {
                *doomed = Some(Verdict::OutOfTime);
                execution.cleanup_due = Some(due);
                true
            }
            Phase::Ready | Phase::Waiting => {
                execution.cleanup_due = Some(due);
                self.end(cx, key, Verdict::OutOfTime);
                true
            }
            // It was told before, and what it left is not settled yet: the row stays for the reason
            // above.
            Phase::Ending { verdict: Verdict::OutOfTime, .. } => true,
            // What it left is being settled; a next attempt has a time of its own; a person
            // looks at what is held.
            Phase::Ending { .. } | Phase::Resting | Phase::Held { .. } | Phase::Ended => false,
        }
    }
}
