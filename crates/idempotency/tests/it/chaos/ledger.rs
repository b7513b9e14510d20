//! What clients were told, and whether the database agrees with it afterwards.

use std::collections::BTreeMap;

use crate::chaos::base::{Base, Note};

/// What all tasks of a load were told.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The one result of each key, as it was first acknowledged or replayed.
    results: BTreeMap<usize, String>,
    pub(crate) counts: Counts,
}

/// How often things happened: a load in which they do not happen shows nothing.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) visits: u64,
    pub(crate) acknowledged: u64,
    pub(crate) replayed: u64,
    pub(crate) mismatched: u64,
    pub(crate) collisions: u64,
    pub(crate) connections_lost: u64,
    pub(crate) crashes: u64,
    pub(crate) abandoned: u64,
    /// Rows of losers that were sent with a `COMMIT`, and those of which it was acknowledged.
    pub(crate) lost_sent: u64,
    pub(crate) lost_acknowledged: u64,
    pub(crate) forgotten: u64,
    pub(crate) refused: u64,
}

impl Ledger {
    /// A key has this result, for ever.
    pub(crate) fn result_is(&mut self, key: usize, result: &str) {
        let known = self.results.entry(key).or_insert_with(|| result.to_owned());
        assert_eq!(known, result, "key {key} has two results");
    }

    /// Compares the database with what was told: each key done exactly once, as it was told.
    pub(crate) async fn verify<B: Base>(&self, base: &B, keys: usize) {
        let mut effects: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, result) in base.notes(Note::Effect).await {
            effects.entry(key).or_default().push(result);
        }
        let mut records = BTreeMap::new();
        for (key, status, result) in base.records().await {
            assert_eq!(status, "committed", "{key} is left {status}");
            records.insert(key, result);
        }
        assert_eq!(records.len(), keys);
        assert_eq!(effects.len(), keys);
        for key in 0..keys {
            let told = self.results.get(&key).unwrap_or_else(|| panic!("key {key}: nobody knows"));
            let name = name(key);
            assert_eq!(effects[&name], std::slice::from_ref(told), "{name}: its effects");
            assert_eq!(records[&name].as_ref(), Some(told), "{name}: its record");
        }
        let lost = u64::try_from(base.notes(Note::Lost).await.len()).unwrap();
        let Counts { lost_acknowledged, lost_sent, .. } = self.counts;
        assert!((lost_acknowledged..=lost_sent).contains(&lost), "{lost} losers: {self:?}");
    }
}

/// The value of the key of this number.
pub(crate) fn name(key: usize) -> String {
    format!("key-{key}")
}
