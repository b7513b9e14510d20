//! The statements for PostgreSQL, with the reasons for their form.

use std::sync::Arc;

use super::super::settings::TableName;

/// Every statement, for one table. They are prepared once on each connection.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    pub(super) begin: Arc<str>,
    pub(super) take_over: Arc<str>,
    pub(super) commit: Arc<str>,
    pub(super) fail: Arc<str>,
    pub(super) forget: Arc<str>,
    pub(super) renew: Arc<str>,
    pub(super) lookup: Arc<str>,
    pub(super) purge: Arc<str>,
    pub(super) in_transaction: Arc<str>,
}

impl Statements {
    pub(super) fn of(table: &TableName) -> Self {
        let with = |sql: &str| Arc::from(sql.replace("{table}", &table.to_string()));
        Self {
            begin: with(BEGIN),
            take_over: with(TAKE_OVER),
            commit: with(COMMIT),
            fail: with(FAIL),
            forget: with(FORGET),
            renew: with(RENEW),
            lookup: with(LOOKUP),
            purge: with(PURGE),
            in_transaction: with(IN_TRANSACTION),
        }
    }
}

/// One round trip, whatever it finds, and no waiting for others (I-13).
///
/// An insert that meets another transaction's uncommitted row would wait for that transaction to
/// end, and giving up the wait would abort the caller's. So whoever inserts holds an advisory lock
/// until the end of its transaction, and *tries* to get it first: without it, and without a row to
/// be seen, somebody else is about to insert one.
///
/// - A row that is to be seen needs no lock: replays hold nothing.
/// - With the lock, no other `begin` has an uncommitted row under this key, so the insert does not
///   wait. A row may have been committed since this statement's snapshot was taken: the insert then
///   does nothing (READ COMMITTED; the caller looks again), or fails as a serialization failure
///   (REPEATABLE READ, SERIALIZABLE). Locks are released after a commit is to be seen.
/// - The lock's number is a hash of namespace and key, with the table's own number in it: equal
///   keys in two tables have nothing to do with each other. Two keys that share a number are at
///   worst told to come back.
///
/// `clock_timestamp`, since `now` is when the caller's transaction began.
const BEGIN: &str = r#"
WITH seen AS MATERIALIZED (
    SELECT request_hash, status,
           CASE WHEN request_hash <> $3 THEN request_payload END AS request_payload,
           CASE WHEN request_hash = $3 THEN result_payload END AS result_payload,
           CASE WHEN request_hash = $3 THEN error_payload END AS error_payload,
           (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint AS lease_ms
    FROM {table}
    WHERE namespace = $1 AND key_value = $2
), door AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM seen) THEN NULL
                ELSE pg_try_advisory_xact_lock($4 # ('{table}'::regclass::oid::bigint << 32))
           END AS open
), fresh AS (
    INSERT INTO {table} (namespace, key_value, request_hash, status, request_payload,
                         owner, owners, lease_until, created_at, expires_at)
    SELECT $1, $2, $3, 'in_progress', $5, gen_random_uuid()::text, 1,
           clock_timestamp() + $6 * interval '1 millisecond', clock_timestamp(),
           clock_timestamp() + $7 * interval '1 millisecond'
    FROM door WHERE open
    ON CONFLICT (namespace, key_value) DO NOTHING
    RETURNING owner
)
SELECT door.open, fresh.owner, seen.*
FROM door LEFT JOIN fresh ON true LEFT JOIN seen ON true
"#;

/// The row is locked only if nobody has it: whoever has it is taking over too, or is the owner,
/// ending it after all (C-34). The conditions stand twice, since the row that is locked may be newer
/// than the one that was found.
const TAKE_OVER: &str = r#"
UPDATE {table} AS row
SET owner = gen_random_uuid()::text, owners = owners + 1,
    lease_until = clock_timestamp() + $4 * interval '1 millisecond',
    expires_at = clock_timestamp() + $5 * interval '1 millisecond'
FROM (
    SELECT namespace, key_value FROM {table}
    WHERE namespace = $1 AND key_value = $2 AND request_hash = $3
      AND status = 'in_progress' AND lease_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
) AS lapsed
WHERE row.namespace = lapsed.namespace AND row.key_value = lapsed.key_value
  AND status = 'in_progress' AND lease_until <= clock_timestamp()
RETURNING owner
"#;

/// The owner's token is what permits it, not the lease: late is fine, superseded is not. No indexed
/// column changes, so that the row is updated in place.
const COMMIT: &str = r#"
UPDATE {table} SET status = 'committed', result_payload = $4, ended_at = clock_timestamp()
WHERE namespace = $1 AND key_value = $2 AND owner = $3 AND status = 'in_progress'
"#;

const FAIL: &str = r#"
UPDATE {table} SET status = 'failed', error_payload = $4, ended_at = clock_timestamp()
WHERE namespace = $1 AND key_value = $2 AND owner = $3 AND status = 'in_progress'
"#;

const FORGET: &str = r#"
DELETE FROM {table}
WHERE namespace = $1 AND key_value = $2 AND owner = $3 AND status = 'in_progress'
"#;

const RENEW: &str = r#"
UPDATE {table} SET lease_until = clock_timestamp() + $4 * interval '1 millisecond'
WHERE namespace = $1 AND key_value = $2 AND owner = $3 AND status = 'in_progress'
"#;

const LOOKUP: &str = r#"
SELECT request_hash, status, request_payload, result_payload, error_payload,
       (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint AS lease_ms,
       owner, owners::bigint AS owners,
       (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms,
       (extract(epoch FROM ended_at) * 1000)::bigint AS ended_at_ms,
       (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms
FROM {table}
WHERE namespace = $1 AND key_value = $2
"#;

/// Rows that another transaction has are left for the next time. `statement_timestamp` does not
/// change within the statement, so that the index finds what has expired. By key, not by `ctid`: in
/// a partitioned table that is not unique.
const PURGE: &str = r#"
DELETE FROM {table}
WHERE (namespace, key_value) IN (
    SELECT namespace, key_value FROM {table}
    WHERE namespace = $1 AND expires_at <= statement_timestamp() AND status <> 'in_progress'
    ORDER BY expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
"#;

/// PostgreSQL has no function that tells; this statement is refused (25P01) outside a transaction,
/// and within one takes the weakest lock there is, which every read of the table takes too.
const IN_TRANSACTION: &str = "LOCK TABLE {table} IN ACCESS SHARE MODE";
