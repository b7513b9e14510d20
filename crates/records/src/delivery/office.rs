//! The post office of a namespace: what it counts, and its endpoints with their breakers.
//!
//! ```text
//! office     last number (8) ‖ last endpoint (4) ‖ swept up to (8) ‖ 00, or 01 ‖ ticket (8)
//!            ‖ 00, or 01 ‖ when it sweeps next (8)
//! endpoint   deleted (1) ‖ 00, or 01 ‖ when it goes on (8) ‖ length (2) ‖ breaker ‖ endpoint
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_delivery::Endpoint;
use indelible_delivery::breaker::Breaker;
use indelible_journal::{Namespace, Timestamp};
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::{ENDPOINT, MessageNumber, OFFICE, VERSION, key_of, undecodable};
use crate::DELIVERIES;
use crate::codec::{self, Malformed, Reader};

/// An endpoint: a number that its namespace gives to no other one, ever.
pub type EndpointId = u32;

/// What a post office counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfficeRow {
    /// The number of the last message.
    pub last_number: MessageNumber,
    /// The last endpoint.
    pub last_endpoint: EndpointId,
    /// Retention has looked at the messages up to this number.
    pub swept: MessageNumber,
    /// Its ticket in the queue, while deliveries are queued or being sent.
    pub ticket: Option<u64>,
    /// When the timer of retention is due, if it is set.
    pub sweeps_at: Option<Timestamp>,
}

/// An endpoint as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEndpoint {
    /// Whether it was deleted. Its row stays for the deliveries that name it.
    pub deleted: bool,
    /// It sends nothing before this time, at which a timer is due.
    pub paused_until: Option<Timestamp>,
    /// Its breaker.
    pub breaker: Breaker,
    /// Its settings.
    pub endpoint: Endpoint,
}

/// What the post office of a namespace counts.
pub fn office(
    read: &impl Read,
    namespace: &Namespace,
) -> Result<Seen<Option<OfficeRow>>, ReadError> {
    let row = key_of(namespace, OFFICE, &[]);
    codec::get(read, DELIVERIES, &row, |value| decode_office(&row, value))
}

/// Adds to a batch: this is what the office counts.
pub fn put_office(batch: &mut Batch, namespace: &Namespace, office: &OfficeRow) {
    let OfficeRow { last_number, last_endpoint, swept, ticket, sweeps_at } = office;
    let mut body = BytesMut::with_capacity(40);
    body.put_u64(*last_number);
    body.put_u32(*last_endpoint);
    body.put_u64(*swept);
    put_option(&mut body, *ticket);
    put_option(&mut body, sweeps_at.map(Timestamp::as_micros));
    codec::put(batch, DELIVERIES, key_of(namespace, OFFICE, &[]), VERSION, &body);
}

/// The endpoints of a namespace, the deleted ones too, at most `limit`, behind one.
pub fn endpoints(
    read: &impl Read,
    namespace: &Namespace,
    after: EndpointId,
    limit: usize,
) -> Result<Seen<Vec<(EndpointId, StoredEndpoint)>>, ReadError> {
    let scan = Scan::prefix(DELIVERIES, key_of(namespace, ENDPOINT, &[]), limit);
    let scan = scan.after(key_of(namespace, ENDPOINT, &[&after.to_be_bytes()]));
    codec::scan(read, &scan, decode_endpoint)
}

/// Adds to a batch: the endpoint is so.
pub fn put_endpoint(
    batch: &mut Batch,
    namespace: &Namespace,
    id: EndpointId,
    stored: &StoredEndpoint,
) {
    let StoredEndpoint { deleted, paused_until, breaker, endpoint } = stored;
    let (breaker, endpoint) = (breaker.encode(), endpoint.encode());
    let mut body = BytesMut::with_capacity(12 + breaker.len() + endpoint.len());
    body.put_u8(u8::from(*deleted));
    put_option(&mut body, paused_until.map(Timestamp::as_micros));
    body.put_u16(u16::try_from(breaker.len()).expect("a breaker is some bytes"));
    body.put_slice(&breaker);
    body.put_slice(&endpoint);
    let row = key_of(namespace, ENDPOINT, &[&id.to_be_bytes()]);
    codec::put(batch, DELIVERIES, row, VERSION, &body);
}

pub(super) fn decode_office(row: &Bytes, value: &Bytes) -> Result<OfficeRow, ReadError> {
    let body = codec::unseal(&DELIVERIES, row, VERSION, value)?;
    codec::parse(&DELIVERIES, row, &body, |reader| {
        Ok(OfficeRow {
            last_number: reader.u64()?,
            last_endpoint: reader.u32()?,
            swept: reader.u64()?,
            ticket: read_option(reader, Reader::u64)?,
            sweeps_at: read_option(reader, Reader::timestamp)?,
        })
    })
}

pub(super) fn decode_endpoint(
    row: &Bytes,
    value: &Bytes,
) -> Result<(EndpointId, StoredEndpoint), ReadError> {
    let (_, _, mut rest) = super::read_key(&DELIVERIES, row)?;
    let id = rest.u32().map_err(|Malformed(what)| codec::damaged(&DELIVERIES, row, what))?;
    let body = codec::unseal(&DELIVERIES, row, VERSION, value)?;
    codec::parse(&DELIVERIES, row, &body, |reader| {
        let deleted = reader.bool()?;
        let paused_until = read_option(reader, Reader::timestamp)?;
        let length = reader.u16()?;
        let breaker = Breaker::decode(reader.take(length.into())?).map_err(undecodable)?;
        let endpoint = Endpoint::decode(reader.rest()).map_err(undecodable)?;
        Ok((id, StoredEndpoint { deleted, paused_until, breaker, endpoint }))
    })
}

fn put_option(out: &mut BytesMut, value: Option<u64>) {
    out.put_u8(u8::from(value.is_some()));
    if let Some(value) = value {
        out.put_u64(value);
    }
}

fn read_option<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    if reader.bool()? { read(reader).map(Some) } else { Ok(None) }
}
