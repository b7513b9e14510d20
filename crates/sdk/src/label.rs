//! Labels of an execution: people find it by them.

use std::fmt::Display;

use crate::host;

/// Labels this execution, so that people find it: `indelible ps --label order=123`. The last value
/// of a name counts. It is stored with what the function does next, and is no part of the journal.
///
/// ```no_run
/// # use indelible_sdk::prelude::*;
/// # let order = 123;
/// label("order", order);
/// label("stage", "charged");
/// ```
///
/// A name has 1 to 64 of the characters `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`; a value has at most
/// 256 bytes and no control characters. An execution has at most 16 labels, with those that its
/// caller gave it. What does not fit traps.
///
/// A label belongs to the execution whose function sets it: lists by label have the roots, so label
/// the function that clients call, not one that it calls.
pub fn label(name: &str, value: impl Display) {
    host::label(name, &value.to_string());
}
