//! Endpoints, messages and dead letters: read strictly, and shown. What is refused here uses up no key.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::BASE64;
use http::StatusCode;
use indelible_api::control::{Done, Reason};
use indelible_api::delivery::{
    BreakerState, DeliveryDetail, DeliveryState, EndpointDetail, EndpointPut, EndpointSettings,
    EndpointState, Endpoints, FailedAttempt, MessageAccepted, MessageDetail, Messages, RawJson,
    Redeliver, RotateSecret, SecretRotated, SendMessage,
};
use indelible_api::{Problem, header};
use indelible_delivery::delivery::State as Stands;
use indelible_delivery::signing::Secret;
use indelible_delivery::{
    ContentType, Delivery, Disabled, EndpointName, EndpointState as Switch, LaneKey, MessageId,
    Origin, SecretText, Topic, breaker,
};
use indelible_journal::{Micros, Namespace, Timestamp};
use indelible_ledger::OriginId;
use indelible_ledger::json::Text;
use indelible_runtime::delivery::{
    DeadDecision, EndpointView, MessageView, MessagesPage, NewMessage,
};
use indelible_runtime::{Attribution, PersonDecision};

use super::control::{bounded, decision};
use crate::answer::Answer;
use crate::request::{ApiRequest, domain, malformed};
use crate::state::State;

/// How long earlier secrets are used after a rotation, unless the request says.
const OVERLAP_SECONDS: u64 = 24 * 60 * 60;
/// The longest that they can be.
const OVERLAP_SECONDS_MAX: u64 = 365 * 24 * 60 * 60;

/// Makes an endpoint, or gives one that is there new settings.
pub(crate) async fn put_endpoint(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespace = namespace(&asked)?;
    let mut settings: EndpointSettings = asked.json()?;
    let name = asked.param("endpoint");
    if settings.name.is_empty() {
        settings.name = name.to_owned();
    } else if settings.name != name {
        return Err(malformed("name: it differs from the name in the path"));
    }
    let endpoint = settings.read().map_err(|error| malformed(error.to_string()))?;
    let actor = asked.caller.actor().clone();
    let put = state.engine.put_endpoint(&namespace, endpoint, Some(actor)).await;
    let (view, secret, made) = put.map_err(|error| state.delivery_error(&error))?;
    let secret = secret.map(|secret| SecretText(secret.reveal()));
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    let endpoint = endpoint_shown(&namespace, &view);
    Ok(Answer::json(status, &EndpointPut { endpoint, secret }))
}

/// The endpoints of a namespace.
pub(crate) async fn endpoints(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespace = namespace(&asked)?;
    let views = state.engine.endpoints(&namespace).await;
    let views = views.map_err(|error| state.delivery_error(&error))?;
    let endpoints = views.iter().map(|view| endpoint_shown(&namespace, view)).collect();
    Ok(Answer::ok(&Endpoints { endpoints }))
}

/// An endpoint.
pub(crate) async fn endpoint(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (namespace, name) = (namespace(&asked)?, param(&asked, "endpoint")?);
    let view = state.engine.endpoint(&namespace, &name).await;
    let view = view.map_err(|error| state.delivery_error(&error))?;
    Ok(Answer::ok(&endpoint_shown(&namespace, &view)))
}

/// Deletes an endpoint.
pub(crate) async fn delete_endpoint(
    state: Arc<State>,
    asked: ApiRequest,
) -> Result<Answer, Problem> {
    let (namespace, name) = (namespace(&asked)?, param(&asked, "endpoint")?);
    let reason = bounded(asked.query("reason").unwrap_or_default().to_owned())?;
    let deleted = state.engine.delete_endpoint(&namespace, &name, by(&asked, reason)).await;
    deleted.map_err(|error| state.delivery_error(&error))?;
    Ok(Answer::ok(&Done {}))
}

/// Sends messages to an endpoint again.
pub(crate) async fn enable(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    switch(&state, &asked, true).await
}

/// Lets messages to an endpoint wait.
pub(crate) async fn disable(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    switch(&state, &asked, false).await
}

async fn switch(state: &State, asked: &ApiRequest, on: bool) -> Result<Answer, Problem> {
    let (namespace, name) = (namespace(asked)?, param(asked, "endpoint")?);
    let Reason { reason } = asked.optional_json()?;
    let by = by(asked, bounded(reason)?);
    let view = state.engine.enable_endpoint(&namespace, &name, on, by).await;
    let view = view.map_err(|error| state.delivery_error(&error))?;
    Ok(Answer::ok(&endpoint_shown(&namespace, &view)))
}

/// Gives an endpoint another secret.
pub(crate) async fn rotate(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (namespace, name) = (namespace(&asked)?, param(&asked, "endpoint")?);
    let RotateSecret { secret, ed25519, overlap_seconds } = asked.optional_json()?;
    let overlap = overlap_seconds.unwrap_or(OVERLAP_SECONDS);
    if overlap > OVERLAP_SECONDS_MAX {
        return Err(malformed(format!("overlap_seconds: at most {OVERLAP_SECONDS_MAX}")));
    }
    let is_made = secret.is_none();
    let secret = match secret {
        Some(_) if ed25519 => {
            return Err(malformed("ed25519: only of a secret that the server makes"));
        }
        Some(SecretText(text)) => {
            text.parse::<Secret>().map_err(|why| malformed(format!("secret: {why}")))?
        }
        None if ed25519 => Secret::ed25519(state.engine.random_secret()),
        None => Secret::hmac(&state.engine.random_secret()),
    };
    let public_key = match secret.verifying_key() {
        indelible_delivery::signing::VerifyingKey::Ed25519(key) => Some(key.to_string()),
        _ => None,
    };
    let shown = is_made.then(|| SecretText(secret.reveal()));
    let (overlap, actor) = (Micros::from_secs(overlap), asked.caller.actor().clone());
    let rotated = state.engine.rotate_secret(&namespace, &name, secret, overlap, Some(actor)).await;
    rotated.map_err(|error| state.delivery_error(&error))?;
    Ok(Answer::ok(&SecretRotated { secret: shown, public_key }))
}

/// Accepts a message.
pub(crate) async fn send(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespace = namespace(&asked)?;
    let Some(key) = asked.key(&asked.namespace()?)? else {
        return Err(malformed(format!(
            "a message has a key, in the header {}: sent again with it, it is the same message",
            header::IDEMPOTENCY_KEY
        )));
    };
    let SendMessage { topic, lane_key, content_type, body, text, base64 } = asked.json()?;
    let (body, of_form) = match (body, text, base64) {
        (Some(RawJson(json)), None, None) => {
            (Box::<str>::from(json).into_string().into_bytes(), "application/json")
        }
        (None, Some(text), None) => (text.into_bytes(), "text/plain; charset=utf-8"),
        (None, None, Some(base64)) => {
            let bytes = BASE64.decode(base64.as_bytes());
            (bytes.map_err(|why| malformed(format!("base64: {why}")))?, "application/octet-stream")
        }
        _ => return Err(malformed("a message has one of body, text and base64")),
    };
    let content_type = content_type.as_deref().unwrap_or(of_form);
    let new = NewMessage {
        namespace,
        key: parsed::<OriginId>("the key", key.value())?,
        topic: parsed::<Topic>("topic", &topic)?,
        lane: lane_key.map(|lane| parsed::<LaneKey>("lane_key", &lane)).transpose()?,
        content_type: parsed::<ContentType>("content_type", content_type)?,
        body: body.into(),
    };
    let accepted = state.engine.send_message(new).await;
    let accepted = accepted.map_err(|error| state.delivery_error(&error))?;
    let shown = MessageAccepted {
        message: Text(accepted.id),
        endpoints: accepted.endpoints as u64,
        prior: accepted.is_prior,
    };
    let path = format!("/v1/messages/{}", accepted.id);
    Ok(Answer::json(StatusCode::ACCEPTED, &shown).location(&path))
}

/// Messages of a namespace.
pub(crate) async fn messages(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespace = namespace(&asked)?;
    let page = state.engine.messages(&namespace, asked.number("below"), asked.limit()).await;
    Ok(Answer::ok(&page_shown(page.map_err(|error| state.delivery_error(&error))?)))
}

/// Messages with a dead letter.
pub(crate) async fn dead_letters(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let namespace = namespace(&asked)?;
    let page = state.engine.dead_letters(&namespace, asked.number("below"), asked.limit()).await;
    Ok(Answer::ok(&page_shown(page.map_err(|error| state.delivery_error(&error))?)))
}

/// A message.
pub(crate) async fn message(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (namespace, id) = (namespace(&asked)?, message_id(&asked)?);
    let view = state.engine.message(&namespace, id).await;
    Ok(Answer::ok(&message_shown(view.map_err(|error| state.delivery_error(&error))?)))
}

/// Sends a dead letter again.
pub(crate) async fn redeliver(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let Redeliver { reason, did_not_arrive } = asked.json()?;
    decide(&state, &asked, reason, DeadDecision::Redeliver { did_not_arrive }).await
}

/// Gives a dead letter up.
pub(crate) async fn abandon(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let Reason { reason } = asked.json()?;
    decide(&state, &asked, reason, DeadDecision::Abandon).await
}

async fn decide(
    state: &State,
    asked: &ApiRequest,
    reason: String,
    wanted: DeadDecision,
) -> Result<Answer, Problem> {
    let (namespace, id) = (namespace(asked)?, message_id(asked)?);
    let name: EndpointName = param(asked, "endpoint")?;
    let actor = asked.caller.actor().clone();
    let by = PersonDecision { actor, reason: decision(reason)?, key: None };
    let decided = state.engine.decide_dead(&namespace, id, &name, wanted, by).await;
    let delivery = decided.map_err(|error| state.delivery_error(&error))?;
    Ok(Answer::ok(&delivery_shown(&name, &delivery)))
}

fn namespace(asked: &ApiRequest) -> Result<Namespace, Problem> {
    Ok(domain(&asked.namespace()?))
}

fn message_id(asked: &ApiRequest) -> Result<MessageId, Problem> {
    param(asked, "message")
}

fn param<T: FromStr<Err: Display>>(asked: &ApiRequest, name: &str) -> Result<T, Problem> {
    parsed(name, asked.param(name))
}

fn parsed<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error| malformed(format!("{name}: {error}")))
}

fn by(asked: &ApiRequest, reason: String) -> Attribution {
    Attribution { actor: Some(asked.caller.actor().clone()), reason, key: None }
}

fn endpoint_shown(namespace: &Namespace, view: &EndpointView) -> EndpointDetail {
    let EndpointView { endpoint, breaker, paused_until, queued, sending } = view;
    let (state, disabled_at) = match endpoint.state {
        Switch::Enabled => (EndpointState::Enabled, None),
        Switch::Disabled { since, why: Disabled::Operator } => {
            (EndpointState::Disabled, Some(since))
        }
        Switch::Disabled { since, why: Disabled::Gone } => (EndpointState::Gone, Some(since)),
    };
    EndpointDetail {
        endpoint: Text(endpoint.name.clone()),
        namespace: namespace.to_string(),
        settings: endpoint.settings.clone(),
        state,
        disabled_at: disabled_at.map(Text),
        breaker: match breaker.state() {
            breaker::State::Closed => BreakerState::Closed,
            breaker::State::Open { .. } => BreakerState::Open,
            breaker::State::HalfOpen { .. } => BreakerState::HalfOpen,
        },
        paused_until: paused_until.map(Text),
        queued: *queued as u64,
        sending: *sending as u64,
    }
}

fn page_shown(page: MessagesPage) -> Messages {
    let messages = page.messages.into_iter().map(message_shown).collect();
    Messages { messages, next: page.next }
}

fn message_shown(view: MessageView) -> MessageDetail {
    let MessageView { id, number, message, deliveries } = view;
    let (mut body, mut text, mut base64) = (None, None, None);
    let is_json = message.content_type.as_str().starts_with("application/json");
    match String::from_utf8(message.body.to_vec()) {
        Err(bytes) => base64 = Some(BASE64.encode(bytes.as_bytes())),
        Ok(string) if is_json => match serde_json::value::RawValue::from_string(string.clone()) {
            Ok(json) => body = Some(RawJson(json)),
            Err(_) => text = Some(string),
        },
        Ok(string) => text = Some(string),
    }
    MessageDetail {
        message: Text(id),
        number,
        namespace: message.namespace.to_string(),
        topic: Text(message.topic),
        lane_key: message.lane_key.map(|lane| lane.to_string()),
        origin: match message.origin {
            Origin::Key { key, .. } => format!("key {key}"),
            Origin::Promise(promise) => format!("promise {promise}"),
            Origin::Transaction { id, index, .. } => format!("transaction {id}:{index}"),
            Origin::Decision { reissue_of, .. } => format!("again {reissue_of}"),
        },
        content_type: message.content_type.to_string(),
        body_bytes: message.body.len() as u64,
        body,
        text,
        base64,
        created_at: Text(message.created),
        deliveries: deliveries.iter().map(|(name, one)| delivery_shown(name, one)).collect(),
    }
}

fn delivery_shown(name: &EndpointName, delivery: &Delivery) -> DeliveryDetail {
    let Delivery { state, attempts, may_have_arrived, failures, .. } = delivery;
    let (mut at, mut retry_at, mut status, mut reason): (
        Option<Timestamp>,
        Option<Timestamp>,
        _,
        _,
    ) = (None, None, None, None);
    let state = match *state {
        Stands::Queued => DeliveryState::Queued,
        Stands::Sending { since } => {
            at = Some(since);
            DeliveryState::Sending
        }
        Stands::Waiting { until, .. } => {
            retry_at = Some(until);
            DeliveryState::Waiting
        }
        Stands::Delivered { at: when, status: answered } => {
            (at, status) = (Some(when), Some(answered));
            DeliveryState::Delivered
        }
        Stands::Dead { at: when, reason: why } => {
            (at, reason) = (Some(when), Some(why));
            DeliveryState::Dead
        }
        Stands::Reissued { at: when, .. } => {
            at = Some(when);
            DeliveryState::Reissued
        }
        Stands::Abandoned { at: when } => {
            at = Some(when);
            if *may_have_arrived { DeliveryState::Indeterminate } else { DeliveryState::Abandoned }
        }
        Stands::Ended { at: when, reason: why } => {
            (at, reason) = (Some(when), Some(why));
            DeliveryState::Ended
        }
    };
    DeliveryDetail {
        endpoint: Text(name.clone()),
        state,
        at: at.map(Text),
        retry_at: retry_at.map(Text),
        status,
        reason: reason.map(|reason| reason.to_string()),
        attempts: *attempts,
        may_have_arrived: *may_have_arrived,
        failures: failures
            .iter()
            .map(|failure| FailedAttempt {
                attempt: failure.attempt,
                failed_at: Text(failure.failed_at),
                code: failure.code.to_string(),
                error: failure.text.to_string(),
            })
            .collect(),
    }
}
