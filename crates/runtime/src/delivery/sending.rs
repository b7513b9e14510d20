//! Attempts: from the queue of an endpoint to their end, and what follows from it (O-1, O-28). Every
//! step of a delivery is decided by `indelible_delivery::delivery::step`.

use std::sync::Arc;

use indelible_delivery::attempt::{AttemptEnd, Unknown};
use indelible_delivery::delivery::{self as rules, Next, Outcome, State, Step};
use indelible_delivery::schedule::Jitter;
use indelible_delivery::signing::standard;
use indelible_delivery::{Disabled, Endpoint, EndpointName, EndpointState, Message, MessageId};
use indelible_execution::{Actor as Person, Purpose};
use indelible_http::{Attempt, End, Header, Part, Request};
use indelible_journal::{Idempotency, Micros, Timestamp};
use indelible_machine::TimerChange;
use indelible_records::delivery::{
    self, DeliveryKey, EndpointId, OpenRow, StoredDelivery, StoredMessage,
};

use super::desk::Turn;
use super::office::{GOES_ON, InFlight, PostOffice, Reply, retry_timer, timer};
use super::{DELIVERY_GRANT, DeadDecision, DeliveryError};
use crate::rooms::{Context, Outgoing};

/// The most attempts that a namespace has under way at once, of all its endpoints together.
const IN_FLIGHT_MAX: usize = 2_000;

/// How many deliveries of an endpoint one input begins, or ends because the endpoint is deleted.
const BEGUN_MAX: usize = 1_000;

/// The largest answer that is read. All that counts is its status.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// How much of an answer's body is kept with a failure.
const ANSWER_SHOWN_BYTES: usize = 256;

/// The header with the topic of a message.
const TOPIC: &str = "indelible-topic";

impl PostOffice {
    /// What another process has left: its attempts are lost, and its queues go on.
    pub(super) fn recover(&mut self, cx: &Context<'_>) -> Result<(), DeliveryError> {
        let loaded = self.loaded.as_ref().expect("the office is loaded");
        for key in loaded.open(cx, OpenRow::Sending)? {
            if let Some(stored) = self.delivery(cx, key)? {
                let message = self.message_of(cx, &stored)?;
                self.advance(cx, key, stored, &message, rules::Input::Lost)?;
            }
        }
        self.send_all(cx);
        Ok(())
    }

    fn send_all(&mut self, cx: &Context<'_>) {
        let desks = self.loaded.as_ref().map(|loaded| loaded.desks.keys().copied());
        for endpoint in desks.into_iter().flatten().collect::<Vec<_>>() {
            self.send_next(cx, endpoint);
        }
    }

    /// Begins attempts while the endpoint takes some. What cannot be read stays queued, and the
    /// operator is told.
    pub(super) fn send_next(&mut self, cx: &Context<'_>, endpoint: EndpointId) {
        for _ in 0..BEGUN_MAX {
            let in_flight = self.loaded.as_ref().map_or(0, |loaded| loaded.in_flight.len());
            if in_flight >= IN_FLIGHT_MAX {
                return;
            }
            let breaker = self.desk(endpoint).stored.breaker.state();
            let number = match self.desk(endpoint).turn(cx.now) {
                Turn::Begin(number) => number,
                Turn::Nothing => return,
                Turn::Pause(until) => return self.pause(cx, endpoint, until),
            };
            if self.desk(endpoint).stored.breaker.state() != breaker {
                self.pending.endpoints.insert(endpoint);
            }
            let key = DeliveryKey { endpoint, number };
            let begun = match self.delivery(cx, key) {
                Ok(Some(stored)) => self.begin(cx, key, stored),
                Ok(None) => Err(DeliveryError::Malformed("a queued delivery is missing".into())),
                Err(error) => Err(error.into()),
            };
            if let Err(error) = begun {
                self.pending.notices.push(error.to_string());
                self.desk(endpoint).queued.remove(&number);
            }
        }
        // The queue of a deleted endpoint can be long: the rest is another commit's.
        self.pause(cx, endpoint, cx.now);
    }

    fn begin(
        &mut self,
        cx: &Context<'_>,
        key: DeliveryKey,
        stored: StoredDelivery,
    ) -> Result<(), DeliveryError> {
        let is_deleted = self.desk(key.endpoint).stored.deleted;
        let input = if is_deleted { rules::Input::EndpointDeleted } else { rules::Input::Begin };
        let message = self.message_of(cx, &stored)?;
        self.advance(cx, key, stored, &message, input)
    }

    fn message_of(
        &self,
        cx: &Context<'_>,
        stored: &StoredDelivery,
    ) -> Result<Arc<StoredMessage>, DeliveryError> {
        let id = stored.message;
        let missing = || DeliveryError::Malformed(format!("message {id} is missing"));
        self.message(cx, id)?.ok_or_else(missing)
    }

    /// Tells a delivery something, and does what follows.
    fn advance(
        &mut self,
        cx: &Context<'_>,
        key: DeliveryKey,
        stored: StoredDelivery,
        message: &Arc<StoredMessage>,
        input: rules::Input<'_>,
    ) -> Result<(), DeliveryError> {
        let id = stored.message;
        let was_sending = match stored.delivery.state {
            State::Sending { since } => Some(since),
            _ => None,
        };
        let StoredDelivery { lane, delivery, .. } = stored;
        let endpoint = self.desk(key.endpoint).stored.endpoint.clone();
        let context = rules::Context {
            now: cx.now,
            jitter: jitter(cx),
            policy: endpoint.policy(message.message.created),
        };
        // A report about an earlier attempt, a second decision: nothing changes.
        let Ok(step) = rules::step(delivery, input, &context) else { return Ok(()) };
        let Step { delivery, next, disables_endpoint, sample } = step;
        let namespace = self.namespace();
        if let Some(began) = was_sending {
            delivery::delete_open(self.batch(cx), &namespace, OpenRow::Sending, key);
            if let Some(sample) = sample {
                let stored = &mut self.desk(key.endpoint).stored;
                if stored.breaker.record(sample, began, cx.now, &endpoint.breaker) {
                    self.pending.endpoints.insert(key.endpoint);
                }
            }
        }
        if disables_endpoint {
            let why = Disabled::Gone;
            self.desk(key.endpoint).stored.endpoint.state =
                EndpointState::Disabled { since: cx.now, why };
            self.pending.endpoints.insert(key.endpoint);
        }
        self.dequeue(cx, key);
        let stored = StoredDelivery { message: id, lane, delivery };
        match next {
            Next::Send { attempt } => {
                delivery::put_open(self.batch(cx), &namespace, OpenRow::Sending, key);
                self.send(cx, key, attempt, &endpoint, message, stored.clone());
            }
            Next::Wait(until) if until > cx.now => {
                self.pending.timers.push((retry_timer(cx, until, key), TimerChange::Put));
            }
            Next::Wait(_) => self.enqueue(key),
            Next::Keep => {}
            Next::Settled(outcome) => {
                self.keep(key, stored.clone());
                return self.settle(cx, key, &stored, outcome);
            }
        }
        self.keep(key, stored);
        Ok(())
    }

    /// Hands an attempt over: it leaves when the commit is durable.
    fn send(
        &mut self,
        cx: &Context<'_>,
        key: DeliveryKey,
        attempt: u32,
        endpoint: &Endpoint,
        message: &Arc<StoredMessage>,
        stored: StoredDelivery,
    ) {
        self.desk(key.endpoint).sending += 1;
        let loaded = self.loaded.as_mut().expect("the office is loaded");
        loaded.last_request = loaded.last_request.wrapping_add(1);
        let request = loaded.last_request;
        let sent = request_of(endpoint, &message.message, cx.now);
        let message = Arc::clone(message);
        loaded.in_flight.insert(request, InFlight { key, attempt, stored, message });
        self.pending.outgoing.push(Outgoing::Attempt(request, Box::new(sent)));
    }

    /// A request has ended.
    pub(super) fn report(
        &mut self,
        cx: &Context<'_>,
        request: u64,
        end: &End,
    ) -> Result<(), DeliveryError> {
        let loaded = self.load(cx)?;
        // A machine that was loaded anew has taken its attempts for lost.
        let Some(in_flight) = loaded.in_flight.remove(&request) else { return Ok(()) };
        let was_full = loaded.in_flight.len() + 1 >= IN_FLIGHT_MAX;
        let InFlight { key, attempt, stored, message } = in_flight;
        self.desk(key.endpoint).sending -= 1;
        let (end, text) = read_end(end, cx.now);
        self.counts.ended(&end);
        let input = rules::Input::End { attempt, end, text: &text };
        self.advance(cx, key, stored, &message, input)?;
        if was_full {
            self.send_all(cx);
        } else {
            self.send_next(cx, key.endpoint);
        }
        Ok(())
    }

    /// A delivery has an outcome: its lane goes on, unless a dead letter blocks it.
    fn settle(
        &mut self,
        cx: &Context<'_>,
        key: DeliveryKey,
        stored: &StoredDelivery,
        outcome: Outcome,
    ) -> Result<(), DeliveryError> {
        use indelible_delivery::lane::{Turn, turn};
        self.counts.settled(&outcome);
        let namespace = self.namespace();
        if let Outcome::Dead(_) = outcome {
            delivery::put_dead(self.batch(cx), &namespace, key);
        }
        let policy = self.desk(key.endpoint).stored.endpoint.lane;
        let is_deleted = self.desk(key.endpoint).stored.deleted;
        let advances = is_deleted || turn(policy, &stored.delivery.state) == Turn::Advance;
        if advances {
            self.leave(cx, key, stored);
        }
        self.is_settled(cx, key, stored.message)
    }

    /// Lanes that a dead letter blocks go on, if the endpoint does not want that any more, or is deleted.
    pub(super) fn unblock(
        &mut self,
        cx: &Context<'_>,
        endpoint: EndpointId,
    ) -> Result<(), DeliveryError> {
        use indelible_delivery::lane::{Turn, turn};
        let desk = self.desk(endpoint);
        let (policy, is_deleted) = (desk.stored.endpoint.lane, desk.stored.deleted);
        for number in desk.heads() {
            let key = DeliveryKey { endpoint, number };
            let Some(stored) = self.delivery(cx, key)? else { continue };
            let is_dead = matches!(stored.delivery.state, State::Dead { .. });
            if is_dead && (is_deleted || turn(policy, &stored.delivery.state) == Turn::Advance) {
                self.leave(cx, key, &stored);
            }
        }
        Ok(())
    }

    /// A delivery leaves its lane, and the next one of the lane may be sent.
    fn leave(&mut self, cx: &Context<'_>, key: DeliveryKey, stored: &StoredDelivery) {
        let Some(lane) = &stored.lane else { return };
        let row = delivery::lane_row(&self.namespace(), key, lane);
        self.batch(cx).delete(indelible_records::DELIVERIES, row);
        if let Some(next) = self.desk(key.endpoint).leave(lane, key.number) {
            self.enqueue(DeliveryKey { number: next, ..key });
        }
    }

    /// A delivery's wait is over.
    pub(super) fn retry(
        &mut self,
        cx: &Context<'_>,
        what: &[u8],
        due: Timestamp,
    ) -> Result<(), DeliveryError> {
        let Some((endpoint, number)) = what.split_first_chunk::<4>() else { return Ok(()) };
        let Ok(number) = number.try_into() else { return Ok(()) };
        let endpoint = EndpointId::from_be_bytes(*endpoint);
        let key = DeliveryKey { endpoint, number: u64::from_be_bytes(number) };
        let state = self.delivery(cx, key)?.map(|stored| stored.delivery.state);
        if matches!(state, Some(State::Waiting { until, .. }) if until == due) {
            self.enqueue(key);
            self.send_next(cx, endpoint);
        }
        Ok(())
    }

    /// The endpoint takes nothing before this time: a timer wakes it.
    fn pause(&mut self, cx: &Context<'_>, endpoint: EndpointId, until: Timestamp) {
        let stored = &mut self.desk(endpoint).stored;
        if stored.paused_until == Some(until) {
            return;
        }
        if let Some(before) = stored.paused_until.replace(until) {
            let timer = timer(cx, before, GOES_ON, &endpoint.to_be_bytes());
            self.pending.timers.push((timer, TimerChange::Delete));
        }
        let timer = timer(cx, until, GOES_ON, &endpoint.to_be_bytes());
        self.pending.timers.push((timer, TimerChange::Put));
        self.pending.endpoints.insert(endpoint);
    }

    /// The pause of an endpoint is over.
    pub(super) fn goes_on(&mut self, cx: &Context<'_>, endpoint: EndpointId, due: Timestamp) {
        let loaded = self.loaded.as_mut().expect("the office is loaded");
        let Some(desk) = loaded.desks.get_mut(&endpoint) else { return };
        if desk.stored.paused_until == Some(due) {
            desk.stored.paused_until = None;
            self.pending.endpoints.insert(endpoint);
            self.send_next(cx, endpoint);
        }
    }

    /// The endpoint may take messages at once: it has changed, or an operator says so.
    pub(super) fn unpause(&mut self, cx: &Context<'_>, endpoint: EndpointId) {
        if let Some(until) = self.desk(endpoint).stored.paused_until.take() {
            let timer = timer(cx, until, GOES_ON, &endpoint.to_be_bytes());
            self.pending.timers.push((timer, TimerChange::Delete));
        }
        self.send_next(cx, endpoint);
    }

    /// A person decides about a dead letter (O-36).
    pub(super) fn decide(
        &mut self,
        cx: &Context<'_>,
        id: MessageId,
        name: &EndpointName,
        decision: DeadDecision,
        person: &Person,
        reason: &str,
    ) -> Result<Reply, DeliveryError> {
        let message = self.message(cx, id)?.ok_or(DeliveryError::NoMessage)?;
        let loaded = self.load(cx)?;
        if message.message.namespace != loaded.namespace {
            return Err(DeliveryError::NoMessage);
        }
        // A deleted endpoint of the same name may have had the message.
        let is_it = |id: &&EndpointId| loaded.desks[*id].stored.endpoint.name == *name;
        let endpoint = message.endpoints.iter().find(is_it).copied();
        let endpoint = endpoint.ok_or(DeliveryError::NoEndpoint)?;
        let desk = &loaded.desks[&endpoint].stored;
        if matches!(decision, DeadDecision::Redeliver { .. }) && desk.deleted {
            return Err(DeliveryError::NoEndpoint);
        }
        let is_idem = desk.endpoint.class == Idempotency::Idem;
        let key = DeliveryKey { endpoint, number: message.number };
        let stored = self.delivery(cx, key)?.ok_or(DeliveryError::NoMessage)?;
        if !matches!(stored.delivery.state, State::Dead { .. }) {
            return Err(DeliveryError::NotDead);
        }
        // impl C-52
        let is_certain = is_idem || !stored.delivery.may_have_arrived;
        if decision == (DeadDecision::Redeliver { did_not_arrive: false }) && !is_certain {
            return Err(DeliveryError::MayHaveArrived);
        }
        let namespace = self.namespace();
        delivery::delete_dead(self.batch(cx), &namespace, key);
        let lane = stored.lane.clone();
        match decision {
            DeadDecision::Abandon => {
                self.advance(cx, key, stored, &message, rules::Input::Abandon)?;
            }
            DeadDecision::Redeliver { .. } => {
                self.advance(cx, key, stored, &message, rules::Input::Redeliver)?;
                if let Some(lane) = &lane {
                    // Messages that have overtaken it may hold the lane.
                    let row = delivery::lane_row(&namespace, key, lane);
                    self.batch(cx).put(indelible_records::DELIVERIES, row, bytes::Bytes::new());
                    if !self.desk(endpoint).join(lane, key.number) {
                        self.dequeue(cx, key);
                    }
                }
            }
        }
        let action = match decision {
            DeadDecision::Abandon => format!("abandon message {id}"),
            DeadDecision::Redeliver { did_not_arrive: true } => {
                format!("redeliver message {id}, which did not arrive")
            }
            DeadDecision::Redeliver { .. } => format!("redeliver message {id}"),
        };
        self.audit(cx, person, name, &action, reason);
        self.send_next(cx, endpoint);
        let decided = self.delivery(cx, key)?.ok_or(DeliveryError::NoMessage)?;
        Ok(Reply::Decided(Box::new(decided.delivery)))
    }
}

fn jitter(cx: &Context<'_>) -> Jitter {
    let mut random = [0; 4];
    cx.surroundings.fill(Purpose::Id, &mut random);
    Jitter(u32::from_be_bytes(random))
}

/// The request of an attempt: the body as it was given, signed now (O-24, C-60).
fn request_of(endpoint: &Endpoint, message: &Message, now: Timestamp) -> Attempt {
    let id = message.id().to_string();
    let timestamp = standard::timestamp(now);
    let signature = standard::sign(endpoint.secrets_at(now), &id, &timestamp, &message.body);
    let header = |name: &str, value: String| Header {
        name: name.to_owned(),
        value: vec![Part::Bytes(value.into())],
    };
    let headers = vec![
        header("content-type", message.content_type.to_string()),
        header(standard::ID, id.clone()),
        header(standard::TIMESTAMP, timestamp),
        header(standard::SIGNATURE, signature),
        header(TOPIC, message.topic.to_string()),
    ];
    Attempt {
        request: Request {
            method: "POST".to_owned(),
            url: endpoint.url.as_str().to_owned(),
            headers,
            body: vec![Part::Bytes(message.body.clone())],
        },
        idempotency_key: id,
        trace_parent: None,
        components: [DELIVERY_GRANT.to_owned()].into(),
        timeout: std::time::Duration::from_micros(endpoint.attempt_timeout.get()),
        response_bytes_max: ANSWER_BYTES_MAX,
        idem: endpoint.class == Idempotency::Idem,
    }
}

/// How a request ended, for the rules and for people.
fn read_end(end: &End, now: Timestamp) -> (AttemptEnd, String) {
    match end {
        End::Answered(answer) | End::TooLarge(answer) => {
            let retry_after = answer.retry_after(now.as_micros());
            let wait = |wait: std::time::Duration| {
                Micros::new(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX))
            };
            let status = answer.status;
            let shown = &answer.body[..answer.body.len().min(ANSWER_SHOWN_BYTES)];
            let text = match shown {
                [] => format!("the endpoint answered {status}"),
                body => {
                    format!("the endpoint answered {status}: {}", String::from_utf8_lossy(body))
                }
            };
            (AttemptEnd::Answered { status, retry_after: retry_after.map(wait) }, text)
        }
        End::NotSent { why } => (AttemptEnd::NotSent, why.clone()),
        End::Refused { why } => (AttemptEnd::Forbidden, why.clone()),
        End::Unknown { why, timed_out } => {
            let unknown = if *timed_out { Unknown::TimedOut } else { Unknown::NoAnswer };
            (AttemptEnd::Unknown(unknown), why.clone())
        }
    }
}
