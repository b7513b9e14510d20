-- The table of idempotency keys, for PostgreSQL 13 or newer. It belongs to your service: copy this
-- into your own migrations. Another name, and a schema, are fine; the columns are checked at start.
CREATE TABLE idempotency_record (
    -- Byte by byte: no collation may take two keys for one.
    namespace       text COLLATE "C" NOT NULL CHECK (char_length(namespace) BETWEEN 1 AND 64),
    key_value       text COLLATE "C" NOT NULL CHECK (char_length(key_value) BETWEEN 1 AND 255),
    -- SHA-256 of the request's canonical JSON.
    request_hash    bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    status          text NOT NULL CHECK (status IN ('in_progress', 'committed', 'failed')),
    -- JSON as text: kept as it was written, and no type that could refuse it within your transaction.
    request_payload text NOT NULL,
    result_payload  text CHECK (result_payload IS NULL OR status = 'committed'),
    error_payload   text CHECK (error_payload IS NULL OR status = 'failed'),
    -- Who may end it, how many have owned it, and until when the last one has it.
    owner           text NOT NULL,
    owners          integer NOT NULL,
    lease_until     timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (namespace, key_value),
    CHECK (status <> 'committed' OR result_payload IS NOT NULL),
    CHECK (status <> 'failed' OR error_payload IS NOT NULL)
);

-- For purge_expired. Its columns do not change when an attempt ends, so that the row is updated in
-- place (a HOT update) and neither index is touched.
CREATE INDEX idempotency_record_expires_at ON idempotency_record (namespace, expires_at);
