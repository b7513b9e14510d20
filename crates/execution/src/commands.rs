//! Inputs from outside a tree. A request is answered when the commit of its changes has a position;
//! the caller waits until that position is durable (D2).

use std::sync::Arc;

use indelible_journal::{
    Attempt, Attempts, AwaitKind, ErrorKind, ExecutionId, Failure, InvokeKind, Journal, JournalKey,
    RetryClass, Status,
};
use indelible_machine::CallerId;
use indelible_operations::retention::Age;
use indelible_operations::state::Decision;
use indelible_records::executions::{self, Standing};
use indelible_records::idempotency_keys::{Answer, CancelOutcome};
use indelible_records::operations;
use indelible_records::timers::Timer;
use indelible_store::ReadError;

use crate::Tree;
use crate::audit::{Actor, AuditSubject};
use crate::context::Cx;
use crate::duplicates::{Known, OperationAttempt, Progress, decide};
use crate::execution::{Execution, PendingEnd, Phase};
use crate::input::{
    Cancel, CommandRefusal, How, Input, Reply, Request, Signal, Start, StartReply, StuckDecision,
};
use crate::keys::{self, KeyedRequest};
use crate::load::LoadError;
use crate::operation::{Change, OperationRequest};
use crate::output::{Notice, Severity};
use crate::tree::Work;
use crate::volatile::is_volatile;

impl Tree {
    /// Handles one input.
    pub(crate) fn handle(&mut self, cx: Cx<'_>, input: Input) {
        match input {
            Input::Asked(asker, request) => self.handle_request(cx, asker, request),
            Input::Due(timer) => self.due(cx, timer),
            Input::DueInMemory(timer) => self.due_in_memory(cx, &timer),
            Input::Recover(entry, under_way) => self.recover(cx, &entry, under_way),
            Input::Stopped(key, stop) => self.stopped(cx, &key, stop),
            Input::Evicted(key) => self.evicted(&key),
            Input::StartEffect(key, child, attempt, permit) => {
                // An attempt may have asked for a permit twice: the second permit must not begin
                // the next attempt, which has a time of its own.
                if self.load(cx, &key).is_ok() && self.is_next(&key, child, attempt) {
                    self.start_effect(cx, &key, child, permit);
                }
            }
            Input::EffectReport(ended) => self.effect_ended(cx, *ended),
            Input::ReconcilerReply(answer) => self.reconciled(cx, *answer),
            Input::Release(execution) => self.release_root(&execution),
            Input::Keep => self.kept = true,
            Input::Nudge(execution) => self.nudge(cx, &execution),
        }
    }

    fn handle_request(&mut self, cx: Cx<'_>, asker: CallerId, request: Request) {
        let (done, under) = match request {
            Request::Start(start) => return self.admit_start(cx, asker, *start),
            Request::View(execution) => {
                let viewed = self.view(cx, &execution);
                if let Err(LoadError::Read(error)) = &viewed
                    && !error.is_damage()
                {
                    let message = "execution cannot be read";
                    self.trouble(Severity::Warning, message, &execution, error);
                }
                return self.reply_after_commit(asker, Reply::TreeView(viewed));
            }
            Request::IsVolatile(execution) => {
                let volatile = self.is_live_in_memory(&execution);
                return self.reply_after_commit(asker, Reply::Volatile(volatile));
            }
            Request::RootOperation => {
                let operation = self.root_operation();
                return self.reply_after_commit(asker, Reply::Operation(operation));
            }
            Request::Signal(signal) => (self.signal(cx, &signal), signal.under),
            Request::Cancel(cancel) => (self.cancel(cx, &cancel), cancel.under),
            Request::StuckDecision(settle) => (self.settle(cx, &settle), settle.under),
            Request::Resolve(resolve) => (self.resolve(cx, &resolve), resolve.under),
        };
        self.answer_under(cx, asker, under.as_ref(), done);
    }

    /// Answers a request that may have come under a key. The key's record is in the commit of what
    /// was done; a refused request leaves no record (I-11).
    fn answer_under(
        &mut self,
        cx: Cx<'_>,
        asker: CallerId,
        under: Option<&KeyedRequest>,
        done: Result<Answer, CommandRefusal>,
    ) {
        if let (Some(under), Ok(answer)) = (under, &done) {
            self.pending.keys.push(keys::done(cx.expires_at(None), under, *answer));
        }
        self.reply_after_commit(asker, Reply::Done(done));
    }

    /// Starts the root of this tree. The start and the root's first run are one commit (D1), which
    /// the store refuses if the operation has a record meanwhile.
    ///
    /// Five cases: (1) no record and nothing in memory: a new root; (2) the caller knew of a
    /// volatile root that is gone, and it is `idem`: it runs again; (3) it is not `idem`:
    /// Indeterminate; (4) it goes on: attach; (5) anything else: another start came after admission
    /// looked.
    pub(crate) fn admit_start(&mut self, cx: Cx<'_>, asker: CallerId, start: Start) {
        let Some(mut start) = self.admits_now(asker, start) else { return };
        let execution = ExecutionId::root_of(start.request.root);
        let meets = match self.meets(cx, &start) {
            Ok(meets) => meets,
            Err(error) => {
                let (why, damage) = (format!("{execution:#}: {error}"), error.is_damage());
                if !damage {
                    let message = "execution cannot be read";
                    self.trouble(Severity::Warning, message, &execution, &error);
                }
                return self.reply_after_commit(asker, Reply::Unreadable { why, damage });
            }
        };
        let begun = match (start.again, meets) {
            (false, None) if self.in_memory(&execution).is_none() => Ok(Attempt::FIRST),
            (true, Some((Decision::RunAgain, attempt))) => Ok(attempt),
            (true, Some((Decision::Attach, _))) => Err(StartReply::Already(execution.clone())),
            (true, Some((Decision::Refuse(_), _))) => Err(StartReply::Indeterminate),
            // The root has begun, or ended, since admission looked, perhaps in this very turn:
            // admission looks again when that commit is accepted.
            _ => Err(StartReply::Raced),
        };
        let attempt = match begun {
            Ok(attempt) => attempt,
            Err(begun) => {
                self.kept |= start.kept;
                return self.reply_after_commit(asker, Reply::Begun(begun));
            }
        };
        let attempts = Attempts::new(&[attempt]).expect("one attempt is not too many");
        let key = JournalKey::new(execution.clone(), attempts).expect("a root has one attempt");
        start.started.attempts = key.attempts().clone();
        let bytes = start.started.input.bytes.len();
        let volatile = start.started.retry_policy.as_deref().is_some_and(is_volatile);
        let (journal, entry) = match Journal::start(key.clone(), cx.now, start.started) {
            Ok(begun) => begun,
            Err(violation) => {
                let why = format!("the journal refused the start: {violation}");
                self.trouble(
                    Severity::Error,
                    "start breaks a journal rule",
                    &execution,
                    &violation,
                );
                return self.reply_after_commit(asker, Reply::Unreadable { why, damage: false });
            }
        };
        let run = if volatile { asker.0 } else { 0 };
        let keyed = start.request.keyed.as_ref();
        let idempotency_key = keyed.map(|keyed| Arc::from(keyed.key.value()));
        let bytes = bytes + start.labels.bytes();
        let root = Execution {
            volatile,
            run,
            idempotency_key,
            labels: start.labels,
            ..Execution::new(journal, Phase::Ready)
        };
        self.executions.insert(key.clone(), root);
        self.kept = start.kept;
        self.written(&key, [entry]);
        self.add_weight(bytes);
        self.ready(&key);
        if start.again {
            return self.reply_after_commit(asker, Reply::Begun(StartReply::Already(execution)));
        }
        if let Some(actor) = &start.actor {
            self.audit(cx, actor, &key, "start", "");
        }
        let OperationRequest { operation, keyed, .. } = &start.request;
        // A record that another start has stored under the same key makes the store refuse the
        // commit; admission then looks again.
        self.pending.key = keyed
            .as_ref()
            .map(|keyed| keys::begun(&operation.namespace, keyed, &operation.operation_id));
        self.pending.operation = Some(Change::begun(&start.request, cx.now));
        self.reply_after_commit(asker, Reply::Begun(StartReply::New(execution)));
    }

    /// The decision about a start whose operation has a record, and the attempt that the record
    /// names. Only the tree knows whether a volatile root goes on: nothing of it is stored before
    /// its end.
    fn meets(
        &self,
        cx: Cx<'_>,
        start: &Start,
    ) -> Result<Option<(Decision<()>, Attempt)>, ReadError> {
        let OperationRequest { operation, root, binding, .. } = &start.request;
        let stored = match &self.pending.operation {
            Some(change) => Some(change.after.clone()),
            None => operations::get(&cx.reads, operation)?.value,
        };
        let Some(stored) = stored else { return Ok(None) };
        let class = start.started.retry_policy.as_ref().map(|policy| policy.class);
        let progress = if !stored.is_in_progress() {
            Progress::Ended
        } else if self.is_live_in_memory(&ExecutionId::root_of(*root)) {
            Progress::GoesOn
        } else {
            Progress::NotInMemory
        };
        let class = class.unwrap_or(RetryClass::PERSIST);
        // Admission compared the bindings when it found the record.
        let known = Known { binding: *binding, class, progress };
        let asked = OperationAttempt { binding: *binding, age: Age::Fresh };
        Ok(Some((decide(Some(&known), &asked), stored.record.attempt)))
    }

    /// Loads the last attempt at an execution, to which signals and cancels go.
    pub(crate) fn latest(
        &mut self,
        cx: Cx<'_>,
        id: &ExecutionId,
    ) -> Result<JournalKey, CommandRefusal> {
        let broken = |error: LoadError| match error.is_damage() {
            true => CommandRefusal::Damaged(error.to_string()),
            false => CommandRefusal::Broken(error.to_string()),
        };
        let stored = executions::latest(&cx.reads, id).map_err(|error| broken(error.into()))?;
        let mut key = match stored.value {
            Some(row) if row.standing.is_terminal() => return Err(over(row.standing)),
            Some(row) => row.key,
            // The execution may have begun in this very turn, or be volatile.
            None => self.in_memory(id).unwrap_or_else(|| JournalKey::first(id.clone())),
        };
        // Memory may be ahead of the store, by this turn's changes.
        while let Some(next) = key.next_attempt()
            && self.executions.contains_key(&next)
        {
            key = next;
        }
        match self.load(cx, &key) {
            Ok(()) => Ok(key),
            Err(LoadError::Absent) => Err(CommandRefusal::Unknown),
            Err(error) => Err(broken(error)),
        }
    }

    /// Wakes the guest: it checks its wait, and waits again if nothing has come.
    fn nudge(&mut self, cx: Cx<'_>, id: &ExecutionId) {
        let Ok(key) = self.latest(cx, id) else { return };
        if matches!(self.execution(&key).phase, Phase::Waiting) {
            self.ready(&key);
        }
    }

    fn signal(&mut self, cx: Cx<'_>, signal: &Signal) -> Result<Answer, CommandRefusal> {
        let key = self.latest(cx, &signal.execution)?;
        if self.execution(&key).volatile {
            return Err(CommandRefusal::Volatile);
        }
        let journal = &mut self.execution(&key).journal;
        let most = cx.limits.signals_buffered_max;
        // A signal that is waited for is read at once. A buffer full of other signals must not keep
        // it out, or only a cancel could end the wait.
        let awaited = match journal.status() {
            Some(Status::Blocked {
                kind: AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. },
                ..
            }) => *name == signal.name,
            _ => false,
        };
        if !awaited && journal.unread_signals() >= most {
            return Err(CommandRefusal::Full(most));
        }
        let most = cx.limits.signals_buffered_bytes_max;
        let bytes = journal.unread_signal_bytes().saturating_add(signal.payload.bytes.len());
        if !awaited && bytes > most {
            return Err(CommandRefusal::FullBytes(most));
        }
        let now = cx.now;
        let payload = signal.payload.clone();
        let delivered = match journal.deliver_signal(now, &signal.name, payload) {
            Ok(Some(delivered)) => delivered,
            Ok(None) => return Err(over(self.execution(&key).standing())),
            Err(violation) => return Err(CommandRefusal::Broken(violation.to_string())),
        };
        let (delivery, entry) = delivered;
        self.written(&key, [entry]);
        self.add_weight(signal.payload.bytes.len());
        if let Some(actor) = &signal.actor {
            let note = format!("signal {} #{delivery}", signal.name);
            self.audit(cx, actor, &key, "signal", &note);
        }
        self.wake(cx, &key);
        Ok(Answer::Delivered(delivery))
    }

    fn cancel(&mut self, cx: Cx<'_>, cancel: &Cancel) -> Result<Answer, CommandRefusal> {
        let key = self.latest(cx, &cancel.execution)?;
        let standing = self.execution(&key).standing();
        if standing.is_terminal() {
            return Err(over(standing));
        }
        let requested = self.request_cancel(cx, &key, &cancel.reason);
        if requested && let Some(actor) = &cancel.actor {
            self.audit(cx, actor, &key, "cancel", &cancel.reason);
        }
        Ok(Answer::Cancelling(if requested {
            CancelOutcome::Requested
        } else {
            CancelOutcome::Already
        }))
    }

    /// A timer is due: a sleep is over, a call is tried again, an attempt begins, or the time to
    /// clean up is over. A timer that comes too late is only deleted.
    fn due(&mut self, cx: Cx<'_>, timer: Timer) {
        let over = |key| {
            executions::get(&cx.reads, key)
                .is_ok_and(|row| row.value.is_some_and(|row| row.standing.is_terminal()))
        };
        if self.find(&timer.key).is_none() && over(&timer.key) {
            return self.delete_timer(timer);
        }
        match (self.load(cx, &timer.key), timer.child) {
            (Ok(()), None) => {
                if self.own_time(cx, &timer) {
                    return self.keep_timer(timer);
                }
            }
            (Ok(()), Some(child)) => {
                if self.child_time(cx, &timer, child) {
                    return self.keep_timer(timer);
                }
            }
            // The execution was purged with its tree.
            (Err(LoadError::Absent), _) => {}
            // The timer stays, and fires when the operator has repaired the store.
            (Err(_), _) => return self.keep_timer(timer),
        }
        self.delete_timer(timer);
    }

    /// Handles a timer of the execution itself. True: the timer's row stays.
    pub(crate) fn own_time(&mut self, cx: Cx<'_>, timer: &Timer) -> bool {
        match self.execution(&timer.key).phase {
            Phase::PendingAttempt => {
                self.run_rested(cx, &timer.key);
                false
            }
            _ => self.cleanup_is_over(cx, &timer.key, timer.due),
        }
    }

    /// Handles a timer of one of its children. True: the timer's row stays.
    pub(crate) fn child_time(&mut self, cx: Cx<'_>, timer: &Timer, child: u32) -> bool {
        let key = &timer.key;
        let promise = key.execution_id().child(child);
        let execution = self.execution(key);
        if let Some(open) = execution.journal.open_invoke(&promise) {
            return match open.kind {
                InvokeKind::Http => self.effect_time(cx, timer, &open, child),
                InvokeKind::Function => {
                    self.retry_child(cx, timer, child);
                    false
                }
            };
        }
        let over = matches!(execution.phase, Phase::Ended | Phase::Ending { .. });
        if over || !execution.journal.is_timer_open(&promise) {
            return false;
        }
        match execution.journal.fire_timer(cx.now, &promise) {
            Ok(entry) => {
                self.written(key, [entry]);
                self.wake(cx, key);
            }
            Err(violation) => {
                self.breaks(key, &violation);
            }
        }
        false
    }

    /// A person decides about a stuck execution (C-25).
    fn settle(&mut self, cx: Cx<'_>, settle: &StuckDecision) -> Result<Answer, CommandRefusal> {
        let key = self.latest(cx, &settle.execution)?;
        let execution = self.execution(&key);
        if execution.standing().is_terminal() {
            return Err(over(execution.standing()));
        }
        let Phase::Stuck { why } = &execution.phase else { return Err(CommandRefusal::NotStuck) };
        let why = why.clone();
        let action = match settle.how {
            How::Release => {
                self.notices.push(Notice::Released(key.clone()));
                let execution = self.execution(&key);
                execution.phase = Phase::Waiting;
                if !matches!(execution.journal.status(), Some(Status::Blocked { .. })) {
                    self.ready(&key);
                }
                // Calls that had not begun when the execution became stuck, perhaps in an earlier
                // process.
                let starts: Vec<u32> = self.execution(&key).unstarted.keys().copied().collect();
                self.work.extend(starts.into_iter().map(|child| Work::Start(key.clone(), child)));
                self.queue_lost_effects(&key);
                self.begin_due(cx, &key);
                self.touch(&key);
                if self.execution(&key).journal.cancel_requested().is_some() {
                    // The time to clean up may have passed while the guest was not able to run.
                    self.limit_cleanup(cx, &key);
                }
                self.wake(cx, &key);
                "release"
            }
            How::Fail => {
                let failure = Failure::new(ErrorKind::Nondeterminism, why);
                self.end(cx, &key, PendingEnd::Failed(failure));
                "fail"
            }
        };
        self.audit(cx, &settle.actor, &key, action, &settle.reason);
        Ok(Answer::Done)
    }

    fn audit(&mut self, cx: Cx<'_>, actor: &Actor, key: &JournalKey, did: &str, why: &str) {
        let about = AuditSubject::Execution(key.clone());
        self.pending.audit.push(crate::audit::entry(
            cx.surroundings,
            cx.now,
            actor,
            about,
            did,
            why,
        ));
    }
}

fn over(standing: Standing) -> CommandRefusal {
    CommandRefusal::Over(match standing {
        Standing::Completed => "it completed",
        Standing::Failed => "it failed",
        Standing::Indeterminate => "its outcome is unknown",
        _ => "it was cancelled",
    })
}
