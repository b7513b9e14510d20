//! The cases, each saying what it proves.

mod appends;
mod backend;
mod bounds;
mod paging;
mod random;
mod refusals;
mod snapshots;
mod tables;

pub use self::appends::one_append_wins_each_length;
pub use self::backend::{
    a_commit_shows_whole_or_not_at_all, backend_reads_agree_with_the_model, commits_need_no_close,
};
pub use self::bounds::{
    bounds_hold_at_their_edges, the_largest_batches_go_through, waiting_is_bounded_at_its_edges,
};
pub use self::paging::{
    a_scan_goes_on_within_its_range, pages_give_each_row_once, rows_that_stay_are_seen_once,
};
pub use self::random::random_operations;
pub use self::refusals::{a_stale_look_decides_nothing, refusals_say_what_and_change_nothing};
pub use self::snapshots::{a_long_lived_snapshot_stays_as_it_is, snapshots_show_one_position_each};
pub use self::tables::{tables_come_and_go, unknown_tables_are_refused};
