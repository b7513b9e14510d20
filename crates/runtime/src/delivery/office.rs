//! The post office of a namespace as a machine (D14): its endpoints, the numbers of its messages, and
//! what changed since the last commit. The rules are those of `indelible-delivery`; this loads what
//! they look at, and collects the rows of what they say.
//!
//! A message is accepted in one commit with its deliveries and with the first attempts at them, which
//! leave when that commit is durable. Another commit has the ends of attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_delivery::SigningSecret;
use indelible_delivery::signing::Secret;
use indelible_delivery::{Delivery, Endpoint, EndpointName, EndpointState, Message, MessageId};
use indelible_execution::{Actor as Person, Purpose, audit_entry};
use indelible_journal::{Micros, Namespace, Timestamp};
use indelible_machine::{CallerId, Changes, Machine, TimerChange};
use indelible_records::audit::{self, AuditSubject};
use indelible_records::delivery::{
    self, DeliveryKey, EndpointId, OfficeRow, OpenRow, StoredDelivery, StoredEndpoint,
    StoredMessage,
};
use indelible_records::queue;
use indelible_slots::SlotSet;
use indelible_store::{Batch, ReadError};

use super::desk::Desk;
use super::{
    Accepted, DeadDecision, DeliveryCounts, DeliveryError, ENDPOINTS_MAX, EndpointView, QUEUED_MAX,
};
use crate::EngineError;
use crate::rooms::{Context, Input, Outgoing, RoomMachine, RoomRows, RoomTimer};

/// With so many bytes or rows the changes are committed before the next input.
const PENDING_BYTES_MAX: usize = 8 << 20;
const PENDING_ROWS_MAX: usize = 20_000;

/// How many rows are read at a time when an office is loaded.
const PAGE: usize = 1_000;

/// How many messages one commit of retention looks at.
const SWEPT_MAX: usize = 500;

/// How long after its time a message is looked at: many go together, and the clock of retention may be
/// behind.
const SWEEP_SLACK: Micros = Micros::from_secs(3_600);

/// How long after its time a message is looked at again by a timer, while the clock of retention is
/// behind.
const SWEEP_LATE_MAX: Micros = Micros::from_secs(30 * 24 * 3_600);

/// What the first byte of a timer means.
pub(super) const RETRIES: u8 = 1;
pub(super) const GOES_ON: u8 = 2;
pub(super) const SWEEPS: u8 = 3;

/// What a post office can be asked.
pub(crate) enum Ask {
    /// To accept this message, unless it was accepted before. The other says why its key is refused if
    /// it is unknown (C-48).
    Send(Box<Message>, Result<(), EngineError>),
    /// To have an endpoint with these settings, in the place of one with the same name. The secret is
    /// that of an endpoint which is new and has none.
    Put(Box<Endpoint>, Secret, Person),
    /// To delete an endpoint. The reason is the person's.
    Delete(EndpointName, Person, String),
    /// To enable an endpoint, or to disable it.
    Enable(EndpointName, bool, Person, String),
    /// To sign with another secret from now on, and with the earlier ones for so long.
    Rotate(EndpointName, Secret, Micros, Person),
    /// To tell how its endpoints stand: this one, or all.
    Show(Option<EndpointName>),
    /// To do this with a dead letter of the message at the endpoint. The reason is the person's.
    Decide(MessageId, EndpointName, DeadDecision, Person, String),
}

/// What a post office answers.
pub(crate) enum Reply {
    Accepted(Accepted),
    /// The endpoint; whether it was made now; and the secret that was offered, if it has that.
    Put(Box<EndpointView>, bool, Option<Secret>),
    Endpoints(Vec<EndpointView>),
    Decided(Box<Delivery>),
    Done,
}

/// The machine of a post office.
pub(crate) struct PostOffice {
    pub(super) counts: Arc<DeliveryCounts>,
    /// `None`: not read yet.
    pub(super) loaded: Option<Loaded>,
    pub(super) pending: Pending,
}

pub(super) struct Loaded {
    pub(super) namespace: Namespace,
    pub(super) row: OfficeRow,
    pub(super) desks: BTreeMap<EndpointId, Desk>,
    /// Attempts under way, by the numbers of their requests.
    pub(super) in_flight: BTreeMap<u64, InFlight>,
    pub(super) last_request: u64,
}

/// An attempt under way.
pub(super) struct InFlight {
    pub(super) key: DeliveryKey,
    pub(super) attempt: u32,
    pub(super) stored: StoredDelivery,
    pub(super) message: Arc<StoredMessage>,
}

/// What changed since the last commit.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) batch: Option<Batch>,
    office_changed: bool,
    pub(super) endpoints: BTreeSet<EndpointId>,
    messages: BTreeMap<MessageId, Arc<StoredMessage>>,
    /// Written as they are when the commit is made: most are begun in the commit that accepts them.
    deliveries: BTreeMap<DeliveryKey, StoredDelivery>,
    /// Deliveries that were queued since the last commit.
    queued: BTreeSet<DeliveryKey>,
    pub(super) timers: Vec<(RoomTimer, TimerChange)>,
    replies: Vec<(CallerId, Result<Reply, DeliveryError>)>,
    pub(super) outgoing: Vec<Outgoing>,
    pub(super) notices: Vec<String>,
}

impl Loaded {
    fn read(cx: &Context<'_>) -> Result<Self, ReadError> {
        let namespace = delivery::namespace_of(cx.key)?;
        let row = delivery::office(&cx.reads, &namespace)?.value.unwrap_or_default();
        let mut desks = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = delivery::endpoints(&cx.reads, &namespace, after, PAGE)?.value;
            let Some((last, _)) = page.last() else { break };
            after = *last;
            desks.extend(page.into_iter().map(|(id, stored)| (id, Desk::new(stored))));
        }
        // A machine that replaces one whose commit failed still hears of the requests of that one.
        // Their numbers must not be its own, or a message would count as delivered that was not.
        let mut random = [0; 8];
        cx.surroundings.fill(Purpose::Id, &mut random);
        let last_request = u64::from_be_bytes(random);
        let mut loaded = Self { namespace, row, desks, in_flight: BTreeMap::new(), last_request };
        if row.last_number > 0 {
            loaded.read_open(cx)?;
        }
        Ok(loaded)
    }

    /// What is queued, and the lanes. The head of a lane is what is queued or being sent of it, or else
    /// the first that is not fresh: it waits for a retry, or is dead and blocks the lane.
    fn read_open(&mut self, cx: &Context<'_>) -> Result<(), ReadError> {
        for key in self.open(cx, OpenRow::Queued)? {
            if let Some(desk) = self.desks.get_mut(&key.endpoint) {
                desk.queued.insert(key.number);
            }
        }
        let sent = self.open(cx, OpenRow::Sending)?;
        let mut members = BTreeMap::<_, Vec<DeliveryKey>>::new();
        let mut after = None;
        loop {
            let page = delivery::lanes(&cx.reads, &self.namespace, after, PAGE)?.value;
            let Some((last, ..)) = page.last() else { break };
            after = Some(last.clone());
            for (_, lane, key) in page {
                members.entry((key.endpoint, lane)).or_default().push(key);
            }
        }
        for ((endpoint, lane), keys) in members {
            let Some(desk) = self.desks.get_mut(&endpoint) else { continue };
            let is_out =
                |key: &&DeliveryKey| desk.queued.contains(&key.number) || sent.contains(key);
            let mut head = keys.iter().find(is_out).copied();
            for key in &keys {
                if head.is_some() {
                    break;
                }
                let stored = delivery::delivery(&cx.reads, &self.namespace, *key)?.value;
                let fresh = indelible_delivery::delivery::State::Queued;
                head = stored.filter(|stored| stored.delivery.state != fresh).map(|_| *key);
            }
            let head = head.unwrap_or(keys[0]);
            desk.join(&lane, head.number);
            for key in keys.into_iter().filter(|key| *key != head) {
                desk.join(&lane, key.number);
            }
        }
        Ok(())
    }

    pub(super) fn open(
        &self,
        cx: &Context<'_>,
        what: OpenRow,
    ) -> Result<BTreeSet<DeliveryKey>, ReadError> {
        let mut all = BTreeSet::new();
        loop {
            let after = all.last().copied();
            let page = delivery::open(&cx.reads, &self.namespace, what, after, PAGE)?.value;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    fn desk_named(&self, name: &EndpointName) -> Option<EndpointId> {
        let is_it = |desk: &Desk| !desk.stored.deleted && desk.stored.endpoint.name == *name;
        self.desks.iter().find(|(_, desk)| is_it(desk)).map(|(id, _)| *id)
    }

    fn view(desk: &Desk) -> EndpointView {
        let StoredEndpoint { paused_until, breaker, endpoint, .. } = desk.stored.clone();
        let (queued, sending) = (desk.waiting(), desk.sending);
        EndpointView { endpoint, breaker, paused_until, queued, sending }
    }

    /// Whether deliveries are queued or being sent, which another process would have to go on with.
    fn has_work(&self) -> bool {
        !self.in_flight.is_empty() || self.desks.values().any(|desk| !desk.queued.is_empty())
    }
}

impl PostOffice {
    pub(crate) fn new(counts: Arc<DeliveryCounts>) -> Self {
        Self { counts, loaded: None, pending: Pending::default() }
    }

    /// Loads the office. Attempts that another process had under way are lost.
    pub(super) fn load(&mut self, cx: &Context<'_>) -> Result<&mut Loaded, DeliveryError> {
        if self.loaded.is_none() {
            self.loaded = Some(Loaded::read(cx)?);
            if let Err(error) = self.recover(cx) {
                // What is recovered by half is recovered again: the rows still say all of it.
                let replies = std::mem::take(&mut self.pending.replies);
                (self.loaded, self.pending) = (None, Pending { replies, ..Pending::default() });
                return Err(error);
            }
        }
        Ok(self.loaded.as_mut().expect("it was just read"))
    }

    pub(super) fn batch(&mut self, cx: &Context<'_>) -> &mut Batch {
        self.pending.batch.get_or_insert_with(|| Batch::in_slots(cx.key.slot()))
    }

    fn asked(&mut self, cx: &Context<'_>, ask: Ask) -> Result<Reply, DeliveryError> {
        self.load(cx)?;
        match ask {
            Ask::Send(message, unknown) => self.accept(cx, *message, unknown).map(Reply::Accepted),
            Ask::Put(endpoint, secret, person) => self.put(cx, *endpoint, secret, &person),
            Ask::Delete(name, person, reason) => self.delete(cx, &name, &person, &reason),
            Ask::Enable(name, on, person, reason) => self.enable(cx, &name, on, &person, &reason),
            Ask::Rotate(name, secret, overlap, person) => {
                self.rotate(cx, &name, secret, overlap, &person)
            }
            Ask::Show(name) => {
                let loaded = self.load(cx)?;
                let shown = |desk: &&Desk| {
                    let stored = &desk.stored;
                    let is_asked = |name: &EndpointName| stored.endpoint.name == *name;
                    !stored.deleted && name.as_ref().is_none_or(is_asked)
                };
                let views = loaded.desks.values().filter(shown).map(Loaded::view);
                Ok(Reply::Endpoints(views.collect()))
            }
            Ask::Decide(id, name, decision, person, reason) => {
                self.decide(cx, id, &name, decision, &person, &reason)
            }
        }
    }

    /// Accepts a message, with a delivery for each endpoint that wants it (O-24, O-61).
    fn accept(
        &mut self,
        cx: &Context<'_>,
        mut message: Message,
        unknown: Result<(), EngineError>,
    ) -> Result<Accepted, DeliveryError> {
        let id = message.id();
        message.created = cx.now;
        if let Some(known) = self.message(cx, id)? {
            // impl C-60: the same content, whenever it was made.
            if known.message.conflict_hash() != message.conflict_hash() {
                return Err(DeliveryError::Mismatch);
            }
            self.counts.accepted(true);
            return Ok(Accepted { id, is_prior: true, endpoints: known.endpoints.len() });
        }
        unknown?;
        let loaded = self.load(cx)?;
        let mut endpoints = Vec::new();
        for (endpoint, desk) in &loaded.desks {
            if desk.stored.deleted || !desk.stored.endpoint.wants(&message) {
                continue;
            }
            if desk.waiting() >= QUEUED_MAX {
                return Err(DeliveryError::Full(desk.stored.endpoint.name.clone()));
            }
            endpoints.push(*endpoint);
        }
        loaded.row.last_number += 1;
        let number = loaded.row.last_number;
        let (namespace, lane) = (loaded.namespace.clone(), message.lane_key.clone());
        self.pending.office_changed = true;
        let stored = Arc::new(StoredMessage { number, endpoints, message });
        let batch = self.batch(cx);
        batch.touch(id.slot());
        delivery::put_message(batch, id, &stored);
        self.pending.messages.insert(id, Arc::clone(&stored));
        for endpoint in &stored.endpoints {
            let key = DeliveryKey { endpoint: *endpoint, number };
            let fresh =
                StoredDelivery { message: id, lane: lane.clone(), delivery: Delivery::default() };
            self.keep(key, fresh);
            if let Some(lane) = &lane {
                let row = delivery::lane_row(&namespace, key, lane);
                self.batch(cx).put(indelible_records::DELIVERIES, row, Bytes::new());
                if !self.desk(*endpoint).join(lane, number) {
                    continue;
                }
            }
            self.enqueue(key);
            self.send_next(cx, *endpoint);
        }
        self.sweep_by(cx, cx.now.saturating_add(cx.retention.window()).saturating_add(SWEEP_SLACK));
        self.counts.accepted(false);
        Ok(Accepted { id, is_prior: false, endpoints: stored.endpoints.len() })
    }

    fn put(
        &mut self,
        cx: &Context<'_>,
        mut endpoint: Endpoint,
        offered: Secret,
        person: &Person,
    ) -> Result<Reply, DeliveryError> {
        let loaded = self.load(cx)?;
        let known = loaded.desk_named(&endpoint.name);
        let id = match known {
            Some(id) => id,
            None => {
                let live = loaded.desks.values().filter(|desk| !desk.stored.deleted).count();
                if live >= ENDPOINTS_MAX {
                    return Err(DeliveryError::TooManyEndpoints);
                }
                loaded.row.last_endpoint += 1;
                loaded.row.last_endpoint
            }
        };
        let name = endpoint.name.clone();
        let mut used = None;
        match loaded.desks.get_mut(&id) {
            Some(desk) => {
                if endpoint.secrets.is_empty() {
                    endpoint.secrets.clone_from(&desk.stored.endpoint.secrets);
                }
                endpoint.state = desk.stored.endpoint.state;
                // Failures at another address, or by other rules, say nothing about this one.
                if endpoint != desk.stored.endpoint {
                    desk.stored.breaker.reset();
                }
                desk.stored.endpoint = endpoint;
            }
            None => {
                if endpoint.secrets.is_empty() {
                    let secret = offered.clone();
                    endpoint.secrets.push(SigningSecret { secret, until: None });
                    used = Some(offered);
                }
                let breaker = indelible_delivery::breaker::Breaker::default();
                let stored =
                    StoredEndpoint { deleted: false, paused_until: None, breaker, endpoint };
                loaded.desks.insert(id, Desk::new(stored));
            }
        }
        let view = Loaded::view(&loaded.desks[&id]);
        self.pending.endpoints.insert(id);
        self.pending.office_changed |= known.is_none();
        let action = if known.is_some() { "change endpoint" } else { "create endpoint" };
        self.audit(cx, person, &name, action, "");
        self.unblock(cx, id)?;
        self.unpause(cx, id);
        Ok(Reply::Put(Box::new(view), known.is_none(), used))
    }

    /// Deletes an endpoint: what is not delivered becomes dead letters.
    fn delete(
        &mut self,
        cx: &Context<'_>,
        name: &EndpointName,
        person: &Person,
        reason: &str,
    ) -> Result<Reply, DeliveryError> {
        let loaded = self.load(cx)?;
        let id = loaded.desk_named(name).ok_or(DeliveryError::NoEndpoint)?;
        let desk = self.desk(id);
        desk.stored.deleted = true;
        // Its secrets are of no use any more, and it is never sent to again.
        desk.stored.endpoint.secrets.clear();
        self.pending.endpoints.insert(id);
        self.audit(cx, person, name, "delete endpoint", reason);
        self.unblock(cx, id)?;
        self.send_next(cx, id);
        Ok(Reply::Done)
    }

    fn enable(
        &mut self,
        cx: &Context<'_>,
        name: &EndpointName,
        on: bool,
        person: &Person,
        reason: &str,
    ) -> Result<Reply, DeliveryError> {
        let loaded = self.load(cx)?;
        let id = loaded.desk_named(name).ok_or(DeliveryError::NoEndpoint)?;
        let stored = &mut self.desk(id).stored;
        let is_on = stored.endpoint.state == EndpointState::Enabled;
        if on {
            stored.endpoint.state = EndpointState::Enabled;
            stored.breaker.reset();
        } else if is_on {
            let why = indelible_delivery::Disabled::Operator;
            stored.endpoint.state = EndpointState::Disabled { since: cx.now, why };
        }
        self.pending.endpoints.insert(id);
        self.audit(
            cx,
            person,
            name,
            if on { "enable endpoint" } else { "disable endpoint" },
            reason,
        );
        if on {
            self.unpause(cx, id);
        }
        let loaded = self.load(cx)?;
        Ok(Reply::Endpoints(vec![Loaded::view(&loaded.desks[&id])]))
    }

    fn rotate(
        &mut self,
        cx: &Context<'_>,
        name: &EndpointName,
        secret: Secret,
        overlap: Micros,
        person: &Person,
    ) -> Result<Reply, DeliveryError> {
        let loaded = self.load(cx)?;
        let id = loaded.desk_named(name).ok_or(DeliveryError::NoEndpoint)?;
        self.desk(id).stored.endpoint.rotate(secret, cx.now, overlap);
        self.pending.endpoints.insert(id);
        self.audit(cx, person, name, "rotate the secret of an endpoint", "");
        Ok(Reply::Done)
    }

    pub(super) fn audit(
        &mut self,
        cx: &Context<'_>,
        person: &Person,
        name: &EndpointName,
        action: &str,
        reason: &str,
    ) {
        let namespace = self.loaded.as_ref().map(|loaded| loaded.namespace.to_string());
        let about = format!("endpoint {}/{name}", namespace.unwrap_or_default());
        let about = AuditSubject::Subject(about);
        let entry = audit_entry(cx.surroundings, cx.now, person, about, action, reason);
        let batch = self.batch(cx);
        batch.touch(entry.slot());
        audit::put(batch, &entry);
    }

    /// The desk of an endpoint that is known to be there.
    pub(super) fn desk(&mut self, endpoint: EndpointId) -> &mut Desk {
        let loaded = self.loaded.as_mut().expect("the office is loaded");
        loaded.desks.get_mut(&endpoint).expect("the endpoint is one of the office's")
    }

    pub(super) fn namespace(&self) -> Namespace {
        self.loaded.as_ref().expect("the office is loaded").namespace.clone()
    }

    /// A message that is stored, or about to be.
    pub(super) fn message(
        &self,
        cx: &Context<'_>,
        id: MessageId,
    ) -> Result<Option<Arc<StoredMessage>>, ReadError> {
        match self.pending.messages.get(&id) {
            Some(message) => Ok(Some(Arc::clone(message))),
            None => Ok(delivery::message(&cx.reads, id)?.value.map(Arc::new)),
        }
    }

    /// A delivery that is stored, or about to be.
    pub(super) fn delivery(
        &self,
        cx: &Context<'_>,
        key: DeliveryKey,
    ) -> Result<Option<StoredDelivery>, ReadError> {
        match self.pending.deliveries.get(&key) {
            Some(stored) => Ok(Some(stored.clone())),
            None => Ok(delivery::delivery(&cx.reads, &self.namespace(), key)?.value),
        }
    }

    /// The delivery is so from now on.
    pub(super) fn keep(&mut self, key: DeliveryKey, stored: StoredDelivery) {
        self.pending.deliveries.insert(key, stored);
    }

    /// The delivery may be sent when its turn comes.
    pub(super) fn enqueue(&mut self, key: DeliveryKey) {
        if self.desk(key.endpoint).queued.insert(key.number) {
            self.pending.queued.insert(key);
        }
    }

    /// The delivery is not queued any more.
    pub(super) fn dequeue(&mut self, cx: &Context<'_>, key: DeliveryKey) {
        let was_queued = self.desk(key.endpoint).queued.remove(&key.number);
        if was_queued && !self.pending.queued.remove(&key) {
            let namespace = self.namespace();
            delivery::delete_open(self.batch(cx), &namespace, OpenRow::Queued, key);
        }
    }

    /// Has retention look at the messages at this time, unless it looks at them before.
    fn sweep_by(&mut self, cx: &Context<'_>, at: Timestamp) {
        let row = &mut self.loaded.as_mut().expect("the office is loaded").row;
        if row.sweeps_at.is_none() {
            row.sweeps_at = Some(at);
            self.pending.office_changed = true;
            self.pending.timers.push((timer(cx, at, SWEEPS, &[]), TimerChange::Put));
        }
    }

    /// Forgets messages whose time is over, and whose deliveries are (C-3, O-31). A message that is not
    /// delivered and not decided stays, and is looked at again with the later ones.
    fn sweep(&mut self, cx: &Context<'_>, due: Timestamp) -> Result<(), DeliveryError> {
        let loaded = self.load(cx)?;
        if loaded.row.sweeps_at != Some(due) {
            return Ok(());
        }
        loaded.row.sweeps_at = None;
        let (namespace, last) = (loaded.namespace.clone(), loaded.row.last_number);
        let (time, window) = (cx.surroundings.retention_time(), cx.retention.window());
        let mut next = None;
        let mut number = loaded.row.swept;
        self.pending.office_changed = true;
        for _ in 0..SWEPT_MAX {
            if number >= last {
                break;
            }
            if let Some(id) = delivery::message_of_number(&cx.reads, &namespace, number + 1)?.value
                && let Some(stored) = self.message(cx, id)?
            {
                let over = stored.message.created.saturating_add(window);
                if over > time {
                    next = Some(over);
                    break;
                }
                self.forget(cx, id, &stored)?;
            }
            number += 1;
        }
        let loaded = self.load(cx)?;
        loaded.row.swept = number;
        match next {
            Some(over) => {
                // While the clock of retention is behind, the pauses grow, and end: then the next
                // message sets the timer.
                let late = cx.now.saturating_since(over);
                if late <= SWEEP_LATE_MAX {
                    let pause = Micros::new(late.get() / 2).max(SWEEP_SLACK);
                    self.sweep_by(cx, over.max(cx.now).saturating_add(pause));
                }
            }
            None if number < last => self.sweep_by(cx, cx.now),
            None => {}
        }
        Ok(())
    }

    /// Forgets a message if all its deliveries are over.
    fn forget(
        &mut self,
        cx: &Context<'_>,
        id: MessageId,
        stored: &StoredMessage,
    ) -> Result<(), DeliveryError> {
        let namespace = self.namespace();
        let keys = stored
            .endpoints
            .iter()
            .map(|endpoint| DeliveryKey { endpoint: *endpoint, number: stored.number });
        let keys: Vec<_> = keys.collect();
        for key in &keys {
            let known = self.delivery(cx, *key)?;
            if known.is_some_and(|known| !is_over(&known.delivery)) {
                return Ok(());
            }
        }
        let batch = self.batch(cx);
        batch.touch(id.slot());
        delivery::delete_message(batch, id, stored);
        for key in &keys {
            delivery::delete_delivery(batch, &namespace, *key);
        }
        self.pending.messages.remove(&id);
        keys.iter().for_each(|key| _ = self.pending.deliveries.remove(key));
        Ok(())
    }

    /// A delivery is over. If retention has passed its message, that goes now.
    pub(super) fn is_settled(
        &mut self,
        cx: &Context<'_>,
        key: DeliveryKey,
        id: MessageId,
    ) -> Result<(), DeliveryError> {
        if key.number <= self.load(cx)?.row.swept
            && let Some(stored) = self.message(cx, id)?
        {
            self.forget(cx, id, &stored)?;
        }
        Ok(())
    }

    fn handle_input(&mut self, cx: &Context<'_>, input: Input<Ask>) -> Result<(), DeliveryError> {
        match input {
            Input::Asked(caller, ask) => {
                let reply = self.asked(cx, ask);
                self.pending.replies.push((caller, reply));
            }
            Input::Due(timer) => {
                self.load(cx)?;
                match timer.what.split_first() {
                    Some((&RETRIES, rest)) => self.retry(cx, rest, timer.due)?,
                    Some((&GOES_ON, rest)) => {
                        if let Ok(endpoint) = rest.try_into() {
                            self.goes_on(cx, EndpointId::from_be_bytes(endpoint), timer.due);
                        }
                    }
                    Some((&SWEEPS, _)) => self.sweep(cx, timer.due)?,
                    _ => {}
                }
                self.pending.timers.insert(0, (timer, TimerChange::Delete));
            }
            Input::Report(request, end) => self.report(cx, request, &end)?,
            Input::Recover => _ = self.load(cx)?,
            // No machine sends messages to a post office.
            Input::Message(_) => {}
        }
        Ok(())
    }
}

/// Whether a delivery is over, and not a dead letter that waits for a decision.
fn is_over(delivery: &Delivery) -> bool {
    use indelible_delivery::delivery::Outcome;
    delivery.outcome().is_some_and(|outcome| !matches!(outcome, Outcome::Dead(_)))
}

pub(super) fn timer(cx: &Context<'_>, due: Timestamp, kind: u8, rest: &[u8]) -> RoomTimer {
    let mut what = BytesMut::with_capacity(1 + rest.len());
    what.put_u8(kind);
    what.put_slice(rest);
    RoomTimer { due, key: cx.key.clone(), what: what.freeze() }
}

/// The timer of a delivery that waits for a retry.
pub(super) fn retry_timer(cx: &Context<'_>, due: Timestamp, key: DeliveryKey) -> RoomTimer {
    let (endpoint, number) = (key.endpoint.to_be_bytes(), key.number.to_be_bytes());
    timer(cx, due, RETRIES, &[&endpoint[..], &number[..]].concat())
}

impl RoomMachine for PostOffice {
    type Ask = Ask;
    type Answer = Result<Reply, DeliveryError>;

    fn is_full(&self) -> bool {
        let Pending { batch, deliveries, .. } = &self.pending;
        let full = |batch: &Batch| {
            let rows = batch.writes().len() + 2 * deliveries.len();
            batch.bytes() > PENDING_BYTES_MAX || rows > PENDING_ROWS_MAX
        };
        batch.as_ref().is_some_and(full)
    }
}

impl Machine for PostOffice {
    type Context<'a> = Context<'a>;
    type Input = Input<Ask>;
    type Rows = RoomRows;
    type Timer = RoomTimer;
    type Outgoing = Outgoing;
    type Reply = Result<Reply, DeliveryError>;
    type Event = Infallible;
    type Notice = String;

    fn handle(&mut self, cx: &Context<'_>, input: Input<Ask>) {
        if let Err(error) = self.handle_input(cx, input) {
            self.pending.notices.push(error.to_string());
        }
        // The queue names the office while another process would have something to go on with.
        if let Some(loaded) = &mut self.loaded {
            let has_work = loaded.has_work();
            if has_work != loaded.row.ticket.is_some() {
                let batch =
                    self.pending.batch.get_or_insert_with(|| Batch::in_slots(cx.key.slot()));
                match loaded.row.ticket.take() {
                    Some(ticket) => queue::delete_room(batch, ticket, cx.key),
                    None => {
                        let ticket = cx.now.as_micros();
                        queue::put_room(batch, ticket, cx.key);
                        loaded.row.ticket = Some(ticket);
                    }
                }
                self.pending.office_changed = true;
            }
        }
    }

    fn changes(&mut self) -> Option<Changes<Self>> {
        if !self.has_changes() {
            return None;
        }
        let pending = std::mem::take(&mut self.pending);
        let mut batch = pending.batch.unwrap_or_else(|| Batch::in_slots(SlotSet::empty()));
        if let Some(loaded) = &self.loaded {
            if pending.office_changed {
                batch.touch(delivery::room_key(&loaded.namespace).slot());
                delivery::put_office(&mut batch, &loaded.namespace, &loaded.row);
            }
            for id in pending.endpoints {
                batch.touch(delivery::room_key(&loaded.namespace).slot());
                delivery::put_endpoint(
                    &mut batch,
                    &loaded.namespace,
                    id,
                    &loaded.desks[&id].stored,
                );
            }
            for (key, stored) in &pending.deliveries {
                batch.touch(delivery::room_key(&loaded.namespace).slot());
                delivery::put_delivery(&mut batch, &loaded.namespace, *key, stored);
            }
            for key in pending.queued {
                delivery::put_open(&mut batch, &loaded.namespace, OpenRow::Queued, key);
            }
        }
        // Notices stay until they are taken.
        self.pending.notices = pending.notices;
        Some(Changes {
            rows: batch.into(),
            timers: pending.timers,
            volatile_timers: Vec::new(),
            events: Vec::new(),
            replies: pending.replies,
            outgoing: pending.outgoing,
        })
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.pending.notices)
    }

    /// An office with attempts under way stays: one that is loaded anew takes them for lost.
    fn is_idle(&self) -> bool {
        let is_quiet = |loaded: &Loaded| {
            loaded.in_flight.is_empty() && loaded.desks.values().all(Desk::is_idle)
        };
        !self.has_changes() && self.loaded.as_ref().is_none_or(is_quiet)
    }
}

impl PostOffice {
    fn has_changes(&self) -> bool {
        let Pending { batch, office_changed, endpoints, deliveries, timers, replies, .. } =
            &self.pending;
        batch.is_some()
            || !deliveries.is_empty()
            || *office_changed
            || !endpoints.is_empty()
            || !timers.is_empty()
            || !replies.is_empty()
    }
}
