//! What is sent: requests of every class against every behaviour of the peers, and the functions
//! that send them. All from a seed.

use serde_json::{Value, json};

use indelible_test_support::Prng;

/// An attempt has all the time in the world, unless the test wants it to run out.
pub(crate) const TIMEOUT_LONG_MS: u64 = 120_000;
const TIMEOUT_SHORT_MS: u64 = 300;

/// Longer than any peer takes to process: a reconciler is believed then.
const SETTLE_MS: u64 = 1_500;

/// How often what may be sent again is, and how long the first wait is.
const RETRIES: u64 = 5;
const BACKOFF_MS: u64 = 15;

/// Where requests go.
pub(crate) struct Urls {
    pub(crate) peer: String,
    /// A peer that closes connections behind an answer: a later request may meet one.
    pub(crate) closing: String,
}

/// A function and its input.
pub(crate) fn call(numbers: &mut Prng, urls: &Urls) -> (&'static str, String) {
    let one = |numbers: &mut Prng| {
        let class = class(numbers);
        spec(numbers, urls, class)
    };
    let several = |numbers: &mut Prng, most: u64| -> Vec<Value> {
        let count = 2 + numbers.below(most - 1);
        (0..count).map(|_| one(numbers)).collect()
    };
    let (function, input) = match numbers.below(20) {
        0..4 => ("sends", one(numbers)),
        4..9 => ("sends_in_turn", several(numbers, 4).into()),
        9..14 => ("sends_at_once", several(numbers, 6).into()),
        14 | 15 => ("sends_by_call", one(numbers)),
        16 => ("sends_or_timer", json!([one(numbers), 10 + numbers.below(200)])),
        17 => ("sends_and_leaves", one(numbers)),
        // An idem function that goes on where it was may send anything.
        18 => ("sends_again", json!([several(numbers, 3), 0])),
        // One that runs again sends again.
        _ => {
            let specs: Vec<_> = (0..2).map(|_| spec(numbers, urls, Class::Idem)).collect();
            ("sends_again", json!([specs, 1 + numbers.below(2)]))
        }
    };
    (function, input.to_string())
}

/// What may be done when the outcome is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Idem,
    NotIdem,
    Held,
    Attribution,
    AskedThenHeld,
}

fn class(numbers: &mut Prng) -> Class {
    match numbers.below(10) {
        0..3 => Class::Idem,
        3..7 => Class::NotIdem,
        7 => Class::Held,
        8 => Class::Attribution,
        _ => Class::AskedThenHeld,
    }
}

fn spec(numbers: &mut Prng, urls: &Urls, class: Class) -> Value {
    let (base, path) = match numbers.below(30) {
        0 => (&urls.closing, "close-idle".to_owned()),
        _ => (&urls.peer, path(numbers)),
    };
    let asked = matches!(class, Class::Attribution | Class::AskedThenHeld);
    // What a reconciler finds not done is sent again, without a bound: it has to end some time.
    let path = if asked && !path.contains("answer") { format!("seq/{path},answer") } else { path };
    let short = path.contains("hang") || numbers.below(20) == 0;
    let mut spec = json!({
        "method": if class == Class::Idem { "PUT" } else { "POST" },
        "url": format!("{base}/do/{path}"),
        "secrets": [["authorization", "TOKEN"]],
        "body": crate::effects_killed::MARK,
        "retries": RETRIES,
        "backoff_ms": BACKOFF_MS,
        "timeout_ms": if short { TIMEOUT_SHORT_MS } else { TIMEOUT_LONG_MS },
        "hold": matches!(class, Class::Held | Class::AskedThenHeld),
    });
    if asked {
        spec["settle_ms"] = json!(SETTLE_MS);
    }
    // What an effect declares counts, whatever is usual.
    match numbers.below(20) {
        0 => spec["no_answer"] = json!([]),
        1 if class != Class::Idem => spec["idem"] = json!(false),
        2 => spec["not_processed"] = json!([429, 503]),
        _ => {}
    }
    spec
}

fn path(numbers: &mut Prng) -> String {
    match numbers.below(20) {
        0..5 => "answer".to_owned(),
        5..10 => format!("answer-late/{}", 10 + numbers.below(500)),
        10..14 => trouble(numbers),
        14 => "seq/retry-after/1/429,answer".to_owned(),
        15..18 => {
            let steps: Vec<_> = (0..=numbers.below(2)).map(|_| trouble(numbers)).collect();
            format!("seq/{},answer", steps.join(","))
        }
        18 => format!("keyed/seq/{},answer", trouble(numbers)),
        _ => format!("forget/seq/{},answer", trouble(numbers)),
    }
}

/// Something that can go wrong.
fn trouble(numbers: &mut Prng) -> String {
    let all = [
        "drop-before",
        "drop-after",
        "reset",
        "reset/unprocessed",
        "half",
        "half-chunked",
        "bad",
        "hang",
        "hang/unprocessed",
        "status/502",
        "status/502/processed",
        "status/504",
        "status/504/processed",
        "retry-after/0/429",
        "status/503",
        "status/500/processed",
        "status/404",
        "process-late/200",
        "echo",
    ];
    let place = usize::try_from(numbers.below(all.len() as u64)).unwrap();
    all[place].to_owned()
}
