//! Every key there is, in one table: how it is called in the file, in the environment and on the
//! command line, and what it is unless somebody says otherwise. `docs/guides/configuration.md` has
//! the same table for people.

use super::value::{Algorithm, Kind, Value, Window};

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::enum_variant_names, reason = "they are called what the file calls them")]
pub(crate) enum Key {
    Listen,
    Data,
    Keys,
    BehindProxy,
    HostNames,
    ProxyFromEnvironment,
    Traces,
    TlsCert,
    TlsKey,
    SessionKey,
    SessionAlgorithm,
    SessionAudience,
    SessionIssuer,
    RetentionCompleted,
    RetentionFailed,
    RetentionCancelled,
}

impl Key {
    /// All of them, in the order in which they are printed: those without a table first.
    pub(crate) const ALL: [Self; 16] = [
        Self::Listen,
        Self::Data,
        Self::Keys,
        Self::BehindProxy,
        Self::HostNames,
        Self::ProxyFromEnvironment,
        Self::Traces,
        Self::TlsCert,
        Self::TlsKey,
        Self::SessionKey,
        Self::SessionAlgorithm,
        Self::SessionAudience,
        Self::SessionIssuer,
        Self::RetentionCompleted,
        Self::RetentionFailed,
        Self::RetentionCancelled,
    ];

    /// Its name in the file, with that of its table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Data => "data",
            Self::Keys => "keys",
            Self::BehindProxy => "behind_proxy",
            Self::HostNames => "host_names",
            Self::ProxyFromEnvironment => "proxy_from_environment",
            Self::Traces => "traces",
            Self::TlsCert => "tls.cert",
            Self::TlsKey => "tls.key",
            Self::SessionKey => "sessions.key",
            Self::SessionAlgorithm => "sessions.algorithm",
            Self::SessionAudience => "sessions.audience",
            Self::SessionIssuer => "sessions.issuer",
            Self::RetentionCompleted => "retention.completed",
            Self::RetentionFailed => "retention.failed",
            Self::RetentionCancelled => "retention.cancelled",
        }
    }

    /// Its name in the environment.
    pub(crate) const fn variable(self) -> &'static str {
        match self {
            Self::Listen => "INDELIBLE_LISTEN",
            Self::Data => "INDELIBLE_DATA",
            Self::Keys => "INDELIBLE_KEYS",
            Self::BehindProxy => "INDELIBLE_BEHIND_PROXY",
            Self::HostNames => "INDELIBLE_HOST_NAMES",
            Self::ProxyFromEnvironment => "INDELIBLE_PROXY_FROM_ENVIRONMENT",
            Self::Traces => "INDELIBLE_TRACES",
            Self::TlsCert => "INDELIBLE_TLS_CERT",
            Self::TlsKey => "INDELIBLE_TLS_KEY",
            Self::SessionKey => "INDELIBLE_SESSION_KEY",
            Self::SessionAlgorithm => "INDELIBLE_SESSION_ALGORITHM",
            Self::SessionAudience => "INDELIBLE_SESSION_AUDIENCE",
            Self::SessionIssuer => "INDELIBLE_SESSION_ISSUER",
            Self::RetentionCompleted => "INDELIBLE_RETENTION_COMPLETED",
            Self::RetentionFailed => "INDELIBLE_RETENTION_FAILED",
            Self::RetentionCancelled => "INDELIBLE_RETENTION_CANCELLED",
        }
    }

    /// Its name on the command line.
    pub(crate) const fn flag(self) -> &'static str {
        match self {
            Self::Listen => "--listen",
            Self::Data => "--data",
            Self::Keys => "--keys",
            Self::BehindProxy => "--behind-proxy",
            Self::HostNames => "--host-name",
            Self::ProxyFromEnvironment => "--proxy-from-environment",
            Self::Traces => "--traces",
            Self::TlsCert => "--tls-cert",
            Self::TlsKey => "--tls-key",
            Self::SessionKey => "--session-key",
            Self::SessionAlgorithm => "--session-algorithm",
            Self::SessionAudience => "--session-audience",
            Self::SessionIssuer => "--session-issuer",
            Self::RetentionCompleted => "--retention-completed",
            Self::RetentionFailed => "--retention-failed",
            Self::RetentionCancelled => "--retention-cancelled",
        }
    }

    /// What its value is.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Listen => Kind::Address,
            Self::Data | Self::TlsCert | Self::TlsKey | Self::SessionKey => Kind::Path,
            Self::Keys | Self::BehindProxy | Self::ProxyFromEnvironment => Kind::Switch,
            Self::HostNames => Kind::Names,
            Self::Traces | Self::SessionAudience | Self::SessionIssuer => Kind::Text,
            Self::SessionAlgorithm => Kind::Algorithm,
            Self::RetentionCompleted | Self::RetentionFailed | Self::RetentionCancelled => {
                Kind::Window
            }
        }
    }

    /// What it is unless somebody says otherwise; none: it is not set.
    pub(super) fn default(self) -> Option<Value> {
        match self {
            Self::Listen => Some(Value::Address(([127, 0, 0, 1], 7070).into())),
            Self::Data => Some(Value::Path("indelible-data".into())),
            Self::Keys | Self::BehindProxy | Self::ProxyFromEnvironment => {
                Some(Value::Switch(false))
            }
            Self::HostNames => Some(Value::Names(Vec::new())),
            Self::SessionAlgorithm => Some(Value::Algorithm(Algorithm::Hs256)),
            Self::RetentionCompleted | Self::RetentionFailed | Self::RetentionCancelled => {
                Some(Value::Window(Window::Forever))
            }
            Self::Traces
            | Self::TlsCert
            | Self::TlsKey
            | Self::SessionKey
            | Self::SessionAudience
            | Self::SessionIssuer => None,
        }
    }

    /// The table that it is in, and its name there.
    pub(super) fn place(self) -> (Option<&'static str>, &'static str) {
        match self.name().split_once('.') {
            Some((table, name)) => (Some(table), name),
            None => (None, self.name()),
        }
    }
}
