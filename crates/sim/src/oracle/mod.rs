//! The oracle: what a program may come to, computed without the engine.
//!
//! Races, times, crashes and cancels make many outcomes legal. So the oracle is guided: a plain
//! interpreter of the program ([`interpret`]) takes what was free to vary from the journals
//! ([`recorded`], [`guided`]), computes everything else, and compares. Where nothing was free to
//! vary, the outcome is computed without any guidance, too ([`unguided`]).

mod guided;
mod interpret;
mod recorded;
mod unguided;

use indelible_journal::{ExecutionId, Micros};

use self::guided::{Tree, outcome};
use crate::ledger::{Ledger, Word};
use crate::program::Program;
use crate::store::StoredJournal;

/// How an outcome was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Something was free to vary.
    Guided,
    /// Nothing was free to vary.
    Unguided,
}

/// Whether its program can lead to this tree. `cleanup_max`: how long cleaning up may take; `None`
/// if the clock was set back.
pub(crate) fn check(
    program: &Program,
    root: &ExecutionId,
    tree: &[StoredJournal],
    ledger: &Ledger,
    cleanup_max: Option<Micros>,
) -> Result<Judgement, String> {
    let tree = Tree::read(tree, ledger, cleanup_max)?;
    let computed = tree.root(root, program.function, &program.steps)?;
    for ending in ledger.endings.get(root).into_iter().flatten() {
        let shown = outcome(ending);
        ensure!(shown == computed, "it comes to {computed:?}, and {shown:?} was shown");
    }
    let cancelled = ledger
        .cancels
        .iter()
        .any(|cancel| cancel.id.root() == root.root() && cancel.word != Word::Refused);
    if cancelled {
        return Ok(Judgement::Guided);
    }
    match unguided::outcome(program.function, &program.steps) {
        None => Ok(Judgement::Guided),
        Some(expected) => {
            let fits = unguided::fits(&expected, &computed);
            ensure!(fits, "it can only come to {expected:?}, and came to {computed:?}");
            Ok(Judgement::Unguided)
        }
    }
}
