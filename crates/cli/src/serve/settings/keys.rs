//! The keys of the configuration: their names in the file, in the environment and on the command
//! line, their kinds of values, and their defaults. `docs/guides/configuration.md` has the same
//! table for people, and a test compares the two.

use super::value::Kind;

/// The prefix of all variables of this program.
pub(super) const PREFIX: &str = "INDELIBLE_";

/// A key. Code uses its name in the file: `Key::named("tls.cert")`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The name in the file, with its table.
    pub(super) name: &'static str,
    pub(super) variable: &'static str,
    pub(super) kind: Kind,
    /// The text that the environment would have; `None`: not set.
    pub(super) default: Option<&'static str>,
}

/// All keys, in the order in which they are printed: those without a table first.
pub(super) static KEYS: [Key; 19] = [
    key("listen", "INDELIBLE_LISTEN", Kind::Address, Some("127.0.0.1:7070")),
    key("data", "INDELIBLE_DATA", Kind::Path, Some("indelible-data")),
    key("keys", "INDELIBLE_KEYS", Kind::Switch, Some("false")),
    key("behind_proxy", "INDELIBLE_BEHIND_PROXY", Kind::Switch, Some("false")),
    key("host_names", "INDELIBLE_HOST_NAMES", Kind::Names, Some("")),
    key("proxy_from_environment", "INDELIBLE_PROXY_FROM_ENVIRONMENT", Kind::Switch, Some("false")),
    key("traces", "INDELIBLE_TRACES", Kind::Text, None),
    key("paused", "INDELIBLE_PAUSED", Kind::Switch, Some("false")),
    key("log", "INDELIBLE_LOG", Kind::Filter, Some("info")),
    key("log_format", "INDELIBLE_LOG_FORMAT", Kind::Format, Some("text")),
    key("tls.cert", "INDELIBLE_TLS_CERT", Kind::Path, None),
    key("tls.key", "INDELIBLE_TLS_KEY", Kind::Path, None),
    key("sessions.key", "INDELIBLE_SESSION_KEY", Kind::Path, None),
    key("sessions.algorithm", "INDELIBLE_SESSION_ALGORITHM", Kind::Algorithm, Some("hs256")),
    key("sessions.audience", "INDELIBLE_SESSION_AUDIENCE", Kind::Text, None),
    key("sessions.issuer", "INDELIBLE_SESSION_ISSUER", Kind::Text, None),
    key("retention.completed", "INDELIBLE_RETENTION_COMPLETED", Kind::Window, Some("forever")),
    key("retention.failed", "INDELIBLE_RETENTION_FAILED", Kind::Window, Some("forever")),
    key("retention.cancelled", "INDELIBLE_RETENTION_CANCELLED", Kind::Window, Some("forever")),
];

/// The tables of the file that have keys.
pub(super) const TABLES: [&str; 3] = ["tls", "sessions", "retention"];

const fn key(
    name: &'static str,
    variable: &'static str,
    kind: Kind,
    default: Option<&'static str>,
) -> Key {
    Key { name, variable, kind, default }
}

impl Key {
    pub(super) fn named(name: &str) -> &'static Self {
        KEYS.iter().find(|key| key.name == name).expect("code names keys that there are")
    }

    /// The flag's name: that of the variable, except that the flag of a list is singular, because
    /// it adds one name.
    pub(super) fn flag(&self) -> String {
        let words = self.variable.strip_prefix(PREFIX).expect("every variable has it");
        let words = if self.kind == Kind::Names { words.trim_end_matches('S') } else { words };
        format!("--{}", words.to_lowercase().replace('_', "-"))
    }
}
