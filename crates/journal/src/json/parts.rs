//! How the parts of a line are read: more strictly than `serde` does by itself.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use bytes::Bytes;
use data_encoding::BASE64;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::ids::{ExecutionId, JoinSetId, PromiseId};
use crate::wait::{WaitSet, WaitSetError};

/// A value in its text form: ids, names, times. An error has the domain's own reason, and arises
/// while `serde_json` still knows the column.
pub(super) struct Text<T>(pub(super) T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(|text: &str| text.parse().map(Self)))
    }
}

/// Bytes as base64, padded, in the standard alphabet.
pub(super) struct Base64(pub(super) Bytes);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&BASE64.encode_display(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(|text: &str| {
            BASE64
                .decode(text.as_bytes())
                .map(|bytes| Self(bytes.into()))
                .map_err(|error| format!("not base64: {error}"))
        }))
    }
}

struct TextVisitor<F>(F);

impl<T, E: fmt::Display, F: FnOnce(&str) -> Result<T, E>> Visitor<'_> for TextVisitor<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<R: de::Error>(self, text: &str) -> Result<T, R> {
        (self.0)(text).map_err(R::custom)
    }
}

/// A struct that is read from an object only. `serde` also accepts an array of the fields' values
/// in order: then a new field would change what old files mean.
#[derive(Default)]
pub(super) struct Object<T>(pub(super) T);

impl<T: Serialize> Serialize for Object<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// For an optional field whose value may be `null`: a JSON payload `null` differs from no payload.
pub(super) fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// HTTP statuses as they are exported: ascending, so that a set has one spelling.
pub(super) fn ascending<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u16>, D::Error> {
    let statuses = Vec::<u16>::deserialize(deserializer)?;
    if statuses.is_sorted_by(|a, b| a < b) {
        Ok(statuses)
    } else {
        Err(de::Error::custom("statuses must be in ascending order, each once"))
    }
}

/// The same for a list that may be left out.
pub(super) fn ascending_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<u16>>, D::Error> {
    ascending(deserializer).map(Some)
}

/// The key under which a wait set names a join set: the set's members are those not taken from it.
const REST_OF: &str = "rest_of";

/// A wait set to export: an array of its members, or an object that names a join set.
pub(super) struct Members<'a>(pub(super) &'a WaitSet);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.join_set() {
            Some(join_set) => serializer.collect_map([(REST_OF, Text(join_set))]),
            None => serializer.collect_seq(self.0.promises().map(Text)),
        }
    }
}

/// A wait set to import: children of this execution, each once (C-26, J-90). Members are checked
/// one by one, so that an error has its column and only numbers are kept.
pub(super) struct MembersOf<'a>(pub(super) &'a ExecutionId);

impl<'de> de::DeserializeSeed<'de> for MembersOf<'_> {
    type Value = WaitSet;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<WaitSet, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MembersOf<'_> {
    type Value = WaitSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of promise ids, or {\"rest_of\": a join set's id}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WaitSet, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            return Err(de::Error::missing_field(REST_OF));
        };
        if key != REST_OF {
            return Err(de::Error::unknown_field(&key, &[REST_OF]));
        }
        let Text(join_set) = map.next_value::<Text<JoinSetId>>()?;
        if map.next_key::<de::IgnoredAny>()?.is_some() {
            return Err(de::Error::custom("`rest_of` takes one join set"));
        }
        match WaitSet::rest_of(&join_set) {
            Some(set) if set.execution_id() == self.0 => Ok(set),
            _ => Err(de::Error::custom(WaitSetError::Foreign(join_set.place().clone()))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<WaitSet, A::Error> {
        let mut numbers = Vec::new();
        while let Some(Text(promise)) = seq.next_element::<Text<PromiseId>>()? {
            match promise.number_in(self.0) {
                Some(number) => numbers.push(number),
                None => return Err(de::Error::custom(WaitSetError::Foreign(promise))),
            }
        }
        WaitSet::of_numbers(self.0, numbers).map_err(de::Error::custom)
    }
}
