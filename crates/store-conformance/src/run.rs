//! Runs a case over seeds, and makes sure that a failure says which case and which seed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Rng, Subject};

/// One thing that is proved of a backend.
pub type Case = fn(&mut dyn Subject, Rng);

/// Where seeds begin unless told otherwise.
const FIRST: u64 = 0x1de1_1b1e;

/// Which seeds a case is run with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    count: u64,
}

impl Seeds {
    /// One seed, the usual first.
    pub fn first() -> Self {
        Self::many(1)
    }

    /// So many, from the usual first.
    pub fn many(count: u64) -> Self {
        Self { first: FIRST, count }
    }

    /// This one, to see a failure again.
    pub fn only(seed: u64) -> Self {
        Self { first: seed, count: 1 }
    }

    /// From the values of `INDELIBLE_SEED` (one seed, as a failure prints it) and
    /// `INDELIBLE_SEEDS` (how many); without both, `usual` many.
    ///
    /// # Panics
    ///
    /// If a value is not a number: running other seeds instead would mislead.
    pub fn from_settings(seed: Option<&str>, seeds: Option<&str>, usual: u64) -> Self {
        if let Some(seed) = seed {
            let digits = seed.trim_start_matches("0x");
            return Self::only(
                u64::from_str_radix(digits, 16).expect("INDELIBLE_SEED is a hexadecimal number"),
            );
        }
        Self::many(seeds.map_or(usual, |count| count.parse().expect("INDELIBLE_SEEDS is a number")))
    }
}

/// Runs a case with each seed, on a new subject each time.
///
/// # Panics
///
/// If the case fails, with its name, the seed and what it said.
pub fn check<S: Subject>(name: &str, case: Case, seeds: &Seeds, subject: impl Fn() -> S) {
    for seed in (0..seeds.count).map(|i| seeds.first.wrapping_add(i)) {
        let run = AssertUnwindSafe(|| case(&mut subject(), Rng::new(seed)));
        if let Err(panic) = catch_unwind(run) {
            let words = words(&*panic);
            panic!("{name}: {words}\nseed {seed:#x}: run with INDELIBLE_SEED={seed:#x}");
        }
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indelible_store::Table;
    use indelible_store::backend::Backend;
    use indelible_store::memory::MemoryBackend;

    use super::*;

    struct Empty;

    impl Subject for Empty {
        fn open(&mut self, _tables: &[Table]) -> Arc<dyn Backend> {
            Arc::new(MemoryBackend::new())
        }
    }

    /// A failure names the case, what went wrong, and the one seed that shows it again.
    #[test]
    fn failures_name_the_seed() {
        let fails: Case =
            |_, mut rng| assert_ne!(rng.number(), Rng::new(FIRST + 2).number(), "odd");
        check("fine", fails, &Seeds::many(2), || Empty);
        let failure = catch_unwind(|| check("broken", fails, &Seeds::many(3), || Empty));
        let failure = failure.unwrap_err();
        let said = words(&*failure);
        assert!(said.starts_with("broken: ") && said.contains("odd"), "{said}");
        assert!(said.ends_with("run with INDELIBLE_SEED=0x1de11b20"), "{said}");
    }

    /// The settings mean what a failure's message says.
    #[test]
    fn settings() {
        assert_eq!(Seeds::from_settings(None, None, 7), Seeds::many(7));
        assert_eq!(Seeds::from_settings(None, Some("1000"), 7), Seeds::many(1000));
        assert_eq!(Seeds::from_settings(Some("0xff"), Some("9"), 7), Seeds::only(255));
    }
}
