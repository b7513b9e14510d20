//! What an execution can know of itself.

use crate::host;

/// What an execution can know of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Context {
    /// The id of this execution.
    pub execution_id: String,
    /// Which attempt at it this is, from 1.
    pub attempt: u32,
    /// The execution that called this one.
    pub parent_id: Option<String>,
    /// The name of the function.
    pub function: String,
}

/// This execution.
#[must_use]
pub fn context() -> Context {
    let host::ExecutionContext { execution_id, attempt, parent_id, function } = host::context();
    Context { execution_id, attempt, parent_id, function }
}
