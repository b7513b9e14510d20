-- The table of idempotency keys, for PostgreSQL 13 or newer. It belongs to your service: copy this
-- into your own migrations. Another name, and a schema, are fine; the columns are checked at start.
CREATE TABLE idempotency_record (
    -- Byte by byte: no collation may take two keys for one.
    namespace       text COLLATE "C" NOT NULL,
    key_value       text COLLATE "C" NOT NULL,
    -- SHA-256 of the request's canonical JSON.
    request_hash    bytea NOT NULL,
    -- in_progress, committed or failed.
    status          text NOT NULL,
    -- JSON as text: kept as it was written, and no type that could refuse it within your transaction.
    request_payload text NOT NULL,
    result_payload  text,
    error_payload   text,
    -- Who may end it, how many have owned it, and until when the last one has it.
    owner           text NOT NULL,
    owners          integer NOT NULL,
    lease_until     timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (namespace, key_value)
    -- No CHECK stands here on purpose: PostgreSQL reads and prepares each one again for every
    -- statement, which costs more than the rest of it. What makes no sense is refused on reading.
);

-- For purge_expired. Its columns do not change when an attempt ends, so that the row is updated in
-- place (a HOT update) and neither index is touched. The namespace does not come first: then this
-- index would seem as good as the primary key for finding a key, as long as PostgreSQL knows little
-- about the table, and every row of the namespace would be read.
CREATE INDEX idempotency_record_expires_at ON idempotency_record (expires_at, namespace);
