//! When people are told of dead letters. No alert decides anything.

/// Where alerts go (see O-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertChannel {
    /// E-mail.
    Email,
    /// Slack.
    Slack,
    /// PagerDuty.
    PagerDuty,
    /// Any URL.
    Webhook,
}

/// `DLQAlertConfig` (see O-32).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertConfig {
    /// Whether thresholds alert at all.
    pub enabled: bool,
    /// How many entries of a rolling hour alert.
    pub alert_threshold: u64,
    /// From how many open entries every new one alerts.
    pub critical_threshold: u64,
    /// Where alerts go.
    pub channels: Vec<AlertChannel>,
}

/// What a new entry causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alerts {
    /// One notification for the entry, in any case (see C-35).
    pub notification: bool,
    /// The hour has reached its threshold with this entry.
    pub threshold: bool,
    /// Too many entries are open.
    pub critical: bool,
}

/// What an entry causes that was just entered (see O-46, C-35, C-63): `in_hour` entries of the last
/// hour and `open` ones that wait for review, this one among them.
///
/// The threshold alerts when it is reached, not again for each entry above it.
pub fn alerts(config: &AlertConfig, in_hour: u64, open: u64) -> Alerts {
    Alerts {
        notification: true,
        threshold: config.enabled && in_hour == config.alert_threshold.max(1),
        critical: config.enabled && open >= config.critical_threshold.max(1),
    }
}
