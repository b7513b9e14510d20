//! 32-byte hashes: the root of a tree of calls, and the version of a component.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use indelible_slots::Slot;
use sha2::{Digest as _, Sha256};

use super::{ExecutionId, IdError};
use crate::names::OperationKey;

/// How many hexadecimal digits the short form (`{:#}`) shows.
const SHORT_DIGITS: usize = 8;

macro_rules! hash_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Wraps the bytes of a hash that was computed elsewhere.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The hash's bytes.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        /// 64 hexadecimal digits; with `{:#}` the first eight, for people.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = [0; 64];
                HEXLOWER.encode_mut(&self.0, &mut text);
                let shown = if f.alternate() { &text[..SHORT_DIGITS] } else { &text[..] };
                f.write_str(std::str::from_utf8(shown).expect("hexadecimal digits are ASCII"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if text.len() != 64 {
                    return Err(IdError::Hash);
                }
                let mut bytes = [0; 32];
                HEXLOWER.decode_mut(text.as_bytes(), &mut bytes).map_err(|_| IdError::Hash)?;
                Ok(Self(bytes))
            }
        }
    };
}

hash_newtype! {
    /// The SHA-256 of a WebAssembly component: it pins an execution to one version of its code
    /// for life (J-5).
    ComponentDigest
}

hash_newtype! {
    /// The root of a tree of calls: all executions of one tree share it (J-1, C-32).
    RootHash
}

impl ComponentDigest {
    /// The digest of a component's bytes.
    pub fn of(component: &[u8]) -> Self {
        Self(Sha256::digest(component).into())
    }
}

/// Separates this hash from all other hashes of equal parts.
const ROOT_DOMAIN: &[u8] = b"indelible.root.v2\0";

impl RootHash {
    /// J-1 with the parts of C-31: the digest, the starter, and (namespace, operation id).
    ///
    /// `docs/formats/ids.md` draws the preimage. A caller's idempotency key is not in it: the key
    /// is mapped to an operation id first, or a repeated request would run twice after a redeploy.
    /// The first 12 bits are the slot of the operation (C-77): key, operation and tree have one
    /// owner.
    pub fn derive(
        digest: &ComponentDigest,
        parent: Option<&ExecutionId>,
        operation: &OperationKey,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update(ROOT_DOMAIN);
        hash.update(digest.as_bytes());
        match parent {
            None => hash.update([0]),
            Some(parent) => {
                hash.update([1]);
                hash.update(parent.root().as_bytes());
                hash.update(len_le(parent.path().len()));
                for segment in parent.path() {
                    hash.update(segment.to_le_bytes());
                }
            }
        }
        for part in [operation.namespace.as_str(), operation.operation_id.as_str()] {
            hash.update(len_le(part.len()));
            hash.update(part.as_bytes());
        }
        let mut hash = hash.finalize().into();
        operation.slot().stamp(&mut hash);
        Self(hash)
    }

    /// The slot of the tree, which is that of its operation (C-77).
    pub fn slot(&self) -> Slot {
        Slot::at_start_of(&self.0)
    }
}

fn len_le(len: usize) -> [u8; 4] {
    u32::try_from(len).expect("names and paths are bounded far below 4 GiB").to_le_bytes()
}
