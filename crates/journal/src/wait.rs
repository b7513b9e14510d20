//! What an execution waits for (J-24, J-29, J-90, C-37).

use std::sync::Arc;

use crate::ids::{ExecutionId, JoinSetId, PromiseId};
use crate::names::SignalName;

/// How many promises one wait, and so one join set, can have: 4 MiB of numbers. A row of the
/// stored form holds no more (J-82).
pub const WAIT_MEMBERS_MAX: usize = 1 << 20;

/// How much of a wait set must be resolved (J-29, J-33, C-37).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AwaitKind {
    /// The one promise.
    Single,
    /// At least one of several; the one that resolved first wins.
    Any,
    /// Every promise.
    All,
    /// A signal, and nothing else.
    Signal {
        /// Its name.
        name: SignalName,
        /// The child number that the received signal will take.
        promise_id: PromiseId,
    },
    /// A signal, or the first of the other promises.
    SignalOr {
        /// Its name.
        name: SignalName,
        /// The child number that the received signal would take.
        promise_id: PromiseId,
    },
}

impl AwaitKind {
    /// The kind's name, as the specification has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Single => "Single",
            Self::Any => "Any",
            Self::All => "All",
            Self::Signal { .. } => "Signal",
            Self::SignalOr { .. } => "SignalOr",
        }
    }
}

/// A set of children of one execution: no duplicates, no order (J-90).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaitSet {
    execution_id: ExecutionId,
    members: Members,
}

/// The children in a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Members {
    /// Their numbers, ascending.
    Listed(Arc<[u32]>),
    /// The members of this join set that were not taken from it. The journal knows which: listing
    /// them after every result of a large set would cost the square of its size.
    RestOf(u32),
}

/// Why promises are not a wait set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitSetError {
    /// A promise of another execution can never resolve here (C-26).
    #[error("{0:#} is not a child of this execution: awaiting it would never end (C-26)")]
    Foreign(PromiseId),
    /// A set has each member once (J-90).
    #[error("{0:#} appears twice in a set (J-90)")]
    Duplicate(PromiseId),
}

impl WaitSet {
    /// These children of `execution_id`, in any order.
    pub fn new(
        execution_id: &ExecutionId,
        promises: impl IntoIterator<Item = PromiseId>,
    ) -> Result<Self, WaitSetError> {
        let numbers = promises
            .into_iter()
            .map(|promise| promise.number_in(execution_id).ok_or(WaitSetError::Foreign(promise)))
            .collect::<Result<Vec<u32>, _>>()?;
        Self::of_numbers(execution_id, numbers)
    }

    /// The children of `execution_id` with these numbers, in any order.
    pub fn of_numbers(
        execution_id: &ExecutionId,
        mut numbers: Vec<u32>,
    ) -> Result<Self, WaitSetError> {
        numbers.sort_unstable();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(WaitSetError::Duplicate(execution_id.child(pair[0])));
        }
        Ok(Self::listing(execution_id, numbers))
    }

    fn listing(execution_id: &ExecutionId, numbers: Vec<u32>) -> Self {
        Self { execution_id: execution_id.clone(), members: Members::Listed(numbers.into()) }
    }

    /// The members of a join set that were not taken from it.
    pub fn rest_of(join_set: &JoinSetId) -> Option<Self> {
        let execution_id = join_set.place().parent()?;
        let number = join_set.number_in(&execution_id)?;
        Some(Self { execution_id, members: Members::RestOf(number) })
    }

    /// The execution whose children these are.
    pub fn execution_id(&self) -> &ExecutionId {
        &self.execution_id
    }

    /// The children's numbers, ascending; none if it is the rest of a join set.
    pub fn listed(&self) -> Option<&[u32]> {
        match &self.members {
            Members::Listed(numbers) => Some(numbers),
            Members::RestOf(_) => None,
        }
    }

    /// The join set whose rest this is; none if members are listed.
    pub fn join_set(&self) -> Option<JoinSetId> {
        match self.members {
            Members::Listed(_) => None,
            Members::RestOf(number) => Some(JoinSetId::at(self.execution_id.child(number))),
        }
    }

    /// The listed children's promises, ascending.
    pub fn promises(&self) -> impl ExactSizeIterator<Item = PromiseId> + '_ {
        let numbers = self.listed().unwrap_or_default();
        numbers.iter().map(|number| self.execution_id.child(*number))
    }

    /// A set of one promise, of any parent; empty for a root, which has no parent. The journal
    /// refuses to wait for a child of another execution (see C-26).
    pub(crate) fn of_one(promise: &PromiseId) -> Self {
        let number = promise.path().last().copied();
        let execution_id = promise.parent().unwrap_or_else(|| promise.execution_root());
        Self::listing(&execution_id, number.into_iter().collect())
    }

    /// The listed children and one more.
    pub(crate) fn with(&self, number: u32) -> Self {
        let mut numbers = self.listed().unwrap_or_default().to_vec();
        if let Err(place) = numbers.binary_search(&number) {
            numbers.insert(place, number);
        }
        Self::listing(&self.execution_id, numbers)
    }

    /// Whether it lists members, and none.
    pub fn is_listing_none(&self) -> bool {
        self.listed().is_some_and(<[u32]>::is_empty)
    }

    /// Whether this child is listed.
    pub fn lists(&self, promise: &PromiseId) -> bool {
        promise.number_in(&self.execution_id).is_some_and(|number| self.lists_number(number))
    }

    pub(crate) fn lists_number(&self, number: u32) -> bool {
        self.listed().is_some_and(|numbers| numbers.binary_search(&number).is_ok())
    }
}

/// What a guest asks to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wait {
    /// This promise.
    One(PromiseId),
    /// The first of these.
    Any(WaitSet),
    /// All of these.
    All(WaitSet),
    /// A signal of this name.
    Signal(SignalName),
    /// A signal of this name, or the first of these (C-37).
    SignalOr(SignalName, WaitSet),
}
