//! How fjall is set up for our tables, and when it is behind. Figures are in
//! `docs/performance.md`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, HashRatioPolicy,
    PartitioningPolicy, PinningPolicy, RestartIntervalPolicy,
};
use fjall::{
    AbstractTree as _, CompressionType, Database, DatabaseBuilder, Keyspace, KeyspaceCreateOptions,
};

use super::folder::Create;
use crate::bounds::Bounds;
use crate::table::{Shape, Table};

const MIB: u64 = 1 << 20;

/// All journals together. Opening replays what is not flushed, so this bounds how long it takes.
const JOURNALS_BYTES_MAX: u64 = 64 * MIB;

/// A table's rows in memory before they are written out as a file. Each file costs syncs that
/// commits have to wait for, so there should be few; what is in memory has to be replayed after a
/// crash, so it should not be much.
const MEMTABLE_BYTES_KEPT: u64 = 64 * MIB;
/// Tables whose rows come and go are flushed earlier: scans need not walk over deletes that
/// compaction has dropped.
const MEMTABLE_BYTES_CHURN: u64 = 32 * MIB;

/// What is read from disk at once: a few rows of a journal, or one row that changes often.
const BLOCK_BYTES_KEPT: u32 = 16 << 10;
const BLOCK_BYTES_CHURN: u32 = 4 << 10;
const HASH_BYTES_PER_ROW: f32 = 1.3;
const RESTART_INTERVAL: u8 = 2;
const FILTER_BITS_PER_ROW: f32 = 10.0;

/// While a table has so many memtables waiting to be written out, a commit waits; fjall itself
/// waits at 4, without an end if background work has failed.
const SEALED_MEMTABLES_MAX: usize = 3;
/// The same for files that compaction has not sorted in yet; fjall waits at 30.
const FRESH_RUNS_MAX: usize = 24;
/// From here on commits are slowed down, the more the further behind the background is: many
/// short waits instead of a long one.
const FRESH_RUNS_MANY: usize = 10;
const SLOWDOWN: Duration = Duration::from_micros(500);

/// So many files of flushes are sorted in together; each level is so much larger than the one
/// above.
const FRESH_FILES: u8 = 4;
const LEVEL_RATIO: f32 = 10.0;

/// Thresholds that fjall's own compaction never reaches, so that it does nothing.
const NEVER_RUNS: u8 = u8::MAX;
const NEVER_BYTES: u64 = 1 << 40;

/// How an embedded store is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Whether a folder is made where there is none.
    pub create: Create,
    /// How much memory is used to keep what was read.
    pub cache_bytes: u64,
    /// How large a table's part in memory grows before it is written to a file; unless set, by
    /// the table's shape. Small ones make tests meet flushes and compactions early.
    pub memtable_bytes: Option<u64>,
    /// The pipeline's bounds.
    pub bounds: Bounds,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create: Create::IfMissing,
            cache_bytes: 256 * MIB,
            memtable_bytes: None,
            bounds: Bounds::DEFAULT,
        }
    }
}

pub(super) fn database(path: &Path, options: &Options) -> DatabaseBuilder<Database> {
    Database::builder(path)
        .cache_size(options.cache_bytes)
        .max_journaling_size(JOURNALS_BYTES_MAX)
        .journal_compression(CompressionType::None)
        // For flushes alone: see `upkeep`.
        .worker_threads(1)
}

/// How large a table's memtable may grow.
pub(super) fn memtable_bytes(table: &Table, options: &Options) -> u64 {
    options.memtable_bytes.unwrap_or(match table.shape() {
        Shape::Kept | Shape::Sought | Shape::Large => MEMTABLE_BYTES_KEPT,
        Shape::Churn => MEMTABLE_BYTES_CHURN,
    })
}

/// How a table's files are kept sorted.
pub(super) fn compaction(table: &Table, options: &Options) -> Leveled {
    Leveled::default()
        .with_l0_threshold(FRESH_FILES)
        .with_level_ratio_policy(vec![LEVEL_RATIO])
        .with_table_target_size(memtable_bytes(table, options).max(MIB))
}

/// The same when there is time: no file is left that is not sorted in. The levels below the first
/// are as large as otherwise.
pub(super) fn idle_compaction(table: &Table, options: &Options) -> Leveled {
    let ratios = vec![LEVEL_RATIO * f32::from(FRESH_FILES), LEVEL_RATIO];
    compaction(table, options).with_l0_threshold(1).with_level_ratio_policy(ratios)
}

/// What fjall is told about a table when it is made, and remembers.
pub(super) fn keyspace(table: &Table) -> KeyspaceCreateOptions {
    let block = match table.shape() {
        Shape::Kept | Shape::Sought | Shape::Large => BLOCK_BYTES_KEPT,
        Shape::Churn => BLOCK_BYTES_CHURN,
    };
    let never = Leveled::default().with_l0_threshold(NEVER_RUNS);
    KeyspaceCreateOptions::default()
        // Rotated by us: fjall would ask its worker at every commit, and stops for good when the
        // worker's queue is full.
        .max_memtable_size(u64::MAX)
        .compaction_strategy(Arc::new(never.with_table_target_size(NEVER_BYTES)))
        .data_block_size_policy(BlockSizePolicy::all(block))
        // Finds a row in a block by its hash, with few rows to read on the way.
        .data_block_hash_ratio_policy(HashRatioPolicy::all(HASH_BYTES_PER_ROW))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(RESTART_INTERVAL))
        // A whole index for each file, in memory: about 4 MiB for each GiB of rows. In parts,
        // every read would have to find the part first.
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
            BloomConstructionPolicy::BitsPerKey(FILTER_BITS_PER_ROW),
        )))
        // Readers of these tables ask for rows that exist, so a filter would only cost time.
        .expect_point_read_hits(matches!(table.shape(), Shape::Kept | Shape::Large))
}

/// What a commit to a table has to do first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitCost {
    /// Nothing.
    There,
    /// Wait so long.
    Scarce(Duration),
    /// Wait until the background has caught up.
    None,
}

/// How far the background is behind with a table.
pub(super) fn room(keyspace: &Keyspace) -> CommitCost {
    let runs = keyspace.tree.l0_run_count();
    if keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX || runs >= FRESH_RUNS_MAX {
        CommitCost::None
    } else if runs > FRESH_RUNS_MANY {
        let over = u32::try_from(runs - FRESH_RUNS_MANY).unwrap_or(u32::MAX);
        CommitCost::Scarce(SLOWDOWN.saturating_mul(over))
    } else {
        CommitCost::There
    }
}
