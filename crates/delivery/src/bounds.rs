//! Every bound of delivery, by name. What is past one is refused before anything is looked at.

use indelible_journal::Micros;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The longest name of an endpoint or a source, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 128;
/// The longest lane key, in bytes.
pub const LANE_KEY_BYTES_MAX: usize = 255;
/// The longest content type, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 255;
/// The longest id of a message that comes from outside, in bytes.
pub const MESSAGE_ID_BYTES_MAX: usize = 255;
/// The longest URL of an endpoint, in bytes.
pub const URL_BYTES_MAX: usize = 2 * KIB;
/// The largest body of a message, in bytes.
pub const BODY_BYTES_MAX: usize = MIB;
/// The most topics that an endpoint or a governed list names.
pub const TOPICS_MAX: usize = 64;
/// The most filters of an endpoint: each is looked up in the body of every message.
pub const FILTERS_MAX: usize = 16;
/// The longest pointer or value of a filter, in bytes.
pub const FILTER_BYTES_MAX: usize = KIB;
/// The most secrets that are valid at once: every attempt is signed with all of them.
pub const SECRETS_MAX: usize = 5;
/// The most attempts of a bounded schedule. A history keeps more, so it loses none of them.
pub const ATTEMPTS_MAX: u32 = 100;
/// The most failures that a history keeps; of an unbounded schedule it keeps the latest.
pub const FAILURES_MAX: usize = 128;
/// The longest text of a failure, in bytes.
pub const FAILURE_TEXT_BYTES_MAX: usize = 512;
/// The longest rationale of a decision, in bytes.
pub const RATIONALE_BYTES_MAX: usize = 4 * KIB;
/// The most entries of a bulk decision (C-61): its list is signed and frozen.
pub const BULK_ENTRIES_MAX: usize = 10_000;
/// The largest envelope of the `oip` profile, in bytes.
pub const ENVELOPE_BYTES_MAX: usize = 2 * MIB;
/// The most ancestors that an envelope names (C-52).
pub const ANCESTORS_MAX: usize = 64;

/// The longest wait between two attempts that a schedule may name.
pub const WAIT_MAX: Micros = Micros::from_secs(7 * DAY);
/// The longest wait that a receiver can ask for. A longer one would park a message for ever.
pub const RETRY_AFTER_MAX: Micros = Micros::from_secs(7 * DAY);
/// The longest time that an attempt may take.
pub const ATTEMPT_TIMEOUT_MAX: Micros = Micros::from_secs(300);
/// The longest TTL of a message.
pub const TTL_MAX: Micros = Micros::from_secs(365 * DAY);

pub(crate) const DAY: u64 = 24 * 60 * 60;
