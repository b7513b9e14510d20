//! The names under which requests are sent again: operation ids and idempotency keys.
#![expect(clippy::disallowed_methods, reason = "ids are made of the clock and of randomness")]

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use uuid::{Builder, Uuid};

/// The id of one intention: a UUIDv7 (V-5, V-6).
///
/// Every attempt at the same intention carries the same id; a new intention gets a new one, even if
/// its input is equal. A program that wants to ask again after a crash of its own mints the id first,
/// stores it, and then calls with it.
///
/// ```
/// use indelible_client::OperationId;
///
/// let id = OperationId::mint();
/// let stored = id.to_string();
/// assert_eq!(stored.parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(Uuid);

impl OperationId {
    /// A new id, for a new intention.
    ///
    /// # Panics
    ///
    /// If the system has no randomness.
    pub fn mint() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self::from_parts(since.unwrap_or(Duration::ZERO), random())
    }

    fn from_parts(since_epoch: Duration, random: [u8; 10]) -> Self {
        let millis = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        Self(Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }
}

fn random() -> [u8; 10] {
    let mut bytes = [0; 10];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}

/// A fraction from 0 to 1, for jitter. Without randomness there is no jitter, and waits are still
/// made.
pub(crate) fn fraction() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    }
}

/// How long until then, by the system's clock; zero if it has passed.
pub(crate) fn until(date: SystemTime) -> Duration {
    date.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO)
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.hyphenated(), f)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not an operation id. An id is a UUID of version 7, 36 characters, in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid operation id: use a UUID of version 7, 36 characters, in lower case")]
pub struct NoOperationId;

impl FromStr for OperationId {
    type Err = NoOperationId;

    /// Accepts one spelling only: to the server, another spelling is another id.
    fn from_str(text: &str) -> Result<Self, NoOperationId> {
        let id = Uuid::try_parse(text).map(Self).map_err(|_| NoOperationId)?;
        let is_v7 = id.0.get_version_num() == 7 && id.0.get_variant() == uuid::Variant::RFC4122;
        if is_v7 && id.to_string() == text { Ok(id) } else { Err(NoOperationId) }
    }
}

/// The name of a request: sent again under it, it has no second effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// An operation id.
    Operation(OperationId),
    /// An idempotency key.
    Key(String),
    /// A number in a client's stream of a ledger.
    Sequence {
        /// The client.
        client_id: String,
        /// The number; of a run, its first.
        sequence: u64,
    },
}

impl Identity {
    /// A key for a command whose caller has none.
    pub(crate) fn mint_key() -> Self {
        Self::Key(OperationId::mint().to_string())
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(id) => write!(f, "operation id {id}"),
            Self::Key(key) => write!(f, "idempotency key {key:?}"),
            Self::Sequence { client_id, sequence } => {
                write!(f, "sequence {sequence} of client {client_id:?}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V-6: two intentions have two ids.
    #[test]
    fn ids_are_uuids_of_version_7_and_differ() {
        let (one, two) = (OperationId::mint(), OperationId::mint());
        assert_ne!(one, two);
        assert_eq!(one.0.get_version_num(), 7);
        let known = OperationId::from_parts(Duration::from_millis(0x0123_4567_89ab), [0xff; 10]);
        assert_eq!(known.to_string(), "01234567-89ab-7fff-bfff-ffffffffffff");
    }

    /// There is one spelling.
    #[test]
    fn other_texts_are_refused() {
        let good = "01234567-89ab-7fff-bfff-ffffffffffff";
        assert_eq!(good.parse::<OperationId>().map(|id| id.to_string()), Ok(good.to_owned()));
        for bad in [
            "",
            "01234567-89AB-7fff-bfff-ffffffffffff",
            "0123456789ab7fffbfffffffffffffff",
            "{01234567-89ab-7fff-bfff-ffffffffffff}",
            "01234567-89ab-4fff-bfff-ffffffffffff",
            "01234567-89ab-7fff-ffff-ffffffffffff",
        ] {
            assert_eq!(bad.parse::<OperationId>(), Err(NoOperationId), "{bad}");
        }
    }
}
