//! What comes from outside a tree. Each request is answered when the commit that holds its effect has
//! a position; its caller waits until that is durable (D2).

use indelible_journal::{
    Attempt, Attempts, AwaitKind, ErrorKind, ExecutionId, Failure, InvokeKind, Journal, JournalKey,
    RetryClass, Status,
};
use indelible_machine::Asker;
use indelible_operations::retention::Age;
use indelible_operations::state::Decision;
use indelible_records::executions::{self, Standing};
use indelible_records::idempotency_keys::{Answer, Cancelling};
use indelible_records::operations;
use indelible_records::timers::Timer;
use indelible_store::ReadError;

use crate::Tree;
use crate::audit::{About, Actor};
use crate::context::Cx;
use crate::duplicates::{Asked, Known, Progress, decide};
use crate::execution::{Execution, Phase, Verdict};
use crate::input::{Begun, Cancel, How, Input, NotDone, Reply, Request, Settle, Signal, Start};
use crate::keys::{self, UnderKey};
use crate::load::LoadError;
use crate::operation::{Change, OperationRequest};
use crate::output::Notice;
use crate::tree::Work;
use crate::volatile::is_volatile;

impl Tree {
    /// Does what came from outside.
    pub(crate) fn obey(&mut self, cx: Cx<'_>, input: Input) {
        match input {
            Input::Asked(asker, request) => self.asked(cx, asker, request),
            Input::Due(timer) => self.due(cx, timer),
            Input::DueInMemory(timer) => self.due_in_memory(cx, &timer),
            Input::Recover(entry, under_way) => self.recover(cx, &entry, under_way),
            Input::Stopped(key, stop) => self.stopped(cx, &key, stop),
            Input::Evicted(key) => self.evicted(&key),
            Input::StartEffect(key, child, attempt, permit) => {
                // It may have waited for room twice: the next attempt has a time of its own.
                if self.load(cx, &key).is_ok() && self.is_next(&key, child, attempt) {
                    self.start_effect(cx, &key, child, permit);
                }
            }
            Input::EffectEnded(ended) => self.effect_ended(cx, *ended),
            Input::Reconciled(answer) => self.reconciled(cx, *answer),
            Input::Release(execution) => self.release_root(&execution),
            Input::Keep => self.kept = true,
            Input::Nudge(execution) => self.nudge(cx, &execution),
        }
    }

    fn asked(&mut self, cx: Cx<'_>, asker: Asker, request: Request) {
        let (done, under) = match request {
            Request::Start(start) => return self.begin(cx, asker, *start),
            Request::View(execution) => {
                let viewed = self.view(cx, &execution);
                if let Err(LoadError::Read(error)) = &viewed
                    && !error.is_damage()
                {
                    self.trouble(format!("{execution:#}: {error}"));
                }
                return self.answer(asker, Reply::Viewed(viewed));
            }
            Request::IsVolatile(execution) => {
                let volatile = self.is_live_in_memory(&execution);
                return self.answer(asker, Reply::Volatile(volatile));
            }
            Request::RootOperation => {
                let operation = self.root_operation();
                return self.answer(asker, Reply::Operation(operation));
            }
            Request::Signal(signal) => (self.signal(cx, &signal), signal.under),
            Request::Cancel(cancel) => (self.cancel(cx, &cancel), cancel.under),
            Request::Settle(settle) => (self.settle(cx, &settle), settle.under),
            Request::Resolve(resolve) => (self.resolve(cx, &resolve), resolve.under),
        };
        self.answer_under(cx, asker, under.as_ref(), done);
    }

    /// Answers what may have come under a key: its record is in the commit of what was done, and what
    /// was refused leaves none (I-11).
    fn answer_under(
        &mut self,
        cx: Cx<'_>,
        asker: Asker,
        under: Option<&UnderKey>,
        done: Result<Answer, NotDone>,
    ) {
        if let (Some(under), Ok(answer)) = (under, &done) {
            self.pending.keys.push(keys::done(cx.expires_at(None), under, *answer));
        }
        self.answer(asker, Reply::Done(done));
    }

    /// Starts the root of this tree; its first run and its start are one commit (D1), and the store
    /// takes that only if its operation has no record: if it has one, another start came first.
    pub(crate) fn begin(&mut self, cx: Cx<'_>, asker: Asker, start: Start) {
        let Some(mut start) = self.begins_now(asker, start) else { return };
        let execution = ExecutionId::root_of(start.request.root);
        let meets = match self.meets(cx, &start) {
            Ok(meets) => meets,
            Err(error) => {
                let (why, damage) = (format!("{execution:#}: {error}"), error.is_damage());
                if !damage {
                    self.trouble(why.clone());
                }
                return self.answer(asker, Reply::Unreadable { why, damage });
            }
        };
        let begun = match (start.again, meets) {
            // It is new; or its caller knew of it, and it runs again.
            (false, None) if self.in_memory(&execution).is_none() => Ok(Attempt::FIRST),
            (true, Some((Decision::RunAgain, attempt))) => Ok(attempt),
            (true, Some((Decision::Attach, _))) => Err(Begun::Already(execution.clone())),
            (true, Some((Decision::Refuse(_), _))) => Err(Begun::Indeterminate),
            // It has begun, or ended, since admission looked; perhaps in this very turn: admission looks
            // again when that is accepted.
            _ => Err(Begun::Raced),
        };
        let attempt = match begun {
            Ok(attempt) => attempt,
            Err(begun) => {
                self.kept |= start.kept;
                return self.answer(asker, Reply::Begun(begun));
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
                let why = format!("a start was refused: {violation}");
                self.trouble(why.clone());
                return self.answer(asker, Reply::Unreadable { why, damage: false });
            }
        };
        let run = if volatile { asker.0 } else { 0 };
        let root = Execution { volatile, run, ..Execution::new(journal, Phase::Ready) };
        self.executions.insert(key.clone(), root);
        self.kept = start.kept;
        self.written(&key, [entry]);
        self.weighs(bytes);
        self.ready(&key);
        if start.again {
            return self.answer(asker, Reply::Begun(Begun::Already(execution)));
        }
        if let Some(actor) = &start.actor {
            self.audit(cx, actor, &key, "start", "");
        }
        let OperationRequest { operation, keyed, .. } = &start.request;
        // Somebody else's record of the same key refuses the commit: then look again.
        self.pending.key = keyed
            .as_ref()
            .map(|keyed| keys::begun(&operation.namespace, keyed, &operation.operation_id));
        self.pending.operation = Some(Change::begun(&start.request, cx.now));
        self.answer(asker, Reply::Begun(Begun::New(execution)));
    }

    /// What a request meets whose operation has a record now, and the attempt that this says. Of a volatile
    /// one only its tree knows whether it goes on: nothing of it is stored before its end.
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
        // Admission compared the requests when it found the record.
        let known = Known { binding: *binding, class, progress };
        let asked = Asked { binding: *binding, age: Age::Fresh };
        Ok(Some((decide(Some(&known), &asked), stored.record.attempt)))
    }

    /// Loads the last attempt at an execution: the one that things are sent to.
    pub(crate) fn latest(&mut self, cx: Cx<'_>, id: &ExecutionId) -> Result<JournalKey, NotDone> {
        let broken = |error: LoadError| match error.is_damage() {
            true => NotDone::Damaged(error.to_string()),
            false => NotDone::Broken(error.to_string()),
        };
        let stored = executions::latest(&cx.reads, id).map_err(|error| broken(error.into()))?;
        let mut key = match stored.value {
            Some(row) if row.standing.is_terminal() => return Err(over(row.standing)),
            Some(row) => row.key,
            // It may have begun in this very turn, or be volatile.
            None => self.in_memory(id).unwrap_or_else(|| JournalKey::first(id.clone())),
        };
        // What is in memory may be ahead of the store, by this turn's changes.
        while let Some(next) = key.next_attempt()
            && self.executions.contains_key(&next)
        {
            key = next;
        }
        match self.load(cx, &key) {
            Ok(()) => Ok(key),
            Err(LoadError::Absent) => Err(NotDone::Unknown),
            Err(error) => Err(broken(error)),
        }
    }

    /// The guest looks for itself, and waits again if there is nothing.
    fn nudge(&mut self, cx: Cx<'_>, id: &ExecutionId) {
        let Ok(key) = self.latest(cx, id) else { return };
        if matches!(self.execution(&key).phase, Phase::Waiting) {
            self.ready(&key);
        }
    }

    fn signal(&mut self, cx: Cx<'_>, signal: &Signal) -> Result<Answer, NotDone> {
        let key = self.latest(cx, &signal.execution)?;
        if self.execution(&key).volatile {
            return Err(NotDone::Volatile);
        }
        let journal = &mut self.execution(&key).journal;
        let most = cx.limits.signals_buffered_max;
        // One that is waited for is read at once: a buffer full of others must not keep it out, or
        // nothing but a cancel could end the wait.
        let awaited = match journal.status() {
            Some(Status::Blocked {
                kind: AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. },
                ..
            }) => *name == signal.name,
            _ => false,
        };
        if !awaited && journal.unread_signals() >= most {
            return Err(NotDone::Full(most));
        }
        let most = cx.limits.signals_buffered_bytes_max;
        let bytes = journal.unread_signal_bytes().saturating_add(signal.payload.bytes.len());
        if !awaited && bytes > most {
            return Err(NotDone::FullBytes(most));
        }
        let now = cx.now;
        let payload = signal.payload.clone();
        let delivered = match journal.deliver_signal(now, &signal.name, payload) {
            Ok(Some(delivered)) => delivered,
            Ok(None) => return Err(over(self.execution(&key).standing())),
            Err(violation) => return Err(NotDone::Broken(violation.to_string())),
        };
        let (delivery, entry) = delivered;
        self.written(&key, [entry]);
        self.weighs(signal.payload.bytes.len());
        if let Some(actor) = &signal.actor {
            let note = format!("signal {} #{delivery}", signal.name);
            self.audit(cx, actor, &key, "signal", &note);
        }
        self.wake(cx, &key);
        Ok(Answer::Delivered(delivery))
    }

    fn cancel(&mut self, cx: Cx<'_>, cancel: &Cancel) -> Result<Answer, NotDone> {
        let key = self.latest(cx, &cancel.execution)?;
        let standing = self.execution(&key).standing();
        if standing.is_terminal() {
            return Err(over(standing));
        }
        let requested = self.request_cancel(cx, &key, &cancel.reason);
        if requested && let Some(actor) = &cancel.actor {
            self.audit(cx, actor, &key, "cancel", &cancel.reason);
        }
        Ok(Answer::Cancelling(if requested { Cancelling::Requested } else { Cancelling::Already }))
    }

    /// A timer is due: a sleep is over, a call is tried again, an attempt begins, or the time to
    /// clean up is over. Some come too late and mean nothing.
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
            // Its execution went with its tree.
            (Err(LoadError::Absent), _) => {}
            // It stays: whoever mends the store wants it to fire.
            (Err(_), _) => return self.keep_timer(timer),
        }
        self.delete_timer(timer);
    }

    /// True: the timer's row stays.
    pub(crate) fn own_time(&mut self, cx: Cx<'_>, timer: &Timer) -> bool {
        match self.execution(&timer.key).phase {
            Phase::Resting => {
                self.run_rested(cx, &timer.key);
                false
            }
            _ => self.cleanup_is_over(cx, &timer.key, timer.due),
        }
    }

    /// True: the timer's row stays.
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

    /// A person decides about a held execution (C-25).
    fn settle(&mut self, cx: Cx<'_>, settle: &Settle) -> Result<Answer, NotDone> {
        let key = self.latest(cx, &settle.execution)?;
        let execution = self.execution(&key);
        if execution.standing().is_terminal() {
            return Err(over(execution.standing()));
        }
        let Phase::Held { why } = &execution.phase else { return Err(NotDone::NotHeld) };
        let why = why.clone();
        let action = match settle.how {
            How::Release => {
                self.notices.push(Notice::Released(key.clone()));
                let execution = self.execution(&key);
                execution.phase = Phase::Waiting;
                if !matches!(execution.journal.status(), Some(Status::Blocked { .. })) {
                    self.ready(&key);
                }
                // Calls that had not begun when it was held, perhaps by an earlier process.
                let starts: Vec<u32> = self.execution(&key).unstarted.keys().copied().collect();
                self.work.extend(starts.into_iter().map(|child| Work::Start(key.clone(), child)));
                self.lose(&key);
                self.begin_due(cx, &key);
                self.touch(&key);
                if self.execution(&key).journal.cancel_requested().is_some() {
                    // The time that it had may have passed while nobody could clean up.
                    self.limit_cleanup(cx, &key);
                }
                self.wake(cx, &key);
                "release"
            }
            How::Fail => {
                let failure = Failure::new(ErrorKind::Nondeterminism, why);
                self.end(cx, &key, Verdict::Failed(failure));
                "fail"
            }
        };
        self.audit(cx, &settle.actor, &key, action, &settle.reason);
        Ok(Answer::Done)
    }

    fn audit(&mut self, cx: Cx<'_>, actor: &Actor, key: &JournalKey, did: &str, why: &str) {
        let about = About::Execution(key.clone());
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

fn over(standing: Standing) -> NotDone {
    NotDone::Over(match standing {
        Standing::Completed => "it has completed",
        Standing::Failed => "it has failed",
        _ => "it was cancelled",
    })
}
