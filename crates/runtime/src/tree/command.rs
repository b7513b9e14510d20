//! What comes from outside a tree: one closed list. Each is answered when the commit that holds
//! its effect has a position; whoever asked waits until that is durable (D2).

use indelible_http::End;
use indelible_journal::{
    Attempt, AwaitKind, DeliveryId, ErrorKind, Event, ExecutionId, Failure, InvokeKind, JournalKey,
    OperationId, OperationKey, Payload, PromiseId, SignalName, Started, Status, Timestamp,
};
use indelible_operations::id;
use indelible_records::executions::{self, Standing};
use indelible_records::idempotency_keys::Cancelling;
use indelible_records::journals;
use indelible_records::operations;
use indelible_records::queue::Entry;
use indelible_records::timers::Timer;
use indelible_store::{Position, ReadError, SubmitError};
use tokio::sync::oneshot::{self, Receiver};

use super::execution::{Execution, Phase, Verdict};
use super::reconcile::Answered;
use super::unresolved::Resolution;
use super::view::Viewed;
use super::volatile::is_volatile;
use super::{LoadError, Tree, Work};
use crate::admission::Admitted;
use crate::audit::{About, Actor};
use crate::effects::EffectPermit;
use crate::key_locks::KeyLock;
use crate::keys::{self, UnderKey};
use crate::operation::{self, Request};
use crate::recovery::UnderWay;
use crate::shared::Shared;
use crate::watchers::Ended;

/// What a tree can be told to do.
pub(crate) enum Command {
    /// Start the root of a new tree.
    Start(Box<Start>),
    /// A signal arrived.
    Signal(Signal),
    /// Somebody wants an execution cancelled.
    Cancel(Cancel),
    /// A timer is due. Its row goes with what comes of it.
    Due(Timer),
    /// A timer of a volatile execution is due. It is in no row.
    DueInMemory(Timer),
    /// Somebody asks whether this execution goes on in memory alone.
    IsVolatile(ExecutionId, Reply<bool>),
    /// Somebody wants to see this execution. Err: why it cannot be read.
    View(ExecutionId, Reply<Result<Viewed, LoadError>>),
    /// Somebody asks for the operation of the root, if that is in memory.
    RootOperation(Reply<Option<OperationKey>>),
    /// Nobody waits any more for this root, which may be volatile: it is released, unless somebody
    /// has come meanwhile (V-13, V-18).
    Release(ExecutionId),
    /// Whoever waited for this root does not any more, and it is not to be released because of that.
    /// The watcher stays until this is heard.
    Keep(ExecutionId, Receiver<Ended>),
    /// Wake this execution, whether it has a reason to go on or not.
    Nudge(ExecutionId),
    /// The guest of this execution, which waits, was dropped.
    Evicted(JournalKey),
    /// The stored queue names this execution: go on with it.
    Recover(Entry, UnderWay),
    /// A person lets a held execution go on, or ends it.
    Settle(Settle),
    /// There may be room for this attempt at an effect of this execution.
    StartEffect(JournalKey, u32, Attempt),
    /// An attempt at an effect has ended.
    EffectEnded(Box<EffectEnded>),
    /// A reconciler has answered.
    Reconciled(Box<Reconciled>),
    /// A person says how an effect ended of which nobody knew.
    Resolve(Box<Resolve>),
    /// Any of these, and the room that it takes until what comes of it is accepted.
    Within(Box<Self>, Admitted),
}

impl Command {
    /// It takes this room.
    pub(crate) fn within(self, room: Admitted) -> Self {
        Self::Within(Box::new(self), room)
    }
}

/// An attempt at an effect has ended.
pub(crate) struct EffectEnded {
    pub(crate) key: JournalKey,
    /// The run of a volatile root that sent it.
    pub(crate) run: u64,
    pub(crate) child: u32,
    pub(crate) attempt: Attempt,
    pub(crate) end: End,
    /// Its room among those in flight; none for an answer that comes late.
    pub(crate) permit: Option<EffectPermit>,
}

/// A reconciler has answered.
pub(crate) struct Reconciled {
    /// Whose effect it was asked about.
    pub(crate) execution: ExecutionId,
    /// Which question it was.
    pub(crate) operation_id: OperationId,
    pub(crate) answered: Answered,
}

/// A person says how an effect ended of which nobody knew.
pub(crate) struct Resolve {
    pub(crate) promise: PromiseId,
    pub(crate) resolution: Resolution,
    pub(crate) actor: Actor,
    pub(crate) reason: String,
    pub(crate) under: Option<UnderKey>,
    pub(crate) reply: Reply<Result<(), NotDone>>,
}

/// Starts a root.
pub(crate) struct Start {
    pub(crate) started: Started,
    pub(crate) request: Request,
    /// The operation is volatile and has a record, which says this attempt: if nothing goes on in
    /// memory, another process had it.
    pub(crate) again: Option<Attempt>,
    /// Who asks.
    pub(crate) actor: Option<Actor>,
    /// Nobody waits for it: a volatile one is not released when those who do have gone.
    pub(crate) kept: bool,
    /// Held until it is accepted, if it came under a key.
    pub(crate) lock: Option<KeyLock>,
    pub(crate) reply: Reply<Begun>,
}

/// What a start came to.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It has begun.
    New(ExecutionId),
    /// The tree is there already, begun by the same request.
    Already(ExecutionId),
    /// It is there already, begun by the same request, and over: its record is forgotten.
    Over(ExecutionId),
    /// It is there already, begun by another request under the same id.
    Conflict,
    /// It was volatile and lost with its process, and doing it again is not safe.
    Indeterminate,
    /// Somebody else was quicker: look again.
    Raced,
}

/// A signal.
pub(crate) struct Signal {
    pub(crate) execution: ExecutionId,
    pub(crate) name: SignalName,
    pub(crate) payload: Payload,
    pub(crate) actor: Option<Actor>,
    pub(crate) under: Option<UnderKey>,
    pub(crate) reply: Reply<Result<DeliveryId, NotDone>>,
}

/// A cancel.
pub(crate) struct Cancel {
    pub(crate) execution: ExecutionId,
    pub(crate) reason: String,
    pub(crate) actor: Option<Actor>,
    pub(crate) under: Option<UnderKey>,
    pub(crate) reply: Reply<Result<Cancelling, NotDone>>,
}

/// What a person does with a held execution.
pub(crate) struct Settle {
    pub(crate) execution: ExecutionId,
    pub(crate) how: How,
    pub(crate) actor: Actor,
    pub(crate) reason: String,
    pub(crate) under: Option<UnderKey>,
    pub(crate) reply: Reply<Result<(), NotDone>>,
}

/// How a held execution goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It is tried again.
    Release,
    /// It has failed.
    Fail,
}

/// Why nothing was done, and nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotDone {
    /// There is none with this id.
    #[error("there is no such execution")]
    Unknown,
    /// It is over.
    #[error("the execution is over: {0}")]
    Over(&'static str),
    /// What is volatile takes no signals.
    #[error("the execution is volatile, and takes no signals")]
    Volatile,
    /// Only a held one can be released or failed.
    #[error("the execution is not held")]
    NotHeld,
    /// Only an effect of which nobody knows whether it happened can be resolved.
    #[error("the effect is not one that a person can resolve: {0}")]
    NotUnresolved(String),
    /// It has as many unread signals as it may have.
    #[error("the execution buffers {0} signals, which is the most")]
    Full(usize),
    /// Its unread signals have as many bytes as they may have.
    #[error("the execution buffers signals of {0} bytes at most, and this one is too many")]
    FullBytes(usize),
    /// It cannot be read, or cannot go on.
    #[error("the execution cannot go on: {0}")]
    Broken(String),
    /// Its stored rows are damaged.
    #[error("the stored execution cannot be read: {0}")]
    Damaged(String),
}

/// An answer, and the position that it depends on; or the damage that prevents it, which the store has
/// noted.
pub(crate) type Reply<T> = oneshot::Sender<Result<Answer<T>, String>>;

/// An answer that may be given when its position is durable.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) value: T,

    pub(crate) position: Position,
}

/// Answers after a commit. If the commit failed over damage, the asker gets that as an error; after any
/// other failure the reply is dropped, and the asker sees that the engine stopped.
fn send<T>(reply: Reply<T>, value: T, committed: &Result<Position, SubmitError>) {
    let _ = match committed {
        Ok(position) => reply.send(Ok(Answer { value, position: *position })),
        Err(error) if error.is_damage() => reply.send(Err(error.to_string())),
        Err(_) => return,
    };
}

impl Tree {
    /// Does what came from outside.
    pub(crate) fn obey(&mut self, shared: &Shared, command: Command) {
        match command {
            Command::Within(command, room) => {
                self.obey(shared, *command);
                self.after_commit(Box::new(move |_| drop(room)));
            }
            Command::Start(start) => self.begin(shared, *start),
            Command::Signal(signal) => {
                let done = self.signal(shared, &signal);
                self.answer_under(shared, signal.under, signal.reply, done);
            }
            Command::Cancel(cancel) => {
                let done = self.cancel(shared, &cancel);
                self.answer_under(shared, cancel.under, cancel.reply, done);
            }
            Command::Due(timer) => self.due(shared, timer),
            Command::DueInMemory(timer) => self.due_in_memory(shared, &timer),
            Command::IsVolatile(execution, reply) => {
                let volatile = self.is_live_in_memory(&execution);
                self.answer(reply, volatile);
            }
            Command::View(execution, reply) => {
                let viewed = self.view(shared, &execution);
                self.answer(reply, viewed);
            }
            Command::RootOperation(reply) => {
                let operation = self.root_operation();
                self.answer(reply, operation);
            }
            Command::Release(execution) => self.release_root(shared, &execution),
            Command::Keep(execution, watcher) => {
                self.keep_root();
                drop(watcher);
                shared.watchers.forget(&execution);
            }
            Command::Nudge(execution) => self.nudge(shared, &execution),
            Command::Evicted(key) => self.evicted(&key),
            Command::Recover(entry, under_way) => self.recover(shared, &entry, under_way),
            Command::Settle(settle) => {
                let done = self.settle(shared, &settle);
                self.answer_under(shared, settle.under, settle.reply, done);
            }
            Command::StartEffect(key, child, attempt) => {
                // It may have waited for room twice: the next attempt has a time of its own.
                if self.load(shared, &key).is_ok() && self.is_next(&key, child, attempt) {
                    self.start_effect(shared, &key, child);
                }
            }
            Command::EffectEnded(ended) => self.effect_ended(shared, *ended),
            Command::Reconciled(answer) => self.reconciled(shared, *answer),
            Command::Resolve(resolve) => {
                let done = self.resolve(shared, &resolve);
                self.answer_under(shared, resolve.under, resolve.reply, done);
            }
        }
    }

    /// Answers after the next commit; what was refused depends on what was read, and so on all
    /// that this tree has submitted.
    fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, value: T) {
        self.after_commit(Box::new(move |committed| send(reply, value, committed)));
    }

    /// The same for what may have come under a key: its record is in the commit of what was done,
    /// and what was refused leaves none (I-11). Until then nobody else is at the key.
    fn answer_under<T: keys::Answered + Send + 'static>(
        &mut self,
        shared: &Shared,
        under: Option<UnderKey>,
        reply: Reply<Result<T, NotDone>>,
        done: Result<T, NotDone>,
    ) {
        if let (Some(under), Ok(value)) = (&under, &done) {
            self.changes.keys.push(keys::done(shared, under, value.answer()));
        }
        self.after_commit(Box::new(move |committed| {
            send(reply, done, committed);
            drop(under);
        }));
    }

    /// Starts the root of this tree; its first run and its start are one commit (D1).
    pub(super) fn begin(&mut self, shared: &Shared, start: Start) {
        let Some(mut start) = self.begins_now(start) else { return };
        let execution = ExecutionId::root_of(start.request.root);
        // A next attempt at a volatile one is nowhere else.
        if let Some(root) = self.in_memory(&execution) {
            if start.kept {
                self.keep_root();
            }
            let root = self.execution(&root);
            // Under a record requests were compared, by their canonical form.
            let same = start.again.is_some()
                || root.journal.started().is_some_and(|started| is_same(started, &start.started));
            let begun = if same { Begun::Already(execution) } else { Begun::Conflict };
            return self.answer(start.reply, begun);
        }
        // It may have begun and be waiting: whoever waits without a guest is not in memory. One that
        // is volatile may have ended, whichever attempt it was; so may one whose record is forgotten,
        // if its id carries no time. Any other is looked for in the cheaper way.
        let timeless = id::created_at(&start.request.operation.operation_id).is_none();
        let stored = if start.again.is_some() || timeless {
            executions::latest(&shared.store, &execution)
        } else {
            executions::get(&shared.store, &JournalKey::first(execution.clone()))
        };
        match stored.and_then(|stored| stands(shared, &start, stored.value)) {
            Ok(None) => {}
            Ok(Some(begun)) => return self.answer(start.reply, begun),
            Err(error) if error.is_damage() => {
                let _ = start.reply.send(Err(format!("{execution:#}: {error}")));
                return;
            }
            // The asker sees that the store has stopped.
            Err(error) => return shared.trouble(&format!("{execution:#} cannot be read: {error}")),
        }
        // It began and was released in this very turn, by what is not submitted yet.
        if start.again.is_none() && self.changes.operation.is_some() {
            return self.answer(start.reply, Begun::Raced);
        }
        let Some(key) = self.begins_at(&start) else {
            return self.answer(start.reply, Begun::Indeterminate);
        };
        start.started.attempts = key.attempts().clone();
        let bytes = start.started.input.bytes.len();
        let volatile = start.started.retry_policy.as_deref().is_some_and(is_volatile);
        let now = shared.clock.now();
        match indelible_journal::Journal::start(key.clone(), now, start.started) {
            Ok((journal, entry)) => {
                let root = Execution { volatile, ..Execution::new(journal, Phase::Ready) };
                self.executions.insert(key.clone(), root);
                self.root_begins(shared, &key, start.kept);
                self.written(&key, [entry]);
                self.weighs(bytes);
                self.ready(&key);
                if start.again.is_some() {
                    return self.answer(start.reply, Begun::Already(execution));
                }
                if let Some(actor) = &start.actor {
                    self.audit(shared, actor, &key, "start", "");
                }
                let Request { operation, keyed, .. } = &start.request;
                // Somebody else's record of the same key refuses the commit: then look again.
                self.changes.key = keyed
                    .as_ref()
                    .map(|keyed| keys::begun(&operation.namespace, keyed, &operation.operation_id));
                self.changes.operation = Some(operation::Change::begun(&start.request, now));
                let (reply, lock) = (start.reply, start.lock);
                self.after_commit(Box::new(move |committed| {
                    // Whoever comes next under the key finds its record.
                    drop(lock);
                    match committed {
                        Err(SubmitError::Refused(refusal)) => {
                            send(reply, Begun::Raced, &Ok(refusal.position));
                        }
                        committed => send(reply, Begun::New(execution), committed),
                    }
                }));
            }
            Err(violation) => shared.trouble(&format!("a start was refused: {violation}")),
        }
    }

    /// Loads the last attempt at an execution: the one that things are sent to.
    pub(super) fn latest(
        &mut self,
        shared: &Shared,
        id: &ExecutionId,
    ) -> Result<JournalKey, NotDone> {
        let broken = |error: LoadError| match error.is_damage() {
            true => NotDone::Damaged(error.to_string()),
            false => NotDone::Broken(error.to_string()),
        };
        let stored = executions::latest(&shared.store, id).map_err(|error| broken(error.into()))?;
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
        match self.load(shared, &key) {
            Ok(()) => Ok(key),
            Err(LoadError::Absent) => Err(NotDone::Unknown),
            Err(error) => Err(broken(error)),
        }
    }

    /// The guest looks for itself, and waits again if there is nothing.
    fn nudge(&mut self, shared: &Shared, id: &ExecutionId) {
        let Ok(key) = self.latest(shared, id) else { return };
        if matches!(self.execution(&key).phase, Phase::Waiting) {
            self.ready(&key);
        }
    }

    fn signal(&mut self, shared: &Shared, signal: &Signal) -> Result<DeliveryId, NotDone> {
        let key = self.latest(shared, &signal.execution)?;
        if self.execution(&key).volatile {
            return Err(NotDone::Volatile);
        }
        let journal = &mut self.execution(&key).journal;
        let most = shared.options.signals_buffered_max;
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
        let most = shared.options.signals_buffered_bytes_max;
        let bytes = journal.unread_signal_bytes().saturating_add(signal.payload.bytes.len());
        if !awaited && bytes > most {
            return Err(NotDone::FullBytes(most));
        }
        let now = shared.clock.now();
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
            self.audit(shared, actor, &key, "signal", &note);
        }
        self.wake(shared, &key);
        Ok(delivery)
    }

    fn cancel(&mut self, shared: &Shared, cancel: &Cancel) -> Result<Cancelling, NotDone> {
        let key = self.latest(shared, &cancel.execution)?;
        let standing = self.execution(&key).standing();
        if standing.is_terminal() {
            return Err(over(standing));
        }
        let requested = self.request_cancel(shared, &key, &cancel.reason);
        if requested && let Some(actor) = &cancel.actor {
            self.audit(shared, actor, &key, "cancel", &cancel.reason);
        }
        Ok(if requested { Cancelling::Requested } else { Cancelling::Already })
    }

    /// A timer is due: a sleep is over, a call is tried again, an attempt begins, or the time to
    /// clean up is over. Some come too late and mean nothing.
    fn due(&mut self, shared: &Shared, timer: Timer) {
        let over = |key| {
            executions::get(&shared.store, key)
                .is_ok_and(|row| row.value.is_some_and(|row| row.standing.is_terminal()))
        };
        if self.find(&timer.key).is_none() && over(&timer.key) {
            return self.delete_timer(timer);
        }
        match (self.load(shared, &timer.key), timer.child) {
            (Ok(()), None) => {
                if self.own_time(shared, &timer) {
                    return shared.timers.keep(timer);
                }
            }
            (Ok(()), Some(child)) => {
                if self.child_time(shared, &timer, child) {
                    return shared.timers.keep(timer);
                }
            }
            // Its execution went with its tree.
            (Err(LoadError::Absent), _) => {}
            // It stays: whoever mends the store wants it to fire.
            (Err(_), _) => return shared.timers.keep(timer),
        }
        self.delete_timer(timer);
    }

    /// True: the timer's row stays.
    pub(super) fn own_time(&mut self, shared: &Shared, timer: &Timer) -> bool {
        match self.execution(&timer.key).phase {
            Phase::Resting => {
                self.run_rested(shared, &timer.key);
                false
            }
            _ => self.cleanup_is_over(shared, &timer.key, timer.due),
        }
    }

    /// True: the timer's row stays.
    pub(super) fn child_time(&mut self, shared: &Shared, timer: &Timer, child: u32) -> bool {
        let key = &timer.key;
        let promise = key.execution_id().child(child);
        let execution = self.execution(key);
        if let Some(open) = execution.journal.open_invoke(&promise) {
            return match open.kind {
                InvokeKind::Http => self.effect_time(shared, timer, &open, child),
                InvokeKind::Function => {
                    self.retry_child(shared, timer, child);
                    false
                }
            };
        }
        let over = matches!(execution.phase, Phase::Ended | Phase::Ending { .. });
        if over || !execution.journal.is_timer_open(&promise) {
            return false;
        }
        match execution.journal.fire_timer(shared.clock.now(), &promise) {
            Ok(entry) => {
                self.written(key, [entry]);
                self.wake(shared, key);
            }
            Err(violation) => {
                self.breaks(shared, key, &violation);
            }
        }
        false
    }

    /// A person decides about a held execution (C-25).
    fn settle(&mut self, shared: &Shared, settle: &Settle) -> Result<(), NotDone> {
        let key = self.latest(shared, &settle.execution)?;
        let execution = self.execution(&key);
        if execution.standing().is_terminal() {
            return Err(over(execution.standing()));
        }
        let Phase::Held { why } = &execution.phase else { return Err(NotDone::NotHeld) };
        let why = why.clone();
        let action = match settle.how {
            How::Release => {
                // It has as many lives as a new one.
                shared.witness.survived(&key);
                execution.phase = Phase::Waiting;
                if !matches!(execution.journal.status(), Some(Status::Blocked { .. })) {
                    self.ready(&key);
                }
                // Calls that had not begun when it was held, perhaps by an earlier process.
                let starts: Vec<u32> = self.execution(&key).unstarted.keys().copied().collect();
                self.work.extend(starts.into_iter().map(|child| Work::Start(key.clone(), child)));
                self.lose(&key);
                self.begin_due(shared, &key);
                self.touch(&key);
                if self.execution(&key).journal.cancel_requested().is_some() {
                    // The time that it had may have passed while nobody could clean up.
                    self.limit_cleanup(shared, &key);
                }
                self.wake(shared, &key);
                "release"
            }
            How::Fail => {
                let failure = Failure::new(ErrorKind::Nondeterminism, why);
                self.end(shared, &key, Verdict::Failed(failure));
                "fail"
            }
        };
        self.audit(shared, &settle.actor, &key, action, &settle.reason);
        Ok(())
    }

    fn audit(&mut self, shared: &Shared, actor: &Actor, key: &JournalKey, did: &str, why: &str) {
        let now: Timestamp = shared.clock.now();
        let about = About::Execution(key.clone());
        self.changes.audit.push(crate::audit::entry(shared, now, actor, about, did, why));
    }
}

/// What a start finds that its tree has a row of already.
fn stands(
    shared: &Shared,
    start: &Start,
    stored: Option<executions::Execution>,
) -> Result<Option<Begun>, ReadError> {
    let Some(row) = stored else { return Ok(None) };
    // It is written with the row: whoever looks again finds it.
    if operations::get(&shared.store, &start.request.operation)?.value.is_some() {
        return Ok(Some(Begun::Raced));
    }
    // The record of an id that carries no time may be forgotten, and its execution not (C-3): then
    // that says what was asked for.
    let first = journals::read(&shared.store, &row.key, 0, 1)?.value.records.into_iter().next();
    let execution = row.key.execution_id().clone();
    Ok(Some(match first.map(|record| record.event) {
        Some(Event::ExecutionStarted(started)) if is_same(&started, &start.started) => {
            let over = row.standing.is_terminal();
            if over { Begun::Over(execution) } else { Begun::Already(execution) }
        }
        Some(_) => Begun::Conflict,
        // Retention has taken it meanwhile.
        None => Begun::Raced,
    }))
}

/// Whether two roots were begun by the same request.
fn is_same(one: &Started, other: &Started) -> bool {
    one.function_name == other.function_name && one.input == other.input
}

fn over(standing: Standing) -> NotDone {
    NotDone::Over(match standing {
        Standing::Completed => "it has completed",
        Standing::Failed => "it has failed",
        _ => "it was cancelled",
    })
}
