//! `ExecutionId`, attempts, and the key of a journal (C-32).

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use smallvec::SmallVec;

use super::{DEPTH_MAX, IdError, PromiseId, RootHash, excerpt, parse_u32};

/// The promise id of a function call, root or child: each has its own journal (C-32).
///
/// It is always less deep than [`DEPTH_MAX`], so that it can have children.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(PromiseId);

impl ExecutionId {
    /// The execution that a call's promise stands for.
    pub fn new(promise: PromiseId) -> Result<Self, IdError> {
        if promise.depth() >= DEPTH_MAX { Err(IdError::TooDeep) } else { Ok(Self(promise)) }
    }

    /// The root execution of a tree.
    pub fn root_of(root: RootHash) -> Self {
        Self(PromiseId::root_of(root))
    }

    /// The promise that the caller waits on.
    pub fn as_promise(&self) -> &PromiseId {
        &self.0
    }

    /// The hash that all of this tree shares.
    pub fn root(&self) -> &RootHash {
        self.0.root()
    }

    /// The child numbers from the root down.
    pub fn path(&self) -> &[u32] {
        self.0.path()
    }

    /// How many calls deep this is; the root is at 0.
    pub fn depth(&self) -> usize {
        self.0.depth()
    }

    /// Whether this is a tree's root: its path is empty.
    pub fn is_root(&self) -> bool {
        self.0.is_root()
    }

    /// The caller; none for a root.
    pub fn parent(&self) -> Option<ExecutionId> {
        self.0.parent()
    }

    /// The child at `number` (J-2).
    pub fn child(&self, number: u32) -> PromiseId {
        self.0.child_unchecked(number)
    }
}

/// The same text as its promise.
impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutionId({self:#})")
    }
}

impl FromStr for ExecutionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::new(text.parse()?)
    }
}

/// The number of a physical execution of one logical call, from 1 (J-77, C-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(NonZeroU32);

impl Attempt {
    /// The first attempt.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// Attempt `number`; none for 0.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, from 1.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The attempt after this one; none after the last number there is.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Attempt {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse_u32(text).and_then(Self::new).ok_or_else(|| IdError::Attempt(excerpt(text)))
    }
}

/// The attempt of every function call from the root down to one execution (C-32). Attempts
/// count from 1 in each caller's journal, so a number alone would not tell a child of the first
/// attempt from the same child of the second.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempts(SmallVec<[Attempt; 4]>);

impl Attempts {
    /// Every call from the root down to `depth` at its first attempt.
    pub fn first(depth: usize) -> Self {
        Self(SmallVec::from_elem(Attempt::FIRST, depth + 1))
    }

    /// The attempts from the root down; none if there are none, or more than a tree is deep.
    pub fn new(attempts: &[Attempt]) -> Option<Self> {
        (1..=DEPTH_MAX).contains(&attempts.len()).then(|| Self(SmallVec::from_slice(attempts)))
    }

    /// The attempts from the root down.
    pub fn as_slice(&self) -> &[Attempt] {
        &self.0
    }

    /// The attempt of the execution itself.
    pub fn own(&self) -> Attempt {
        *self.0.last().expect("there is at least the root's attempt")
    }

    /// The attempts of a call made by the execution that these belong to.
    pub fn called(&self, attempt: Attempt) -> Self {
        let mut attempts = self.0.clone();
        attempts.push(attempt);
        Self(attempts)
    }

    /// The same execution's next attempt; none after the last number there is.
    pub fn next(&self) -> Option<Self> {
        let mut attempts = self.0.clone();
        let own = attempts.last_mut().expect("there is at least the root's attempt");
        *own = own.next()?;
        Some(Self(attempts))
    }
}

/// `1.1.2`, from the root down.
impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            write!(f, "{dot}{attempt}")?;
        }
        Ok(())
    }
}

impl FromStr for Attempts {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut attempts = SmallVec::new();
        for part in text.split('.') {
            if attempts.len() == DEPTH_MAX {
                return Err(IdError::TooDeep);
            }
            attempts.push(part.parse()?);
        }
        Ok(Self(attempts))
    }
}

/// The key of a journal: an execution, and the attempt at it (C-32).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalKey {
    execution_id: ExecutionId,
    /// One for the root and one for each segment of the path.
    attempts: Attempts,
}

impl JournalKey {
    /// The key of one attempt at an execution.
    pub fn new(execution_id: ExecutionId, attempts: Attempts) -> Result<Self, IdError> {
        let (depth, count) = (execution_id.depth(), attempts.as_slice().len());
        if count != depth + 1 {
            return Err(IdError::AttemptCount { attempts: count, depth });
        }
        Ok(Self { execution_id, attempts })
    }

    /// The key of an execution that, like all its callers, is at its first attempt.
    pub fn first(execution_id: ExecutionId) -> Self {
        let attempts = Attempts::first(execution_id.depth());
        Self { execution_id, attempts }
    }

    /// The first attempt at the same execution, by the same attempts at its callers.
    #[must_use]
    pub fn first_attempt(&self) -> Self {
        let mut attempts = self.attempts.clone();
        if let Some(own) = attempts.0.last_mut() {
            *own = Attempt::FIRST;
        }
        Self { execution_id: self.execution_id.clone(), attempts }
    }

    /// The execution.
    pub fn execution_id(&self) -> &ExecutionId {
        &self.execution_id
    }

    /// The attempt at it, and at each of its callers.
    pub fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// The key of the same execution's next attempt; none after the last number there is.
    pub fn next_attempt(&self) -> Option<Self> {
        Some(Self { execution_id: self.execution_id.clone(), attempts: self.attempts.next()? })
    }
}

/// `ROOT.0.2@1.1.1`; with `{:#}` only the first digits of the root, for people.
impl fmt::Display for JournalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.execution_id, f)?;
        write!(f, "@{}", self.attempts)
    }
}

impl fmt::Debug for JournalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JournalKey({self:#})")
    }
}

impl FromStr for JournalKey {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (execution_id, attempts) = text.split_once('@').ok_or(IdError::KeyWithoutAttempts)?;
        Self::new(execution_id.parse()?, attempts.parse()?)
    }
}
