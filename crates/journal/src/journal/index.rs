//! What a journal remembers of its children and signals: one element for each child number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::check::effects::retry_refusal;
use crate::event::{InvokeKind, Sequence};
use crate::ids::{Attempt, PromiseId};
use crate::names::{DeliveryId, FunctionName, SignalName};
use crate::payload::{ErrorKind, Outcome, Payload};
use crate::policy::{RetryCause, RetryPolicy};
use crate::time::{Micros, Timestamp};

/// A child, by what allocated it (J-92).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Child {
    Invoke(InvokeState),
    Timer(Timer),
    Random(Bytes),
    Time(Timestamp),
    Signal(Signal),
    JoinSet(Box<JoinSet>),
}

impl Child {
    /// Where it was resolved; random values, times and join sets never are (J-34).
    pub(crate) fn resolved_at(&self) -> Option<Sequence> {
        match self {
            Self::Invoke(invoke) => invoke.completed_at(),
            Self::Timer(timer) => timer.fired_at,
            Self::Signal(signal) => Some(signal.received_at),
            Self::Random(_) | Self::Time(_) | Self::JoinSet(_) => None,
        }
    }

    /// Whether it is resolved or can still be: awaiting anything else would never end (C-26).
    pub(crate) fn is_awaitable(&self) -> bool {
        matches!(self, Self::Invoke(_) | Self::Timer(_) | Self::Signal(_))
    }

    /// What kind of thing it is, for people.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Invoke(_) => "a call",
            Self::Timer(_) => "a timer",
            Self::Random(_) => "a random value",
            Self::Time(_) => "a recorded time",
            Self::Signal(_) => "a received signal",
            Self::JoinSet(_) => "a join set",
        }
    }
}

/// A call, from its InvokeScheduled on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvokeState {
    pub(crate) scheduled_at: Sequence,
    pub(crate) scheduled_time: Timestamp,
    pub(crate) kind: InvokeKind,
    pub(crate) function_name: FunctionName,
    /// The hash that a replay's call must match (see C-25); the input itself is in the event.
    pub(crate) input: InputHash,
    pub(crate) retry_policy: Arc<RetryPolicy>,
    pub(crate) phase: Phase,
    /// Retries whose cause counts towards the bound (C-38).
    pub(crate) retries_counted: u32,
    /// An earlier attempt may have happened, and neither its answer, a reconciler nor a person has
    /// said that it did not.
    pub(crate) maybe_performed: bool,
    /// The one join set that it was submitted to (JS-7).
    pub(crate) membership: Option<Membership>,
}

/// A call's place in the join set that it was submitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    /// The set's number.
    pub(crate) set: u32,
    /// Which of the set's members it is, in the order of submission.
    pub(crate) submitted: u32,
    /// Which of the results taken from the set is its own, once it was taken (JS-5).
    pub(crate) taken: Option<u32>,
}

/// A call's phases (J-71, C-18): Scheduled, then Started(1), Retrying(1), Started(2), … and
/// Completed at the last started attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    Scheduled,
    /// This attempt is in flight since then.
    Started(Attempt, Timestamp),
    /// This attempt is over, and the next is due then.
    Retrying(Attempt, Timestamp),
    Completed {
        at: Sequence,
        result: Outcome,
    },
}

impl InvokeState {
    /// The set that it was submitted to.
    pub(crate) fn join_set(&self) -> Option<u32> {
        self.membership.map(|membership| membership.set)
    }

    /// Whether its result was taken from that set.
    pub(crate) fn is_taken(&self) -> bool {
        self.membership.is_some_and(|membership| membership.taken.is_some())
    }

    pub(crate) fn completed_at(&self) -> Option<Sequence> {
        match self.phase {
            Phase::Completed { at, .. } => Some(at),
            _ => None,
        }
    }

    pub(crate) fn result(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Completed { result, .. } => Some(result),
            _ => None,
        }
    }

    pub(super) fn open(&self, promise_id: PromiseId) -> Option<OpenInvoke> {
        let phase = match self.phase {
            Phase::Scheduled => InvokePhase::Scheduled,
            Phase::Started(attempt, since) => InvokePhase::Started { attempt, since },
            Phase::Retrying(failed, retry_at) => InvokePhase::Retrying { failed, retry_at },
            Phase::Completed { .. } => return None,
        };
        Some(OpenInvoke {
            promise_id,
            kind: self.kind,
            function_name: self.function_name.clone(),
            retry_policy: Arc::clone(&self.retry_policy),
            scheduled_at: self.scheduled_at,
            scheduled_time: self.scheduled_time,
            retries_counted: self.retries_counted,
            maybe_performed: self.maybe_performed,
            phase,
        })
    }
}

/// A call that has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenInvoke {
    /// The call's promise.
    pub promise_id: PromiseId,
    /// Whether it is a function or an effect.
    pub kind: InvokeKind,
    /// The function, or the label of an HTTP effect.
    pub function_name: FunctionName,
    /// What may be done if it fails.
    pub retry_policy: Arc<RetryPolicy>,
    /// Where its InvokeScheduled, which has its input, is.
    pub scheduled_at: Sequence,
    /// When that was written: its deadline counts from then.
    pub scheduled_time: Timestamp,
    /// How many retries count towards the bound so far (C-38): the n of its backoff (C-27).
    pub retries_counted: u32,
    /// An earlier attempt may have happened, and neither its answer, a reconciler nor a person has
    /// said that it did not: it was lost with the engine, a person had it run again, or it got no
    /// answer.
    pub maybe_performed: bool,
    /// How far it came.
    pub phase: InvokePhase,
}

impl OpenInvoke {
    /// Whether another attempt may follow one that ended for this cause with this error; if not,
    /// the journal refuses it (see SE-5, C-28, C-29, C-41).
    pub fn may_retry(&self, cause: RetryCause, error: ErrorKind) -> bool {
        let (policy, counted) = (&self.retry_policy, self.retries_counted);
        retry_refusal(self.kind, policy, counted, cause, error).is_none()
    }
}

/// How far a call without an outcome came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvokePhase {
    /// Nothing has left yet.
    Scheduled,
    /// This attempt is, or was, in flight: after a crash its outcome may be unknown (see C-41).
    Started {
        /// Which attempt.
        attempt: Attempt,
        /// When it was started.
        since: Timestamp,
    },
    /// An attempt is over and the next is due.
    Retrying {
        /// The attempt that is over.
        failed: Attempt,
        /// When the next is due.
        retry_at: Timestamp,
    },
}

/// A timer that has not fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTimer {
    /// The timer's promise.
    pub promise_id: PromiseId,
    /// How long it sleeps.
    pub duration: Micros,
    /// When it is due, by the journal's time. If the clock ran ahead and was set back, that is
    /// later than its duration says.
    pub fire_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) duration: Micros,
    pub(crate) fire_at: Timestamp,
    pub(crate) fired_at: Option<Sequence>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signal {
    pub(crate) name: SignalName,
    pub(crate) payload: Payload,
    pub(crate) received_at: Sequence,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct JoinSet {
    /// Members in the order of submission.
    pub(crate) members: Vec<u32>,
    /// Completed members in the order of completion; those taken in another order are passed
    /// over when they come to the front.
    pub(crate) ready: VecDeque<u32>,
    /// Members in the order of their JoinSetAwaited, in which replay returns them (J-91).
    pub(crate) taken: Vec<u32>,
    /// How many members have completed and were not taken.
    pub(crate) ready_count: usize,
}

impl JoinSet {
    /// How many members were not taken.
    pub(crate) fn rest_count(&self) -> usize {
        self.members.len() - self.taken.len()
    }
}

/// Stands for a call's input when a replay asks for the same call again (see C-25). It is only in
/// memory, and guards against mistakes, not against an attacker who can write the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputHash(u128);

impl InputHash {
    pub(crate) fn of(input: &Payload) -> Self {
        Self(xxh3_128_with_seed(&input.bytes, u64::from(input.codec.number())))
    }
}

/// A signal that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) name: SignalName,
    pub(crate) payload: Payload,
}

/// The deliveries of each name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Signals(HashMap<SignalName, Queue>);

/// The deliveries of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Queue {
    /// Index of each in the journal's deliveries; delivery id n is at n - 1.
    deliveries: Vec<usize>,
    /// How many were consumed, first in first out (J-45).
    consumed: usize,
}

impl Signals {
    /// The id that the next delivery of this name gets (J-44).
    pub(crate) fn next_delivery(&self, name: &SignalName) -> DeliveryId {
        DeliveryId::after(self.0.get(name).map_or(0, |queue| queue.deliveries.len() as u64))
    }

    /// The id that the next receipt of this name must have (J-45).
    pub(crate) fn next_receipt(&self, name: &SignalName) -> DeliveryId {
        DeliveryId::after(self.0.get(name).map_or(0, |queue| queue.consumed as u64))
    }

    /// The index of the oldest delivery of this name that was not consumed.
    pub(crate) fn oldest(&self, name: &SignalName) -> Option<usize> {
        let queue = self.0.get(name)?;
        queue.deliveries.get(queue.consumed).copied()
    }

    /// How many were consumed, of all names.
    pub(crate) fn consumed(&self) -> usize {
        self.0.values().map(|queue| queue.consumed).sum()
    }

    pub(crate) fn deliver(&mut self, name: &SignalName, index: usize) {
        match self.0.get_mut(name) {
            Some(queue) => queue.deliveries.push(index),
            None => {
                let queue = Queue { deliveries: vec![index], consumed: 0 };
                self.0.insert(name.clone(), queue);
            }
        }
    }

    pub(crate) fn consume(&mut self, name: &SignalName) {
        self.0.get_mut(name).expect("check found a delivery of this name").consumed += 1;
    }
}

/// How far the present wait for listed members is satisfied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveWait {
    /// How many members have a resolver.
    pub(crate) resolved: usize,
}
