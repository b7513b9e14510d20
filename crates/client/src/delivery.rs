//! Delivery: the endpoints of a namespace, the messages that are sent to them, and dead letters.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use bytes::Bytes;
use data_encoding::BASE64;
use http::Method;
use indelible_api::control::{Done, Reason};
use indelible_api::delivery::{
    DeliveryDetail, EndpointDetail, EndpointPut, EndpointSettings, Endpoints, MessageAccepted,
    MessageDetail, Messages, RawJson, Redeliver, RotateSecret, SecretRotated, SendMessage,
};
use serde::Serialize;

use crate::client::Client;
use crate::command::{Command, body};
use crate::error::{Error, Invalid};
use crate::id::Identity;
use crate::pages::Pages;
use crate::request::Request;

impl Client {
    /// A message about a topic, to every endpoint that wants it. Give it a body and a key, then
    /// `.await`.
    ///
    /// ```no_run
    /// # async fn created(client: indelible_client::Client) -> Result<(), indelible_client::Error> {
    /// let order = serde_json::json!({ "order": 7 });
    /// let message = client.message("order.created").json(&order);
    /// message.lane("order-7").idempotency_key("created 7").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn message(&self, topic: impl Into<String>) -> ToSend {
        let message = SendMessage {
            topic: topic.into(),
            lane_key: None,
            content_type: None,
            body: None,
            text: None,
            base64: None,
        };
        ToSend { client: self.clone(), message: Ok(message), key: None }
    }

    /// Makes an endpoint, or gives one that is there these settings. Fields that are left out have
    /// their defaults, whatever they were before; only secrets stay if none are given.
    ///
    /// Without secrets the request is sent once and never repeated: a new endpoint gets a secret,
    /// which the server shows in this answer and in no other. If the answer is lost, look whether the
    /// endpoint is there, and then [rotate](Self::rotate_secret) its secret.
    pub async fn put_endpoint(
        &self,
        name: &str,
        settings: &EndpointSettings,
    ) -> Result<EndpointPut, Error> {
        let uri = self.uri(&["endpoints", name], &self.scoped(Vec::new()))?;
        let request = Request::change(Method::PUT, uri).json(with_secrets(settings)?);
        if settings.secrets.is_empty() {
            self.fetch(&request).await
        } else {
            self.command(Ok(request)).await
        }
    }

    /// The endpoints of the namespace, and how they stand.
    pub async fn endpoints(&self) -> Result<Endpoints, Error> {
        self.read(&["endpoints"], &self.scoped(Vec::new())).await
    }

    /// An endpoint: its settings without secrets, its circuit breaker, what waits for it.
    pub async fn endpoint(&self, name: &str) -> Result<EndpointDetail, Error> {
        self.read(&["endpoints", name], &self.scoped(Vec::new())).await
    }

    /// Deletes an endpoint. What is not delivered to it becomes dead letters. The reason is for the
    /// audit record; it may be empty.
    pub fn delete_endpoint(&self, name: &str, reason: &str) -> Command<Done> {
        let query = (!reason.is_empty()).then(|| ("reason", reason.to_owned()));
        let query = self.scoped(query.into_iter().collect());
        let uri = self.uri(&["endpoints", name], &query);
        self.command(uri.map(|uri| Request::change(Method::DELETE, uri)))
    }

    /// Sends messages to an endpoint again, at once: its circuit breaker is closed.
    pub fn enable_endpoint(&self, name: &str, reason: &str) -> Command<EndpointDetail> {
        self.command(self.scoped_post(&["endpoints", name, "enable"], &because(reason)))
    }

    /// Lets messages to an endpoint wait.
    pub fn disable_endpoint(&self, name: &str, reason: &str) -> Command<EndpointDetail> {
        self.command(self.scoped_post(&["endpoints", name, "disable"], &because(reason)))
    }

    /// Signs messages to an endpoint with another secret from now on, and for a while with the
    /// earlier ones, too. The request is sent once and never repeated: the server shows a secret that
    /// it makes in this answer and in no other. If the answer is lost, rotate again.
    pub async fn rotate_secret(
        &self,
        endpoint: &str,
        rotation: &RotateSecret,
    ) -> Result<SecretRotated, Error> {
        self.fetch(&self.scoped_post(&["endpoints", endpoint, "secrets"], rotation)?).await
    }

    /// Messages of the namespace with their deliveries, newest first.
    pub fn messages(&self) -> Result<Pages<Messages>, Error> {
        self.pages(&["messages"], self.scoped(Vec::new()))
    }

    /// A message with its deliveries, and every attempt that failed.
    pub async fn message_info(&self, message: &str) -> Result<MessageDetail, Error> {
        self.read(&["messages", message], &self.scoped(Vec::new())).await
    }

    /// Messages with a delivery that is a dead letter, newest first.
    pub fn dead_letters(&self) -> Result<Pages<Messages>, Error> {
        self.pages(&["dead-letters"], self.scoped(Vec::new()))
    }

    /// Sends a dead letter again, under its id. One that may have arrived at an endpoint which does not
    /// tell repetitions takes the caller's word that it `did_not_arrive`. The request is sent once and never repeated: the
    /// attempt that it causes may already have ended as a dead letter again, and a second one would be
    /// a decision that the caller did not take. If the answer is lost, look at the message.
    pub async fn redeliver(
        &self,
        message: &str,
        endpoint: &str,
        reason: &str,
        did_not_arrive: bool,
    ) -> Result<DeliveryDetail, Error> {
        let path = ["messages", message, "endpoints", endpoint, "redeliver"];
        let redeliver = Redeliver { reason: reason.to_owned(), did_not_arrive };
        self.fetch(&self.scoped_post(&path, &redeliver)?).await
    }

    /// Gives a dead letter up. That is for good. The request is sent once, as
    /// [`redeliver`](Self::redeliver) is: a refusal of a repetition would not say by whom it was
    /// decided.
    pub async fn abandon(
        &self,
        message: &str,
        endpoint: &str,
        reason: &str,
    ) -> Result<DeliveryDetail, Error> {
        let path = ["messages", message, "endpoints", endpoint, "abandon"];
        self.fetch(&self.scoped_post(&path, &because(reason))?).await
    }

    fn scoped_post<B: Serialize + ?Sized>(
        &self,
        segments: &[&str],
        content: &B,
    ) -> Result<Request, Invalid> {
        let uri = self.uri(segments, &self.scoped(Vec::new()))?;
        Ok(Request::change(Method::POST, uri).json(body(content)?))
    }
}

fn because(reason: &str) -> Reason {
    Reason { reason: reason.to_owned() }
}

/// The settings as a request has them. Their own serialisation leaves the secrets out, because
/// answers are made with it.
fn with_secrets(settings: &EndpointSettings) -> Result<Vec<u8>, Invalid> {
    let not_json = |error| Invalid(format!("the settings are not JSON: {error}"));
    let mut json = serde_json::to_value(settings).map_err(not_json)?;
    if !settings.secrets.is_empty() {
        json["secrets"] = settings.secrets.iter().map(|secret| secret.0.as_str()).collect();
    }
    body(&json)
}

/// A message that has not been sent: a body and a key, then `.await`.
///
/// Without a key of the caller's, one is minted before the first attempt. Every attempt carries it and
/// the same bytes, so that a message whose answer was lost is not accepted twice.
#[must_use = "nothing is sent until it is awaited"]
pub struct ToSend {
    client: Client,
    message: Result<SendMessage, Invalid>,
    key: Option<String>,
}

impl fmt::Debug for ToSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToSend").field("key", &self.key).finish_non_exhaustive()
    }
}

impl ToSend {
    /// With this body, as JSON. A [`RawValue`](serde_json::value::RawValue) is sent byte by byte as it
    /// is.
    pub fn json<B: Serialize + ?Sized>(self, body: &B) -> Self {
        let raw = serde_json::value::to_raw_value(body)
            .map_err(|error| Invalid(format!("the body is not JSON: {error}")));
        let message = self.message.and_then(|message| Ok((message, raw?)));
        let message = message.map(|(message, raw)| {
            let body = Some(RawJson(raw));
            SendMessage { body, text: None, base64: None, ..message }
        });
        Self { message, ..self }
    }

    /// With this text as its body.
    pub fn text(self, text: impl Into<String>) -> Self {
        let text = Some(text.into());
        self.with(|message| SendMessage { body: None, text, base64: None, ..message })
    }

    /// With these bytes as its body.
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        let base64 = Some(BASE64.encode(&bytes.into()));
        self.with(|message| SendMessage { body: None, text: None, base64, ..message })
    }

    /// With this content type, in place of that of its kind of body.
    pub fn content_type(self, content_type: impl Into<String>) -> Self {
        let content_type = Some(content_type.into());
        self.with(|message| SendMessage { content_type, ..message })
    }

    /// In this lane: an endpoint gets the messages of a lane one at a time, in their order.
    pub fn lane(self, lane_key: impl Into<String>) -> Self {
        let lane_key = Some(lane_key.into());
        self.with(|message| SendMessage { lane_key, ..message })
    }

    /// Under the caller's own key: the same key is the same message. A program that wants to send it
    /// again after its own crash stores the key first.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    fn with(self, change: impl FnOnce(SendMessage) -> SendMessage) -> Self {
        Self { message: self.message.map(change), ..self }
    }

    async fn send(self) -> Result<MessageAccepted, Error> {
        let identity = self.key.map_or_else(Identity::mint_key, Identity::Key);
        let request = self.client.scoped_post(&["messages"], &self.message?)?;
        self.client.fetch(&request.named(identity)?).await
    }
}

impl IntoFuture for ToSend {
    type Output = Result<MessageAccepted, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
