//! What a `traceparent` says, and span ids.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeSet;

use indelible_journal::{
    Attempt, Attempts, ComponentDigest, ExecutionId, JournalKey, RootHash, SpanId, TraceContext,
};
use proptest::prelude::*;

const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn root() -> ExecutionId {
    ExecutionId::root_of(RootHash::from_bytes(*ComponentDigest::of(b"a tree").as_bytes()))
}

fn attempts(numbers: &[u32]) -> Attempts {
    let numbers: Vec<_> = numbers.iter().map(|number| Attempt::new(*number).unwrap()).collect();
    Attempts::new(&numbers).unwrap()
}

#[test]
fn a_trace_parent_says_which_trace_and_where() {
    let context = TraceContext::parse(GOOD).unwrap();
    assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(context.parent().to_string(), "b7ad6b7169203331");
    assert!(context.is_sampled());
    assert_eq!(context.to_string(), GOOD);
    let not_sampled = TraceContext::parse(&GOOD.replace("-01", "-00")).unwrap();
    assert!(!not_sampled.is_sampled());
    // Unknown flags are not passed on; the two known ones are.
    let flags = TraceContext::parse(&GOOD.replace("-01", "-ff")).unwrap();
    assert!(flags.to_string().ends_with("-03"), "{flags}");
    // A later version may say more.
    let later = TraceContext::parse(&format!("cc{}-what-else", &GOOD[2..])).unwrap();
    assert_eq!(later, context);
}

#[test]
fn what_is_not_well_formed_says_nothing() {
    let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
    let zero_parent = GOOD.replace("b7ad6b7169203331", &"0".repeat(16));
    let bad = [
        String::new(),
        "00".to_owned(),
        format!("{GOOD}-"),
        format!("{GOOD}0"),
        format!("cc{}.what-else", &GOOD[2..]),
        format!("ff{}", &GOOD[2..]),
        GOOD.to_uppercase(),
        GOOD.replace('-', "_"),
        GOOD.replace("b7ad", "b7ag"),
        GOOD[1..].to_owned(),
        zero_trace,
        zero_parent,
        "ä".repeat(30),
    ];
    for text in bad {
        assert_eq!(TraceContext::parse(&text), None, "{text:?}");
    }
}

#[test]
fn caller_and_callee_agree_and_others_differ() {
    let call = root().child(3);
    let key = JournalKey::new(ExecutionId::new(call.clone()).unwrap(), attempts(&[2, 7])).unwrap();
    assert_eq!(SpanId::of_call(&key), Some(SpanId::of_step(&call, &attempts(&[2]))));
    assert_eq!(SpanId::of_call(&JournalKey::first(root())), None);
    let all = [
        SpanId::of_execution(&key),
        SpanId::of_execution(&key.next_attempt().unwrap()),
        SpanId::of_execution(&JournalKey::first(root())),
        SpanId::of_step(&call, &attempts(&[1])),
        SpanId::of_step(&call, &attempts(&[2])),
        SpanId::of_step(&root().child(4), &attempts(&[2])),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    // Other processes, and other versions, have to come to the same.
    assert_eq!(SpanId::of_step(&call, &attempts(&[2])).to_string(), "efd0a0af391b097c");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,80}") {
        let _ = TraceContext::parse(&text);
    }

    #[test]
    fn what_is_written_is_read(trace in 1u128.., parent in 1u64.., flags in 0u8..4) {
        let text = format!("00-{trace:032x}-{parent:016x}-{flags:02x}");
        let context = TraceContext::parse(&text);
        prop_assert_eq!(context.map(|context| context.to_string()), Some(text));
    }
}
