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
    pub(super) is_seen: Arc<str>,
    pub(super) lookup: Arc<str>,
    pub(super) purge: Arc<str>,
    pub(super) in_transaction: Arc<str>,
}

/// The number of a key's advisory lock: a hash of namespace and key, which the client makes (`{n}`
/// is its parameter), with the table's own number in it: equal keys in two tables have nothing to do
/// with each other. Two keys that share a number are at worst told to come back.
const LOCK: &str = "pg_try_advisory_xact_lock({n} # ('{table}'::regclass::oid::bigint << 32))";

/// The token of a row's owner: random, from the client, and with it the transaction that said so,
/// for [`Statements::is_seen`].
const OWNER: &str = "{n}::text || '-' || pg_current_xact_id()::text";

impl Statements {
    pub(super) fn of(table: &TableName) -> Self {
        let with = |sql: &str| {
            let sql = fill(&fill(sql, "{lock ", LOCK), "{owner ", OWNER);
            Arc::from(sql.replace("{table}", &table.to_string()))
        };
        Self {
            begin: with(BEGIN),
            take_over: with(TAKE_OVER),
            commit: with(COMMIT),
            fail: with(FAIL),
            forget: with(FORGET),
            renew: with(RENEW),
            is_seen: with(IS_SEEN),
            lookup: with(LOOKUP),
            purge: with(PURGE),
            in_transaction: with(IN_TRANSACTION),
        }
    }
}

/// Puts a fragment in its place, with the parameter that is named there: `{lock $4}`.
fn fill(sql: &str, place: &str, fragment: &str) -> String {
    match sql.split_once(place) {
        Some((before, rest)) => {
            let (parameter, after) = rest.split_once('}').expect("a place is closed");
            format!("{before}{}{after}", fragment.replace("{n}", parameter))
        }
        None => sql.to_owned(),
    }
}

/// One round trip, whatever it finds, and no waiting for others (I-13).
///
/// An insert that meets another transaction's uncommitted row would wait for that transaction to
/// end, and giving up the wait would abort the caller's. So whoever inserts or changes a row holds
/// the key's advisory lock until the end of its transaction, and *tries* to get it first: without
/// it, and without a row to be seen, somebody else is about to insert one.
///
/// - A row that is to be seen needs no lock: replays hold nothing.
/// - With the lock, nobody else has an uncommitted row under this key, so the insert does not wait.
///   A row may have been committed since this statement's snapshot was taken: the insert then does
///   nothing (READ COMMITTED), or fails as a serialization failure (REPEATABLE READ, SERIALIZABLE).
///   Locks are released after a commit is to be seen.
/// - So no row at all means that somebody is at it, or was until a moment ago: whoever looks again
///   knows which.
///
/// Whether a lease has lapsed is judged as of the transaction's beginning: by a later clock, a row
/// that was ended since the snapshot was taken would look lapsed. A new lease runs from when it is
/// given (`clock_timestamp`).
///
/// Few expressions, and times as they are: PostgreSQL prepares each expression anew for every
/// execution, which is most of what this statement costs.
const BEGIN: &str = r#"
WITH fresh AS (
    INSERT INTO {table} (namespace, key_value, request_hash, status, request_payload,
                         owner, owners, lease_until, created_at, expires_at)
    SELECT $1, $2, $3, 'in_progress', $5, {owner $8}, 1,
           clock_timestamp() + $6 * interval '1 millisecond', clock_timestamp(),
           clock_timestamp() + $7 * interval '1 millisecond'
    WHERE CASE WHEN EXISTS (SELECT FROM {table} WHERE namespace = $1 AND key_value = $2)
               THEN false ELSE {lock $4} END
    ON CONFLICT (namespace, key_value) DO NOTHING
    RETURNING owner
)
SELECT owner, NULL::bytea, NULL, NULL, NULL, NULL, NULL::timestamptz, NULL::timestamptz FROM fresh
UNION ALL
SELECT NULL, request_hash, status, CASE WHEN request_hash <> $3 THEN request_payload END,
       result_payload, error_payload, lease_until, now()
FROM {table}
WHERE namespace = $1 AND key_value = $2
"#;

/// Without the lock somebody else is taking over, or the owner is ending it after all (C-34): nobody
/// waits for them.
const TAKE_OVER: &str = r#"
UPDATE {table}
SET owner = {owner $7}, owners = owners + 1,
    lease_until = clock_timestamp() + $5 * interval '1 millisecond',
    expires_at = clock_timestamp() + $6 * interval '1 millisecond'
WHERE namespace = $1 AND key_value = $2 AND request_hash = $3
  AND status = 'in_progress' AND lease_until <= clock_timestamp() AND {lock $4}
RETURNING owner
"#;

/// The owner's token is what permits it, not the lease: late is fine, superseded is not. No indexed
/// column changes, so that the row is updated in place. Without the lock a take-over is under way:
/// an update would wait for it, and two late owners could wait for each other.
const COMMIT: &str = r#"
UPDATE {table} SET status = 'committed', result_payload = $5, ended_at = clock_timestamp()
WHERE namespace = $1 AND key_value = $2 AND owner = $3 AND status = 'in_progress' AND {lock $4}
"#;

const FAIL: &str = r#"
UPDATE {table} SET status = 'failed', error_payload = $5, ended_at = clock_timestamp()
WHERE namespace = $1 AND key_value = $2 AND owner = $3 AND status = 'in_progress' AND {lock $4}
"#;

const FORGET: &str = r#"
DELETE FROM {table}
WHERE namespace = $1 AND key_value = $2 AND owner = $3 AND status = 'in_progress' AND {lock $4}
"#;

const RENEW: &str = r#"
UPDATE {table} SET lease_until = clock_timestamp() + $5 * interval '1 millisecond'
WHERE namespace = $1 AND key_value = $2 AND owner = $3 AND status = 'in_progress' AND {lock $4}
"#;

/// Whether the transaction of a token is over for this snapshot, or is this one. Above READ
/// COMMITTED a row that was begun, or taken over, after the snapshot is not to be seen, and that it
/// is absent, or another's, proves nothing.
const IS_SEEN: &str = r#"
SELECT pg_visible_in_snapshot($1::text::xid8, pg_current_snapshot())
    OR coalesce($1::text::xid8 = pg_current_xact_id_if_assigned(), false) AS seen
"#;

const LOOKUP: &str = r#"
SELECT request_hash, status, request_payload, result_payload, error_payload, lease_until, now(),
       owner, owners::bigint, created_at, ended_at, expires_at
FROM {table}
WHERE namespace = $1 AND key_value = $2
"#;

/// Rows that another transaction has are left for the next time. What took longer than its window is
/// replayed for a window more: its callers were told to come back (C-3). `statement_timestamp` does
/// not change within the statement, so that the index finds what has expired. The rows are chosen
/// once (MATERIALIZED): a plan that chose again for each row would delete more than it was told. By
/// key, not by `ctid`: in a partitioned table that is not unique.
const PURGE: &str = r#"
WITH gone AS MATERIALIZED (
    SELECT namespace, key_value FROM {table}
    WHERE namespace = $1 AND expires_at <= statement_timestamp() AND status <> 'in_progress'
      AND coalesce(ended_at, created_at) <= statement_timestamp() - $3 * interval '1 millisecond'
    ORDER BY expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {table} AS row USING gone
WHERE row.namespace = gone.namespace AND row.key_value = gone.key_value
"#;

/// PostgreSQL has no function that tells; this statement is refused (25P01) outside a transaction,
/// and within one takes the weakest lock there is, which every read of the table takes too.
const IN_TRANSACTION: &str = "LOCK TABLE {table} IN ACCESS SHARE MODE";
