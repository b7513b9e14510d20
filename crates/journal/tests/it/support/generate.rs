//! Legal journals from a seed, and the illegal events that were tried on the way. Only the slow
//! checker decides which is which.

use std::collections::BTreeSet;

use indelible_journal::ids::DEPTH_MAX;
use indelible_journal::{Event, Record};

use super::checker;
use super::make::{Execution, foreign};
use super::propose::Proposer;
use indelible_test_support::Prng;

/// The shortest and the longest journal that is made.
pub(crate) const LENGTH: (usize, usize) = (5, 60);

/// A legal journal, and what it is of.
pub(crate) struct Generated {
    pub(crate) execution: Execution,
    pub(crate) journal: Vec<Record>,
    pub(crate) rejected: Vec<Rejected>,
}

/// An event that must not follow the first `at` events of the journal.
pub(crate) struct Rejected {
    pub(crate) at: usize,
    pub(crate) record: Record,
    /// Every rule that it would break.
    pub(crate) broken: BTreeSet<&'static str>,
}

/// How many more events are tried when the journal is as long as it shall be.
const PROPOSALS_AT_END: usize = 10;

pub(crate) fn generate(seed: u64) -> Generated {
    let mut rng = Prng::new(seed);
    let execution = any_execution(&mut rng);
    let length = LENGTH.0 + rng.index(LENGTH.1 - LENGTH.0 + 1);
    let ends = !rng.one_in(4);
    // Cancelling lasts: if every journal could be cancelled, most events would be in cleanups.
    let cancels_from = if rng.one_in(2) { rng.index(length) } else { length };
    let mut made = Generated { execution, journal: Vec::new(), rejected: Vec::new() };
    while made.journal.len() < length {
        let last = made.journal.len() + 1 == length;
        let first = made.journal.is_empty();
        let execution = &made.execution;
        let mut next = Proposer { rng: &mut rng, execution, before: &made.journal };
        let record = match (first, last && ends) {
            (true, _) => next.propose_first(),
            (false, true) => next.propose_terminal(),
            (false, false) => next.propose(),
        };
        let cancels = matches!(record.event, Event::CancelRequested { .. });
        let wanted = (last || !record.event.is_terminal())
            && (!cancels || made.journal.len() >= cancels_from);
        made.add(record, wanted);
    }
    for _ in 0..PROPOSALS_AT_END {
        let execution = &made.execution;
        let record = Proposer { rng: &mut rng, execution, before: &made.journal }.propose();
        made.add(record, false);
    }
    made
}

impl Generated {
    /// Keeps what is legal if it is wanted, and what is illegal in any case.
    fn add(&mut self, record: Record, wanted: bool) {
        let broken = checker::broken(&self.execution.key, &self.journal, &record);
        if !broken.is_empty() {
            self.rejected.push(Rejected { at: self.journal.len(), record, broken });
        } else if wanted {
            self.journal.push(record);
        }
    }
}

/// Roots, with and without an execution that started them, and calls at several depths.
fn any_execution(rng: &mut Prng) -> Execution {
    let own = u32::try_from(1 + rng.below(3)).expect("below 4");
    let depth = match rng.below(10) {
        0..3 => return Execution::root(None, own),
        3 => return Execution::root(Some(foreign()), own),
        4..7 => 1,
        7 => 2,
        8 => 3,
        // As deep as an execution may be: its children are as deep as an id may be.
        _ => DEPTH_MAX - 1,
    };
    let mut small = || u32::try_from(rng.below(3)).expect("below 3");
    let path: Vec<u32> = (0..depth).map(|_| small()).collect();
    let mut attempts: Vec<u32> = (0..depth).map(|_| 1 + small()).collect();
    attempts.push(own);
    Execution::child(&path, &attempts)
}
