//! What all parts of an engine share: the store, the world, the components, and the lists that tie
//! trees to threads.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use indelible_execution::{Context, Environment, Input, Limits, Purpose};
use indelible_journal::{
    ComponentDigest, ExecutionId, FunctionName, OperationId, RetryPolicy, RootHash, Timestamp,
};
use indelible_machine::Guard;
use indelible_records::outbox::MessageId;
use indelible_records::{RoomKey, queue};
use indelible_store::{Position, Store};

use crate::admission::Admission;
use crate::cell::Cell;
use crate::command::{Command, RoomCommand};
use crate::component::Components;
use crate::delivery::DeliveryCounts;
use crate::effects::Effects;
use crate::end_counts::EndCounts;
use crate::engine::EngineError;
use crate::followers::Followers;
use crate::guest::Guests;
use crate::hold::HoldState;
use crate::hosted::{Hosted, MachineId};
use crate::key_locks::KeyLocks;
use crate::options::{Options, Pace};
use crate::outbox::Outbox;
use crate::parking::ParkingLot;
use crate::reader::Reader;
use crate::recovery::Recovery;
use crate::replays::Replays;
use crate::retention::SweepCounts;
use crate::retention_clock::{RetentionClock, RetentionTime};
use crate::rooms::Rooms;
use crate::run_queue::{Flow, RunQueue};
use crate::timers::Timers;
use crate::trouble;
use crate::watchers::Watchers;
use crate::world::{Clock, Entropy, Observer, Witness};

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) options: Options,
    pub(crate) guests: Arc<Guests>,
    pub(crate) components: Components,
    pub(crate) parking: ParkingLot,
    pub(crate) run_queue: RunQueue,
    pub(crate) timers: Timers,
    pub(crate) watchers: Watchers,
    pub(crate) followers: Arc<Followers<ExecutionId>>,
    pub(crate) room_followers: Arc<Followers<RoomKey>>,
    pub(crate) key_locks: Arc<KeyLocks>,
    pub(crate) witness: Arc<dyn Witness>,
    pub(crate) replays: Replays,
    pub(crate) admission: Arc<Admission>,
    pub(crate) hold: HoldState,
    pub(crate) recovery: Recovery,
    pub(crate) reader: Reader,
    pub(crate) effects: Effects,
    pub(crate) deliveries: Arc<DeliveryCounts>,
    /// Itself, for threads that come from outside (`effects.rs`).
    pub(crate) me: Weak<Shared>,
    /// The bounds that trees keep.
    pub(crate) limits: Limits,
    /// The last id that was given to a caller.
    pub(crate) askers: AtomicU64,
    /// No command is taken any more: the store has stopped, or the engine. Set under the lock of
    /// `trees`.
    pub(crate) failed: AtomicBool,
    /// Held by the thread that drops what was in memory when the store stopped.
    pub(crate) stopping: Mutex<()>,
    /// The machines that are in memory.
    pub(crate) trees: Mutex<HashMap<MachineId, Arc<Cell>>>,
    pub(crate) rooms: Rooms,
    pub(crate) outbox: Outbox,
    /// Messages that were applied: acknowledged when their position is durable.
    pub(crate) applied: Mutex<Vec<(Position, MessageId)>>,
    /// What retention has deleted.
    pub(crate) gone: SweepCounts,
    /// The time by which retention deletes.
    pub(crate) retention_clock: RetentionClock,
    /// How many guests ran again over their journals.
    pub(crate) replayed: AtomicU64,
    /// How executions and attempts at effects ended.
    pub(crate) end_counts: EndCounts,
}

impl Environment for Shared {
    fn fill(&self, purpose: Purpose<'_>, bytes: &mut [u8]) {
        self.entropy.fill(purpose, bytes);
    }

    fn retention_time(&self) -> Timestamp {
        self.retention_clock.time()
    }

    fn callee(
        &self,
        own: &ComponentDigest,
        function: &FunctionName,
    ) -> Result<Arc<RetryPolicy>, String> {
        self.components.callee(own, function)
    }

    fn function(
        &self,
        version: &ComponentDigest,
        name: &str,
    ) -> Result<Option<(FunctionName, Arc<RetryPolicy>)>, String> {
        let functions = self.components.functions(version).map_err(|error| error.to_string())?;
        let spec = functions.as_ref().and_then(|functions| functions.function(name));
        Ok(spec.map(|spec| (spec.name.clone(), Arc::clone(&spec.retry_policy))))
    }

    fn names_of(&self, version: &ComponentDigest) -> Arc<[String]> {
        self.components.names_of(version)
    }
}

impl Shared {
    /// What a tree may look at, now.
    pub(crate) fn context(&self) -> Context<'_> {
        let now = self.clock.now();
        Context { now, reads: &self.store, surroundings: self, limits: &self.limits }
    }

    /// Sends a command to a tree, which is made if it is not in memory.
    pub(crate) fn send(&self, root: &RootHash, command: Command) {
        self.send_in(Flow::GOING_ON, root, command);
    }

    /// The same; if the tree is made, it takes its turns in this flow.
    pub(crate) fn send_in(&self, flow: Flow, root: &RootHash, command: Command) {
        self.send_to(flow, MachineId::Tree(*root), command);
    }

    /// Sends a command to a machine that is not a tree.
    pub(crate) fn send_room(&self, key: RoomKey, command: RoomCommand) {
        self.send_room_in(Flow::GOING_ON, key, command);
    }

    /// The same; if the machine is made, it takes its turns in this flow.
    pub(crate) fn send_room_in(&self, flow: Flow, key: RoomKey, command: RoomCommand) {
        self.send_to(flow, MachineId::Room(key), Command::Room(command));
    }

    fn send_to(&self, flow: Flow, id: MachineId, command: Command) {
        let mut trees = lock(&self.trees);
        // Checked under the lock: after `failed` is set the trees are drained, and the caller of a
        // tree that is made later would wait for ever. While the engine is on hold no machine is
        // made, so that none can do anything.
        if self.failed.load(Ordering::Acquire) || self.hold.is_on() {
            drop(trees);
            return drop(command);
        }
        let cell = match trees.entry(id) {
            Occupied(cell) => cell.into_mut(),
            Vacant(place) => {
                let Some(hosted) = Hosted::new(place.key(), &self.rooms) else {
                    let unknown = format!("{:?} belongs to an unknown room", place.key());
                    self.store.damage().note(&unknown);
                    return;
                };
                let id = place.key().clone();
                place.insert(Arc::new(Cell::new(id, hosted, flow)))
            }
        };
        // Under the map's lock, so that `forget` cannot remove the tree between finding and telling
        // it.
        if cell.tell(command) {
            self.run_queue.push(Arc::clone(cell));
        }
    }

    /// Tells trees that their guests were evicted. Must not be called under a tree's lock: sending
    /// takes the lock of `trees`, which comes first.
    pub(crate) fn tell_evicted(&self) {
        for key in self.parking.take_evicted() {
            let root = *key.execution_id().root();
            self.send(&root, Command::tell(Input::Evicted(key)));
        }
    }

    /// Whether every change is on disk before the next.
    pub(crate) fn in_lockstep(&self) -> bool {
        self.options.pace == Pace::Lockstep
    }

    /// The retention clock, advanced, beside the wall clock.
    pub(crate) fn retention_time(&self) -> RetentionTime {
        self.retention_clock.advance(self.clock.as_ref())
    }

    /// Ends the hold. If nothing went on until now, the timers' thread looks at what is stored: it
    /// recovers the first work, and wakes the workers with it.
    pub(crate) fn go_on(&self) {
        if self.hold.lift() {
            self.timers.look();
        }
    }

    /// Refuses a key (`None`) or an operation id that the store does not know, while it may have been
    /// accepted and forgotten by a restore (see C-48).
    pub(crate) fn check_unknown_name(&self, id: Option<&OperationId>) -> Result<(), EngineError> {
        self.hold.check_unknown(id, || self.retention_time().time)
    }

    /// Recovers more of what another process left, unless enough is under way.
    pub(crate) fn recover_more(&self) {
        if self.hold.is_on() || self.recovery.is_over() {
            return;
        }
        match self.recovery.more(&self.store, self.run_queue.len()) {
            Ok(page) => {
                for (row, under_way) in page {
                    let guard = Guard::of(under_way);
                    match row {
                        queue::Row::Tree(entry) => {
                            let root = *entry.key.execution_id().root();
                            self.send(&root, Command::tell(Input::Recover(entry, guard)));
                        }
                        queue::Row::Room(_, key) => {
                            self.send_room(key, RoomCommand::Recover(guard));
                        }
                        queue::Row::UnknownRoom(_) => {}
                    }
                }
            }
            Err(error) if self.recovery.is_news() => {
                trouble!(self, warn, error = error, "stored queue cannot be read; retrying");
            }
            Err(_) => {}
        }
    }

    /// Stops the engine if the store has stopped: nothing new is accepted, waiting callers are
    /// told, and what is in memory is dropped, since it may be ahead of what is durable (D2).
    /// Returns whether it has stopped. Must not be called under a tree's lock.
    pub(crate) fn stop_if_lost(&self) -> bool {
        if self.failed.load(Ordering::Acquire) {
            return true;
        }
        let Some(poison) = self.store.poison() else { return false };
        let _stopping = lock(&self.stopping);
        let trees: Vec<_> = {
            let mut trees = lock(&self.trees);
            if self.failed.swap(true, Ordering::AcqRel) {
                return true;
            }
            trees.drain().map(|(_, cell)| cell).collect()
        };
        trouble!(always self.observer, error, trees = trees.len(), error = poison,
            "store and engine have stopped; executions resume after a restart");
        self.admission.close();
        self.recovery.stop();
        self.effects.clear();
        self.run_queue.close();
        self.timers.close();
        for cell in trees {
            cell.clear(&self.rooms);
        }
        self.watchers.clear();
        self.followers.close();
        self.room_followers.close();
        true
    }
}

/// A lock that ignores poisoning: no panic leaves a change under these locks half made.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
