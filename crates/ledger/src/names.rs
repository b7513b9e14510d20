//! Names that come from outside: bounded, printable, cheap to clone.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use indelible_journal::Namespace;

use crate::bounds::{
    ACTOR_BYTES_MAX, CLIENT_BYTES_MAX, KEY_BYTES_MAX, ORIGIN_BYTES_MAX, UNIT_BYTES_MAX,
    VAULT_NAME_BYTES_MAX,
};

/// Why a text is not a name. The text itself is never repeated: it may be hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is blank.
    #[error("the {what} is blank")]
    Blank {
        /// What the text was to name.
        what: &'static str,
    },
    /// The text is too long.
    #[error("the {what} has {bytes} bytes; at most {max} are allowed")]
    TooLong {
        /// What the text was to name.
        what: &'static str,
        /// How long the text is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// A character that such a name cannot have.
    #[error("the {what} has a character at byte {at} that is not allowed: {rule}")]
    Character {
        /// What the text was to name.
        what: &'static str,
        /// Where the character is.
        at: usize,
        /// Which ones are allowed.
        rule: &'static str,
    },
}

/// Which characters a name may have.
struct Alphabet {
    rule: &'static str,
    has: fn(char) -> bool,
}

const PRINTABLE: Alphabet =
    Alphabet { rule: "control characters are not", has: |char| !char.is_control() };
/// As idempotency keys have it (I-6).
const NO_ASCII_CONTROL: Alphabet =
    Alphabet { rule: "control characters are not", has: |char| !char.is_ascii_control() };
const PATH: Alphabet = Alphabet {
    rule: "use a-z, 0-9, - and _",
    has: |char| matches!(char, 'a'..='z' | '0'..='9' | '-' | '_'),
};

fn check(text: &str, what: &'static str, max: usize, alphabet: &Alphabet) -> Result<(), NameError> {
    if text.trim().is_empty() {
        return Err(NameError::Blank { what });
    }
    if text.len() > max {
        return Err(NameError::TooLong { what, bytes: text.len(), max });
    }
    match text.char_indices().find(|(_, char)| !(alphabet.has)(*char)) {
        Some((at, _)) => Err(NameError::Character { what, at, rule: alphabet.rule }),
        None => Ok(()),
    }
}

macro_rules! name_newtype {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr, $alphabet:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check(text, $what, $max, &$alphabet)?;
                Ok(Self(text.into()))
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
    /// The name of a vault in its namespace: `a-z`, `0-9`, `-` and `_`, at most
    /// [`VAULT_NAME_BYTES_MAX`].
    VaultName, "name of the vault", VAULT_NAME_BYTES_MAX, PATH
}
name_newtype! {
    /// A client's name in a scope. It is never empty (C-43).
    ClientId, "client id", CLIENT_BYTES_MAX, PRINTABLE
}
name_newtype! {
    /// The key of an entity: text of at most [`KEY_BYTES_MAX`] bytes. Keys are ordered by bytes.
    EntityKey, "key", KEY_BYTES_MAX, PRINTABLE
}
name_newtype! {
    /// What an amount counts: `EUR-cent`, `pieces`. Amounts of two units are never added.
    Unit, "unit", UNIT_BYTES_MAX, PRINTABLE
}
name_newtype! {
    /// Under which name a transaction came: an idempotency key, or the source or id of a message.
    OriginId, "origin", ORIGIN_BYTES_MAX, NO_ASCII_CONTROL
}

/// Who writes, as the server derives it from the credential: `user:ID`, `client:NAME`,
/// `system:NAME`. It is the owner of a stream, too (C-46): an API key's name survives rotation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(Arc<str>);

impl Actor {
    /// The actor of this name; a longer one than [`ACTOR_BYTES_MAX`] is cut, as in audit entries.
    pub fn new(name: &str) -> Self {
        Self(name[..name.floor_char_boundary(ACTOR_BYTES_MAX)].into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where transactions are in one order: a namespace, or a vault in it. A client has a stream
/// of its own in each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The namespace.
    pub namespace: Namespace,
    /// The vault; `None` is the namespace itself.
    pub vault: Option<VaultName>,
}

/// `NAMESPACE` or `NAMESPACE/VAULT`, for people.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.vault {
            Some(vault) => write!(f, "{}/{vault}", self.namespace),
            None => self.namespace.fmt(f),
        }
    }
}
