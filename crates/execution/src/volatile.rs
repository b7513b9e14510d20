//! Volatile executions (C-39): their journals pass the same rules and are in memory alone. Nothing of
//! one is stored while it goes on: no row, no events, no place in the queue, no timers.
//!
//! A volatile call is to its caller what an effect is: after a crash the caller's journal has it as
//! started, and nobody knows how it ended (C-41). So the caller keeps its place in the stored queue
//! while one is in flight. A volatile root leaves its first and its last event when it ends, as an
//! ordinary execution that is over.

use indelible_journal::{
    Attempt, Durability, Ending, Event, ExecutionId, Failure, InvokeKind, Journal, JournalKey,
    OpenInvoke, Payload, RetryCause, RetryPolicy, Timestamp, Violation,
};
use indelible_machine::Asker;
use indelible_records::timers::Timer;

use crate::Tree;
use crate::calls::Stopped;
use crate::context::Cx;
use crate::duplicates::is_released_by_nobody;
use crate::execution::{Phase, number};
use crate::input::Start;
use crate::output::Notice;

/// So often a volatile call may be lost with its process. Each attempt is new, so that nobody could
/// tell that it is what kills one process after another (C-85).
const LOST_MAX: u32 = 10;

/// Whether a function is volatile.
pub(crate) fn is_volatile(policy: &RetryPolicy) -> bool {
    policy.class.durability == Durability::Volatile
}

/// Whether nobody knows how a call ended that another process had in flight (C-41).
pub(crate) fn is_unknown_when_lost(kind: InvokeKind, policy: &RetryPolicy) -> bool {
    match kind {
        InvokeKind::Http => true,
        InvokeKind::Function => is_volatile(policy),
    }
}

/// Whether a call was lost so often that it may be what kills the process: only a guest can.
pub(crate) fn kills(open: &OpenInvoke, lost: Attempt) -> bool {
    let before = lost.get().saturating_sub(open.retries_counted);
    open.kind == InvokeKind::Function && before >= LOST_MAX
}

impl Tree {
    /// The guest of an execution wants to do what a volatile one may not.
    pub(crate) fn not_volatile(&mut self, key: &JournalKey, what: &str) -> Result<(), Stopped> {
        if self.execution(key).volatile {
            return Err(Stopped::Mistake(format!(
                "a volatile function may not {what}: only HTTP, time, randomness, logs and sleeps"
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

    /// A start goes on at once, unless the guest of what it would find is on a worker and on its way
    /// out: then when that has gone, because they share a journal's key.
    pub(crate) fn begins_now(&mut self, asker: Asker, start: Start) -> Option<Start> {
        if self.leaving.is_none() {
            return Some(start);
        }
        self.after_leaving.push((asker, start));
        None
    }

    /// Nobody waits any more for the root of this tree. A persist one goes on (V-19, C-24). A
    /// volatile one is released (V-13, V-18): its guest goes, and what it has in flight is abandoned
    /// as a crash would. Its record stays, and says what it would say then: asked again, it runs
    /// again if it is `idem` (V-26, V-32), and is refused if not (V-33).
    pub(crate) fn release_root(&mut self, id: &ExecutionId) {
        // A volatile call is its caller's.
        if !id.is_root() || self.kept {
            return;
        }
        let Some(key) = self.in_memory(id) else { return };
        let execution = self.execution(&key);
        // One that has ended is told again for ever, also if that is not submitted yet.
        let policy = execution.journal.started().and_then(|started| started.retry_policy.as_ref());
        let released = policy.is_some_and(|policy| is_released_by_nobody(policy.class));
        if !released || matches!(execution.phase, Phase::Ended) {
            return;
        }
        if matches!(execution.phase, Phase::Running { .. }) {
            // It finds nothing at its next call, and stops.
            self.leaving = Some(key);
        }
        // With attempts before it, which are over. Nothing else is in the tree of a volatile root.
        self.executions.clear();
        self.work.clear();
        self.drop_pending();
        self.notices.push(Notice::VolatileGone);
    }

    /// The guest of an execution that was forgotten has stopped: what waited for that goes on.
    pub(crate) fn guest_left(&mut self, cx: Cx<'_>, key: &JournalKey) {
        if self.leaving.as_ref() != Some(key) {
            return;
        }
        self.leaving = None;
        for (asker, start) in std::mem::take(&mut self.after_leaving) {
            self.begin(cx, asker, start);
        }
    }

    /// A volatile call is in flight: what it was given is kept for another attempt.
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

    /// A call is over. Of one that is not volatile nothing is kept.
    pub(crate) fn land(&mut self, caller: &JournalKey, child: u32) {
        let execution = self.execution(caller);
        execution.in_flight.remove(&child);
        execution.requests.remove(&child);
    }

    /// An attempt at a volatile call came to nothing: the next begins when its time has come, and
    /// has no journal before that.
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

    /// The time of a volatile call's next attempt has come.
    pub(crate) fn begin_again(&mut self, cx: Cx<'_>, caller: &JournalKey, open: &OpenInvoke) {
        let requests = &self.execution(caller).requests;
        let Some(input) = requests.get(&number(&open.promise_id)).cloned() else { return };
        if let Some(key) = self.begin_call(cx, caller, open, input) {
            self.ready(&key);
        }
    }

    /// A timer of a volatile execution is due. It was told once, and is nowhere any more.
    pub(crate) fn due_in_memory(&mut self, cx: Cx<'_>, timer: &Timer) {
        let Some(execution) = self.find(&timer.key) else { return };
        // It may be of an earlier run, which was released when this was on its way.
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

    /// A volatile root has ended: how it began and how it ended is what remains of it, so that its
    /// outcome can be told again (V-31, V-37).
    pub(crate) fn leave_end(&mut self, key: &JournalKey) -> Result<(), Violation> {
        let execution = self.execution(key);
        let old = &execution.journal;
        let (Some(started), Some(ending)) = (old.started(), old.ending()) else { return Ok(()) };
        let (began, ended) = (execution.began, old.last_timestamp());
        let (mut journal, first) = Journal::start(key.clone(), began, started.clone())?;
        let mut entries = vec![first];
        // An execution is cancelled if somebody asked for it.
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
