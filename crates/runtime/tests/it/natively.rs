//! The examples in the SDK's test host and in the engine: the same journals, event for event.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use indelible_journal::{Ending, Micros};
use indelible_runtime::Parking;
use indelible_sdk::call_remote;
use indelible_sdk::testing::TestHost;
use serde_json::{Value, json};

use crate::support::disk::Disk;
use crate::support::{House, KEEP, by_hand, guests};

/// The examples as native code.
macro_rules! examples {
    ($($name:ident = $path:literal,)+) => {$(
        #[path = $path]
        #[allow(dead_code, missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
        #[allow(clippy::needless_pass_by_value, reason = "examples are for guests")]
        mod $name;
    )+};
}

examples! {
    order_saga = "../../../../examples/order-saga/src/lib.rs",
    approval = "../../../../examples/approval/src/lib.rs",
    fan_out = "../../../../examples/fan-out/src/lib.rs",
    polling = "../../../../examples/polling/src/lib.rs",
}

/// What an example is given: its component, function and input, and a signal after so many seconds.
struct Case {
    component: &'static str,
    function: &'static str,
    input: Value,
    signal: Option<(u64, &'static str, Value)>,
    /// The root is cancelled after so many seconds.
    cancel: Option<u64>,
}

fn case(component: &'static str, function: &'static str, input: Value) -> Case {
    Case { component, function, input, signal: None, cancel: None }
}

/// Each event of a tree, by its name, after the place of its execution; and how the root ended.
fn in_the_engine(case: &Case, parking: Parking) -> (String, String) {
    // A guest that is interrupted lets others go on before it: other journals, and as good.
    let house = House::with(Arc::new(Disk::new()), by_hand(parking), guests::unhurried());
    house.deploy(case.component);
    let called = format!("{}/{}", case.component, case.function);
    let id = house.start("one", &called, &case.input.to_string());
    house.work();
    if let Some((seconds, name, value)) = &case.signal {
        house.pass(Micros::from_secs(*seconds));
        house.signal(&id, name, &value.to_string());
        house.work();
    }
    if let Some(seconds) = case.cancel {
        house.pass(Micros::from_secs(seconds));
        house.cancel(&id);
        house.work();
    }
    house.work_through();
    let ending = match house.ending(&id) {
        Ending::Completed(payload) => String::from_utf8(payload.bytes.to_vec()).unwrap(),
        Ending::Failed(failure) => failure.message,
        Ending::Cancelled(_) => "cancelled".to_owned(),
    };
    let mut events = String::new();
    for (key, records) in house.tree(&id) {
        let path = key.execution_id().path().iter();
        let place = path.fold("root".to_owned(), |place, number| format!("{place}.{number}"));
        for record in records {
            writeln!(events, "{place} {}", record.event.name()).unwrap();
        }
    }
    (events, ending)
}

/// A result with its fields in one order; anything else as it is.
fn sorted(ending: &str) -> String {
    serde_json::from_str::<Value>(ending)
        .map_or_else(|_| ending.to_owned(), |value| value.to_string())
}

fn natively(case: &Case) -> (String, String) {
    let functions = match case.component {
        "order-saga" => order_saga::__indelible_functions(),
        "approval" => approval::__indelible_functions(),
        "fan-out" => fan_out::__indelible_functions(),
        "polling" => polling::__indelible_functions(),
        other => panic!("{other}"),
    };
    let mut host = TestHost::new().component(functions);
    if let Some((seconds, name, value)) = &case.signal {
        host = host.signal_after(Duration::from_secs(*seconds), name, value);
    }
    if let Some(seconds) = case.cancel {
        host = host.cancel_after(Duration::from_secs(seconds), "");
    }
    let ended = host.run(|| call_remote::<Value>(case.function, &case.input));
    let ending = match ended {
        Ok(value) => value.to_string(),
        Err(error)
            if error
                .failure()
                .is_some_and(|failed| failed.kind == indelible_sdk::ErrorKind::Cancelled) =>
        {
            "cancelled".to_owned()
        }
        Err(error) => error.to_string(),
    };
    let mut events = String::new();
    for line in host.journal().lines() {
        writeln!(events, "{}", line.split('(').next().unwrap()).unwrap();
    }
    (events, ending)
}

#[test]
fn examples_have_the_same_journals() {
    let order = |item: &str, cents: u64| json!({ "id": "o-1", "item": item, "quantity": 2, "cents": cents });
    let expense = json!({ "who": "ann", "cents": 9_900, "seconds": 3_600 });
    let decision = json!({ "by": "bob", "approved": true });
    let cases = [
        case("order-saga", "order", order("tea", 500)),
        case("order-saga", "order", order("glass", 500)),
        case("order-saga", "order", order("tea", 100_001)),
        case("approval", "approve", expense.clone()),
        Case {
            signal: Some((1_800, "decision", decision)),
            ..case("approval", "approve", expense.clone())
        },
        Case { cancel: Some(1_800), ..case("approval", "approve", expense) },
        case("fan-out", "summarize", json!(null)),
        case("polling", "await_job", json!(300)),
    ];
    for case in &cases {
        let (events, ending) = natively(case);
        for parking in [KEEP, Parking::Drop] {
            let (expected, expected_ending) = in_the_engine(case, parking);
            // A component may keep the fields of an object in another order.
            let (ending, expected_ending) = (sorted(&ending), sorted(&expected_ending));
            assert_eq!(ending, expected_ending, "{} {}", case.function, case.input);
            assert!(events == expected, "{events}\nand in the engine:\n{expected}");
        }
    }
}
