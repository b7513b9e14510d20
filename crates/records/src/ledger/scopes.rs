//! Scopes: the head of each vault, and the names that are not free yet.
//!
//! ```text
//! ledger_scopes   01 ‖ incarnation (16) ‖ created (8) ‖ height (8) ‖ time (8) ‖ head (32)
//!                 ‖ the log begins above (8) ‖ 00, or 01 ‖ how long the log is kept (8)
//!                 ‖ 00, or 01 ‖ when it is cut off next (8) ‖ lanes (2048)
//!                 02 ‖ incarnation (16) ‖ when the name is free (8)
//! ```

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{Micros, Namespace, Timestamp};
use indelible_ledger::proof::LtHash;
use indelible_ledger::{ChainHash, Height, Incarnation, Scope, Vault, VaultName};
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::VERSION;
use crate::codec::{self, Malformed, Reader};
use crate::room::{LEDGER_ROOM, RoomKey};
use crate::{LEDGER_SCOPES, keys};

const LIVE: u8 = 1;
const DELETED: u8 = 2;

/// What is stored under the name of a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopeRow {
    /// A vault, or the ledger of a namespace.
    Live(Box<LiveScope>),
    /// A vault that was deleted (C-47).
    Deleted {
        /// Which life of the name it was.
        incarnation: Incarnation,
        /// From when on another vault may have the name.
        free_at: Timestamp,
    },
}

/// A scope that transactions can write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveScope {
    /// Its head.
    pub vault: Vault,
    /// When it was made.
    pub created_at: Timestamp,
    /// Transactions above this height are in the log.
    pub log_from: Height,
    /// How long a transaction stays in the log; `None`: for good.
    pub log_retention: Option<Micros>,
    /// When the timer of the log's retention is due, if it is set.
    pub compacts_at: Option<Timestamp>,
}

/// The row of a scope.
pub fn scope(read: &impl Read, scope: &Scope) -> Result<Seen<Option<ScopeRow>>, ReadError> {
    let row = key(scope);
    codec::get(read, LEDGER_SCOPES, &row, |value| decode(&row, value))
}

/// Adds to a batch: the scope has this row.
pub fn put_scope(batch: &mut Batch, scope: &Scope, row: &ScopeRow) {
    let mut body = BytesMut::with_capacity(2_200);
    match row {
        ScopeRow::Live(live) => {
            let LiveScope { vault, created_at, log_from, log_retention, compacts_at } = &**live;
            body.put_u8(LIVE);
            body.put_slice(vault.incarnation().as_bytes());
            body.put_u64(created_at.as_micros());
            body.put_u64(vault.height().get());
            body.put_u64(vault.time().as_micros());
            body.put_slice(vault.head().as_bytes());
            body.put_u64(log_from.get());
            body.put_u8(u8::from(log_retention.is_some()));
            if let Some(kept) = log_retention {
                body.put_u64(kept.get());
            }
            body.put_u8(u8::from(compacts_at.is_some()));
            if let Some(at) = compacts_at {
                body.put_u64(at.as_micros());
            }
            body.put_slice(&vault.state().to_bytes());
        }
        ScopeRow::Deleted { incarnation, free_at } => {
            body.put_u8(DELETED);
            body.put_slice(incarnation.as_bytes());
            body.put_u64(free_at.as_micros());
        }
    }
    codec::put(batch, LEDGER_SCOPES, key(scope), VERSION, &body);
}

/// Adds to a batch: the name of the scope is free.
pub fn delete_scope(batch: &mut Batch, scope: &Scope) {
    batch.delete(LEDGER_SCOPES, key(scope));
}

/// Rows of the vaults of a namespace after this one, at most `limit`, by name.
pub fn vaults(
    read: &impl Read,
    namespace: &Namespace,
    after: Option<&VaultName>,
    limit: usize,
) -> Result<Seen<Vec<(Scope, ScopeRow)>>, ReadError> {
    let mut scan = Scan::prefix(LEDGER_SCOPES, keys::namespaced(namespace, "\u{1}"), limit);
    if let Some(after) = after {
        let scope = Scope { namespace: namespace.clone(), vault: Some(after.clone()) };
        scan.range.0 = Bound::Excluded(key(&scope));
    }
    codec::scan(read, &scan, |row, value| Ok((decode_key(row)?, decode(row, value)?)))
}

/// The key of the machine of a scope: its slot, and its name.
pub fn room_key(scope: &Scope) -> RoomKey {
    let name = key(scope);
    let mut out = BytesMut::with_capacity(2 + name.len());
    out.put_u16(LEDGER_SCOPES.slot_of(&name).get() << 4);
    out.put_slice(&name);
    RoomKey { room: LEDGER_ROOM, key: out.freeze() }
}

/// The scope of a machine.
pub fn scope_of(key: &RoomKey) -> Result<Scope, ReadError> {
    decode_key(&key.key.slice(key.key.len().min(2)..))
}

fn key(scope: &Scope) -> Bytes {
    match &scope.vault {
        None => keys::namespaced(&scope.namespace, "\0"),
        Some(vault) => keys::namespaced(&scope.namespace, &format!("\u{1}{vault}")),
    }
}

fn decode_key(row: &Bytes) -> Result<Scope, ReadError> {
    codec::parse(&LEDGER_SCOPES, row, row, |reader| {
        let namespace =
            Namespace::new(reader.text()?).map_err(|_| Malformed("its namespace is none"))?;
        let vault = match reader.rest() {
            [0] => None,
            [1, name @ ..] => {
                let name = str::from_utf8(name).ok().and_then(|name| VaultName::new(name).ok());
                Some(name.ok_or(Malformed("the name of its vault is none"))?)
            }
            _ => return Err(Malformed("it is neither a vault nor a namespace")),
        };
        Ok(Scope { namespace, vault })
    })
}

fn decode(row: &Bytes, value: &Bytes) -> Result<ScopeRow, ReadError> {
    let body = codec::unseal(&LEDGER_SCOPES, row, VERSION, value)?;
    codec::parse(&LEDGER_SCOPES, row, &body, |reader| match reader.u8()? {
        LIVE => read_live(reader).map(|live| ScopeRow::Live(Box::new(live))),
        DELETED => Ok(ScopeRow::Deleted {
            incarnation: Incarnation::from_bytes(reader.array()?),
            free_at: reader.timestamp()?,
        }),
        _ => Err(Malformed("it is of unknown kind")),
    })
}

fn read_live(reader: &mut Reader<'_>) -> Result<LiveScope, Malformed> {
    let incarnation = Incarnation::from_bytes(reader.array()?);
    let created_at = reader.timestamp()?;
    let height = Height::new(reader.u64()?);
    let time = reader.timestamp()?;
    let head = ChainHash::from_bytes(reader.array()?);
    let log_from = Height::new(reader.u64()?);
    let log_retention = if reader.bool()? { Some(Micros::new(reader.u64()?)) } else { None };
    let compacts_at = if reader.bool()? { Some(reader.timestamp()?) } else { None };
    let state = read_lanes(reader)?;
    let vault = Vault::stored(incarnation, height, time, head, state);
    Ok(LiveScope { vault, created_at, log_from, log_retention, compacts_at })
}

/// The lanes of a state hash, which are all that is left.
pub(super) fn read_lanes(reader: &mut Reader<'_>) -> Result<LtHash, Malformed> {
    LtHash::from_bytes(reader.rest()).ok_or(Malformed("its state hash has not 2,048 bytes"))
}

/// Checks a row, alone.
pub(super) fn check(row: &Bytes, value: &Bytes) -> Result<(Scope, ScopeRow), ReadError> {
    Ok((decode_key(row)?, decode(row, value)?))
}
