//! The tables of the `oip` profile, to the letter.

use std::collections::BTreeMap;

use indelible_delivery::attempt::AttemptEnd;
use indelible_delivery::delivery::{DeadReason, Ending, Input, Next, Outcome};
use indelible_delivery::inbox::{Deduplication, window_floor};
use indelible_delivery::oip::{
    Disposition, ErrorCode, Guarantee, GuaranteeError, HIGH_FREQUENCY_TTL_MIN, IdempotencyStrategy,
    MessageType, Priority, SourceKind, UNDER_ACTION_TTL_MIN, resolve_ttl, retry_window,
};
use indelible_delivery::schedule::Schedule;
use indelible_journal::{Backoff, Micros, RetryBound};

use crate::support::{Run, at, at_micros, seconds, status};

fn guarantee(of: MessageType, priority: Priority) -> Guarantee {
    Guarantee::of(of, priority, SourceKind::Other, of.recommended_ttl())
}

/// O-8, O-13, O-21, O-23: every row of the tables.
#[test]
fn the_tables() {
    use Ending::{DeadLetter, Never, Nothing};
    use MessageType as T;
    use Priority::{Critical, Normal};
    let table = [
        (T::RegulatoryAction, Critical, None, 500, 5_000, Never, 600),
        (T::RegulatoryAction, Normal, Some(10), 1_000, 30_000, DeadLetter, 600),
        (T::StateSync, Normal, Some(5), 2_000, 60_000, DeadLetter, 300),
        (T::LockManagement, Normal, Some(7), 1_000, 30_000, DeadLetter, 120),
        (T::Query, Normal, Some(3), 1_000, 10_000, Nothing, 30),
        (T::Ack, Normal, Some(3), 500, 5_000, Nothing, 60),
        (T::Heartbeat, Normal, Some(0), 0, 0, Nothing, 15),
        (T::Proposal, Normal, Some(5), 2_000, 30_000, DeadLetter, 600),
        (T::Vote, Normal, Some(3), 1_000, 10_000, DeadLetter, 300),
        (T::Execute, Normal, Some(7), 2_000, 60_000, DeadLetter, 600),
    ];
    for (of, priority, retries, base, cap, ending, ttl) in table {
        let found = guarantee(of, priority);
        let bound = retries.map_or(RetryBound::Unbounded, RetryBound::Bounded);
        let backoff = Backoff { base: Micros::from_millis(base), cap: Micros::from_millis(cap) };
        assert_eq!(found.schedule, Schedule::Exponential { backoff, bound }, "{of}");
        assert_eq!(found.ending, ending, "{of}");
        assert_eq!(found.ttl, seconds(ttl), "{of}");
        let window = retries.map(|retries| Micros::from_millis(cap * u64::from(retries)));
        assert_eq!(retry_window(of, priority), window, "{of}");
        assert_eq!(of.to_string().parse(), Ok(of));
        let (name, sub) = of.names();
        assert_eq!(MessageType::from_names(name, sub), Some(of));
    }
    assert_eq!(retry_window(T::Execute, Normal), Some(seconds(420)));
    // Priority means something for regulatory actions alone.
    assert_eq!(guarantee(T::StateSync, Critical), guarantee(T::StateSync, Normal));
    use IdempotencyStrategy::{MessageId, MessageIdPlusNonce, MessageIdPlusStateHash};
    assert_eq!(T::StateSync.strategy(), MessageIdPlusStateHash);
    assert_eq!(T::RegulatoryAction.strategy(), MessageIdPlusStateHash);
    assert_eq!(T::LockManagement.strategy(), MessageIdPlusNonce);
    assert_eq!(T::Vote.strategy(), MessageId);
    assert_eq!(MessageType::from_names("GOVERNANCE", None), None);
}

/// C-67: questions, acknowledgements and heartbeats have no rows.
#[test]
fn types_without_rows() {
    let without: Vec<_> = MessageType::ALL.into_iter().filter(|of| !of.has_rows()).collect();
    assert_eq!(without, [MessageType::Query, MessageType::Ack, MessageType::Heartbeat]);
}

/// O-9: what is not allowed is refused.
#[test]
fn guarantees_are_checked() {
    let (of, critical) = (MessageType::RegulatoryAction, Priority::Critical);
    let canton = Guarantee::of(of, critical, SourceKind::Canton, seconds(600));
    assert!(canton.require_attestation_check);
    assert_eq!(canton.check(of, critical, SourceKind::Canton), Ok(()));
    let unchecked = Guarantee { require_attestation_check: false, ..canton.clone() };
    let error = unchecked.check(of, critical, SourceKind::Canton);
    assert_eq!(error, Err(GuaranteeError::AttestationCheck));
    assert_eq!(unchecked.check(of, critical, SourceKind::Other), Ok(()));
    for ending in [Ending::DeadLetter, Ending::Nothing] {
        let ends = Guarantee { ending, ..canton.clone() };
        let error = ends.check(of, critical, SourceKind::Canton);
        assert_eq!(error, Err(GuaranteeError::Critical));
        assert_eq!(ends.check(of, Priority::Normal, SourceKind::Canton), Ok(()));
    }
}

/// O-12, O-14: the longer of what the sender and the asset's class want.
#[test]
fn ttls_are_resolved() {
    assert_eq!(resolve_ttl(seconds(300), Some(UNDER_ACTION_TTL_MIN)), seconds(600));
    assert_eq!(resolve_ttl(seconds(300), Some(HIGH_FREQUENCY_TTL_MIN)), seconds(300));
    assert_eq!(resolve_ttl(seconds(3), Some(HIGH_FREQUENCY_TTL_MIN)), seconds(5));
    assert_eq!(resolve_ttl(seconds(300), None), seconds(300));
}

/// O-28: a `STATE_SYNC` has six attempts, then a dead letter; O-55: a `QUERY` has four, and none.
#[test]
fn messages_are_tried_as_often_as_the_table_says() {
    let outcomes = [
        (MessageType::StateSync, 6, Outcome::Dead(DeadReason::Exhausted)),
        (MessageType::Query, 4, Outcome::Ended(DeadReason::Exhausted)),
        (MessageType::Heartbeat, 1, Outcome::Ended(DeadReason::Exhausted)),
    ];
    for (of, attempts, outcome) in outcomes {
        let guarantee = guarantee(of, Priority::Normal);
        let mut run = Run::new(guarantee.policy(at(0)));
        let settled = (1..100).find_map(|n| match run.attempt(AttemptEnd::NotSent).next {
            Next::Settled(outcome) => Some((n, outcome)),
            _ => None,
        });
        assert_eq!(settled, Some((attempts, outcome)), "{of}");
    }
}

/// O-1, O-27, C-14: a CRITICAL action outlives its TTL and ten thousand failures; it ends when it is
/// accepted, or governance cancels it.
#[test]
fn a_critical_action_is_retried_for_ever() {
    let guarantee = guarantee(MessageType::RegulatoryAction, Priority::Critical);
    for end in [AttemptEnd::NotSent, status(500), status(410)] {
        let mut run = Run::new(guarantee.policy(at(0)));
        for _ in 0..10_000 {
            let Next::Wait(until) = run.attempt(end).next else { panic!("it gave up") };
            assert!(until.saturating_since(run.now) <= seconds(5));
            run.now = until;
        }
        assert!(run.now > at(30_000));
        let mut cancelled = Run { delivery: run.delivery.clone(), ..run };
        assert!(matches!(cancelled.input(Input::Abandon).next, Next::Settled(_)));
        assert_eq!(run.attempt(status(200)).next, Next::Settled(Outcome::Delivered));
    }
}

/// O-10, C-14: the last moment is in time.
#[test]
fn the_ttl_ends_retrying() {
    let guarantee = guarantee(MessageType::Vote, Priority::Normal);
    let mut run = Run::new(guarantee.policy(at(0)));
    run.now = at(300);
    assert_eq!(run.input(Input::Tick).next, Next::Keep);
    run.now = at_micros(300_000_001);
    let dead = Next::Settled(Outcome::Dead(DeadReason::Expired));
    assert_eq!(run.input(Input::Tick).next, dead);
    assert_eq!(DeadReason::Expired.to_string(), "MESSAGE_TTL_EXPIRED");
}

/// O-17: 609 seconds are refused, 610 are not.
#[test]
fn the_window_has_a_floor() {
    let window = |window| Deduplication::new(seconds(window), BTreeMap::new(), seconds(5));
    assert_eq!(window_floor(seconds(600), seconds(5)), seconds(610));
    let error = window(609).unwrap_err();
    assert_eq!((error.window, error.floor), (seconds(609), seconds(610)));
    assert!(error.to_string().contains("610"), "{error}");
    assert!(window(610).is_ok());
    assert_eq!(Deduplication::default().window(MessageType::Vote), seconds(700));
    assert_eq!(Deduplication::default().capacity, 100_000);
}

/// O-18: a window for one type is bounded by the TTL of that type; O-60: and bounds TTLs.
#[test]
fn windows_per_type() {
    let with = |common, own: &[(MessageType, u64)]| {
        let own = own.iter().map(|(of, window)| (*of, seconds(*window))).collect();
        Deduplication::new(seconds(common), own, seconds(5))
    };
    let short = with(700, &[(MessageType::Query, 40)]).unwrap();
    assert_eq!(short.window(MessageType::Query), seconds(40));
    assert_eq!(short.ttl_max(MessageType::Query), seconds(30));
    assert_eq!(short.ttl_max(MessageType::Vote), seconds(690));
    assert!(with(700, &[(MessageType::Query, 39)]).is_err());
    let long = [MessageType::RegulatoryAction, MessageType::Proposal, MessageType::Execute];
    let own: Vec<_> = long.into_iter().map(|of| (of, 610)).collect();
    assert!(with(310, &own).is_ok());
    assert!(with(310, &own[1..]).is_err());
}

/// C-54: a row is kept from the later of two times, and what is too far ahead has none.
#[test]
fn rows_outlive_every_copy() {
    let windows = Deduplication::default();
    let of = MessageType::StateSync;
    assert_eq!(windows.kept_until(of, at(10), at(0)), at(710));
    assert_eq!(windows.kept_until(of, at(10), at(14)), at(714));
    assert!(!windows.is_ahead(at(5), at(0)));
    assert!(windows.is_ahead(at_micros(5_000_001), at(0)));
    assert!(!windows.is_ahead(at(0), at(100)));
    // A copy that is stamped as far ahead as allowed expires before its row.
    for ahead in 0..=5 {
        let stamped = at(100 + ahead);
        let last = stamped.saturating_add(windows.ttl_max(of));
        assert!(last < windows.kept_until(of, at(100), stamped));
    }
}

/// O-45, O-56: each code has its disposition.
#[test]
fn dispositions() {
    let table = [
        (ErrorCode::MessageTtlExpired, "MESSAGE_TTL_EXPIRED", Some(Disposition::Reject)),
        (ErrorCode::DeduplicationDetected, "DEDUPLICATION_DETECTED", None),
        (
            ErrorCode::AttestationReplayDetected,
            "ATTESTATION_REPLAY_DETECTED",
            Some(Disposition::Reject),
        ),
        (ErrorCode::StateHashMismatch, "STATE_HASH_MISMATCH", Some(Disposition::Reject)),
        (ErrorCode::DeliveryTimeout, "DELIVERY_TIMEOUT", Some(Disposition::Retry)),
        (ErrorCode::MaxRetriesExceeded, "MAX_RETRIES_EXCEEDED", None),
        (
            ErrorCode::RollbackIncompleteReject,
            "ROLLBACK_INCOMPLETE_REJECT",
            Some(Disposition::Reject),
        ),
        (ErrorCode::MessageFromTheFuture, "MESSAGE_FROM_THE_FUTURE", Some(Disposition::Retry)),
    ];
    for ((code, name, disposition), number) in table.into_iter().zip(1..) {
        assert_eq!(code.to_string(), name);
        assert_eq!(code.disposition(), disposition);
        assert_eq!(code.number(), number);
        assert_eq!(ErrorCode::from_number(number), Some(code));
        assert_eq!(ErrorCode::from_name(name), Some(code));
    }
    assert_eq!(ErrorCode::from_number(0), None);
    assert_eq!(ErrorCode::from_number(9), None);
}
