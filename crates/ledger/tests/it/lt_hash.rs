//! The state hash against another implementation of its construction, and against known answers that
//! a program in another language computed (`vectors/lt_hash.py`).

use indelible_ledger::proof::LtHash;
use indelible_ledger::{EntityKey, EntitySummary, StateHash};
use proptest::prelude::*;
use serde::Deserialize;

use crate::golden::summaries;
use crate::support::key;

#[derive(Deserialize)]
struct Vectors {
    /// The state hash of nothing.
    empty: String,
    /// The state hash after each of [`summaries`] is added under its name.
    added: Vec<String>,
    /// The state hash after the first is removed again.
    removed: String,
    /// The first bytes of the lanes then.
    lanes: String,
}

/// The bytes that are hashed, and the lanes, are those of the description in `docs/formats/ledger.md`.
#[test]
fn known_answers() {
    let vectors: Vectors =
        serde_json::from_str(include_str!("../../vectors/lt_hash.json")).unwrap();
    let hash = |text: &str| text.parse::<StateHash>().unwrap();
    let mut state = LtHash::default();
    assert_eq!(state.digest(), hash(&vectors.empty));
    let summaries = summaries();
    assert_eq!(summaries.len(), vectors.added.len());
    for ((key, summary), expected) in summaries.iter().zip(&vectors.added) {
        state.add(key, summary);
        assert_eq!(state.digest(), hash(expected), "{key}");
    }
    let (key, summary) = &summaries[0];
    state.remove(key, summary);
    assert_eq!(state.digest(), hash(&vectors.removed));
    let lanes = data_encoding::HEXLOWER.encode(&state.to_bytes()[..32]);
    assert_eq!(lanes, vectors.lanes);
    assert_eq!(LtHash::from_bytes(&state.to_bytes()), Some(state));
    assert_eq!(LtHash::from_bytes(&[0; 2047]), None);
}

proptest! {
    /// The order does not matter, and what is added and removed leaves nothing.
    #[test]
    fn order_does_not_matter(order in Just((0..8).collect::<Vec<usize>>()).prop_shuffle()) {
        let elements: Vec<(EntityKey, EntitySummary)> = (0..8)
            .map(|n| (key(&format!("k{}", n % 3)), summaries()[n % summaries().len()].1.clone()))
            .collect();
        let mut forward = LtHash::default();
        elements.iter().for_each(|(key, summary)| forward.add(key, summary));
        let mut shuffled = LtHash::default();
        order.iter().for_each(|at| shuffled.add(&elements[*at].0, &elements[*at].1));
        prop_assert_eq!(&forward, &shuffled);
        elements.iter().for_each(|(key, summary)| shuffled.remove(key, summary));
        prop_assert_eq!(shuffled, LtHash::default());
    }
}
