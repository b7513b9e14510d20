//! How fjall is set up for our tables, and when it is behind. Figures are in
//! `docs/performance.md`.

use std::path::Path;
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, HashRatioPolicy,
    PinningPolicy, RestartIntervalPolicy,
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

/// A table's rows in memory before they are written out as a file.
const MEMTABLE_BYTES_KEPT: u64 = 32 * MIB;
/// Rows that come and go are written out early: what compaction drops, no scan walks over.
const MEMTABLE_BYTES_CHURN: u64 = 8 * MIB;

/// What is read from disk at once: a few rows of a journal, or one row that changes often.
const BLOCK_BYTES_KEPT: u32 = 16 << 10;
const BLOCK_BYTES_CHURN: u32 = 4 << 10;
const HASH_BYTES_PER_ROW: f32 = 1.3;
const RESTART_INTERVAL: u8 = 2;
const FILTER_BITS_PER_ROW: f32 = 10.0;

/// A commit waits while a table has so many memtables waiting to be written out; fjall itself
/// waits at 4, without an end if background work has failed.
const SEALED_MEMTABLES_MAX: usize = 2;
/// The same for the files that compaction has not sorted in yet; fjall waits at 30.
const FRESH_RUNS_MAX: usize = 24;

/// How an embedded store is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Whether a folder is made where there is none.
    pub create: Create,
    /// How much memory is used to keep what was read.
    pub cache_bytes: u64,
    /// How many threads flush and compact.
    pub workers: usize,
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
            workers: 1,
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
        .worker_threads(options.workers.max(1))
}

pub(super) fn keyspace(table: &Table, options: &Options) -> KeyspaceCreateOptions {
    let (memtable, block) = match table.shape() {
        Shape::Kept | Shape::Sought | Shape::Large => (MEMTABLE_BYTES_KEPT, BLOCK_BYTES_KEPT),
        Shape::Churn => (MEMTABLE_BYTES_CHURN, BLOCK_BYTES_CHURN),
    };
    let memtable = options.memtable_bytes.unwrap_or(memtable);
    let compaction = Leveled::default().with_table_target_size((2 * memtable).max(MIB));
    KeyspaceCreateOptions::default()
        .max_memtable_size(memtable)
        .compaction_strategy(Arc::new(compaction))
        .data_block_size_policy(BlockSizePolicy::all(block))
        // A row is found by its hash within a block, and few have to be read to get to it.
        .data_block_hash_ratio_policy(HashRatioPolicy::all(HASH_BYTES_PER_ROW))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(RESTART_INTERVAL))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
            BloomConstructionPolicy::BitsPerKey(FILTER_BITS_PER_ROW),
        )))
        // Whoever asks for a row that is there need not ask a filter first.
        .expect_point_read_hits(matches!(table.shape(), Shape::Kept | Shape::Large))
}

/// Whether the background has so much to do that the next commit should wait for it.
pub(super) fn is_behind(keyspace: &Keyspace) -> bool {
    keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX
        || keyspace.tree.l0_run_count() >= FRESH_RUNS_MAX
}
