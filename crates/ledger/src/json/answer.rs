//! What operations answered, and entities. Answers may get further fields, which older clients
//! ignore.

use indelible_journal::{OperationId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Content, Quantity, Text};
use crate::numbers::Height;
use crate::{operation, value};

/// An entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entity {
    /// The height of its last change.
    pub version: u64,
    /// When it is to be deleted; never, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Text<Timestamp>>,
    /// What it holds.
    pub is: Content,
}

impl Entity {
    /// For a client: every byte as it was.
    pub fn of(entity: &value::Entity) -> Self {
        Self {
            expires_at: entity.expires_at.map(Text),
            is: Content::of(&entity.content),
            version: entity.version.get(),
        }
    }
}

/// What an operation answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationResult {
    /// The entity has this version now: the transaction's height.
    Set(Set),
    /// The entity is gone.
    Deleted(Deleted),
    /// The condition holds.
    Checked(Checked),
    /// What the entity is.
    Got(Got),
    /// The amount was changed.
    Added(Added),
    /// Both amounts were changed.
    Transferred(Transferred),
    /// An execution begins with the commit.
    Started(StartedOperation),
}

/// An entity was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Set {
    /// Its version.
    pub version: u64,
}

/// An entity is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// The version that it had; `null` if there was none.
    pub version: Option<u64>,
}

/// A condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {}

/// What an entity was at the commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Got {
    /// The entity; `null` if there is none.
    pub entity: Option<Entity>,
}

/// An amount was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Added {
    /// Its version.
    pub version: u64,
    /// How much it is now.
    pub balance: Quantity,
}

/// Two amounts were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transferred {
    /// The version of both.
    pub version: u64,
    /// How much is left at `from`.
    pub from_balance: Quantity,
    /// How much there is at `to`.
    pub to_balance: Quantity,
}

/// An execution that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartedOperation {
    /// The id of its operation.
    pub operation_id: Text<OperationId>,
}

impl OperationResult {
    /// For a client: every byte as it was.
    pub fn of(result: &operation::OperationResult) -> Self {
        use operation::OperationResult as R;
        match result {
            R::Set { version } => Self::Set(Set { version: version.get() }),
            R::Deleted { version } => Self::Deleted(Deleted { version: version.map(Height::get) }),
            R::Checked => Self::Checked(Checked {}),
            R::Got(entity) => Self::Got(Got { entity: entity.as_ref().map(Entity::of) }),
            R::Added { version, balance } => {
                Self::Added(Added { balance: Quantity(*balance), version: version.get() })
            }
            R::Transferred { version, from_balance, to_balance } => {
                Self::Transferred(Transferred {
                    from_balance: Quantity(*from_balance),
                    to_balance: Quantity(*to_balance),
                    version: version.get(),
                })
            }
            R::Started { operation } => {
                Self::Started(StartedOperation { operation_id: Text(operation.clone()) })
            }
        }
    }
}
