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

/// The token of a row's owner: a random part from the client, and the id of the transaction that
/// made it, for [`Statements::is_seen`].
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
/// end, and giving up the wait would abort the caller's. So every transaction that inserts or
/// changes a row first *tries* to get the key's advisory lock, and holds it until it ends. Three
/// cases:
///
/// - A row is visible: no lock is needed, so replays hold nothing.
/// - No row is visible, and this transaction gets the lock: no other transaction has an uncommitted
///   row under this key, so the insert does not wait. A row may have been committed since this
///   statement's snapshot was taken: the insert then does nothing (READ COMMITTED), or fails as a
///   serialization failure (REPEATABLE READ, SERIALIZABLE). Locks are released after a commit is
///   visible.
/// - No row is visible and none was inserted: another transaction holds the key, or did until a
///   moment ago. Running the statement again tells which.
///
/// Whether a lease has lapsed is judged as of the transaction's beginning: by a later clock, a row
/// that was ended since the snapshot was taken would look lapsed. A new lease runs from the moment
/// at which it is given (`clock_timestamp`).
///
/// The statement has few expressions, and returns times unconverted: PostgreSQL prepares each
/// expression anew for every execution, which is most of this statement's cost.
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

/// If the lock is not free, another transaction is taking over, or the owner is ending the attempt
/// after all (C-34): this statement does not wait for it.
const TAKE_OVER: &str = r#"
UPDATE {table}
SET owner = {owner $7}, owners = owners + 1,
    lease_until = clock_timestamp() + $5 * interval '1 millisecond',
    expires_at = clock_timestamp() + $6 * interval '1 millisecond'
WHERE namespace = $1 AND key_value = $2 AND request_hash = $3
  AND status = 'in_progress' AND lease_until <= clock_timestamp() AND {lock $4}
RETURNING owner
"#;

/// The owner's token permits it, not the lease: a late owner may end it, a superseded one may not.
/// No indexed column changes, so the row is updated in place. If the lock is not free, a take-over
/// is under way: an update would wait for it, and two late owners could wait for each other.
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

/// Whether the transaction of a token has ended for this snapshot, or is this one. Above READ
/// COMMITTED a row that was begun, or taken over, after the snapshot is not visible; that the row
/// is absent, or another owner's, then proves nothing.
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

/// Rows that another transaction has locked are left for the next time. A row that took longer than
/// its window is replayed for another window: its callers were told to come back (C-3).
/// `statement_timestamp` does not change within the statement, so that the index finds expired
/// rows. The rows are chosen once (MATERIALIZED): a plan that chose again for each row would delete
/// more than `LIMIT` allows. They are deleted by key, not by `ctid`, which is not unique in a
/// partitioned table.
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

/// PostgreSQL has no function that tells whether a transaction is active. This statement is refused
/// (25P01) outside one, and within one takes the weakest lock, which every read of the table takes
/// too.
const IN_TRANSACTION: &str = "LOCK TABLE {table} IN ACCESS SHARE MODE";
