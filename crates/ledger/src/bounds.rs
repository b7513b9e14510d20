//! Every bound of the ledger, by name. What is past one is refused before anything is looked at.

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The longest key of an entity, in bytes.
pub const KEY_BYTES_MAX: usize = KIB;
/// The longest name of a vault, in bytes.
pub const VAULT_NAME_BYTES_MAX: usize = 64;
/// The longest client id, in bytes: as long as any name.
pub const CLIENT_BYTES_MAX: usize = 255;
/// The longest unit, in bytes.
pub const UNIT_BYTES_MAX: usize = 64;
/// The longest idempotency key, source or id of a message in an origin, in bytes: a key has up to
/// 255 characters.
pub const ORIGIN_BYTES_MAX: usize = 1_020;
/// The longest name of an actor, in bytes: as audit entries have it.
pub const ACTOR_BYTES_MAX: usize = KIB;
/// A refusal shows the current value up to this size; of a larger one it shows the hash. Refusals
/// are stored in streams (C-42), and must not fill them.
pub const REFUSED_VALUE_BYTES_MAX: usize = 4 * KIB;

/// Entries of the response cache.
pub const CACHE_ENTRIES_MAX: usize = 10_000;
/// Bytes of the response cache: answers can carry values.
pub const CACHE_BYTES_MAX: usize = 16 * MIB;
/// How long the response cache keeps an answer, in seconds.
pub const CACHE_SECONDS: u64 = 300;

/// The longest line of an export, in bytes: a transaction of [`Limits::DEFAULT`] in which each byte
/// is escaped in six, and the entities that it changes.
pub const LINE_BYTES_MAX: usize = 64 * MIB;

/// The bounds that can be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest value of an entity, and the largest input of an execution, in bytes.
    pub value_bytes_max: usize,
    /// The most operations in a transaction: each may read the disk, and is a few rows.
    pub operations_max: usize,
    /// The most bytes in a transaction: keys, values and inputs together.
    pub transaction_bytes_max: usize,
    /// The most writes in a batch.
    pub batch_writes_max: usize,
    /// The most transactions in a run (C-8).
    pub run_transactions_max: usize,
    /// The most bytes in a run. It is one commit, in which a value is up to eight times: as it is
    /// now, as it was, and with each byte escaped in six in the log.
    pub run_bytes_max: usize,
    /// The most bytes of values that `get` returns, in a transaction and in a run.
    pub result_bytes_max: usize,
}

impl Limits {
    /// What holds unless configured otherwise.
    pub const DEFAULT: Self = Self {
        value_bytes_max: MIB,
        operations_max: 1_000,
        transaction_bytes_max: 4 * MIB,
        batch_writes_max: 1_000,
        run_transactions_max: 1_000,
        run_bytes_max: 4 * MIB,
        result_bytes_max: 4 * MIB,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
