//! What leaves the process because of a machine: HTTP requests, and commands to other trees. Each
//! waits until everything that it depends on is durable (D2); then it leaves, and its result comes
//! back as a command.
//!
//! The number of requests in flight is bounded (`effect_limiter.rs`). An effect without a permit
//! has not begun: it is written as started only when it can be sent at once, because after a crash
//! the outcome of a started effect is unknown.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use indelible_execution::Input;
use indelible_execution::input::EffectReport;
use indelible_execution::output::{AttemptRef, EffectSend, Outgoing};
use indelible_http::{Attempt, End, Report, Request, Sender};
use indelible_journal::JournalKey;
use indelible_machine::Guard;
use indelible_records::outbox::{Message, MessageId};
use indelible_records::{Room, RoomKey};
use indelible_store::{Durable, Lost, Position, SubmitError};
use tracing::{Span, debug, debug_span, error, warn};

use crate::command::{Command, RoomCommand};
use crate::effect_limiter::{EffectLimiter, EffectLimits, Lane};
use crate::engine::EngineError;
use crate::outbox::{DeliveryUse, receive};
use crate::shared::{Shared, lock};

/// What is in flight, what waits for room, and what waits for the disk.
pub(crate) struct Effects {
    sender: Arc<dyn Sender>,
    permits: Arc<EffectPermits>,
    /// Outgoing messages of submitted commits that are not known to be durable.
    outbox: Mutex<Vec<(Position, Leaving)>>,
    door: Arc<Entrance>,
    any_out: AtomicBool,
    /// How many outgoing messages wait for the disk.
    leaving: AtomicUsize,
}

/// What leaves a machine.
pub(crate) enum Leaving {
    /// It leaves a tree.
    Tree(Outgoing),
    /// A request of another machine, with the number that it gave it.
    Room(RoomKey, u64, Box<Attempt>),
}

struct EffectPermits {
    state: Mutex<PermitState>,
    changed: Condvar,
}

struct PermitState {
    /// An attempt that asks twice waits twice.
    room: EffectLimiter<AttemptRef>,
    /// How many requests of machines beside trees are in flight: these bound them themselves.
    of_rooms: usize,
    /// No effect begins any more.
    closing: bool,
}

/// A permit for one request. It is dropped when the end of the request has reached its tree.
pub(crate) struct EffectPermit {
    permits: Arc<EffectPermits>,
    lane: Lane,
}

impl Drop for EffectPermit {
    fn drop(&mut self) {
        lock(&self.permits.state).room.give_back(&self.lane);
        self.permits.changed.notify_all();
    }
}

impl Effects {
    pub(crate) fn new(sender: Arc<dyn Sender>, shares: EffectLimits) -> Self {
        let state = PermitState { room: EffectLimiter::new(shares), of_rooms: 0, closing: false };
        let permits = EffectPermits { state: Mutex::new(state), changed: Condvar::new() };
        Self {
            sender,
            permits: Arc::new(permits),
            outbox: Mutex::default(),
            door: Arc::default(),
            any_out: AtomicBool::new(false),
            leaving: AtomicUsize::new(0),
        }
    }

    /// A permit for an attempt at an effect, in the lane of its component and label. None: the
    /// attempt waits, and its tree is told when a permit may be free; if the engine is closing,
    /// never.
    pub(crate) fn admit_attempt(&self, place: AttemptRef) -> Option<(AttemptRef, EffectPermit)> {
        let mut state = lock(&self.permits.state);
        if state.closing {
            return None;
        }
        let lane = state.room.lane(&place.component, &place.label);
        if !state.room.take(&lane) {
            state.room.wait(&lane, place);
            return None;
        }
        Some((place, EffectPermit { permits: Arc::clone(&self.permits), lane }))
    }

    /// Keeps `outgoing` until `position` is durable. Called under a tree's lock, so nothing leaves
    /// here: the next [`Shared::flush_effects`] takes it.
    pub(crate) fn submitted(
        &self,
        position: Position,
        outgoing: impl ExactSizeIterator<Item = Leaving>,
    ) {
        if outgoing.len() == 0 {
            return;
        }
        self.leaving.fetch_add(outgoing.len(), Ordering::AcqRel);
        lock(&self.outbox).extend(outgoing.map(|one| (position, one)));
        self.any_out.store(true, Ordering::Release);
    }

    pub(crate) fn in_flight(&self) -> usize {
        lock(&self.permits.state).room.taken()
    }

    pub(crate) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Acquire)
    }

    /// Begins no more effects, and waits until none is in flight, at most so long. The outcome of
    /// those still in flight then is unknown to the next engine.
    pub(crate) fn drain(&self, at_most: Duration) {
        let mut state = lock(&self.permits.state);
        state.closing = true;
        state.room.forget_waiting();
        let none = |state: &mut PermitState| state.room.taken() + state.of_rooms > 0;
        let waited = self.permits.changed.wait_timeout_while(state, at_most, none);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Nothing leaves any more: the store has stopped.
    pub(crate) fn clear(&self) {
        lock(&self.permits.state).closing = true;
        let dropped = std::mem::take(&mut *lock(&self.outbox));
        drop(dropped);
    }

    /// Closes the engine to threads from outside, and waits until those inside have left.
    pub(crate) fn close_door(&self) {
        let mut state = lock(&self.door.state);
        state.closed = true;
        let inside = |state: &mut EntranceState| state.inside > 0;
        let left = self.door.left.wait_while(state, inside);
        drop(left.unwrap_or_else(PoisonError::into_inner));
    }

    /// As many waiting attempts as there are permits for.
    fn may_begin(&self) -> Vec<AttemptRef> {
        lock(&self.permits.state).room.next()
    }
}

impl Shared {
    /// Hands over what left trees since the last call, and tells attempts that waited for a permit.
    /// Must not be called under a tree's lock: sending takes the lock of `trees`, which comes
    /// first.
    pub(crate) fn flush_effects(&self) {
        for place in self.effects.may_begin() {
            let root = *place.key.execution_id().root();
            self.send(&root, Command::StartEffect(place));
        }
        if !self.effects.any_out.swap(false, Ordering::AcqRel) {
            return;
        }
        let out = std::mem::take(&mut *lock(&self.effects.outbox));
        let Some(position) = out.iter().map(|(position, _)| *position).max() else { return };
        let way = self.way_in();
        when_durable(self.store.durable(position).through_pauses(), move |durable| {
            // A lost commit's messages are dropped: they must not be seen, and the engine stops.
            if durable.is_ok() {
                way.enter(|shared| {
                    for (_, one) in out {
                        shared.goes_out(one);
                        shared.effects.leaving.fetch_sub(1, Ordering::AcqRel);
                    }
                });
            }
        });
    }

    /// Wakes the timers' thread when `position` is durable: it then sends messages and acknowledges
    /// them.
    pub(crate) fn look_when_durable(&self, position: Position) {
        let way = self.way_in();
        when_durable(self.store.durable(position).through_pauses(), move |_| {
            way.enter(|shared| shared.timers.poke());
        });
    }

    /// A message was applied at this position: it is acknowledged when that is durable.
    pub(crate) fn acknowledge(&self, position: Position, id: MessageId) {
        lock(&self.applied).push((position, id));
        self.look_when_durable(position);
    }

    /// Sends the messages whose senders' commits are durable, acknowledges those that are durably
    /// applied, and deletes those that are over.
    pub(crate) fn carry_messages(&self) -> Result<usize, EngineError> {
        let durable = self.store.durable_now();
        let over = |(position, _): &mut (Position, _)| *position <= durable;
        let applied: Vec<_> = lock(&self.applied).extract_if(.., over).collect();
        for (_, id) in &applied {
            self.outbox.acknowledged(*id);
        }
        let mut untold = Vec::new();
        let carried = self.outbox.flush(&mut |delivery| {
            if let Some((_, Message { room: Room::Other(room), key, .. })) = &delivery.message {
                let key = RoomKey { room: *room, key: key.clone() };
                self.send_room(key, RoomCommand::Deliver(delivery));
            } else if let Ok(DeliveryUse::Settled(batch)) = receive(&self.store, &delivery) {
                // Settling only deletes rows: if the store is full, the channel is told again
                // later.
                if self.store.try_submit(batch).is_err() {
                    untold.push(delivery.channel);
                }
            }
        })?;
        untold.into_iter().for_each(|channel| self.outbox.tell_again(channel));
        let settled = match self.outbox.settle() {
            // The store is full: the rows are deleted another time.
            Err(EngineError::Submit(SubmitError::Full { .. })) => 0,
            settled => settled?,
        };
        Ok(carried + applied.len() + settled)
    }

    fn way_in(&self) -> EngineHandle {
        EngineHandle { door: Arc::clone(&self.effects.door), me: Weak::clone(&self.me) }
    }

    /// Lets one outgoing message leave: everything that it depends on is durable.
    fn goes_out(&self, leaving: Leaving) {
        let outgoing = match leaving {
            Leaving::Tree(outgoing) => outgoing,
            Leaving::Room(key, number, attempt) => return self.room_sends(key, number, *attempt),
        };
        let sending = match outgoing {
            Outgoing::Tell(root, input) => return self.send(&root, Command::tell(input)),
            Outgoing::Doubt(effect) => {
                let (promise, label, why) = (&effect.promise, &effect.label, &effect.why);
                let key = effect.sent_key.as_deref();
                if effect.is_held() {
                    error!(effect = %promise, label, key, why,
                        hint = "`indelible unresolved` shows it, `indelible resolve` decides",
                        "effect has an unknown outcome and waits for an operator");
                } else {
                    warn!(effect = %promise, label, key, why, "effect has an unknown outcome");
                }
                return self.observer.unresolved(&effect);
            }
            Outgoing::Send(sending) => *sending,
        };
        let EffectSend { key, run, child, attempt, request, idempotency_key, components, .. } =
            sending;
        let way = self.way_in();
        let request = Request::decode(&request.bytes);
        // A commit of the store is finished by the same thread, and is not what the effect belongs to.
        let span = debug_span!(parent: None, "effect", effect = %key.execution_id().child(child),
            method = request.as_ref().ok().map(|request| &*request.method),
            host = request.as_ref().ok().map(Request::host), %attempt);
        let _within = span.clone().entered();
        debug!("sending request");
        let permit = Some(sending.permit);
        let mut reporter = Reporter { way, key, run, child, attempt, span, permit };
        let mut report: Report = Box::new(move |end| reporter.report(end));
        match request {
            Ok(request) => self.effects.sender.send(
                Attempt {
                    request,
                    idempotency_key,
                    trace_parent: sending.trace_parent,
                    components,
                    timeout: sending.timeout,
                    response_bytes_max: sending.response_bytes_max,
                    idem: sending.idem,
                },
                report,
            ),
            // A newer version of Indelible wrote the request.
            Err(error) => report(End::Refused { why: error.to_string() }),
        }
    }
}

impl Shared {
    /// Sends a request of a machine that is not a tree. One that would leave while the engine closes
    /// does not: its outcome would be unknown to the next engine.
    fn room_sends(&self, key: RoomKey, number: u64, attempt: Attempt) {
        let permits = Arc::clone(&self.effects.permits);
        let mut reporter = RoomReporter { way: self.way_in(), key, number, permit: None };
        {
            let mut state = lock(&permits.state);
            if state.closing {
                drop(state);
                return reporter.report(End::NotSent { why: "the server stops".to_owned() });
            }
            state.of_rooms += 1;
        }
        reporter.permit = Some(RoomPermit(permits));
        self.effects.sender.send(attempt, Box::new(move |end| reporter.report(end)));
    }
}

/// Counts a request of a machine that is not a tree as in flight.
struct RoomPermit(Arc<EffectPermits>);

impl Drop for RoomPermit {
    fn drop(&mut self) {
        lock(&self.0.state).of_rooms -= 1;
        self.0.changed.notify_all();
    }
}

/// Tells a machine that is not a tree how its request ended. If the sender drops it without a report,
/// the outcome is unknown.
struct RoomReporter {
    way: EngineHandle,
    key: RoomKey,
    number: u64,
    /// Taken by the first report.
    permit: Option<RoomPermit>,
}

impl RoomReporter {
    fn report(&mut self, end: End) {
        let permit = self.permit.take().map_or(Guard::NOTHING, Guard::of);
        let ended = RoomCommand::Report(self.number, end, permit);
        let key = self.key.clone();
        self.way.enter(|shared| shared.send_room(key, ended));
    }
}

impl Drop for RoomReporter {
    fn drop(&mut self) {
        if self.permit.is_some() {
            let why = "the sender gave up".to_owned();
            self.report(End::Unknown { why, timed_out: false });
        }
    }
}

/// Counts the foreign threads that use the engine: the store's writer, and a sender's. The engine
/// must not stop before they have left, and lets none in afterwards. Otherwise such a thread could
/// hold the last reference to the store, and close it: the store's writer would wait for its own
/// end.
#[derive(Default)]
struct Entrance {
    state: Mutex<EntranceState>,
    left: Condvar,
}

#[derive(Default)]
struct EntranceState {
    closed: bool,
    inside: usize,
}

/// A foreign thread's way into an engine that may have stopped.
struct EngineHandle {
    door: Arc<Entrance>,
    me: Weak<Shared>,
}

impl EngineHandle {
    /// Does something with the engine, if it has not stopped.
    fn enter(&self, what: impl FnOnce(&Shared)) {
        {
            let mut state = lock(&self.door.state);
            if state.closed {
                return;
            }
            state.inside += 1;
        }
        let leaves = Leaves(&self.door);
        if let Some(shared) = self.me.upgrade() {
            what(&shared);
            drop(shared);
        }
        drop(leaves);
    }
}

/// Leaves the entrance on drop, also if a panic unwinds.
struct Leaves<'a>(&'a Entrance);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).inside -= 1;
        self.0.left.notify_all();
    }
}

/// Tells a tree how an attempt ended. If the sender drops it without a report, the attempt's
/// outcome is unknown, and the tree does not wait for ever.
struct Reporter {
    way: EngineHandle,
    key: JournalKey,
    run: u64,
    child: u32,
    attempt: indelible_journal::Attempt,
    span: Span,
    /// Taken by the first report.
    permit: Option<Guard>,
}

impl Reporter {
    fn report(&mut self, end: End) {
        log_end(&self.span, &end);
        self.way.enter(|shared| shared.end_counts.attempt_ended(&end));
        let permit = self.permit.take();
        let (root, key) = (*self.key.execution_id().root(), self.key.clone());
        let (run, child, attempt) = (self.run, self.child, self.attempt);
        let ended = Input::EffectReport(Box::new(EffectReport { key, run, child, attempt, end }));
        let ended = Command::Tell(ended, permit.unwrap_or(Guard::NOTHING));
        self.way.enter(|shared| shared.send(&root, ended));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if self.permit.is_some() {
            let why = "the sender gave up".to_owned();
            self.report(End::Unknown { why, timed_out: false });
        }
    }
}

fn log_end(span: &Span, end: &End) {
    let (what, status, error) = match end {
        End::Answered(answer) => ("answered", Some(answer.status), None),
        End::TooLarge(answer) => ("response is too large", Some(answer.status), None),
        End::NotSent { why } => ("not sent", None, Some(why)),
        End::Refused { why } => ("refused", None, Some(why)),
        End::Unknown { why, .. } => ("unknown", None, Some(why)),
    };
    // Entered, and not named as the parent: the log in JSON lists the spans that are entered.
    span.in_scope(|| debug!(end = what, status, error, "attempt ended"));
}

/// Runs `then` when a position is durable or lost, on the thread that finds out: `then` must not
/// wait.
fn when_durable(durable: Durable, then: impl FnOnce(Result<(), Lost>) + Send + 'static) {
    let waiting = Mutex::new(Some((durable, Box::new(then) as Box<Then>)));
    Arc::new(WhenDurable(waiting)).wake();
}

type Then = dyn FnOnce(Result<(), Lost>) + Send;

struct WhenDurable(Mutex<Option<(Durable, Box<Then>)>>);

impl Wake for WhenDurable {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut waiting = lock(&self.0);
        let Some((durable, _)) = &mut *waiting else { return };
        let Poll::Ready(result) = Pin::new(durable).poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let done = waiting.take();
        drop(waiting);
        if let Some((_, then)) = done {
            then(result);
        }
    }
}
