//! Entities: as they are now, and at each height at which they changed.
//!
//! ```text
//! entity    version (8) ‖ 00, or 01 ‖ when it expires (8) ‖ content
//! content   01 ‖ codec (1) ‖ hash (32) ‖ length (4) ‖ bytes
//!           02 ‖ quantity (16) ‖ unit with its length
//! history   00: it was deleted, or 01 ‖ entity
//! ```

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use indelible_journal::{Codec, Payload, Timestamp};
use indelible_ledger::{
    Amount, Change, Content, ContentSummary, Entity, EntityKey, EntitySummary, Height, Incarnation,
    Unit, Value, ValueHash,
};
use indelible_store::{Batch, Read, ReadError, Scan, Seen, Table};

use super::{VERSION, key_of};
use crate::codec::{self, Malformed, Reader};
use crate::{LEDGER_ENTITIES, LEDGER_HISTORY};

const VALUE: u8 = 1;
const AMOUNT: u8 = 2;

/// How many keys of the history one page looks at.
const LOOKED_AT_MAX: usize = 1_000;

/// Entities by ascending keys, and whether more follow.
pub type EntityRows = (Vec<(EntityKey, Entity)>, bool);

/// What an entity was from which height on, and whether more follow.
pub type VersionRows = (Vec<(Height, Option<Entity>)>, bool);

/// Entities by ascending keys, and the key behind which more may follow.
pub type EntityRowsAt = (Vec<(EntityKey, Entity)>, Option<EntityKey>);

/// An entity as it is now.
pub fn entity(
    read: &impl Read,
    incarnation: Incarnation,
    key: &EntityKey,
) -> Result<Seen<Option<Entity>>, ReadError> {
    let row = key_of(incarnation, &[key.as_str().as_bytes()]);
    codec::get(read, LEDGER_ENTITIES, &row, |value| decode_entity(&row, value))
}

/// Entities whose keys begin with `prefix`, after this key, at most `limit`, by ascending keys; and
/// whether more follow. A page also ends when it has many bytes.
pub fn entities(
    read: &impl Read,
    incarnation: Incarnation,
    prefix: &str,
    after: Option<&EntityKey>,
    limit: usize,
) -> Result<Seen<EntityRows>, ReadError> {
    let mut scan = Scan::prefix(LEDGER_ENTITIES, key_of(incarnation, &[prefix.as_bytes()]), limit);
    if let Some(after) = after {
        scan = scan.after(key_of(incarnation, &[after.as_str().as_bytes()]));
    }
    codec::scan_large(read, scan, |row, value| {
        Ok((read_key(&LEDGER_ENTITIES, row, &row[16..])?, decode_entity(row, value)?))
    })
}

/// Adds to a batch: the entity changed at this height.
pub fn change(batch: &mut Batch, incarnation: Incarnation, height: Height, change: &Change) {
    let name = change.key.as_str().as_bytes();
    let row = key_of(incarnation, &[name]);
    let mut body = BytesMut::with_capacity(96);
    body.put_u8(u8::from(change.after.is_some()));
    match &change.after {
        Some(entity) => {
            put_entity(&mut body, entity);
            codec::put(batch, LEDGER_ENTITIES, row, VERSION, &body[1..]);
        }
        None => _ = batch.delete(LEDGER_ENTITIES, row),
    }
    codec::put(batch, LEDGER_HISTORY, history_row(incarnation, name, height), VERSION, &body);
}

/// Adds to a batch: what the entity was from this height on is forgotten.
pub fn forget_version(
    batch: &mut Batch,
    incarnation: Incarnation,
    key: &EntityKey,
    height: Height,
) {
    batch.delete(LEDGER_HISTORY, history_row(incarnation, key.as_str().as_bytes(), height));
}

/// An entity as it was at a height: what its latest change up to there left.
pub fn entity_at(
    read: &impl Read,
    incarnation: Incarnation,
    key: &EntityKey,
    at: Height,
) -> Result<Seen<Option<Entity>>, ReadError> {
    let versions =
        history(read, incarnation, key, Some(Height::new(at.get().saturating_add(1))), 1)?;
    Ok(versions.map(|(versions, _)| versions.into_iter().next().and_then(|(_, entity)| entity)))
}

/// What an entity was, the latest first, below a height, at most `limit`, `None` where it was deleted;
/// and whether more follow. A page also ends when it has many bytes.
pub fn history(
    read: &impl Read,
    incarnation: Incarnation,
    key: &EntityKey,
    below: Option<Height>,
    limit: usize,
) -> Result<Seen<VersionRows>, ReadError> {
    let name = key.as_str().as_bytes();
    let mut scan =
        Scan::prefix(LEDGER_HISTORY, key_of(incarnation, &[name, &[0]]), limit).reversed();
    if let Some(below) = below {
        scan.range.1 = Bound::Excluded(history_row(incarnation, name, below));
    }
    codec::scan_large(read, scan, |row, value| {
        let (_, height, entity) = decode_version(row, value)?;
        Ok((height, entity))
    })
}

/// A page of entities as they were at a height: those found, and after which key to go on. It may be
/// shorter than `limit` though more follow, because it looks at a bounded number of keys and bytes.
///
/// A key is looked up by itself: a key that changed a million times costs as much as another.
pub fn entities_at(
    read: &impl Read,
    incarnation: Incarnation,
    prefix: &str,
    at: Height,
    after: Option<&EntityKey>,
    limit: usize,
) -> Result<Seen<EntityRowsAt>, ReadError> {
    let versions = key_of(incarnation, &[prefix.as_bytes()]);
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut after = after.cloned();
    let mut looked_at = 0;
    loop {
        looked_at += 1;
        let mut scan = Scan::prefix(LEDGER_HISTORY, versions.clone(), 1);
        if let Some(after) = &after {
            // Behind all versions of that key, and before every longer one: keys have no control
            // characters.
            scan = scan.after(key_of(incarnation, &[after.as_str().as_bytes(), &[1]]));
        }
        let Seen { value: next, position } = codec::scan(read, &scan, decode_version)?;
        let Some((key, ..)) = next.into_iter().next() else {
            return Ok(Seen { value: (found, None), position });
        };
        let entity = entity_at(read, incarnation, &key, at)?.value;
        bytes += entity.as_ref().map_or(0, |entity| entity.content.value_bytes());
        found.extend(entity.map(|entity| (key.clone(), entity)));
        after = Some(key);
        let is_full = found.len() == limit || bytes >= codec::PAGE_BYTES;
        if is_full || looked_at == LOOKED_AT_MAX {
            return Ok(Seen { value: (found, after), position });
        }
    }
}

fn history_row(incarnation: Incarnation, name: &[u8], height: Height) -> Bytes {
    key_of(incarnation, &[name, &[0], &height.get().to_be_bytes()])
}

fn read_key(table: &Table, row: &Bytes, name: &[u8]) -> Result<EntityKey, ReadError> {
    let name = str::from_utf8(name).ok().and_then(|name| EntityKey::new(name).ok());
    name.ok_or_else(|| codec::damaged(table, row, "it is not the key of an entity"))
}

fn decode_entity(row: &Bytes, value: &Bytes) -> Result<Entity, ReadError> {
    let body = codec::unseal(&LEDGER_ENTITIES, row, VERSION, value)?;
    codec::parse(&LEDGER_ENTITIES, row, &body, read_entity)
}

/// The key of an entity, a height, and what it was from there on.
pub(super) fn decode_version(
    row: &Bytes,
    value: &Bytes,
) -> Result<(EntityKey, Height, Option<Entity>), ReadError> {
    let damaged = |what| codec::damaged(&LEDGER_HISTORY, row, what);
    let (name, height) = row
        .get(16..)
        .and_then(|rest| rest.split_last_chunk::<8>())
        .and_then(|(name, height)| Some((name.strip_suffix(&[0])?, u64::from_be_bytes(*height))))
        .ok_or_else(|| damaged("its key is too short"))?;
    let body = codec::unseal(&LEDGER_HISTORY, row, VERSION, value)?;
    let entity = codec::parse(&LEDGER_HISTORY, row, &body, |reader| {
        Ok(if reader.bool()? { Some(read_entity(reader)?) } else { None })
    })?;
    Ok((read_key(&LEDGER_HISTORY, row, name)?, Height::new(height), entity))
}

/// Checks an entity's row, alone.
pub(super) fn check(row: &Bytes, value: &Bytes) -> Result<(EntityKey, Entity), ReadError> {
    let name = row.get(16..).unwrap_or_default();
    Ok((read_key(&LEDGER_ENTITIES, row, name)?, decode_entity(row, value)?))
}

pub(super) fn put_entity(out: &mut impl BufMut, entity: &Entity) {
    put_place(out, entity.version, entity.expires_at);
    match &entity.content {
        Content::Value(value) => {
            put_hashed(out, value.payload().codec, value.hash());
            put_bytes(out, &value.payload().bytes);
        }
        Content::Amount(amount) => put_amount(out, amount),
    }
}

pub(super) fn read_entity(reader: &mut Reader<'_>) -> Result<Entity, Malformed> {
    let (version, expires_at) = read_place(reader)?;
    let content = match reader.u8()? {
        VALUE => {
            let (codec, hash) = read_hashed(reader)?;
            Content::Value(Value::stored(Payload { codec, bytes: read_bytes(reader)? }, hash))
        }
        AMOUNT => Content::Amount(read_amount(reader)?),
        _ => return Err(Malformed("a content is of unknown kind")),
    };
    Ok(Entity { content, version, expires_at })
}

pub(super) fn put_summary(out: &mut impl BufMut, entity: &EntitySummary) {
    put_place(out, entity.version, entity.expires_at);
    match &entity.content {
        ContentSummary::Value { codec, hash } => put_hashed(out, *codec, *hash),
        ContentSummary::Amount(amount) => put_amount(out, amount),
    }
}

pub(super) fn read_summary(reader: &mut Reader<'_>) -> Result<EntitySummary, Malformed> {
    let (version, expires_at) = read_place(reader)?;
    let content = match reader.u8()? {
        VALUE => {
            let (codec, hash) = read_hashed(reader)?;
            ContentSummary::Value { codec, hash }
        }
        AMOUNT => ContentSummary::Amount(read_amount(reader)?),
        _ => return Err(Malformed("a content is of unknown kind")),
    };
    Ok(EntitySummary { version, expires_at, content })
}

fn put_place(out: &mut impl BufMut, version: Height, expires_at: Option<Timestamp>) {
    out.put_u64(version.get());
    out.put_u8(u8::from(expires_at.is_some()));
    if let Some(at) = expires_at {
        out.put_u64(at.as_micros());
    }
}

fn read_place(reader: &mut Reader<'_>) -> Result<(Height, Option<Timestamp>), Malformed> {
    let version = Height::new(reader.u64()?);
    let expires_at = if reader.bool()? { Some(reader.timestamp()?) } else { None };
    Ok((version, expires_at))
}

fn put_hashed(out: &mut impl BufMut, codec: Codec, hash: ValueHash) {
    out.put_u8(VALUE);
    out.put_u8(codec.number());
    out.put_slice(hash.as_bytes());
}

fn read_hashed(reader: &mut Reader<'_>) -> Result<(Codec, ValueHash), Malformed> {
    Ok((Codec::from_number(reader.u8()?), ValueHash::from_bytes(reader.array()?)))
}

fn put_amount(out: &mut impl BufMut, amount: &Amount) {
    out.put_u8(AMOUNT);
    out.put_i128(amount.quantity);
    codec::put_text(out, amount.unit.as_str());
}

fn read_amount(reader: &mut Reader<'_>) -> Result<Amount, Malformed> {
    let quantity = i128::from_be_bytes(reader.array()?);
    let unit = Unit::new(reader.text()?).map_err(|_| Malformed("a unit is none"))?;
    Ok(Amount { quantity, unit })
}

/// Bytes with their length before them.
pub(super) fn put_bytes(out: &mut impl BufMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).expect("values are bounded"));
    out.put_slice(bytes);
}

pub(super) fn read_bytes(reader: &mut Reader<'_>) -> Result<Bytes, Malformed> {
    let length = reader.u32()?;
    reader.take(length as usize).map(Bytes::copy_from_slice)
}
