//! The rows of the ledger (Q): scopes, entities now and in the past, the log, and what transactions
//! came under. The rules are those of `indelible-ledger`; here its values become bytes.
//!
//! ```text
//! ledger_scopes     namespace with its length ‖ 00, or 01 ‖ name of the vault
//! ledger_entities   incarnation (16) ‖ key
//! ledger_history    incarnation (16) ‖ key ‖ 00 ‖ height (8)
//! ledger_log        incarnation (16) ‖ height (8)
//! ledger_origins    incarnation (16) ‖ 01 ‖ client
//!                   incarnation (16) ‖ 02 ‖ client ‖ 00 ‖ sequence (8)
//!                   incarnation (16) ‖ 03 ‖ idempotency key
//!                   incarnation (16) ‖ 04 ‖ operation id
//!                   incarnation (16) ‖ 05 ‖ height (8) ‖ 03 or 04 ‖ key or operation id
//! ```
//!
//! Names have no zero byte, so what follows a zero is not part of a name. 05 says at which height a
//! key or an operation id was used up by a refusal: it goes with the log of that height.

pub(crate) mod check;
mod entities;
mod log;
mod origins;
mod scopes;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_ledger::Incarnation;
use indelible_store::{Batch, Read, ReadError, Scan, Table};

pub use self::entities::{
    EntityRows, EntityRowsAt, VersionRows, change, entities, entities_at, entity, entity_at,
    forget_version, history,
};
pub use self::log::{
    Checkpoint, LogEntry, LogRow, checkpoint, delete as delete_log, get as log_entry,
    put as put_log, put_checkpoint, rows as log_entries,
};
pub use self::origins::{
    StoredOrigin, WriteName, forget_refused, origin, put_origin, put_sequence, put_stream,
    sequence, stream,
};
pub use self::scopes::{
    LiveScope, ScopeRow, delete_scope, put_scope, room_key, scope, scope_of, vaults,
};
use crate::{LEDGER_ENTITIES, LEDGER_HISTORY, LEDGER_LOG, LEDGER_ORIGINS, codec};

/// Each kind of value has version 1.
const VERSION: u8 = 1;

/// Capacity for a key with a short name.
const KEY_BYTES_GUESS: usize = 64;

/// The beginning of all keys of an incarnation, with what follows.
fn key_of(incarnation: Incarnation, rest: &[&[u8]]) -> Bytes {
    let mut out = BytesMut::with_capacity(KEY_BYTES_GUESS);
    out.put_slice(incarnation.as_bytes());
    rest.iter().for_each(|part| out.put_slice(part));
    out.freeze()
}

/// The incarnation that the key of a row begins with.
fn read_incarnation(table: &Table, row: &Bytes) -> Result<Incarnation, ReadError> {
    let incarnation = row.first_chunk().copied().map(Incarnation::from_bytes);
    incarnation.ok_or_else(|| codec::damaged(table, row, "its key has no incarnation"))
}

/// Adds deletes of up to `limit` rows of an incarnation to a batch; false when none is left.
pub fn purge(
    read: &impl Read,
    batch: &mut Batch,
    incarnation: Incarnation,
    limit: usize,
) -> Result<bool, ReadError> {
    let mut left = limit;
    for table in [LEDGER_ENTITIES, LEDGER_HISTORY, LEDGER_LOG, LEDGER_ORIGINS] {
        let page = read.scan(&Scan::prefix(table, key_of(incarnation, &[]), left))?.value;
        left -= page.rows.len();
        for (key, _) in page.rows {
            batch.delete(table, key);
        }
        if left == 0 {
            return Ok(true);
        }
    }
    Ok(left < limit)
}
