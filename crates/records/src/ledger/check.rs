//! Whether the ledger's rows fit together: each row alone, and for each scope its log as a chain up to
//! its head, and its entities as its state hash. What a flipped byte changes is found by one of them.

use bytes::Bytes;
use indelible_journal::Timestamp;
use indelible_ledger::proof::{LtHash, genesis};
use indelible_ledger::{Height, Origin, Vault};
use indelible_store::{Read, ReadError, Table};

use super::{LiveScope, LogRow, ScopeRow, StoredOrigin, WriteName, entities, log, origins, scopes};
use crate::codec::{self, damaged};
use crate::{LEDGER_ENTITIES, LEDGER_HISTORY, LEDGER_LOG, LEDGER_ORIGINS, LEDGER_SCOPES};

/// The tables of the ledger.
pub(crate) const TABLES: [Table; 5] =
    [LEDGER_SCOPES, LEDGER_ENTITIES, LEDGER_HISTORY, LEDGER_LOG, LEDGER_ORIGINS];

/// How many rows are read at a time.
const PAGE: usize = 1_000;

/// Checks a row of one of the ledger's tables.
pub(crate) fn check(
    read: &impl Read,
    table: Table,
    row: &Bytes,
    value: &Bytes,
) -> Result<(), ReadError> {
    match table {
        known if known == LEDGER_SCOPES => check_scope(read, row, value),
        known if known == LEDGER_ENTITIES => {
            let (key, entity) = entities::check(row, value)?;
            let incarnation = super::read_incarnation(&table, row)?;
            let seen = entities::entity_at(read, incarnation, &key, entity.version)?;
            match seen.value {
                Some(then) if then == entity => Ok(()),
                _ => Err(damaged(&table, row, "it differs from its history")),
            }
        }
        known if known == LEDGER_HISTORY => entities::decode_version(row, value).map(drop),
        known if known == LEDGER_LOG => check_entry(read, row, value),
        known if known == LEDGER_ORIGINS => origins::check(row, value),
        _ => Ok(()),
    }
}

/// What a transaction came under leads to it.
fn check_entry(read: &impl Read, row: &Bytes, value: &Bytes) -> Result<(), ReadError> {
    let LogRow::Entry(entry) = log::decode(row, value)? else { return Ok(()) };
    let incarnation = super::read_incarnation(&LEDGER_LOG, row)?;
    let transaction = &entry.record.transaction;
    let name = match &transaction.origin {
        Origin::Client { client, sequence, .. } => {
            let led_to = origins::sequence(read, incarnation, client, *sequence)?.value;
            return if led_to == Some(transaction.height) {
                Ok(())
            } else {
                Err(damaged(&LEDGER_LOG, row, "its client's number does not lead to it"))
            };
        }
        Origin::Key(key) => WriteName::Key(key.clone()),
        Origin::Operation(id) => WriteName::Operation(id.clone()),
        Origin::Promise(_) | Origin::Message { .. } | Origin::Expiry => return Ok(()),
    };
    match origins::origin(read, incarnation, &name)?.value {
        Some(StoredOrigin::Committed(height)) if height == transaction.height => Ok(()),
        _ => Err(damaged(&LEDGER_LOG, row, "its name does not lead to it")),
    }
}

fn check_scope(read: &impl Read, row: &Bytes, value: &Bytes) -> Result<(), ReadError> {
    let (scope, stored) = scopes::check(row, value)?;
    let ScopeRow::Live(live) = stored else { return Ok(()) };
    let LiveScope { vault, log_from, .. } = *live;
    let wrong = |what: &str| damaged(&LEDGER_SCOPES, row, what);
    let incarnation = vault.incarnation();
    let mut state = LtHash::default();
    let mut after = None;
    loop {
        let (page, _) = entities::entities(read, incarnation, "", after.as_ref(), PAGE)?.value;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        page.iter().for_each(|(key, entity)| state.add(key, &entity.summary()));
    }
    if state != *vault.state() {
        return Err(wrong("its entities do not have its state hash"));
    }
    let mut replayed = if log_from == Height::ZERO {
        let head = genesis(&scope, incarnation);
        Vault::stored(incarnation, Height::ZERO, Timestamp::EPOCH, head, LtHash::default())
    } else {
        let checkpoint = log::checkpoint(read, incarnation, log_from)?.value;
        checkpoint.ok_or_else(|| wrong("the checkpoint of its log is missing"))?
    };
    loop {
        let from = Height::new(replayed.height().get() + 1);
        let entries = log::rows(read, incarnation, from, PAGE)?.value;
        if entries.is_empty() {
            break;
        }
        for entry in &entries {
            if let Err(fault) = replayed.replay(&entry.record) {
                let height = entry.record.transaction.height;
                let what = format!("its log breaks its chain at height {height}: {fault:?}");
                return Err(codec::damaged(&LEDGER_SCOPES, row, what));
            }
        }
    }
    if (replayed.height(), replayed.head()) == (vault.height(), vault.head()) {
        Ok(())
    } else {
        Err(wrong("its log does not lead to its head"))
    }
}
