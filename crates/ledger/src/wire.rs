//! Operations as JSON: what request hashes are made of, and what a line of an export says. Types of
//! their own, so that a name here can be kept when one in the domain changes.
//!
//! Fields are in alphabetical order, so that what is written is canonical JSON at once (a test
//! compares): to sort it afterwards would double the cost of a request's hash.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use data_encoding::BASE64;
use indelible_idempotency::{Limits, canonicalize};
use indelible_journal::{Codec, FunctionName, Timestamp};
use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::hashes::ValueHash;
use crate::names::{EntityKey, Unit};
use crate::numbers::Height;
use crate::request::{Kind, Request};
use crate::{operation, value};

/// A value in its text form: ids, names, times, hashes, and numbers that JSON readers would round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<T>(pub(crate) T);

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

/// For which reader the JSON is.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// For a hash: a JSON value in its canonical form, however it was spelled.
    Hashed,
    /// For a file: every byte as it was.
    Exported,
}

/// Bytes and their codec; exactly one of the three forms is there.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Payload {
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    codec: Text<Codec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "raw")]
    value: Option<Box<RawValue>>,
}

/// The value `null` is a value.
fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl Payload {
    fn of(payload: &indelible_journal::Payload, form: Form) -> Self {
        let codec = payload.codec;
        let mut wire = Self { codec: Text(codec), value: None, text: None, base64: None };
        let is_text = [Codec::JSON, Codec::TEXT].contains(&codec);
        match std::str::from_utf8(&payload.bytes) {
            Ok(text) if is_text => {
                wire.value = (codec == Codec::JSON).then(|| json(text, form)).flatten();
                wire.text = wire.value.is_none().then(|| text.to_owned());
            }
            _ => wire.base64 = Some(BASE64.encode(&payload.bytes)),
        }
        wire
    }

    fn read(self) -> Option<indelible_journal::Payload> {
        let Text(codec) = self.codec;
        let bytes: Bytes = match (self.value, self.text, self.base64) {
            (Some(value), None, None) => Bytes::copy_from_slice(value.get().as_bytes()),
            (None, Some(text), None) => text.into(),
            (None, None, Some(text)) => BASE64.decode(text.as_bytes()).ok()?.into(),
            _ => return None,
        };
        Some(indelible_journal::Payload { codec, bytes })
    }
}

/// The text as a JSON value, if it is one that the form can hold.
fn json(text: &str, form: Form) -> Option<Box<RawValue>> {
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

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) enum Content {
    Value(Payload),
    Amount(Amount),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Amount {
    quantity: Text<i128>,
    unit: Text<Unit>,
}

impl Amount {
    pub(crate) fn of(amount: &value::Amount) -> Self {
        Self { quantity: Text(amount.quantity), unit: Text(amount.unit.clone()) }
    }

    pub(crate) fn read(self) -> value::Amount {
        value::Amount { quantity: self.quantity.0, unit: self.unit.0 }
    }
}

impl Content {
    fn of(content: &value::Content, form: Form) -> Self {
        match content {
            value::Content::Value(value) => Self::Value(Payload::of(value.payload(), form)),
            value::Content::Amount(amount) => Self::Amount(Amount::of(amount)),
        }
    }

    fn read(self) -> Option<value::Content> {
        Some(match self {
            Self::Value(payload) => value::Content::value(payload.read()?),
            Self::Amount(amount) => value::Content::Amount(amount.read()),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) enum Condition {
    Absent,
    Present,
    Version(u64),
    Is(Content),
    Hash(Text<ValueHash>),
}

impl Condition {
    fn of(condition: &operation::Condition, form: Form) -> Self {
        match condition {
            operation::Condition::Absent => Self::Absent,
            operation::Condition::Present => Self::Present,
            operation::Condition::Version(version) => Self::Version(version.get()),
            operation::Condition::Content(content) => Self::Is(Content::of(content, form)),
            operation::Condition::Hash(hash) => Self::Hash(Text(*hash)),
        }
    }

    fn read(self) -> Option<operation::Condition> {
        Some(match self {
            Self::Absent => operation::Condition::Absent,
            Self::Present => operation::Condition::Present,
            Self::Version(version) => operation::Condition::Version(Height::new(version)),
            Self::Is(content) => operation::Condition::Content(content.read()?),
            Self::Hash(Text(hash)) => operation::Condition::Hash(hash),
        })
    }
}

/// What is not there is left out. A `null` in its place is found when the line is written again.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) enum Operation {
    Set {
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<Condition>,
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<Text<Timestamp>>,
        key: Text<EntityKey>,
        to: Content,
    },
    Delete {
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<Condition>,
        key: Text<EntityKey>,
    },
    Check {
        condition: Condition,
        key: Text<EntityKey>,
    },
    Get {
        key: Text<EntityKey>,
    },
    Add {
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<Condition>,
        delta: Text<i128>,
        key: Text<EntityKey>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<Text<i128>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<Text<i128>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        unit: Option<Text<Unit>>,
    },
    Transfer {
        from: Text<EntityKey>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<Text<i128>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<Text<i128>>,
        quantity: Text<i128>,
        to: Text<EntityKey>,
        #[serde(skip_serializing_if = "Option::is_none")]
        unit: Option<Text<Unit>>,
    },
    Start {
        function: Text<FunctionName>,
        input: Payload,
    },
}

impl Operation {
    fn of(operation: &operation::Operation, form: Form) -> Self {
        use operation::Operation as O;
        let text = |key: &EntityKey| Text(key.clone());
        let number = |number: &Option<i128>| number.map(Text);
        let named = |unit: &Option<Unit>| unit.clone().map(Text);
        let wire = |condition: &Option<operation::Condition>| {
            condition.as_ref().map(|condition| Condition::of(condition, form))
        };
        match operation {
            O::Set { key, content, expires_at, condition } => Self::Set {
                key: text(key),
                to: Content::of(content, form),
                expires_at: expires_at.map(Text),
                condition: wire(condition),
            },
            O::Delete { key, condition } => {
                Self::Delete { key: text(key), condition: wire(condition) }
            }
            O::Check { key, condition } => {
                Self::Check { key: text(key), condition: Condition::of(condition, form) }
            }
            O::Get { key } => Self::Get { key: text(key) },
            O::Add { key, delta, unit, min, max, condition } => Self::Add {
                key: text(key),
                delta: Text(*delta),
                unit: named(unit),
                min: number(min),
                max: number(max),
                condition: wire(condition),
            },
            O::Transfer { from, to, quantity, unit, min, max } => Self::Transfer {
                from: text(from),
                to: text(to),
                quantity: Text(*quantity),
                unit: named(unit),
                min: number(min),
                max: number(max),
            },
            O::Start { function, input } => {
                Self::Start { function: Text(function.clone()), input: Payload::of(input, form) }
            }
        }
    }

    pub(crate) fn read(self) -> Option<operation::Operation> {
        use operation::Operation as O;
        let number = |number: Option<Text<i128>>| number.map(|Text(number)| number);
        let named = |unit: Option<Text<Unit>>| unit.map(|Text(unit)| unit);
        let read = |condition: Option<Condition>| match condition {
            Some(condition) => condition.read().map(Some),
            None => Some(None),
        };
        Some(match self {
            Self::Set { key: Text(key), to, expires_at, condition } => O::Set {
                key,
                content: to.read()?,
                expires_at: expires_at.map(|Text(at)| at),
                condition: read(condition)?,
            },
            Self::Delete { key: Text(key), condition } => {
                O::Delete { key, condition: read(condition)? }
            }
            Self::Check { key: Text(key), condition } => {
                O::Check { key, condition: condition.read()? }
            }
            Self::Get { key: Text(key) } => O::Get { key },
            Self::Add { key: Text(key), delta: Text(delta), unit, min, max, condition } => O::Add {
                key,
                delta,
                unit: named(unit),
                min: number(min),
                max: number(max),
                condition: read(condition)?,
            },
            Self::Transfer { from, to, quantity, unit, min, max } => O::Transfer {
                from: from.0,
                to: to.0,
                quantity: quantity.0,
                unit: named(unit),
                min: number(min),
                max: number(max),
            },
            Self::Start { function: Text(function), input } => {
                O::Start { function, input: input.read()? }
            }
        })
    }
}

/// All writes of a request.
pub(crate) fn writes(request: &Request, form: Form) -> Vec<Vec<Operation>> {
    let operations = |write: &[operation::Operation]| {
        write.iter().map(|operation| Operation::of(operation, form)).collect()
    };
    request.writes().map(operations).collect()
}

/// What is hashed of a request: its kind and its operations (see C-45).
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Hashed {
    Single { operations: Vec<Operation> },
    Batch { writes: Vec<Vec<Operation>> },
}

impl Hashed {
    pub(crate) fn of(request: &Request) -> Self {
        let mut writes = writes(request, Form::Hashed);
        match request.kind() {
            Kind::Single => Self::Single { operations: writes.pop().unwrap_or_default() },
            Kind::Batch => Self::Batch { writes },
        }
    }
}
