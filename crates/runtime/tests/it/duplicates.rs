//! A request and its repetition at the same time: who is first, what the other one meets, and that only
//! one of them has an effect, in whatever order their trees take their turns (V-9, V-11, V-29 to V-33,
//! C-31). The record of the operation decides; ARCHITECTURE.md tells what happens.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use indelible_idempotency::{ConsumerNamespace, parse_key};
use indelible_runtime::{Attribution, Start, StartRefused, StartedExecution, Verdict};

use crate::support::wire::Wire;
use crate::support::{House, KEEP, by_hand, guests};

type StartReply = Result<StartedExecution, StartRefused>;

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A component with the same functions and other bytes: a custom section more.
fn other_version() -> Vec<u8> {
    let mut bytes = guests::bytes("script");
    bytes.extend([0, 6, 4, b'n', b'o', b't', b'e', 2]);
    bytes
}

/// One of the two is new, and both have the same execution.
#[track_caller]
fn one_execution(first: &StartReply, second: &StartReply) {
    let (first, second) = (first.as_ref().unwrap(), second.as_ref().unwrap());
    assert_eq!(first.execution_id, second.execution_id);
    let fresh = [first, second].iter().filter(|one| one.verdict == Verdict::Fresh).count();
    assert_eq!(fresh, 1);
}

/// V-9, V-11, C-31, D6: the same id before and after a redeploy leads to two trees, because a version
/// is part of the root. Neither has a record when both are admitted; the record takes one.
#[test]
fn the_same_id_over_a_redeploy() {
    for order in [0, 1] {
        let house = House::new(by_hand(KEEP));
        house.deploy("script");
        let request = house.request("one", "script/main", "[{\"return\":1}]");
        let mut first = pin!(house.engine().start(request.clone()));
        assert!(poll(first.as_mut()).is_pending(), "it waits for its tree");
        let new = other_version();
        house.wait_for_disk(house.engine().deploy("script", &new, Attribution::default())).unwrap();
        let mut second = pin!(house.engine().start(request));
        assert!(poll(second.as_mut()).is_pending());
        assert!(house.engine().step_at(order), "one tree");
        assert!(house.engine().step(), "the other");
        let first = house.wait(first);
        let second = house.wait(second);
        one_execution(&first, &second);
        house.work();
        assert_eq!(house.tree(&first.unwrap().execution_id).len(), 1);
    }
}

/// V-11, V-30: the same id twice, in one turn of one tree: the second looks again, and attaches.
/// Another request under the id meets a conflict in the same way (V-9).
#[test]
fn the_same_id_in_one_turn() {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    let request = house.request("one", "script/main", "[{\"signal\":\"go\"}]");
    let other = house.request("one", "script/main", "[{\"signal\":\"stop\"}]");
    let mut first = pin!(house.engine().start(request.clone()));
    let mut second = pin!(house.engine().start(request));
    let mut third = pin!(house.engine().start(other));
    assert!(poll(first.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending());
    assert!(poll(third.as_mut()).is_pending());
    assert!(house.engine().step());
    let first = house.wait(first);
    assert_eq!(first.as_ref().unwrap().verdict, Verdict::Fresh);
    one_execution(&first, &house.wait(second));
    let third = house.wait(third);
    assert!(matches!(third, Err(StartRefused::Conflict)), "{third:?}");
}

/// I-13, C-31: the same key twice at once: the second waits for the first, and finds its record.
#[test]
fn the_same_key_twice_at_once() {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    let namespace = ConsumerNamespace::new("tests").unwrap();
    let under = |input: &str| Start {
        operation_id: None,
        idempotency_key: parse_key(&namespace, Some("k")).unwrap(),
        ..house.request("x", "script/main", input)
    };
    let mut first = pin!(house.engine().start(under("[{\"return\":1}]")));
    let mut second = pin!(house.engine().start(under(" [ {\"return\": 1.0} ]")));
    let mut third = pin!(house.engine().start(under("[{\"return\":2}]")));
    assert!(poll(first.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending());
    assert!(poll(third.as_mut()).is_pending());
    let first = house.wait(first);
    assert_eq!(first.as_ref().unwrap().verdict, Verdict::Fresh);
    one_execution(&first, &house.wait(second));
    let third = house.wait(third);
    assert!(matches!(third, Err(StartRefused::Mismatch)), "{third:?}");
}

/// V-13, V-18, V-26, V-32, V-33: a volatile operation begins and is released within one turn,
/// before its record is stored, and a repetition comes in the same turn. The repetition looks
/// again: an `idem` function runs again under the same id, any other is refused as Indeterminate.
#[test]
fn released_in_the_turn() {
    for (function, idem) in [("glance", false), ("glance_idem", true)] {
        let mut house = House::new(by_hand(KEEP));
        house.http = Wire::new();
        house.reopen();
        house.deploy("behaviours");
        let input = r#"{"method":"POST","url":"http://peer/open","backoff_ms":10}"#;
        let request = house.request("one", function, input);
        {
            let mut gone = pin!(house.engine().submit(request.clone()));
            assert!(poll(gone.as_mut()).is_pending());
        }
        let mut again = pin!(house.engine().start(request));
        assert!(poll(again.as_mut()).is_pending());
        assert!(house.engine().step());
        let again = house.wait(again);
        if idem {
            assert_eq!(again.unwrap().verdict, Verdict::InFlight);
        } else {
            assert!(matches!(again, Err(StartRefused::Indeterminate)), "{again:?}");
        }
    }
}
