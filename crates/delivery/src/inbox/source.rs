//! Sources: who may send messages here, how they are verified, and what they do.

use indelible_journal::{FunctionName, Micros, SignalName, Timestamp};
use indelible_ledger::VaultName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Arrival;
use crate::bounds::{BODY_BYTES_MAX, DAY, SECRETS_MAX};
use crate::bytes::{Decoder, Encoder, Malformed};
use crate::endpoint::{SecretText, SettingsError};
use crate::ids::ContentHash;
use crate::names::{ForeignId, SourceName};
use crate::oip::{Envelope, EnvelopeError};
use crate::signing::{
    DigestEncoding, Hmac, HmacKey, Preset, Received, Rejected, TOLERANCE, VerifyingKey, standard,
};

const VERSION: u8 = 1;
/// How long an id is remembered unless configured otherwise (see C-54).
const WINDOW: Micros = Micros::from_secs(30 * DAY);
const WINDOW_MAX: Micros = Micros::from_secs(3_650 * DAY);
/// How many live ids a source has at most (see C-64), unless configured otherwise.
const LIVE_MAX: u64 = 10_000_000;

/// Where a message has its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdPlace {
    /// In a header, whose name is in lower case.
    Header(String),
    /// In the JSON body, at this pointer.
    Pointer(String),
}

/// What a message does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// It starts this function; the body is the input.
    Start(FunctionName),
    /// It sends this signal to the execution whose id is in the JSON body at a pointer.
    Signal {
        /// The signal.
        name: SignalName,
        /// Where the id of the execution is.
        execution: String,
    },
    /// It is a transaction of this vault; the body has the operations, as the ledger's API takes
    /// them.
    Transaction(VaultName),
}

/// Who may send messages here. What is stored, and shown, are the settings; the rest follows from
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The settings, without the secrets.
    pub settings: SourceSettings,
    /// Its name in its namespace.
    pub name: SourceName,
    /// How its messages are verified.
    pub preset: Preset,
    /// The keys of its sender, any of which verifies.
    pub keys: Vec<VerifyingKey>,
    /// Where its messages have their id.
    pub id_place: IdPlace,
    /// What they do.
    pub target: Target,
    /// How long an id is remembered after its message last came.
    pub window: Micros,
    /// How far the time of a signature may be from ours.
    pub tolerance: Micros,
    /// How many ids are remembered at most; then the sender is asked to come back later (see C-64).
    pub live_max: u64,
}

/// Why a message is refused before anything is looked up. It leaves no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SourceRefusal {
    /// The body is too large.
    #[error("the body has {0} bytes; at most {BODY_BYTES_MAX} are allowed")]
    TooLarge(usize),
    /// It is not its sender's.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// It has no id, or none that can be one.
    #[error("the message has no id")]
    NoId,
}

impl SourceRefusal {
    /// The HTTP status.
    pub const fn status(&self) -> u16 {
        match self {
            Self::TooLarge(_) => 413,
            Self::Rejected(_) => 401,
            Self::NoId => 400,
        }
    }
}

impl Source {
    /// Checks the size, the signature and the id, in this order (see C-56, O-19). Envelopes have
    /// [`arrive_envelope`](Self::arrive_envelope).
    pub fn arrive(
        &self,
        headers: &[(&str, &str)],
        body: &[u8],
        now: Timestamp,
    ) -> Result<Arrival, SourceRefusal> {
        if body.len() > BODY_BYTES_MAX {
            return Err(SourceRefusal::TooLarge(body.len()));
        }
        let received = Received { headers, body, now, tolerance: self.tolerance };
        let signed = self.preset.verify(&self.keys, &received)?;
        let id = match &self.id_place {
            IdPlace::Header(name) => received.header(name).and_then(|id| ForeignId::new(id).ok()),
            IdPlace::Pointer(pointer) => id_in(body, pointer),
        };
        Ok(Arrival {
            source: self.name.clone(),
            id: id.ok_or(SourceRefusal::NoId)?,
            conflict_hash: ContentHash::of(body),
            signed,
        })
    }

    /// The same for an envelope of the `oip` profile, which is signed with one of the public keys
    /// (see C-53, O-19).
    pub fn arrive_envelope(&self, body: &[u8]) -> Result<(Arrival, Envelope), EnvelopeError> {
        let public = self.keys.iter().filter_map(|key| match key {
            VerifyingKey::Ed25519(key) => Some(*key),
            VerifyingKey::Hmac(_) => None,
        });
        let envelope = Envelope::open(body, &public.collect::<Vec<_>>())?;
        let arrival = Arrival {
            source: self.name.clone(),
            id: envelope.header.message_id.0.clone(),
            conflict_hash: envelope.conflict_hash(),
            signed: Some(envelope.header.timestamp.0),
        };
        Ok((arrival, envelope))
    }

    /// Until when the row of a message is kept that came now (see C-54): every copy prolongs it.
    pub fn kept_until(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.window)
    }

    /// Whether a sender is asked to come back later, since so many ids are live: before any row is
    /// written, and without evicting one (see C-10, C-64, O-20).
    pub fn is_full(&self, live: u64) -> bool {
        live >= self.live_max
    }

    /// Its row: the settings as JSON, and its keys. The shell seals it before it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        out.json(&self.settings);
        out.list(&self.keys, |out, key| key.encode(out));
        out.finish()
    }

    /// The source of a row.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            let settings: SourceSettings = from.json()?;
            let keys = from.list(VerifyingKey::decode)?;
            settings.read_with(|_| Ok(keys)).map_err(|_| Malformed("a setting is wrong"))
        })
    }
}

/// The text or number in a JSON body at a pointer.
fn id_in(body: &[u8], pointer: &str) -> Option<ForeignId> {
    let json: serde_json::Value = serde_json::from_slice(body).ok()?;
    match json.pointer(pointer)? {
        serde_json::Value::String(text) => ForeignId::new(text).ok(),
        // Two numbers that a reader rounds to one would be one id: only integers are taken.
        serde_json::Value::Number(number) if number.is_i64() || number.is_u64() => {
            ForeignId::new(&number.to_string()).ok()
        }
        _ => None,
    }
}

/// The settings of a source, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSettings {
    /// Its name: `a-z`, `0-9`, `-` and `_`.
    pub name: String,
    /// Who sends, and so how messages are verified.
    pub preset: PresetSettings,
    /// The secrets of the sender, any of which verifies: as the provider shows them.
    #[serde(default, skip_serializing)]
    pub secrets: Vec<SecretText>,
    /// What a message does.
    pub target: TargetSettings,
    /// How long an id is remembered after its message last came. None: 30 days.
    #[serde(default)]
    pub window_seconds: Option<u64>,
    /// How far the time of a signature may be from ours. None: 5 minutes.
    #[serde(default)]
    pub tolerance_seconds: Option<u64>,
    /// How many ids are remembered at most.
    #[serde(default)]
    pub live_max: Option<u64>,
}

/// Who sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PresetSettings {
    /// Standard Webhooks, `v1` and `v1a`.
    StandardWebhooks,
    /// Stripe.
    Stripe,
    /// GitHub.
    Github,
    /// Any HMAC-SHA256 in a header.
    Hmac(HmacSettings),
    /// Another Indelible.
    Oip,
}

/// An HMAC-SHA256 in a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HmacSettings {
    /// The header with the signature.
    pub header: String,
    /// What stands before the digest.
    #[serde(default)]
    pub prefix: String,
    /// Whether the digest is in base64; otherwise it is in hexadecimal digits.
    #[serde(default)]
    pub base64: bool,
    /// The header with the time in seconds, if it is signed as `time.body`.
    #[serde(default)]
    pub timestamp_header: Option<String>,
    /// The header with the id of the message.
    #[serde(default)]
    pub id_header: Option<String>,
    /// Where the JSON body has the id of the message: a pointer such as `/event/id`.
    #[serde(default)]
    pub id_pointer: Option<String>,
    /// For how long the provider retries.
    pub retry_horizon_seconds: u64,
}

/// What a message does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetSettings {
    /// It starts this function.
    Start(String),
    /// It sends a signal.
    #[serde(rename_all = "snake_case")]
    Signal {
        /// The signal.
        name: String,
        /// Where the JSON body has the id of the execution: a pointer.
        execution_pointer: String,
    },
    /// It is a transaction of this vault.
    Transaction(String),
}

impl SourceSettings {
    /// The source with these settings. A window that is shorter than the provider's own retries is
    /// refused: a late retry would be taken for a new message (see C-54).
    pub fn read(&self) -> Result<Source, SettingsError> {
        self.read_with(|preset| self.keys(preset))
    }

    fn read_with(
        &self,
        keys: impl FnOnce(&Preset) -> Result<Vec<VerifyingKey>, SettingsError>,
    ) -> Result<Source, SettingsError> {
        let name = SourceName::new(&self.name).map_err(|why| SettingsError::new("name", why))?;
        let (preset, id_place, horizon) = self.preset.read()?;
        let bounded = |field, seconds: Option<u64>, default: Micros, min: Micros| {
            let time = seconds.map_or(default, Micros::from_secs);
            if time < min || time > WINDOW_MAX {
                let why = format_args!("use {min} to {WINDOW_MAX}").to_string();
                return Err(SettingsError::new(field, why));
            }
            Ok(time)
        };
        let window = bounded("window_seconds", self.window_seconds, WINDOW, horizon)?;
        let second = Micros::from_secs(1);
        let tolerance = bounded("tolerance_seconds", self.tolerance_seconds, TOLERANCE, second)?;
        let live_max = self.live_max.unwrap_or(LIVE_MAX);
        if live_max == 0 {
            return Err(SettingsError::new("live_max", "use 1 or more"));
        }
        let keys = keys(&preset)?;
        let target = self.target.read()?;
        let settings = Self { secrets: Vec::new(), ..self.clone() };
        Ok(Source { settings, name, preset, keys, id_place, target, window, tolerance, live_max })
    }

    fn keys(&self, preset: &Preset) -> Result<Vec<VerifyingKey>, SettingsError> {
        let field = "secrets";
        if self.secrets.is_empty() || self.secrets.len() > SECRETS_MAX {
            return Err(SettingsError::new(field, format_args!("give 1 to {SECRETS_MAX}")));
        }
        let key = |SecretText(text): &SecretText| match preset {
            Preset::StandardWebhooks | Preset::Oip => text.parse(),
            // What these providers show is the key itself, whatever it looks like.
            Preset::Stripe | Preset::GitHub | Preset::Hmac(_) => {
                HmacKey::new(text.as_bytes()).map(VerifyingKey::Hmac)
            }
        };
        let keys = self.secrets.iter().map(key).collect::<Result<Vec<_>, _>>();
        let keys = keys.map_err(|why| SettingsError::new(field, why))?;
        // An envelope is signed with a private key that its receiver does not have.
        if *preset == Preset::Oip && keys.iter().any(|key| matches!(key, VerifyingKey::Hmac(_))) {
            return Err(SettingsError::new(field, "give public keys: `whpk_`"));
        }
        Ok(keys)
    }
}

impl PresetSettings {
    /// The preset, where it has ids, and for how long its provider retries.
    fn read(&self) -> Result<(Preset, IdPlace, Micros), SettingsError> {
        let header = |name: &str| IdPlace::Header(name.to_owned());
        let days = |days: u64| Micros::from_secs(days * DAY);
        Ok(match self {
            // Ten attempts over 75 hours.
            Self::StandardWebhooks => (Preset::StandardWebhooks, header(standard::ID), days(4)),
            Self::Stripe => (Preset::Stripe, IdPlace::Pointer("/id".to_owned()), days(3)),
            // It does not retry, but people can have it send again for three days.
            Self::Github => (Preset::GitHub, header("x-github-delivery"), days(3)),
            Self::Oip => (Preset::Oip, header("x-message-id"), Micros::from_secs(1)),
            Self::Hmac(hmac) => {
                let lower = |name: &str| name.to_ascii_lowercase();
                let id_place = match (&hmac.id_header, &hmac.id_pointer) {
                    (Some(name), None) => IdPlace::Header(lower(name)),
                    (None, Some(pointer)) if pointer.starts_with('/') => {
                        IdPlace::Pointer(pointer.clone())
                    }
                    _ => {
                        let why = "give one of `id_header` and `id_pointer`, a pointer with /";
                        return Err(SettingsError::new("preset.hmac", why));
                    }
                };
                if hmac.header.is_empty() {
                    return Err(SettingsError::new("preset.hmac.header", "it is empty"));
                }
                let encoding =
                    if hmac.base64 { DigestEncoding::Base64 } else { DigestEncoding::Hex };
                let preset = Preset::Hmac(Hmac {
                    header: lower(&hmac.header),
                    prefix: hmac.prefix.clone(),
                    encoding,
                    timestamp_header: hmac.timestamp_header.as_deref().map(lower),
                });
                (preset, id_place, Micros::from_secs(hmac.retry_horizon_seconds.max(1)))
            }
        })
    }
}

impl TargetSettings {
    fn read(&self) -> Result<Target, SettingsError> {
        Ok(match self {
            Self::Start(function) => Target::Start(
                FunctionName::new(function)
                    .map_err(|why| SettingsError::new("target.start", why))?,
            ),
            Self::Signal { name, execution_pointer } => {
                if !execution_pointer.starts_with('/') {
                    let field = "target.signal.execution_pointer";
                    return Err(SettingsError::new(field, "begin it with /"));
                }
                let name = SignalName::new(name)
                    .map_err(|why| SettingsError::new("target.signal.name", why))?;
                Target::Signal { name, execution: execution_pointer.clone() }
            }
            Self::Transaction(vault) => Target::Transaction(
                VaultName::new(vault)
                    .map_err(|why| SettingsError::new("target.transaction", why))?,
            ),
        })
    }
}
