//! What crosses between functions: bytes and how they are encoded. JSON unless a function takes or
//! returns a [`Payload`] itself.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings;

/// Bytes and how they are encoded. A function that takes or returns one gets, or gives, the bytes
/// as they are; anything else crosses as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// How the bytes are encoded: [`Payload::JSON`] or another of the contract's numbers.
    pub codec: u8,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Payload {
    /// Bytes that mean nothing to anybody else.
    pub const RAW: u8 = 0;
    /// JSON.
    pub const JSON: u8 = 1;
    /// Text in UTF-8.
    pub const TEXT: u8 = 5;

    /// Bytes that mean nothing to anybody else.
    #[must_use]
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { codec: Self::RAW, bytes: bytes.into() }
    }

    /// A value as JSON.
    ///
    /// # Errors
    /// It has no form in JSON, a map with keys that are not text for example.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self { codec: Self::JSON, bytes: serde_json::to_vec(value)? })
    }

    pub(crate) fn read_json<T: DeserializeOwned>(&self) -> Result<T, String> {
        match self.codec {
            Self::JSON => serde_json::from_slice(&self.bytes).map_err(|error| error.to_string()),
            // Nothing at all, such as the end of a timer, reads as null.
            _ if self.bytes.is_empty() => {
                serde_json::from_slice(b"null").map_err(|error| error.to_string())
            }
            codec => Err(format!("JSON was expected, but the bytes have codec {codec}")),
        }
    }

    pub(crate) fn from_host(payload: bindings::Payload) -> Self {
        Self { codec: payload.codec, bytes: payload.bytes }
    }

    pub(crate) fn into_host(self) -> bindings::Payload {
        bindings::Payload { codec: self.codec, bytes: self.bytes }
    }
}

/// What can be passed to a function, or returned by one: everything that serde serializes, as
/// JSON, and a [`Payload`], as it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross between functions: it does not implement `Serialize`",
    note = "what durable functions take and return is journaled as JSON; add `#[derive(Serialize, \
            Deserialize)]`"
)]
pub trait Encode {
    /// Its bytes.
    ///
    /// # Errors
    /// It has none; the text says why.
    fn encode(&self) -> Result<Payload, String>;

    /// Its bytes, for a caller that no longer needs the value.
    ///
    /// # Errors
    /// It has none; the text says why.
    fn into_payload(self) -> Result<Payload, String>
    where
        Self: Sized,
    {
        self.encode()
    }
}

impl<T: Serialize> Encode for T {
    fn encode(&self) -> Result<Payload, String> {
        Payload::json(self).map_err(|error| error.to_string())
    }
}

impl Encode for Payload {
    fn encode(&self) -> Result<Payload, String> {
        Ok(self.clone())
    }

    fn into_payload(self) -> Result<Payload, String> {
        Ok(self)
    }
}

impl Encode for &Payload {
    fn encode(&self) -> Result<Payload, String> {
        Ok((*self).clone())
    }
}

/// What a function can take, and what can come back from one: everything that serde deserializes,
/// from JSON, and a [`Payload`], as it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross between functions: it does not implement `Deserialize`",
    note = "what durable functions take and return is journaled as JSON; add `#[derive(Serialize, \
            Deserialize)]`"
)]
pub trait Decode: Sized {
    /// The value.
    ///
    /// # Errors
    /// The bytes are no such value; the text says why, and where.
    fn decode(payload: Payload) -> Result<Self, String>;
}

impl<T: DeserializeOwned> Decode for T {
    fn decode(payload: Payload) -> Result<Self, String> {
        payload.read_json()
    }
}

impl Decode for Payload {
    fn decode(payload: Payload) -> Result<Self, String> {
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_raw() {
        let payload = (1, "a").encode().unwrap();
        assert_eq!(payload, Payload { codec: Payload::JSON, bytes: b"[1,\"a\"]".to_vec() });
        assert_eq!(<(u8, String)>::decode(payload), Ok((1, "a".to_owned())));
        let raw = Payload::raw([1, 2]);
        assert_eq!(Payload::decode(raw.encode().unwrap()), Ok(raw.clone()));
        assert!(u8::decode(raw).unwrap_err().contains("codec 0"));
        assert_eq!(<()>::decode(Payload::raw([])), Ok(()));
    }

    /// A mistake is told with its place.
    #[test]
    fn position() {
        let payload = Payload { codec: Payload::JSON, bytes: b"[1,\n \"x\"]".to_vec() };
        let error = <(u8, u8)>::decode(payload).unwrap_err();
        assert!(error.contains("line 2 column 4"), "{error}");
    }
}
