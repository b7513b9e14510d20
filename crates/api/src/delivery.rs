//! Delivery: endpoints, the messages that are sent to them, and dead letters.
//!
//! The settings of an endpoint are those of [`indelible_delivery`]: one form for requests and answers.

pub use indelible_delivery::{
    BackoffSettings, BreakerSettings, EndpointSettings, FieldSettings, LaneSettings,
    ScheduleSettings, SecretText,
};
use indelible_delivery::{EndpointName, MessageId, Topic};
use indelible_journal::Timestamp;
use indelible_ledger::json::Text;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

/// A JSON value as it was written: its bytes are not changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(pub Box<RawValue>);

impl JsonSchema for RawJson {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RawJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

/// A message that is to be sent, under the idempotency key of the header. It has one body.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = SendMessage::example())]
pub struct SendMessage {
    /// What it is about; endpoints choose by it.
    pub topic: String,
    /// Messages with one lane key are sent to an endpoint one at a time, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_key: Option<String>,
    /// How the body is to be read. Of JSON `application/json`, and of a text `text/plain`, if left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body, as JSON. It is sent byte by byte as it stands here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RawJson>,
    /// The body, as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The body, as bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl SendMessage {
    fn example() -> serde_json::Value {
        json!({ "topic": "order.created", "lane_key": "order-7", "body": { "order": 7 } })
    }
}

/// A message was accepted: it is durable, and so is to whom it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageAccepted {
    /// Its id, which every receiver is shown as `webhook-id`.
    pub message: Text<MessageId>,
    /// To how many endpoints it goes.
    pub endpoints: u64,
    /// Whether it was accepted before, under the same key.
    pub prior: bool,
}

/// How an endpoint stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EndpointDetail {
    /// Its name.
    pub endpoint: Text<EndpointName>,
    /// The namespace that it belongs to.
    pub namespace: String,
    /// Its settings, without secrets. They can be changed and sent back.
    pub settings: EndpointSettings,
    /// Whether messages are sent to it.
    pub state: EndpointState,
    /// Since when, if it is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<Text<Timestamp>>,
    /// Its circuit breaker.
    pub breaker: BreakerState,
    /// Nothing is sent to it before this time: its breaker is open, or its rate is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Text<Timestamp>>,
    /// How many deliveries wait for their turn.
    pub queued: u64,
    /// How many attempts are under way.
    pub sending: u64,
}

/// Whether messages are sent to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointState {
    /// They are.
    Enabled,
    /// They wait: an operator said so.
    Disabled,
    /// They wait: the endpoint answered 410.
    Gone,
}

/// A circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Attempts begin.
    Closed,
    /// Too many have failed: none begins for a while.
    Open,
    /// One attempt decides.
    HalfOpen,
}

/// An endpoint was made, or changed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EndpointPut {
    /// How it stands.
    pub endpoint: EndpointDetail,
    /// The secret that was made for it. It is shown this once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
}

/// The endpoints of a namespace, by the time they were made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Endpoints {
    /// All of them.
    pub endpoints: Vec<EndpointDetail>,
}

/// Another secret for an endpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateSecret {
    /// The secret; if left out, the server makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// Whether the server makes an Ed25519 key (`v1a`), and not a shared secret (`v1`).
    #[serde(default)]
    pub ed25519: bool,
    /// How long messages are signed with the earlier secrets, too, in seconds; a day if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_seconds: Option<u64>,
}

/// An endpoint has another secret.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SecretRotated {
    /// The secret, if the server made it. It is shown this once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// What a receiver verifies with: `whsec_…` of a shared secret is the secret itself, and is left
    /// out; `whpk_…` of an Ed25519 key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

/// A dead letter is to be sent again, under its id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redeliver {
    /// Why, for the audit record.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// Whether the caller knows that it did not arrive. Without that word a message that may have
    /// arrived is not sent again to an endpoint that does not tell repetitions.
    #[serde(default)]
    pub did_not_arrive: bool,
}

/// A message with its deliveries.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MessageDetail {
    /// Its id.
    pub message: Text<MessageId>,
    /// Its place in the order of its namespace.
    pub number: u64,
    /// The namespace that it belongs to.
    pub namespace: String,
    /// What it is about.
    pub topic: Text<Topic>,
    /// Its lane, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_key: Option<String>,
    /// What caused it: `key NAME`, `promise ID`, `transaction ID`, or `again ID`.
    pub origin: String,
    /// How the body is to be read.
    pub content_type: String,
    /// How many bytes the body has.
    pub body_bytes: u64,
    /// The body, if it is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RawJson>,
    /// The body, if it is another text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The body in base64, if it is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// When it was accepted.
    pub created_at: Text<Timestamp>,
    /// One for each endpoint that it goes to.
    pub deliveries: Vec<DeliveryDetail>,
}

/// The delivery of a message to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryDetail {
    /// To which endpoint.
    pub endpoint: Text<EndpointName>,
    /// Where it stands.
    pub state: DeliveryState,
    /// Since when, if it is over, or being sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Text<Timestamp>>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Text<Timestamp>>,
    /// The status of the answer, if it was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many attempts have begun.
    pub attempts: u32,
    /// Whether an attempt that was not answered with success may have arrived.
    pub may_have_arrived: bool,
    /// The attempts that failed, oldest first.
    pub failures: Vec<FailedAttempt>,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It waits for its turn.
    Queued,
    /// An attempt is under way.
    Sending,
    /// It is tried again later.
    Waiting,
    /// It arrived.
    Delivered,
    /// It is a dead letter, and waits for a decision.
    Dead,
    /// Its message goes on under another id.
    Reissued,
    /// It was given up.
    Abandoned,
    /// It was given up, and may have arrived.
    Indeterminate,
    /// It is over, and its type has no dead letters.
    Ended,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedAttempt {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it failed.
    pub failed_at: Text<Timestamp>,
    /// Why, for programs: `STATUS_500`, `NO_ANSWER`, `DELIVERY_TIMEOUT`, `NOT_SENT`, …
    pub code: String,
    /// Why, for people.
    pub error: String,
}

/// Messages, the newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Messages {
    /// The page.
    pub messages: Vec<MessageDetail>,
    /// Where to go on: `below` of the next request. None: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}
