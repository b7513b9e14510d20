//! Namespaces of keys: each consumer has one, so its keys do not collide with those of others.

use std::fmt;
use std::str::FromStr;

use crate::text::QuotedText;

/// The longest namespace, in characters.
pub const NAMESPACE_CHARS_MAX: usize = 64;

/// The consumer that a key belongs to (I-4): `a-z`, `0-9`, `-` and `_`, at most
/// [`NAMESPACE_CHARS_MAX`]. Equal keys in two namespaces have nothing to do with each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerNamespace(String);

impl ConsumerNamespace {
    /// The namespace of this name. Fails if the name is blank, too long or has another character.
    pub fn new(name: impl Into<String>) -> Result<Self, NamespaceError> {
        let name = name.into();
        if name.trim().is_empty() {
            return Err(NamespaceError::Blank);
        }
        if let Some((index, char)) = name
            .chars()
            .enumerate()
            .find(|(_, char)| !matches!(char, 'a'..='z' | '0'..='9' | '-' | '_'))
        {
            return Err(NamespaceError::Alphabet { index, found: char.to_string() });
        }
        // The alphabet is ASCII, so the bytes are the characters.
        if name.len() > NAMESPACE_CHARS_MAX {
            return Err(NamespaceError::TooLong { chars: name.len() });
        }
        Ok(Self(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConsumerNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ConsumerNamespace {
    type Err = NamespaceError;

    fn from_str(name: &str) -> Result<Self, NamespaceError> {
        Self::new(name)
    }
}

/// Why a name cannot be a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// The name is empty or only white space.
    #[error("the namespace is blank; use a-z, 0-9, - and _")]
    Blank,
    /// The name is longer than [`NAMESPACE_CHARS_MAX`].
    #[error("the namespace has {chars} characters; at most {NAMESPACE_CHARS_MAX} are allowed")]
    TooLong {
        /// How many characters the name has.
        chars: usize,
    },
    /// The name has a character other than `a-z`, `0-9`, `-` and `_`.
    #[error("character {index} of the namespace is {}; use a-z, 0-9, - and _", QuotedText(found))]
    Alphabet {
        /// The index of the character, from 0.
        index: usize,
        /// The character.
        found: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I-4, I-24: alphabet, length and blankness are checked at construction.
    #[test]
    fn alphabet_length_and_blankness() {
        for name in ["a", "orders", "o-1_x", "0", "-", &"n".repeat(64)] {
            assert_eq!(ConsumerNamespace::new(name).unwrap().as_str(), name);
        }
        for name in ["", " ", "\t\n", "\u{2003}"] {
            assert_eq!(ConsumerNamespace::new(name), Err(NamespaceError::Blank));
        }
        let long = ConsumerNamespace::new("n".repeat(65));
        assert_eq!(long, Err(NamespaceError::TooLong { chars: 65 }));
        for (name, index) in
            [("Orders", 0), ("a b", 1), ("a.b", 1), ("ab\u{0}", 2), ("é", 0), ("a\u{1F600}", 1)]
        {
            let refused = ConsumerNamespace::new(name).unwrap_err();
            assert!(matches!(refused, NamespaceError::Alphabet { index: at, .. } if at == index));
            assert!(!refused.to_string().contains('\u{0}'), "{refused}");
        }
    }
}
