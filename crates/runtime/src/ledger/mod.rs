//! The ledger as others use it (Q): vaults are made, written to by transactions, read and followed.
//! Whatever is answered is durable (D2).
//!
//! - `machine`: a scope as a machine of the host.
//! - `door`: writes and settings, checked and handed to the machine.
//! - `reads`: what is stored, at the latest height or at an earlier one.

mod door;
mod machine;
mod reads;

use std::sync::Arc;

use indelible_journal::{Micros, Timestamp};
use indelible_ledger::{
    Actor, Answer, ChainHash, Entity, EntityKey, Height, Incarnation, Receipt, Refusal, Request,
    RestoreCount, Run, Scope, StateHash, Stream, VaultName,
};
use indelible_store::ReadError;

pub use indelible_records::ledger::{LogEntry, WriteName};

pub(crate) use self::machine::{LedgerMemory, VaultMachine};
pub use self::reads::LEDGER_PAGE_MAX;
pub use crate::followers::FollowVault;
use crate::{EngineError, StartRefused};

/// The settings of a vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VaultSettings {
    /// How long a transaction stays in the log; `None`: for good.
    pub log_retention: Option<Micros>,
}

/// A scope and its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultState {
    /// Which scope.
    pub scope: Scope,
    /// Which life of it (C-47); `None`: the ledger of a namespace to which nothing was written yet.
    pub incarnation: Option<Incarnation>,
    /// How many transactions it has had.
    pub height: Height,
    /// The time of the last one; the epoch before the first.
    pub time: Timestamp,
    /// The head of its chain.
    pub head: Option<ChainHash>,
    /// The hash of what it holds.
    pub state_hash: StateHash,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// Its settings.
    pub settings: VaultSettings,
    /// The transactions above this height are in the log.
    pub log_from: Height,
    /// How often the store was restored (C-48).
    pub restores: RestoreCount,
}

/// The head of a scope at a height.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateAt {
    /// The height.
    pub height: Height,
    /// The time of the transaction with that height.
    pub time: Timestamp,
    /// The head of the chain after it.
    pub head: ChainHash,
    /// The hash of what the scope held then.
    pub state_hash: StateHash,
}

/// Transactions to apply, unless they were applied before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerWrite {
    /// Where.
    pub scope: Scope,
    /// Which life of the scope they are meant for, if the caller knows one (C-47).
    pub incarnation: Option<Incarnation>,
    /// Who asks, from the credential.
    pub actor: Actor,
    /// The transactions.
    pub writes: Writes,
}

/// The transactions of a request, and the names that they came under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writes {
    /// Numbers of a client: one write, one batch, or several in a row (C-8).
    Run(Run),
    /// A key or an operation id.
    Named(WriteName, Request),
}

/// What came of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerAnswer {
    /// Which life of the scope answers.
    pub incarnation: Incarnation,
    /// How often the store was restored (C-48).
    pub restores: RestoreCount,
    /// The answer.
    pub outcome: WriteOutcome,
}

/// What came of the transactions of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    /// An answer for each that was reached; a run stops at its first refusal.
    Run(Vec<Answer>),
    /// The one under a name.
    Named(NamedAnswer),
}

/// What a request under a key or an operation id met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedAnswer {
    /// It was applied now.
    Fresh(Arc<Receipt>),
    /// It was applied before.
    PriorResult(Arc<Receipt>),
    /// It is refused, and the name is used up.
    Refused(Refusal),
    /// It was refused before.
    PriorError(Refusal),
    /// Another request came under this name.
    Mismatch,
}

/// What the server knows of a client in a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientState {
    /// Which life of the scope.
    pub incarnation: Option<Incarnation>,
    /// How often the store was restored (C-48).
    pub restores: RestoreCount,
    /// The client's stream; `None` before its first write.
    pub stream: Option<Stream>,
    /// The receipt of the number that was asked for, while the log has it (C-44).
    pub receipt: Option<Arc<Receipt>>,
}

/// An entity at a height.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityAt {
    /// The height.
    pub height: Height,
    /// The entity, if there was one.
    pub entity: Option<Entity>,
}

/// Entities at a height, by ascending keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntitiesPage {
    /// The height.
    pub height: Height,
    /// The entities of this page.
    pub entities: Vec<(EntityKey, Entity)>,
    /// Go on after this key; `None` at the end.
    pub next: Option<EntityKey>,
}

/// What an entity was, the latest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPage {
    /// The height of the scope.
    pub height: Height,
    /// From which height on it was what; `None`: it was deleted.
    pub versions: Vec<(Height, Option<Entity>)>,
    /// Go on below this height; `None` at the end.
    pub next: Option<Height>,
}

/// Transactions by ascending heights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The height of the scope.
    pub height: Height,
    /// The transactions of this page.
    pub entries: Vec<LogEntry>,
    /// Go on from this height; `None` at the end.
    pub next: Option<Height>,
}

/// The vaults of a namespace, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultsPage {
    /// The vaults of this page.
    pub vaults: Vec<VaultState>,
    /// Go on after this name; `None` at the end.
    pub next: Option<VaultName>,
}

/// Why nothing was done. Nothing has changed, unless the error says that this is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// There is no vault of this name.
    #[error("no such vault")]
    NoVault,
    /// The client has never written there.
    #[error("the client has not written to this vault")]
    NoClient,
    /// The request is meant for another life of the vault (C-47).
    #[error("the vault was deleted and made again: it is incarnation {0} now")]
    OtherIncarnation(Incarnation),
    /// The name belonged to a vault that was deleted (C-47).
    #[error("a vault of this name was deleted; the name is free again at {free_at}")]
    NameTaken {
        /// From when on another vault may have it.
        free_at: Timestamp,
    },
    /// Retention has taken what was asked for (C-44).
    #[error("the log was cut off: it begins above height {log_from}")]
    Compacted {
        /// The transactions above this height are there.
        log_from: Height,
    },
    /// The scope is not so high.
    #[error("the height is {height}; a later one cannot be shown")]
    Beyond {
        /// Its height.
        height: Height,
    },
    /// The client id belongs to another caller (C-46).
    #[error("the client id belongs to another caller")]
    Foreign,
    /// The operation id is unknown, and older than operations are remembered (C-3).
    #[error("the operation id is unknown and older than the retention of operations; use a new id")]
    Expired,
    /// The operation id was made in the future (C-3).
    #[error("the operation id lies in the future by more than clocks may differ; check the clocks")]
    FromTheFuture,
    /// The log would forget names while callers still repeat their requests (C-3).
    #[error("the log must be kept for at least {least}: that long callers may repeat a request")]
    Retention {
        /// The shortest that is allowed.
        least: Micros,
    },
    /// An operation starts a function that cannot be started.
    #[error(transparent)]
    Start(StartRefused),
    /// What is stored makes no sense, although its rows are whole.
    #[error("{0}")]
    Malformed(String),
    /// The engine cannot do anything now.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<ReadError> for LedgerError {
    fn from(error: ReadError) -> Self {
        Self::Engine(error.into())
    }
}
