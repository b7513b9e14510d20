//! What is asked of post offices, checked and handed to their machines, and what is read of them.

use indelible_delivery::signing::Secret;
use indelible_delivery::{Delivery, Endpoint, EndpointName, Message, MessageId, Origin};
use indelible_execution::{Actor as Person, Purpose};
use indelible_journal::{Micros, Namespace, Timestamp};
use indelible_records::delivery::{MessageNumber, room_key};
use indelible_store::{Seen, Snapshot};

use super::office::{Ask, PostOffice, Reply};
use super::{
    Accepted, DeadDecision, DeliveryError, EndpointView, MessageView, MessagesPage, NewMessage,
    reads,
};
use crate::engine::{Attribution, Engine, PersonDecision};
use crate::reader::Lane;

impl Engine {
    /// Accepts a message, unless its key was used before. When this returns, it is durable, and so is
    /// to whom it goes.
    pub async fn send_message(&self, new: NewMessage) -> Result<Accepted, DeliveryError> {
        let NewMessage { namespace, key, topic, lane, content_type, body } = new;
        let message = Message {
            origin: Origin::Key { namespace: namespace.clone(), key },
            namespace: namespace.clone(),
            topic,
            lane_key: lane,
            content_type,
            body,
            // The office stamps it.
            created: Timestamp::EPOCH,
        };
        message.check()?;
        let unknown = self.shared().check_unknown_name(None);
        match self.ask_office(&namespace, Ask::Send(Box::new(message), unknown)).await? {
            Reply::Accepted(accepted) => Ok(accepted),
            _ => Err(misanswered()),
        }
    }

    /// Makes an endpoint, or gives one that is there these settings. One that is new and has no secret
    /// gets one, which is returned: it is shown once. True: it was made.
    pub async fn put_endpoint(
        &self,
        namespace: &Namespace,
        endpoint: Endpoint,
        actor: Option<Person>,
    ) -> Result<(EndpointView, Option<Secret>, bool), DeliveryError> {
        let offered = Secret::hmac(&self.random_secret());
        let actor = actor.unwrap_or_else(|| Person::new("system:engine"));
        match self.ask_office(namespace, Ask::Put(Box::new(endpoint), offered, actor)).await? {
            Reply::Put(view, is_new, used) => Ok((*view, used, is_new)),
            _ => Err(misanswered()),
        }
    }

    /// Deletes an endpoint. What is not delivered to it becomes dead letters.
    pub async fn delete_endpoint(
        &self,
        namespace: &Namespace,
        name: &EndpointName,
        asked: Attribution,
    ) -> Result<(), DeliveryError> {
        let Attribution { actor, reason, .. } = asked;
        let actor = actor.unwrap_or_else(|| Person::new("system:engine"));
        self.ask_office(namespace, Ask::Delete(name.clone(), actor, reason)).await.map(drop)
    }

    /// Has messages sent to an endpoint, or has them wait.
    pub async fn enable_endpoint(
        &self,
        namespace: &Namespace,
        name: &EndpointName,
        on: bool,
        asked: Attribution,
    ) -> Result<EndpointView, DeliveryError> {
        let Attribution { actor, reason, .. } = asked;
        let actor = actor.unwrap_or_else(|| Person::new("system:engine"));
        one(self.ask_office(namespace, Ask::Enable(name.clone(), on, actor, reason)).await?)
    }

    /// Signs messages to an endpoint with another secret from now on, and with the earlier ones for
    /// `overlap`.
    pub async fn rotate_secret(
        &self,
        namespace: &Namespace,
        name: &EndpointName,
        secret: Secret,
        overlap: Micros,
        actor: Option<Person>,
    ) -> Result<(), DeliveryError> {
        let actor = actor.unwrap_or_else(|| Person::new("system:engine"));
        self.ask_office(namespace, Ask::Rotate(name.clone(), secret, overlap, actor))
            .await
            .map(drop)
    }

    /// Bytes for a new secret.
    pub fn random_secret(&self) -> [u8; 32] {
        let mut random = [0; 32];
        let shared = &**self.shared();
        indelible_execution::Environment::fill(shared, Purpose::Id, &mut random);
        random
    }

    /// How an endpoint stands.
    pub async fn endpoint(
        &self,
        namespace: &Namespace,
        name: &EndpointName,
    ) -> Result<EndpointView, DeliveryError> {
        one(self.ask_office(namespace, Ask::Show(Some(name.clone()))).await?)
    }

    /// How all endpoints of a namespace stand.
    pub async fn endpoints(
        &self,
        namespace: &Namespace,
    ) -> Result<Vec<EndpointView>, DeliveryError> {
        match self.ask_office(namespace, Ask::Show(None)).await? {
            Reply::Endpoints(endpoints) => Ok(endpoints),
            _ => Err(misanswered()),
        }
    }

    /// A person decides about a dead letter.
    pub async fn decide_dead(
        &self,
        namespace: &Namespace,
        message: MessageId,
        endpoint: &EndpointName,
        decision: DeadDecision,
        decided: PersonDecision,
    ) -> Result<Delivery, DeliveryError> {
        let PersonDecision { actor, reason, .. } = decided;
        let ask = Ask::Decide(message, endpoint.clone(), decision, actor, reason);
        match self.ask_office(namespace, ask).await? {
            Reply::Decided(delivery) => Ok(*delivery),
            _ => Err(misanswered()),
        }
    }

    /// A message with its deliveries.
    pub async fn message(
        &self,
        namespace: &Namespace,
        id: MessageId,
    ) -> Result<MessageView, DeliveryError> {
        let namespace = namespace.clone();
        self.read_office(move |snapshot| reads::message(snapshot, &namespace, id)).await
    }

    /// Messages of a namespace, the newest first, below a number.
    pub async fn messages(
        &self,
        namespace: &Namespace,
        below: Option<MessageNumber>,
        limit: usize,
    ) -> Result<MessagesPage, DeliveryError> {
        let namespace = namespace.clone();
        self.read_office(move |snapshot| reads::messages(snapshot, &namespace, below, limit)).await
    }

    /// Messages with a dead letter, the newest first, below a number.
    pub async fn dead_letters(
        &self,
        namespace: &Namespace,
        below: Option<MessageNumber>,
        limit: usize,
    ) -> Result<MessagesPage, DeliveryError> {
        let namespace = namespace.clone();
        self.read_office(move |snapshot| reads::dead(snapshot, &namespace, below, limit)).await
    }

    async fn ask_office(&self, namespace: &Namespace, ask: Ask) -> Result<Reply, DeliveryError> {
        self.ask_room::<PostOffice>(room_key(namespace), ask).await?
    }

    /// Reads of one snapshot, on a thread that is kept for lists.
    async fn read_office<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot) -> Result<T, DeliveryError> + Send + 'static,
    ) -> Result<T, DeliveryError> {
        let read = self.shared().read(Lane::Lists, move |reads| {
            let snapshot = reads.store().snapshot()?;
            let position = snapshot.position();
            Ok(reads.saw(Seen { value: work(&snapshot), position }))
        });
        read.await?
    }
}

fn one(reply: Reply) -> Result<EndpointView, DeliveryError> {
    match reply {
        Reply::Endpoints(mut endpoints) => endpoints.pop().ok_or(DeliveryError::NoEndpoint),
        _ => Err(misanswered()),
    }
}

/// A reply of another kind than the question: a defect of the engine's.
fn misanswered() -> DeliveryError {
    DeliveryError::Malformed("a defect of Indelible: unexpected reply of a post office".to_owned())
}
