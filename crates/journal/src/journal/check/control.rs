//! Time, timers, signals and waiting (J-43 to J-47, J-63 to J-66, C-16, C-19, C-22, C-26, C-37).

use super::{Check, refuse, require};
use crate::ids::{JoinSetId, PromiseId};
use crate::journal::Journal;
use crate::journal::index::Child;
use crate::names::{DeliveryId, SignalName};
use crate::payload::Payload;
use crate::status::Status;
use crate::time::{Micros, Timestamp};
use crate::wait::{AwaitKind, WAIT_MEMBERS_MAX, WaitSet};

impl Journal {
    /// C-19: `now()` is the entry's own time, so it never goes back.
    pub(super) fn check_time(time: Timestamp, timestamp: Timestamp) -> Check {
        require!(time == timestamp, C19, "it records {time}, but was written at {timestamp}");
        Ok(())
    }

    /// J-20, J-51: a timer is due its duration after it was scheduled.
    pub(super) fn check_timer(timestamp: Timestamp, duration: Micros, fire_at: Timestamp) -> Check {
        let due = timestamp.saturating_add(duration);
        require!(fire_at == due, C19, "{duration} from {timestamp} is {due}, not {fire_at}");
        Ok(())
    }

    /// J-43, CF-1, C-19.
    pub(super) fn check_timer_fired(&self, promise: &PromiseId, timestamp: Timestamp) -> Check {
        let Some(Child::Timer(timer)) = self.child(promise) else {
            refuse!(CF1, "{promise:#} is not a scheduled timer");
        };
        require!(timer.fired_at.is_none(), C19, "the timer {promise:#} has already fired");
        require!(
            timestamp >= timer.fire_at,
            C19,
            "the timer {promise:#} is due at {}, not at {timestamp}",
            timer.fire_at
        );
        Ok(())
    }

    /// J-44.
    pub(super) fn check_signal_delivered(&self, name: &SignalName, id: DeliveryId) -> Check {
        let next = self.signals.next_delivery(name);
        require!(id == next, J44, "delivery {id} of `{name}` is out of order: {next} is next");
        Ok(())
    }

    /// J-45, CF-2, CF-3, and when (C-16, C-37).
    pub(super) fn check_signal_received(
        &self,
        promise: &PromiseId,
        name: &SignalName,
        payload: &Payload,
        id: DeliveryId,
    ) -> Check {
        self.check_may_receive(promise, name)?;
        self.check_next(promise)?;
        let next = self.signals.next_receipt(name);
        require!(id >= next, CF3, "delivery {id} of `{name}` was already consumed");
        let delivered = self.signals.next_delivery(name);
        require!(id < delivered, CF2, "delivery {id} of `{name}` has not arrived");
        require!(id == next, J45, "delivery {id} of `{name}` is not the oldest, {next} is");
        let oldest = self.signals.oldest(name).map(|index| &self.deliveries[index].payload);
        require!(oldest == Some(payload), CF2, "delivery {id} of `{name}` carried another payload");
        Ok(())
    }

    /// C-16: while active; or while blocked by the await that waits for this very signal, as long
    /// as nothing else has satisfied it (C-37).
    fn check_may_receive(&self, promise: &PromiseId, name: &SignalName) -> Check {
        let Some(Status::Blocked { kind, .. }) = &self.status else { return Ok(()) };
        let awaited = match kind {
            AwaitKind::Signal { name, promise_id } | AwaitKind::SignalOr { name, promise_id } => {
                Some((name, promise_id))
            }
            AwaitKind::Single | AwaitKind::Any | AwaitKind::All => None,
        };
        require!(
            awaited == Some((name, promise)),
            C16,
            "the execution is blocked, and not on the signal `{name}` as {promise:#}"
        );
        require!(
            self.resolved_in_wait() == 0,
            C16,
            "the wait was already ended by something other than the signal `{name}`"
        );
        Ok(())
    }

    /// J-46 with C-22, CF-4, C-26, C-37, J-78.
    pub(super) fn check_awaiting(&self, waiting_on: &WaitSet, kind: &AwaitKind) -> Check {
        match &self.status {
            Some(Status::Cancelling) => {
                refuse!(
                    C22,
                    "an execution that is cancelling cannot change its state until it ends"
                );
            }
            Some(Status::Blocked { .. }) => refuse!(J46, "the execution is already waiting"),
            _ => {}
        }
        self.check_waited(waiting_on, kind)?;
        match kind {
            AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } => {
                self.check_not_buffered(name)
            }
            AwaitKind::Single | AwaitKind::Any | AwaitKind::All => Ok(()),
        }
    }

    /// The members of a wait, whatever the status: CF-4, C-26, C-37.
    pub(in crate::journal) fn check_waited(&self, waiting_on: &WaitSet, kind: &AwaitKind) -> Check {
        require!(
            waiting_on.execution_id() == self.key.execution_id(),
            C26,
            "it waits on promises of another execution, {:#}",
            waiting_on.execution_id()
        );
        let listed = waiting_on.listed();
        let count = listed.map_or(0, <[u32]>::len);
        require!(
            count <= WAIT_MEMBERS_MAX,
            J82,
            "it waits on {count} promises; at most {WAIT_MEMBERS_MAX} are allowed"
        );
        let slot = match kind {
            AwaitKind::Single => {
                require!(count == 1, C26, "a single wait lists one promise, not {count}");
                None
            }
            AwaitKind::Any | AwaitKind::All => {
                let rest = waiting_on.join_set().map(|set| self.rest_count(&set));
                require!(rest.unwrap_or(count) > 0, C26, "a wait without promises would never end");
                None
            }
            AwaitKind::Signal { name, promise_id } => {
                require!(
                    count == 1 && waiting_on.lists(promise_id),
                    CF4,
                    "a wait for the signal `{name}` waits on {promise_id:#} and nothing else"
                );
                require!(
                    promise_id.number_in(self.key.execution_id()) == Some(self.next_child()),
                    C26,
                    "{promise_id:#} is not the next child, {:#}: no signal could resolve it",
                    self.next_promise()
                );
                Some(self.next_child())
            }
            AwaitKind::SignalOr { name, promise_id } => {
                require!(
                    count > 1 && waiting_on.lists(promise_id),
                    C37,
                    "it waits on {promise_id:#} for the signal `{name}`, and on something else"
                );
                require!(
                    promise_id.number_in(self.key.execution_id()) == Some(self.next_child()),
                    C37,
                    "{promise_id:#} is not the next child, {:#}: no signal could resolve it",
                    self.next_promise()
                );
                Some(self.next_child())
            }
        };
        self.check_members(listed.unwrap_or_default(), slot)
    }

    /// C-26: each of these is, or can be, resolved; `slot` is the number that a received signal
    /// would take.
    fn check_members(&self, numbers: &[u32], slot: Option<u32>) -> Check {
        for number in numbers {
            let child = self.child_at(*number);
            require!(
                child.is_some_and(Child::is_awaitable) || slot == Some(*number),
                C26,
                "{:#} can never resolve: it is {}",
                self.key.execution_id().child(*number),
                child.map_or("missing", Child::noun)
            );
        }
        Ok(())
    }

    /// How many members of a join set were not taken; 0 if it is no join set.
    fn rest_count(&self, join_set: &JoinSetId) -> usize {
        self.join_set(join_set).map_or(0, |(_, set)| set.rest_count())
    }

    /// J-78: a buffered signal is consumed at once.
    fn check_not_buffered(&self, name: &SignalName) -> Check {
        require!(
            self.signals.oldest(name).is_none(),
            J78,
            "a delivery of `{name}` is buffered: it must be received, not waited for"
        );
        Ok(())
    }

    /// J-47: blocked, and satisfied (J-33). Not while cancelling: that lasts until the end (C-22).
    pub(super) fn check_resumed(&self) -> Check {
        let blocked = matches!(self.status, Some(Status::Blocked { .. }));
        require!(blocked, J47, "the execution is not waiting");
        require!(self.is_wait_satisfied(), J47, "nothing that it waits for has arrived");
        Ok(())
    }
}
