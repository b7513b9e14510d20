//! What proves a vault: canonical bytes of transactions, the chain of hashes over them, and the hash of
//! what the vault holds. The bytes are described in `docs/formats/ledger.md`, and are for ever.

mod encoding;
mod lt_hash;

use sha2::{Digest as _, Sha256};

pub use lt_hash::{LANES, LtHash};

use crate::hashes::{ChainHash, StateHash};
use crate::names::Scope;
use crate::numbers::{Height, Incarnation};
use crate::transaction::Transaction;

/// The canonical bytes of a transaction. A value is in them by its hash, so that a chain can be
/// verified without the values.
pub fn canonical_bytes(incarnation: Incarnation, transaction: &Transaction) -> Vec<u8> {
    encoding::transaction(incarnation, transaction)
}

/// The head before the first transaction.
pub fn genesis(scope: &Scope, incarnation: Incarnation) -> ChainHash {
    ChainHash::from_bytes(Sha256::digest(encoding::genesis(scope, incarnation)).into())
}

/// The head after a transaction: the hash of the one before, of the transaction, and of the state after
/// it. The first and the last have 32 bytes, so no two readings have the same bytes.
pub fn next_head(
    head: ChainHash,
    incarnation: Incarnation,
    transaction: &Transaction,
    state_hash: StateHash,
) -> ChainHash {
    let mut hash = Sha256::new();
    hash.update(head.as_bytes());
    hash.update(encoding::transaction(incarnation, transaction));
    hash.update(state_hash.as_bytes());
    ChainHash::from_bytes(hash.finalize().into())
}

/// A scope at a height: from here verification can begin, and a mirror (C-44). What is kept of a log
/// that was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which scope.
    pub scope: Scope,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The height.
    pub height: Height,
    /// The head of the chain at that height.
    pub head: ChainHash,
    /// The hash of the state at that height.
    pub state_hash: StateHash,
}

impl Checkpoint {
    /// The hash that stands for all of it, and that a server signs.
    pub fn digest(&self) -> ChainHash {
        ChainHash::from_bytes(Sha256::digest(encoding::checkpoint(self)).into())
    }
}
