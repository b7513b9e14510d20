//! Numbers and ids: heights, sequences, attempts, transactions, incarnations.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;

use indelible_journal::OperationId;
use uuid::Uuid;

/// How many transactions a scope has had. The version of an entity is the height of its last change
/// (D15): never a position of the store, because a restored or mirrored vault must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Height(u64);

impl Height {
    /// Before the first transaction.
    pub const ZERO: Self = Self(0);

    /// The height with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("no vault lives for 2^64 transactions"))
    }
}

impl fmt::Display for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Why a number is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// A sequence or an attempt of 0 (C-43).
    #[error("the {what} is 0; the first is 1")]
    Zero {
        /// What the number was to be.
        what: &'static str,
    },
    /// A number that is too large. A sequence ends with this: [`Stream::beyond`](crate::Stream)
    /// says what the client is told (C-49).
    #[error("the {what} is greater than {max}")]
    Beyond {
        /// What the number was to be.
        what: &'static str,
        /// The largest.
        max: u64,
    },
}

/// The number of a write in its client's stream, from 1 (C-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(NonZeroU64);

impl Sequence {
    /// The first of a stream.
    pub const FIRST: Self = Self(NonZeroU64::MIN);
    /// The last of a stream: it never wraps.
    pub const MAX: Self = Self(NonZeroU64::MAX);

    /// The sequence with this number. 0 is refused (impl C-43).
    pub const fn new(number: u64) -> Result<Self, NumberError> {
        match NonZeroU64::new(number) {
            Some(number) => Ok(Self(number)),
            None => Err(NumberError::Zero { what: "sequence" }),
        }
    }

    /// The number as a door reads it: wide enough to tell one beyond the last from a malformed one.
    pub fn from_wide(number: u128) -> Result<Self, NumberError> {
        let what = "sequence";
        Self::new(u64::try_from(number).map_err(|_| NumberError::Beyond { what, max: u64::MAX })?)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The one `by` later; `None` past the last.
    pub fn checked_add(self, by: u64) -> Option<Self> {
        self.0.checked_add(by).map(Self)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The attempt of a client's write, from 1 (C-42). It counts in the stream, not in the number: the
/// client raises it after every refusal that it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(NonZeroU32);

impl Attempt {
    /// The first attempt of a stream.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The attempt with this number; 0 is refused.
    pub const fn new(number: u32) -> Result<Self, NumberError> {
        match NonZeroU32::new(number) {
            Some(number) => Ok(Self(number)),
            None => Err(NumberError::Zero { what: "attempt" }),
        }
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The next; `None` after the last: then the client goes on under another client id.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How often the store was restored from a backup (C-48).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RestoreCount(u64);

impl RestoreCount {
    /// That many times.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// How many times.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RestoreCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The id of this UUID.
            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The id of these bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        /// 36 characters in lower case.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        /// One spelling: that of `Display`.
        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let id = Uuid::try_parse(text).map(Self).map_err(|_| IdError)?;
                if id.to_string() == text { Ok(id) } else { Err(IdError) }
            }
        }
    };
}

uuid_newtype! {
    /// The id of a transaction: a UUIDv7 that the server makes when it accepts it.
    TransactionId
}
impl TransactionId {
    /// The operation id of the execution that the transaction's operation with this index starts:
    /// `tx:ID:INDEX`. A repetition of the transaction finds the same execution by it.
    pub fn operation(&self, index: usize) -> OperationId {
        OperationId::new(&format!("tx:{self}:{index}")).expect("it is short, and plain text")
    }
}

uuid_newtype! {
    /// Which life of a scope: a vault that is deleted and made again has another (C-47).
    Incarnation
}

/// The text is no id of a transaction or incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid id: use a UUID in lower case with hyphens")]
pub struct IdError;
