//! The ledger (Q): vaults, small versioned databases that are written only by transactions which
//! have a name: a client's sequence number, an idempotency key, an operation id.
//!
//! The crate is pure: it knows no clock, no I/O, no async, no storage and no randomness. Times, ids
//! and what is stored come in as values; what changes goes out as values.
//!
//! # From a request to its answer
//!
//! 1. The door reads a body into [`Operation`]s and makes a [`Request`] of them. That checks every
//!    bound of [`Limits`], and hashes the request. A [`Run`] gives it its number.
//! 2. [`write()`] judges the numbers against the client's [`Stream`], and applies to the [`Vault`] what
//!    is next. It changes both in memory, and returns [`Written`]: an [`Answer`] for each request
//!    that was reached, and an [`Applied`] for each transaction.
//! 3. The caller stores, in one commit: the vault, the stream if
//!    [`stream_changed`](Written::stream_changed), and of each [`Applied`] its [`Change`]s, its
//!    [`Record`] and its [`Receipt`]. **No answer leaves before that commit is durable**, refusals
//!    included (C-42, C-50). If the commit is lost, vault and stream are dropped and read again.
//!
//! A transaction under a key, an operation id or a promise has no stream: its [`OriginRecord`]
//! decides ([`OriginRecord::judge`]), and [`Vault::apply`] applies it.
//!
//! What is stored is read through [`Reads`]. A reader of one commit sees what earlier transactions
//! of the same commit changed through a [`Layer`]; [`write()`] brings its own.
//!
//! # Proof
//!
//! Each transaction has canonical bytes, and the vault a chain of hashes over them and over its
//! state ([`proof`]). [`export`] writes a vault's log as JSON Lines and verifies it without a server.
//! [`json`] is how operations, results and entities are written there and in the HTTP API.

pub mod bounds;
pub mod cache;
pub mod export;
mod hashes;
pub mod json;
mod names;
mod numbers;
mod operation;
pub mod proof;
mod reads;
mod refusal;
mod request;
mod stream;
mod transaction;
mod value;
mod vault;
mod write;

pub use bounds::Limits;
pub use cache::ResponseCache;
pub use hashes::{ChainHash, HashError, StateHash, ValueHash};
pub use names::{Actor, ClientId, EntityKey, NameError, OriginId, Scope, Unit, VaultName};
pub use numbers::{
    Attempt, Height, IdError, Incarnation, NumberError, RestoreCount, Sequence, TransactionId,
};
pub use operation::{Condition, Operation, OperationResult};
pub use reads::{Layer, Reads, SequenceReads};
pub use refusal::{Code, Refusal};
pub use request::{Kind, OperationError, Place, Request, RequestError};
pub use stream::{
    Answer, Claim, Gap, Judgement, LastCommitted, Prior, RefusedAttempt, Stream, StreamRefusal,
};
pub use transaction::{
    Origin, OriginRecord, OriginVerdict, Proposal, Receipt, Record, Success, Transaction,
};
pub use value::{Amount, Content, ContentSummary, Entity, EntitySummary, Value};
pub use vault::{Application, Applied, Change, ReplayFault, Start, Vault};
pub use write::{Context, Run, RunError, Written, write};
