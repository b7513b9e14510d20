//! Delivery as others use it (O): endpoints are kept, messages are accepted, and sent to every endpoint
//! that wants them. Whatever is answered is durable (D2).
//!
//! - `counts`: what all offices have done, for metrics.
//! - `office`: the post office of a namespace as a machine of the host.
//! - `desk`: an endpoint in it: what is queued, which lanes are busy, when it may send.
//! - `sending`: attempts, from the queue to their end.
//! - `door`: what is asked of an office, checked and handed to the machine.
//! - `reads`: what is stored.

mod counts;
mod desk;
mod door;
mod office;
mod reads;
mod sending;

use indelible_delivery::breaker::Breaker;
use indelible_delivery::{
    BodyTooLarge, ContentType, Delivery, Endpoint, EndpointName, LaneKey, Message, MessageId, Topic,
};
use indelible_journal::{Namespace, Timestamp};
use indelible_store::ReadError;

use bytes::Bytes;
use indelible_ledger::OriginId;

pub use indelible_records::delivery::MessageNumber;

pub(crate) use self::counts::DeliveryCounts;
pub use self::counts::DeliveryReadings;
pub(crate) use self::office::PostOffice;
pub use self::reads::DELIVERY_PAGE_MAX;
use crate::EngineError;

/// The name under which requests of deliveries are granted hosts and networks. No component can
/// have it.
pub const DELIVERY_GRANT: &str = "(deliveries)";

/// The most endpoints of a namespace.
pub const ENDPOINTS_MAX: usize = 1_000;

/// The most deliveries of an endpoint that are not over. Behind them a message is refused.
pub const QUEUED_MAX: usize = 1_000_000;

/// A message that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// To whose endpoints.
    pub namespace: Namespace,
    /// The caller's idempotency key: the same key is the same message.
    pub key: OriginId,
    /// What it is about.
    pub topic: Topic,
    /// Messages with one lane key are sent to an endpoint one at a time, in their order.
    pub lane: Option<LaneKey>,
    /// How the body is to be read.
    pub content_type: ContentType,
    /// The body.
    pub body: Bytes,
}

/// A message was accepted, now or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Its id, which every receiver is shown.
    pub id: MessageId,
    /// Whether it was accepted before.
    pub is_prior: bool,
    /// To how many endpoints it goes.
    pub endpoints: usize,
}

/// An endpoint as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointView {
    /// Its settings.
    pub endpoint: Endpoint,
    /// Its circuit breaker.
    pub breaker: Breaker,
    /// It sends nothing before this time.
    pub paused_until: Option<Timestamp>,
    /// How many deliveries wait for their turn.
    pub queued: usize,
    /// How many attempts are under way.
    pub sending: usize,
}

/// A message with its deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageView {
    /// Its id.
    pub id: MessageId,
    /// Its place in the order of its namespace.
    pub number: MessageNumber,
    /// The message.
    pub message: Message,
    /// Its deliveries, each with the name of its endpoint.
    pub deliveries: Vec<(EndpointName, Delivery)>,
}

/// Messages of a namespace, the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagesPage {
    /// The messages of this page.
    pub messages: Vec<MessageView>,
    /// Go on below this number; `None` at the end.
    pub next: Option<MessageNumber>,
}

/// What becomes of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadDecision {
    /// It is sent again under its id. A message that may have arrived, at an endpoint that does not
    /// tell repetitions, needs a person's word that it did not (C-52).
    Redeliver {
        /// Whether the person says that it did not arrive.
        did_not_arrive: bool,
    },
    /// It is given up.
    Abandon,
}

/// Why nothing was done. Nothing has changed, unless the error says that this is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    /// There is no such endpoint.
    #[error("no such endpoint")]
    NoEndpoint,
    /// There is no such message.
    #[error("no such message")]
    NoMessage,
    /// The key has led to another message.
    #[error("another message was sent under this key")]
    Mismatch,
    /// The namespace has as many endpoints as it may have.
    #[error("the namespace has {ENDPOINTS_MAX} endpoints; delete one first")]
    TooManyEndpoints,
    /// An endpoint has as many open deliveries as it may have.
    #[error(
        "endpoint {0} has {QUEUED_MAX} messages that are not delivered; nothing is accepted until some are"
    )]
    Full(EndpointName),
    /// The body is too large.
    #[error(transparent)]
    Body(#[from] BodyTooLarge),
    /// The delivery is not a dead letter: it is under way, over, or was decided before.
    #[error("the delivery is not a dead letter")]
    NotDead,
    /// It may have arrived, and the endpoint would not tell that it comes again.
    #[error(
        "the message may have arrived, and the endpoint does not tell repetitions: say that it did not \
         arrive, or abandon it"
    )]
    MayHaveArrived,
    /// What is stored makes no sense, although its rows are whole.
    #[error("{0}")]
    Malformed(String),
    /// The engine cannot do anything now.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<ReadError> for DeliveryError {
    fn from(error: ReadError) -> Self {
        Self::Engine(error.into())
    }
}
