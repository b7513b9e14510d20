//! For every invariant: a legal journal passes, and the smallest illegal one is refused with
//! exactly that id.

use indelible_journal::*;

use crate::kit::*;

/// S-1, J-54, INV-2: entry i has sequence i.
#[test]
fn s1_sequences_count_from_zero() {
    let mut journal = Journal::new(key());
    let record = |sequence, event| Record { sequence, timestamp: secs(1), event };
    let late = journal.append_record(record(Sequence::new(1), started())).unwrap_err();
    assert_eq!((late.rule, late.sequence), (Rule::S1, Sequence::ZERO));
    let entry = journal.append_record(record(Sequence::ZERO, started())).unwrap();
    assert_eq!(entry.sequence(), Sequence::ZERO);
    let again = journal.append_record(record(Sequence::ZERO, completed())).unwrap_err();
    assert_eq!(again.rule, Rule::S1);
    let gap = journal.append_record(record(Sequence::new(2), completed())).unwrap_err();
    assert_eq!(gap.rule, Rule::S1);
    journal.append_record(record(Sequence::new(1), completed())).unwrap();
}

/// S-2, J-53, INV-1: the first event is ExecutionStarted.
#[test]
fn s2_starts_with_started() {
    legal(steps![started()]);
    for event in [completed(), cancel_requested(), invoke(0), deliver("go", 1), resumed()] {
        refused(steps![event], Rule::S2);
    }
}

/// S-3: at most one terminal event. It follows from S-4: whichever comes first, none follows.
#[test]
fn s3_single_terminal_follows_from_s4() {
    for first in [completed(), failed(), cancelled()] {
        for second in [completed(), failed(), cancelled()] {
            refused(steps![started(), cancel_requested(), first.clone(), second], Rule::S4);
        }
    }
}

/// S-4, J-55, INV-3: nothing follows a terminal event, whatever it is.
#[test]
fn s4_terminal_is_last() {
    legal(steps![started(), completed()]);
    legal(steps![started(), failed()]);
    let events =
        [started(), cancel_requested(), invoke(0), random(0), deliver("go", 1), join_set(0)];
    for event in events {
        refused(steps![started(), completed(), event], Rule::S4);
    }
}

/// S-5, J-57: a cancellation was asked for.
#[test]
fn s5_cancelled_requires_requested() {
    legal(steps![started(), cancel_requested(), cancelled()]);
    refused(steps![started(), cancelled()], Rule::S5);
    refused(steps![started(), invoke(0), wait_one(0), cancelled()], Rule::S5);
}

/// SE-1, J-58, INV-5: what starts was scheduled.
#[test]
fn se1_started_requires_scheduled() {
    legal(steps![started(), invoke(0), begin(0, 1)]);
    refused(steps![started(), begin(0, 1)], Rule::SE1);
    refused(steps![started(), random(0), begin(0, 1)], Rule::SE1);
    // A promise of another execution was never scheduled here.
    let elsewhere = p(0).child(0).unwrap();
    let event = Event::InvokeStarted { promise_id: elsewhere, attempt: attempt(1) };
    refused(steps![started(), invoke(0), event], Rule::SE1);
}

/// SE-2, J-59: what completes was started.
#[test]
fn se2_completed_requires_started() {
    legal(steps![started(), invoke(0), begin(0, 1), done(0, 1)]);
    refused(steps![started(), invoke(0), done(0, 1)], Rule::SE2);
    refused(steps![started(), done(0, 1)], Rule::SE2);
}

/// SE-3, J-60: a retry follows an attempt that was started, the same one.
#[test]
fn se3_retrying_requires_started() {
    legal(steps![started(), invoke(0), begin(0, 1), retry(0, 1)]);
    refused(steps![started(), retry(0, 1)], Rule::SE3);
    refused(steps![started(), invoke(0), retry(0, 1)], Rule::SE3);
    refused(steps![started(), invoke(0), begin(0, 1), retry(0, 2)], Rule::SE3);
    refused(steps![started(), invoke(0), begin(0, 1), retry(0, 1), retry(0, 2)], Rule::SE3);
}

/// SE-4, J-61, C-17: a completed call has no more attempts.
#[test]
fn se4_no_events_after_completed() {
    let over = || steps![started(), invoke(0), begin(0, 1), done(0, 1)];
    for event in [begin(0, 1), begin(0, 2), retry(0, 1), retry(0, 2)] {
        refused([over(), steps![event]].concat(), Rule::SE4);
    }
}

/// SE-5, J-62, C-1: no more retries than the call's own policy says; an unbounded one goes on.
#[test]
fn se5_retries_are_bounded_by_the_policy() {
    let bounded = |n| RetryPolicy { bound: RetryBound::Bounded(n), ..RetryPolicy::default() };
    let attempts = |policy, n| {
        let mut all = steps![started(), invoke_with(0, policy)];
        for a in 1..=n {
            all.extend(steps![begin(0, a), retry(0, a)]);
        }
        all
    };
    for n in [0, 1, 3] {
        legal(attempts(bounded(n), n));
        refused(attempts(bounded(n), n + 1), Rule::SE5);
    }
    let unbounded = RetryPolicy { bound: RetryBound::Unbounded, ..RetryPolicy::default() };
    legal(attempts(unbounded, 50));
}

/// CF-1, J-63: what fires was scheduled.
#[test]
fn cf1_timer_fired_requires_scheduled() {
    legal(steps![started(), timer(0, 1, 1), at(2, fired(0))]);
    refused(steps![started(), fired(0)], Rule::CF1);
    refused(steps![started(), invoke(0), fired(0)], Rule::CF1);
}

/// CF-2, J-64: what is received was delivered: the same name, number and payload.
#[test]
fn cf2_signal_received_requires_delivered() {
    legal(steps![started(), deliver("go", 1), receive(0, "go", 1)]);
    refused(steps![started(), receive(0, "go", 1)], Rule::CF2);
    refused(steps![started(), deliver("go", 1), receive(0, "stop", 1)], Rule::CF2);
    refused(steps![started(), deliver("go", 1), receive(0, "go", 2)], Rule::CF2);
    let other = Event::SignalReceived {
        promise_id: p(0),
        signal_name: name("go"),
        payload: payload("something else"),
        delivery_id: DeliveryId::FIRST,
    };
    refused(steps![started(), deliver("go", 1), other], Rule::CF2);
}

/// CF-3, J-65: a delivery is consumed once.
#[test]
fn cf3_signal_consumed_once() {
    let one = || steps![started(), deliver("go", 1), receive(0, "go", 1)];
    refused([one(), steps![receive(1, "go", 1)]].concat(), Rule::CF3);
    refused([one(), steps![deliver("go", 2), receive(1, "go", 1)]].concat(), Rule::CF3);
    legal([one(), steps![deliver("go", 2), receive(1, "go", 2)]].concat());
}

/// CF-4, J-66: a signal await waits on exactly its own promise.
#[test]
fn cf4_await_signal_consistent() {
    legal(steps![started(), wait_signal(0, "go")]);
    let kind = || AwaitKind::Signal { name: name("go"), promise_id: p(1) };
    refused(steps![started(), invoke(0), wait(&[0], kind())], Rule::CF4);
    refused(steps![started(), invoke(0), wait(&[0, 1], kind())], Rule::CF4);
    refused(steps![started(), invoke(0), wait(&[], kind())], Rule::CF4);
}

/// JS-1, J-67: a set is created before anything is submitted to it.
#[test]
fn js1_submit_requires_created() {
    legal(steps![started(), join_set(0), invoke(1), submit(0, 1)]);
    refused(steps![started(), invoke(0), submit(1, 0)], Rule::JS1);
    // A call is not a set.
    refused(steps![started(), invoke(0), invoke(1), submit(0, 1)], Rule::JS1);
}

/// JS-2, J-67: nothing is submitted to a set after its first result was taken.
#[test]
fn js2_no_submit_after_await() {
    let taken = || {
        let submitted = steps![started(), join_set(0), invoke(1), submit(0, 1)];
        [submitted, steps![begin(1, 1), done(1, 1), take(0, 1)]].concat()
    };
    refused([taken(), steps![invoke(2), submit(0, 2)]].concat(), Rule::JS2);
    // Another set is open still.
    legal([taken(), steps![join_set(2), invoke(3), submit(2, 3)]].concat());
}

/// JS-3, J-68: what is taken was submitted to that very set.
#[test]
fn js3_awaited_requires_member() {
    let two = || {
        let sets = steps![started(), join_set(0), join_set(1), invoke(2), submit(0, 2)];
        [sets, steps![begin(2, 1), done(2, 1)]].concat()
    };
    legal([two(), steps![take(0, 2)]].concat());
    refused([two(), steps![take(1, 2)]].concat(), Rule::JS3);
    let alone = steps![started(), join_set(0), invoke(1), begin(1, 1), done(1, 1), take(0, 1)];
    refused(alone, Rule::JS3);
    refused(steps![started(), invoke(0), begin(0, 1), done(0, 1), take(1, 0)], Rule::JS3);
}

/// JS-4, J-68: what is taken has completed.
#[test]
fn js4_awaited_requires_completed() {
    let submitted = steps![started(), join_set(0), invoke(1), submit(0, 1)];
    refused([submitted.clone(), steps![take(0, 1)]].concat(), Rule::JS4);
    refused([submitted, steps![begin(1, 1), take(0, 1)]].concat(), Rule::JS4);
}

/// JS-5, J-69: a result is taken once.
#[test]
fn js5_no_double_consume() {
    let submitted = steps![started(), join_set(0), invoke(1), submit(0, 1)];
    let twice = steps![begin(1, 1), done(1, 1), take(0, 1), take(0, 1)];
    refused([submitted, twice].concat(), Rule::JS5);
}

/// JS-6, J-69: no more results than submissions. It follows from JS-3 and JS-5: each submission
/// gives one result, and a further one is refused, whichever member it names.
#[test]
fn js6_consume_bounded_follows_from_js3_and_js5() {
    let mut all = steps![started(), join_set(0)];
    for n in 1..=3 {
        all.extend(steps![invoke(n), submit(0, n), begin(n, 1), done(n, 1)]);
    }
    all.extend(steps![take(0, 3), take(0, 1), take(0, 2)]);
    legal(all.clone());
    for n in 1..=3 {
        refused([all.clone(), steps![take(0, n)]].concat(), Rule::JS5);
    }
    all.extend(steps![invoke(4), begin(4, 1), done(4, 1)]);
    refused([all, steps![take(0, 4)]].concat(), Rule::JS3);
}

/// JS-7, J-69: a promise is in at most one set.
#[test]
fn js7_promise_single_owner() {
    let sets = steps![started(), join_set(0), join_set(1), invoke(2), submit(0, 2)];
    refused([sets.clone(), steps![submit(1, 2)]].concat(), Rule::JS7);
    legal([sets, steps![invoke(3), submit(1, 3)]].concat());
}

/// INV-4, J-7, J-56: the stored status is the fold of the events, after each of them. It follows
/// from construction: the fold is what is stored. `legal` compares it with a fold from the start.
#[test]
fn inv4_status_is_the_fold() {
    let all = steps![
        started(),
        invoke(0),
        wait_one(0),
        begin(0, 1),
        done(0, 1),
        resumed(),
        cancel_requested(),
        deliver("go", 1),
        cancelled(),
    ];
    let expected = ["Running", "Running", "Blocked", "Blocked", "Blocked", "Running"];
    let expected = [&expected[..], &["Cancelling", "Cancelling", "Cancelled"]].concat();
    for (length, status) in expected.into_iter().enumerate() {
        let journal = legal(all[..=length].to_vec());
        assert_eq!(journal.status().unwrap().name(), status, "after {} events", length + 1);
    }
}

/// INV-6, J-70, J-92: no promise is allocated twice, in one execution or in two. It follows from
/// construction: a new child is this execution's next, so ids of two executions differ in their
/// path or root.
#[test]
fn inv6_promise_ids_are_unique() {
    refused(steps![started(), invoke(0), invoke(0)], Rule::J2);
    refused(steps![started(), random(0), join_set(0)], Rule::J2);
    // The next child of another execution is not this one's.
    let elsewhere = ExecutionId::new(p(7)).unwrap().child(0);
    let event = Event::RandomGenerated { promise_id: elsewhere.clone(), value: vec![1].into() };
    refused(steps![started(), event], Rule::J2);
    assert_ne!(elsewhere, p(0));
}
