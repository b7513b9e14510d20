//! A machine that is not a tree, in its place: the host does here what it asks for.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use indelible_execution::input::StartReply;
use indelible_execution::operation::OperationRequest;
use indelible_execution::{Input as TreeInput, Reply, Request, Tree, input};
use indelible_journal::{Durability, ExecutionId};
use indelible_machine::{CallerId, Guard, Machine as _, TimerChange};
use indelible_operations::Binding;
use indelible_records::labels::Labels;
use indelible_records::outbox::{Channel, Message, MessageId};
use indelible_records::timers::{self, Row};
use indelible_records::{Room, RoomKey, queue};
use indelible_store::{Batch, Position};

use crate::EngineError;
use crate::command::{Command, RoomCommand, Waiter};
use crate::effects::Leaving;
use crate::hosted::MachineId;
use crate::outbox::{self, Delivery, DeliveryUse};
use crate::rooms::{
    AnyRoom, AnyValue, Begins, BegunTree, Context, Input, Outgoing, RoomChanges, RoomRows,
    RoomStart,
};
use crate::shared::Shared;
use crate::trouble;

pub(crate) struct HostedRoom {
    key: RoomKey,
    machine: Box<dyn AnyRoom>,
    waiters: BTreeMap<CallerId, Waiter<AnyValue>>,
    guards: Vec<Guard>,
    /// The message that was handled and is not committed, with the batch that marks it as applied.
    delivered: Option<(MessageId, Batch)>,
}

impl HostedRoom {
    pub(crate) fn new(key: RoomKey, machine: Box<dyn AnyRoom>) -> Self {
        Self { key, machine, waiters: BTreeMap::new(), guards: Vec::new(), delivered: None }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.machine.is_full()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    pub(crate) fn run_command(&mut self, shared: &Shared, command: RoomCommand) {
        match command {
            RoomCommand::Ask(what, waiter) => {
                let asker = CallerId(shared.askers.fetch_add(1, Ordering::Relaxed) + 1);
                self.waiters.insert(asker, waiter);
                self.handle(shared, Input::Asked(asker, what));
            }
            RoomCommand::Due(timer) => {
                if !self.handle(shared, Input::Due(timer)) {
                    shared.timers.keep_all(&MachineId::Room(self.key.clone()));
                }
            }
            RoomCommand::Recover(guard) => {
                self.handle(shared, Input::Recover);
                self.guards.push(guard);
            }
            RoomCommand::Deliver(delivery) => self.deliver(shared, &delivery),
            RoomCommand::Report(number, end, guard) => {
                self.handle(shared, Input::Report(number, end));
                self.guards.push(guard);
            }
        }
    }

    /// Gives the machine an input. False: it has a notice, and has not applied the input.
    fn handle(&mut self, shared: &Shared, input: Input<AnyValue>) -> bool {
        let context = Context {
            now: shared.clock.now(),
            reads: &shared.store,
            key: &self.key,
            surroundings: shared,
            retention: &shared.limits.retention,
            begins: shared,
        };
        self.machine.handle(&context, input);
        let notices = self.machine.notices();
        for notice in &notices {
            trouble!(
                shared,
                error,
                room = self.key.room,
                error = notice,
                "room reported a problem"
            );
        }
        notices.is_empty()
    }

    /// Applies a message, unless it was applied before. It has a commit of its own: another copy of
    /// it in the same turn then finds its mark in the store.
    fn deliver(&mut self, shared: &Shared, delivery: &Delivery) {
        self.commit(shared);
        let channel = delivery.channel;
        match (outbox::receive(&shared.store, delivery), &delivery.message) {
            (Ok(DeliveryUse::Fresh(mark)), Some((number, message))) => {
                if self.handle(shared, Input::Message(message.payload.clone())) {
                    self.delivered = Some((MessageId { channel, number: *number }, mark));
                    self.commit(shared);
                } else {
                    self.give_up(shared, "a message cannot be applied");
                }
            }
            (Ok(DeliveryUse::Prior(position)), Some((number, _))) => {
                shared.acknowledge(position, MessageId { channel, number: *number });
            }
            (Ok(_), _) => {}
            (Err(error), _) => {
                let room = self.key.room;
                trouble!(
                    shared,
                    warn,
                    room = room,
                    error = error,
                    "message cannot be applied; it will be delivered again"
                );
                shared.outbox.send_again();
            }
        }
    }

    pub(crate) fn commit(&mut self, shared: &Shared) {
        while let Some(changes) = self.changes() {
            let RoomChanges { rows, timers, replies, outgoing } = changes;
            let RoomRows { mut batch, starts } = rows;
            batch.touch(self.key.slot());
            let mut begun = Vec::new();
            for BegunTree { rows, queued } in starts {
                batch.extend(rows);
                begun.extend(queued);
            }
            let is_change = !batch.writes().is_empty();
            for (timer, change) in &timers {
                match change {
                    TimerChange::Put => timers::put_room(&mut batch, timer),
                    TimerChange::Delete => timers::delete_room(&mut batch, timer),
                    TimerChange::Keep => {}
                }
            }
            let delivered = self.delivered.take().map(|(id, mark)| {
                batch.extend(mark);
                id
            });
            let mut unsent = Vec::with_capacity(outgoing.len());
            let mut attempts = Vec::new();
            for outgoing in outgoing {
                let message = match outgoing {
                    Outgoing::Message(message) => message,
                    Outgoing::Attempt(number, attempt) => {
                        attempts.push(Leaving::Room(self.key.clone(), number, attempt));
                        continue;
                    }
                };
                let channel = Channel { from: self.key.slot(), to: message.to.slot() };
                let room = Room::Other(message.to.room);
                let message = Message { room, key: message.to.key, payload: message.what };
                match shared.outbox.write(&mut batch, channel, &message) {
                    Ok(one) => unsent.push(one),
                    Err(full) => return self.give_up(shared, &full.to_string()),
                }
            }
            let position = match self.submit(shared, batch) {
                Ok(position) => position,
                Err(why) => return self.give_up(shared, &why),
            };
            if !unsent.is_empty() {
                unsent.into_iter().for_each(|one| one.accepted(position));
                shared.look_when_durable(position);
            }
            shared.effects.submitted(position, attempts.into_iter());
            if let Some(id) = delivered {
                shared.acknowledge(position, id);
            }
            if is_change && shared.room_followers.any() {
                shared.room_followers.changed(std::iter::once(&self.key));
            }
            for entry in begun {
                let root = *entry.key.execution_id().root();
                shared.send(&root, Command::tell(TreeInput::Recover(entry, Guard::NOTHING)));
            }
            let rows: Vec<_> =
                timers.into_iter().map(|(timer, change)| (Row::Room(timer), change)).collect();
            shared.timers.changed(&rows);
            for (asker, reply) in replies {
                if let Some(waiter) = self.waiters.remove(&asker) {
                    waiter.reply(reply, position);
                }
            }
        }
        self.guards.clear();
    }

    /// The machine's changes; a message that changed nothing must still be marked as applied.
    fn changes(&mut self) -> Option<RoomChanges> {
        self.machine.changes().or_else(|| {
            self.delivered.as_ref().map(|_| RoomChanges {
                rows: Batch::in_slots(self.key.slot()).into(),
                timers: Vec::new(),
                replies: Vec::new(),
                outgoing: Vec::new(),
            })
        })
    }

    fn submit(&self, shared: &Shared, batch: Batch) -> Result<Position, String> {
        if batch.writes().is_empty() {
            return Ok(shared.store.accepted());
        }
        let submitted = shared.store.submit_blocking(batch);
        let position = submitted.map_err(|error| error.to_string())?;
        if shared.in_lockstep() {
            // If the commit is lost, the next submission says so.
            let _ = shared.store.durable(position).through_pauses().wait();
        }
        Ok(position)
    }

    /// Memory cannot be written, so it is dropped, and what is stored counts. Waiting callers learn
    /// that the engine stopped, messages come again with the next look, and timers after a restart.
    fn give_up(&mut self, shared: &Shared, why: &str) {
        trouble!(shared, error, room = self.key.room, error = why, "commit of a room failed");
        if let Some(machine) = shared.rooms.make(self.key.room) {
            *self = Self::new(self.key.clone(), machine);
        }
        shared.outbox.send_again();
        shared.timers.keep_all(&MachineId::Room(self.key.clone()));
    }
}

impl Begins for Shared {
    /// The execution is born of its tree's own machine, which is dropped with nothing but its rows.
    /// What follows is told to the tree when the commit is accepted; if the process dies in between,
    /// recovery finds it in the stored queue.
    fn begin(&self, start: RoomStart) -> Result<BegunTree, EngineError> {
        let RoomStart { operation, version, called, input, actor } = start;
        let binding = Binding::of(&called, &input);
        let function = called.split_once('/').map_or(&*called, |(_, function)| function);
        let malformed = |what: String| EngineError::Malformed(what);
        let (started, root) = self
            .started_by(&operation, version, function, input, None)?
            .filter(|(started, _)| is_persist(started))
            .ok_or_else(|| malformed(format!("there is no persist function {called} any more")))?;
        let request = OperationRequest { operation, root, binding, keyed: None };
        let (actor, labels) = (Some(actor), Labels::default());
        let start = input::Start { started, request, again: false, actor, kept: true, labels };
        let mut tree = Tree::default();
        let asked = TreeInput::Asked(CallerId::NONE, Request::Start(Box::new(start)));
        tree.handle(&self.context(), asked);
        let changes = tree.changes().ok_or_else(|| malformed("a tree has not begun".to_owned()))?;
        let is_new = |(_, reply): &(_, Reply)| matches!(reply, Reply::Begun(StartReply::New(id)) if *id == ExecutionId::root_of(root));
        if !changes.replies.iter().any(is_new) {
            return Err(malformed(format!("the execution of {called} has begun before")));
        }
        let rows = changes.rows.map_err(|error| malformed(error.to_string()))?;
        Ok(BegunTree { queued: queue::put_by(&rows), rows })
    }
}

fn is_persist(started: &indelible_journal::Started) -> bool {
    let policy = started.retry_policy.as_ref();
    policy.is_none_or(|policy| policy.class.durability == Durability::Persist)
}
