//! The journals that the specification shows (J-88), written by the engine: the same events, in
//! every way of running them.

use serde_json::json;

use crate::support::scenario::{Act, main};

/// The full example: randomness, a call, a join set whose second member is tried twice.
#[test]
fn the_full_example() {
    let email = json!([{ "below": [2, [{ "transient": "busy" }]] }, { "return": "sent" }]);
    let ran = main(json!([
        { "random": 2 },
        { "call": ["user", "main", [{ "return": { "id": 42 } }]] }, { "await": "user" },
        { "set": "both" },
        { "call": ["email", "idem", email] }, { "submit": ["both", "email"] },
        { "call": ["sms", "main", [{ "return": "sent" }]] }, { "submit": ["both", "sms"] },
        { "next": "both" }, { "next": "both" },
        { "return": "done" },
    ]))
    .check();
    assert_eq!(
        ran.house.names(&ran.id),
        [
            "ExecutionStarted",
            "RandomGenerated",
            "InvokeScheduled",
            "ExecutionAwaiting",
            "InvokeStarted",
            "InvokeCompleted",
            "ExecutionResumed",
            "JoinSetCreated",
            "InvokeScheduled",
            "JoinSetSubmitted",
            "InvokeScheduled",
            "JoinSetSubmitted",
            "ExecutionAwaiting",
            // The specification's example starts the second call first; here the first one has
            // its first try before.
            "InvokeStarted",
            "InvokeRetrying",
            "InvokeStarted",
            "InvokeCompleted",
            "ExecutionResumed",
            "JoinSetAwaited",
            "ExecutionAwaiting",
            "InvokeStarted",
            "InvokeCompleted",
            "ExecutionResumed",
            "JoinSetAwaited",
            "ExecutionCompleted",
        ]
    );
}

const ORDER: [&str; 6] = [
    "ExecutionStarted",
    "InvokeScheduled",
    "ExecutionAwaiting",
    "InvokeStarted",
    "InvokeCompleted",
    "ExecutionResumed",
];

/// A signal that arrives before anybody waits for it (J-78).
#[test]
fn a_buffered_signal() {
    let order = json!([{ "timer": ["t", 10] }, { "await": "t" }, { "return": "order" }]);
    let ran = main(json!([
        { "call": ["order", "main", order] }, { "await": "order" }, { "signal": "approval" },
    ]))
    .acts([Act::Signal("approval", json!({ "approved": true }))])
    .check();
    let mut expected = ORDER.to_vec();
    expected.insert(4, "SignalDelivered");
    expected.extend(["SignalReceived", "ExecutionCompleted"]);
    assert_eq!(ran.house.names(&ran.id), expected);
}

/// A signal that is waited for (J-78, C-16).
#[test]
fn a_blocking_signal() {
    let ran = main(json!([
        { "call": ["order", "main", [{ "return": "order" }]] }, { "await": "order" },
        { "signal": "approval" },
    ]))
    .acts([Act::Pass(3_600_000), Act::Signal("approval", json!({ "approved": true }))])
    .check();
    let mut expected = ORDER.to_vec();
    expected.extend([
        "ExecutionAwaiting",
        "SignalDelivered",
        "SignalReceived",
        "ExecutionResumed",
        "ExecutionCompleted",
    ]);
    assert_eq!(ran.house.names(&ran.id), expected);
}
