//! `PromiseId`: a position in a tree of calls.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use super::{ExecutionId, IdError, RootHash, excerpt, parse_u32};

/// How deep calls may nest. It bounds an id's size, and a runaway recursion long before
/// memory does (J-82).
pub const DEPTH_MAX: usize = 64;

/// Segments kept in place; deeper paths move to the heap.
pub(super) type Path = SmallVec<[u32; 4]>;

/// A position in the tree of calls: the root's hash, and the child number taken at each depth
/// (Dewey order, J-1).
///
/// The order puts a parent right before its descendants, and keeps a tree together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromiseId {
    root: RootHash,
    /// At most [`DEPTH_MAX`] segments.
    path: Path,
}

impl PromiseId {
    /// The id of a tree's root.
    pub fn root_of(root: RootHash) -> Self {
        Self { root, path: Path::new() }
    }

    /// An id from its parts.
    pub fn new(root: RootHash, path: &[u32]) -> Result<Self, IdError> {
        if path.len() > DEPTH_MAX {
            return Err(IdError::TooDeep);
        }
        Ok(Self { root, path: Path::from_slice(path) })
    }

    /// The hash that all of this tree shares.
    pub fn root(&self) -> &RootHash {
        &self.root
    }

    /// The child numbers from the root down.
    pub fn path(&self) -> &[u32] {
        &self.path
    }

    /// How many calls deep this is; the root is at 0.
    pub fn depth(&self) -> usize {
        self.path.len()
    }

    /// Whether this is a tree's root.
    pub fn is_root(&self) -> bool {
        self.path.is_empty()
    }

    /// The child at `number` (J-2, J-3).
    pub fn child(&self, number: u32) -> Result<Self, IdError> {
        if self.path.len() == DEPTH_MAX {
            return Err(IdError::TooDeep);
        }
        Ok(self.child_unchecked(number))
    }

    /// The same, for callers that know that the child is not too deep.
    pub(super) fn child_unchecked(&self, number: u32) -> Self {
        debug_assert!(self.path.len() < DEPTH_MAX);
        // A copy of the slice: cloning a path goes segment by segment.
        let mut path = Path::from_slice(&self.path);
        path.push(number);
        Self { root: self.root, path }
    }

    /// The execution to notify when this completes; none for a root (J-3).
    pub fn parent(&self) -> Option<ExecutionId> {
        let (_, path) = self.path.split_last()?;
        let parent = Self { root: self.root, path: Path::from_slice(path) };
        Some(ExecutionId::new(parent).expect("a parent is less deep than its child"))
    }

    /// The root of the tree that this belongs to (J-3). It leads to the tree, not to the journal:
    /// each call of a function has its own journal (see C-32).
    pub fn execution_root(&self) -> ExecutionId {
        ExecutionId::new(Self::root_of(self.root)).expect("a root is not deep")
    }

    /// This promise's number among the children of `execution`, if it is one.
    pub fn number_in(&self, execution: &ExecutionId) -> Option<u32> {
        let (number, path) = self.path.split_last()?;
        (path == execution.path() && self.root == *execution.root()).then_some(*number)
    }
}

/// `ROOT.0.1`; with `{:#}` only the first digits of the root, for people.
impl fmt::Display for PromiseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.root, f)?;
        self.path.iter().try_for_each(|segment| write!(f, ".{segment}"))
    }
}

impl fmt::Debug for PromiseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromiseId({self:#})")
    }
}

impl FromStr for PromiseId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut parts = text.split('.');
        let root = parts.next().unwrap_or_default().parse()?;
        let mut path = Path::new();
        for part in parts {
            if path.len() == DEPTH_MAX {
                return Err(IdError::TooDeep);
            }
            path.push(parse_u32(part).ok_or_else(|| IdError::Segment(excerpt(part)))?);
        }
        Ok(Self { root, path })
    }
}
