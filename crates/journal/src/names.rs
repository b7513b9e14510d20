//! Names that come from outside: bounded, printable, cheap to clone.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;

use indelible_slots::Slot;

/// The longest name, in bytes: as long as an idempotency key may be.
pub const NAME_BYTES_MAX: usize = 255;

/// Why a text is not a name. The text itself is never repeated: it may be hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is blank.
    #[error("the name is blank")]
    Blank,
    /// More than [`NAME_BYTES_MAX`] bytes.
    #[error("the name has {0} bytes; at most {NAME_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// A control character at this byte.
    #[error("the name has a control character at byte {0}")]
    Control(usize),
}

fn check(name: &str) -> Result<(), NameError> {
    if name.trim().is_empty() {
        return Err(NameError::Blank);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong(name.len()));
    }
    match name.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(NameError::Control(at)),
        None => Ok(()),
    }
}

macro_rules! name_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text: not blank, at most [`NAME_BYTES_MAX`] bytes, no control
            /// characters.
            pub fn new(name: &str) -> Result<Self, NameError> {
                check(name)?;
                Ok(Self(name.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }
    };
}

name_newtype! {
    /// What a call names: a function, or the label of an HTTP effect.
    FunctionName
}
name_newtype! {
    /// What a signal is sent to, and awaited by.
    SignalName
}
name_newtype! {
    /// A namespace, within which operation ids are unique (see C-31).
    Namespace
}
name_newtype! {
    /// The identity of one logical operation: the client's own, or one minted at admission. Never
    /// a caller's idempotency key (see C-31).
    OperationId
}

name_newtype! {
    /// The trace that an execution belongs to, as W3C's `traceparent` header has it.
    TraceParent
}

/// What tells apart two roots of one component: the third part of a root's hash (C-31).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperationKey {
    /// The namespace of the operation.
    pub namespace: Namespace,
    /// Its id in the namespace.
    pub operation_id: OperationId,
}

impl OperationKey {
    /// The slot of the operation, and so of the tree that it starts (C-77).
    pub fn slot(&self) -> Slot {
        indelible_slots::of_operation(self.namespace.as_str(), self.operation_id.as_str())
    }
}

/// The number of a delivery among those of its signal's name, from 1 (J-22, C-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(NonZeroU64);

impl DeliveryId {
    /// The first delivery of a name.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Delivery `number`; none for 0.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The delivery after `count` earlier ones.
    pub const fn after(count: u64) -> Self {
        match NonZeroU64::new(count.saturating_add(1)) {
            Some(number) => Self(number),
            None => Self::FIRST,
        }
    }

    /// The number, from 1.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for DeliveryId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
