-- The table of idempotency keys, for SQLite 3.42 or newer. It belongs to your service: copy this
-- into your own migrations. Another name is fine; the columns are checked at start.
CREATE TABLE idempotency_record (
    namespace       TEXT NOT NULL CHECK (length(namespace) BETWEEN 1 AND 64),
    key_value       TEXT NOT NULL CHECK (length(key_value) BETWEEN 1 AND 255),
    -- SHA-256 of the request's canonical JSON.
    request_hash    BLOB NOT NULL CHECK (length(request_hash) = 32),
    status          TEXT NOT NULL CHECK (status IN ('in_progress', 'committed', 'failed')),
    -- JSON as text, kept as it was written.
    request_payload TEXT NOT NULL,
    result_payload  TEXT CHECK (result_payload IS NULL OR status = 'committed'),
    error_payload   TEXT CHECK (error_payload IS NULL OR status = 'failed'),
    -- Who may end it, how many have owned it, and until when the last one has it. Times are
    -- milliseconds since 1970.
    owner           TEXT NOT NULL,
    owners          INTEGER NOT NULL,
    lease_until     INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    expires_at      INTEGER NOT NULL,
    PRIMARY KEY (namespace, key_value),
    CHECK (status <> 'committed' OR result_payload IS NOT NULL),
    CHECK (status <> 'failed' OR error_payload IS NOT NULL)
) STRICT;

-- For purge_expired.
CREATE INDEX idempotency_record_expires_at ON idempotency_record (namespace, expires_at);
