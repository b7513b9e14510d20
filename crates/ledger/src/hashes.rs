//! Hashes of 32 bytes, each of its own kind: of a value, of a vault's state, of its chain.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// The text is no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid hash: use 64 hexadecimal digits in lower case")]
pub struct HashError;

macro_rules! hash_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// From the bytes that were stored.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        /// 64 hexadecimal digits in lower case.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&HEXLOWER.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        /// One spelling: that of `Display`.
        impl FromStr for $name {
            type Err = HashError;

            fn from_str(text: &str) -> Result<Self, HashError> {
                let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| HashError)?;
                bytes.try_into().map(Self).map_err(|_| HashError)
            }
        }
    };
}

hash_newtype! {
    /// The SHA-256 of a value's bytes, without its codec.
    ValueHash
}
hash_newtype! {
    /// The digest of everything that a vault holds, whatever the order in which it came
    /// ([`LtHash`](crate::proof::LtHash)).
    StateHash
}
hash_newtype! {
    /// The head of a vault's chain: it stands for every transaction up to a height.
    ChainHash
}

impl ValueHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}
