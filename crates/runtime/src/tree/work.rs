//! What a tree does next, in the order of arrival: run a guest, start a call, pass on a cancel
//! (J-76). Guests run outside the tree's lock: [`Tree::take`] hands one out, [`Tree::stopped`]
//! takes it back.

use std::sync::atomic::Ordering;

use indelible_journal::{
    ComponentDigest, InvokeKind, Journal, JournalKey, Limits, OpenInvoke, Payload, Replay, Started,
};

use indelible_records::queue::{self, Entry};

use super::cancel::NOT_BEGUN;
use super::execution::{Execution, Phase, Verdict, callee, number};
use super::volatile::is_volatile;
use super::{LoadError, Tree, Work};
use crate::guest::{Guest, Stop};
use crate::parking::Parked;
use crate::recovery::UnderWay;
use crate::shared::Shared;

/// A guest to run, outside the tree's lock.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: JournalKey,
    pub(crate) guest: Option<Guest>,
    /// Whether the witness has to know that it runs.
    pub(crate) noted: Noted,
    /// The version of the code.
    pub(crate) component: ComponentDigest,
    pub(crate) limits: Limits,
    pub(crate) function: String,
    /// Given to a guest that starts.
    pub(crate) input: Payload,
}

impl Tree {
    /// Does what can be done under the lock, up to the next guest that is to run, or until so much
    /// has changed that it has to be submitted.
    pub(crate) fn take(&mut self, shared: &Shared) -> Option<Job> {
        while !self.is_full()
            && let Some(work) = self.work.pop_front()
        {
            let key = match work {
                Work::Run(key) => key,
                Work::Start(caller, child) if self.is_effect(&caller, child) => {
                    self.start_effect(shared, &caller, child);
                    continue;
                }
                Work::Start(caller, child) => match self.start_child(shared, &caller, child) {
                    Some(key) => key,
                    None => continue,
                },
                Work::Close(caller, child) => {
                    self.close_effect(shared, &caller, child);
                    continue;
                }
                Work::Lost(caller, child) => {
                    self.effect_lost(shared, &caller, child);
                    continue;
                }
                Work::Cancel(caller, child, reason) => {
                    self.cancel_child(shared, &caller, child, &reason);
                    continue;
                }
            };
            if let Some(job) = self.job(shared, &key) {
                return Some(job);
            }
        }
        None
    }

    /// Whether a child of an execution is an effect and not a call.
    pub(super) fn is_effect(&mut self, key: &JournalKey, child: u32) -> bool {
        let promise = key.execution_id().child(child);
        let open = self.find(key).and_then(|execution| execution.journal.open_invoke(&promise));
        open.is_some_and(|open| open.kind == InvokeKind::Http)
    }

    /// The guest of an execution that is ready, or what is needed to start it.
    fn job(&mut self, shared: &Shared, key: &JournalKey) -> Option<Job> {
        let loaded = self.loaded;
        let execution = self.find(key)?;
        if !matches!(execution.phase, Phase::Ready) {
            return None;
        }
        execution.under_way = None;
        let started = execution.journal.started().expect("what is in memory has started");
        let component = started.component_digest;
        let job = Job {
            key: key.clone(),
            noted: match (execution.noted, loaded) {
                (true, _) => Noted::Already,
                (false, true) => Noted::Yes,
                (false, false) => Noted::No,
            },
            component,
            limits: started.limits,
            function: started.function_name.as_str().to_owned(),
            input: started.input.clone(),
            guest: execution.guest.take().and_then(Parked::leave),
        };
        if job.guest.is_none() {
            match Replay::begin(&execution.journal, &component) {
                Ok(replay) => {
                    if execution.row.is_some() {
                        shared.replayed.fetch_add(1, Ordering::Relaxed);
                    }
                    execution.replay = Some(replay);
                }
                Err(error) => {
                    self.hold(shared, key, error.to_string());
                    return None;
                }
            }
        }
        self.execution(key).phase = Phase::Running { woken: false, doomed: None };
        Some(job)
    }

    /// A call begins: its attempt in the caller's journal, and a journal of its own, in one
    /// commit. None if it is not to begin any more.
    fn start_child(
        &mut self,
        shared: &Shared,
        caller: &JournalKey,
        child: u32,
    ) -> Option<JournalKey> {
        let execution = self.find(caller)?;
        let input = execution.unstarted.remove(&child)?;
        let promise = caller.execution_id().child(child);
        let open = execution.journal.open_invoke(&promise)?;
        let cancelled = execution.journal.cancel_requested().map(|(at, _)| at);
        if cancelled.is_some_and(|at| open.scheduled_at < at) {
            self.settle_cancelled(shared, caller, &promise, NOT_BEGUN);
            return None;
        }
        self.begin_call(shared, caller, &open, input)
    }

    /// The same for a call that may begin now: its first attempt, or a volatile one's next.
    pub(super) fn begin_call(
        &mut self,
        shared: &Shared,
        caller: &JournalKey,
        open: &OpenInvoke,
        input: Payload,
    ) -> Option<JournalKey> {
        let promise = &open.promise_id;
        let execution = self.execution(caller);
        let started = execution.journal.started().expect("a caller has started");
        let (own, trace_parent) = (started.component_digest, started.trace_parent.clone());
        let function_name = shared.components.function_of(&open.function_name);
        let now = shared.clock.now();
        let volatile = is_volatile(&open.retry_policy);
        let again = volatile.then(|| input.clone());
        let begun = execution.journal.start_invoke(now, promise).and_then(|(attempt, entry)| {
            let key = callee(caller, promise, attempt);
            let started = Started {
                component_digest: open.retry_policy.callee.unwrap_or(own),
                function_name,
                input,
                parent_id: Some(caller.execution_id().clone()),
                idempotency_key: None,
                attempts: key.attempts().clone(),
                limits: shared.guests.options().limits,
                retry_policy: None,
                trace_parent,
            };
            let bytes = started.input.bytes.len();
            Journal::start(key, now, started).map(|(journal, first)| (entry, journal, first, bytes))
        });
        let (entry, journal, first, bytes) = match begun {
            Ok(begun) => begun,
            Err(violation) => {
                self.breaks(shared, caller, &violation);
                return None;
            }
        };
        let key = journal.key().clone();
        if let Some(input) = again {
            self.fly(caller, number(promise), key.attempts().own(), input);
        }
        self.written(caller, [entry]);
        let begun = Execution { volatile, ..Execution::new(journal, Phase::Ready) };
        self.executions.insert(key.clone(), begun);
        self.written(&key, [first]);
        self.weighs(bytes);
        Some(key)
    }

    /// A guest came back.
    pub(crate) fn stopped(&mut self, shared: &Shared, key: &JournalKey, guest: Guest, stop: Stop) {
        if self.find(key).is_none() {
            drop(guest);
            return self.guest_left(shared, key);
        }
        let execution = self.execution(key);
        let (woken, doomed) = match &mut execution.phase {
            Phase::Running { woken, doomed } => (*woken, doomed.take()),
            _ => return,
        };
        if let Some(verdict) = doomed {
            return self.end(shared, key, verdict);
        }
        match stop {
            Stop::Waiting => {
                let until = execution.journal.sleeps_until();
                execution.guest = shared.parking.park(guest, key, shared.clock.now(), until);
                if execution.guest.is_none() {
                    execution.drop_guest();
                }
                execution.phase = Phase::Waiting;
                if woken {
                    self.ready(key);
                }
            }
            Stop::Yielded => {
                execution.guest = Some(Parked::Here(guest));
                self.ready(key);
            }
            Stop::Returned(result) => {
                let told_cancelled =
                    execution.replay.as_ref().is_some_and(Replay::was_told_cancelled);
                self.returned(shared, key, Verdict::Returned { result, told_cancelled });
            }
            Stop::Trapped(failure) => self.returned(shared, key, Verdict::Broken(failure)),
            Stop::Stopped => {
                let why = execution.stuck.take();
                let why = why.unwrap_or_else(|| "its guest was stopped for no reason".to_owned());
                self.hold(shared, key, why);
            }
        }
    }

    /// A guest is over: what it ran over must be all that is recorded (C-25). A guest that traps
    /// where it did not before has diverged, too.
    fn returned(&mut self, shared: &Shared, key: &JournalKey, verdict: Verdict) {
        let execution = self.execution(key);
        let (journal, replay) = execution.guest_place();
        if let Err(divergence) = replay.finish(journal) {
            let why = match &verdict {
                Verdict::Broken(failure) => format!("{divergence} ({failure})"),
                _ => divergence.to_string(),
            };
            return self.hold(shared, key, why);
        }
        self.end(shared, key, verdict);
    }

    /// A guest that was noted has used up its slice.
    pub(crate) fn stays_noted(&mut self, key: &JournalKey) {
        if let Some(execution) = self.find(key) {
            execution.noted = true;
        }
    }

    /// A guest that was noted has come to a stop: when what it did is durable, it is struck out.
    pub(crate) fn was_noted(&mut self, key: &JournalKey) {
        if let Some(execution) = self.find(key) {
            execution.noted = false;
        }
        self.noted.push(key.clone());
    }

    /// A guest could not be started at all.
    pub(crate) fn not_started(&mut self, shared: &Shared, key: &JournalKey, why: NotStarted) {
        // The tree was not locked meanwhile: its end may have been decided, or it was forgotten.
        if self.find(key).is_none() {
            return self.guest_left(shared, key);
        }
        let Phase::Running { doomed, .. } = &mut self.execution(key).phase else { return };
        match (doomed.take(), why) {
            (Some(verdict), _) => self.end(shared, key, verdict),
            (None, NotStarted::Full) => self.ready(key),
            (None, NotStarted::Held(why)) => self.hold(shared, key, why),
        }
    }

    /// The guest of an execution was evicted while it waited: nothing else of it has to stay in
    /// memory. It may have gone on meanwhile.
    pub(crate) fn evicted(&mut self, key: &JournalKey) {
        let Some(execution) = self.find(key) else { return };
        if !matches!(execution.phase, Phase::Waiting)
            || !execution.guest.as_ref().is_some_and(Parked::is_gone)
        {
            return;
        }
        execution.drop_guest();
        if execution.is_stored_whole() {
            self.executions.remove(key);
        }
    }

    /// An execution that the stored queue names.
    pub(crate) fn recover(&mut self, shared: &Shared, entry: &Entry, under_way: UnderWay) {
        let key = &entry.key;
        // Something else may have brought it into memory, and not have known of this place.
        let unaware = self.find(key).is_some_and(|execution| {
            let idle = matches!(execution.phase, Phase::Resting | Phase::Waiting);
            idle && execution.guest.is_none() && execution.ticket.is_none()
        });
        if unaware && holds(shared, entry) {
            self.adopt(shared, key, entry.ticket);
        }
        match self.load_queued(shared, key, Some(entry.ticket)) {
            Ok(()) => {}
            // Nothing is there to be done: the entry is left for a person to look at.
            Err(LoadError::Absent) => {
                return shared.trouble(&format!("the queue names {key:#}, which does not exist"));
            }
            Err(error) => return shared.trouble(&format!("{key:#} does not go on: {error}")),
        }
        let execution = self.execution(key);
        if matches!(execution.phase, Phase::Ready) {
            execution.under_way = Some(under_way);
        }
        if execution.ticket.is_some() && !execution.has_work() {
            // It waits or is over: the next commit takes it out of the queue.
            self.touch(key);
        }
    }
}

/// Whether the stored queue has this entry.
fn holds(shared: &Shared, entry: &Entry) -> bool {
    queue::holds(&shared.store, entry).unwrap_or(false)
}

/// Whether the witness has to know that a guest runs (C-25).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It follows from nothing that a process could have died of.
    No,
    /// It does.
    Yes,
    /// It does, and runs on.
    Already,
}

/// Why a guest could not be started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// Every place for a guest is taken: it stays ready.
    Full,
    /// It cannot run here: its component is not there, or cannot be loaded (J-93).
    Held(String),
}
