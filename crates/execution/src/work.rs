//! What a tree does next, in the order of arrival: run a guest, start a call, pass on a cancel
//! (J-76). The host runs guests: [`Tree::next`] says which, and
//! [`Input::Stopped`](crate::Input::Stopped) says how the run stopped.

use indelible_journal::{
    InvokeKind, Journal, JournalKey, OpenInvoke, Payload, Replay, Started, Timestamp,
};
use indelible_machine::Guard;

use indelible_records::queue::Entry;

use crate::Tree;
use crate::cancel::NOT_BEGUN;
use crate::context::{Cx, function_of};
use crate::execution::{Execution, PendingEnd, Phase, callee, number};
use crate::guest::{GuestStart, Run, Stop};
use crate::load::LoadError;
use crate::output::{Notice, Severity};
use crate::tree::Work;
use crate::volatile::is_volatile;

impl Tree {
    /// Works through the list of work up to the next guest to run, or until so much has changed
    /// that it has to be submitted.
    pub fn next(&mut self, cx: Cx<'_>) -> Option<Run> {
        while !self.is_full()
            && let Some(work) = self.work.pop_front()
        {
            let key = match work {
                Work::Run(key) => key,
                Work::Start(caller, child) if self.is_effect(&caller, child) => {
                    self.want_effect(cx, &caller, child);
                    continue;
                }
                Work::Start(caller, child) => match self.start_child(cx, &caller, child) {
                    Some(key) => key,
                    None => continue,
                },
                Work::Close(caller, child) => {
                    self.close_effect(cx, &caller, child);
                    continue;
                }
                Work::Lost(caller, child) => {
                    self.effect_lost(cx, &caller, child);
                    continue;
                }
                Work::Cancel(caller, child, reason) => {
                    self.cancel_child(cx, &caller, child, &reason);
                    continue;
                }
            };
            if let Some(run) = self.run(&key) {
                return Some(run);
            }
        }
        None
    }

    /// Whether a child of an execution is an effect and not a call.
    pub(crate) fn is_effect(&mut self, key: &JournalKey, child: u32) -> bool {
        let promise = key.execution_id().child(child);
        let open = self.find(key).and_then(|execution| execution.journal.open_invoke(&promise));
        open.is_some_and(|open| open.kind == InvokeKind::Http)
    }

    /// Takes an execution that is ready to its guest's run.
    fn run(&mut self, key: &JournalKey) -> Option<Run> {
        let execution = self.find(key)?;
        if !matches!(execution.phase, Phase::Ready) {
            return None;
        }
        execution.under_way = Guard::NOTHING;
        execution.phase = Phase::Running { woken: false, doomed: None };
        let begins = if execution.replay.is_none() { Some(self.guest_start(key)?) } else { None };
        Some(Run { key: key.clone(), begins })
    }

    /// How a new guest of a running execution begins. None: it cannot, and the execution is stuck.
    pub fn guest_start(&mut self, key: &JournalKey) -> Option<GuestStart> {
        let execution = self.find(key)?;
        let started = execution.journal.started().expect("what is in memory has started");
        match Replay::begin(&execution.journal, &started.component_digest) {
            Ok(replay) => {
                let begins = GuestStart {
                    component: started.component_digest,
                    limits: started.limits,
                    function: started.function_name.as_str().to_owned(),
                    input: started.input.clone(),
                    replays: execution.row.is_some(),
                };
                execution.replay = Some(replay);
                Some(begins)
            }
            Err(error) => {
                self.hold(key, error.to_string());
                None
            }
        }
    }

    /// Whether the guest of an execution runs, and may go on.
    pub fn is_running(&self, key: &JournalKey) -> bool {
        let execution = self.executions.get(key);
        execution.is_some_and(|own| matches!(own.phase, Phase::Running { doomed: None, .. }))
    }

    /// When the wait of an execution's guest ends, if that is known.
    pub fn sleeps_until(&mut self, key: &JournalKey) -> Option<Timestamp> {
        self.find(key)?.journal.sleeps_until()
    }

    /// A call begins: the entry in the caller's journal and the call's own journal are one commit.
    /// None if the call must not begin any more.
    fn start_child(&mut self, cx: Cx<'_>, caller: &JournalKey, child: u32) -> Option<JournalKey> {
        let execution = self.find(caller)?;
        let input = execution.unstarted.remove(&child)?;
        let promise = caller.execution_id().child(child);
        let open = execution.journal.open_invoke(&promise)?;
        let cancelled = execution.journal.cancel_requested().map(|(at, _)| at);
        if cancelled.is_some_and(|at| open.scheduled_at < at) {
            self.settle_cancelled(cx, caller, &promise, NOT_BEGUN);
            return None;
        }
        self.begin_call(cx, caller, &open, input)
    }

    /// Begins an attempt at a call: the first one, or the next one of a volatile call.
    pub(crate) fn begin_call(
        &mut self,
        cx: Cx<'_>,
        caller: &JournalKey,
        open: &OpenInvoke,
        input: Payload,
    ) -> Option<JournalKey> {
        let promise = &open.promise_id;
        let execution = self.execution(caller);
        let started = execution.journal.started().expect("a caller has started");
        let (own, trace_parent) = (started.component_digest, started.trace_parent.clone());
        let function_name = function_of(&open.function_name);
        let now = cx.now;
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
                limits: cx.limits.guest,
                retry_policy: None,
                trace_parent,
            };
            let bytes = started.input.bytes.len();
            Journal::start(key, now, started).map(|(journal, first)| (entry, journal, first, bytes))
        });
        let (entry, journal, first, bytes) = match begun {
            Ok(begun) => begun,
            Err(violation) => {
                self.breaks(caller, &violation);
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
        self.add_weight(bytes);
        Some(key)
    }

    /// A guest stopped, or did not begin.
    pub(crate) fn stopped(&mut self, cx: Cx<'_>, key: &JournalKey, stop: Stop) {
        // The tree was not locked while the guest ran: meanwhile the end of the execution may have
        // been decided, or the execution was released.
        let Some(execution) = self.find(key) else { return self.guest_left(cx, key) };
        let (woken, doomed) = match &mut execution.phase {
            Phase::Running { woken, doomed } => (*woken, doomed.take()),
            _ => return,
        };
        if let Some(verdict) = doomed {
            return self.end(cx, key, verdict);
        }
        match stop {
            Stop::Waiting { kept } => {
                execution.phase = Phase::Waiting;
                if !kept {
                    execution.replay = None;
                }
                if woken {
                    self.ready(key);
                }
            }
            Stop::Yielded => self.ready(key),
            Stop::Returned(result) => {
                let told_cancelled =
                    execution.replay.as_ref().is_some_and(Replay::was_told_cancelled);
                self.returned(cx, key, PendingEnd::Returned { result, told_cancelled });
            }
            Stop::Trapped(failure) => self.returned(cx, key, PendingEnd::Broken(failure)),
            Stop::Refused => {
                let why = execution.stuck.take();
                let why = why.unwrap_or_else(|| {
                    "the guest was stopped without a reason (a defect of Indelible)".to_owned()
                });
                self.hold(key, why);
            }
            Stop::NoPlace => {
                execution.replay = None;
                self.ready(key);
            }
            Stop::CannotRun(why) => self.hold(key, why),
        }
    }

    /// A guest has ended: its run must have covered every entry (C-25). A guest that traps where it
    /// did not trap before has diverged, too.
    fn returned(&mut self, cx: Cx<'_>, key: &JournalKey, verdict: PendingEnd) {
        let execution = self.execution(key);
        let (journal, replay) = execution.guest_place();
        if let Err(divergence) = replay.finish(journal) {
            let why = match &verdict {
                PendingEnd::Broken(failure) => format!("{divergence} ({failure})"),
                _ => divergence.to_string(),
            };
            return self.hold(key, why);
        }
        self.end(cx, key, verdict);
    }

    /// The host has evicted the guest of a waiting execution: the rest of the execution need not
    /// stay in memory. The execution may have been woken meanwhile.
    pub(crate) fn evicted(&mut self, key: &JournalKey) {
        let Some(execution) = self.find(key) else { return };
        if !matches!(execution.phase, Phase::Waiting) {
            return;
        }
        execution.replay = None;
        if execution.is_stored_whole() {
            self.executions.remove(key);
        }
    }

    /// Goes on with an execution that the stored queue names.
    pub(crate) fn recover(&mut self, cx: Cx<'_>, entry: &Entry, under_way: Guard) {
        let key = &entry.key;
        match self.load(cx, key) {
            Ok(()) => {
                self.adopt_entry(cx, entry);
                self.resume(cx, key);
            }
            // The queue's entry is left for an operator to look at.
            Err(LoadError::Absent) => {
                let message = "stored queue names an execution that does not exist";
                let execution = key.execution_id();
                return self.trouble(Severity::Error, message, execution, &LoadError::Absent);
            }
            Err(error) => {
                let severity = if error.is_damage() {
                    Severity::Error
                } else {
                    self.notices.push(Notice::NotRecovered);
                    Severity::Warning
                };
                let message = "execution cannot be resumed";
                return self.trouble(severity, message, key.execution_id(), &error);
            }
        }
        let execution = self.execution(key);
        if matches!(execution.phase, Phase::Ready) {
            execution.under_way = under_way;
        }
        if execution.ticket.is_some() && !execution.has_work() {
            // The execution waits or is over: the next commit takes it out of the queue.
            self.touch(key);
        }
    }
}
