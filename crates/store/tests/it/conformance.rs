//! The backends of this crate against the suite that every backend passes.
//!
//! `INDELIBLE_SEEDS=1000` runs what is random with so many seeds; `INDELIBLE_SEED=0x…` with the
//! one that a failure named.
#![allow(clippy::unwrap_used, reason = "what cannot be opened fails the test")]

use std::sync::Arc;

use indelible_store::Table;
use indelible_store::backend::Backend;
use indelible_store::embedded::{EmbeddedBackend, Options};
use indelible_store::memory::MemoryBackend;
use indelible_store_conformance::late::{Habits, LateServer};
use indelible_store_conformance::{Rng, Seeds, Subject, suite};
use tempfile::TempDir;

/// How many seeds are run unless told otherwise: a few seconds.
const SEEDS: u64 = 2;

#[expect(clippy::disallowed_methods, reason = "a test's own settings")]
fn seeds() -> Seeds {
    let setting = |name| std::env::var(name).ok();
    let (seed, seeds) = (setting("INDELIBLE_SEED"), setting("INDELIBLE_SEEDS"));
    Seeds::from_settings(seed.as_deref(), seeds.as_deref(), SEEDS)
}

/// Keeps nothing, but for as long as the subject lives.
#[derive(Default)]
struct Memory(Arc<MemoryBackend>);

impl Subject for Memory {
    fn open(&mut self, _tables: &[Table]) -> Arc<dyn Backend> {
        Arc::clone(&self.0) as _
    }
}

/// Late, and never quite there. The server outlives its writers.
struct Late(Arc<LateServer>);

impl Late {
    fn new() -> Self {
        // One for all seeds of a case: what the server does differs from that anyway, with the order
        // in which threads come to it.
        Self(LateServer::new(Habits::RESTLESS, Rng::new(0x1a7e)))
    }
}

impl Subject for Late {
    fn open(&mut self, _tables: &[Table]) -> Arc<dyn Backend> {
        Arc::new(self.0.connect())
    }
}

/// In a folder that goes with the subject.
struct Embedded {
    folder: TempDir,
    memtable_bytes: Option<u64>,
}

impl Embedded {
    fn new(memtable_bytes: Option<u64>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), memtable_bytes }
    }
}

impl Subject for Embedded {
    fn open(&mut self, tables: &[Table]) -> Arc<dyn Backend> {
        let mut options = Options::default();
        options.memtable_bytes = self.memtable_bytes;
        Arc::new(EmbeddedBackend::open(self.folder.path(), tables, &options).unwrap())
    }
}

suite!(memory, Memory::default(), &seeds());
suite!(late, Late::new(), &seeds());
suite!(embedded, Embedded::new(None), &seeds());
// Flushes and compactions all the time.
suite!(embedded_small_memtables, Embedded::new(Some(64 << 10)), &seeds());
