//! Values that tests share.

use indelible_delivery::attempt::{AttemptEnd, Busy503};
use indelible_delivery::delivery::{Context, Delivery, Ending, Input, Policy, Step, step};
use indelible_delivery::schedule::{Jitter, Schedule};
use indelible_delivery::{Endpoint, EndpointSettings, Message, Origin};
use indelible_journal::{Backoff, Idempotency, Micros, Namespace, RetryBound, Timestamp};
use indelible_ledger::OriginId;

pub(crate) const START: u64 = 1_700_000_000;

/// That many seconds after the start of every test.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros((START + seconds) * 1_000_000).unwrap()
}

pub(crate) fn at_micros(micros: u64) -> Timestamp {
    Timestamp::from_micros(START * 1_000_000 + micros).unwrap()
}

pub(crate) fn seconds(seconds: u64) -> Micros {
    Micros::from_secs(seconds)
}

pub(crate) fn namespace() -> Namespace {
    Namespace::new("shop").unwrap()
}

pub(crate) fn key_origin(key: &str) -> Origin {
    Origin::Key { namespace: namespace(), key: OriginId::new(key).unwrap() }
}

pub(crate) fn message(key: &str) -> Message {
    Message {
        origin: key_origin(key),
        namespace: namespace(),
        topic: "order.created".parse().unwrap(),
        lane_key: Some("order-7".parse().unwrap()),
        content_type: "application/json".parse().unwrap(),
        body: r#"{"order":{"id":7}}"#.into(),
        created: at(0),
    }
}

pub(crate) fn settings(json: &str) -> EndpointSettings {
    serde_json::from_str(json).unwrap()
}

pub(crate) fn endpoint() -> Endpoint {
    settings(r#"{"name":"crm","url":"https://example.com/hooks"}"#).read().unwrap()
}

/// A base of one second, a cap of ten, so many retries.
pub(crate) fn exponential(retries: u32) -> Schedule {
    let backoff = Backoff { base: seconds(1), cap: seconds(10) };
    Schedule::Exponential { backoff, bound: RetryBound::Bounded(retries) }
}

pub(crate) fn policy(schedule: &Schedule, class: Idempotency) -> Policy<'_> {
    Policy { schedule, class, expires_at: None, busy: Busy503::Unknown, ending: Ending::DeadLetter }
}

/// The jitter that leaves a wait almost as it is.
pub(crate) const EVEN: Jitter = Jitter(1 << 31);

/// A delivery with a clock.
pub(crate) struct Run<'a> {
    pub(crate) delivery: Delivery,
    pub(crate) now: Timestamp,
    pub(crate) policy: Policy<'a>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(policy: Policy<'a>) -> Self {
        Self { delivery: Delivery::default(), now: at(0), policy }
    }

    pub(crate) fn input(&mut self, input: Input<'_>) -> Step {
        let context = Context { now: self.now, jitter: EVEN, policy: self.policy };
        // A long history is stored as a short one is, and takes longer.
        let stored = match self.delivery.failures.len() {
            0..16 => Delivery::decode(&self.delivery.encode()).unwrap(),
            _ => std::mem::take(&mut self.delivery),
        };
        let step = step(stored, input, &context).unwrap();
        self.delivery = step.delivery.clone();
        step
    }

    /// One attempt, from its begin to this end.
    pub(crate) fn attempt(&mut self, end: AttemptEnd) -> Step {
        self.input(Input::Begin);
        let attempt = self.delivery.attempts;
        self.input(Input::End { attempt, end, text: "no" })
    }
}

pub(crate) fn status(status: u16) -> AttemptEnd {
    AttemptEnd::Answered { status, retry_after: None }
}
