//! Names that come from outside: bounded, printable, cheap to clone.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::bounds::{
    CONTENT_TYPE_BYTES_MAX, LANE_KEY_BYTES_MAX, MESSAGE_ID_BYTES_MAX, NAME_BYTES_MAX,
    TOPIC_BYTES_MAX,
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
const PATH: Alphabet = Alphabet {
    rule: "use a-z, 0-9, - and _",
    has: |char| matches!(char, 'a'..='z' | '0'..='9' | '-' | '_'),
};
const TOPIC: Alphabet = Alphabet {
    rule: "use a-z, A-Z, 0-9, -, _, / and .",
    has: |char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '/' | '.'),
};
/// What can stand in the value of an HTTP header.
const HEADER: Alphabet =
    Alphabet { rule: "use printable ASCII", has: |char| matches!(char, ' '..='~') };

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
    /// The name of an endpoint: `a-z`, `0-9`, `-` and `_`.
    EndpointName, "name of the endpoint", NAME_BYTES_MAX, PATH
}
name_newtype! {
    /// The name of a source of incoming messages: `a-z`, `0-9`, `-` and `_`.
    SourceName, "name of the source", NAME_BYTES_MAX, PATH
}
name_newtype! {
    /// What a message is about: `order.created`.
    Topic, "topic", TOPIC_BYTES_MAX, TOPIC
}
name_newtype! {
    /// Messages with one lane key are sent to an endpoint one at a time, in their order.
    LaneKey, "lane key", LANE_KEY_BYTES_MAX, PRINTABLE
}
name_newtype! {
    /// The content type of a body, as the header has it.
    ContentType, "content type", CONTENT_TYPE_BYTES_MAX, HEADER
}
name_newtype! {
    /// The id under which a message came from outside, as its sender spells it.
    ForeignId, "id of the message", MESSAGE_ID_BYTES_MAX, HEADER
}
name_newtype! {
    /// A person or a service, as the server derives it from the credential.
    Maker, "decision-maker", 1_024, PRINTABLE
}
