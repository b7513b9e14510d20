//! The response cache: what committed numbers were answered, for a while, in memory only. It
//! saves reads; no answer depends on it (C-44).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use indelible_journal::{Micros, Timestamp};

use crate::bounds::{CACHE_BYTES_MAX, CACHE_ENTRIES_MAX, CACHE_SECONDS};
use crate::names::ClientId;
use crate::numbers::{Incarnation, Sequence};
use crate::transaction::Receipt;

/// A number of a client in a scope. The incarnation is in it, so that a vault which is made again
/// meets none of its predecessor's answers (C-47).
pub type CacheKey = (Incarnation, ClientId, Sequence);

/// Answers by number (impl Q-3): bounded by entries, by bytes and by age. The oldest goes first.
#[derive(Debug)]
pub struct ResponseCache {
    entries: BTreeMap<CacheKey, Entry>,
    /// In the order in which they came. An entry that was replaced stands here twice; its number says
    /// which one counts.
    order: VecDeque<(u64, CacheKey)>,
    next_number: u64,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry {
    receipt: Arc<Receipt>,
    since: Timestamp,
    number: u64,
    bytes: usize,
}

impl Default for ResponseCache {
    fn default() -> Self {
        Self::new(CACHE_ENTRIES_MAX, CACHE_BYTES_MAX)
    }
}

impl ResponseCache {
    const AGE_MAX: Micros = Micros::from_secs(CACHE_SECONDS);
    /// What an entry takes beside its receipt: key, queue and tree.
    const ENTRY_BYTES: usize = 256;

    /// An empty cache.
    pub fn new(entries_max: usize, bytes_max: usize) -> Self {
        let (entries, order) = (BTreeMap::new(), VecDeque::new());
        Self { entries, order, next_number: 0, bytes: 0, entries_max, bytes_max }
    }

    /// What this number was answered, if that is less than five minutes ago.
    pub fn get(&self, key: &CacheKey, now: Timestamp) -> Option<Arc<Receipt>> {
        let entry = self.entries.get(key)?;
        let is_young = now.saturating_since(entry.since) < Self::AGE_MAX;
        is_young.then(|| entry.receipt.clone())
    }

    /// Keeps an answer. One that is larger than the whole cache is not kept.
    pub fn insert(&mut self, key: CacheKey, receipt: Arc<Receipt>, now: Timestamp) {
        let bytes = receipt.bytes() + key.1.as_str().len() + Self::ENTRY_BYTES;
        if bytes > self.bytes_max {
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.order.push_back((number, key.clone()));
        self.bytes += bytes;
        let entry = Entry { receipt, since: now, number, bytes };
        if let Some(replaced) = self.entries.insert(key, entry) {
            self.bytes -= replaced.bytes;
        }
        while let Some((number, key)) = self.order.front() {
            let entry = self.entries.get(key).filter(|entry| entry.number == *number);
            let is_full = self.entries.len() > self.entries_max || self.bytes > self.bytes_max;
            let is_old =
                entry.is_some_and(|entry| now.saturating_since(entry.since) >= Self::AGE_MAX);
            if entry.is_some() && !is_full && !is_old {
                break;
            }
            if let Some(Entry { bytes, .. }) = entry {
                self.bytes -= bytes;
                self.entries.remove(key);
            }
            self.order.pop_front();
        }
    }

    /// Forgets everything: what was cached and not durable was lost.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.bytes = 0;
    }

    /// How many answers it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Roughly how many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
