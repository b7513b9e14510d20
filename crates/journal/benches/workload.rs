//! The one workload that all measurements share: steps of a workflow, as the engine writes them.
//!
//! A step is a call with 100-byte payloads: InvokeScheduled, ExecutionAwaiting, InvokeStarted,
//! InvokeCompleted, ExecutionResumed. Every tenth also sleeps, takes a random value, and gets and
//! consumes a signal.

#![allow(
    unreachable_pub,
    missing_docs,
    clippy::new_without_default,
    reason = "shared by measurements"
)]

use std::sync::Arc;

use bytes::Bytes;
use indelible_journal::*;

pub const PAYLOAD: Bytes = Bytes::from_static(&[b'x'; 100]);

/// Makes the events of a journal one after the other, and knows nothing of what they cost.
pub struct Workload {
    execution_id: ExecutionId,
    pub policy: Arc<RetryPolicy>,
    pub function: FunctionName,
    signal: SignalName,
    next_child: u32,
    steps: u64,
    signals: u64,
    clock: u64,
    queue: std::collections::VecDeque<Event>,
}

fn operation() -> OperationKey {
    OperationKey {
        namespace: Namespace::new("bench").expect("it is a name"),
        operation_id: OperationId::new("0192f3c4-0000-7000-8000-000000000000").expect("it is one"),
    }
}

/// The journal that the workload is for.
pub fn key() -> JournalKey {
    let digest = ComponentDigest::of(b"bench");
    JournalKey::first(ExecutionId::root_of(RootHash::derive(&digest, None, &operation())))
}

impl Workload {
    pub fn new() -> Self {
        let started = Started {
            component_digest: ComponentDigest::of(b"bench"),
            function_name: FunctionName::new("order").expect("it is a name"),
            input: Payload::new(Codec::JSON, PAYLOAD),
            parent_id: None,
            idempotency_key: Some(operation()),
            attempts: Attempts::first(0),
            limits: Limits { memory_bytes_max: 1, stack_bytes_max: 1, table_elements_max: 1 },
            retry_policy: None,
            trace_parent: None,
        };
        Self {
            execution_id: key().execution_id().clone(),
            policy: Arc::new(RetryPolicy::default()),
            function: FunctionName::new("charge_card").expect("it is a name"),
            signal: SignalName::new("approved").expect("it is a name"),
            next_child: 0,
            steps: 0,
            signals: 0,
            clock: 1_790_000_000_000_000,
            queue: [Event::ExecutionStarted(Box::new(started))].into(),
        }
    }

    fn child(&mut self) -> PromiseId {
        self.next_child += 1;
        self.execution_id.child(self.next_child - 1)
    }

    fn step(&mut self) {
        let promise_id = self.child();
        let number = self.next_child - 1;
        let waiting_on = WaitSet::of_numbers(&self.execution_id, vec![number]).expect("one member");
        let payload = Payload::new(Codec::JSON, PAYLOAD);
        self.queue.extend([
            Event::InvokeScheduled {
                promise_id: promise_id.clone(),
                kind: InvokeKind::Http,
                function_name: self.function.clone(),
                input: payload.clone(),
                retry_policy: Arc::clone(&self.policy),
            },
            Event::ExecutionAwaiting { waiting_on, kind: AwaitKind::Single },
            Event::InvokeStarted { promise_id: promise_id.clone(), attempt: Attempt::FIRST },
            Event::InvokeCompleted {
                promise_id,
                result: Outcome::Ok(payload),
                attempt: Attempt::FIRST,
            },
            Event::ExecutionResumed,
        ]);
        self.steps += 1;
        if self.steps.is_multiple_of(10) {
            self.extras();
        }
    }

    fn extras(&mut self) {
        let (timer, random, signal) = (self.child(), self.child(), self.child());
        self.signals += 1;
        let delivery_id = DeliveryId::new(self.signals).expect("from 1");
        let payload = Payload::new(Codec::JSON, PAYLOAD);
        let signal_name = self.signal.clone();
        // Due when it is written: the queue is empty, so the clock stands at this event.
        let now = self.clock + 7 * (self.queue.len() as u64 + 1);
        let fire_at = Timestamp::from_micros(now).expect("in range");
        self.queue.extend([
            Event::TimerScheduled { promise_id: timer.clone(), duration: Micros::ZERO, fire_at },
            Event::TimerFired { promise_id: timer },
            Event::RandomGenerated { promise_id: random, value: Bytes::from_static(&[7; 16]) },
            Event::SignalDelivered {
                signal_name: signal_name.clone(),
                payload: payload.clone(),
                delivery_id,
            },
            Event::SignalReceived { promise_id: signal, signal_name, payload, delivery_id },
        ]);
    }
}

impl Iterator for Workload {
    type Item = (Timestamp, Event);

    fn next(&mut self) -> Option<Self::Item> {
        if self.queue.is_empty() {
            self.step();
        }
        self.clock += 7;
        let timestamp = Timestamp::from_micros(self.clock).expect("in range");
        Some((timestamp, self.queue.pop_front().expect("a step has events")))
    }
}

/// A journal of this length, its entries if they are wanted, and the workload to go on with.
pub fn journal_of(length: usize) -> (Journal, Workload) {
    let (mut journal, mut workload) = (Journal::new(key()), Workload::new());
    for (timestamp, event) in workload.by_ref().take(length) {
        journal.append(timestamp, event).expect("the workload is legal");
    }
    (journal, workload)
}
