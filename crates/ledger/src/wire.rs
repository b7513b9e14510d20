//! Operations as JSON: what request hashes are made of, and what a line of an export says. Types of
//! their own, so that a name here can be kept when one in the domain changes.

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
    codec: Text<Codec>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    value: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    base64: Option<String>,
}

/// A field that is there has a value: `null` is one, too.
fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
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

    fn read(self) -> Result<indelible_journal::Payload, String> {
        let Text(codec) = self.codec;
        let bytes: Bytes = match (self.value, self.text, self.base64) {
            (Some(value), None, None) => Bytes::copy_from_slice(value.get().as_bytes()),
            (None, Some(text), None) => text.into(),
            (None, None, Some(text)) => {
                BASE64.decode(text.as_bytes()).map_err(|why| format!("not base64: {why}"))?.into()
            }
            _ => return Err("a value has exactly one of `value`, `text` and `base64`".to_owned()),
        };
        Ok(indelible_journal::Payload { codec, bytes })
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

    fn read(self) -> Result<value::Content, String> {
        Ok(match self {
            Self::Value(payload) => value::Content::value(payload.read()?),
            Self::Amount(amount) => value::Content::Amount(amount.read()),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Condition {
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

    fn read(self) -> Result<operation::Condition, String> {
        Ok(match self {
            Self::Absent => operation::Condition::Absent,
            Self::Present => operation::Condition::Present,
            Self::Version(version) => operation::Condition::Version(Height::new(version)),
            Self::Is(content) => operation::Condition::Content(content.read()?),
            Self::Hash(Text(hash)) => operation::Condition::Hash(hash),
        })
    }
}

/// Leaves out what is not there.
macro_rules! fields {
    ($(#[$meta:meta])* struct $name:ident { $($field:ident: $type:ty,)* $(? $optional:ident: $of:ty,)* }) => {
        $(#[$meta])*
        #[derive(Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $($field: $type,)*
            $(
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[serde(deserialize_with = "present")]
                $optional: Option<$of>,
            )*
        }
    };
}

fields! {
    struct Set {
        key: Text<EntityKey>,
        to: Content,
        ? expires_at: Text<Timestamp>,
        ? condition: Condition,
    }
}
fields! {
    struct Delete {
        key: Text<EntityKey>,
        ? condition: Condition,
    }
}
fields! {
    struct Check {
        key: Text<EntityKey>,
        condition: Condition,
    }
}
fields! {
    struct Get {
        key: Text<EntityKey>,
    }
}
fields! {
    struct Add {
        key: Text<EntityKey>,
        delta: Text<i128>,
        ? unit: Text<Unit>,
        ? min: Text<i128>,
        ? max: Text<i128>,
        ? condition: Condition,
    }
}
fields! {
    struct Transfer {
        from: Text<EntityKey>,
        to: Text<EntityKey>,
        quantity: Text<i128>,
        ? unit: Text<Unit>,
        ? min: Text<i128>,
        ? max: Text<i128>,
    }
}
fields! {
    struct Start {
        function: Text<FunctionName>,
        input: Payload,
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) enum Operation {
    Set(Set),
    Delete(Delete),
    Check(Check),
    Get(Get),
    Add(Add),
    Transfer(Transfer),
    Start(Start),
}

impl Operation {
    fn of(operation: &operation::Operation, form: Form) -> Self {
        let text = |key: &EntityKey| Text(key.clone());
        let unit_text = |unit: &Option<Unit>| unit.clone().map(Text);
        let wire = |condition: &Option<operation::Condition>| {
            condition.as_ref().map(|condition| Condition::of(condition, form))
        };
        match operation {
            operation::Operation::Set { key, content, expires_at, condition } => Self::Set(Set {
                key: text(key),
                to: Content::of(content, form),
                expires_at: expires_at.map(Text),
                condition: wire(condition),
            }),
            operation::Operation::Delete { key, condition } => {
                Self::Delete(Delete { key: text(key), condition: wire(condition) })
            }
            operation::Operation::Check { key, condition } => {
                Self::Check(Check { key: text(key), condition: Condition::of(condition, form) })
            }
            operation::Operation::Get { key } => Self::Get(Get { key: text(key) }),
            operation::Operation::Add { key, delta, unit, min, max, condition } => Self::Add(Add {
                key: text(key),
                delta: Text(*delta),
                unit: unit_text(unit),
                min: min.map(Text),
                max: max.map(Text),
                condition: wire(condition),
            }),
            operation::Operation::Transfer { from, to, quantity, unit, min, max } => {
                Self::Transfer(Transfer {
                    from: text(from),
                    to: text(to),
                    quantity: Text(*quantity),
                    unit: unit_text(unit),
                    min: min.map(Text),
                    max: max.map(Text),
                })
            }
            operation::Operation::Start { function, input } => Self::Start(Start {
                function: Text(function.clone()),
                input: Payload::of(input, form),
            }),
        }
    }

    pub(crate) fn read(self) -> Result<operation::Operation, String> {
        let read = |condition: Option<Condition>| condition.map(Condition::read).transpose();
        let text = |text: Option<Text<i128>>| text.map(|Text(number)| number);
        Ok(match self {
            Self::Set(Set { key, to, expires_at, condition }) => operation::Operation::Set {
                key: key.0,
                content: to.read()?,
                expires_at: expires_at.map(|Text(at)| at),
                condition: read(condition)?,
            },
            Self::Delete(Delete { key, condition }) => {
                operation::Operation::Delete { key: key.0, condition: read(condition)? }
            }
            Self::Check(Check { key, condition }) => {
                operation::Operation::Check { key: key.0, condition: condition.read()? }
            }
            Self::Get(Get { key }) => operation::Operation::Get { key: key.0 },
            Self::Add(Add { key, delta, unit, min, max, condition }) => operation::Operation::Add {
                key: key.0,
                delta: delta.0,
                unit: unit.map(|Text(unit)| unit),
                min: text(min),
                max: text(max),
                condition: read(condition)?,
            },
            Self::Transfer(Transfer { from, to, quantity, unit, min, max }) => {
                operation::Operation::Transfer {
                    from: from.0,
                    to: to.0,
                    quantity: quantity.0,
                    unit: unit.map(|Text(unit)| unit),
                    min: text(min),
                    max: text(max),
                }
            }
            Self::Start(Start { function, input }) => {
                operation::Operation::Start { function: function.0, input: input.read()? }
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
