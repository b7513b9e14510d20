//! Volatile executions (C-39): their journals pass the same rules and are in memory alone. Nothing
//! of one is stored while it goes on: no row, no entries, no place in the queue, no timers.
//!
//! To its caller a volatile call is like an effect: after a crash the caller's journal has it as
//! started, and how it ended is unknown (C-41). So the caller keeps its place in the stored queue
//! while the call is in flight. A volatile root leaves its first and last entry when it ends, as an
//! ordinary execution that is over.

use indelible_journal::{
    Attempt, Durability, Ending, Event, ExecutionId, Failure, InvokeKind, Journal, JournalKey,
    OpenInvoke, Payload, RetryCause, RetryPolicy, Timestamp, Violation,
};
use indelible_machine::CallerId;
use indelible_records::timers::Timer;

use crate::Tree;
use crate::calls::CallStop;
use crate::context::Cx;
use crate::duplicates::is_released_when_unwatched;
use crate::execution::{Phase, number};
use crate::input::Start;
use crate::output::Notice;

/// How many times a volatile call may be lost with its process. Its attempts leave no trace, so
/// without this bound a call that kills its process would kill one process after another (C-85).
const LOST_MAX: u32 = 10;

/// Whether a function is volatile.
pub(crate) fn is_volatile(policy: &RetryPolicy) -> bool {
    policy.class.durability == Durability::Volatile
}

/// Whether the outcome of such a call is unknown if another process had it in flight (C-41).
pub(crate) fn is_unknown_when_lost(kind: InvokeKind, policy: &RetryPolicy) -> bool {
    match kind {
        InvokeKind::Http => true,
        InvokeKind::Function => is_volatile(policy),
    }
}

/// Whether a call was lost so often that it may be what kills the process. An effect cannot: only a
/// guest can.
pub(crate) fn kills(open: &OpenInvoke, lost: Attempt) -> bool {
    let before = lost.get().saturating_sub(open.retries_counted);
    open.kind == InvokeKind::Function && before >= LOST_MAX
}

impl Tree {
    /// The guest of an execution wants to do something that a volatile one may not.
    pub(crate) fn not_volatile(&mut self, key: &JournalKey, what: &str) -> Result<(), CallStop> {
        if self.execution(key).volatile {
            return Err(CallStop::Mistake(format!(
                "a volatile function may not {what}; it may only use HTTP, time, randomness, logs \
                 and sleeps"
            )));
        }
        Ok(())
    }

    /// The last attempt at an execution that is in memory.
    pub(crate) fn in_memory(&self, id: &ExecutionId) -> Option<JournalKey> {
        self.executions.keys().filter(|key| key.execution_id() == id).max().cloned()
    }

    /// Whether an execution goes on in memory alone.
    pub(crate) fn is_live_in_memory(&self, id: &ExecutionId) -> bool {
        let own = self.in_memory(id).and_then(|key| self.executions.get(&key));
        own.is_some_and(|own| own.volatile && !matches!(own.phase, Phase::Ended))
    }

    /// Returns the start if it can go on now. If the tree's released root still has its guest on a
    /// worker, the start is queued until that guest has stopped, because both have the same journal
    /// key.
    pub(crate) fn admits_now(&mut self, asker: CallerId, start: Start) -> Option<Start> {
        if self.leaving.is_none() {
            return Some(start);
        }
        self.after_leaving.push((asker, start));
        None
    }

    /// No caller waits any more for the root of this tree. A persist root goes on (V-19, C-24). A
    /// volatile root is released (V-13, V-18): its guest is dropped, and what it has in flight is
    /// abandoned as in a crash. Its record stays: a repeated start runs it again if it is `idem`
    /// (V-26, V-32), and is refused if not (V-33).
    pub(crate) fn release_root(&mut self, id: &ExecutionId) {
        // A volatile call belongs to its caller, and is not released by itself.
        if !id.is_root() || self.kept {
            return;
        }
        let Some(key) = self.in_memory(id) else { return };
        let execution = self.execution(&key);
        // The outcome of a root that has ended is kept, also while its commit is not submitted.
        let policy = execution.journal.started().and_then(|started| started.retry_policy.as_ref());
        let released = policy.is_some_and(|policy| is_released_when_unwatched(policy.class));
        if !released || matches!(execution.phase, Phase::Ended) {
            return;
        }
        if matches!(execution.phase, Phase::Running { .. }) {
            // The guest finds no execution at its next call, and stops.
            self.leaving = Some(key);
        }
        // This drops earlier attempts at the root, too; the tree of a volatile root holds nothing
        // else.
        self.executions.clear();
        self.work.clear();
        self.drop_pending();
        self.notices.push(Notice::VolatileGone);
    }

    /// The guest of a released root has stopped: starts that waited for that go on.
    pub(crate) fn guest_left(&mut self, cx: Cx<'_>, key: &JournalKey) {
        if self.leaving.as_ref() != Some(key) {
            return;
        }
        self.leaving = None;
        for (asker, start) in std::mem::take(&mut self.after_leaving) {
            self.admit_start(cx, asker, start);
        }
    }

    /// A volatile call is in flight: its input is kept for another attempt.
    pub(crate) fn fly(
        &mut self,
        caller: &JournalKey,
        child: u32,
        attempt: Attempt,
        input: Payload,
    ) {
        let execution = self.execution(caller);
        execution.in_flight.insert(child, attempt);
        execution.requests.insert(child, input);
    }

    /// A call is over. For a call that is not volatile this changes nothing.
    pub(crate) fn land(&mut self, caller: &JournalKey, child: u32) {
        let execution = self.execution(caller);
        execution.in_flight.remove(&child);
        execution.requests.remove(&child);
    }

    /// An attempt at a volatile call failed: the next begins at `retry_at`, and has no journal
    /// before that.
    pub(crate) fn retry_volatile(
        &mut self,
        cx: Cx<'_>,
        caller: &JournalKey,
        key: &JournalKey,
        failure: Failure,
        retry_at: Timestamp,
    ) -> Result<(), Violation> {
        let promise = key.execution_id().as_promise();
        let child = number(promise);
        let execution = self.execution(caller);
        let (now, cause) = (cx.now, RetryCause::Failed);
        let entry = execution.journal.retry_invoke(now, promise, cause, failure, retry_at)?;
        execution.in_flight.remove(&child);
        self.written(caller, [entry]);
        self.put_timer(Timer { due: retry_at, key: caller.clone(), child: Some(child) });
        Ok(())
    }

    /// The next attempt at a volatile call is due.
    pub(crate) fn begin_again(&mut self, cx: Cx<'_>, caller: &JournalKey, open: &OpenInvoke) {
        let requests = &self.execution(caller).requests;
        let Some(input) = requests.get(&number(&open.promise_id)).cloned() else { return };
        if let Some(key) = self.begin_call(cx, caller, open, input) {
            self.ready(&key);
        }
    }

    /// A timer of a volatile execution is due. The host has forgotten it already.
    pub(crate) fn due_in_memory(&mut self, cx: Cx<'_>, timer: &Timer) {
        let Some(execution) = self.find(&timer.key) else { return };
        // The timer may belong to an earlier run, which was released while the timer was on its
        // way.
        let promise = timer.child.map(|child| timer.key.execution_id().child(child));
        let fires_at = promise.and_then(|promise| execution.journal.timer_fires_at(&promise));
        if fires_at.is_some_and(|fires_at| fires_at != timer.due) {
            return;
        }
        match timer.child {
            None => self.own_time(cx, timer),
            Some(child) => self.child_time(cx, timer, child),
        };
    }

    /// A volatile root has ended: its first and last entry are stored, so that its outcome can be
    /// told again (V-31, V-37).
    pub(crate) fn leave_end(&mut self, key: &JournalKey) -> Result<(), Violation> {
        let execution = self.execution(key);
        let old = &execution.journal;
        let (Some(started), Some(ending)) = (old.started(), old.ending()) else { return Ok(()) };
        let (began, ended) = (execution.began, old.last_timestamp());
        let (mut journal, first) = Journal::start(key.clone(), began, started.clone())?;
        let mut entries = vec![first];
        // The journal accepts a cancelled end only after a request to cancel.
        let asked = old.cancel_requested().map(|(_, reason)| reason.to_owned());
        if let (Some(reason), Ending::Cancelled(_)) = (asked, ending) {
            entries.push(journal.append(ended, Event::CancelRequested { reason })?);
        }
        entries.push(match ending.clone() {
            Ending::Completed(result) => journal.complete(ended, result)?,
            Ending::Failed(failure) => journal.fail(ended, *failure)?,
            Ending::Cancelled(reason) => journal.cancel(ended, reason)?,
        });
        execution.journal = journal;
        execution.fresh = entries;
        execution.volatile = false;
        Ok(())
    }
}
