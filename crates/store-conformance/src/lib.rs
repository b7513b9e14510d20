//! The suite that every storage backend passes: the contract of [`Backend`], and of a
//! [`Store`](indelible_store::Store) over it, as cases that can be run against anything.
//!
//! A backend says how it is opened and asks for the suite; each case becomes a `#[test]`:
//!
//! ```text
//! struct Mine { folder: TempDir }
//!
//! impl Subject for Mine {
//!     fn open(&mut self, tables: &[Table]) -> Arc<dyn Backend> {
//!         Arc::new(MyBackend::open(self.folder.path(), tables).unwrap())
//!     }
//! }
//!
//! indelible_store_conformance::suite!(mine, Mine { folder: tempdir().unwrap() }, &seeds());
//! ```
//!
//! Everything random comes from one seed, which a failure names. Where threads race, the seed
//! gives the same operations, not the same interleaving.
#![allow(clippy::unwrap_used, reason = "a suite of tests: what cannot go on says so by a panic")]

pub mod cases;
mod compare;
mod gate;
mod generate;
pub mod late;
mod model;
mod rng;
mod run;

use std::sync::Arc;

use indelible_store::Table;
use indelible_store::backend::Backend;

pub use self::rng::Rng;
pub use self::run::{Case, Seeds, check};

/// A backend under test. Each case gets a new one.
pub trait Subject {
    /// Opens it with these tables. The first time it is empty; later it has whatever was committed
    /// before. The backend opened before has been dropped by then, not always after a
    /// [`close`](Backend::close).
    fn open(&mut self, tables: &[Table]) -> Arc<dyn Backend>;
}

/// One `#[test]` for each case, in a module with the backend's name: the name, an expression for a
/// new [`Subject`], and one for the [`Seeds`].
#[macro_export]
macro_rules! suite {
    ($backend:ident, $subject:expr, $seeds:expr) => {
        mod $backend {
            #[allow(unused_imports, reason = "what the two expressions need")]
            use super::*;

            $crate::suite!(@tests $subject, $seeds,
                random_operations
                refusals_say_what_and_change_nothing
                snapshots_show_one_position_each
                a_long_lived_snapshot_stays_as_it_is
                one_append_wins_each_length
                pages_give_each_row_once
                rows_that_stay_are_seen_once
                a_commit_shows_whole_or_not_at_all
                backend_reads_agree_with_the_model
            );
            // These cases draw too little at random for a second seed.
            $crate::suite!(@tests $subject, &$crate::Seeds::first(),
                a_stale_look_decides_nothing
                a_scan_goes_on_within_its_range
                bounds_hold_at_their_edges
                waiting_is_bounded_at_its_edges
                the_largest_batches_go_through
                commits_need_no_close
                unknown_tables_are_refused
                tables_come_and_go
            );
        }
    };
    (@tests $subject:expr, $seeds:expr, $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::check(stringify!($case), $crate::cases::$case, $seeds, || $subject);
            }
        )*
    };
}
