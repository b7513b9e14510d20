//! Transactions: proposed, committed, and what is remembered of them under their names.

use std::sync::Arc;

use indelible_idempotency::RequestHash;
use indelible_journal::{OperationId, PromiseId, Timestamp};

use crate::hashes::{ChainHash, StateHash};
use crate::names::{Actor, ClientId, EntityKey, OriginId};
use crate::numbers::{Attempt, Height, Sequence, TransactionId};
use crate::operation::OperationResult;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::value::EntitySummary;

/// The name under which a transaction came: what a repetition of it meets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A client's number.
    Client {
        /// Whose stream.
        client: ClientId,
        /// The number in it.
        sequence: Sequence,
        /// The attempt, if the client counts them (C-42).
        attempt: Option<Attempt>,
    },
    /// An idempotency key of the scope's namespace.
    Key(OriginId),
    /// An operation id of the scope's namespace.
    Operation(OperationId),
    /// A step of an execution.
    Promise(PromiseId),
    /// A message from outside.
    Message {
        /// Who sent it.
        source: OriginId,
        /// Its id there.
        id: OriginId,
    },
    /// `system:expiry`: entities whose time has come are deleted (C-84).
    Expiry,
}

/// A transaction that is to be applied. It has no height, and no time, before it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Its id, made by the server when it accepts the request.
    pub id: TransactionId,
    /// Under which name it came.
    pub origin: Origin,
    /// What it does.
    pub request: Request,
    /// Who asked, from the credential.
    pub actor: Actor,
}

/// A transaction that was applied (impl Q-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Its id.
    pub id: TransactionId,
    /// Its place in the order of its scope, from 1.
    pub height: Height,
    /// The server's time, never less than that of the transaction before it.
    pub time: Timestamp,
    /// Under which name it came.
    pub origin: Origin,
    /// What it does.
    pub request: Request,
    /// Who asked.
    pub actor: Actor,
}

/// A transaction with its proof: the row of the log, and a line of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The transaction.
    pub transaction: Transaction,
    /// The entities that it changed or removed, as they were before, by ascending keys; those that it
    /// made are not among them. With them the state hash can be computed again without the vault.
    pub before: Vec<(EntityKey, EntitySummary)>,
    /// The hash of the vault's state after it.
    pub state_hash: StateHash,
    /// The head of the chain after it.
    pub head: ChainHash,
}

/// What the caller of a transaction is told: it was applied. Seeds call it `WriteSuccess`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Success {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its height.
    pub height: Height,
    /// Its time.
    pub time: Timestamp,
    /// The head of the chain after it.
    pub head: ChainHash,
    /// What each operation answers, in order.
    pub results: Vec<OperationResult>,
}

/// What is kept of a committed transaction under its name, as long as the log (C-44).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The hash of the request.
    pub hash: RequestHash,
    /// What its caller was told.
    pub success: Success,
}

impl Receipt {
    /// Roughly how many bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let got = |result: &OperationResult| match result {
            OperationResult::Got(Some(entity)) => entity.content.value_bytes(),
            _ => 0,
        };
        let results = &self.success.results;
        size_of::<Self>()
            + size_of::<OperationResult>() * results.len()
            + results.iter().map(got).sum::<usize>()
    }
}

/// What is kept of a transaction under a key, an operation id or a promise. Unlike a number in a
/// stream, such a name is used up by a refusal too (V-37, C-9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginRecord {
    /// It was applied.
    Committed(Arc<Receipt>),
    /// It was refused.
    Refused {
        /// The hash of the request.
        hash: RequestHash,
        /// Why.
        refusal: Refusal,
    },
}

/// What a request under a key, an operation id or a promise meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginVerdict<'a> {
    /// The name is new.
    Fresh,
    /// The same request was applied.
    PriorResult(&'a Arc<Receipt>),
    /// The same request was refused.
    PriorError(&'a Refusal),
    /// Another request has the name.
    Mismatch,
}

impl OriginRecord {
    /// Judges a request with this hash by the record of its name.
    pub fn judge(record: Option<&Self>, hash: RequestHash) -> OriginVerdict<'_> {
        match record {
            None => OriginVerdict::Fresh,
            Some(Self::Committed(receipt)) if receipt.hash == hash => {
                OriginVerdict::PriorResult(receipt)
            }
            Some(Self::Refused { hash: known, refusal }) if *known == hash => {
                OriginVerdict::PriorError(refusal)
            }
            Some(_) => OriginVerdict::Mismatch,
        }
    }
}
