//! `Position`: where a batch stands in the one order of all batches; `Seen`: what a read saw,
//! and where.

use std::fmt;

/// Where a batch stands in the order of all batches that a store ever accepted. Positions are
/// durable in order: once one is, so is everything before it (D3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u64);

impl Position {
    /// Before the first batch.
    pub const START: Self = Self(0);

    /// The position with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// How many batches have been accepted up to here.
    pub const fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("no machine accepts 2^64 batches"))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How many groups a store has committed, over all its processes: the number under which a backend
/// keeps a group. The pipeline stores it with the position of the group's last batch, in the same
/// commit, so a store that is opened again goes on where the last one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(u64);

impl Sequence {
    /// Before the first group.
    pub const START: Self = Self(0);

    /// Not before any group: a backend that is as far has everything in its rows.
    pub const MAX: Self = Self(u64::MAX);

    /// The sequence with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// How many groups were committed up to here.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The group after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("no machine commits 2^64 groups"))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What a read saw. The state it comes from may not be on disk yet: before any of it leaves the
/// process, [`position`](Self::position) must be durable (D2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what is read may be ahead of the disk: mind the position"]
pub struct Seen<T> {
    /// What was there.
    pub value: T,
    /// Everything in `value` is durable once this position is.
    pub position: Position,
}

impl<T> Seen<T> {
    /// The same position, something else made of the value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Seen<U> {
        Seen { value: f(self.value), position: self.position }
    }

    /// The same position, something else made of the value, if that works.
    pub fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Seen<U>, E> {
        Ok(Seen { value: f(self.value)?, position: self.position })
    }
}
