//! Operations and their conditions, and what is hashed of a request.

use indelible_journal::{FunctionName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Content, Form, Payload, PayloadError, Quantity, Text};
use crate::hashes::ValueHash;
use crate::names::{EntityKey, Unit};
use crate::numbers::Height;
use crate::operation;
use crate::request::{Kind, Request};

/// What must hold of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Condition {
    /// There is none under the key.
    Absent,
    /// There is one.
    Present,
    /// It was last changed at this height.
    Version(u64),
    /// It holds exactly this, codec or unit included.
    Is(Content),
    /// It holds a value whose bytes have this SHA-256, in hexadecimal digits.
    Hash(Text<ValueHash>),
}

impl Condition {
    fn in_form(condition: &operation::Condition, form: Form) -> Self {
        match condition {
            operation::Condition::Absent => Self::Absent,
            operation::Condition::Present => Self::Present,
            operation::Condition::Version(version) => Self::Version(version.get()),
            operation::Condition::Content(content) => Self::Is(Content::in_form(content, form)),
            operation::Condition::Hash(hash) => Self::Hash(Text(*hash)),
        }
    }

    fn read(self) -> Result<operation::Condition, PayloadError> {
        Ok(match self {
            Self::Absent => operation::Condition::Absent,
            Self::Present => operation::Condition::Present,
            Self::Version(version) => operation::Condition::Version(Height::new(version)),
            Self::Is(content) => operation::Condition::Content(content.read()?),
            Self::Hash(Text(hash)) => operation::Condition::Hash(hash),
        })
    }
}

/// One step of a transaction. Later ones see what earlier ones did.
// What is not there is left out. In a line of an export, a `null` in its place is found when the
// line is written again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Operation {
    /// Puts an entity in place of what is there.
    Set {
        /// What must hold before.
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<Condition>,
        /// When the entity is to be deleted, RFC 3339; never, if left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("format" = "date-time"))]
        expires_at: Option<Text<Timestamp>>,
        /// Under which key: up to 1,024 bytes.
        key: Text<EntityKey>,
        /// What it holds.
        to: Content,
    },
    /// Removes an entity. Where there is none, it changes nothing, and is not refused.
    Delete {
        /// What must hold before.
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<Condition>,
        /// Which.
        key: Text<EntityKey>,
    },
    /// A condition without a write.
    Check {
        /// What must hold.
        condition: Condition,
        /// Of which entity.
        key: Text<EntityKey>,
    },
    /// Answers what the entity is at the commit.
    Get {
        /// Which.
        key: Text<EntityKey>,
    },
    /// Changes an amount.
    Add {
        /// What must hold before.
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<Condition>,
        /// By how much; below zero takes.
        delta: Quantity,
        /// Which.
        key: Text<EntityKey>,
        /// The most that it may become.
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<Quantity>,
        /// The least that may remain.
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<Quantity>,
        /// The unit that it must have. Where there is no entity, one of this unit begins at zero;
        /// without a unit that is refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        unit: Option<Text<Unit>>,
    },
    /// Takes from one amount and gives to another of the same unit. Both exist.
    Transfer {
        /// From which.
        from: Text<EntityKey>,
        /// The most that `to` may become.
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<Quantity>,
        /// The least that may remain at `from`.
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<Quantity>,
        /// How much: more than zero.
        quantity: Quantity,
        /// To which other one.
        to: Text<EntityKey>,
        /// The unit that both must have; without it they must have the same.
        #[serde(skip_serializing_if = "Option::is_none")]
        unit: Option<Text<Unit>>,
    },
    /// Starts an execution in the commit of the transaction.
    Start {
        /// Which function: `COMPONENT/FUNCTION`.
        function: Text<FunctionName>,
        /// With what.
        input: Payload,
    },
}

impl Operation {
    /// For a client: every byte as it was.
    pub fn of(operation: &operation::Operation) -> Self {
        Self::in_form(operation, Form::Exported)
    }

    fn in_form(operation: &operation::Operation, form: Form) -> Self {
        use operation::Operation as O;
        let text = |key: &EntityKey| Text(key.clone());
        let number = |number: &Option<i128>| number.map(Quantity);
        let named = |unit: &Option<Unit>| unit.clone().map(Text);
        let wire = |condition: &Option<operation::Condition>| {
            condition.as_ref().map(|condition| Condition::in_form(condition, form))
        };
        match operation {
            O::Set { key, content, expires_at, condition } => Self::Set {
                key: text(key),
                to: Content::in_form(content, form),
                expires_at: expires_at.map(Text),
                condition: wire(condition),
            },
            O::Delete { key, condition } => {
                Self::Delete { key: text(key), condition: wire(condition) }
            }
            O::Check { key, condition } => {
                Self::Check { key: text(key), condition: Condition::in_form(condition, form) }
            }
            O::Get { key } => Self::Get { key: text(key) },
            O::Add { key, delta, unit, min, max, condition } => Self::Add {
                key: text(key),
                delta: Quantity(*delta),
                unit: named(unit),
                min: number(min),
                max: number(max),
                condition: wire(condition),
            },
            O::Transfer { from, to, quantity, unit, min, max } => Self::Transfer {
                from: text(from),
                to: text(to),
                quantity: Quantity(*quantity),
                unit: named(unit),
                min: number(min),
                max: number(max),
            },
            O::Start { function, input } => Self::Start {
                function: Text(function.clone()),
                input: Payload::in_form(input, form),
            },
        }
    }

    /// The operation.
    pub fn read(self) -> Result<operation::Operation, PayloadError> {
        use operation::Operation as O;
        let number = |number: Option<Quantity>| number.map(|Quantity(number)| number);
        let named = |unit: Option<Text<Unit>>| unit.map(|Text(unit)| unit);
        let read = |condition: Option<Condition>| condition.map(Condition::read).transpose();
        Ok(match self {
            Self::Set { key: Text(key), to, expires_at, condition } => O::Set {
                key,
                content: to.read()?,
                expires_at: expires_at.map(|Text(at)| at),
                condition: read(condition)?,
            },
            Self::Delete { key: Text(key), condition } => {
                O::Delete { key, condition: read(condition)? }
            }
            Self::Check { key: Text(key), condition } => {
                O::Check { key, condition: condition.read()? }
            }
            Self::Get { key: Text(key) } => O::Get { key },
            Self::Add { key: Text(key), delta: Quantity(delta), unit, min, max, condition } => {
                O::Add {
                    key,
                    delta,
                    unit: named(unit),
                    min: number(min),
                    max: number(max),
                    condition: read(condition)?,
                }
            }
            Self::Transfer { from, to, quantity, unit, min, max } => O::Transfer {
                from: from.0,
                to: to.0,
                quantity: quantity.0,
                unit: named(unit),
                min: number(min),
                max: number(max),
            },
            Self::Start { function: Text(function), input } => {
                O::Start { function, input: input.read()? }
            }
        })
    }
}

/// All writes of a request, for a file and for a client.
pub(crate) fn writes(request: &Request) -> Vec<Vec<Operation>> {
    in_form(request, Form::Exported)
}

fn in_form(request: &Request, form: Form) -> Vec<Vec<Operation>> {
    let operations = |write: &[operation::Operation]| {
        write.iter().map(|operation| Operation::in_form(operation, form)).collect()
    };
    request.writes().map(operations).collect()
}

/// What is hashed of a request: its kind and its operations (see C-45).
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Hashed {
    Single { operations: Vec<Operation> },
    Batch { writes: Vec<Vec<Operation>> },
}

impl Hashed {
    pub(crate) fn of(request: &Request) -> Self {
        let mut writes = in_form(request, Form::Hashed);
        match request.kind() {
            Kind::Single => Self::Single { operations: writes.pop().unwrap_or_default() },
            Kind::Batch => Self::Batch { writes },
        }
    }
}
