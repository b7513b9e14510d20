//! Messages: what was accepted, its number, and the endpoints that get it.
//!
//! ```text
//! messages   number (8) ‖ count (2) ‖ endpoint (4) … ‖ message
//! number     id (20)
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_delivery::{Message, MessageId};
use indelible_journal::Namespace;
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::{EndpointId, NUMBER, VERSION, key_of, undecodable};
use crate::codec::{self, Malformed};
use crate::{DELIVERIES, MESSAGES};

/// The place of a message in the order in which its namespace accepted them, from 1.
pub type MessageNumber = u64;

/// A message that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number.
    pub number: MessageNumber,
    /// The endpoints that get it, as their settings were when it was accepted.
    pub endpoints: Vec<EndpointId>,
    /// The message.
    pub message: Message,
}

/// The message with this id.
pub fn message(read: &impl Read, id: MessageId) -> Result<Seen<Option<StoredMessage>>, ReadError> {
    let row = Bytes::copy_from_slice(id.as_bytes());
    codec::get(read, MESSAGES, &row, |value| decode(&row, value))
}

/// Adds to a batch: this message is accepted.
pub fn put_message(batch: &mut Batch, id: MessageId, stored: &StoredMessage) {
    let StoredMessage { number, endpoints, message } = stored;
    let encoded = message.encode();
    let mut body = BytesMut::with_capacity(10 + 4 * endpoints.len() + encoded.len());
    body.put_u64(*number);
    body.put_u16(u16::try_from(endpoints.len()).expect("endpoints are bounded"));
    endpoints.iter().for_each(|endpoint| body.put_u32(*endpoint));
    body.put_slice(&encoded);
    codec::put(batch, MESSAGES, Bytes::copy_from_slice(id.as_bytes()), VERSION, &body);
    let row = key_of(&message.namespace, NUMBER, &[&number.to_be_bytes()]);
    codec::put(batch, DELIVERIES, row, VERSION, id.as_bytes());
}

/// Adds to a batch: the message is forgotten.
pub fn delete_message(batch: &mut Batch, id: MessageId, stored: &StoredMessage) {
    batch.delete(MESSAGES, Bytes::copy_from_slice(id.as_bytes()));
    let number = stored.number.to_be_bytes();
    batch.delete(DELIVERIES, key_of(&stored.message.namespace, NUMBER, &[&number]));
}

/// The id of the message with this number.
pub fn message_of_number(
    read: &impl Read,
    namespace: &Namespace,
    number: MessageNumber,
) -> Result<Seen<Option<MessageId>>, ReadError> {
    let row = key_of(namespace, NUMBER, &[&number.to_be_bytes()]);
    codec::get(read, DELIVERIES, &row, |value| decode_number(&row, value))
}

/// Messages with a smaller number, the newest first, at most `limit`: their numbers and ids.
pub fn messages_below(
    read: &impl Read,
    namespace: &Namespace,
    below: MessageNumber,
    limit: usize,
) -> Result<Seen<Vec<(MessageNumber, MessageId)>>, ReadError> {
    let mut scan = Scan::prefix(DELIVERIES, key_of(namespace, NUMBER, &[]), limit).reversed();
    scan.range.1 = std::ops::Bound::Excluded(key_of(namespace, NUMBER, &[&below.to_be_bytes()]));
    codec::scan(read, &scan, |row, value| Ok((number_of(row)?, decode_number(row, value)?)))
}

fn number_of(row: &Bytes) -> Result<MessageNumber, ReadError> {
    let (_, _, mut rest) = super::read_key(&DELIVERIES, row)?;
    rest.u64().map_err(|Malformed(what)| codec::damaged(&DELIVERIES, row, what))
}

fn decode_number(row: &Bytes, value: &Bytes) -> Result<MessageId, ReadError> {
    let body = codec::unseal(&DELIVERIES, row, VERSION, value)?;
    codec::parse(&DELIVERIES, row, &body, |reader| Ok(MessageId::from_bytes(reader.array()?)))
}

pub(super) fn decode(row: &Bytes, value: &Bytes) -> Result<StoredMessage, ReadError> {
    let body = codec::unseal(&MESSAGES, row, VERSION, value)?;
    codec::parse(&MESSAGES, row, &body, |reader| {
        let number = reader.u64()?;
        let count = reader.u16()?;
        let endpoints = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        let message = Message::decode(reader.rest()).map_err(undecodable)?;
        if message.id().as_bytes()[..] != row[..] {
            return Err(Malformed("its id is not that of its origin"));
        }
        Ok(StoredMessage { number, endpoints, message })
    })
}

pub(super) fn check_number(row: &Bytes, value: &Bytes) -> Result<(), ReadError> {
    number_of(row)?;
    decode_number(row, value).map(drop)
}
