//! What the ledger reads of what is stored, and what it reads of changes that are not stored yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::names::EntityKey;
use crate::numbers::Sequence;
use crate::transaction::Receipt;
use crate::value::Entity;
use crate::vault::Change;

/// The entities of one vault.
pub trait Reads {
    /// Why a row could not be read.
    type Error;

    /// The entity under this key.
    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, Self::Error>;
}

/// What a client's stream needs beside: what its earlier numbers were answered.
pub trait SequenceReads: Reads {
    /// The receipt in the response cache.
    fn cached(&mut self, sequence: Sequence) -> Option<Arc<Receipt>>;

    /// The stored receipt, while the log is kept (C-44).
    fn receipt(&mut self, sequence: Sequence) -> Result<Option<Arc<Receipt>>, Self::Error>;
}

/// Changes on top of what is stored: a transaction sees those of the ones before it in its commit.
#[derive(Debug)]
pub struct Layer<'a, R> {
    below: &'a mut R,
    changed: BTreeMap<EntityKey, Option<Entity>>,
}

impl<'a, R> Layer<'a, R> {
    /// No changes yet.
    pub fn new(below: &'a mut R) -> Self {
        Self { below, changed: BTreeMap::new() }
    }

    /// From now on these are seen.
    pub fn add(&mut self, changes: &[Change]) {
        let changed = changes.iter().map(|change| (change.key.clone(), change.after.clone()));
        self.changed.extend(changed);
    }
}

impl<R: Reads> Reads for Layer<'_, R> {
    type Error = R::Error;

    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, R::Error> {
        match self.changed.get(key) {
            Some(entity) => Ok(entity.clone()),
            None => self.below.entity(key),
        }
    }
}

impl<R: SequenceReads> SequenceReads for Layer<'_, R> {
    fn cached(&mut self, sequence: Sequence) -> Option<Arc<Receipt>> {
        self.below.cached(sequence)
    }

    fn receipt(&mut self, sequence: Sequence) -> Result<Option<Arc<Receipt>>, R::Error> {
        self.below.receipt(sequence)
    }
}
