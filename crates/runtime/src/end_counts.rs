//! How executions and attempts at effects ended, in numbers, since the engine was opened.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use indelible_http::End;
use indelible_journal::{FunctionName, Micros};
use indelible_records::executions::Standing;

/// How many functions are counted by name; all others are counted together. Each takes some twenty
/// time series, and those who deploy choose the names.
pub const COUNTED_FUNCTIONS_MAX: usize = 200;

/// What all functions without counters of their own are called, and any that has this name.
pub const OTHER_FUNCTIONS: &str = "other";

/// How an execution can end, in the order of [`FunctionEnds::outcomes`].
pub const OUTCOMES: [Standing; 4] =
    [Standing::Completed, Standing::Failed, Standing::Cancelled, Standing::Indeterminate];

/// The upper bounds of [`FunctionEnds::buckets`], in milliseconds: from one sync of the disk to a
/// week of waiting.
pub const BUCKETS_MS: [u64; 11] =
    [5, 25, 100, 500, 2_500, 10_000, 60_000, 600_000, 3_600_000, 86_400_000, 604_800_000];

/// How an attempt at an effect can end, by name.
const EFFECT_ENDS: [&str; 5] = ["answered", "too_large", "not_sent", "refused", "unknown"];

/// The counters. A worker that meets a function for the first time locks the list of functions for
/// itself; all others share it.
#[derive(Default)]
pub(crate) struct EndCounts {
    functions: RwLock<HashMap<FunctionName, Arc<FunctionCounters>>>,
    others: Arc<FunctionCounters>,
    effects: [AtomicU64; EFFECT_ENDS.len()],
}

#[derive(Default)]
struct FunctionCounters {
    outcomes: [AtomicU64; OUTCOMES.len()],
    /// One more than there are bounds: what took longer than the last.
    buckets: [AtomicU64; BUCKETS_MS.len() + 1],
    micros: AtomicU64,
}

/// How executions and attempts at effects ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndReadings {
    /// By function.
    pub functions: BTreeMap<FunctionName, FunctionEnds>,
    /// Those of functions that came when [`COUNTED_FUNCTIONS_MAX`] were known.
    pub others: FunctionEnds,
    /// Attempts at effects, by how they ended. An answer that came after the time was over is
    /// counted as unknown, and then as answered.
    pub effects: [(&'static str, u64); EFFECT_ENDS.len()],
}

/// How the executions of a function ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FunctionEnds {
    /// How many, by outcome ([`OUTCOMES`]).
    pub outcomes: [u64; OUTCOMES.len()],
    /// How many took at most as long as each of [`BUCKETS_MS`], and longer than the one before;
    /// behind them those that took longer than all.
    pub buckets: [u64; BUCKETS_MS.len() + 1],
    /// How long they took together, from the start of the first attempt at each.
    pub took: Micros,
}

impl EndCounts {
    /// An execution is over.
    pub(crate) fn execution_ended(&self, function: &FunctionName, end: Standing, took: Micros) {
        let counters = self.counters(function);
        if let Some(place) = OUTCOMES.iter().position(|outcome| *outcome == end) {
            counters.outcomes[place].fetch_add(1, Ordering::Relaxed);
        }
        let bucket = BUCKETS_MS.partition_point(|bound| took.get() > bound * 1_000);
        counters.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        counters.micros.fetch_add(took.get(), Ordering::Relaxed);
    }

    /// An attempt at an effect ended.
    pub(crate) fn attempt_ended(&self, end: &End) {
        let place = match end {
            End::Answered(_) => 0,
            End::TooLarge(_) => 1,
            End::NotSent { .. } => 2,
            End::Refused { .. } => 3,
            End::Unknown { .. } => 4,
        };
        self.effects[place].fetch_add(1, Ordering::Relaxed);
    }

    fn counters(&self, function: &FunctionName) -> Arc<FunctionCounters> {
        let known = self.functions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = known.get(function) {
            return Arc::clone(counters);
        }
        let is_full = known.len() >= COUNTED_FUNCTIONS_MAX;
        drop(known);
        if is_full || function.as_str() == OTHER_FUNCTIONS {
            return Arc::clone(&self.others);
        }
        let mut known = self.functions.write().unwrap_or_else(PoisonError::into_inner);
        // Another worker may have added the last one meanwhile.
        match known.len() < COUNTED_FUNCTIONS_MAX || known.contains_key(function) {
            true => Arc::clone(known.entry(function.clone()).or_default()),
            false => Arc::clone(&self.others),
        }
    }

    pub(crate) fn readings(&self) -> EndReadings {
        let known = self.functions.read().unwrap_or_else(PoisonError::into_inner);
        let effects = EFFECT_ENDS.iter().zip(&self.effects);
        let effects: Vec<_> = effects.map(|(end, count)| (*end, load(count))).collect();
        EndReadings {
            functions: known
                .iter()
                .map(|(function, counters)| (function.clone(), counters.readings()))
                .collect(),
            others: self.others.readings(),
            effects: effects.try_into().expect("there is a counter for each"),
        }
    }
}

impl FunctionCounters {
    fn readings(&self) -> FunctionEnds {
        FunctionEnds {
            outcomes: self.outcomes.each_ref().map(load),
            buckets: self.buckets.each_ref().map(load),
            took: Micros::new(load(&self.micros)),
        }
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many functions are counted by name, and the rest together; each end counts once, in the
    /// first bucket that is long enough.
    #[test]
    fn ends_are_counted() {
        let counts = EndCounts::default();
        let name = |number: usize| FunctionName::new(&format!("f{number}")).unwrap();
        let secs = [0, 0, 1, 700_000];
        for number in 0..COUNTED_FUNCTIONS_MAX + 2 {
            for (outcome, secs) in OUTCOMES.into_iter().zip(secs) {
                counts.execution_ended(&name(number), outcome, Micros::from_secs(secs));
            }
        }
        counts.execution_ended(&name(0), Standing::Completed, Micros::new(5_001));
        counts.attempt_ended(&End::Refused { why: String::new() });
        counts.attempt_ended(&End::Unknown { why: String::new(), timed_out: false });
        let EndReadings { functions, others, effects } = counts.readings();
        assert_eq!(functions.len(), COUNTED_FUNCTIONS_MAX);
        assert_eq!(others.outcomes, [2; OUTCOMES.len()]);
        assert_eq!(others.buckets, [4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(others.took, Micros::from_secs(2 * 700_001));
        let first = functions[&name(0)];
        assert_eq!((first.outcomes, first.buckets[..2].to_vec()), ([2, 1, 1, 1], vec![2, 1]));
        assert_eq!(effects.map(|(_, count)| count), [0, 0, 0, 1, 1]);
    }
}
