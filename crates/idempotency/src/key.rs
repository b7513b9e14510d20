//! The key of one logical request, and how a caller's own is read.

use std::fmt;

use crate::namespace::ConsumerNamespace;

/// The longest key, in characters (Unicode scalar values).
pub const KEY_CHARS_MAX: usize = 255;

/// The key of one logical request, in its namespace (I-5). Only [`parse_key`] and
/// [`KeyMinter`](crate::KeyMinter) make one, so what it promises always holds: it is not blank, has
/// at most [`KEY_CHARS_MAX`] characters, no control characters, and no white space at its ends.
///
/// ```compile_fail,E0451
/// use indelible_idempotency::{ConsumerNamespace, IdempotencyKey};
///
/// let namespace = ConsumerNamespace::new("orders").unwrap();
/// let forged = IdempotencyKey { namespace, value: "\u{1b}".to_owned() };
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdempotencyKey {
    namespace: ConsumerNamespace,
    value: String,
}

impl IdempotencyKey {
    /// For the minter, whose values are hexadecimal and of one length.
    pub(crate) fn minted(namespace: ConsumerNamespace, value: String) -> Self {
        debug_assert!(!value.is_empty() && value.len() <= KEY_CHARS_MAX, "a digest as text");
        Self { namespace, value }
    }

    /// Whose key it is.
    pub fn namespace(&self) -> &ConsumerNamespace {
        &self.namespace
    }

    /// The value: what is stored, and what is sent to others.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A caller's key may hold characters that a terminal acts on (C1 controls pass I-6).
        let Self { namespace, value } = self;
        write!(f, "{namespace}:{}", value.escape_debug())
    }
}

/// Reads the key that a caller sent, typically in a header (I-6). An absent one is none; white
/// space at the ends goes; a blank or oversize one, or one with a control character, is refused.
pub fn parse_key(
    namespace: &ConsumerNamespace,
    raw: Option<&str>,
) -> Result<Option<IdempotencyKey>, KeyError> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let value = raw.trim();
    if value.is_empty() {
        return Err(KeyError::Blank);
    }
    let chars = value.chars().count();
    if chars > KEY_CHARS_MAX {
        return Err(KeyError::TooLong { chars });
    }
    let is_control = |char: char| char < '\u{20}' || char == '\u{7f}';
    if let Some((index, char)) = value.chars().enumerate().find(|(_, char)| is_control(*char)) {
        return Err(KeyError::ControlCharacter { index, code: char.into() });
    }
    Ok(Some(IdempotencyKey { namespace: namespace.clone(), value: value.to_owned() }))
}

/// Why a caller's key is refused; the specification's `Invocation.GeneralValidation`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing but white space.
    #[error("the idempotency key is blank")]
    Blank,
    /// Longer than [`KEY_CHARS_MAX`].
    #[error("the idempotency key has {chars} characters; at most {KEY_CHARS_MAX} are allowed")]
    TooLong {
        /// How long it is, without white space at its ends.
        chars: usize,
    },
    /// A character below U+0020, or U+007F.
    #[error("the idempotency key has the control character U+{code:04X} at character {index}")]
    ControlCharacter {
        /// Which character, from 0, without white space at the start.
        index: usize,
        /// Its number.
        code: u32,
    },
}
