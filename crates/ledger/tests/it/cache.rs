//! The response cache: bounded by entries, by age and by bytes.

use std::sync::Arc;

use indelible_ledger::bounds::{CACHE_BYTES_MAX, CACHE_ENTRIES_MAX};
use indelible_ledger::cache::CacheKey;
use indelible_ledger::{Answer, Receipt, ResponseCache};

use crate::support::{Server, at, client, get, incarnation, json, sequence, set, single};

fn receipt(operations: Vec<indelible_ledger::Operation>) -> Arc<Receipt> {
    let mut server = Server::new();
    match server.send("a", 1, None, &single(operations)) {
        Answer::Fresh(receipt) => receipt,
        other => panic!("{other:?}"),
    }
}

fn number(number: u64) -> CacheKey {
    (incarnation(), client("a"), sequence(number))
}

/// 10,000 answers, and the oldest goes first.
#[test]
fn ten_thousand_answers() {
    let small = receipt(vec![set("n", json("1"))]);
    let mut cache = ResponseCache::default();
    let now = at(0);
    let count = CACHE_ENTRIES_MAX as u64;
    for sequence in 1..=count {
        cache.insert(number(sequence), small.clone(), now);
    }
    assert!((1..=count).all(|sequence| cache.get(&number(sequence), now).is_some()));
    cache.insert(number(count + 1), small, now);
    assert_eq!((cache.len(), cache.get(&number(1), now)), (CACHE_ENTRIES_MAX, None));
    assert!(cache.get(&number(2), now).is_some() && cache.get(&number(count + 1), now).is_some());
    let another = (indelible_ledger::Incarnation::from_bytes([8; 16]), client("a"), sequence(2));
    assert_eq!(cache.get(&another, now), None, "another life of the vault");
    cache.clear();
    assert!(cache.is_empty() && cache.bytes() == 0);
}

/// five minutes, to the microsecond, whatever the clock does.
#[test]
fn five_minutes() {
    let small = receipt(vec![set("n", json("1"))]);
    let mut cache = ResponseCache::default();
    let five = 300_000_000;
    cache.insert(number(1), small.clone(), at(1_000));
    assert!(cache.get(&number(1), at(1_000 + five - 1)).is_some());
    assert_eq!(cache.get(&number(1), at(1_000 + five)), None);
    assert!(cache.get(&number(1), at(0)).is_some(), "the clock was set back");
    cache.insert(number(2), small.clone(), at(1_000 + five));
    assert_eq!(cache.len(), 1, "what is old makes room");
    // What is inserted again counts from then, and leaves with its own age.
    cache.insert(number(2), small.clone(), at(2_000 + five));
    assert!(cache.get(&number(2), at(1_000 + five + five)).is_some());
    cache.insert(number(3), small, at(1_500 + five + five));
    assert_eq!(cache.len(), 2);
}

/// answers with values are bounded by bytes; one that is too large is not kept.
#[test]
fn bounded_by_bytes() {
    let value = format!("\"{}\"", "v".repeat(100_000));
    let large = receipt(vec![set("n", json(&value)), get("n")]);
    let mut cache = ResponseCache::default();
    for sequence in 1..=1_000 {
        cache.insert(number(sequence), large.clone(), at(0));
        assert!(cache.bytes() <= CACHE_BYTES_MAX);
    }
    assert!(cache.len() > 150 && cache.len() < 168, "{}", cache.len());
    assert!(cache.get(&number(1_000), at(0)).is_some());
    let mut tiny = ResponseCache::new(10, 50_000);
    tiny.insert(number(1), large, at(0));
    assert_eq!((tiny.len(), tiny.bytes()), (0, 0));
}
