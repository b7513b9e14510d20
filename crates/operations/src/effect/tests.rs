//! Every rule of [`after`], one at a time.

use indelible_journal::{FunctionName, Micros, Reconciler, RetryClass, Statuses};

use super::*;

const NOT_PERFORMED: Next =
    Next::Again { cause: RetryCause::Failed, error: ErrorKind::NotPerformed };
const NOT_SENT: Next = Next::Again { cause: RetryCause::NotSent, error: ErrorKind::NotPerformed };
const TRANSIENT: Next = Next::Again { cause: RetryCause::Failed, error: ErrorKind::Transient };
const TIMEOUT: Next = Next::Again { cause: RetryCause::Failed, error: ErrorKind::Timeout };
const ENGINE_LOST: Next =
    Next::Again { cause: RetryCause::EngineLost, error: ErrorKind::Transient };

const NO_ANSWER: Ended = Ended::Unknown(Unknown::NoAnswer);
const TIMED_OUT: Ended = Ended::Unknown(Unknown::TimedOut);
const LOST: Ended = Ended::Unknown(Unknown::EngineLost);

/// Two retries, and 429 declared as not processed.
fn policy(class: RetryClass) -> RetryPolicy {
    RetryPolicy {
        class,
        bound: RetryBound::Bounded(2),
        not_processed: [429].into_iter().collect(),
        ..RetryPolicy::default()
    }
}

fn idem() -> RetryPolicy {
    policy(RetryClass::PERSIST_IDEM)
}

fn once() -> RetryPolicy {
    policy(RetryClass::PERSIST)
}

fn reconciler() -> Option<Reconciler> {
    let function = FunctionName::new("was_it_charged").unwrap();
    Some(Reconciler { function, settle: Micros::from_secs(1) })
}

/// With time and retries left, nothing done before, and a caller that goes on.
fn at(policy: &RetryPolicy) -> Situation<'_> {
    Situation { policy, retries_counted: 1, maybe_performed: false, in_time: true, closing: false }
}

/// Three situations that each forbid another attempt that counts.
fn spent(policy: &RetryPolicy) -> [Situation<'_>; 3] {
    [
        Situation { retries_counted: 2, ..at(policy) },
        Situation { in_time: false, ..at(policy) },
        Situation { closing: true, ..at(policy) },
    ]
}

fn answered(status: u16) -> Ended {
    Ended::Answered { status }
}

/// C-38: a status that is declared as not processed is tried again, whatever the class; when there
/// is no other attempt, it is the answer.
#[test]
fn not_processed_is_tried_again() {
    for policy in [idem(), once()] {
        assert_eq!(after(answered(429), &at(&policy)), NOT_PERFORMED);
        for situation in spent(&policy) {
            assert_eq!(after(answered(429), &situation), Next::Answer, "{situation:?}");
        }
        // Declared as both: what is declared as not processed was not.
        let both = RetryPolicy { not_processed: [429, 502].into_iter().collect(), ..policy };
        assert_eq!(after(answered(502), &at(&both)), NOT_PERFORMED);
        let none = RetryPolicy { not_processed: Statuses::default(), ..both };
        assert_eq!(after(answered(429), &at(&none)), Next::Answer);
    }
}

/// C-29: a gateway that got no answer proves nothing: an idem effect is tried again, any other is
/// unknown.
#[test]
fn a_gateway_without_an_answer() {
    for status in [502, 504] {
        let policy = idem();
        assert_eq!(after(answered(status), &at(&policy)), TRANSIENT);
        for situation in spent(&policy) {
            assert_eq!(after(answered(status), &situation), Next::Answer, "{situation:?}");
        }
        let policy = once();
        assert_eq!(after(answered(status), &at(&policy)), Next::Indeterminate);
        let held = RetryPolicy { on_unknown: OnUnknown::Hold, ..policy.clone() };
        assert_eq!(after(answered(status), &at(&held)), Next::Hold);
        let asked = RetryPolicy { reconciler: reconciler(), ..held };
        assert_eq!(after(answered(status), &at(&asked)), Next::Ask);
        // Unless an effect declares that it is an answer like any other.
        let plain = RetryPolicy { no_answer: Some(Statuses::default()), ..policy };
        assert_eq!(after(answered(status), &at(&plain)), Next::Answer);
    }
}

/// C-28: what the peer answered is the outcome, also when it is an error or too large.
#[test]
fn an_answer_is_an_outcome() {
    for policy in [idem(), once()] {
        for situation in [at(&policy)].into_iter().chain(spent(&policy)) {
            for status in [200, 404, 500, 503] {
                assert_eq!(after(answered(status), &situation), Next::Answer, "{situation:?}");
            }
            assert_eq!(after(Ended::TooLarge, &situation), Next::TooLarge, "{situation:?}");
        }
    }
}

/// C-29, C-38: what never left may always be tried again. When there is no other attempt it is
/// known not to have happened, unless an earlier attempt may have.
#[test]
fn what_was_not_sent() {
    for policy in [idem(), once()] {
        assert_eq!(after(Ended::NotSent, &at(&policy)), NOT_SENT);
        let again = Situation { maybe_performed: true, ..at(&policy) };
        assert_eq!(after(Ended::NotSent, &again), NOT_SENT);
        for situation in spent(&policy) {
            let over = Next::Fail(ErrorKind::NotPerformed);
            assert_eq!(after(Ended::NotSent, &situation), over, "{situation:?}");
        }
    }
    let idem = idem();
    for situation in spent(&idem) {
        let earlier = Situation { maybe_performed: true, ..situation };
        let over = Next::Fail(ErrorKind::Transient);
        assert_eq!(after(Ended::NotSent, &earlier), over, "{earlier:?}");
    }
    let held = RetryPolicy { on_unknown: OnUnknown::Hold, ..once() };
    for situation in spent(&held) {
        let earlier = Situation { maybe_performed: true, ..situation };
        let over = if situation.closing { Next::Indeterminate } else { Next::Hold };
        assert_eq!(after(Ended::NotSent, &earlier), over, "{earlier:?}");
    }
}

/// C-38: what is not allowed is not tried again. It did not happen, unless an earlier attempt may
/// have.
#[test]
fn what_is_refused() {
    for policy in [idem(), once()] {
        for situation in [at(&policy)].into_iter().chain(spent(&policy)) {
            let over = Next::Fail(ErrorKind::NotPerformed);
            assert_eq!(after(Ended::Refused, &situation), over, "{situation:?}");
        }
    }
    let (idem, once) = (idem(), once());
    let earlier = |policy| Situation { maybe_performed: true, ..at(policy) };
    assert_eq!(after(Ended::Refused, &earlier(&idem)), Next::Fail(ErrorKind::Uncategorized));
    assert_eq!(after(Ended::Refused, &earlier(&once)), Next::Indeterminate);
    // A reconciler is asked about the attempt that has ended, and that one is known.
    let held =
        RetryPolicy { on_unknown: OnUnknown::Hold, reconciler: reconciler(), ..once.clone() };
    assert_eq!(after(Ended::Refused, &earlier(&held)), Next::Hold);
}

/// C-29, C-41: an unknown effect that is idem is made again while it may be, and then fails; that
/// the engine died does not count towards the bound.
#[test]
fn unknown_and_idem() {
    let policy = idem();
    assert_eq!(after(NO_ANSWER, &at(&policy)), TRANSIENT);
    assert_eq!(after(TIMED_OUT, &at(&policy)), TIMEOUT);
    assert_eq!(after(LOST, &at(&policy)), ENGINE_LOST);
    let [bound, late, closing] = spent(&policy);
    for situation in [bound, late, closing] {
        let over = Next::Fail(ErrorKind::Transient);
        assert_eq!(after(NO_ANSWER, &situation), over, "{situation:?}");
        let over = Next::Fail(ErrorKind::Timeout);
        assert_eq!(after(TIMED_OUT, &situation), over, "{situation:?}");
    }
    assert_eq!(after(LOST, &bound), ENGINE_LOST);
    assert_eq!(after(LOST, &late), Next::Fail(ErrorKind::Transient));
    assert_eq!(after(LOST, &closing), Next::Fail(ErrorKind::Transient));
    // The journal counts no further.
    let counted = Situation { retries_counted: u32::MAX, ..at(&policy) };
    assert_eq!(after(LOST, &counted), Next::Fail(ErrorKind::Transient));
    let unbounded = RetryPolicy { bound: RetryBound::Unbounded, ..policy };
    let many = Situation { retries_counted: u32::MAX - 1, ..at(&unbounded) };
    assert_eq!(after(NO_ANSWER, &many), TRANSIENT);
    let all = Situation { retries_counted: u32::MAX, ..at(&unbounded) };
    assert_eq!(after(NO_ANSWER, &all), Next::Fail(ErrorKind::Transient));
    // An idem effect asks neither a reconciler nor a person, whatever is declared.
    let declared = RetryPolicy { reconciler: reconciler(), on_unknown: OnUnknown::Hold, ..idem() };
    assert_eq!(after(NO_ANSWER, &at(&declared)), TRANSIENT);
}

/// V-24, C-29: an unknown effect that is not idem is never made again: its reconciler is asked, or
/// it is held, or it is Indeterminate.
#[test]
fn unknown_and_not_idem() {
    let policy = once();
    let held = RetryPolicy { on_unknown: OnUnknown::Hold, ..policy.clone() };
    let asked = RetryPolicy { reconciler: reconciler(), ..held.clone() };
    for ended in [NO_ANSWER, TIMED_OUT, LOST] {
        assert_eq!(after(ended, &at(&policy)), Next::Indeterminate);
        assert_eq!(after(ended, &at(&held)), Next::Hold);
        assert_eq!(after(ended, &at(&asked)), Next::Ask);
        // The reconciler is asked even if the bound or the deadline forbids another attempt.
        let [bound, late, _] = spent(&asked);
        assert_eq!(after(ended, &bound), Next::Ask);
        assert_eq!(after(ended, &late), Next::Ask);
    }
    assert_eq!(unresolved(&asked, false), Next::Hold);
    assert_eq!(unresolved(&policy, false), Next::Indeterminate);
}

/// C-40: for a caller that is ending, nothing is tried again, held or asked: it is settled.
#[test]
fn a_caller_that_is_ending_waits_for_nobody() {
    let asked = RetryPolicy { reconciler: reconciler(), on_unknown: OnUnknown::Hold, ..once() };
    let closing = Situation { closing: true, ..at(&asked) };
    for ended in [NO_ANSWER, TIMED_OUT, LOST, answered(502)] {
        assert_eq!(after(ended, &closing), Next::Indeterminate, "{ended:?}");
    }
    assert_eq!(unresolved(&asked, true), Next::Indeterminate);
}
