//! `Position`: where a batch stands in the one order of all batches; `Seen`: what a read saw,
//! and where.

use std::fmt;

/// Where a batch stands in the order of all batches that a store ever accepted. Positions are
/// durable in order: once one is, so is everything before it (D3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u64);

/// How many groups a store has committed, over all its processes: the number under which a backend
/// keeps a group. The pipeline stores it with the position of the group's last batch, in the same
/// commit, so a store that is opened again goes on where the last one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(u64);

impl Sequence {
    /// After every group: what a backend has applied whose commits change its rows at once.
    pub const MAX: Self = Self(u64::MAX);
}

macro_rules! counted {
    ($type:ident, $what:literal) => {
        impl $type {
            #[doc = concat!("Before the first ", $what, ".")]
            pub const START: Self = Self(0);

            /// The one with this number.
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            #[doc = concat!("The number of the ", $what, ", counted from 1.")]
            pub const fn number(self) -> u64 {
                self.0
            }

            #[doc = concat!("That of the ", $what, " after this one.")]
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("no machine counts to 2^64"))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

counted!(Position, "batch");
counted!(Sequence, "group");

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
