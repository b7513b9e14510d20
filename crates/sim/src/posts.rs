//! Callers that send messages to two endpoints, beside the programs, and the peer behind these. What
//! leaves stays on the wire until the simulation moves it: it may arrive and be answered or not, or
//! arrive after the process that sent it has died. In the end every message that was acknowledged was
//! processed by the endpoint that tells repetitions; the other one processed none twice, and what it
//! may have processed without an answer is a dead letter that says so.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use indelible_delivery::delivery::{DeadReason, State};
use indelible_delivery::{ContentType, EndpointSettings, LaneKey, MessageId, Topic};
use indelible_http::{Attempt, End, Report, Response, Sender};
use indelible_journal::{Micros, Namespace, Timestamp};
use indelible_ledger::OriginId;
use indelible_records::delivery::{self, DeliveryKey};
use indelible_runtime::Engine;
use indelible_runtime::delivery::{Accepted, DeliveryError, NewMessage};
use indelible_runtime::world::Clock as _;

use crate::Rng;
use crate::disk::Disk;
use crate::peer::Peer;
use crate::run::Run;

/// How many messages a run sends.
const MESSAGES: u64 = 12;

/// Rounds after which a message that is still not accepted counts as lost.
const ROUNDS_MAX: usize = 200;

/// How addresses of endpoints begin; the rest says whether the endpoint tells repetitions.
const POST: &str = "http://post/";
const ENDPOINTS: [&str; 2] = ["idem", "once"];

type Waiting = Pin<Box<dyn Future<Output = Result<Option<Accepted>, DeliveryError>> + Send>>;

fn namespace() -> Namespace {
    Namespace::new("sim").expect("it is a name")
}

/// A request on the wire, or at the endpoint.
struct Post {
    id: String,
    endpoint: usize,
    /// Whether it arrived, and was processed.
    processed: Option<bool>,
    /// `None`: the process that sent it is gone.
    report: Option<Report>,
}

#[derive(Default)]
struct Truth {
    wire: Vec<Post>,
    /// How often each message was processed, by its id and the endpoint.
    processed: BTreeMap<(String, usize), u64>,
    wrong: Option<String>,
}

/// The peer of effects, and the one behind endpoints.
pub(crate) struct Wires {
    effects: Arc<Peer>,
    disk: Arc<Disk>,
    truth: Mutex<Truth>,
}

impl Wires {
    pub(crate) fn new(effects: Arc<Peer>, disk: Arc<Disk>) -> Self {
        Self { effects, disk, truth: Mutex::default() }
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first rule that the engine broke in sending.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.truth().wrong.clone()
    }

    /// The process is gone: what has left may still arrive.
    pub(crate) fn cut(&self) {
        let mut truth = self.truth();
        let reports: Vec<_> = truth.wire.iter_mut().map(|post| post.report.take()).collect();
        truth.wire.retain(|post| post.processed.is_none());
        drop(truth);
        drop(reports);
    }

    /// Moves one request. False: none is on the wire.
    pub(crate) fn step(&self, rng: &mut Rng) -> bool {
        let mut truth = self.truth();
        if truth.wire.is_empty() {
            return false;
        }
        let place = rng.below(truth.wire.len() as u64) as usize;
        let post = &mut truth.wire[place];
        if post.processed.is_none() && rng.percent(90) {
            let processed = rng.percent(80);
            post.processed = Some(processed);
            if processed {
                let key = (post.id.clone(), post.endpoint);
                *truth.processed.entry(key).or_default() += 1;
            }
            return true;
        }
        let Post { processed, report, .. } = truth.wire.swap_remove(place);
        drop(truth);
        let answer = |status| Response { status, headers: Vec::new(), body: Bytes::new() };
        let end = match processed {
            None => End::NotSent { why: "connection refused".to_owned() },
            Some(_) if rng.percent(15) => {
                End::Unknown { why: "the connection was closed".to_owned(), timed_out: false }
            }
            Some(true) if rng.percent(10) => End::Answered(answer(500)),
            Some(true) => End::Answered(answer(200)),
            Some(false) => End::Answered(answer(if rng.percent(50) { 429 } else { 503 })),
        };
        if let Some(mut report) = report {
            report(end);
        }
        true
    }
}

impl Sender for Wires {
    fn send(&self, attempt: Attempt, report: Report) {
        let Some(endpoint) = attempt.request.url.strip_prefix(POST) else {
            return self.effects.send(attempt, report);
        };
        let endpoint = ENDPOINTS.iter().position(|name| *name == endpoint).unwrap_or(0);
        let id = attempt.idempotency_key;
        let is_sending = self.disk.is_sending(&id);
        let mut truth = self.truth();
        if !is_sending {
            truth.wrong = Some(format!("message {id} left, and no attempt at it is on disk"));
        }
        truth.wire.push(Post { id, endpoint, processed: None, report: Some(report) });
    }
}

/// What a caller was told of a message.
#[derive(Clone, Copy)]
struct Acknowledged {
    id: MessageId,
    /// When it was told so first, or first again after the window of keys.
    since: Timestamp,
}

/// Callers that send messages.
pub(crate) struct Posters {
    rng: Rng,
    /// How long keys are remembered.
    window: Micros,
    /// When something was asked for first, and last.
    asked_first: Option<Timestamp>,
    asked_last: Timestamp,
    next: u64,
    /// Messages without an answer, by their keys.
    open: BTreeMap<u64, Option<Waiting>>,
    acknowledged: BTreeMap<u64, Acknowledged>,
    made: bool,
    making: Option<Waiting>,
}

fn message(number: u64) -> NewMessage {
    NewMessage {
        namespace: namespace(),
        key: OriginId::new(&format!("message-{number}")).expect("it is a key"),
        topic: Topic::new("sim.done").expect("it is a topic"),
        lane: number.is_multiple_of(3).then(|| LaneKey::new("lane").expect("it is a key")),
        content_type: ContentType::new("text/plain").expect("it is a type"),
        body: Bytes::from(number.to_string()),
    }
}

async fn make(engine: Arc<Engine>) -> Result<Option<Accepted>, DeliveryError> {
    for (name, idem) in ENDPOINTS.into_iter().zip([true, false]) {
        let settings = format!(
            r#"{{"name":"{name}","url":"{POST}{name}","idem":{idem},"in_flight_max":3,
                "on_dead_letter":"skip","schedule":{{"backoff":{{"base_ms":1000,"cap_ms":60000}}}},
                "busy_is_not_processed":true,
                "breaker":{{"failures_percent":80,"attempts_min":4,"open_seconds":5}}}}"#
        );
        let settings: EndpointSettings = serde_json::from_str(&settings).expect("it is JSON");
        let endpoint = settings.read().expect("the settings are valid");
        engine.put_endpoint(&namespace(), endpoint, None).await?;
    }
    Ok(None)
}

impl Posters {
    /// One of two seeds has callers.
    pub(crate) fn new(seed: u64, window: Micros) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x706f_7374);
        let some = rng.number().is_multiple_of(2);
        let (open, acknowledged) = (BTreeMap::new(), BTreeMap::new());
        some.then(|| Self {
            rng,
            window,
            asked_first: None,
            asked_last: Timestamp::EPOCH,
            next: 0,
            open,
            acknowledged,
            made: false,
            making: None,
        })
    }

    /// The process is gone: nothing is answered, and everything has to be sent again.
    pub(crate) fn hang_up(&mut self) {
        self.making = None;
        self.open.values_mut().for_each(|waiting| *waiting = None);
    }

    fn act(
        &mut self,
        engine: &Arc<Engine>,
        percent: u64,
        now: Timestamp,
        say: impl Fn(std::fmt::Arguments<'_>),
    ) -> Result<(), String> {
        self.asked_first.get_or_insert(now);
        self.asked_last = self.asked_last.max(now);
        if !self.made {
            if self.making.is_none() {
                self.making = Some(Box::pin(make(Arc::clone(engine))));
            }
            return self.look(now, say);
        }
        if self.next < MESSAGES && self.rng.percent(percent) {
            self.open.insert(self.next, None);
            self.next += 1;
        }
        // A message that was accepted is sent again, too.
        if !self.acknowledged.is_empty() && self.rng.percent(percent / 2) {
            let number = self.rng.below(self.next);
            self.open.entry(number).or_default();
        }
        for (number, waiting) in &mut self.open {
            if waiting.is_none() && self.rng.percent(40.max(percent)) {
                let (engine, new) = (Arc::clone(engine), message(*number));
                *waiting = Some(Box::pin(async move { engine.send_message(new).await.map(Some) }));
            }
        }
        self.look(now, say)
    }

    /// Looks at the answers that have come.
    pub(crate) fn look(
        &mut self,
        now: Timestamp,
        say: impl Fn(std::fmt::Arguments<'_>),
    ) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        if let Some(making) = &mut self.making
            && let Poll::Ready(made) = making.as_mut().poll(&mut context)
        {
            self.making = None;
            self.made |= made.is_ok();
        }
        let mut told = Vec::new();
        for (number, waiting) in &mut self.open {
            let Some(future) = waiting else { continue };
            if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
                *waiting = None;
                if let Ok(Some(accepted)) = answer {
                    told.push((*number, accepted));
                }
            }
        }
        for (number, Accepted { id, is_prior, endpoints }) in told {
            say(format_args!("  message {number} is accepted, prior {is_prior}"));
            self.open.remove(&number);
            ensure!(endpoints == 2, "message {number} goes to {endpoints} endpoints");
            let new = Acknowledged { id, since: now };
            let known = self.acknowledged.entry(number).or_insert(new);
            ensure!(known.id == id, "message {number} is {id} now");
            if !is_prior && known.since < now {
                // Keys are forgotten after their window.
                let first = self.asked_first.unwrap_or(now);
                let later = now.saturating_since(first);
                ensure!(later >= self.window, "message {number} was accepted twice, {later} later");
                known.since = now;
            }
        }
        Ok(())
    }
}

impl Run {
    /// The callers have their turn.
    pub(crate) fn post(&mut self) -> Result<(), String> {
        let engine = Arc::clone(self.engine());
        let transcript = Arc::clone(&self.transcript);
        let (now, say) = (self.clock.now(), |line: std::fmt::Arguments<'_>| transcript.say(line));
        self.posters.as_mut().map_or(Ok(()), |posters| posters.act(&engine, 10, now, say))
    }

    /// Lets every message be accepted.
    pub(crate) fn settle_posts(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            let Some(posters) = &mut self.posters else { return Ok(()) };
            if posters.acknowledged.len() as u64 == MESSAGES && posters.open.is_empty() {
                return Ok(());
            }
            let engine = Arc::clone(self.engine.as_ref().expect("it is open"));
            let transcript = Arc::clone(&self.transcript);
            let percent = if posters.next < MESSAGES { 100 } else { 0 };
            posters.act(&engine, percent, self.clock.now(), |line| transcript.say(line))?;
            drop(engine);
            self.rest()?;
        }
        Err("a message is never accepted".to_owned())
    }

    /// What became of each message is what the endpoints know of it.
    pub(crate) fn posts_agree(&self) -> Result<(), String> {
        let Some(posters) = &self.posters else { return Ok(()) };
        let truth = self.wires.truth();
        let failed = |error: indelible_store::ReadError| error.to_string();
        // A key can be used anew after its window.
        let asked = posters.asked_last.saturating_since(posters.asked_first.unwrap_or_default());
        let accepted = 1 + asked.get() / posters.window.get().max(1);
        for (number, Acknowledged { id, .. }) in &posters.acknowledged {
            let processed = |endpoint: usize| {
                truth.processed.get(&(id.to_string(), endpoint)).copied().unwrap_or(0)
            };
            ensure!(processed(0) >= 1, "message {number} never reached the idem endpoint");
            ensure!(
                processed(1) <= accepted,
                "message {number} was processed {} times, and accepted {accepted} times at most",
                processed(1)
            );
            // Retention may have taken what is over.
            let stored = delivery::message(self.store(), *id).map_err(failed)?.value;
            let Some(stored) = stored else {
                ensure!(processed(1) >= 1, "message {number} is gone, and was not processed");
                continue;
            };
            for (place, endpoint) in stored.endpoints.iter().enumerate() {
                let key = DeliveryKey { endpoint: *endpoint, number: stored.number };
                let row =
                    delivery::delivery(self.store(), &namespace(), key).map_err(failed)?.value;
                let delivery = row.ok_or("a delivery is gone")?.delivery;
                let is_right = match delivery.state {
                    State::Delivered { .. } => processed(place) >= 1,
                    State::Dead { reason: DeadReason::Unknown, .. } => {
                        place == 1 && delivery.may_have_arrived
                    }
                    _ => false,
                };
                ensure!(
                    is_right,
                    "message {number} at {}: {delivery:?}, and it was processed {} times",
                    ENDPOINTS[place],
                    processed(place)
                );
            }
        }
        Ok(())
    }
}
