//! What crosses between host, guest and world: bytes, how they are encoded, and how a call ended.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

/// How a payload's bytes are encoded: a number on disk. The codecs below have a name; others pass
/// through.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Codec(u8);

impl Codec {
    /// Bytes with no structure that Indelible knows of.
    pub const RAW: Self = Self(0);
    /// JSON text in UTF-8.
    pub const JSON: Self = Self(1);
    /// CBOR.
    pub const CBOR: Self = Self(2);
    /// MessagePack.
    pub const MSGPACK: Self = Self(3);
    /// A Protocol Buffers message.
    pub const PROTOBUF: Self = Self(4);
    /// Plain text in UTF-8.
    pub const TEXT: Self = Self(5);
    /// A request or response of an HTTP effect, in Indelible's own encoding.
    pub const HTTP: Self = Self(6);

    const NAMES: [&str; 7] = ["raw", "json", "cbor", "msgpack", "protobuf", "text", "http"];

    /// The codec with this number.
    pub const fn from_number(number: u8) -> Self {
        Self(number)
    }

    /// The codec's number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// Its name, or `codec-N`.
impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.get(usize::from(self.0)) {
            Some(name) => f.pad(name),
            None => write!(f, "codec-{}", self.0),
        }
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text names no codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown codec: use raw, json, cbor, msgpack, protobuf, text, http or codec-N")]
pub struct CodecError;

impl FromStr for Codec {
    type Err = CodecError;

    fn from_str(text: &str) -> Result<Self, CodecError> {
        if let Some(number) = Self::NAMES.iter().position(|name| *name == text) {
            return Ok(Self(u8::try_from(number).expect("there are few names")));
        }
        let number: u8 =
            text.strip_prefix("codec-").and_then(|n| n.parse().ok()).ok_or(CodecError)?;
        // Each codec has one spelling: one with a name goes by its name.
        let codec = Self(number);
        if codec.to_string() == text { Ok(codec) } else { Err(CodecError) }
    }
}

/// Opaque bytes and their codec; the journal never looks inside (J-5). Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload {
    /// How the bytes are encoded.
    pub codec: Codec,
    /// The bytes.
    pub bytes: Bytes,
}

impl Payload {
    /// A payload in this codec.
    pub fn new(codec: Codec, bytes: impl Into<Bytes>) -> Self {
        Self { codec, bytes: bytes.into() }
    }

    /// No bytes at all.
    pub fn empty() -> Self {
        Self::new(Codec::RAW, Bytes::new())
    }

    /// JSON text. It is not checked to be JSON.
    pub fn json(text: impl Into<Bytes>) -> Self {
        Self::new(Codec::JSON, text)
    }
}

/// The text of a JSON or text payload, else the codec and how many bytes.
impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) if [Codec::JSON, Codec::TEXT].contains(&self.codec) => {
                // Control characters could rewrite a terminal, and the bytes of a payload are not
                // trusted.
                text.chars().try_for_each(|c| match c {
                    c if c.is_control() => write!(f, "{}", c.escape_unicode()),
                    c => write!(f, "{c}"),
                })
            }
            _ => write!(f, "<{} {} bytes>", self.codec, self.bytes.len()),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.codec, self.bytes.escape_ascii())
    }
}

/// How a call ended (C-38). A final failure is an outcome, too: it has no event of its own (J-94).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It returned this.
    Ok(Payload),
    /// It failed, or its outcome is unknown.
    Err(Box<Failure>),
}

/// What went wrong, for a program (`kind`) and for people.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    /// What a program can match on.
    pub kind: ErrorKind,
    /// What people read.
    pub message: String,
    /// The guest's own error value, if there is one.
    pub detail: Option<Payload>,
}

impl Failure {
    /// A failure without a detail.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), detail: None }
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::Err(Box::new(failure))
    }
}

/// Kinds of failure (C-38).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The function returned an error: an outcome, sealed, not retried.
    UserError,
    /// The function returned an error that it marks as temporary.
    Transient,
    /// The guest trapped.
    Trap,
    /// A time limit passed.
    Timeout,
    /// It was cancelled.
    Cancelled,
    /// Replay diverged from the journal.
    Nondeterminism,
    /// It cannot be known whether it happened. Never guessed.
    Indeterminate,
    /// It is known not to have happened.
    NotPerformed,
    /// None of the others.
    Uncategorized,
}

impl ErrorKind {
    /// All kinds, in the order of their numbers on disk.
    pub const ALL: [Self; 9] = [
        Self::UserError,
        Self::Transient,
        Self::Trap,
        Self::Timeout,
        Self::Cancelled,
        Self::Nondeterminism,
        Self::Indeterminate,
        Self::NotPerformed,
        Self::Uncategorized,
    ];
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind)?;
        self.message.chars().try_for_each(|c| match c {
            c if c.is_control() => write!(f, "{}", c.escape_unicode()),
            c => write!(f, "{c}"),
        })
    }
}

/// `Ok(…)` or `Err(Kind: message)`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok(payload) => write!(f, "Ok({payload})"),
            Self::Err(failure) => write!(f, "Err({failure})"),
        }
    }
}
