//! Ids as text and in order, and the root's hash as `docs/formats/ids.md` draws it.

use data_encoding::HEXLOWER;
use indelible_slots::Slot;
use proptest::collection::vec;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::names::{Namespace, OperationId, OperationKey};

const FORMAT: &str = include_str!("../../../../docs/formats/ids.md");

fn hash() -> RootHash {
    RootHash::from_bytes([0xab; 32])
}

fn operation(namespace: &str, operation_id: &str) -> OperationKey {
    OperationKey {
        namespace: Namespace::new(namespace).unwrap(),
        operation_id: OperationId::new(operation_id).unwrap(),
    }
}

fn execution(path: &[u32]) -> ExecutionId {
    ExecutionId::new(PromiseId::new(hash(), path).unwrap()).unwrap()
}

/// Segments of every width, often equal, so that neighbours and prefixes meet.
fn segment() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0_u32..3, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn promise() -> impl Strategy<Value = PromiseId> {
    let root = prop_oneof![Just([0xab; 32]), any::<[u8; 32]>()];
    let depth = prop_oneof![4 => 0..6_usize, 1 => Just(DEPTH_MAX)];
    (root, depth.prop_flat_map(|depth| vec(segment(), depth)))
        .prop_map(|(root, path)| PromiseId::new(RootHash::from_bytes(root), &path).unwrap())
}

fn attempt() -> impl Strategy<Value = Attempt> {
    prop_oneof![1_u32..4, 1..=u32::MAX].prop_map(|number| Attempt::new(number).unwrap())
}

fn key() -> impl Strategy<Value = JournalKey> {
    let executions = promise().prop_filter_map("an execution", |p| ExecutionId::new(p).ok());
    executions.prop_flat_map(|id| {
        vec(attempt(), id.depth() + 1).prop_map(move |attempts| {
            JournalKey::new(id.clone(), Attempts::new(&attempts).unwrap()).unwrap()
        })
    })
}

/// J-1, C-31: the worked examples of `docs/formats/ids.md`, made by hand from their parts.
#[test]
fn root_hashes_as_documented() {
    let digest = ComponentDigest::of(b"");
    let key = operation("shop", "order-1");
    let alone = RootHash::derive(&digest, None, &key);
    let mut preimage = b"indelible.root.v2\0".to_vec();
    preimage.extend(digest.as_bytes());
    preimage.extend([0]);
    let operation_bytes = b"\x04\0\0\0shop\x07\0\0\0order-1";
    preimage.extend(operation_bytes);
    assert_eq!(preimage.len(), 70);
    assert_eq!(alone, hashed(&preimage, key.slot()));
    let text = "74b1dd6df3b2d4849cdd457ba5a93b5426ec120c25e03ae2fa5510fb2a0b4716";
    assert_eq!(alone.to_string(), text);
    assert!(FORMAT.contains(text));

    let parent = execution(&[1, 258]);
    let started = RootHash::derive(&digest, Some(&parent), &key);
    let mut preimage = b"indelible.root.v2\0".to_vec();
    preimage.extend(digest.as_bytes());
    preimage.extend([1]);
    preimage.extend([0xab; 32]);
    preimage.extend([2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0]);
    preimage.extend(operation_bytes);
    assert_eq!(started, hashed(&preimage, key.slot()));
    assert_eq!((alone.slot(), started.slot()), (key.slot(), key.slot()));
    let text = "74b2b154d615dfc3be158ba83223f5d1f6072be4c9292a9d4d362c8b96ad45fd";
    assert_eq!(started.to_string(), text);
    assert!(FORMAT.contains(text));
}

/// The hash of these bytes, with the slot over its first 12 bits.
fn hashed(preimage: &[u8], slot: Slot) -> RootHash {
    let digits = HEXLOWER.encode(&Sha256::digest(preimage));
    format!("{slot}{}", &digits[3..]).parse().unwrap()
}

/// C-31: no part of a root's identity is lost between two others.
#[test]
fn root_hashes_differ() {
    let (one, two) = (ComponentDigest::of(b"one"), ComponentDigest::of(b"two"));
    let (root, child) = (execution(&[]), execution(&[0]));
    let hashes = [
        RootHash::derive(&one, None, &operation("a", "bc")),
        RootHash::derive(&two, None, &operation("a", "bc")),
        RootHash::derive(&one, None, &operation("ab", "c")),
        RootHash::derive(&one, Some(&root), &operation("a", "bc")),
        RootHash::derive(&one, Some(&child), &operation("a", "bc")),
    ];
    for (index, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..index].contains(hash));
    }
}

/// J-1, C-32: how ids are written, in full and for people.
#[test]
fn texts() {
    let full = "ab".repeat(32);
    let promise = PromiseId::new(hash(), &[0, 10, u32::MAX]).unwrap();
    assert_eq!(promise.to_string(), format!("{full}.0.10.4294967295"));
    assert_eq!(format!("{promise:#}"), "abababab.0.10.4294967295");
    assert_eq!(PromiseId::root_of(hash()).to_string(), full);
    assert_eq!(JoinSetId::at(promise.clone()).to_string(), promise.to_string());
    let attempts: Attempts = "1.2.300".parse().unwrap();
    let key = JournalKey::new(execution(&[0, 2]), attempts).unwrap();
    assert_eq!(key.to_string(), format!("{full}.0.2@1.2.300"));
    assert_eq!(format!("{key:#}"), "abababab.0.2@1.2.300");
    assert_eq!(ComponentDigest::from_bytes([0x0f; 32]).to_string(), "0f".repeat(32));
}

/// J-1: a hash has one spelling.
#[test]
fn bad_hashes_are_refused() {
    let good = "ab".repeat(32);
    assert!(good.parse::<RootHash>().is_ok());
    let upper = good.to_uppercase();
    for bad in ["", "ab", &good[1..], &format!("{good}0"), &upper, &good.replace('b', "g")] {
        assert_eq!(bad.parse::<RootHash>(), Err(IdError::Hash), "{bad}");
        assert_eq!(bad.parse::<ComponentDigest>(), Err(IdError::Hash), "{bad}");
        assert_eq!(bad.parse::<PromiseId>(), Err(IdError::Hash), "{bad}");
        assert_eq!(bad.parse::<JoinSetId>(), Err(IdError::Hash), "{bad}");
    }
    // 64 bytes, but not 64 digits.
    let wide = "ä".repeat(32);
    assert_eq!(wide.parse::<RootHash>(), Err(IdError::Hash));
}

/// J-1: a path has one spelling, and an end.
#[test]
fn bad_paths_are_refused() {
    let root = "ab".repeat(32);
    let parse = |path: &str| format!("{root}{path}").parse::<PromiseId>();
    assert!(parse(".0.1").is_ok());
    for bad in ["", "00", "01", "+1", "-1", "-0", " 1", "1 ", "1_0", "a", "4294967296", "٣"] {
        assert_eq!(parse(&format!(".{bad}")), Err(IdError::Segment(bad.into())), "{bad}");
        assert_eq!(parse(&format!(".{bad}.0")), Err(IdError::Segment(bad.into())), "{bad}");
    }
    let deepest = ".0".repeat(DEPTH_MAX);
    assert_eq!(parse(&deepest).unwrap().depth(), DEPTH_MAX);
    assert_eq!(parse(&format!("{deepest}.0")), Err(IdError::TooDeep));
    assert_eq!(parse(&deepest).unwrap().child(0), Err(IdError::TooDeep));
    assert_eq!(PromiseId::new(hash(), &[0; DEPTH_MAX + 1]), Err(IdError::TooDeep));
    // An execution can have children, so it is less deep than its promises.
    assert_eq!(format!("{root}{deepest}").parse::<ExecutionId>(), Err(IdError::TooDeep));
    assert!(format!("{root}{}", &deepest[2..]).parse::<ExecutionId>().is_ok());
    // What is hostile in a text is not repeated.
    let error = parse(&format!(".\u{1b}{}", "x".repeat(99))).unwrap_err();
    assert_eq!(error, IdError::Segment(format!("\u{fffd}{}", "x".repeat(15))));
}

/// C-32: a key has an attempt for each call down to its execution, and one spelling.
#[test]
fn bad_keys_are_refused() {
    let root = "ab".repeat(32);
    let parse = |rest: &str| format!("{root}{rest}").parse::<JournalKey>();
    assert!(parse(".0.2@1.1.1").is_ok());
    assert_eq!(parse(".0.2"), Err(IdError::KeyWithoutAttempts));
    for (attempts, text) in [(1, "1"), (2, "1.1"), (4, "1.1.1.1")] {
        let error = IdError::AttemptCount { attempts, depth: 2 };
        assert_eq!(parse(&format!(".0.2@{text}")), Err(error));
    }
    for bad in ["", "0", "00", "01", "+1", "-1", " 1", "x", "4294967296", "1@1"] {
        assert_eq!(parse(&format!("@{bad}")), Err(IdError::Attempt(bad.into())), "{bad}");
        assert_eq!(bad.parse::<Attempt>(), Err(IdError::Attempt(bad.into())), "{bad}");
    }
    assert_eq!(Attempts::new(&[]), None);
    let deepest = vec![Attempt::FIRST; DEPTH_MAX];
    assert!(Attempts::new(&deepest).is_some());
    let deeper = format!("1{}", ".1".repeat(DEPTH_MAX));
    assert_eq!(deeper.parse::<Attempts>(), Err(IdError::TooDeep));
}

proptest! {
    /// J-1, C-32: every id reads back from its text.
    #[test]
    fn round_trips(promise in promise(), key in key()) {
        prop_assert_eq!(promise.to_string().parse::<PromiseId>(), Ok(promise.clone()));
        let set = JoinSetId::at(promise.clone());
        prop_assert_eq!(set.to_string().parse::<JoinSetId>(), Ok(set));
        prop_assert_eq!(promise.root().to_string().parse::<RootHash>(), Ok(*promise.root()));
        let digest = ComponentDigest::from_bytes(*promise.root().as_bytes());
        prop_assert_eq!(digest.to_string().parse::<ComponentDigest>(), Ok(digest));
        prop_assert_eq!(key.to_string().parse::<JournalKey>(), Ok(key.clone()));
        let own = key.execution_id();
        prop_assert_eq!(own.to_string().parse::<ExecutionId>(), Ok(own.clone()));
        let attempts = key.attempts();
        prop_assert_eq!(attempts.to_string().parse::<Attempts>(), Ok(attempts.clone()));
    }

    /// J-1: a text that is an id is the id's own text: there is no second spelling.
    #[test]
    fn one_spelling(rest in "(\\.[0-9+]{0,3}){0,3}(@[0-9.]{1,5})?") {
        let text = format!("{}{rest}", "ab".repeat(32));
        if let Ok(promise) = text.parse::<PromiseId>() {
            prop_assert_eq!(promise.to_string(), text.clone());
        }
        if let Ok(key) = text.parse::<JournalKey>() {
            prop_assert_eq!(key.to_string(), text);
        }
    }

    /// J-2, J-3: a child's parent is whom it is a child of.
    #[test]
    fn children(promise in promise(), number in segment()) {
        let Ok(own) = ExecutionId::new(promise) else { return Ok(()) };
        let child = own.child(number);
        prop_assert_eq!(child.parent(), Some(own.clone()));
        prop_assert_eq!(child.number_in(&own), Some(number));
        prop_assert_eq!(own.as_promise().number_in(&own), None);
        prop_assert_eq!(child.execution_root(), ExecutionId::root_of(*own.root()));
    }

    /// J-1: in order, a parent comes right before its descendants, and they stay together: what
    /// lies between a parent and one of its descendants descends from it too.
    #[test]
    fn order_keeps_a_subtree_together(mut ids in vec(promise(), 1..40), more in vec(segment(), 0..4)) {
        // Descendants of one of them, so that there are some.
        let deeper = [ids[0].path(), &more].concat();
        ids.extend(PromiseId::new(*ids[0].root(), &deeper).ok());
        ids.extend(ids[0].parent().map(|parent| parent.as_promise().clone()));
        ids.sort();
        ids.dedup();
        let within = |id: &PromiseId, of: &PromiseId| {
            id.root() == of.root() && id.path().starts_with(of.path())
        };
        for (index, id) in ids.iter().enumerate() {
            let subtree = ids[index..].iter().take_while(|other| within(other, id)).count();
            let all = ids.iter().filter(|other| within(other, id)).count();
            prop_assert_eq!(subtree, all);
        }
    }

    /// C-32: keys of one execution stand together, its attempts in their order.
    #[test]
    fn order_of_keys(one in key(), two in key()) {
        let by_parts = one.execution_id().cmp(two.execution_id())
            .then_with(|| one.attempts().as_slice().cmp(two.attempts().as_slice()));
        prop_assert_eq!(one.cmp(&two), by_parts);
        if let Some(next) = one.next_attempt() {
            prop_assert!(one < next);
            prop_assert_eq!(next.execution_id(), one.execution_id());
        }
    }
}
