//! The words themselves: the 20 events, what each holds, and which of them change the status.

use indelible_journal::*;

use crate::kit::*;

/// One of each, in the order of the specification.
fn all() -> Vec<Event> {
    vec![
        started(),
        completed(),
        failed(),
        cancel_requested(),
        cancelled(),
        invoke(0),
        begin(0, 1),
        done(0, 1),
        retry(0, 1),
        random(0),
        Event::TimeRecorded { promise_id: p(0), time: secs(1) },
        timer(0, 1, 1).event,
        fired(0),
        deliver("go", 1),
        receive(0, "go", 1),
        wait_one(0),
        resumed(),
        join_set(0),
        submit(0, 1),
        take(0, 1),
    ]
}

/// J-9, J-10, J-11, J-14, J-18, J-30: twenty events in five categories: lifecycle 5, side effects
/// 4, nondeterminism 2, control flow 6, concurrency 3.
#[test]
fn twenty_events_in_five_categories() {
    let names: std::collections::BTreeSet<_> = all().iter().map(Event::name).collect();
    assert_eq!(names.len(), 20);
    let count = |category| all().iter().filter(|event| event.category() == category).count();
    let categories = [
        (Category::Lifecycle, 5),
        (Category::SideEffects, 4),
        (Category::Nondeterminism, 2),
        (Category::ControlFlow, 6),
        (Category::Concurrency, 3),
    ];
    for (category, expected) in categories {
        assert_eq!(count(category), expected, "{category:?}");
    }
    let terminal: Vec<_> = all().into_iter().filter(Event::is_terminal).collect();
    assert_eq!(terminal, [completed(), failed(), cancelled()]);
}

/// J-31, J-32: seven events change the status, thirteen do not, whatever it was.
#[test]
fn seven_events_change_the_status() {
    let statuses = [Status::Running, Status::Cancelling, Status::Completed];
    let mut changing = Vec::new();
    for event in all() {
        let after: Vec<_> = statuses.iter().map(|status| status.clone().after(&event)).collect();
        if after != statuses {
            assert!(after.iter().all(|status| *status == after[0]), "{}", event.name());
            changing.push((event.name(), after[0].name()));
        }
    }
    let expected = [
        ("ExecutionStarted", "Running"),
        ("ExecutionCompleted", "Completed"),
        ("ExecutionFailed", "Failed"),
        ("CancelRequested", "Cancelling"),
        ("ExecutionCancelled", "Cancelled"),
        ("ExecutionAwaiting", "Blocked"),
        ("ExecutionResumed", "Running"),
    ];
    assert_eq!(changing, expected);
    assert_eq!(Status::fold([]), None, "an empty journal has no status");
}

/// J-5, J-6: an entry has a sequence from 0, a time and an event; the version is the length. The
/// time is for people: another clock leaves everything else as it is.
#[test]
fn entries_are_numbered_and_stamped() {
    let events = || steps![started(), invoke(0), begin(0, 1), done(0, 1)];
    let mut journal = Journal::new(key());
    let entries = run(&mut journal, &events()).unwrap();
    for (index, entry) in entries.iter().enumerate() {
        assert_eq!(entry.sequence().get(), index as u64);
        assert_eq!(entry.timestamp(), secs(index as u64 + 1));
    }
    assert_eq!(journal.len(), 4);

    let mut later = events();
    later[0].at = Some(1_000);
    let later = legal(later);
    assert_ne!(later.last_timestamp(), journal.last_timestamp());
    assert_eq!(later.status(), journal.status());
    assert_eq!(later.result(&p(0)), journal.result(&p(0)));
}

/// J-71, J-95: a call goes through Scheduled, Started and Completed, and is open until then, with
/// its policy at hand: what recovery looks at after a crash.
#[test]
fn a_call_has_three_phases() {
    let phase = |steps| legal(steps).open_invokes().next().map(|open| open.phase);
    let mut all = steps![started(), invoke(0)];
    assert_eq!(phase(all.clone()), Some(InvokePhase::Scheduled));
    all.extend(steps![begin(0, 1)]);
    assert_eq!(
        phase(all.clone()),
        Some(InvokePhase::Started { attempt: attempt(1), since: secs(3) })
    );
    all.extend(steps![retry(0, 1)]);
    let retrying = InvokePhase::Retrying { failed: attempt(1), retry_at: secs(1) };
    assert_eq!(phase(all.clone()), Some(retrying));
    let journal = legal(all.clone());
    let open = journal.open_invokes().next().unwrap();
    assert_eq!((open.promise_id, open.retry_policy), (p(0), RetryPolicy::default().into()));
    assert!(journal.effect_started());
    all.extend(steps![begin(0, 2), done(0, 2)]);
    assert_eq!(phase(all), None);
    assert!(!legal(steps![started(), invoke(0)]).effect_started());
}

/// C-32: the next attempt is made only of one that failed.
#[test]
fn only_a_failed_attempt_is_followed_by_another() {
    for last in [completed(), random(0)] {
        let journal = legal(steps![started(), last]);
        let refused = journal.next_attempt(secs(9)).unwrap_err();
        assert_eq!(refused, NextAttemptError::NotFailed);
    }
    let (next, entries) = legal(steps![started(), failed()]).next_attempt(secs(9)).unwrap();
    assert_eq!(next.key().attempts().own(), attempt(2));
    assert_eq!(entries.len(), 1);
}

/// SE-2: what was never sent, or waits for its next attempt, can be settled: started and completed
/// in one go.
#[test]
fn a_call_is_settled_without_an_attempt_in_flight() {
    let outcome = || Outcome::from(Failure::new(ErrorKind::NotPerformed, "an operator said so"));
    let settled = |steps| {
        let mut journal = legal(steps);
        let entries = journal.settle_invoke(secs(9), &p(0), outcome()).unwrap();
        assert_eq!(journal.result(&p(0)), Some(&outcome()));
        assert_eq!(journal.open_invoke(&p(0)), None);
        entries.len()
    };
    assert_eq!(settled(steps![started(), invoke(0)]), 2);
    assert_eq!(settled(steps![started(), invoke(0), begin(0, 1), retry(0, 1)]), 2);
    assert_eq!(settled(steps![started(), invoke(0), begin(0, 1)]), 1);
    let mut over = legal(steps![started(), invoke(0), begin(0, 1), done(0, 1)]);
    assert_eq!(over.settle_invoke(secs(9), &p(0), outcome()).unwrap_err().rule, Rule::J41);
}

/// C-22, J-44: what comes from outside when it is too late is no violation, and writes nothing.
#[test]
fn too_late_is_no_violation() {
    let mut over = legal(steps![started(), completed()]);
    assert_eq!(over.request_cancel(secs(9), "too late"), Ok(None));
    assert_eq!(over.deliver_signal(secs(9), &name("go"), payload("late")), Ok(None));
    let mut cancelling = legal(steps![started(), cancel_requested()]);
    assert_eq!(cancelling.request_cancel(secs(9), "again"), Ok(None));
}

/// C-27, C-38, SE-5: an open call knows how many of its retries count, so whether there may be
/// another is known before it is tried.
#[test]
fn an_open_call_knows_its_retries() {
    let policy = RetryPolicy { bound: RetryBound::Bounded(1), ..RetryPolicy::default() };
    let mut journal = legal(steps![started(), invoke_with(0, policy), begin(0, 1)]);
    let open = journal.open_invoke(&p(0)).unwrap();
    assert_eq!((open.retries_counted, open.scheduled_time), (0, secs(2)));
    // The rules on safety are in it too.
    assert!(!open.may_retry(RetryCause::EngineLost, ErrorKind::Uncategorized));
    assert!(!open.may_retry(RetryCause::Failed, ErrorKind::Timeout));
    assert!(open.may_retry(RetryCause::Failed, ErrorKind::Transient));
    let more = steps![retry_for(0, 1, RetryCause::Operator), begin(0, 2)];
    run(&mut journal, &more).unwrap();
    assert!(
        journal.open_invoke(&p(0)).unwrap().may_retry(RetryCause::Failed, ErrorKind::Transient)
    );
    let more = steps![retry(0, 2), begin(0, 3)];
    run(&mut journal, &more).unwrap();
    let open = journal.open_invoke(&p(0)).unwrap();
    assert_eq!(open.retries_counted, 1);
    assert!(
        !open.may_retry(RetryCause::Failed, ErrorKind::Transient)
            && open.may_retry(RetryCause::Operator, ErrorKind::Timeout)
    );
}
