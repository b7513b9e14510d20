//! The next event, made up: mostly one that could follow, now and then one that is a little off.
//! Nothing here decides whether it is legal.

use bytes::Bytes;
use indelible_journal::{
    Attempt, AwaitKind, ComponentDigest, DeliveryId, ErrorKind, Event, InvokeKind, JoinSetId,
    Micros, Outcome, Payload, PromiseId, Record, RetryCause, Sequence, SignalName, Status,
    Timestamp, WaitSet,
};

use super::checker;
use super::make::{
    Execution, any_policy, attempt, attempts, delivery, failure, foreign, function, operation,
    outcome, payload, signal, wait_set,
};
use indelible_test_support::Prng;

/// How often each event is proposed, in the order of `Proposer::event`, while the guest runs.
const RUNNING: [u64; 20] = [1, 1, 1, 4, 1, 14, 12, 12, 8, 3, 3, 8, 8, 6, 10, 24, 1, 5, 12, 14];
/// The same while it waits: mostly what could end the wait.
const BLOCKED: [u64; 20] = [1, 2, 2, 3, 1, 2, 14, 14, 8, 1, 1, 2, 10, 9, 18, 3, 20, 1, 2, 3];
/// The same while it cleans up.
const CANCELLING: [u64; 20] = [1, 1, 1, 3, 2, 12, 12, 12, 6, 3, 3, 6, 6, 6, 8, 3, 2, 4, 8, 8];
/// The same at any other time: everything is as good.
const OTHERWISE: [u64; 20] = [1; 20];

const SIGNALS: [&str; 2] = ["approve", "reject"];

pub(crate) struct Proposer<'a> {
    pub(crate) rng: &'a mut Prng,
    pub(crate) execution: &'a Execution,
    pub(crate) before: &'a [Record],
}

impl Proposer<'_> {
    pub(crate) fn propose(&mut self) -> Record {
        let weights = match checker::status(self.before) {
            Some(Status::Running) => RUNNING,
            Some(Status::Blocked { .. }) => BLOCKED,
            Some(Status::Cancelling) => CANCELLING,
            _ => OTHERWISE,
        };
        let chosen = self.rng.weighted(&weights);
        self.propose_event(chosen)
    }

    /// One of the events that end an execution.
    pub(crate) fn propose_terminal(&mut self) -> Record {
        let chosen = self.rng.pick(&[1, 2, 4, 4]).expect("there are four");
        self.propose_event(chosen)
    }

    /// The event that must come first, or one that differs from it a little.
    pub(crate) fn propose_first(&mut self) -> Record {
        if self.rng.one_in(4) { self.propose() } else { self.propose_event(0) }
    }

    fn propose_event(&mut self, chosen: usize) -> Record {
        let mut timestamp = self.timestamp();
        let event = self.event(chosen, timestamp);
        if let Event::TimerFired { promise_id } = &event
            && !self.rng.one_in(4)
        {
            // The engine stamps a due timer at least `fire_at` (C-19).
            timestamp = self.fire_at(promise_id).map_or(timestamp, |due| timestamp.max(due));
        }
        let off = if self.rng.one_in(80) { 1 + self.rng.below(2) } else { 0 };
        let sequence = Sequence::new(u64::try_from(self.before.len()).expect("few") + off);
        Record { sequence, timestamp, event }
    }

    fn timestamp(&mut self) -> Timestamp {
        let last = self.before.last().map_or(1_000, |record| record.timestamp.as_micros());
        let last = Timestamp::from_micros(last).expect("it was a timestamp");
        if self.rng.one_in(60) {
            let back = 1 + self.rng.below(3);
            return Timestamp::from_micros(last.as_micros() - back).expect("it is earlier");
        }
        last.saturating_add(Micros::new(self.rng.below(4)))
    }

    fn event(&mut self, chosen: usize, now: Timestamp) -> Event {
        match chosen {
            0 => self.started(),
            1 => Event::ExecutionCompleted { result: self.payload() },
            2 => Event::ExecutionFailed { error: failure() },
            3 => Event::CancelRequested { reason: "enough".into() },
            4 => Event::ExecutionCancelled { reason: "enough".into() },
            5 => Event::InvokeScheduled {
                promise_id: self.next_child(),
                kind: self.rng.pick(&[InvokeKind::Function, InvokeKind::Http]).expect("two"),
                function_name: function("charge"),
                input: self.payload(),
                retry_policy: any_policy(self.rng.number()),
            },
            6 => self.invoke_started(),
            7 => self.invoke_completed(),
            8 => self.invoke_retrying(now),
            9 => Event::RandomGenerated {
                promise_id: self.next_child(),
                value: Bytes::from_static(b"\x04"),
            },
            10 => Event::TimeRecorded { promise_id: self.next_child(), time: self.near(now) },
            11 => self.timer_scheduled(now),
            12 => {
                let unfired: Vec<PromiseId> = (self.timers().into_iter())
                    .filter(|timer| !checker::resolved(self.before, timer))
                    .collect();
                let pool = if self.rng.one_in(8) { self.timers() } else { unfired };
                Event::TimerFired { promise_id: self.promise(&pool) }
            }
            13 => self.signal_delivered(),
            14 => self.signal_received(),
            15 => self.awaiting(),
            16 => Event::ExecutionResumed,
            17 => Event::JoinSetCreated { join_set_id: JoinSetId::at(self.next_child()) },
            18 => self.submitted(),
            19 => self.awaited(),
            _ => unreachable!("there are 20 events"),
        }
    }

    // What an event is made of.

    fn payload(&mut self) -> Payload {
        payload(self.rng.number())
    }

    fn outcome(&mut self) -> Outcome {
        outcome(self.rng.number())
    }

    fn near(&mut self, time: Timestamp) -> Timestamp {
        if self.rng.one_in(16) { time.saturating_add(Micros::new(1)) } else { time }
    }

    fn attempt(&mut self, expected: u32) -> Attempt {
        let off = u32::try_from(1 + self.rng.below(3)).expect("below 4");
        attempt(if self.rng.one_in(12) { off } else { expected })
    }

    /// The child whose turn it is, or hardly ever another.
    fn next_child(&mut self) -> PromiseId {
        if self.rng.one_in(30) { self.any_promise() } else { self.execution.pid(self.children()) }
    }

    fn children(&self) -> u32 {
        let count = self.before.iter().filter(|r| checker::allocated(&r.event).is_some()).count();
        u32::try_from(count).expect("tests have few children")
    }

    fn any_number(&mut self) -> u32 {
        let end = u64::from(self.children()) + 2;
        u32::try_from(self.rng.below(end)).expect("tests have few children")
    }

    /// Any child, allocated or not; or, rarely, a child of another execution.
    fn any_promise(&mut self) -> PromiseId {
        let number = self.any_number();
        match self.rng.below(10) {
            0 => foreign().child(number),
            1 => self.execution.id().as_promise().clone(),
            _ => self.execution.pid(number),
        }
    }

    /// One of these, or sometimes any other.
    fn promise(&mut self, pool: &[PromiseId]) -> PromiseId {
        let off = self.rng.one_in(16);
        self.rng.pick(pool).filter(|_| !off).unwrap_or_else(|| self.any_promise())
    }

    // What there is so far.

    fn promises(&self, of: impl Fn(&Event) -> Option<PromiseId>) -> Vec<PromiseId> {
        self.before.iter().filter_map(|record| of(&record.event)).collect()
    }

    fn calls(&self) -> Vec<PromiseId> {
        self.promises(|event| match event {
            Event::InvokeScheduled { promise_id, .. } => Some(promise_id.clone()),
            _ => None,
        })
    }

    fn timers(&self) -> Vec<PromiseId> {
        self.promises(|event| match event {
            Event::TimerScheduled { promise_id, .. } => Some(promise_id.clone()),
            _ => None,
        })
    }

    fn sets(&self) -> Vec<PromiseId> {
        self.promises(|event| match event {
            Event::JoinSetCreated { join_set_id } => Some(join_set_id.place().clone()),
            _ => None,
        })
    }

    fn resolvable(&self) -> Vec<u32> {
        let of = |event: &Event| match event {
            Event::InvokeScheduled { promise_id, .. }
            | Event::TimerScheduled { promise_id, .. }
            | Event::SignalReceived { promise_id, .. } => Some(promise_id.clone()),
            _ => None,
        };
        let id = self.execution.id();
        self.promises(of).iter().filter_map(|promise| promise.number_in(id)).collect()
    }

    fn fire_at(&self, timer: &PromiseId) -> Option<Timestamp> {
        self.before.iter().find_map(|record| match &record.event {
            Event::TimerScheduled { promise_id, fire_at, .. } if promise_id == timer => {
                Some(*fire_at)
            }
            _ => None,
        })
    }

    /// The last attempt of a call (0: never started), and whether it is in flight.
    fn progress(&self, call: &PromiseId) -> (u32, bool) {
        self.before.iter().fold((0, false), |progress, record| match &record.event {
            Event::InvokeStarted { promise_id, attempt } if promise_id == call => {
                (attempt.get(), true)
            }
            Event::InvokeRetrying { promise_id, .. } if promise_id == call => (progress.0, false),
            _ => progress,
        })
    }

    /// Calls without a result, in flight or not; sometimes any call.
    fn open_calls(&mut self, in_flight: bool) -> Vec<PromiseId> {
        let mut calls = self.calls();
        if !self.rng.one_in(10) {
            calls.retain(|call| {
                !checker::resolved(self.before, call) && self.progress(call).1 == in_flight
            });
        }
        calls
    }

    fn result_of(&self, call: &PromiseId) -> Option<Outcome> {
        self.before.iter().find_map(|record| match &record.event {
            Event::InvokeCompleted { promise_id, result, .. } if promise_id == call => {
                Some(result.clone())
            }
            _ => None,
        })
    }

    // The events that take some thought.

    fn started(&mut self) -> Event {
        let mut started = self.execution.started.clone();
        match self.rng.below(12) {
            0 => started.component_digest = ComponentDigest::of(b"another"),
            1 => started.parent_id = Some(foreign()),
            2 => started.parent_id = None,
            3 => started.idempotency_key = None,
            4 => started.idempotency_key = Some(operation("op-2")),
            5 => started.attempts = attempts(&[9]),
            6 => started.retry_policy = Some(any_policy(0)),
            7 => started.retry_policy = None,
            _ => {}
        }
        Event::ExecutionStarted(Box::new(started))
    }

    fn invoke_started(&mut self) -> Event {
        let pool = self.open_calls(false);
        let promise_id = self.promise(&pool);
        let attempt = self.attempt(self.progress(&promise_id).0 + 1);
        Event::InvokeStarted { promise_id, attempt }
    }

    fn invoke_completed(&mut self) -> Event {
        let pool = self.open_calls(true);
        let promise_id = self.promise(&pool);
        let attempt = self.attempt(self.progress(&promise_id).0.max(1));
        Event::InvokeCompleted { promise_id, result: self.outcome(), attempt }
    }

    fn invoke_retrying(&mut self, now: Timestamp) -> Event {
        let pool = self.open_calls(true);
        let promise_id = self.promise(&pool);
        let failed_attempt = self.attempt(self.progress(&promise_id).0.max(1));
        let cause = self.rng.pick(&RetryCause::ALL).expect("there are five");
        let mut error = failure();
        if self.rng.one_in(6) {
            error.kind = self.rng.pick(&ErrorKind::ALL).expect("there are nine");
        }
        Event::InvokeRetrying { promise_id, failed_attempt, cause, error, retry_at: now }
    }

    fn timer_scheduled(&mut self, now: Timestamp) -> Event {
        let micros = self.rng.pick(&[0, 1, 2, 5, 20, 20, 40]).expect("there are some");
        let endless = self.rng.one_in(60);
        let duration = Micros::new(if endless { u64::MAX } else { micros });
        let fire_at = self.near(now.saturating_add(duration));
        Event::TimerScheduled { promise_id: self.next_child(), duration, fire_at }
    }

    fn signal_delivered(&mut self) -> Event {
        let signal_name = self.awaited_name();
        let count = u64::try_from(self.deliveries(&signal_name).len()).expect("few");
        let off = self.rng.one_in(20);
        let delivery_id =
            if off { delivery(1 + self.rng.below(4)) } else { DeliveryId::after(count) };
        Event::SignalDelivered { signal_name, payload: self.payload(), delivery_id }
    }

    fn signal_name(&mut self) -> SignalName {
        signal(self.rng.pick(&SIGNALS).expect("there are two"))
    }

    /// The name that the guest waits for, if it waits for one; sometimes another.
    fn awaited_name(&mut self) -> SignalName {
        if let Some(Status::Blocked { kind, .. }) = checker::status(self.before)
            && let AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } = kind
            && !self.rng.one_in(6)
        {
            return name;
        }
        self.signal_name()
    }

    /// What was delivered to a name, oldest first, and whether it was consumed.
    fn deliveries(&self, name: &SignalName) -> Vec<(DeliveryId, Payload, bool)> {
        let consumed = |id: DeliveryId| {
            self.before.iter().any(|record| {
                matches!(&record.event, Event::SignalReceived { signal_name, delivery_id, .. }
                    if signal_name == name && *delivery_id == id)
            })
        };
        let delivered = self.before.iter().filter_map(|record| match &record.event {
            Event::SignalDelivered { signal_name, payload, delivery_id } if signal_name == name => {
                Some((*delivery_id, payload.clone(), consumed(*delivery_id)))
            }
            _ => None,
        });
        delivered.collect()
    }

    fn signal_received(&mut self) -> Event {
        let signal_name = self.awaited_name();
        let mut promise_id = self.next_child();
        let deliveries = self.deliveries(&signal_name);
        let oldest = deliveries.iter().find(|(_, _, consumed)| !consumed).cloned();
        let any = self.rng.pick(&deliveries);
        let chosen = if self.rng.one_in(6) { any } else { oldest };
        let (mut delivery_id, mut payload) = match chosen {
            Some((id, payload, _)) => (id, payload),
            None => (delivery(1 + self.rng.below(3)), self.payload()),
        };
        match self.rng.below(40) {
            0 => payload = self.payload(),
            1 => delivery_id = delivery(delivery_id.get() + 1),
            2 => promise_id = self.any_promise(),
            _ => {}
        }
        Event::SignalReceived { promise_id, signal_name, payload, delivery_id }
    }

    fn awaiting(&mut self) -> Event {
        let mut pool = self.resolvable();
        if !self.rng.one_in(4) {
            // A wait that is satisfied from the start is legal, but not what most are.
            pool.retain(|n| !checker::resolved(self.before, &self.execution.pid(*n)));
        }
        let next = self.children();
        let mut some: Vec<u32> = pool.iter().copied().filter(|_| self.rng.one_in(2)).collect();
        if some.is_empty() {
            some.extend(self.rng.pick(&pool));
        }
        if self.rng.one_in(16) {
            some.push(self.any_number());
        }
        let name = self.signal_name();
        let promise_id = self.next_child();
        let own = promise_id.number_in(self.execution.id()).unwrap_or(next);
        let (mut numbers, kind) = match self.rng.below(5) {
            0 => (Vec::from_iter(self.rng.pick(&some)), AwaitKind::Single),
            1 => (some, AwaitKind::Any),
            2 => (some, AwaitKind::All),
            3 => (vec![own], AwaitKind::Signal { name, promise_id }),
            _ => {
                some.push(own);
                (some, AwaitKind::SignalOr { name, promise_id })
            }
        };
        match self.rng.below(40) {
            0 => numbers.clear(),
            1 => numbers.extend(self.rng.pick(&pool)),
            2 => numbers.push(self.any_number()),
            3 => numbers.retain(|number| *number != own),
            _ => {}
        }
        if self.rng.one_in(6) {
            let sets = self.sets();
            let set = JoinSetId::at(self.promise(&sets));
            if let Some(waiting_on) = WaitSet::rest_of(&set) {
                return Event::ExecutionAwaiting { waiting_on, kind };
            }
        }
        let foreign = foreign();
        let whose = if self.rng.one_in(60) { &foreign } else { self.execution.id() };
        Event::ExecutionAwaiting { waiting_on: wait_set(whose, &numbers), kind }
    }

    fn submitted(&mut self) -> Event {
        let (sets, calls) = (self.sets(), self.calls());
        let join_set_id = JoinSetId::at(self.promise(&sets));
        Event::JoinSetSubmitted { join_set_id, promise_id: self.promise(&calls) }
    }

    fn awaited(&mut self) -> Event {
        let members = self.before.iter().filter_map(|record| match &record.event {
            Event::JoinSetSubmitted { join_set_id, promise_id } => {
                Some((join_set_id.clone(), promise_id.clone()))
            }
            _ => None,
        });
        let mut members: Vec<(JoinSetId, PromiseId)> = members.collect();
        if !self.rng.one_in(4) {
            members.retain(|(_, call)| self.result_of(call).is_some());
        }
        let (sets, calls) = (self.sets(), self.calls());
        let (mut join_set_id, mut promise_id) = self
            .rng
            .pick(&members)
            .unwrap_or_else(|| (self.execution.set(0), self.execution.pid(1)));
        match self.rng.below(16) {
            0 => join_set_id = JoinSetId::at(self.promise(&sets)),
            1 => promise_id = self.promise(&calls),
            _ => {}
        }
        let right = self.result_of(&promise_id).filter(|_| !self.rng.one_in(10));
        let result = right.unwrap_or_else(|| self.outcome());
        Event::JoinSetAwaited { join_set_id, promise_id, result }
    }
}
