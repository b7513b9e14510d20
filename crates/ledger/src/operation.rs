//! What a transaction does, under which conditions, and what each operation answers.

use indelible_journal::{FunctionName, OperationId, Payload, Timestamp};

use crate::hashes::ValueHash;
use crate::names::{EntityKey, Unit};
use crate::numbers::Height;
use crate::value::{Content, Entity};

/// What must hold of an entity. One that does not hold refuses the whole transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// There is none under the key.
    Absent,
    /// There is one.
    Present,
    /// It was last changed at this height.
    Version(Height),
    /// It holds exactly this, codec or unit included.
    Content(Content),
    /// It holds a value whose bytes have this hash.
    Hash(ValueHash),
}

/// One step of a transaction. Later ones see what earlier ones did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Puts an entity in place of what is there. Its expiry is the one given here.
    Set {
        /// Under which key.
        key: EntityKey,
        /// What the entity holds.
        content: Content,
        /// When it is to be deleted.
        expires_at: Option<Timestamp>,
        /// What must hold before.
        condition: Option<Condition>,
    },
    /// Removes an entity. Where there is none, it changes nothing, and is not refused.
    Delete {
        /// Which.
        key: EntityKey,
        /// What must hold before.
        condition: Option<Condition>,
    },
    /// A condition without a write.
    Check {
        /// Of which entity.
        key: EntityKey,
        /// What must hold.
        condition: Condition,
    },
    /// Answers what the entity is at the commit.
    Get {
        /// Which.
        key: EntityKey,
    },
    /// Changes an amount. Its expiry stays.
    Add {
        /// Which.
        key: EntityKey,
        /// By how much; below zero takes.
        delta: i128,
        /// The unit that the amount must have. Where there is no entity, one of this unit begins at
        /// zero; without a unit that is refused.
        unit: Option<Unit>,
        /// The least that may remain.
        min: Option<i128>,
        /// The most that it may become.
        max: Option<i128>,
        /// What must hold before.
        condition: Option<Condition>,
    },
    /// Takes from one amount and gives to another of the same unit. Both exist.
    Transfer {
        /// From which.
        from: EntityKey,
        /// To which other one.
        to: EntityKey,
        /// How much: more than zero.
        quantity: i128,
        /// The unit that both must have; without it they must have the same.
        unit: Option<Unit>,
        /// The least that may remain at `from`.
        min: Option<i128>,
        /// The most that `to` may become.
        max: Option<i128>,
    },
    /// Starts an execution in the commit of the transaction. Here it is data: the caller starts it.
    Start {
        /// Which function.
        function: FunctionName,
        /// With what.
        input: Payload,
    },
}

impl Operation {
    /// The keys that it is about: two for a transfer, none for a start.
    pub fn keys(&self) -> impl Iterator<Item = &EntityKey> {
        let (one, other) = match self {
            Self::Set { key, .. }
            | Self::Delete { key, .. }
            | Self::Check { key, .. }
            | Self::Get { key }
            | Self::Add { key, .. } => (Some(key), None),
            Self::Transfer { from, to, .. } => (Some(from), Some(to)),
            Self::Start { .. } => (None, None),
        };
        one.into_iter().chain(other)
    }

    /// Whether it can change an entity.
    pub(crate) fn is_write(&self) -> bool {
        match self {
            Self::Set { .. } | Self::Delete { .. } | Self::Add { .. } | Self::Transfer { .. } => {
                true
            }
            Self::Check { .. } | Self::Get { .. } | Self::Start { .. } => false,
        }
    }

    /// What it counts towards the bound of a transaction: its keys, values, names and input.
    pub(crate) fn bytes(&self) -> usize {
        let keys: usize = self.keys().map(|key| key.as_str().len()).sum();
        let unit = |unit: &Option<Unit>| unit.as_ref().map_or(0, |unit| unit.as_str().len());
        let rest = match self {
            Self::Set { content, condition, .. } => {
                content.value_bytes() + condition_bytes(condition.as_ref())
            }
            Self::Delete { condition, .. } => condition_bytes(condition.as_ref()),
            Self::Add { condition, unit: named, .. } => {
                condition_bytes(condition.as_ref()) + unit(named)
            }
            Self::Check { condition, .. } => condition_bytes(Some(condition)),
            Self::Transfer { unit: named, .. } => unit(named),
            Self::Start { function, input } => function.as_str().len() + input.bytes.len(),
            Self::Get { .. } => 0,
        };
        keys + rest
    }
}

impl Operation {
    /// The bytes of the largest value in it.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Self::Set { content, condition, .. } => {
                content.value_bytes().max(condition_bytes(condition.as_ref()))
            }
            Self::Delete { condition, .. } | Self::Add { condition, .. } => {
                condition_bytes(condition.as_ref())
            }
            Self::Check { condition, .. } => condition_bytes(Some(condition)),
            Self::Start { input, .. } => input.bytes.len(),
            Self::Get { .. } | Self::Transfer { .. } => 0,
        }
    }
}

fn condition_bytes(condition: Option<&Condition>) -> usize {
    match condition {
        Some(Condition::Content(content)) => content.value_bytes(),
        _ => 0,
    }
}

/// What an operation answers, in the order of the operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationResult {
    /// The entity has this version now: the transaction's height.
    Set {
        /// Its version.
        version: Height,
    },
    /// The entity is gone.
    Deleted {
        /// The version that it had; `None` if there was none.
        version: Option<Height>,
    },
    /// The condition holds.
    Checked,
    /// What the entity is.
    Got(Option<Entity>),
    /// The amount was changed.
    Added {
        /// Its version.
        version: Height,
        /// How much it is now.
        balance: i128,
    },
    /// Both amounts were changed.
    Transferred {
        /// Their version.
        version: Height,
        /// How much is left at `from`.
        from_balance: i128,
        /// How much there is at `to`.
        to_balance: i128,
    },
    /// An execution begins with the commit.
    Started {
        /// Its operation id ([`TransactionId::operation`](crate::TransactionId::operation)).
        operation: OperationId,
    },
}
