//! Ids and hashes: of a message, of its bytes, of a dead letter and of a decision.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use indelible_slots::Slot;
use sha2::{Digest as _, Sha256};

/// The text is no id of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid id: use {prefix} and {digits} hexadecimal digits in lower case")]
pub struct IdError {
    /// What such an id begins with.
    pub prefix: &'static str,
    /// How many digits follow.
    pub digits: usize,
}

macro_rules! hash_newtype {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// From the bytes that were stored.
            pub const fn from_bytes(bytes: [u8; $bytes]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }
        }

        /// The prefix, and hexadecimal digits in lower case.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!("{}{}", $prefix, HEXLOWER.encode(&self.0)))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        /// One spelling: that of `Display`.
        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix($prefix);
                let bytes = digits.and_then(|digits| HEXLOWER.decode(digits.as_bytes()).ok());
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                bytes.map(Self).ok_or(IdError { prefix: $prefix, digits: $bytes * 2 })
            }
        }
    };
}

hash_newtype! {
    /// The id of a message that is sent: a hash of its origin, so that a replay makes the same one.
    /// It begins with the slot of its origin (C-77), and has no `.`: the id, the time and the body
    /// are signed with dots between them.
    MessageId, 20, "msg_"
}
hash_newtype! {
    /// The id of a dead letter. It begins with the slot of its message (C-77).
    EntryId, 20, "dead_"
}
hash_newtype! {
    /// The SHA-256 of bytes: of a body, of an entry, of a decision.
    ContentHash, 32, ""
}

impl MessageId {
    /// The slot that the id leads to (C-77).
    pub fn slot(&self) -> Slot {
        Slot::at_start_of(&self.0)
    }
}

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}
