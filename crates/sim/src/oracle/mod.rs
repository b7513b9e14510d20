//! The oracle: what a program may come to.
use indelible_journal::ExecutionId;

use crate::ledger::Ledger;
use crate::program::Program;
use crate::store::Stored;

/// Placeholder.
pub(crate) fn check(
    _program: &Program,
    _root: &ExecutionId,
    _tree: &[Stored],
    _ledger: &Ledger,
) -> Result<(), String> {
    Ok(())
}
