//! `JoinSetId`: a join set's place in the tree of calls.

use std::fmt;
use std::str::FromStr;

use super::{ExecutionId, IdError, PromiseId};

/// A join set's place in the tree. It is allocated like a promise (C-15) but is a separate type: it
/// cannot be awaited, completed or submitted to another set (J-4).
///
/// ```compile_fail
/// # fn f(set: indelible_journal::JoinSetId, own: indelible_journal::ExecutionId) {
/// // A wait set takes promises; a join set is none.
/// let _ = indelible_journal::WaitSet::new(&own, [set]);
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JoinSetId(PromiseId);

impl JoinSetId {
    /// The set that was, or is to be, created at this place.
    pub fn at(place: PromiseId) -> Self {
        Self(place)
    }

    /// Where in the tree the set was created.
    pub fn place(&self) -> &PromiseId {
        &self.0
    }

    /// This set's number among the children of `execution`, if it is one.
    pub fn number_in(&self, execution: &ExecutionId) -> Option<u32> {
        self.0.number_in(execution)
    }
}

/// The text of its place.
impl fmt::Display for JoinSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for JoinSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinSetId({self:#})")
    }
}

impl FromStr for JoinSetId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.parse().map(Self)
    }
}
