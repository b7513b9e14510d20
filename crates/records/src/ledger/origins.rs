//! What transactions came under: the stream of each client (Q-2), and where the log has what a number,
//! a key or an operation id led to (C-44).
//!
//! ```text
//! stream        owner with its length ‖ 00, or 01 ‖ last ‖ 00, or 01 ‖ refused
//! last          sequence (8) ‖ request hash (32) ‖ transaction (16) ‖ height (8) ‖ time (8) ‖ restores (8)
//! refused       attempt (4) ‖ sequence (8) ‖ request hash (32) ‖ why
//! why           01 ‖ refusal
//!               02 ‖ last sequence (8) ‖ whether the store was restored (1)
//!               03: another request had the number
//! refusal       operation (4) ‖ code (1) ‖ key with its length ‖ 00, or 01 ‖ entity without its bytes
//!               ‖ 00, or 01 ‖ codec (1) ‖ length (4) ‖ bytes
//! sequence      height (8)
//! key, id       01 ‖ height (8): it was applied
//!               02 ‖ request hash (32) ‖ refusal
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use indelible_idempotency::RequestHash;
use indelible_journal::{Codec, OperationId, Payload, Timestamp};
use indelible_ledger::{
    Actor, Attempt, ClientId, Code, EntityKey, Gap, Height, Incarnation, LastCommitted, Origin,
    OriginId, Refusal, RefusedAttempt, RestoreCount, Sequence, Stream, StreamRefusal,
    TransactionId,
};
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::entities::{put_bytes, put_summary, read_bytes, read_summary};
use super::{VERSION, key_of};
use crate::LEDGER_ORIGINS;
use crate::codec::{self, Malformed, Reader};

const STREAM: u8 = 1;
const SEQUENCE: u8 = 2;
const KEY: u8 = 3;
const OPERATION: u8 = 4;
const REFUSED_AT: u8 = 5;

/// A name that a caller gave to one transaction, beside a client's numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteName {
    /// An idempotency key.
    Key(OriginId),
    /// An operation id.
    Operation(OperationId),
}

impl WriteName {
    /// The origin of the transaction.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Key(key) => Origin::Key(key.clone()),
            Self::Operation(id) => Origin::Operation(id.clone()),
        }
    }

    fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Key(key) => (KEY, key.as_str().as_bytes()),
            Self::Operation(id) => (OPERATION, id.as_str().as_bytes()),
        }
    }
}

/// What a name has led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredOrigin {
    /// The transaction with this height.
    Committed(Height),
    /// A refusal of the request with this hash.
    Refused(RequestHash, Refusal),
}

/// The stream of a client.
pub fn stream(
    read: &impl Read,
    incarnation: Incarnation,
    client: &ClientId,
) -> Result<Seen<Option<Stream>>, ReadError> {
    let row = key_of(incarnation, &[&[STREAM], client.as_str().as_bytes()]);
    codec::get(read, LEDGER_ORIGINS, &row, |value| decode(&row, value, read_stream))
}

/// Adds to a batch: the stream of a client.
pub fn put_stream(batch: &mut Batch, incarnation: Incarnation, client: &ClientId, stream: &Stream) {
    let row = key_of(incarnation, &[&[STREAM], client.as_str().as_bytes()]);
    let mut body = BytesMut::with_capacity(192);
    codec::put_text(&mut body, stream.owner.as_str());
    body.put_u8(u8::from(stream.last.is_some()));
    if let Some(last) = &stream.last {
        body.put_u64(last.sequence.get());
        body.put_slice(last.hash.as_bytes());
        body.put_slice(last.transaction.as_bytes());
        body.put_u64(last.height.get());
        body.put_u64(last.time.as_micros());
        body.put_u64(last.restores.get());
    }
    body.put_u8(u8::from(stream.refused.is_some()));
    if let Some(refused) = &stream.refused {
        body.put_u32(refused.attempt.get());
        body.put_u64(refused.sequence.get());
        body.put_slice(refused.hash.as_bytes());
        match &refused.refusal {
            StreamRefusal::Condition(refusal) => {
                body.put_u8(1);
                put_refusal(&mut body, refusal);
            }
            StreamRefusal::Gap(Gap { last, restored }) => {
                body.put_u8(2);
                body.put_u64(*last);
                body.put_u8(u8::from(*restored));
            }
            StreamRefusal::Mismatch => body.put_u8(3),
        }
    }
    codec::put(batch, LEDGER_ORIGINS, row, VERSION, &body);
}

/// The height of the transaction that a client's number led to, while the log has it.
pub fn sequence(
    read: &impl Read,
    incarnation: Incarnation,
    client: &ClientId,
    sequence: Sequence,
) -> Result<Seen<Option<Height>>, ReadError> {
    let row = sequence_row(incarnation, client, sequence);
    codec::get(read, LEDGER_ORIGINS, &row, |value| decode(&row, value, read_height))
}

/// Adds to a batch: what a client's number led to; `None`: that is forgotten.
pub fn put_sequence(
    batch: &mut Batch,
    incarnation: Incarnation,
    client: &ClientId,
    sequence: Sequence,
    height: Option<Height>,
) {
    let row = sequence_row(incarnation, client, sequence);
    match height {
        Some(height) => {
            codec::put(batch, LEDGER_ORIGINS, row, VERSION, &height.get().to_be_bytes());
        }
        None => _ = batch.delete(LEDGER_ORIGINS, row),
    }
}

/// What a name has led to.
pub fn origin(
    read: &impl Read,
    incarnation: Incarnation,
    name: &WriteName,
) -> Result<Seen<Option<StoredOrigin>>, ReadError> {
    let row = name_row(incarnation, name);
    codec::get(read, LEDGER_ORIGINS, &row, |value| decode(&row, value, read_origin))
}

/// Adds to a batch: what a name has led to at this time; `None`: that is forgotten.
pub fn put_origin(
    batch: &mut Batch,
    incarnation: Incarnation,
    name: &WriteName,
    at: Timestamp,
    led_to: Option<&StoredOrigin>,
) {
    let row = name_row(incarnation, name);
    let mut body = BytesMut::with_capacity(64);
    match led_to {
        None => {
            batch.delete(LEDGER_ORIGINS, row);
            return;
        }
        Some(StoredOrigin::Committed(height)) => {
            body.put_u8(1);
            body.put_u64(height.get());
        }
        Some(StoredOrigin::Refused(hash, refusal)) => {
            body.put_u8(2);
            body.put_slice(hash.as_bytes());
            put_refusal(&mut body, refusal);
            let (kind, name) = name.parts();
            let at = at.as_micros().to_be_bytes();
            let index = key_of(incarnation, &[&[REFUSED_AT], &at, &[kind], name]);
            batch.put(LEDGER_ORIGINS, index, Bytes::new());
        }
    }
    codec::put(batch, LEDGER_ORIGINS, row, VERSION, &body);
}

/// Adds deletes of the names that were used up by a refusal at this time or before, at most `limit`.
/// Returns when the next one was used up, if one is left.
pub fn forget_refused(
    read: &impl Read,
    batch: &mut Batch,
    incarnation: Incarnation,
    upto: Timestamp,
    limit: usize,
) -> Result<Option<Timestamp>, ReadError> {
    // One row more than is deleted: it says when the next one is due.
    let scan = Scan::prefix(LEDGER_ORIGINS, key_of(incarnation, &[&[REFUSED_AT]]), limit + 1);
    for (count, (row, _)) in read.scan(&scan)?.value.rows.into_iter().enumerate() {
        let at = refused_at(&row)?;
        if at > upto || count == limit {
            return Ok(Some(at));
        }
        batch.delete(LEDGER_ORIGINS, key_of(incarnation, &[&row[25..]]));
        batch.delete(LEDGER_ORIGINS, row);
    }
    Ok(None)
}

/// The time in the key of such a row.
fn refused_at(row: &Bytes) -> Result<Timestamp, ReadError> {
    let time = row.get(17..25).and_then(|time| time.try_into().ok()).map(u64::from_be_bytes);
    let time = time.and_then(Timestamp::from_micros);
    time.ok_or_else(|| codec::damaged(&LEDGER_ORIGINS, row, "its key has no time"))
}

/// Checks a row, alone.
pub(super) fn check(row: &Bytes, value: &Bytes) -> Result<(), ReadError> {
    match row.get(16) {
        Some(&STREAM) => decode(row, value, read_stream).map(drop),
        Some(&SEQUENCE) => decode(row, value, read_height).map(drop),
        Some(&(KEY | OPERATION)) => decode(row, value, read_origin).map(drop),
        Some(&REFUSED_AT) if value.is_empty() => refused_at(row).map(drop),
        _ => Err(codec::damaged(&LEDGER_ORIGINS, row, "it is of unknown kind")),
    }
}

fn decode<T>(
    row: &Bytes,
    value: &Bytes,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<T, ReadError> {
    let body = codec::unseal(&LEDGER_ORIGINS, row, VERSION, value)?;
    codec::parse(&LEDGER_ORIGINS, row, &body, read)
}

fn sequence_row(incarnation: Incarnation, client: &ClientId, sequence: Sequence) -> Bytes {
    let client = client.as_str().as_bytes();
    key_of(incarnation, &[&[SEQUENCE], client, &[0], &sequence.get().to_be_bytes()])
}

fn name_row(incarnation: Incarnation, name: &WriteName) -> Bytes {
    let (kind, name) = name.parts();
    key_of(incarnation, &[&[kind], name])
}

fn read_stream(reader: &mut Reader<'_>) -> Result<Stream, Malformed> {
    let owner = Actor::new(reader.text()?);
    let last = if reader.bool()? { Some(read_last(reader)?) } else { None };
    let refused = if reader.bool()? { Some(read_refused(reader)?) } else { None };
    Ok(Stream { owner, last, refused })
}

fn read_height(reader: &mut Reader<'_>) -> Result<Height, Malformed> {
    reader.u64().map(Height::new)
}

fn read_sequence(reader: &mut Reader<'_>) -> Result<Sequence, Malformed> {
    Sequence::new(reader.u64()?).map_err(|_| Malformed("a sequence is 0"))
}

fn read_last(reader: &mut Reader<'_>) -> Result<LastCommitted, Malformed> {
    Ok(LastCommitted {
        sequence: read_sequence(reader)?,
        hash: RequestHash::from_bytes(reader.array()?),
        transaction: TransactionId::from_bytes(reader.array()?),
        height: Height::new(reader.u64()?),
        time: reader.timestamp()?,
        restores: RestoreCount::new(reader.u64()?),
    })
}

fn read_refused(reader: &mut Reader<'_>) -> Result<RefusedAttempt, Malformed> {
    let attempt = Attempt::new(reader.u32()?).map_err(|_| Malformed("an attempt is 0"))?;
    let sequence = read_sequence(reader)?;
    let hash = RequestHash::from_bytes(reader.array()?);
    let refusal = match reader.u8()? {
        1 => StreamRefusal::Condition(read_refusal(reader)?),
        2 => StreamRefusal::Gap(Gap { last: reader.u64()?, restored: reader.bool()? }),
        3 => StreamRefusal::Mismatch,
        _ => return Err(Malformed("a refusal is of unknown kind")),
    };
    Ok(RefusedAttempt { attempt, sequence, hash, refusal })
}

fn read_origin(reader: &mut Reader<'_>) -> Result<StoredOrigin, Malformed> {
    Ok(match reader.u8()? {
        1 => StoredOrigin::Committed(Height::new(reader.u64()?)),
        2 => {
            let hash = RequestHash::from_bytes(reader.array()?);
            StoredOrigin::Refused(hash, read_refusal(reader)?)
        }
        _ => return Err(Malformed("what it led to is of unknown kind")),
    })
}

fn put_refusal(out: &mut impl BufMut, refusal: &Refusal) {
    out.put_u32(u32::try_from(refusal.index).expect("operations are bounded"));
    out.put_u8(refusal.code.number());
    codec::put_text(out, refusal.key.as_str());
    out.put_u8(u8::from(refusal.current.is_some()));
    if let Some(current) = &refusal.current {
        put_summary(out, current);
    }
    out.put_u8(u8::from(refusal.current_value.is_some()));
    if let Some(Payload { codec, bytes }) = &refusal.current_value {
        out.put_u8(codec.number());
        put_bytes(out, bytes);
    }
}

fn read_refusal(reader: &mut Reader<'_>) -> Result<Refusal, Malformed> {
    let index = reader.u32()? as usize;
    let code = Code::from_number(reader.u8()?).ok_or(Malformed("a code is unknown"))?;
    let key = EntityKey::new(reader.text()?).map_err(|_| Malformed("a key is none"))?;
    let current = if reader.bool()? { Some(read_summary(reader)?) } else { None };
    let current_value = if reader.bool()? {
        let codec = Codec::from_number(reader.u8()?);
        Some(Payload { codec, bytes: read_bytes(reader)? })
    } else {
        None
    };
    Ok(Refusal { index, code, key, current, current_value })
}
