//! Arbitrary parts of events: numbers, texts, payloads, policies. The larger are boxed: a strategy
//! contains all its parts, and would not fit the stack of a test.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::*;

/// Numbers of every length on disk, not mostly the longest.
pub(super) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0_u64..4,
        4 => (0_u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits),
        1 => Just(u64::MAX),
    ]
}

pub(super) fn number_u32() -> impl Strategy<Value = u32> {
    number()
        .prop_map(|value| u32::try_from(value >> 32).unwrap_or(u32::MAX))
        .prop_flat_map(|wide| prop_oneof![3 => 0_u32..300, 1 => Just(wide)])
}

pub(super) fn micros() -> impl Strategy<Value = Micros> {
    number().prop_map(Micros::new)
}

pub(super) fn timestamp() -> impl Strategy<Value = Timestamp> {
    number().prop_map(|micros| Timestamp::EPOCH.saturating_add(Micros::new(micros)))
}

pub(super) fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z0-9 ]{0,20}", ".{0,20}", any::<String>()]
}

/// Any text that is a name: short and long, with quotes, backslashes, blanks at the edges and
/// letters of all sizes.
pub(super) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        "[a-zäß漢][a-z0-9 ./äß漢-]{0,40}",
        "x{255}",
        r#"[ a-z"\\/{}éλ🦀\u{202e}]{0,12}[a-z_]"#,
    ]
}

pub(super) fn function() -> impl Strategy<Value = FunctionName> {
    name().prop_map(|name| FunctionName::new(&name).unwrap())
}

pub(super) fn signal() -> impl Strategy<Value = SignalName> {
    name().prop_map(|name| SignalName::new(&name).unwrap())
}

pub(super) fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![vec(any::<u8>(), 0..8), vec(any::<u8>(), 0..300)].prop_map(Bytes::from)
}

/// What an export has to keep: JSON that can stand in a line, and JSON that cannot.
const JSON: [&str; 23] = [
    "null",
    "true",
    "\"\"",
    "0",
    "-0.0",
    "1E400",
    "[]",
    "{}",
    "\"\\ud800\"",
    "\"é\\n\\u0000\"",
    " 1",
    "1 ",
    "{\"a\": 1, \"a\": 2}",
    "[1,\n2]",
    "[1,\r2]",
    "{",
    "",
    "nul",
    "1 2",
    "\"a\tb\"",
    "\u{feff}1",
    "[[[[[[]]]]]]",
    "{\"v\":1}",
];

/// JSON, text, and bytes that are neither, under every codec.
pub(super) fn payload() -> BoxedStrategy<Payload> {
    let deep = (0_usize..400).prop_map(|n| Bytes::from(["[".repeat(n), "]".repeat(n)].concat()));
    let bytes = prop_oneof![
        select(&JSON[..]).prop_map(|text| Bytes::from_static(text.as_bytes())),
        any::<String>().prop_map(Bytes::from),
        deep,
        bytes(),
    ];
    let named = select(vec![Codec::JSON, Codec::TEXT]);
    let codec = prop_oneof![
        named,
        (0_u8..8).prop_map(Codec::from_number),
        any::<u8>().prop_map(Codec::from_number)
    ];
    (codec, bytes).prop_map(|(codec, bytes)| Payload { codec, bytes }).boxed()
}

pub(super) fn failure() -> impl Strategy<Value = Box<Failure>> {
    (select(&ErrorKind::ALL[..]), text(), option::of(payload()))
        .prop_map(|(kind, message, detail)| Box::new(Failure { kind, message, detail }))
}

pub(super) fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![payload().prop_map(Outcome::Ok), failure().prop_map(Outcome::Err)]
}

pub(super) fn attempt() -> impl Strategy<Value = Attempt> {
    number_u32().prop_map(|number| Attempt::new(number).unwrap_or(Attempt::FIRST))
}

pub(super) fn delivery() -> impl Strategy<Value = DeliveryId> {
    number().prop_map(|number| DeliveryId::new(number).unwrap_or(DeliveryId::FIRST))
}

pub(super) fn digest() -> impl Strategy<Value = ComponentDigest> {
    any::<[u8; 32]>().prop_map(ComponentDigest::from_bytes)
}

pub(super) fn policy() -> BoxedStrategy<Arc<RetryPolicy>> {
    let class = select(vec![
        RetryClass { durability: Durability::Persist, idempotency: Idempotency::NonIdem },
        RetryClass { durability: Durability::Persist, idempotency: Idempotency::Idem },
        RetryClass { durability: Durability::Volatile, idempotency: Idempotency::NonIdem },
        RetryClass { durability: Durability::Volatile, idempotency: Idempotency::Idem },
    ]);
    let bound =
        prop_oneof![number_u32().prop_map(RetryBound::Bounded), Just(RetryBound::Unbounded)];
    let backoff = prop_oneof![
        Just(RetryPolicy::default().backoff),
        (micros(), micros()).prop_map(|(base, cap)| Backoff { base, cap }),
    ];
    let reconciler =
        (function(), micros()).prop_map(|(function, settle)| Reconciler { function, settle });
    let on_unknown = select(vec![OnUnknown::Indeterminate, OnUnknown::Hold]);
    let statuses = prop_oneof![
        Just(Statuses::default()),
        btree_set(any::<u16>(), 0..4).prop_map(Statuses::from_iter)
    ];
    let parts = (
        (class, bound, backoff, option::of(micros()), option::of(micros())),
        (
            option::weighted(0.3, reconciler),
            on_unknown,
            statuses.clone(),
            option::weighted(0.3, digest()),
            option::weighted(0.3, statuses),
        ),
    );
    let any = parts.prop_map(|((class, bound, backoff, deadline, attempt_timeout), rest)| {
        let (reconciler, on_unknown, not_processed, callee, no_answer) = rest;
        RetryPolicy {
            class,
            bound,
            backoff,
            deadline,
            attempt_timeout,
            reconciler,
            on_unknown,
            not_processed,
            callee,
            no_answer,
        }
    });
    // Often the same policy, so that the sharing of equal policies is tested, too.
    prop_oneof![Just(RetryPolicy::default()), any].prop_map(Arc::new).boxed()
}
