//! Names of components: callers write them in requests, so they are short and plain.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name of a component, in bytes.
pub const COMPONENT_NAME_BYTES_MAX: usize = 64;

/// The name of a component.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentName(Arc<str>);

/// Why a text is not the name of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid component name: use 1 to {COMPONENT_NAME_BYTES_MAX} letters, digits, `-`, `_` and \
     `.`, beginning with a letter or digit"
)]
pub struct ComponentNameError;

impl ComponentName {
    /// Checks the text.
    pub fn new(name: &str) -> Result<Self, ComponentNameError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && name.len() <= COMPONENT_NAME_BYTES_MAX && name.chars().all(plain) {
            Ok(Self(name.into()))
        } else {
            Err(ComponentNameError)
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ComponentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ComponentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ComponentName({:?})", self.0)
    }
}

impl FromStr for ComponentName {
    type Err = ComponentNameError;

    fn from_str(text: &str) -> Result<Self, ComponentNameError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that could be mistaken for something else is refused.
    #[test]
    fn names_are_plain() {
        for good in ["orders", "a", "9", "shop.orders-v2_x"] {
            assert!(ComponentName::new(good).is_ok(), "{good}");
        }
        let long = "a".repeat(COMPONENT_NAME_BYTES_MAX + 1);
        for bad in ["", ".", "-a", "a/b", "a b", "ä", "a\n", &long] {
            assert!(ComponentName::new(bad).is_err(), "{bad}");
        }
    }
}
