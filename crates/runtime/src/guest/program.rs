//! Loaded programs: one for each component, compiled or mapped once, shared by all its guests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use indelible_journal::ComponentDigest;
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, TypedFunc};

use super::guests::Guests;
use super::interface::{DESCRIBE, RUN};
use super::state::State;
use super::wire::{DescribeParams, DescribeReturn, RunParams, RunReturn};

/// A component, loaded and linked: ready to be started. It stays loaded while it is held.
pub struct Program {
    digest: ComponentDigest,
    pub(super) pre: InstancePre<State>,
    describe: ComponentExportIndex,
    run: ComponentExportIndex,
}

impl Program {
    pub(super) fn new(
        guests: &Guests,
        digest: ComponentDigest,
        component: &Component,
    ) -> wasmtime::Result<Self> {
        let export = |name: &str| {
            component
                .get_export_index(None, name)
                .ok_or_else(|| wasmtime::Error::msg(format!("it does not export `{name}`")))
        };
        let (describe, run) = (export(DESCRIBE)?, export(RUN)?);
        let pre = guests.linker.instantiate_pre(component)?;
        Ok(Self { digest, pre, describe, run })
    }

    /// Which component it is.
    pub fn digest(&self) -> ComponentDigest {
        self.digest
    }

    pub(super) fn describe(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> wasmtime::Result<TypedFunc<DescribeParams, DescribeReturn>> {
        instance.get_typed_func(store, self.describe)
    }

    pub(super) fn run(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> wasmtime::Result<TypedFunc<RunParams, RunReturn>> {
        instance.get_typed_func(store, self.run)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({:#})", self.digest)
    }
}

/// Why a program was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError<E> {
    /// Its bytes could not be read.
    #[error("cannot load the component {digest:#}")]
    Bytes {
        /// Which component.
        digest: ComponentDigest,
        /// Why.
        #[source]
        source: E,
    },
    /// The bytes are of another component.
    #[error("the stored component {digest:#} has the digest {found:#}")]
    Digest {
        /// Which component was wanted.
        digest: ComponentDigest,
        /// The digest of the bytes.
        found: ComponentDigest,
    },
    /// This server cannot run it. A component that was deployed can be run, unless this server has
    /// another version of the contract than the one that it was deployed on.
    #[error("the component {digest:#} cannot be run by this server: {reason}")]
    Unfit {
        /// Which component.
        digest: ComponentDigest,
        /// Why.
        reason: String,
    },
}

impl Guests {
    /// The program with this digest: from memory, else from its kept artifact, else compiled from
    /// `bytes`. Several threads that want the same one compile it once. It may take seconds.
    pub fn load<E>(
        &self,
        digest: ComponentDigest,
        bytes: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Arc<Program>, LoadError<E>> {
        let loaded = self.load_into(&self.programs.entry(digest), digest, bytes);
        if loaded.is_err() {
            self.programs.remove_empty(digest);
        }
        loaded
    }

    fn load_into<E>(
        &self,
        entry: &ProgramEntry,
        digest: ComponentDigest,
        bytes: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Arc<Program>, LoadError<E>> {
        let mut loaded = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*loaded {
            return Ok(program.clone());
        }
        let unfit =
            |error: wasmtime::Error| LoadError::Unfit { digest, reason: format!("{error:#}") };
        let component = match self.mapped(digest) {
            Some(component) => component,
            None => {
                let bytes = bytes().map_err(|source| LoadError::Bytes { digest, source })?;
                let found = ComponentDigest::of(&bytes);
                if found != digest {
                    return Err(LoadError::Digest { digest, found });
                }
                let component = self.compile(&bytes).map_err(unfit)?;
                self.keep(digest, &component);
                component
            }
        };
        let program = Arc::new(Program::new(self, digest, &component).map_err(unfit)?);
        *loaded = Some(program.clone());
        Ok(program)
    }

    /// Drops a program and its artifact. Guests that run it go on.
    pub fn forget(&self, digest: ComponentDigest) {
        self.programs.remove(digest);
        self.artifacts.remove(digest);
    }
}

pub(super) type ProgramEntry = Arc<Mutex<Option<Arc<Program>>>>;

/// The loaded programs, up to a number; the least recently used is dropped first.
pub(super) struct Programs {
    max: usize,
    table: Mutex<ProgramTable>,
}

#[derive(Default)]
struct ProgramTable {
    by_digest: HashMap<ComponentDigest, (u64, ProgramEntry)>,
    /// Counts uses: the clock for which program is dropped first.
    wanted: u64,
}

impl Programs {
    pub(super) fn new(max: usize) -> Self {
        Self { max: max.max(1), table: Mutex::default() }
    }

    /// The entry of a program, loaded or not. The thread that loads the program holds the entry's
    /// lock meanwhile: others wait for that, and not for the whole table.
    pub(super) fn entry(&self, digest: ComponentDigest) -> ProgramEntry {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.wanted += 1;
        let wanted = table.wanted;
        let (used, entry) = table.by_digest.entry(digest).or_default();
        *used = wanted;
        let entry = entry.clone();
        if table.by_digest.len() > self.max {
            let oldest = table.by_digest.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                table.by_digest.remove(&oldest);
            }
        }
        entry
    }

    /// A program that is loaded, not one that is being loaded.
    pub(super) fn get(&self, digest: ComponentDigest) -> Option<Arc<Program>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, entry) = table.by_digest.get(&digest)?;
        entry.try_lock().ok().and_then(|program| program.clone())
    }

    /// Removes an entry whose load failed: it must not cost another program its place.
    pub(super) fn remove_empty(&self, digest: ComponentDigest) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = |entry: &ProgramEntry| entry.try_lock().is_ok_and(|program| program.is_none());
        if table.by_digest.get(&digest).is_some_and(|(_, entry)| empty(entry)) {
            table.by_digest.remove(&digest);
        }
    }

    fn remove(&self, digest: ComponentDigest) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.by_digest.remove(&digest);
    }

    pub(super) fn loaded(&self) -> usize {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        // The entry of a program that is being loaded is locked, and counts.
        let loaded =
            |entry: &ProgramEntry| entry.try_lock().map_or(true, |program| program.is_some());
        table.by_digest.values().filter(|(_, entry)| loaded(entry)).count()
    }
}
