//! The states of a delivery: every end of an attempt, both classes, crashes, TTL, decisions.

use indelible_delivery::attempt::{AttemptEnd, Busy503, FailureCode, Meaning, Unknown};
use indelible_delivery::bounds::{FAILURES_MAX, RETRY_AFTER_MAX};
use indelible_delivery::breaker::Sample;
use indelible_delivery::delivery::{
    Context, DeadReason, Delivery, Ending, Illegal, Input, Next, Outcome, Policy, State, WaitCause,
    step,
};
use indelible_delivery::schedule::Schedule;
use indelible_journal::{Idempotency, Micros};
use proptest::prelude::*;

use crate::support::{EVEN, Run, at, exponential, message, policy, seconds, status};

/// C-52: what each end proves.
#[test]
fn each_end_has_a_meaning() {
    let after = |status, seconds| AttemptEnd::Answered {
        status,
        retry_after: Some(Micros::from_secs(seconds)),
    };
    let table = [
        (status(200), Meaning::Delivered),
        (status(204), Meaning::Delivered),
        (status(299), Meaning::Delivered),
        (status(199), Meaning::Unknown),
        (status(301), Meaning::Unknown),
        (status(308), Meaning::Unknown),
        (status(400), Meaning::NotProcessed),
        (status(404), Meaning::NotProcessed),
        (status(408), Meaning::Unknown),
        (status(410), Meaning::EndpointGone),
        (status(429), Meaning::NotProcessed),
        (after(429, 3), Meaning::NotProcessed),
        (status(499), Meaning::NotProcessed),
        (status(500), Meaning::Unknown),
        (status(502), Meaning::Unknown),
        (status(503), Meaning::Unknown),
        (after(503, 3), Meaning::Unknown),
        (status(504), Meaning::Unknown),
        (status(999), Meaning::Unknown),
        (AttemptEnd::NotSent, Meaning::NotProcessed),
        (AttemptEnd::Forbidden, Meaning::RefusedForGood),
        (AttemptEnd::Unknown(Unknown::NoAnswer), Meaning::Unknown),
        (AttemptEnd::Unknown(Unknown::TimedOut), Meaning::Unknown),
        (AttemptEnd::Unknown(Unknown::EngineLost), Meaning::Unknown),
    ];
    for (end, meaning) in table {
        assert_eq!(end.meaning(Busy503::Unknown), meaning, "{end:?}");
        let declared = if end == after(503, 3) { Meaning::NotProcessed } else { meaning };
        assert_eq!(end.meaning(Busy503::NotProcessed), declared, "{end:?}");
    }
}

/// O-24, O-30: an attempt is tried again under the schedule, with every failure on record.
#[test]
fn a_failed_attempt_is_tried_again() {
    let schedule = exponential(2);
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    assert_eq!(run.input(Input::Begin).next, Next::Send { attempt: 1 });
    let end = Input::End { attempt: 1, end: status(500), text: "Internal Server Error" };
    let step = run.input(end);
    assert!(matches!(step.next, Next::Wait(until) if until > at(0) && until <= at(1)));
    assert_eq!(step.sample, Some(Sample::Failed));
    run.now = at(1);
    let step = run.attempt(status(204));
    assert_eq!(step.next, Next::Settled(Outcome::Delivered));
    assert_eq!(step.sample, Some(Sample::Delivered));
    assert_eq!(run.delivery.state, State::Delivered { at: at(1), status: 204 });
    let [failure] = &run.delivery.failures[..] else { panic!("one failure") };
    assert_eq!((failure.attempt, failure.failed_at), (1, at(0)));
    assert_eq!(failure.code, FailureCode::Status(500));
    assert_eq!(&*failure.text, "Internal Server Error");
}

/// O-28: two retries are three attempts; then it is a dead letter.
#[test]
fn an_exhausted_message_is_a_dead_letter() {
    let schedule = exponential(2);
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    for _ in 0..2 {
        assert!(matches!(run.attempt(AttemptEnd::NotSent).next, Next::Wait(_)));
    }
    let step = run.attempt(AttemptEnd::NotSent);
    assert_eq!(step.next, Next::Settled(Outcome::Dead(DeadReason::Exhausted)));
    assert_eq!(DeadReason::Exhausted.to_string(), "MAX_RETRIES_EXCEEDED");
    assert_eq!(run.delivery.failures.len(), 3);
    assert!(!run.delivery.may_have_arrived, "nothing ever left");
}

/// C-52: a receiver that cannot tell repetitions is not sent what may have arrived.
#[test]
fn what_may_have_arrived_is_not_sent_again_to_a_receiver_that_is_not_idem() {
    let schedule = exponential(5);
    let ends = [
        status(500),
        status(502),
        status(504),
        status(302),
        status(408),
        AttemptEnd::Unknown(Unknown::NoAnswer),
        AttemptEnd::Unknown(Unknown::TimedOut),
    ];
    for end in ends {
        let mut run = Run::new(policy(&schedule, Idempotency::NonIdem));
        assert!(matches!(run.attempt(AttemptEnd::NotSent).next, Next::Wait(_)));
        assert!(matches!(run.attempt(status(429)).next, Next::Wait(_)));
        let step = run.attempt(end);
        assert_eq!(step.next, Next::Settled(Outcome::Dead(DeadReason::Unknown)), "{end:?}");
        assert!(run.delivery.may_have_arrived);
        let mut run = Run::new(policy(&schedule, Idempotency::Idem));
        assert!(matches!(run.attempt(end).next, Next::Wait(_)), "{end:?}");
        assert!(run.delivery.may_have_arrived, "it stays so, whatever follows");
        run.attempt(AttemptEnd::NotSent);
        assert!(run.delivery.may_have_arrived);
    }
}

/// C-52: an attempt that was under way when the process died is unknown.
#[test]
fn a_crash_makes_the_attempt_unknown() {
    let schedule = exponential(5);
    for class in [Idempotency::Idem, Idempotency::NonIdem] {
        let mut run = Run::new(policy(&schedule, class));
        run.input(Input::Begin);
        let step = run.input(Input::Lost);
        assert!(run.delivery.may_have_arrived);
        assert_eq!(run.delivery.failures[0].code, FailureCode::SenderLost);
        assert_eq!(step.sample, None, "it says nothing about the endpoint");
        match class {
            Idempotency::Idem => assert!(matches!(step.next, Next::Wait(_))),
            Idempotency::NonIdem => {
                assert_eq!(step.next, Next::Settled(Outcome::Dead(DeadReason::Unknown)));
            }
        }
    }
}

/// C-58: a permanent refusal is a dead letter at once; 410 disables the endpoint.
#[test]
fn permanent_refusals_are_dead_at_once() {
    let schedule = exponential(5);
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    let step = run.attempt(status(410));
    assert_eq!(step.next, Next::Settled(Outcome::Dead(DeadReason::EndpointGone)));
    assert!(step.disables_endpoint && !run.delivery.may_have_arrived);
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    let step = run.attempt(AttemptEnd::Forbidden);
    assert_eq!(step.next, Next::Settled(Outcome::Dead(DeadReason::Refused)));
    assert_eq!(step.sample, None);
    assert!(!step.disables_endpoint);
}

/// `Retry-After` is a lower bound, within the longest wait that a receiver may ask for.
#[test]
fn retry_after_is_honoured() {
    let schedule = exponential(5);
    let answered = |seconds| AttemptEnd::Answered {
        status: 429,
        retry_after: Some(Micros::from_secs(seconds)),
    };
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    assert_eq!(run.attempt(answered(3_600)).next, Next::Wait(at(3_600)));
    let Next::Wait(until) = run.attempt(answered(0)).next else { panic!("it waits") };
    assert!(until > at(0), "the schedule is the lower bound");
    let longest = at(0).saturating_add(RETRY_AFTER_MAX);
    assert_eq!(run.attempt(answered(u64::MAX)).next, Next::Wait(longest));
}

/// C-14, C-58: retrying stops with the TTL, at once.
#[test]
fn an_expired_message_is_dead() {
    let schedule = exponential(50);
    let expiring =
        |seconds| Policy { expires_at: Some(at(seconds)), ..policy(&schedule, Idempotency::Idem) };
    let expired = Next::Settled(Outcome::Dead(DeadReason::Expired));
    // While it waits.
    let mut run = Run::new(expiring(5));
    run.now = at(5);
    assert_eq!(run.input(Input::Tick).next, Next::Keep, "the last moment is in time");
    run.now = at(6);
    assert_eq!(run.input(Input::Tick).next, expired);
    // When its turn comes.
    let mut run = Run::new(expiring(5));
    run.now = at(6);
    assert_eq!(run.input(Input::Begin).next, expired);
    // When the next attempt would be too late.
    let mut run = Run::new(expiring(5));
    let late = AttemptEnd::Answered { status: 429, retry_after: Some(seconds(6)) };
    assert_eq!(run.attempt(late).next, expired);
    // An attempt that is under way ends as it ends.
    let mut run = Run::new(expiring(5));
    run.input(Input::Begin);
    run.now = at(9);
    assert_eq!(run.input(Input::Tick).next, Next::Keep);
    let end = Input::End { attempt: 1, end: status(200), text: "" };
    assert_eq!(run.input(end).next, Next::Settled(Outcome::Delivered));
}

/// An open breaker delays, and uses up nothing.
#[test]
fn waiting_for_the_endpoint_costs_no_attempt() {
    let schedule = exponential(1);
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    for n in 1..1_000 {
        assert_eq!(run.input(Input::Postpone(at(n))).next, Next::Wait(at(n)));
    }
    let State::Waiting { cause, .. } = run.delivery.state else { panic!("it waits") };
    assert_eq!(cause, WaitCause::Endpoint);
    assert_eq!((run.delivery.attempts, run.delivery.retries), (0, 0));
    assert!(matches!(run.attempt(status(500)).next, Next::Wait(_)));
}

/// C-61, C-52: what decisions do to a dead letter, and what its sender is told.
#[test]
fn decisions_end_a_dead_letter() {
    let schedule = exponential(0);
    for (end, told) in [(status(404), Outcome::Abandoned), (status(500), Outcome::Indeterminate)] {
        let mut run = Run::new(policy(&schedule, Idempotency::Idem));
        run.attempt(end);
        let dead = run.delivery.clone();
        assert_eq!(run.input(Input::Abandon).next, Next::Settled(told));
        run.delivery = dead.clone();
        let by = message("again").id();
        assert_eq!(run.input(Input::Reissue(by)).next, Next::Settled(Outcome::Reissued(by)));
        run.delivery = dead;
        assert_eq!(run.input(Input::Redeliver).next, Next::Wait(at(0)));
        assert_eq!(run.input(Input::Begin).next, Next::Send { attempt: 2 });
        assert_eq!(run.delivery.retries, 0, "its own series of attempts");
        assert_eq!(run.delivery.failures.len(), 1, "its history stays");
    }
}

/// A deleted endpoint ends what waits for it; an attempt on the wire may arrive.
#[test]
fn a_deleted_endpoint_ends_its_deliveries() {
    let schedule = exponential(5);
    let gone = Next::Settled(Outcome::Dead(DeadReason::EndpointGone));
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    assert_eq!(run.input(Input::EndpointDeleted).next, gone);
    assert!(!run.delivery.may_have_arrived);
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    run.input(Input::Begin);
    assert_eq!(run.input(Input::EndpointDeleted).next, gone);
    assert!(run.delivery.may_have_arrived);
}

/// O-27: a message that must arrive is tried for ever, and its history stays bounded.
#[test]
fn a_message_that_must_arrive_is_never_dead() {
    let schedule = exponential(3);
    let must = Policy {
        ending: Ending::Never,
        expires_at: Some(at(1)),
        ..policy(&schedule, Idempotency::Idem)
    };
    let mut run = Run::new(must);
    let ends = [status(500), status(410), AttemptEnd::NotSent, AttemptEnd::Forbidden];
    for n in 0..10_000_u32 {
        let Next::Wait(until) = run.attempt(ends[n as usize % 4]).next else {
            panic!("it gave up after {n} failures")
        };
        let wait = until.saturating_since(run.now);
        assert!(wait > Micros::ZERO && wait <= seconds(10), "{wait}");
        run.now = until;
    }
    assert_eq!(run.delivery.attempts, 10_000);
    assert_eq!(run.delivery.failures.len(), FAILURES_MAX);
    assert_eq!(run.delivery.failures.last().unwrap().attempt, 10_000);
    assert_eq!(run.input(Input::Abandon).next, Next::Settled(Outcome::Indeterminate));
}

/// O-55: a type without dead letters ends without one.
#[test]
fn a_type_without_dead_letters_just_ends() {
    let schedule = exponential(0);
    let query = Policy { ending: Ending::Nothing, ..policy(&schedule, Idempotency::Idem) };
    let mut run = Run::new(query);
    let step = run.attempt(AttemptEnd::NotSent);
    assert_eq!(step.next, Next::Settled(Outcome::Ended(DeadReason::Exhausted)));
}

/// What does not fit changes nothing: late reports, second decisions.
#[test]
fn illegal_inputs_are_refused() {
    let schedule = exponential(0);
    let context =
        Context { now: at(0), jitter: EVEN, policy: policy(&schedule, Idempotency::Idem) };
    let of = |state| Delivery { state, attempts: 3, ..Delivery::default() };
    let end = |attempt| Input::End { attempt, end: status(200), text: "" };
    let delivered = State::Delivered { at: at(0), status: 200 };
    let table = [
        (State::Queued, end(3)),
        (State::Queued, Input::Lost),
        (State::Queued, Input::Redeliver),
        (State::Sending { since: at(0) }, Input::Begin),
        (State::Sending { since: at(0) }, end(2)),
        (State::Sending { since: at(0) }, end(4)),
        (delivered, Input::Begin),
        (delivered, end(3)),
        (delivered, Input::Abandon),
        (delivered, Input::Redeliver),
        (State::Abandoned { at: at(0) }, Input::Redeliver),
        (State::Abandoned { at: at(0) }, Input::Abandon),
        (State::Reissued { at: at(0), by: message("a").id() }, Input::Redeliver),
    ];
    for (state, input) in table {
        assert_eq!(step(of(state), input, &context), Err(Illegal), "{state:?} {input:?}");
    }
}

fn end_strategy() -> impl Strategy<Value = AttemptEnd> {
    prop_oneof![
        (100..600_u16, proptest::option::of(0..100_000_u64)).prop_map(|(status, after)| {
            AttemptEnd::Answered { status, retry_after: after.map(Micros::from_secs) }
        }),
        Just(AttemptEnd::NotSent),
        Just(AttemptEnd::Unknown(Unknown::NoAnswer)),
        Just(AttemptEnd::Unknown(Unknown::TimedOut)),
    ]
}

proptest! {
    /// C-52, O-28: whatever happens, a delivery that is over stays over; a receiver that is not idem
    /// sees no attempt after one that may have arrived; a schedule gives no more attempts than it
    /// has; every row reads back.
    #[test]
    fn deliveries_keep_their_promises(
        idem: bool,
        retries in 0..6_u32,
        ends in proptest::collection::vec((end_strategy(), any::<bool>()), 1..20),
    ) {
        let schedule = exponential(retries);
        let class = if idem { Idempotency::Idem } else { Idempotency::NonIdem };
        let mut run = Run::new(policy(&schedule, class));
        for (end, crashes) in ends {
            if run.delivery.outcome().is_some() {
                break;
            }
            prop_assert!(idem || !run.delivery.may_have_arrived);
            run.input(Input::Begin);
            prop_assert!(run.delivery.attempts <= retries + 1);
            let attempt = run.delivery.attempts;
            let input = if crashes { Input::Lost } else { Input::End { attempt, end, text: "x" } };
            let step = run.input(input);
            if let Next::Wait(until) = step.next {
                prop_assert!(until > run.now);
                run.now = until;
            }
            prop_assert_eq!(step.delivery.outcome().is_some(), matches!(step.next, Next::Settled(_)));
        }
    }

    /// Damaged rows are refused, and take no memory.
    #[test]
    fn damaged_rows_are_refused(row: Vec<u8>) {
        if let Ok(delivery) = Delivery::decode(&row) {
            prop_assert_eq!(delivery.encode(), row);
        }
    }
}

/// An empty schedule of steps is one attempt.
#[test]
fn an_empty_schedule_is_one_attempt() {
    let schedule = Schedule::Steps(vec![]);
    let mut run = Run::new(policy(&schedule, Idempotency::Idem));
    let step = run.attempt(status(500));
    assert_eq!(step.next, Next::Settled(Outcome::Dead(DeadReason::Exhausted)));
}
