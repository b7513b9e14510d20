//! How an execution ends. First everything that its guest left in flight is settled, whatever the
//! cause of the end (C-40); then the terminal entry and its consequence for the caller are one
//! commit (J-75, D7).

use std::collections::BTreeSet;

use indelible_journal::{
    Attempt, Ending, Entry, ErrorKind, Failure, InvokeKind, InvokePhase, JournalKey, OpenInvoke,
    Outcome, Violation,
};
use indelible_records::timers::Timer;

use crate::Tree;
use crate::context::Cx;
use crate::execution::{PendingEnd, Phase, caller, number};
use crate::output::{AfterFailure, Event, ExecutionEnd, Notice};
use crate::tree::Work;

/// How many timers are deleted with their execution, because a batch has a bound. The rest are
/// deleted when they are due.
const TIMERS_DELETED_MAX: usize = 10_000;

/// Why an execution that was cancelled with such an effect ends as Indeterminate.
const UNKNOWN: &str = "the outcome of an effect that was in flight is unknown";

/// Why a call is over whose caller did not wait for it.
const ENDED: &str = "the caller has ended";

impl Tree {
    /// A guest has returned, or its execution is made to end. Calls that were not started are
    /// dropped; calls that run are cancelled and awaited.
    pub(crate) fn end(&mut self, cx: Cx<'_>, key: &JournalKey, verdict: PendingEnd) {
        self.drop_guest(key);
        let execution = self.execution(key);
        execution.unstarted.clear();
        let begun = |open: &OpenInvoke| open.phase != InvokePhase::Scheduled;
        let open: Vec<_> = execution.journal.open_invokes().filter(begun).collect();
        let left: BTreeSet<u32> = open.iter().map(|open| number(&open.promise_id)).collect();
        let settled = left.is_empty();
        self.execution(key).phase = Phase::Ending { verdict, left };
        self.touch(key);
        if settled {
            return self.conclude(cx, key);
        }
        for open in open {
            let child = number(&open.promise_id);
            match open.kind {
                InvokeKind::Function if self.execution(key).lost.contains(&child) => {
                    self.work.push_back(Work::Lost(key.clone(), child));
                }
                InvokeKind::Function => {
                    self.work.push_back(Work::Cancel(key.clone(), child, ENDED.to_owned()));
                }
                // One at a time: there may be more of them than one commit has room for.
                InvokeKind::Http => self.work.push_back(Work::Close(key.clone(), child)),
            }
        }
    }

    /// The caller of an effect ends (C-40). Four cases: (1) in flight: awaited; (2) unresolved:
    /// over as Indeterminate; (3) waiting for its next attempt: over without it; (4) in flight in a
    /// process that died: settled as lost.
    pub(crate) fn close_effect(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) {
        let promise = key.execution_id().child(child);
        let Some(execution) = self.find(key) else { return };
        if !matches!(execution.phase, Phase::Ending { .. }) {
            return;
        }
        let Some(open) = execution.journal.open_invoke(&promise) else { return };
        if execution.unresolved.contains_key(&child) {
            self.close_unresolved(cx, key, child);
        } else if matches!(open.phase, InvokePhase::Retrying { .. }) {
            self.settle_unbegun(cx, key, child, ENDED);
        } else if execution.lost.contains(&child) {
            self.work.push_back(Work::Lost(key.clone(), child));
        }
    }

    /// A call of an execution is over.
    pub(crate) fn child_ended(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) {
        let execution = self.execution(key);
        match &mut execution.phase {
            Phase::Ending { left, .. } => {
                left.remove(&child);
                if left.is_empty() {
                    self.conclude(cx, key);
                }
            }
            _ => self.wake(cx, key),
        }
    }

    /// Nothing is in flight any more: writes the terminal entry, or begins another attempt.
    fn conclude(&mut self, cx: Cx<'_>, key: &JournalKey) {
        // The end and its consequence for the caller are one commit, so the caller must be loaded
        // before the end is written.
        if let Some(caller) = caller(key)
            && let Err(error) = self.load(cx, &caller)
        {
            return self.hold(key, format!("the caller cannot be loaded: {error}"));
        }
        let execution = self.execution(key);
        let Phase::Ending { verdict, .. } = std::mem::replace(&mut execution.phase, Phase::Ended)
        else {
            return;
        };
        let cleanup_due = execution.cleanup_due.take();
        // The timers of a volatile execution are in no batch, and all of them must go.
        let most = if execution.volatile { usize::MAX } else { TIMERS_DELETED_MAX };
        let timers: Vec<_> = execution.journal.open_timers().take(most).collect();
        for timer in timers {
            let child = Some(number(&timer.promise_id));
            self.delete_timer(Timer { due: timer.fire_at, key: key.clone(), child });
        }
        if let Some(due) = cleanup_due {
            self.delete_timer(Timer { due, key: key.clone(), child: None });
        }
        let ended = match verdict {
            PendingEnd::Broken(failure) => self.attempt_failed(cx, key, failure),
            PendingEnd::Returned { result: Err(failure), told_cancelled: false }
                if failure.kind == ErrorKind::Transient =>
            {
                self.attempt_failed(cx, key, failure)
            }
            verdict => self.final_event(cx, key, verdict).map(Some),
        };
        match ended {
            Ok(Some(outcome)) => self.tell_caller(cx, key, outcome),
            Ok(None) => {}
            Err(violation) => {
                self.breaks(key, &violation);
            }
        }
    }

    /// An attempt failed: another follows, or the failure is the outcome (C-28, C-32).
    fn attempt_failed(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        failure: Failure,
    ) -> Result<Option<Outcome>, Violation> {
        let failure = self.known_or_not(key, failure);
        let retry_at = self.retry_at(cx, key, &failure);
        let then = match retry_at {
            Ok(at) => AfterFailure::Again(at.saturating_since(cx.now)),
            Err(why) => AfterFailure::Over(why),
        };
        self.notices.push(Notice::AttemptFailed(key.clone(), failure.clone(), then));
        let entry = self.execution(key).journal.fail(cx.now, failure.clone())?;
        self.terminal(key, entry);
        match retry_at {
            Ok(retry_at) => {
                self.next_attempt(cx, key, failure, retry_at)?;
                Ok(None)
            }
            Err(_) => Ok(Some(failure.into())),
        }
    }

    /// Writes the terminal entry of an execution that is over for good; returns the outcome for its
    /// caller.
    fn final_event(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        verdict: PendingEnd,
    ) -> Result<Outcome, Violation> {
        let now = cx.now;
        let journal = &mut self.execution(key).journal;
        let asked = journal.cancel_requested().map(|(_, reason)| reason.to_owned());
        // A cancelled execution with an effect that may have happened ends as Indeterminate, not as
        // cancelled (C-24).
        let unknown = journal.cancel_requested().map(|(at, _)| at);
        let unknown = unknown.is_some_and(|at| journal.has_indeterminate_since(at));
        let cancel = |reason: String| (Failure::new(ErrorKind::Cancelled, &reason).into(), reason);
        let cancelled = matches!(
            verdict,
            PendingEnd::Returned { told_cancelled: true, .. } | PendingEnd::OutOfTime
        );
        if let (true, true, Some(asked)) = (cancelled, unknown, &asked) {
            let why = if asked.is_empty() { String::new() } else { format!(" ({asked})") };
            let message = format!("the execution was cancelled{why}, and {UNKNOWN}");
            let failure = Failure::new(ErrorKind::Indeterminate, message);
            let entry = journal.fail(now, failure.clone())?;
            self.terminal(key, entry);
            return Ok(failure.into());
        }
        let (outcome, entry) = match (verdict, asked) {
            (PendingEnd::Returned { result, told_cancelled: true }, Some(asked)) => {
                // Whatever it returned is the end of its cleanup (C-22). An error says that the
                // cleanup went wrong, which an operator wants to know.
                let reason = match result {
                    Err(failure) if failure.kind != ErrorKind::Cancelled => {
                        format!("{asked} (while cleaning up: {failure})")
                    }
                    _ => asked,
                };
                let (outcome, reason) = cancel(reason);
                (outcome, journal.cancel(now, reason)?)
            }
            (PendingEnd::OutOfTime, Some(asked)) => {
                let (outcome, reason) =
                    cancel(format!("{asked} (the time limit for cleaning up passed)"));
                (outcome, journal.cancel(now, reason)?)
            }
            (PendingEnd::Returned { result: Ok(payload), .. }, _) => {
                (Outcome::Ok(payload.clone()), journal.complete(now, payload)?)
            }
            (
                PendingEnd::Returned { result: Err(failure), .. }
                | PendingEnd::Broken(failure)
                | PendingEnd::Failed(failure),
                _,
            ) => (failure.clone().into(), journal.fail(now, failure)?),
            (PendingEnd::OutOfTime, None) => {
                let failure =
                    Failure::new(ErrorKind::Timeout, "the time limit for cleaning up passed");
                (failure.clone().into(), journal.fail(now, failure)?)
            }
        };
        self.terminal(key, entry);
        Ok(outcome)
    }

    fn terminal(&mut self, key: &JournalKey, entry: Entry) {
        self.execution(key).phase = Phase::Ended;
        self.written(key, [entry]);
    }

    /// Observers learn that an execution is over. Its caller, if it has one, is loaded.
    pub(crate) fn has_ended(&mut self, cx: Cx<'_>, key: &JournalKey) -> Ending {
        let created_at = self.execution(key).created_at();
        let since = match caller(key) {
            _ if key.attempts().own() == Attempt::FIRST => created_at,
            None => self.operation_accepted_at(cx, key),
            Some(caller) => {
                let promise = key.execution_id().as_promise();
                let call = self.execution(&caller).journal.open_invoke(promise);
                call.map_or(created_at, |call| call.scheduled_time)
            }
        };
        let journal = &self.execution(key).journal;
        let ending = journal.ending().cloned().expect("it has just ended");
        let started = journal.started().expect("what has ended has started");
        let end = ExecutionEnd {
            key: key.clone(),
            ending: ending.clone(),
            function: started.function_name.clone(),
            took: journal.last_timestamp().saturating_since(since),
        };
        self.pending.events.push(Event::Ended(Box::new(end)));
        ending
    }

    /// The outcome goes into the caller's journal, in the same commit. The outcome of a root goes
    /// to the callers that wait for it.
    pub(crate) fn tell_caller(&mut self, cx: Cx<'_>, key: &JournalKey, outcome: Outcome) {
        let ending = self.has_ended(cx, key);
        let Some(caller) = caller(key) else {
            if self.execution(key).volatile
                && let Err(violation) = self.leave_end(key)
            {
                return self.breaks(key, &violation);
            }
            self.answer_asker(key, &ending);
            self.operation_ended(cx, key);
            return;
        };
        self.land(&caller, number(key.execution_id().as_promise()));
        let weight = match &outcome {
            Outcome::Ok(payload) => payload.bytes.len(),
            Outcome::Err(_) => 0,
        };
        let promise = key.execution_id().as_promise();
        let now = cx.now;
        match self.execution(&caller).journal.complete_invoke(now, promise, outcome) {
            Ok(entry) => {
                self.written(&caller, [entry]);
                self.add_weight(weight);
                self.child_ended(cx, &caller, number(promise));
            }
            Err(violation) => {
                self.breaks(&caller, &violation);
            }
        }
    }
}
