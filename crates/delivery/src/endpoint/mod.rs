//! Endpoints: where messages go, which, and how.

mod settings;
mod subscription;

use std::fmt;
use std::num::NonZeroU32;

use indelible_journal::{Idempotency, Micros, Timestamp};
use url::Url;

pub use settings::{
    BackoffSettings, BreakerSettings, EndpointSettings, FieldSettings, LaneSettings,
    ScheduleSettings, SecretText, SettingsError,
};
pub use subscription::{FieldFilter, Subscription, TopicPattern};

use crate::attempt::Busy503;
use crate::bounds::URL_BYTES_MAX;
use crate::breaker::Thresholds;
use crate::bytes::{Decoder, Encoder, Malformed};
use crate::delivery::{Ending, Policy};
use crate::lane::LanePolicy;
use crate::message::Message;
use crate::names::EndpointName;
use crate::schedule::Schedule;
use crate::signing::Secret;

const VERSION: u8 = 1;

/// Where messages are posted to: an absolute `http` or `https` URL without credentials or fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl(Url);

/// The text is no URL of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No URL at all.
    #[error("use an absolute URL: https://example.com/webhooks")]
    Malformed,
    /// It is too long.
    #[error("it has more than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Another scheme.
    #[error("use https, or http")]
    Scheme,
    /// A user name or a password. URLs are shown, and those are secrets.
    #[error("remove the user name and the password")]
    Credentials,
    /// What follows `#` is never sent.
    #[error("remove what follows #")]
    Fragment,
}

impl EndpointUrl {
    /// Checks the text. Which addresses it may lead to is decided when it is connected to.
    pub fn new(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let url = Url::parse(text).map_err(|_| UrlError::Malformed)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        Ok(Self(url))
    }

    /// The URL as it is sent to.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// Its normal form.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A secret, and until when messages are signed with it. While a secret is rotated there are two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningSecret {
    /// The secret.
    pub secret: Secret,
    /// When it is no longer used; `None` for the current one.
    pub until: Option<Timestamp>,
}

/// Whether messages are sent to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointState {
    /// They are.
    Enabled,
    /// They wait.
    Disabled {
        /// Since when.
        since: Timestamp,
        /// Why.
        why: Disabled,
    },
}

/// Why an endpoint is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disabled {
    /// It answered 410.
    Gone,
    /// An operator said so.
    Operator,
}

/// Where messages go, which, and how. What is stored, and shown, are the settings; everything from
/// `url` on follows from them. New settings are read anew, and take over state and secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The settings, without the secrets.
    pub settings: EndpointSettings,
    /// Its name in its namespace.
    pub name: EndpointName,
    /// Whether messages are sent to it.
    pub state: EndpointState,
    /// What they are signed with, the current one first.
    pub secrets: Vec<SigningSecret>,
    /// Where they are posted to.
    pub url: EndpointUrl,
    /// Which it gets.
    pub subscription: Subscription,
    /// Whether it tells repetitions of an id (C-52).
    pub class: Idempotency,
    /// What a 503 with `Retry-After` of it proves.
    pub busy: Busy503,
    /// What a dead letter does to the messages behind it in its lane.
    pub lane: LanePolicy,
    /// How many attempts begin in a second at most.
    pub rate: Option<NonZeroU32>,
    /// How many attempts are under way at most.
    pub in_flight_max: NonZeroU32,
    /// When a message is tried again (C-36).
    pub schedule: Schedule,
    /// When its breaker opens.
    pub breaker: Thresholds,
    /// How long an attempt may take.
    pub attempt_timeout: Micros,
    /// How long a message is of use after it was made.
    pub ttl: Option<Micros>,
}

impl Endpoint {
    /// Whether it gets this message. A filter on the body reads it as JSON, once for each endpoint.
    pub fn wants(&self, message: &Message) -> bool {
        self.subscription.wants(&message.topic, &message.body)
    }

    /// What it allows for a message.
    pub fn policy(&self, message_created: Timestamp) -> Policy<'_> {
        Policy {
            schedule: &self.schedule,
            class: self.class,
            expires_at: self.ttl.map(|ttl| message_created.saturating_add(ttl)),
            busy: self.busy,
            ending: Ending::DeadLetter,
        }
    }

    /// The secrets with which an attempt is signed now.
    pub fn secrets_at(&self, now: Timestamp) -> impl Iterator<Item = &Secret> {
        let is_used = move |secret: &&SigningSecret| secret.until.is_none_or(|until| now < until);
        self.secrets.iter().filter(is_used).map(|secret| &secret.secret)
    }

    /// Another secret becomes the current one. Those that there were are used until `overlap` has
    /// passed; what is no longer used is dropped.
    pub fn rotate(&mut self, secret: Secret, now: Timestamp, overlap: Micros) {
        let until = now.saturating_add(overlap);
        for old in &mut self.secrets {
            old.until = Some(old.until.map_or(until, |earlier| earlier.min(until)));
        }
        self.secrets.insert(0, SigningSecret { secret, until: None });
        self.secrets.retain(|secret| secret.until.is_none_or(|until| now < until));
        self.secrets.truncate(crate::bounds::SECRETS_MAX);
    }
    /// Its row: the settings as JSON, its state, and its secrets. The shell seals it before it is
    /// stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        out.json(&self.settings);
        match self.state {
            EndpointState::Enabled => out.u8(1),
            EndpointState::Disabled { since, why } => {
                out.u8(match why {
                    Disabled::Gone => 2,
                    Disabled::Operator => 3,
                });
                out.time(since);
            }
        }
        out.list(&self.secrets, |out, secret| {
            secret.secret.encode(out);
            out.option(secret.until, Encoder::time);
        });
        out.finish()
    }

    /// The endpoint of a row.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            let settings: EndpointSettings = from.json()?;
            let endpoint = settings.read().map_err(|_| Malformed("a setting is wrong"))?;
            let disabled = match from.u8()? {
                1 => None,
                2 => Some(Disabled::Gone),
                3 => Some(Disabled::Operator),
                _ => return Err(Malformed("an endpoint has an unknown state")),
            };
            let state = match disabled {
                None => EndpointState::Enabled,
                Some(why) => EndpointState::Disabled { since: from.time()?, why },
            };
            let secrets = from.list(|from| {
                let secret = Secret::decode(from)?;
                Ok(SigningSecret { secret, until: from.option(Decoder::time)? })
            })?;
            Ok(Self { state, secrets, ..endpoint })
        })
    }
}
