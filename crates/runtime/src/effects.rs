//! What leaves the process because of a tree: HTTP requests, and commands to other trees. Each
//! waits until everything that it depends on is durable (D2); then it goes, and what comes of it
//! comes back as a command.
//!
//! So many requests are in flight at most (`effect_room.rs`). An effect that finds no room has not
//! begun: it is written as started only when it can be sent at once, because after a crash what was
//! started is unknown.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use indelible_execution::Input;
use indelible_execution::input::EffectEnded;
use indelible_execution::output::{Outgoing, Place, Sending};
use indelible_http::{End, Report, Request, Sender};
use indelible_journal::{Attempt, JournalKey};
use indelible_machine::Guard;
use indelible_records::outbox::{Message, MessageId};
use indelible_records::{Room, RoomKey};
use indelible_store::{Durable, Lost, Position, SubmitError};

use crate::command::{Command, RoomCommand};
use crate::effect_room::{EffectRoom, Lane, Shares};
use crate::engine::EngineError;
use crate::outbox::{Received, receive};
use crate::shared::{Shared, lock};

/// What is in flight, what waits for room, and what waits for the disk.
pub(crate) struct Effects {
    sender: Arc<dyn Sender>,
    permits: Arc<EffectPermits>,
    /// Submitted, and not durable as far as is known.
    outbox: Mutex<Vec<(Position, Outgoing)>>,
    door: Arc<Door>,
    any_out: AtomicBool,
    /// How many wait for the disk.
    leaving: AtomicUsize,
}

/// Room for requests in flight.
struct EffectPermits {
    state: Mutex<PermitState>,
    changed: Condvar,
}

struct PermitState {
    /// Some wait twice: what is told twice waits twice.
    room: EffectRoom<Place>,
    /// Nothing new begins.
    closing: bool,
}

/// Room for one request; free when it is dropped, which is when its end has reached its tree.
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
    pub(crate) fn new(sender: Arc<dyn Sender>, shares: Shares) -> Self {
        let state = PermitState { room: EffectRoom::new(shares), closing: false };
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

    /// Room for an attempt at an effect, which its component and its label place in a lane; none: it is
    /// told when there may be some, unless nothing begins any more.
    pub(crate) fn begin(&self, place: Place) -> Option<(Place, EffectPermit)> {
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

    /// These leave when this position is durable. Under a tree's lock: they go with the next
    /// [`Shared::flush_effects`].
    pub(crate) fn submitted(&self, position: Position, outgoing: Vec<Outgoing>) {
        if outgoing.is_empty() {
            return;
        }
        self.leaving.fetch_add(outgoing.len(), Ordering::AcqRel);
        lock(&self.outbox).extend(outgoing.into_iter().map(|one| (position, one)));
        self.any_out.store(true, Ordering::Release);
    }

    /// How many requests are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        lock(&self.permits.state).room.taken()
    }

    /// How many wait for the disk before they leave.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Acquire)
    }

    /// Nothing new begins; waits until nothing is in flight, at most so long. What is left then is
    /// unknown to the next engine.
    pub(crate) fn drain(&self, at_most: Duration) {
        let mut state = lock(&self.permits.state);
        state.closing = true;
        state.room.forget_waiting();
        let none = |state: &mut PermitState| state.room.taken() > 0;
        let waited = self.permits.changed.wait_timeout_while(state, at_most, none);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Nothing leaves any more: the store has stopped.
    pub(crate) fn clear(&self) {
        lock(&self.permits.state).closing = true;
        let dropped = std::mem::take(&mut *lock(&self.outbox));
        drop(dropped);
    }

    /// Nobody comes in from outside any more, and those who were in have left.
    pub(crate) fn close_door(&self) {
        let mut state = lock(&self.door.state);
        state.closed = true;
        let inside = |state: &mut DoorState| state.inside > 0;
        let left = self.door.left.wait_while(state, inside);
        drop(left.unwrap_or_else(PoisonError::into_inner));
    }

    /// As many of those that wait as there is room for.
    fn may_begin(&self) -> Vec<Place> {
        lock(&self.permits.state).room.next()
    }
}

impl Shared {
    /// Hands over what left trees since the last time, and tells those that waited for room. Not
    /// under a tree's lock.
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
            // What is lost is dropped: nobody may see it, and the engine stops.
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

    /// The timers' thread sends messages, and acknowledges them, when this is durable.
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

    /// Messages leave whose senders' commits are durable, those that are applied are acknowledged, and
    /// what is over is deleted.
    pub(crate) fn carry_messages(&self) -> Result<usize, EngineError> {
        let durable = self.store.durable_now();
        let over = |(position, _): &mut (Position, _)| *position <= durable;
        let applied: Vec<_> = lock(&self.applied).extract_if(.., over).collect();
        for (_, id) in &applied {
            self.outbox.acknowledged(*id);
        }
        let mut untold = Vec::new();
        let carried = self.outbox.flush(&mut |delivery| {
            if let Some((_, Message { room: Room::Brought(room), key, .. })) = &delivery.message {
                let key = RoomKey { room: *room, key: key.clone() };
                self.send_room(key, RoomCommand::Deliver(delivery));
            } else if let Ok(Received::Settled(batch)) = receive(&self.store, &delivery) {
                // It is only cleaning up.
                if self.store.try_submit(batch).is_err() {
                    untold.push(delivery.channel);
                }
            }
        })?;
        untold.into_iter().for_each(|channel| self.outbox.tell_again(channel));
        let settled = match self.outbox.settle() {
            // There is no room for it now.
            Err(EngineError::Submit(SubmitError::Full { .. })) => 0,
            settled => settled?,
        };
        Ok(carried + applied.len() + settled)
    }

    fn way_in(&self) -> WayIn {
        WayIn { door: Arc::clone(&self.effects.door), me: Weak::clone(&self.me) }
    }

    /// Everything that it depends on is durable.
    fn goes_out(&self, outgoing: Outgoing) {
        let sending = match outgoing {
            Outgoing::Tell(root, input) => return self.send(&root, Command::tell(input)),
            Outgoing::Held(effect) => return self.observer.unresolved(&effect),
            Outgoing::Send(sending) => *sending,
        };
        let Sending { key, run, child, attempt, request, idempotency_key, components, .. } =
            sending;
        let way = self.way_in();
        let mut reporter = Reporter { way, key, run, child, attempt, permit: Some(sending.permit) };
        let mut report: Report = Box::new(move |end| reporter.report(end));
        match Request::decode(&request.bytes) {
            Ok(request) => self.effects.sender.send(
                indelible_http::Attempt {
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
            // A newer version wrote it.
            Err(error) => report(End::Refused { why: error.to_string() }),
        }
    }
}

/// Who comes in from outside, on threads of their own: the store's writer, a sender's. Nobody does
/// when the engine has stopped, and the engine has not stopped before they have left: or one of
/// them would be the last to hold the store, and close it from the thread that has to end for that.
#[derive(Default)]
struct Door {
    state: Mutex<DoorState>,
    left: Condvar,
}

#[derive(Default)]
struct DoorState {
    closed: bool,
    inside: usize,
}

/// A way back to an engine that may have stopped.
struct WayIn {
    door: Arc<Door>,
    me: Weak<Shared>,
}

impl WayIn {
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

/// Leaves, also if something panics.
struct Leaves<'a>(&'a Door);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).inside -= 1;
        self.0.left.notify_all();
    }
}

/// Takes back to its tree how an attempt ended. A sender that forgets to say has not said: nobody
/// knows, but nobody waits for ever.
struct Reporter {
    way: WayIn,
    key: JournalKey,
    run: u64,
    child: u32,
    attempt: Attempt,
    /// Until it was reported once.
    permit: Option<Guard>,
}

impl Reporter {
    fn report(&mut self, end: End) {
        let permit = self.permit.take();
        let (root, key) = (*self.key.execution_id().root(), self.key.clone());
        let (run, child, attempt) = (self.run, self.child, self.attempt);
        let ended = Input::EffectEnded(Box::new(EffectEnded { key, run, child, attempt, end }));
        let ended = Command::Tell(ended, permit.unwrap_or(Guard::NOTHING));
        self.way.enter(|shared| shared.send(&root, ended));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if self.permit.is_some() {
            let why = "its sender gave it up".to_owned();
            self.report(End::Unknown { why, timed_out: false });
        }
    }
}

/// Does something when a position is durable or lost, on the thread that finds out: it must not
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
