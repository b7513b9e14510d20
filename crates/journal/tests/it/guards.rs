//! The guards of the actions and the decisions on them: what is legal when, and the smallest
//! journal that is refused with exactly that id.

use indelible_journal::*;

use crate::kit::*;

fn blocked() -> Vec<Step> {
    steps![started(), invoke(0), wait_one(0)]
}

fn cancelling() -> Vec<Step> {
    steps![started(), cancel_requested()]
}

fn with(prefix: Vec<Step>, more: Vec<Step>) -> Vec<Step> {
    [prefix, more].concat()
}

fn refuses_start(key: JournalKey, started: Started, rule: Rule) {
    let violation = Journal::start(key, secs(1), started).expect_err("it is refused");
    assert_eq!(violation.rule, rule, "{violation}");
}

/// J-1, C-31: a root's hash is made of digest, starter, namespace and operation id; a journal
/// under any other hash is refused, and equal operation ids in two namespaces do not collide.
#[test]
fn j1_a_roots_hash_is_derived() {
    refuses_start(
        key(),
        Started { component_digest: ComponentDigest::of(b"x"), ..start() },
        Rule::J1,
    );
    refuses_start(key(), Started { parent_id: Some(own()), ..start() }, Rule::J1);
    refuses_start(key(), Started { idempotency_key: None, ..start() }, Rule::J1);
    let other = OperationKey { namespace: Namespace::new("other").unwrap(), ..operation() };
    refuses_start(key(), Started { idempotency_key: Some(other.clone()), ..start() }, Rule::J1);
    let root = RootHash::derive(&digest(), None, &other);
    let started = Started { idempotency_key: Some(other), ..start() };
    Journal::start(JournalKey::first(ExecutionId::root_of(root)), secs(1), started).unwrap();
}

/// C-32: an ExecutionStarted says what its journal's key says: the attempts, and for a child its
/// caller.
#[test]
fn c32_started_agrees_with_the_key() {
    let second = Attempts::new(&[attempt(2)]).unwrap();
    refuses_start(key(), Started { attempts: second, ..start() }, Rule::C32);

    let child = ExecutionId::new(p(3)).unwrap();
    let attempts = Attempts::first(0).called(attempt(2));
    let key = JournalKey::new(child, attempts.clone()).unwrap();
    let started = Started {
        parent_id: Some(own()),
        idempotency_key: None,
        attempts: attempts.clone(),
        ..start()
    };
    let (journal, _) = Journal::start(key.clone(), secs(1), started.clone()).unwrap();
    assert_eq!(journal.next_promise().to_string(), format!("{}.3.0", own()));
    refuses_start(key.clone(), Started { parent_id: None, ..started.clone() }, Rule::C32);
    let stranger = ExecutionId::new(p(4)).unwrap();
    refuses_start(key.clone(), Started { parent_id: Some(stranger), ..started.clone() }, Rule::C32);
    let operation = Some(operation());
    refuses_start(
        key.clone(),
        Started { idempotency_key: operation, ..started.clone() },
        Rule::C32,
    );
    let policy = Some(RetryPolicy::default().into());
    refuses_start(key, Started { retry_policy: policy, ..started }, Rule::C32);
}

/// J-2, J-39: a child is the next one, and takes exactly one number, whatever it is.
#[test]
fn j2_children_are_numbered_in_order() {
    let all = steps![
        started(),
        invoke(0),
        random(1),
        join_set(2),
        timer(3, 9, 1),
        deliver("go", 1),
        receive(4, "go", 1),
        at(20, Event::TimeRecorded { promise_id: p(5), time: secs(20) }),
    ];
    let journal = legal(all.clone());
    assert_eq!(journal.next_child(), 6);
    for event in [invoke(5), random(7), join_set(0)] {
        refused(with(all.clone(), steps![event]), Rule::J2);
    }
    refused(with(all.clone(), steps![timer(7, 30, 1)]), Rule::J2);
    refused(with(all, steps![deliver("go", 2), receive(7, "go", 2)]), Rule::J2);
}

/// J-35: an execution starts once.
#[test]
fn j35_an_execution_starts_once() {
    let journal = legal(steps![started()]);
    assert_eq!((journal.len(), journal.next_child()), (1, 0));
    assert_eq!(journal.status(), Some(&Status::Running));
    refused(steps![started(), started()], Rule::J35);
}

/// J-36, C-23: a blocked execution does not complete, but the runtime may fail it.
#[test]
fn c23_completing_and_failing() {
    for before in [steps![started()], cancelling()] {
        legal(with(before.clone(), steps![completed()]));
        legal(with(before, steps![failed()]));
    }
    refused(with(blocked(), steps![completed()]), Rule::C23);
    legal(with(blocked(), steps![failed()]));
}

/// J-12, J-13, J-37, J-38, J-80, C-22: a cancel is asked for once, while running or blocked, and
/// lasts: no wait, no resumption, no second request follows.
#[test]
fn c22_cancelling_lasts() {
    for before in [steps![started()], blocked()] {
        let journal = legal(with(before.clone(), steps![cancel_requested()]));
        assert_eq!(journal.status(), Some(&Status::Cancelling));
        refused(with(before, steps![cancel_requested(), cancel_requested()]), Rule::C22);
    }
    refused(with(cancelling(), steps![invoke(0), wait_one(0)]), Rule::C22);
    let resolved = steps![begin(0, 1), done(0, 1), cancel_requested(), resumed()];
    refused(with(blocked(), resolved), Rule::J47);
}

/// C-22: whatever is legal when Running, except to wait, is legal when Cancelling too, so that a
/// saga can compensate.
#[test]
fn c22_compensation_is_legal() {
    let cleanup = steps![
        invoke(0),
        begin(0, 1),
        retry(0, 1),
        begin(0, 2),
        done(0, 2),
        random(1),
        at(10, Event::TimeRecorded { promise_id: p(2), time: secs(10) }),
        timer(3, 11, 1),
        fired(3),
        deliver("go", 1),
        receive(4, "go", 1),
        join_set(5),
        invoke(6),
        submit(5, 6),
        begin(6, 1),
        done(6, 1),
        take(5, 6),
    ];
    for end in [cancelled(), completed(), failed()] {
        legal(with(with(cancelling(), cleanup.clone()), steps![end]));
    }
}

/// J-39, J-48, J-49, J-50, C-15: a blocked execution makes no calls, sets or submissions.
#[test]
fn j39_a_blocked_guest_does_nothing() {
    let time = Event::TimeRecorded { promise_id: p(1), time: secs(9) };
    for step in [invoke(1).into(), random(1).into(), join_set(1).into(), at(9, time)] {
        refused(with(blocked(), vec![step]), Rule::J39);
    }
    refused(with(blocked(), steps![timer(1, 9, 1)]), Rule::J39);

    let set = steps![started(), join_set(0), invoke(1), begin(1, 1), done(1, 1), invoke(2)];
    let submitted = with(set, steps![submit(0, 1), wait_one(2)]);
    refused(with(submitted.clone(), steps![submit(0, 2)]), Rule::J49);
    refused(with(submitted, steps![take(0, 1)]), Rule::J50);
}

/// J-40, J-41, J-42, J-15, J-16, J-17: effects go on while the guest waits or cleans up, and a
/// call completes once.
#[test]
fn j41_effects_go_on_while_blocked() {
    let calls = || steps![begin(0, 1), retry(0, 1), begin(0, 2), done(0, 2)];
    legal(with(blocked(), calls()));
    legal(with(with(blocked(), steps![cancel_requested()]), calls()));
    refused(with(with(blocked(), calls()), steps![done(0, 2)]), Rule::J41);
}

/// C-18, J-77: attempts follow one another: 1, retry, 2, retry, 3, completed.
#[test]
fn c18_attempts_are_contiguous() {
    let first = || steps![started(), invoke(0), begin(0, 1)];
    refused(steps![started(), invoke(0), begin(0, 2)], Rule::C18);
    refused(with(first(), steps![begin(0, 1)]), Rule::C18);
    refused(with(first(), steps![begin(0, 2)]), Rule::C18);
    refused(with(first(), steps![done(0, 2)]), Rule::C18);
    let retried = || with(first(), steps![retry(0, 1)]);
    refused(with(retried(), steps![retry(0, 1)]), Rule::C18);
    refused(with(retried(), steps![done(0, 1)]), Rule::C18);
    refused(with(retried(), steps![begin(0, 1)]), Rule::C18);
    refused(with(retried(), steps![begin(0, 3)]), Rule::C18);
    let second = || with(retried(), steps![begin(0, 2)]);
    refused(with(second(), steps![retry(0, 1)]), Rule::C18);
    refused(with(second(), steps![done(0, 1)]), Rule::C18);
    legal(with(second(), steps![done(0, 2)]));
}

/// C-38, C-1: only Failed and NotSent count towards the bound.
#[test]
fn c38_some_causes_do_not_count() {
    let policy = || RetryPolicy {
        class: RetryClass::PERSIST_IDEM,
        bound: RetryBound::Bounded(1),
        reconciler: Some(Reconciler { function: function("ask"), settle: Micros::ZERO }),
        ..RetryPolicy::default()
    };
    for cause in RetryCause::ALL {
        let mut all = steps![started(), invoke_with(0, policy())];
        for a in 1..=2 {
            all.extend(steps![begin(0, a), retry_for(0, a, cause)]);
        }
        if matches!(cause, RetryCause::Failed | RetryCause::NotSent) {
            refused(all, Rule::SE5);
        } else {
            legal(all);
        }
    }
}

/// C-29, V-24: an attempt whose outcome is unknown is not repeated unless that is safe, and only a
/// reconciler can have said that it did not happen.
#[test]
fn c29_an_unknown_outcome_is_not_repeated() {
    let lost = |class| {
        let policy = RetryPolicy { class, ..RetryPolicy::default() };
        let cause = RetryCause::EngineLost;
        steps![started(), invoke_with(0, policy), begin(0, 1), retry_for(0, 1, cause)]
    };
    refused(lost(RetryClass::PERSIST), Rule::C29);
    refused(lost(RetryClass::VOLATILE), Rule::C29);
    legal(lost(RetryClass::PERSIST_IDEM));
    legal(lost(RetryClass::VOLATILE_IDEM));

    let reconciled = |reconciler| {
        let policy = RetryPolicy { reconciler, ..RetryPolicy::default() };
        let cause = RetryCause::ReconciledNotDone;
        steps![started(), invoke_with(0, policy), begin(0, 1), retry_for(0, 1, cause)]
    };
    refused(reconciled(None), Rule::C29);
    let reconciler = Reconciler { function: function("ask"), settle: Micros::from_secs(9) };
    legal(reconciled(Some(reconciler)));
}

fn failed_with(kind: InvokeKind, class: RetryClass, error: ErrorKind) -> Vec<Step> {
    let policy = RetryPolicy { class, ..RetryPolicy::default() };
    let Event::InvokeScheduled { promise_id, function_name, input, retry_policy, .. } =
        invoke_with(0, policy)
    else {
        unreachable!("it schedules an invoke")
    };
    let scheduled = Event::InvokeScheduled { promise_id, kind, function_name, input, retry_policy };
    let retrying = Event::InvokeRetrying {
        promise_id: p(0),
        failed_attempt: attempt(1),
        cause: RetryCause::Failed,
        error: Box::new(Failure::new(error, "it broke")),
        retry_at: secs(9),
    };
    steps![started(), scheduled, begin(0, 1), retrying]
}

/// C-29, V-24: a request that was sent and not answered in time, or is Indeterminate, is unknown: it
/// is sent again only if that is safe. A function whose descendants are Indeterminate never is.
#[test]
fn c29_a_timeout_of_a_request_is_unknown() {
    use ErrorKind::{Indeterminate, Timeout, Transient};
    use InvokeKind::{Function, Http};
    refused(failed_with(Http, RetryClass::PERSIST, Timeout), Rule::C29);
    legal(failed_with(Http, RetryClass::PERSIST_IDEM, Timeout));
    legal(failed_with(Http, RetryClass::PERSIST, Transient));
    legal(failed_with(Function, RetryClass::PERSIST, Timeout));
    refused(failed_with(Http, RetryClass::PERSIST, Indeterminate), Rule::C29);
    legal(failed_with(Http, RetryClass::PERSIST_IDEM, Indeterminate));
    for class in [RetryClass::PERSIST, RetryClass::VOLATILE_IDEM] {
        refused(failed_with(Function, class, Indeterminate), Rule::C29);
    }
}

/// C-28: what a function returned is its outcome; a trap or a passing error is a failed attempt.
#[test]
fn c28_what_was_returned_is_not_tried_again() {
    use InvokeKind::{Function, Http};
    for error in [ErrorKind::UserError, ErrorKind::Cancelled] {
        refused(failed_with(Function, RetryClass::PERSIST_IDEM, error), Rule::C28);
        legal(failed_with(Http, RetryClass::PERSIST_IDEM, error));
    }
    for error in [ErrorKind::Trap, ErrorKind::Transient, ErrorKind::Timeout] {
        legal(failed_with(Function, RetryClass::PERSIST, error));
    }
}

/// C-41: a persist function is never unknown, however safe it is to run again: its own journal
/// goes on.
#[test]
fn c41_a_persist_function_is_never_unknown() {
    let reconciler = Some(Reconciler { function: function("ask"), settle: Micros::ZERO });
    let lost = |class, cause| {
        let policy =
            RetryPolicy { class, reconciler: reconciler.clone(), ..RetryPolicy::default() };
        let mut all = failed_with(InvokeKind::Function, class, ErrorKind::Trap);
        let Event::InvokeScheduled { retry_policy, .. } = &mut all[1].event else {
            unreachable!("it schedules an invoke")
        };
        *retry_policy = policy.into();
        all[3] = retry_for(0, 1, cause).into();
        all
    };
    for cause in [RetryCause::EngineLost, RetryCause::ReconciledNotDone] {
        refused(lost(RetryClass::PERSIST, cause), Rule::C41);
        refused(lost(RetryClass::PERSIST_IDEM, cause), Rule::C41);
        legal(lost(RetryClass::VOLATILE_IDEM, cause));
    }
    legal(lost(RetryClass::PERSIST, RetryCause::Operator));
}

/// J-90: the rest of a join set is what was submitted and not taken: any or all of it can be
/// waited for, without listing it.
#[test]
fn j90_the_rest_of_a_join_set() {
    let rest =
        |kind| Event::ExecutionAwaiting { waiting_on: WaitSet::rest_of(&set(0)).unwrap(), kind };
    let members = || {
        let set = steps![started(), join_set(0), invoke(1), invoke(2), submit(0, 1), submit(0, 2)];
        with(set, steps![begin(1, 1), begin(2, 1)])
    };
    for (kind, needs_both) in [(AwaitKind::Any, false), (AwaitKind::All, true)] {
        let waiting = with(members(), steps![rest(kind.clone())]);
        refused(with(waiting.clone(), steps![resumed()]), Rule::J47);
        let one = with(waiting, steps![done(2, 1)]);
        if needs_both {
            refused(with(one.clone(), steps![resumed()]), Rule::J47);
        } else {
            legal(with(one.clone(), steps![resumed()]));
        }
        let both = with(one, steps![done(1, 1), resumed(), take(0, 1)]);
        legal(with(both.clone(), steps![rest(kind.clone()), resumed(), take(0, 2)]));
        // Nothing is left.
        refused(with(both, steps![take(0, 2), rest(kind)]), Rule::C26);
    }
    refused(with(members(), steps![rest(AwaitKind::Single)]), Rule::C26);
    refused(steps![started(), join_set(0), rest(AwaitKind::Any)], Rule::C26);
    refused(steps![started(), invoke(0), rest(AwaitKind::Any)], Rule::C26);
    let signal = AwaitKind::SignalOr { name: name("go"), promise_id: p(3) };
    refused(with(members(), steps![rest(signal)]), Rule::C37);
}

/// C-38, J-94: a final failure, Indeterminate and NotPerformed too, is an outcome of the call.
#[test]
fn c38_every_kind_of_error_is_an_outcome() {
    for kind in ErrorKind::ALL {
        let result: Outcome = Failure::new(kind, "it broke").into();
        let event = Event::InvokeCompleted {
            promise_id: p(0),
            result: result.clone(),
            attempt: attempt(1),
        };
        let journal = legal(steps![started(), invoke(0), begin(0, 1), event]);
        assert_eq!(journal.result(&p(0)), Some(&result));
    }
}

/// C-19, J-19, J-20, J-21, J-43: time does not go back; a timer fires once, and not early.
#[test]
fn c19_time_and_timers() {
    legal(steps![at(5, started()), at(5, random(0))]);
    refused(steps![at(5, started()), at(4, random(0))], Rule::C19);
    let time = |now| Event::TimeRecorded { promise_id: p(0), time: secs(now) };
    refused(steps![at(5, started()), at(6, time(5))], Rule::C19);
    refused(steps![at(5, started()), at(6, time(7))], Rule::C19);

    let asleep = || steps![at(5, started()), timer(0, 5, 3)];
    refused(with(asleep(), steps![at(7, fired(0))]), Rule::C19);
    legal(with(asleep(), steps![at(8, fired(0))]));
    refused(with(asleep(), steps![at(8, fired(0)), at(9, fired(0))]), Rule::C19);
    let wrong = Event::TimerScheduled {
        promise_id: p(0),
        duration: Micros::from_secs(3),
        fire_at: secs(9),
    };
    refused(steps![at(5, started()), at(5, wrong)], Rule::C19);
}

/// J-22, J-44, C-27: deliveries are numbered from 1, by name, without a gap, in any status.
#[test]
fn j44_deliveries_are_numbered_by_name() {
    legal(steps![started(), deliver("go", 1), deliver("stop", 1), deliver("go", 2)]);
    legal(with(blocked(), steps![deliver("go", 1)]));
    legal(with(cancelling(), steps![deliver("go", 1)]));
    refused(steps![started(), deliver("go", 2)], Rule::J44);
    refused(steps![started(), deliver("go", 1), deliver("go", 1)], Rule::J44);
    refused(steps![started(), deliver("go", 1), deliver("go", 3)], Rule::J44);
}

/// J-23, J-45: signals are consumed first in, first out, by name.
#[test]
fn j45_signals_are_consumed_in_order() {
    let two = || steps![started(), deliver("go", 1), deliver("go", 2), deliver("stop", 1)];
    refused(with(two(), steps![receive(0, "go", 2)]), Rule::J45);
    legal(with(two(), steps![receive(0, "stop", 1), receive(1, "go", 1), receive(2, "go", 2)]));
}

/// C-16, J-78: while blocked, a signal is received only by the await that waits for it, once.
#[test]
fn c16_a_blocked_guest_receives_its_own_signal() {
    let waiting = || steps![started(), wait_signal(0, "go"), deliver("go", 1), deliver("stop", 1)];
    let journal = legal(with(waiting(), steps![receive(0, "go", 1), resumed()]));
    assert_eq!((journal.next_child(), journal.status()), (1, Some(&Status::Running)));
    refused(with(waiting(), steps![receive(0, "stop", 1)]), Rule::C16);
    refused(with(waiting(), steps![receive(1, "go", 1)]), Rule::C16);
    let twice = steps![deliver("go", 2), receive(0, "go", 1), receive(1, "go", 2)];
    refused(with(waiting(), twice), Rule::C16);
    refused(with(blocked(), steps![deliver("go", 1), receive(1, "go", 1)]), Rule::C16);
}

/// J-78: a signal that is there is consumed at once, not waited for.
#[test]
fn j78_a_buffered_signal_is_not_waited_for() {
    refused(steps![started(), deliver("go", 1), wait_signal(0, "go")], Rule::J78);
    let raced = steps![started(), invoke(0), deliver("go", 1), wait_signal_or(1, "go", &[0])];
    refused(raced, Rule::J78);
    legal(steps![started(), deliver("go", 1), receive(0, "go", 1), wait_signal(1, "go")]);
    legal(steps![started(), deliver("go", 1), wait_signal(0, "stop")]);
}

/// J-24, J-46: the guest waits while it runs, not while it waits.
#[test]
fn j46_one_wait_at_a_time() {
    refused(with(blocked(), steps![wait_one(0)]), Rule::J46);
    refused(with(blocked(), steps![wait_signal(1, "go")]), Rule::J46);
}

/// J-25, J-29, J-33, J-34, J-47: each kind of wait ends when it should, and not before.
#[test]
fn j47_waits_end_when_satisfied() {
    let calls = || steps![started(), invoke(0), timer(1, 5, 0), invoke(2)];
    let finish = |n| steps![begin(n, 1), done(n, 1)];
    refused(steps![started(), resumed()], Rule::J47);
    for (kind, needs_all) in [(AwaitKind::Any, false), (AwaitKind::All, true)] {
        let waiting = with(calls(), steps![wait(&[0, 1, 2], kind)]);
        refused(with(waiting.clone(), steps![resumed()]), Rule::J47);
        // A retry resolves nothing.
        refused(with(waiting.clone(), steps![begin(0, 1), retry(0, 1), resumed()]), Rule::J47);
        let one = with(waiting, steps![fired(1)]);
        let two = with(one.clone(), finish(0));
        if needs_all {
            refused(with(one, steps![resumed()]), Rule::J47);
            refused(with(two.clone(), steps![resumed()]), Rule::J47);
            legal(with(with(two, finish(2)), steps![resumed()]));
        } else {
            legal(with(one, steps![resumed()]));
        }
    }
    let single = with(calls(), steps![wait_one(0)]);
    refused(with(with(single.clone(), finish(2)), steps![resumed()]), Rule::J47);
    legal(with(with(single, finish(0)), steps![resumed()]));
    // What was resolved before counts.
    let early = with(with(calls(), finish(0)), steps![wait(&[0, 1], AwaitKind::All)]);
    refused(with(early.clone(), steps![resumed()]), Rule::J47);
    legal(with(early, steps![fired(1), resumed()]));
    let signal = steps![started(), wait_signal(0, "go"), deliver("go", 1)];
    refused(with(signal, steps![resumed()]), Rule::J47);
}

/// C-26: nothing is awaited that can never resolve, and nothing but a call is submitted.
#[test]
fn c26_hopeless_awaits_are_refused() {
    let all = || steps![started(), random(0), join_set(1), invoke(2)];
    for n in [0, 1, 3] {
        refused(with(all(), steps![wait_one(n)]), Rule::C26);
        refused(with(all(), steps![wait(&[n, 2], AwaitKind::Any)]), Rule::C26);
    }
    refused(with(all(), steps![wait(&[], AwaitKind::Any)]), Rule::C26);
    refused(with(all(), steps![wait(&[], AwaitKind::All)]), Rule::C26);
    refused(with(all(), steps![wait(&[], AwaitKind::Single)]), Rule::C26);
    refused(with(all(), steps![wait_signal(5, "go")]), Rule::C26);
    // Nor does a call resolve by a signal.
    refused(with(all(), steps![wait_signal(2, "go")]), Rule::C26);
    let elsewhere = WaitSet::of_numbers(&ExecutionId::new(p(2)).unwrap(), vec![0]).unwrap();
    let event = Event::ExecutionAwaiting { waiting_on: elsewhere, kind: AwaitKind::Single };
    refused(with(all(), steps![event]), Rule::C26);
    for n in [0, 1, 3] {
        refused(with(all(), steps![submit(1, n)]), Rule::C26);
    }
    refused(steps![started(), join_set(0), timer(1, 5, 1), submit(0, 1)], Rule::C26);
}

/// C-26: a single wait has one promise.
#[test]
fn c26_single_means_one() {
    let two = wait(&[0, 1], AwaitKind::Single);
    refused(steps![started(), invoke(0), invoke(1), two], Rule::C26);
}

/// C-37: a signal raced against promises: any one ends the wait; the signal is received only if
/// nothing else did; if another wins, no child number is used and the delivery stays.
#[test]
fn c37_signal_or_others() {
    let racing = || steps![at(1, started()), timer(0, 1, 60), wait_signal_or(1, "go", &[0])];
    refused(with(racing(), steps![resumed()]), Rule::J47);

    let signal = with(racing(), steps![deliver("go", 1), receive(1, "go", 1)]);
    let journal = legal(with(signal.clone(), steps![resumed()]));
    assert_eq!(journal.next_child(), 2);
    // The loser may still resolve, before or after the execution resumes.
    legal(with(signal, steps![at(70, fired(0)), resumed()]));

    let timeout = with(racing(), steps![at(61, fired(0)), deliver("go", 1)]);
    refused(with(timeout.clone(), steps![receive(1, "go", 1)]), Rule::C16);
    let journal = legal(with(timeout.clone(), steps![resumed()]));
    assert_eq!(journal.next_child(), 1);
    legal(with(timeout, steps![resumed(), receive(1, "go", 1)]));

    let call = || steps![started(), invoke(0)];
    refused(with(call(), steps![wait_signal_or(2, "go", &[0])]), Rule::C37);
    refused(with(call(), steps![wait_signal_or(1, "go", &[])]), Rule::C37);
    let kind = AwaitKind::SignalOr { name: name("go"), promise_id: p(1) };
    refused(with(call(), steps![wait(&[0], kind)]), Rule::C37);
    refused(steps![started(), random(0), wait_signal_or(1, "go", &[0])], Rule::C26);
}

/// C-20, J-28: what is taken from a set is what the call completed with.
#[test]
fn c20_the_result_taken_is_the_one_completed() {
    let ready = steps![started(), join_set(0), invoke(1), submit(0, 1), begin(1, 1), done(1, 1)];
    let other =
        Event::JoinSetAwaited { join_set_id: set(0), promise_id: p(1), result: ok("another") };
    refused(with(ready, steps![other]), Rule::C20);
}

/// C-21, J-26, J-27: a call is submitted to a set once; one that has completed may be submitted.
#[test]
fn c21_submitted_once() {
    let submitted = || steps![started(), join_set(0), invoke(1), submit(0, 1)];
    refused(with(submitted(), steps![submit(0, 1)]), Rule::C21);
    legal(steps![started(), join_set(0), invoke(1), begin(1, 1), done(1, 1), submit(0, 1)]);
}

/// J-4: a join set is a place in the tree of its own type; what stands there is never a promise
/// that could be awaited or submitted.
#[test]
fn j4_a_join_set_is_no_promise() {
    refused(steps![started(), join_set(0), wait_one(0)], Rule::C26);
    refused(steps![started(), join_set(0), join_set(1), submit(0, 1)], Rule::C26);
    refused(steps![started(), join_set(0), begin(0, 1)], Rule::SE1);
}

/// J-90: what is waited for is a set: no duplicates, and no order.
#[test]
fn j90_a_wait_set_is_a_set() {
    let set = |numbers: &[u32]| WaitSet::of_numbers(&own(), numbers.to_vec());
    assert_eq!(set(&[2, 0, 1]), set(&[0, 1, 2]));
    assert_eq!(set(&[0, 1, 0]), Err(WaitSetError::Duplicate(p(0))));
    let foreign = p(0).child(0).unwrap();
    assert_eq!(WaitSet::new(&own(), [foreign.clone()]), Err(WaitSetError::Foreign(foreign)));
}

/// J-82: a wait and a join set have bounded members.
#[test]
fn j82_waits_and_sets_are_bounded() {
    let too_many = u32::try_from(wait::WAIT_MEMBERS_MAX).unwrap() + 1;
    let numbers: Vec<u32> = (0..too_many).collect();
    refused(steps![started(), crate::kit::wait(&numbers, AwaitKind::Any)], Rule::J82);

    let mut journal = legal(steps![started(), join_set(0)]);
    let now = journal.last_timestamp();
    let mut submit_one_more = |n| {
        journal.append(now, invoke(n)).unwrap();
        journal.append(now, submit(0, n))
    };
    for n in 1..too_many - 1 {
        submit_one_more(n).unwrap();
    }
    let violation = submit_one_more(too_many - 1).unwrap_err();
    assert_eq!(violation.rule, Rule::J82);
}
