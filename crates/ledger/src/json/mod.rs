//! The ledger as JSON: what the HTTP API takes and answers, what request hashes are made of, and
//! what a line of an export says. Types of their own, so that a name here can be kept when one in the
//! domain changes.
//!
//! Fields are in alphabetical order where they are hashed, so that what is written is canonical JSON
//! at once (a test compares): to sort it afterwards would double the cost of a request's hash.

mod answer;
mod operation;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use data_encoding::BASE64;
use indelible_idempotency::{Limits, canonicalize};
use indelible_journal::Codec;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::answer::{
    Added, Checked, Deleted, Entity, Got, OperationResult, Set, StartedOperation, Transferred,
};
pub use self::operation::{Condition, Operation};
pub(crate) use self::operation::{Hashed, writes};
pub use crate::export::lines::{
    Before, Client, Message, Origin, Record, RequestKind, Summary, ValueSummary,
};
use crate::names::Unit;
use crate::value;

/// A value in its text form: ids, names, times and hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<T>(pub T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

impl<T> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

/// How many of a unit. It is written as a text, because readers of JSON round; a JSON integer is
/// read too, up to 64 bits. A text has one spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quantity(pub i128);

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a whole number of at most 128 bits, as a text such as \"-5\", or as a JSON \
                     integer of at most 64 bits",
                )
            }

            fn visit_i64<E>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.into()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                let number = text.parse().ok().filter(|number: &i128| number.to_string() == text);
                let found = de::Unexpected::Str(text);
                number.map(Quantity).ok_or_else(|| E::invalid_value(found, &self))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string", "pattern": "^(0|-?[1-9][0-9]{0,38})$" },
                { "type": "integer" },
            ],
        })
    }
}

/// For which reader the JSON is.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// For a hash: a JSON value in its canonical form, however it was spelled.
    Hashed,
    /// For a file, and for a client: every byte as it was.
    Exported,
}

/// Bytes and their codec; exactly one of the three forms is there.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// The bytes, in base64 with padding.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// How the bytes are encoded: `json`, `text`, `raw`, `cbor` and so on.
    codec: Text<Codec>,
    /// The bytes, if they are text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes, if they are JSON.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "raw")]
    #[schemars(with = "Option<serde_json::Value>")]
    value: Option<Box<RawValue>>,
}

/// The value `null` is a value.
fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The same bytes: of JSON the spelling counts.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        let value = |payload: &Self| payload.value.as_ref().map(|value| value.get().to_owned());
        (&self.base64, self.codec, &self.text, value(self))
            == (&other.base64, other.codec, &other.text, value(other))
    }
}

impl Eq for Payload {}

/// Why a payload has no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// None of the three forms, or several.
    #[error("a value has exactly one of `value`, `text` and `base64`")]
    Forms,
    /// No base64.
    #[error("`base64` is not base64 with padding (RFC 4648 section 4)")]
    Base64,
}

impl Payload {
    /// For a client: every byte as it was.
    pub fn of(payload: &indelible_journal::Payload) -> Self {
        Self::in_form(payload, Form::Exported)
    }

    fn in_form(payload: &indelible_journal::Payload, form: Form) -> Self {
        let codec = payload.codec;
        let mut json = Self { codec: Text(codec), value: None, text: None, base64: None };
        let is_text = [Codec::JSON, Codec::TEXT].contains(&codec);
        match std::str::from_utf8(&payload.bytes) {
            Ok(text) if is_text => {
                json.value = (codec == Codec::JSON).then(|| raw_json(text, form)).flatten();
                json.text = json.value.is_none().then(|| text.to_owned());
            }
            _ => json.base64 = Some(BASE64.encode(&payload.bytes)),
        }
        json
    }

    /// The bytes.
    pub fn read(self) -> Result<indelible_journal::Payload, PayloadError> {
        let Text(codec) = self.codec;
        let bytes: Bytes = match (self.value, self.text, self.base64) {
            (Some(value), None, None) => Bytes::copy_from_slice(value.get().as_bytes()),
            (None, Some(text), None) => text.into(),
            (None, None, Some(text)) => {
                BASE64.decode(text.as_bytes()).map_err(|_| PayloadError::Base64)?.into()
            }
            _ => return Err(PayloadError::Forms),
        };
        Ok(indelible_journal::Payload { codec, bytes })
    }
}

/// The text as a JSON value, if it is one that the form can hold.
fn raw_json(text: &str, form: Form) -> Option<Box<RawValue>> {
    let text = match form {
        Form::Hashed => {
            let limits = Limits { bytes_max: usize::MAX, ..Limits::default() };
            let canonical = canonicalize(text, &limits).ok()?;
            String::from_utf8(canonical).expect("canonical JSON is UTF-8")
        }
        // A line break would end the line, and a reader drops blanks around a value.
        Form::Exported => text.to_owned(),
    };
    if text.contains(['\n', '\r']) {
        return None;
    }
    let value: &RawValue = serde_json::from_str(&text).ok()?;
    (value.get() == text).then(|| value.to_owned())
}

/// What an entity holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Content {
    /// Bytes.
    Value(Payload),
    /// A number of a unit.
    Amount(Amount),
}

/// A number of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// How many.
    pub quantity: Quantity,
    /// Of what.
    pub unit: Text<Unit>,
}

impl Amount {
    /// For a client.
    pub fn of(amount: &value::Amount) -> Self {
        Self { quantity: Quantity(amount.quantity), unit: Text(amount.unit.clone()) }
    }

    /// The amount.
    pub fn read(self) -> value::Amount {
        value::Amount { quantity: self.quantity.0, unit: self.unit.0 }
    }
}

impl Content {
    /// For a client: every byte as it was.
    pub fn of(content: &value::Content) -> Self {
        Self::in_form(content, Form::Exported)
    }

    fn in_form(content: &value::Content, form: Form) -> Self {
        match content {
            value::Content::Value(value) => Self::Value(Payload::in_form(value.payload(), form)),
            value::Content::Amount(amount) => Self::Amount(Amount::of(amount)),
        }
    }

    /// The content.
    pub fn read(self) -> Result<value::Content, PayloadError> {
        Ok(match self {
            Self::Value(payload) => value::Content::value(payload.read()?),
            Self::Amount(amount) => value::Content::Amount(amount.read()),
        })
    }
}
