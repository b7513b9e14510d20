//! What is stored of endpoints and messages, as others see it.

use std::collections::BTreeMap;

use indelible_delivery::{EndpointName, MessageId};
use indelible_journal::Namespace;
use indelible_records::delivery::{self, EndpointId, MessageNumber, StoredMessage};
use indelible_store::Read;

use super::{DeliveryError, ENDPOINTS_MAX, MessageView, MessagesPage};

/// The most messages of a page.
pub const DELIVERY_PAGE_MAX: usize = 1_000;

/// How many rows of endpoints are read at a time.
const PAGE: usize = 1_000;

type Names = BTreeMap<EndpointId, EndpointName>;

/// The message with this id, if it is of the namespace.
pub(super) fn message(
    read: &impl Read,
    namespace: &Namespace,
    id: MessageId,
) -> Result<MessageView, DeliveryError> {
    let stored = delivery::message(read, id)?.value;
    let stored = stored.filter(|stored| stored.message.namespace == *namespace);
    view(read, &names(read, namespace)?, id, stored.ok_or(DeliveryError::NoMessage)?)
}

/// Messages of a namespace below a number, the newest first.
pub(super) fn messages(
    read: &impl Read,
    namespace: &Namespace,
    below: Option<MessageNumber>,
    limit: usize,
) -> Result<MessagesPage, DeliveryError> {
    let below = below.unwrap_or(MessageNumber::MAX);
    let limit = limit.min(DELIVERY_PAGE_MAX);
    let rows = delivery::messages_below(read, namespace, below, limit)?.value;
    let next = rows.last().filter(|_| rows.len() == limit).map(|(number, _)| *number);
    let names = names(read, namespace)?;
    let mut messages = Vec::with_capacity(rows.len());
    for (_, id) in rows {
        if let Some(stored) = delivery::message(read, id)?.value {
            messages.push(view(read, &names, id, stored)?);
        }
    }
    Ok(MessagesPage { messages, next })
}

/// Messages with a dead letter, the newest first, below a number.
pub(super) fn dead(
    read: &impl Read,
    namespace: &Namespace,
    below: Option<MessageNumber>,
    limit: usize,
) -> Result<MessagesPage, DeliveryError> {
    let limit = limit.min(DELIVERY_PAGE_MAX);
    let below = below.map(|number| delivery::DeliveryKey { number, endpoint: 0 });
    let keys = delivery::dead(read, namespace, below, limit)?.value;
    let next = keys.last().filter(|_| keys.len() == limit).map(|key| key.number);
    let names = names(read, namespace)?;
    let mut messages = Vec::<MessageView>::with_capacity(keys.len());
    for key in keys {
        if messages.last().is_some_and(|last| last.number == key.number) {
            continue;
        }
        let id = delivery::message_of_number(read, namespace, key.number)?.value;
        let Some(id) = id else { continue };
        if let Some(stored) = delivery::message(read, id)?.value {
            messages.push(view(read, &names, id, stored)?);
        }
    }
    Ok(MessagesPage { messages, next })
}

fn names(read: &impl Read, namespace: &Namespace) -> Result<Names, DeliveryError> {
    let mut names = Names::new();
    let mut after = 0;
    loop {
        let page = delivery::endpoints(read, namespace, after, PAGE)?.value;
        let Some((last, _)) = page.last() else { return Ok(names) };
        after = *last;
        names.extend(page.into_iter().map(|(id, stored)| (id, stored.endpoint.name)));
    }
}

fn view(
    read: &impl Read,
    names: &Names,
    id: MessageId,
    stored: StoredMessage,
) -> Result<MessageView, DeliveryError> {
    let StoredMessage { number, message, .. } = stored;
    let rows = delivery::deliveries_of(read, &message.namespace, number, ENDPOINTS_MAX)?.value;
    let deliveries = rows
        .into_iter()
        .filter_map(|(key, stored)| Some((names.get(&key.endpoint)?.clone(), stored.delivery)));
    Ok(MessageView { id, number, deliveries: deliveries.collect(), message })
}
