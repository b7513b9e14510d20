//! Deliveries, and indexes of those that are open: queued, being sent, in a lane, dead.
//!
//! ```text
//! delivery   message id (20) ‖ lane key with its length, empty if there is none ‖ delivery
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_delivery::{Delivery, LaneKey, MessageId};
use indelible_journal::Namespace;
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::{
    DEAD, DELIVERY, EndpointId, LANE, MessageNumber, QUEUED, SENDING, VERSION, key_of, read_key,
    undecodable,
};
use crate::DELIVERIES;
use crate::codec::{self, Malformed};

/// Which delivery of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryKey {
    /// To which endpoint.
    pub endpoint: EndpointId,
    /// Of which message.
    pub number: MessageNumber,
}

/// A delivery as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelivery {
    /// The message.
    pub message: MessageId,
    /// Its lane at the endpoint.
    pub lane: Option<LaneKey>,
    /// Where it stands.
    pub delivery: Delivery,
}

/// What an open delivery is looked for by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpenRow {
    /// It may be sent.
    Queued,
    /// An attempt at it may be on the wire.
    Sending,
}

/// A delivery.
pub fn delivery(
    read: &impl Read,
    namespace: &Namespace,
    key: DeliveryKey,
) -> Result<Seen<Option<StoredDelivery>>, ReadError> {
    let row = row(namespace, key);
    codec::get(read, DELIVERIES, &row, |value| decode(&row, value))
}

/// The deliveries of a message, at most `limit`.
pub fn deliveries_of(
    read: &impl Read,
    namespace: &Namespace,
    number: MessageNumber,
    limit: usize,
) -> Result<Seen<Vec<(DeliveryKey, StoredDelivery)>>, ReadError> {
    let prefix = key_of(namespace, DELIVERY, &[&number.to_be_bytes()]);
    codec::scan(read, &Scan::prefix(DELIVERIES, prefix, limit), |row, value| {
        Ok((number_first(row)?, decode(row, value)?))
    })
}

/// Adds to a batch: the delivery is so.
pub fn put_delivery(
    batch: &mut Batch,
    namespace: &Namespace,
    key: DeliveryKey,
    stored: &StoredDelivery,
) {
    let StoredDelivery { message, lane, delivery } = stored;
    let encoded = delivery.encode();
    let lane = lane.as_ref().map_or("", LaneKey::as_str);
    let mut body = BytesMut::with_capacity(22 + lane.len() + encoded.len());
    body.put_slice(message.as_bytes());
    codec::put_text(&mut body, lane);
    body.put_slice(&encoded);
    codec::put(batch, DELIVERIES, row(namespace, key), VERSION, &body);
}

/// Adds to a batch: the delivery is forgotten.
pub fn delete_delivery(batch: &mut Batch, namespace: &Namespace, key: DeliveryKey) {
    batch.delete(DELIVERIES, row(namespace, key));
}

/// Deliveries that are queued, or being sent, behind one, at most `limit`, by endpoint and number.
pub fn open(
    read: &impl Read,
    namespace: &Namespace,
    what: OpenRow,
    after: Option<DeliveryKey>,
    limit: usize,
) -> Result<Seen<Vec<DeliveryKey>>, ReadError> {
    let mut scan = Scan::prefix(DELIVERIES, key_of(namespace, kind(what), &[]), limit);
    if let Some(after) = after {
        scan = scan.after(open_row(namespace, what, after));
    }
    codec::scan(read, &scan, |row, _| endpoint_first(row))
}

/// Adds to a batch: the delivery is queued, or being sent.
pub fn put_open(batch: &mut Batch, namespace: &Namespace, what: OpenRow, key: DeliveryKey) {
    batch.put(DELIVERIES, open_row(namespace, what, key), Bytes::new());
}

/// Adds to a batch: the delivery is not queued, or not being sent, any more.
pub fn delete_open(batch: &mut Batch, namespace: &Namespace, what: OpenRow, key: DeliveryKey) {
    batch.delete(DELIVERIES, open_row(namespace, what, key));
}

/// The key of a delivery's place in its lane, whose row has no value.
pub fn lane_row(namespace: &Namespace, key: DeliveryKey, lane: &LaneKey) -> Bytes {
    let (endpoint, number) = (key.endpoint.to_be_bytes(), key.number.to_be_bytes());
    key_of(namespace, LANE, &[&endpoint, lane.as_str().as_bytes(), &[0], &number])
}

/// Dead letters with a smaller number, the newest first, at most `limit`.
pub fn dead(
    read: &impl Read,
    namespace: &Namespace,
    below: Option<DeliveryKey>,
    limit: usize,
) -> Result<Seen<Vec<DeliveryKey>>, ReadError> {
    let mut scan = Scan::prefix(DELIVERIES, key_of(namespace, DEAD, &[]), limit).reversed();
    if let Some(below) = below {
        scan.range.1 = std::ops::Bound::Excluded(dead_row(namespace, below));
    }
    codec::scan(read, &scan, |row, _| number_first(row))
}

/// Adds to a batch: the delivery is a dead letter.
pub fn put_dead(batch: &mut Batch, namespace: &Namespace, key: DeliveryKey) {
    batch.put(DELIVERIES, dead_row(namespace, key), Bytes::new());
}

/// Adds to a batch: the delivery is no dead letter any more.
pub fn delete_dead(batch: &mut Batch, namespace: &Namespace, key: DeliveryKey) {
    batch.delete(DELIVERIES, dead_row(namespace, key));
}

/// A delivery in a lane, with its row.
type LaneMember = (Bytes, LaneKey, DeliveryKey);

/// The deliveries in lanes, behind a row, at most `limit`: each with its row.
pub fn lanes(
    read: &impl Read,
    namespace: &Namespace,
    after: Option<Bytes>,
    limit: usize,
) -> Result<Seen<Vec<LaneMember>>, ReadError> {
    let mut scan = Scan::prefix(DELIVERIES, key_of(namespace, LANE, &[]), limit);
    if let Some(after) = after {
        scan = scan.after(after);
    }
    codec::scan(read, &scan, |row, _| {
        let (lane, key) = read_lane(row)?;
        Ok((row.clone(), lane, key))
    })
}

fn kind(what: OpenRow) -> u8 {
    match what {
        OpenRow::Queued => QUEUED,
        OpenRow::Sending => SENDING,
    }
}

fn row(namespace: &Namespace, key: DeliveryKey) -> Bytes {
    key_of(namespace, DELIVERY, &[&key.number.to_be_bytes(), &key.endpoint.to_be_bytes()])
}

fn dead_row(namespace: &Namespace, key: DeliveryKey) -> Bytes {
    key_of(namespace, DEAD, &[&key.number.to_be_bytes(), &key.endpoint.to_be_bytes()])
}

fn open_row(namespace: &Namespace, what: OpenRow, key: DeliveryKey) -> Bytes {
    key_of(namespace, kind(what), &[&key.endpoint.to_be_bytes(), &key.number.to_be_bytes()])
}

pub(super) fn number_first(row: &Bytes) -> Result<DeliveryKey, ReadError> {
    let (_, _, mut rest) = read_key(&DELIVERIES, row)?;
    let mut read = || Ok(DeliveryKey { number: rest.u64()?, endpoint: rest.u32()? });
    read().map_err(|Malformed(what)| codec::damaged(&DELIVERIES, row, what))
}

pub(super) fn endpoint_first(row: &Bytes) -> Result<DeliveryKey, ReadError> {
    let (_, _, mut rest) = read_key(&DELIVERIES, row)?;
    let mut read = || Ok(DeliveryKey { endpoint: rest.u32()?, number: rest.u64()? });
    read().map_err(|Malformed(what)| codec::damaged(&DELIVERIES, row, what))
}

pub(super) fn read_lane(row: &Bytes) -> Result<(LaneKey, DeliveryKey), ReadError> {
    let (_, _, mut rest) = read_key(&DELIVERIES, row)?;
    let mut read = || {
        let endpoint = rest.u32()?;
        let rest = rest.rest();
        let (lane, number) = rest.split_last_chunk().ok_or(Malformed("it has no number"))?;
        let lane = lane.strip_suffix(&[0]).and_then(|lane| str::from_utf8(lane).ok());
        let lane = lane.and_then(|lane| LaneKey::new(lane).ok());
        let key = DeliveryKey { endpoint, number: u64::from_be_bytes(*number) };
        Ok((lane.ok_or(Malformed("its lane key is none"))?, key))
    };
    read().map_err(|Malformed(what)| codec::damaged(&DELIVERIES, row, what))
}

pub(super) fn decode(row: &Bytes, value: &Bytes) -> Result<StoredDelivery, ReadError> {
    let body = codec::unseal(&DELIVERIES, row, VERSION, value)?;
    codec::parse(&DELIVERIES, row, &body, |reader| {
        let message = MessageId::from_bytes(reader.array()?);
        let lane = match reader.text()? {
            "" => None,
            lane => Some(LaneKey::new(lane).map_err(|_| Malformed("its lane key is none"))?),
        };
        let delivery = Delivery::decode(reader.rest()).map_err(undecodable)?;
        Ok(StoredDelivery { message, lane, delivery })
    })
}
