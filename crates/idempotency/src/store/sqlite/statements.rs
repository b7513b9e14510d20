//! The statements for SQLite, with the reasons for their form. Times are milliseconds since 1970.

use std::sync::Arc;

use super::super::settings::TableName;

/// Every statement, for one table.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    pub(super) find: Arc<str>,
    pub(super) insert: Arc<str>,
    pub(super) take_over: Arc<str>,
    pub(super) commit: Arc<str>,
    pub(super) fail: Arc<str>,
    pub(super) forget: Arc<str>,
    pub(super) renew: Arc<str>,
    pub(super) lookup: Arc<str>,
    pub(super) purge: Arc<str>,
}

impl Statements {
    pub(super) fn of(table: &TableName) -> Self {
        let with =
            |sql: &str| Arc::from(sql.replace("{table}", &table.to_string()).replace("{now}", NOW));
        Self {
            find: with(FIND),
            insert: with(INSERT),
            take_over: with(TAKE_OVER),
            commit: with(COMMIT),
            fail: with(FAIL),
            forget: with(FORGET),
            renew: with(RENEW),
            lookup: with(LOOKUP),
            purge: with(PURGE),
        }
    }
}

/// The same throughout a statement.
const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// Before the insert, so that a replay takes no write lock.
const FIND: &str = "
SELECT request_hash, status,
       CASE WHEN request_hash <> ?3 THEN request_payload END AS request_payload,
       CASE WHEN request_hash = ?3 THEN result_payload END AS result_payload,
       CASE WHEN request_hash = ?3 THEN error_payload END AS error_payload,
       lease_until - {now} AS lease_ms
FROM {table}
WHERE namespace = ?1 AND key_value = ?2
";

/// SQLite has one writer at a time: the transaction that inserts has seen every committed row, and
/// no other has an uncommitted one. Outside a transaction a row may have come since `FIND`.
const INSERT: &str = "
INSERT INTO {table} (namespace, key_value, request_hash, status, request_payload,
                     owner, owners, lease_until, created_at, expires_at)
VALUES (?1, ?2, ?3, 'in_progress', ?4, lower(hex(randomblob(16))), 1,
        {now} + ?5, {now}, {now} + ?6)
ON CONFLICT (namespace, key_value) DO NOTHING
RETURNING owner
";

const TAKE_OVER: &str = "
UPDATE {table}
SET owner = lower(hex(randomblob(16))), owners = owners + 1,
    lease_until = {now} + ?4, expires_at = {now} + ?5
WHERE namespace = ?1 AND key_value = ?2 AND request_hash = ?3
  AND status = 'in_progress' AND lease_until <= {now}
RETURNING owner
";

const COMMIT: &str = "
UPDATE {table} SET status = 'committed', result_payload = ?4, ended_at = {now}
WHERE namespace = ?1 AND key_value = ?2 AND owner = ?3 AND status = 'in_progress'
";

const FAIL: &str = "
UPDATE {table} SET status = 'failed', error_payload = ?4, ended_at = {now}
WHERE namespace = ?1 AND key_value = ?2 AND owner = ?3 AND status = 'in_progress'
";

const FORGET: &str = "
DELETE FROM {table}
WHERE namespace = ?1 AND key_value = ?2 AND owner = ?3 AND status = 'in_progress'
";

const RENEW: &str = "
UPDATE {table} SET lease_until = {now} + ?4
WHERE namespace = ?1 AND key_value = ?2 AND owner = ?3 AND status = 'in_progress'
";

const LOOKUP: &str = "
SELECT request_hash, status, request_payload, result_payload, error_payload,
       lease_until - {now} AS lease_ms, owner, owners,
       created_at AS created_at_ms, ended_at AS ended_at_ms, expires_at AS expires_at_ms
FROM {table}
WHERE namespace = ?1 AND key_value = ?2
";

/// A row that took longer than its window is replayed for another window: its callers were told to
/// come back (C-3).
const PURGE: &str = "
DELETE FROM {table}
WHERE (namespace, key_value) IN (
    SELECT namespace, key_value FROM {table}
    WHERE namespace = ?1 AND expires_at <= {now} AND status <> 'in_progress'
      AND coalesce(ended_at, created_at) <= {now} - ?3
    ORDER BY expires_at
    LIMIT ?2
)
";
