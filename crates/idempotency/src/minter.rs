//! Stable keys from what a logical attempt is: its natural parts.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::key::IdempotencyKey;
use crate::namespace::ConsumerNamespace;

/// Mints keys from natural parts, for one namespace (I-3): the same parts in the same order give
/// the same key, in every process and for ever (I-1).
///
/// For a call to another service that takes a key (I-22), mint it from what makes the attempt one
/// and the same: tenant, job, number of the attempt. Retries of that attempt then carry one key.
///
/// ```
/// use indelible_idempotency::{ConsumerNamespace, KeyMinter};
///
/// let minter = KeyMinter::new(ConsumerNamespace::new("payments")?);
/// let key = minter.mint(["tenant-7", "order-1", "charge"])?;
/// assert_eq!(key.value().len(), 64);
/// assert_eq!(key, minter.mint(["tenant-7", "order-1", "charge"])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMinter {
    namespace: ConsumerNamespace,
}

impl KeyMinter {
    /// A minter of keys in this namespace.
    pub fn new(namespace: ConsumerNamespace) -> Self {
        Self { namespace }
    }

    /// The namespace of the keys.
    pub fn namespace(&self) -> &ConsumerNamespace {
        &self.namespace
    }

    /// The key of these parts (I-2): SHA-256, in hexadecimal, over the number of parts and, for
    /// each, its length in bytes and its bytes; both numbers as u32, big endian. Lengths keep
    /// `["ab", "c"]` and `["a", "bc"]` apart. Parts are taken as they are, white space included.
    ///
    /// The namespace is not in it (I-29): it says where the key is kept, not what it is of.
    pub fn mint<P: AsRef<str>>(
        &self,
        parts: impl IntoIterator<Item = P>,
    ) -> Result<IdempotencyKey, MintError> {
        let parts: Vec<P> = parts.into_iter().collect();
        if parts.is_empty() {
            return Err(MintError::NoParts);
        }
        let count = u32::try_from(parts.len()).map_err(|_| MintError::TooManyParts)?;
        let mut hash = Sha256::new();
        hash.update(count.to_be_bytes());
        for (index, part) in parts.iter().enumerate() {
            let part = part.as_ref();
            if part.trim().is_empty() {
                return Err(MintError::BlankPart { index });
            }
            let length = u32::try_from(part.len()).map_err(|_| MintError::TooLong { index })?;
            hash.update(length.to_be_bytes());
            hash.update(part.as_bytes());
        }
        Ok(IdempotencyKey::minted(self.namespace.clone(), HEXLOWER.encode(&hash.finalize())))
    }
}

/// Why no key can be minted; the specification's `Invocation.GeneralValidation`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// An empty list.
    #[error("there are no parts to mint a key from")]
    NoParts,
    /// A part of nothing but white space: most often a field that was never filled in.
    #[error("part {index} of the key is blank")]
    BlankPart {
        /// Which part, from 0.
        index: usize,
    },
    /// A part whose length is no u32.
    #[error("part {index} of the key has 4 GiB or more")]
    TooLong {
        /// Which part, from 0.
        index: usize,
    },
    /// More parts than a u32 counts.
    #[error("the key has more than {} parts", u32::MAX)]
    TooManyParts,
}
