//! What a store is set up with, checked before anything uses it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::namespace::ConsumerNamespace;
use crate::text::QuotedText;

/// The name that the shipped migrations give the table.
pub const TABLE_NAME: &str = "idempotency_record";

/// The longest replay window and lease: a hundred years. Beyond, a database's own times overflow,
/// within the caller's transaction.
pub const DURATION_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// The default lease: longer than a request takes, shorter than a person waits.
const LEASE: Duration = Duration::from_secs(60);

/// The settings of a store: whose keys, in which table, for how long (I-15).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub(super) table: TableName,
    pub(super) namespace: ConsumerNamespace,
    pub(super) replay_window: Duration,
    pub(super) lease: Duration,
    pub(super) on_lapse: OnLapse,
    pub(super) in_flight_wait: Duration,
}

/// What a `begin` does that finds an owner's lease lapsed (C-34).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLapse {
    /// Returns [`InFlight::Indeterminate`](crate::InFlight): taking over is a decision, and a call
    /// of its own.
    #[default]
    Indeterminate,
    /// Takes over: for operations that do no harm when they are done twice.
    Restart,
}

impl Settings {
    /// Keys of this namespace, replayed for at least `replay_window` from their first `begin`, and
    /// from their end.
    ///
    /// `retry_horizon` is for how long callers may repeat a request. A window that is shorter is
    /// refused (C-3): the record would be purged while a repetition can still come, and that would
    /// then be taken for new.
    pub fn new(
        namespace: ConsumerNamespace,
        replay_window: Duration,
        retry_horizon: Duration,
    ) -> Result<Self, SettingsError> {
        if replay_window < retry_horizon {
            return Err(SettingsError::WindowTooShort { replay_window, retry_horizon });
        }
        Ok(Self {
            table: TABLE_NAME.parse().expect("it is a plain name"),
            namespace,
            replay_window: bounded("replay window", replay_window)?,
            lease: LEASE,
            on_lapse: OnLapse::default(),
            in_flight_wait: Duration::ZERO,
        })
    }

    /// Another table than [`TABLE_NAME`]; a schema in front, with a point, is fine.
    pub fn table(mut self, name: &str) -> Result<Self, SettingsError> {
        self.table = name.parse()?;
        Ok(self)
    }

    /// How long an owner has for what it does between two transactions.
    pub fn lease(mut self, lease: Duration) -> Result<Self, SettingsError> {
        self.lease = bounded("lease", lease)?;
        Ok(self)
    }

    /// What a `begin` does that finds a lease lapsed.
    pub fn on_lapse(mut self, on_lapse: OnLapse) -> Self {
        self.on_lapse = on_lapse;
        self
    }

    /// How long a `begin` waits for an attempt in flight before it says so. SQLite does not wait: a
    /// transaction there sees nothing that others do meanwhile. The same holds in PostgreSQL above
    /// READ COMMITTED for a visible row: set no wait there.
    pub fn in_flight_wait(mut self, wait: Duration) -> Self {
        self.in_flight_wait = wait;
        self
    }

    /// Whose keys.
    pub fn namespace(&self) -> &ConsumerNamespace {
        &self.namespace
    }

    /// Where they are.
    pub fn table_name(&self) -> &TableName {
        &self.table
    }
}

/// At least a millisecond, which is what the databases are told, and at most [`DURATION_MAX`].
fn bounded(what: &'static str, duration: Duration) -> Result<Duration, SettingsError> {
    if (Duration::from_millis(1)..=DURATION_MAX).contains(&duration) {
        Ok(duration)
    } else {
        Err(SettingsError::Duration { what, duration })
    }
}

/// The name of a table, perhaps with its schema: letters, digits and `_`, no digit first, at most 63
/// characters each. It is always quoted, and so taken to the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    schema: Option<String>,
    table: String,
}

/// PostgreSQL cuts longer names off, silently.
const NAME_CHARS_MAX: usize = 63;

impl TableName {
    /// The schema, if one is given.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }
}

/// As it goes into a statement, quoted.
impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "\"{schema}\".")?;
        }
        write!(f, "\"{}\"", self.table)
    }
}

impl FromStr for TableName {
    type Err = SettingsError;

    fn from_str(name: &str) -> Result<Self, SettingsError> {
        let refused = || SettingsError::TableName { name: name.to_owned() };
        let part = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            let fits = (1..=NAME_CHARS_MAX).contains(&part.len());
            let fits = fits && !part.starts_with(|first: char| first.is_ascii_digit());
            if fits && part.bytes().all(plain) { Ok(part.to_owned()) } else { Err(refused()) }
        };
        match name.split_once('.') {
            Some((schema, table)) => Ok(Self { schema: Some(part(schema)?), table: part(table)? }),
            None => Ok(Self { schema: None, table: part(name)? }),
        }
    }
}

/// Settings that are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The window is shorter than the retry horizon (C-3).
    #[error(
        "records are replayed for {replay_window:?}, but callers may repeat a request for \
         {retry_horizon:?}"
    )]
    WindowTooShort {
        /// For how long records are replayed.
        replay_window: Duration,
        /// For how long requests may be repeated.
        retry_horizon: Duration,
    },
    /// Less than a millisecond, or more than [`DURATION_MAX`].
    #[error("the {what} is {duration:?}; it must be at least a millisecond and at most 100 years")]
    Duration {
        /// Which duration.
        what: &'static str,
        /// How long it is.
        duration: Duration,
    },
    /// No name of a table.
    #[error(
        "invalid table name {}: use letters, digits and _, no digit first, at most \
         {NAME_CHARS_MAX} characters, optionally with a schema and a dot before it",
        QuotedText(name)
    )]
    TableName {
        /// What it was.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn namespace() -> ConsumerNamespace {
        ConsumerNamespace::new("orders").unwrap()
    }

    /// C-3: a window shorter than the callers' retry horizon is refused as configuration.
    #[test]
    fn the_window_covers_the_retry_horizon() {
        assert!(Settings::new(namespace(), DAY, DAY).is_ok());
        assert_eq!(
            Settings::new(namespace(), DAY, DAY + Duration::from_millis(1)),
            Err(SettingsError::WindowTooShort {
                replay_window: DAY,
                retry_horizon: DAY + Duration::from_millis(1)
            })
        );
    }

    #[test]
    fn durations_fit_the_databases() {
        let most = Settings::new(namespace(), DURATION_MAX, DAY).unwrap();
        assert!(most.clone().lease(DURATION_MAX).is_ok());
        assert!(most.clone().lease(DURATION_MAX + DAY).is_err());
        assert!(most.lease(Duration::ZERO).is_err());
        assert!(Settings::new(namespace(), Duration::ZERO, Duration::ZERO).is_err());
        assert!(Settings::new(namespace(), Duration::MAX, DAY).is_err());
    }

    /// I-15, I-20: the table's name is configurable, and cannot carry SQL.
    #[test]
    fn names_of_tables() {
        let shown = |name: &str| name.parse::<TableName>().map(|name| name.to_string());
        assert_eq!(shown("keys"), Ok("\"keys\"".to_owned()));
        assert_eq!(shown("Shop.Keys_2"), Ok("\"Shop\".\"Keys_2\"".to_owned()));
        assert!(shown(&"k".repeat(63)).is_ok());
        for name in
            ["", ".", "a.", ".a", "a.b.c", "1a", "a b", "a\"b", "a;DROP", "é", "a-b", "a\u{0}"]
        {
            assert!(shown(name).is_err(), "{name:?}");
        }
        assert!(shown(&"k".repeat(64)).is_err());
    }
}
