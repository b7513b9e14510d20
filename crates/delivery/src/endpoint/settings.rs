//! The settings of an endpoint as people and programs write them, and what is wrong with them.

use std::fmt;
use std::num::NonZeroU32;

use indelible_journal::{Backoff, Idempotency, Micros, RetryBound};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Endpoint, EndpointState, EndpointUrl, FieldFilter, SigningSecret, Subscription};
use crate::attempt::Busy503;
use crate::bounds::{
    ATTEMPT_TIMEOUT_MAX, ATTEMPTS_MAX, FILTER_BYTES_MAX, FILTERS_MAX, SECRETS_MAX, TOPICS_MAX,
    TTL_MAX, WAIT_MAX,
};
use crate::breaker::Thresholds;
use crate::lane::LanePolicy;
use crate::names::EndpointName;
use crate::schedule::Schedule;

/// How long an attempt may take unless configured otherwise: Standard Webhooks recommends 15 to 30
/// seconds.
const ATTEMPT_TIMEOUT_MS: u64 = 20_000;
const IN_FLIGHT_MAX: u32 = 16;
/// More attempts under way would be one endpoint's share of all connections.
const IN_FLIGHT_LIMIT: u32 = 1_000;
const RATE_LIMIT: u32 = 100_000;

/// A secret in a request. It is in no `Debug` text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

/// What is wrong with settings: the field, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct SettingsError {
    /// Which field, as it is spelled in JSON.
    pub field: &'static str,
    /// Why.
    pub why: String,
}

impl SettingsError {
    pub(crate) fn new(field: &'static str, why: impl fmt::Display) -> Self {
        Self { field, why: why.to_string() }
    }
}

/// The settings of an endpoint, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointSettings {
    /// Its name: `a-z`, `0-9`, `-` and `_`. May be left out where a path has it.
    #[serde(default)]
    pub name: String,
    /// Where messages are posted to.
    pub url: String,
    /// Which topics it gets: `order.created`, `order.*` or `*`. None: all.
    #[serde(default)]
    pub topics: Vec<String>,
    /// Fields that the JSON body must have.
    #[serde(default)]
    pub fields: Vec<FieldSettings>,
    /// What messages are signed with, the current secret first: `whsec_` or `whsk_`. None: the
    /// server makes one.
    #[serde(default, skip_serializing)]
    pub secrets: Vec<SecretText>,
    /// Whether it tells repetitions by `webhook-id`. If it does not, a message that may have arrived
    /// is not sent again without a decision.
    #[serde(default = "yes")]
    pub idem: bool,
    /// Whether a 503 with `Retry-After` proves that the message was not processed.
    #[serde(default)]
    pub busy_is_not_processed: bool,
    /// What a dead letter does to the messages behind it in its lane.
    #[serde(default)]
    pub on_dead_letter: LaneSettings,
    /// How many attempts begin in a second at most.
    #[serde(default)]
    pub rate_per_second: Option<u32>,
    /// How many attempts are under way at most.
    #[serde(default = "in_flight_max")]
    pub in_flight_max: u32,
    /// When a message is tried again. None: ten attempts over 75 hours.
    #[serde(default)]
    pub schedule: Option<ScheduleSettings>,
    /// When its circuit breaker opens.
    #[serde(default)]
    pub breaker: BreakerSettings,
    /// How long an attempt may take.
    #[serde(default = "attempt_timeout_ms")]
    pub attempt_timeout_ms: u64,
    /// How long a message is of use. None: always.
    #[serde(default)]
    pub ttl_seconds: Option<u64>,
}

/// A field that a JSON body must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldSettings {
    /// Where it is: a JSON pointer such as `/order/region`.
    pub pointer: String,
    /// Its value.
    pub value: serde_json::Value,
}

/// What a dead letter does to its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaneSettings {
    /// The messages behind it wait until it is decided.
    #[default]
    Block,
    /// The messages behind it overtake it.
    Skip,
}

/// When a message is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ScheduleSettings {
    /// After each of these waits, in seconds.
    StepsSeconds(Vec<u64>),
    /// After waits that double.
    Backoff(BackoffSettings),
}

/// Waits that double.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackoffSettings {
    /// The first wait.
    pub base_ms: u64,
    /// The longest wait.
    pub cap_ms: u64,
    /// How many retries there are. None: any number.
    pub retries_max: Option<u32>,
}

/// When a circuit breaker opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerSettings {
    /// The share of failed attempts that opens it, in percent.
    pub failures_percent: u8,
    /// How many attempts the share needs.
    pub attempts_min: u32,
    /// How long an attempt counts.
    pub window_seconds: u64,
    /// How long it stays open before a trial.
    pub open_seconds: u64,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        let Thresholds { failures_percent, attempts_min, window, open_for } = Thresholds::DEFAULT;
        let seconds = |micros: Micros| micros.get() / 1_000_000;
        let (window_seconds, open_seconds) = (seconds(window), seconds(open_for));
        Self { failures_percent, attempts_min, window_seconds, open_seconds }
    }
}

fn yes() -> bool {
    true
}

fn in_flight_max() -> u32 {
    IN_FLIGHT_MAX
}

fn attempt_timeout_ms() -> u64 {
    ATTEMPT_TIMEOUT_MS
}

/// A length of time within its bounds.
fn bounded(field: &'static str, time: Micros, max: Micros) -> Result<Micros, SettingsError> {
    if time == Micros::ZERO || time > max {
        return Err(SettingsError::new(field, format_args!("use more than 0 and at most {max}")));
    }
    Ok(time)
}

fn counted(field: &'static str, count: usize, max: usize) -> Result<(), SettingsError> {
    if count > max {
        return Err(SettingsError::new(field, format_args!("there are {count}; at most {max}")));
    }
    Ok(())
}

fn number(field: &'static str, number: u32, max: u32) -> Result<NonZeroU32, SettingsError> {
    let within = NonZeroU32::new(number).filter(|number| number.get() <= max);
    within.ok_or_else(|| SettingsError::new(field, format_args!("use 1 to {max}")))
}

impl EndpointSettings {
    /// The settings of an endpoint at this URL; everything else is as it is unless configured.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            name: String::new(),
            url: url.into(),
            topics: Vec::new(),
            fields: Vec::new(),
            secrets: Vec::new(),
            idem: yes(),
            busy_is_not_processed: false,
            on_dead_letter: LaneSettings::default(),
            rate_per_second: None,
            in_flight_max: in_flight_max(),
            schedule: None,
            breaker: BreakerSettings::default(),
            attempt_timeout_ms: attempt_timeout_ms(),
            ttl_seconds: None,
        }
    }

    /// The settings of an endpoint, without its secrets: they read back as the same endpoint.
    pub fn of(endpoint: &Endpoint) -> Self {
        let millis = |time: Micros| time.get() / 1_000;
        let seconds = |time: Micros| time.get() / 1_000_000;
        let field = |field: &FieldFilter| FieldSettings {
            pointer: field.pointer.to_string(),
            value: field.value.clone(),
        };
        let Thresholds { failures_percent, attempts_min, window, open_for } = endpoint.breaker;
        Self {
            name: endpoint.name.to_string(),
            url: endpoint.url.as_str().to_owned(),
            topics: endpoint.subscription.topics.iter().map(ToString::to_string).collect(),
            fields: endpoint.subscription.fields.iter().map(field).collect(),
            secrets: Vec::new(),
            idem: endpoint.class == Idempotency::Idem,
            busy_is_not_processed: endpoint.busy == Busy503::NotProcessed,
            on_dead_letter: match endpoint.lane {
                LanePolicy::Block => LaneSettings::Block,
                LanePolicy::Skip => LaneSettings::Skip,
            },
            rate_per_second: endpoint.rate.map(NonZeroU32::get),
            in_flight_max: endpoint.in_flight_max.get(),
            schedule: Some(match &endpoint.schedule {
                Schedule::Steps(steps) => {
                    ScheduleSettings::StepsSeconds(steps.iter().copied().map(seconds).collect())
                }
                Schedule::Exponential { backoff, bound } => {
                    ScheduleSettings::Backoff(BackoffSettings {
                        base_ms: millis(backoff.base),
                        cap_ms: millis(backoff.cap),
                        retries_max: match bound {
                            RetryBound::Bounded(retries) => Some(*retries),
                            RetryBound::Unbounded => None,
                        },
                    })
                }
            }),
            breaker: BreakerSettings {
                failures_percent,
                attempts_min,
                window_seconds: seconds(window),
                open_seconds: seconds(open_for),
            },
            attempt_timeout_ms: millis(endpoint.attempt_timeout),
            ttl_seconds: endpoint.ttl.map(seconds),
        }
    }

    /// The endpoint with these settings, enabled. It has no secret if none is given: the caller
    /// makes one.
    pub fn read(&self) -> Result<Endpoint, SettingsError> {
        let name = EndpointName::new(&self.name).map_err(|why| SettingsError::new("name", why))?;
        let url = EndpointUrl::new(&self.url).map_err(|why| SettingsError::new("url", why))?;
        let rate = self.rate_per_second;
        Ok(Endpoint {
            settings: Self { secrets: Vec::new(), ..self.clone() },
            name,
            state: EndpointState::Enabled,
            url,
            subscription: self.subscription()?,
            secrets: self.secrets()?,
            class: if self.idem { Idempotency::Idem } else { Idempotency::NonIdem },
            busy: if self.busy_is_not_processed { Busy503::NotProcessed } else { Busy503::Unknown },
            lane: match self.on_dead_letter {
                LaneSettings::Block => LanePolicy::Block,
                LaneSettings::Skip => LanePolicy::Skip,
            },
            rate: rate.map(|rate| number("rate_per_second", rate, RATE_LIMIT)).transpose()?,
            in_flight_max: number("in_flight_max", self.in_flight_max, IN_FLIGHT_LIMIT)?,
            schedule: match &self.schedule {
                None => Schedule::standard(),
                Some(schedule) => schedule.read()?,
            },
            breaker: self.breaker.read()?,
            attempt_timeout: bounded(
                "attempt_timeout_ms",
                Micros::from_millis(self.attempt_timeout_ms),
                ATTEMPT_TIMEOUT_MAX,
            )?,
            ttl: self
                .ttl_seconds
                .map(|ttl| bounded("ttl_seconds", Micros::from_secs(ttl), TTL_MAX))
                .transpose()?,
        })
    }

    fn subscription(&self) -> Result<Subscription, SettingsError> {
        counted("topics", self.topics.len(), TOPICS_MAX)?;
        counted("fields", self.fields.len(), FILTERS_MAX)?;
        let topics = self.topics.iter().map(|text| text.parse());
        let topics = topics.collect::<Result<_, _>>();
        let fields = self.fields.iter().map(|field| {
            let pointer = field.pointer.as_str();
            let value = &field.value;
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(SettingsError::new("fields.pointer", "begin it with /"));
            }
            if pointer.len() + value.to_string().len() > FILTER_BYTES_MAX {
                return Err(SettingsError::new("fields", "pointer or value are too long"));
            }
            Ok(FieldFilter { pointer: pointer.into(), value: value.clone() })
        });
        Ok(Subscription {
            topics: topics.map_err(|why| SettingsError::new("topics", why))?,
            fields: fields.collect::<Result<_, _>>()?,
        })
    }

    fn secrets(&self) -> Result<Vec<SigningSecret>, SettingsError> {
        counted("secrets", self.secrets.len(), SECRETS_MAX)?;
        let secrets = self.secrets.iter().map(|SecretText(text)| {
            let secret = text.parse().map_err(|why| SettingsError::new("secrets", why))?;
            Ok(SigningSecret { secret, until: None })
        });
        secrets.collect()
    }
}

impl ScheduleSettings {
    fn read(&self) -> Result<Schedule, SettingsError> {
        match self {
            Self::StepsSeconds(steps) => {
                let field = "schedule.steps_seconds";
                counted(field, steps.len(), ATTEMPTS_MAX as usize - 1)?;
                let step = |step: &u64| bounded(field, Micros::from_secs(*step), WAIT_MAX);
                steps.iter().map(step).collect::<Result<_, _>>().map(Schedule::Steps)
            }
            Self::Backoff(BackoffSettings { base_ms, cap_ms, retries_max }) => {
                let field = "schedule.backoff.base_ms";
                let base = bounded(field, Micros::from_millis(*base_ms), WAIT_MAX)?;
                let field = "schedule.backoff.cap_ms";
                let cap = bounded(field, Micros::from_millis(*cap_ms), WAIT_MAX)?;
                if cap < base {
                    return Err(SettingsError::new(field, "it is less than base_ms"));
                }
                let field = "schedule.backoff.retries_max";
                counted(field, retries_max.unwrap_or(0) as usize, ATTEMPTS_MAX as usize - 1)?;
                let bound = retries_max.map_or(RetryBound::Unbounded, RetryBound::Bounded);
                Ok(Schedule::Exponential { backoff: Backoff { base, cap }, bound })
            }
        }
    }
}

impl BreakerSettings {
    fn read(&self) -> Result<Thresholds, SettingsError> {
        let Self { failures_percent, attempts_min, window_seconds, open_seconds } = *self;
        if !(1..=100).contains(&failures_percent) {
            return Err(SettingsError::new("breaker.failures_percent", "use 1 to 100"));
        }
        if attempts_min == 0 {
            return Err(SettingsError::new("breaker.attempts_min", "use 1 or more"));
        }
        let seconds = |field, seconds| bounded(field, Micros::from_secs(seconds), WAIT_MAX);
        Ok(Thresholds {
            failures_percent,
            attempts_min,
            window: seconds("breaker.window_seconds", window_seconds)?,
            open_for: seconds("breaker.open_seconds", open_seconds)?,
        })
    }
}
