//! Replay: a guest that is dropped at any wait and run again from the beginning sees what it saw,
//! asks for what it asked, and appends nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::guest::{Guest, Stop};
use crate::kit::*;
use indelible_journal::*;
use indelible_test_support::Prng;

/// Something happens in the world: an effect moves, a timer fires, a signal or a cancel arrives.
fn world(rng: &mut Prng, journal: &mut Journal, now: Timestamp, log: &mut Vec<Entry>) {
    let invokes: Vec<_> = journal.open_invokes().collect();
    let timers: Vec<_> = journal.open_timers().collect();
    match rng.index(10) {
        0..6 if !invokes.is_empty() => {
            let invoke = &invokes[rng.index(invokes.len())];
            let promise = &invoke.promise_id;
            let started = matches!(invoke.phase, InvokePhase::Started { .. });
            let entry = match (started, rng.index(4)) {
                (false, _) => journal.start_invoke(now, promise).unwrap().1,
                (true, 0) if invoke.may_retry(RetryCause::Failed, ErrorKind::Transient) => {
                    let error = Failure::new(ErrorKind::Transient, "try again");
                    journal.retry_invoke(now, promise, RetryCause::Failed, error, now).unwrap()
                }
                (true, n) => {
                    let result = if n == 1 {
                        Failure::new(ErrorKind::UserError, "no").into()
                    } else {
                        ok("yes")
                    };
                    journal.complete_invoke(now, promise, result).unwrap()
                }
            };
            log.push(entry);
        }
        6 | 7 if !timers.is_empty() => {
            let timer = &timers[rng.index(timers.len())];
            log.push(journal.fire_timer(now, &timer.promise_id).unwrap());
        }
        8 => {
            let signal = name(["go", "stop"][rng.index(2)]);
            let payload = payload(&format!("signal {}", rng.index(100)));
            let delivered = journal.deliver_signal(now, &signal, payload).unwrap();
            log.extend(delivered.map(|(_, entry)| entry));
        }
        9 if rng.index(12) == 0 => {
            log.extend(journal.request_cancel(now, "enough").unwrap());
        }
        _ => {}
    }
    log.extend(journal.wake(now).unwrap());
}

/// Runs a fresh guest over what is recorded: it must get where the parked one is, having seen the
/// same, and append nothing.
fn replay_matches(seed: u64, journal: &Journal, parked: &Guest, stop: Stop) {
    let mut evicted = Guest::new(seed, journal);
    let (mut copy, mut log) = (journal.clone(), Vec::new());
    let again = evicted.advance(&mut copy, journal.last_timestamp(), &mut log, |_, _| {});
    assert_eq!((&evicted.seen, again), (&parked.seen, stop), "seed {seed}");
    assert_eq!(log, [], "seed {seed}: replay appends nothing");
    assert_eq!(copy, *journal, "seed {seed}");
    // What was done before a wait that is written is not new; what a run does first, is.
    let news = std::mem::replace(&mut evicted.news, parked.news.clone());
    let blocked = matches!(journal.status(), Some(Status::Blocked { .. }));
    assert!(!blocked || !news.contains(&true), "seed {seed}: {news:?}");
    assert!(!parked.news.contains(&false), "seed {seed}: {:?}", parked.news);
    assert_eq!(evicted, *parked, "seed {seed}");
}

/// The process dies after any event: what was recorded by then is repeated, and seen the same.
fn crash_anywhere(seed: u64, log: &[Entry], seen: &[String]) {
    let mut journal = Journal::new(key());
    for entry in log {
        journal.append_record(entry.as_record().clone()).unwrap();
        let mut woken = journal.clone();
        woken.wake(journal.last_timestamp()).unwrap();
        let mut guest = Guest::new(seed, &woken);
        guest.repeat(&woken);
        assert!(seen.starts_with(&guest.seen), "seed {seed}: {seen:?} / {:?}", guest.seen);
    }
}

struct Run {
    journal: Journal,
    log: Vec<Entry>,
    guest: Guest,
    stop: Stop,
}

/// One program in one world, both from this seed.
fn run(seed: u64) -> Run {
    let mut rng = Prng::new(!seed);
    let (mut journal, first) = Journal::start(key(), secs(1), start()).unwrap();
    let mut log = vec![first];
    let mut guest = Guest::new(seed, &journal);
    let mut clock = 1_000_000;
    let stop = loop {
        // Now and then the clock is set back.
        clock = if rng.index(20) == 0 { clock / 2 } else { clock + rng.number() % 500_000 };
        let now = Timestamp::from_micros(clock).unwrap();
        let blocked = matches!(journal.status(), Some(Status::Blocked { .. }));
        if !blocked {
            let stop = guest.advance(&mut journal, now, &mut log, |journal, log| {
                if rng.one_in(3) {
                    world(&mut rng, journal, now, log);
                }
            });
            replay_matches(seed, &journal, &guest, stop);
            if stop != Stop::Waiting {
                break stop;
            }
        } else if rng.index(3) == 0 {
            replay_matches(seed, &journal, &guest, Stop::Waiting);
        }
        world(&mut rng, &mut journal, now, &mut log);
        assert!(log.len() < 5_000, "seed {seed}: the guest hangs");
    };
    let now = journal.last_timestamp();
    log.push(match stop {
        Stop::Cancelled => journal.cancel(now, "enough").unwrap(),
        _ => journal.complete(now, payload("done")).unwrap(),
    });
    Run { journal, log, guest, stop }
}

/// J-72, J-79, J-81, J-89, J-91, C-22, C-30, C-37: for ten thousand programs, replay at every wait,
/// at the end, and for some of them after every single event, gives the same observations and appends nothing; the stored events rebuild the
/// same journal; the independent checker finds every rule kept.
#[test]
fn replay_is_the_execution() {
    let (mut cancelled, mut events) = (0, std::collections::BTreeMap::new());
    for seed in 0..10_000 {
        let Run { journal, log, guest, stop } = run(seed);
        replay_matches(seed, &journal, &guest, stop);
        if seed % 8 == 0 {
            crash_anywhere(seed, &log, &guest.seen);
        }
        cancelled += u32::from(stop == Stop::Cancelled);
        for entry in &log {
            *events.entry(entry.event().name()).or_insert(0) += 1;
        }
        let records: Vec<Record> = log.into_iter().map(Entry::into_record).collect();
        assert_eq!(crate::support::checker::check(&key(), &records), None, "seed {seed}");
        assert_eq!(Journal::recover(key(), records), Ok(journal), "seed {seed}");
    }
    // The programs do what they are meant to try.
    assert!(cancelled > 50, "{cancelled} programs were cancelled");
    for kind in ["JoinSetAwaited", "SignalReceived", "TimerFired", "InvokeRetrying"] {
        assert!(events.get(kind).is_some_and(|count| *count > 300), "{events:?}");
    }
    assert_eq!(events.len(), 19, "all but ExecutionFailed: {events:?}");
}

fn journal_of(steps: Vec<Step>) -> (Journal, Replay) {
    let journal = legal(steps);
    let replay = Replay::begin(&journal, &digest()).unwrap();
    (journal, replay)
}

/// J-93: another component than the one an execution is pinned to is refused.
#[test]
fn another_component_does_not_replay() {
    let journal = legal(steps![started()]);
    let loaded = ComponentDigest::of(b"a newer build");
    let wrong = Replay::begin(&journal, &loaded).unwrap_err();
    assert_eq!(wrong, BeginError::WrongComponent { pinned: Some(digest()), loaded });
    assert!(Replay::begin(&Journal::new(key()), &digest()).is_err());
}

/// J-74, C-25: a guest that asks for something else than is recorded is stopped, with both sides;
/// nothing is appended.
#[test]
fn divergence_shows_both_sides() {
    let (journal, replay) =
        journal_of(steps![started(), invoke(0), random(1), timer(2, 9, 5), join_set(3)]);
    let kind = InvokeKind::Http;
    let other_fn = replay.clone().invoke(&journal, kind, &function("refund"), &payload("in"));
    let ReplayError::Diverged(error) = other_fn.unwrap_err() else { panic!("it diverged") };
    assert_eq!(error.recorded, "Http charge (sequence 1)");
    assert_eq!(error.asked, "Http refund");
    let other_in = replay.clone().invoke(&journal, kind, &function("charge"), &payload("other"));
    let ReplayError::Diverged(error) = other_in.unwrap_err() else { panic!("it diverged") };
    assert_eq!(error.asked, "Http charge with another input");
    let kind = InvokeKind::Function;
    assert!(replay.clone().invoke(&journal, kind, &function("charge"), &payload("in")).is_err());
    assert!(replay.clone().now(&journal).is_err());
    assert!(replay.clone().join_set(&journal).is_err());
    assert!(replay.clone().wait(&journal, &Wait::Signal(name("go"))).is_err());

    let mut second = replay;
    second.invoke(&journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap();
    assert!(second.clone().random(&journal, 4).is_err(), "three bytes are recorded");
    assert_eq!(second.random(&journal, 3).unwrap().unwrap().as_ref(), [1, 2, 3]);
    assert!(second.clone().timer(&journal, Micros::from_secs(6)).is_err());
    let (promise, recorded) = second.timer(&journal, Micros::from_secs(5)).unwrap();
    assert_eq!((promise, recorded), (p(2), ReplayMatch::Present));
}

/// C-30, J-72: completed is returned, pending appends nothing, absent is appended; two calls may
/// be scheduled before one wait.
#[test]
fn completed_pending_absent() {
    let (journal, mut replay) =
        journal_of(steps![started(), invoke(0), invoke(1), begin(0, 1), done(0, 1)]);
    let mut ask =
        || replay.invoke(&journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap();
    assert_eq!(ask(), (p(0), CallLookup::Completed));
    assert_eq!(ask(), (p(1), CallLookup::Pending));
    assert_eq!(ask(), (p(2), CallLookup::Absent));
}

/// C-37: the winner of a race is who resolved first in the journal, not who stands first.
#[test]
fn the_first_to_resolve_wins() {
    let calls = steps![started(), invoke(0), invoke(1), begin(0, 1), begin(1, 1)];
    let both = steps![done(1, 1), done(0, 1)];
    let (journal, mut replay) = journal_of([calls, both].concat());
    for _ in 0..2 {
        replay.invoke(&journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap();
    }
    let any = Wait::Any(waits(&[0, 1]));
    assert_eq!(replay.wait(&journal, &any), Ok(AwaitResult::Promise(p(1))));
}

/// C-22: the guest is told of its cancelling once, at the first await that was not satisfied
/// before the request, even if that await has been satisfied since.
#[test]
fn cancelled_is_told_once() {
    let before = steps![started(), invoke(0), invoke(1), begin(0, 1), begin(1, 1), done(0, 1)];
    let after = steps![cancel_requested(), done(1, 1)];
    let (journal, mut replay) = journal_of([before, after].concat());
    for _ in 0..2 {
        replay.invoke(&journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap();
    }
    let (early, late) = (Wait::One(p(0)), Wait::One(p(1)));
    assert_eq!(replay.wait(&journal, &early), Ok(AwaitResult::Promise(p(0))));
    assert_eq!(replay.wait(&journal, &late), Ok(AwaitResult::Cancelled));
    assert_eq!(replay.wait(&journal, &late), Ok(AwaitResult::Promise(p(1))));
}

/// C-26: a guest that waits for what is not its own is refused, whatever it is, and nothing is
/// written.
#[test]
fn foreign_promises_are_not_waited_for() {
    let mut journal = legal(steps![started(), invoke(0), begin(0, 1), done(0, 1)]);
    let before = journal.clone();
    let foreign = ExecutionId::new(p(0)).unwrap().child(0);
    let root = own().as_promise().clone();
    let elsewhere = WaitSet::new(&ExecutionId::new(p(0)).unwrap(), [foreign.clone()]).unwrap();
    let mut replay = Replay::begin(&journal, &digest()).unwrap();
    replay.invoke(&journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap();
    for wait in [
        Wait::One(foreign),
        Wait::One(root),
        Wait::Any(elsewhere.clone()),
        Wait::All(elsewhere.clone()),
        Wait::SignalOr(name("go"), elsewhere),
    ] {
        let hopeless = replay.wait(&journal, &wait).unwrap_err();
        assert!(matches!(hopeless, ReplayError::Refused(GuestMistake { rule: Rule::C26, .. })));
        let violation = journal.wait(secs(9), &wait).unwrap_err();
        assert!(violation.rule.is_guests(), "{violation}");
    }
    assert_eq!(journal, before);
}

/// C-25: a guest that returns early, or waits for something else than it did, is stopped.
#[test]
fn the_journal_holds_more_than_the_guest_asks_for() {
    let (journal, mut replay) = journal_of(steps![started(), invoke(0), invoke(1)]);
    let charge = |replay: &mut Replay| {
        replay.invoke(&journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap()
    };
    charge(&mut replay);
    assert_eq!(replay.finish(&journal).unwrap_err().asked, "to return");
    let early = replay.wait(&journal, &Wait::One(p(0))).unwrap_err();
    assert!(matches!(early, ReplayError::Diverged(_)), "{early}");
    charge(&mut replay);
    assert_eq!(replay.finish(&journal), Ok(()));
    assert_eq!(replay.wait(&journal, &Wait::One(p(0))), Ok(AwaitResult::Pending));

    let blocked = legal(steps![started(), invoke(0), invoke(1), wait_one(1)]);
    assert_eq!(replay.wait(&blocked, &Wait::One(p(1))), Ok(AwaitResult::Pending));
    for other in [Wait::One(p(0)), Wait::Signal(name("never")), Wait::Any(waits(&[1]))] {
        let diverged = replay.wait(&blocked, &other).unwrap_err();
        assert!(matches!(diverged, ReplayError::Diverged(_)), "{diverged}");
    }
    // What is written already is not written again.
    let mut again = blocked.clone();
    assert_eq!(again.wait(secs(9), &Wait::One(p(1))), Ok(Waiting::Already));
    assert_eq!(again, blocked);
}

/// C-25, J-91: submissions and results that this run has not repeated yet are ahead of it.
#[test]
fn join_sets_are_replayed_to_their_end() {
    let set_of_one = steps![started(), join_set(0), invoke(1), submit(0, 1), begin(1, 1)];
    let (journal, mut replay) = journal_of([set_of_one, steps![done(1, 1), take(0, 1)]].concat());
    let (join_set, _) = replay.join_set(&journal).unwrap();
    replay.invoke(&journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap();
    assert!(!replay.is_live(&journal), "the submission is ahead");
    assert_eq!(replay.submit(&journal, &join_set, &p(1)), Ok(ReplayMatch::Present));
    assert!(!replay.is_live(&journal), "the result is ahead");
    assert_eq!(replay.finish(&journal).unwrap_err().recorded, "more of a join set");
    assert_eq!(replay.next(&journal, &join_set), Ok(NextResult::Taken(p(1), &ok("result"))));
    assert!(replay.is_live(&journal));
}

/// J-47: a journal whose wait is over, but that was not written, is woken before a guest runs.
#[test]
fn a_crash_before_the_resumption() {
    let crashed = steps![started(), invoke(0), wait_one(0), begin(0, 1), done(0, 1)];
    let mut journal = legal(crashed);
    assert!(journal.can_wake());
    assert_eq!(Replay::begin(&journal, &digest()), Err(BeginError::NotWoken));
    assert_eq!(journal.wake(secs(9)).unwrap().len(), 1);
    assert!(Replay::begin(&journal, &digest()).is_ok());

    let mut journal = legal(steps![started(), wait_signal(0, "go"), deliver("go", 1)]);
    assert_eq!(Replay::begin(&journal, &digest()), Err(BeginError::NotWoken));
    assert_eq!(journal.wake(secs(9)).unwrap().len(), 2);
    assert!(Replay::begin(&journal, &digest()).is_ok());
}

/// C-26: a hopeless wait is refused while cancelling too, when nothing would be written.
#[test]
fn hopeless_waits_are_refused_while_cancelling() {
    let mut journal = legal(steps![started(), random(0), join_set(1), cancel_requested()]);
    for wait in [Wait::Any(waits(&[])), Wait::One(p(0)), Wait::One(p(1)), Wait::All(waits(&[9]))] {
        assert_eq!(journal.wait(secs(9), &wait).unwrap_err().rule, Rule::C26);
    }
}

/// C-37: results are taken in the order of completion, whenever their calls were submitted.
#[test]
fn a_set_gives_first_what_completed_first() {
    let done_early = steps![started(), join_set(0), invoke(1), invoke(2), begin(1, 1), begin(2, 1)];
    let submitted_late = steps![done(1, 1), done(2, 1), submit(0, 2), submit(0, 1)];
    let mut journal = legal([done_early, submitted_late].concat());
    for expected in [p(1), p(2)] {
        let entry = journal.take_next(secs(20), &set(0)).unwrap().unwrap();
        let Event::JoinSetAwaited { promise_id, .. } = entry.event() else { panic!("{entry:?}") };
        assert_eq!(*promise_id, expected);
    }
    assert_eq!(journal.take_next(secs(20), &set(0)), Ok(None));
}

/// C-25: nothing is answered as absent while the journal is ahead, waits, or is over: it would be
/// appended.
#[test]
fn nothing_is_absent_where_the_journal_goes_on() {
    let set_and_call = || steps![started(), join_set(0), invoke(1)];
    let ask = |replay: &mut Replay, journal: &Journal| {
        replay.join_set(journal).unwrap();
        replay.invoke(journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap();
    };
    let diverges = |result: Result<(), ReplayError>| {
        assert!(matches!(result, Err(ReplayError::Diverged(_))), "{result:?}");
    };
    let (ahead, mut replay) = journal_of([set_and_call(), steps![submit(0, 1)]].concat());
    ask(&mut replay, &ahead);
    diverges(replay.random(&ahead, 4).map(drop));

    let (ahead, mut replay) = journal_of([set_and_call(), steps![random(2)]].concat());
    ask(&mut replay, &ahead);
    diverges(replay.submit(&ahead, &set(0), &p(1)).map(drop));

    let done = steps![submit(0, 1), begin(1, 1), done(1, 1), random(2)];
    let (ahead, mut replay) = journal_of([set_and_call(), done].concat());
    ask(&mut replay, &ahead);
    assert_eq!(replay.submit(&ahead, &set(0), &p(1)), Ok(ReplayMatch::Present));
    diverges(replay.next(&ahead, &set(0)).map(drop));

    let (blocked, mut replay) = journal_of([set_and_call(), steps![wait_one(1)]].concat());
    ask(&mut replay, &blocked);
    diverges(replay.clone().now(&blocked).map(drop));
    assert_eq!(replay.finish(&blocked).unwrap_err().recorded, "a wait of kind Single");

    let (over, mut replay) = journal_of([set_and_call(), steps![completed()]].concat());
    ask(&mut replay, &over);
    assert_eq!(replay.finish(&over), Ok(()));
    diverges(replay.timer(&over, Micros::ZERO).map(drop));
}

/// JS-1, JS-2, JS-7, C-21, C-26: a submission that was refused is refused again on replay, for the
/// same reason, whatever the journal has come to since.
#[test]
fn a_refused_submission_stays_refused() {
    let refused = |replay: &mut Replay, journal: &Journal, to: u32, call: u32| match replay.submit(
        journal,
        &set(to),
        &p(call),
    ) {
        Err(ReplayError::Refused(refused)) => refused.rule,
        other => panic!("{other:?}"),
    };
    let calls = steps![started(), join_set(0), join_set(1), invoke(2), random(3), submit(0, 2)];
    let blocked = steps![wait_one(2)];
    let over = steps![begin(2, 1), done(2, 1), take(0, 2), completed()];
    for more in [steps![], blocked, over] {
        let (journal, mut replay) = journal_of([calls.clone(), more].concat());
        // Before they are there.
        assert_eq!(refused(&mut replay, &journal, 0, 2), Rule::JS1);
        replay.join_set(&journal).unwrap();
        assert_eq!(refused(&mut replay, &journal, 0, 2), Rule::C26);
        replay.join_set(&journal).unwrap();
        replay.invoke(&journal, InvokeKind::Http, &function("charge"), &payload("in")).unwrap();
        replay.random(&journal, 3).unwrap();
        assert_eq!(refused(&mut replay, &journal, 0, 3), Rule::C26);
        assert_eq!(replay.submit(&journal, &set(0), &p(2)), Ok(ReplayMatch::Present));
        assert_eq!(refused(&mut replay, &journal, 0, 2), Rule::C21);
        assert_eq!(refused(&mut replay, &journal, 1, 2), Rule::JS7);
        assert_eq!(refused(&mut replay, &journal, 2, 2), Rule::JS1);
    }
}

/// J-82: a call that is too deep takes no number, so that what follows has the same on both sides.
#[test]
fn a_call_that_is_too_deep_takes_no_number() {
    let path = vec![0; ids::DEPTH_MAX - 1];
    let id = ExecutionId::new(PromiseId::new(*own().root(), &path).unwrap()).unwrap();
    let started = Started {
        parent_id: id.parent(),
        idempotency_key: None,
        attempts: Attempts::first(id.depth()),
        ..start()
    };
    let (mut journal, _) = Journal::start(JournalKey::first(id), secs(1), started).unwrap();
    let mut replay = Replay::begin(&journal, &digest()).unwrap();
    let (name, input) = (function("deeper"), payload("in"));
    let deep = replay.invoke(&journal, InvokeKind::Function, &name, &input).unwrap_err();
    assert!(matches!(deep, ReplayError::Refused(GuestMistake { rule: Rule::J82, .. })), "{deep}");
    let (kind, retry_policy) = (InvokeKind::Function, RetryPolicy::default().into());
    let call = Invoke { kind, function_name: name.clone(), input: input.clone(), retry_policy };
    assert_eq!(journal.schedule_invoke(secs(2), call).unwrap_err().rule, Rule::J82);
    let (promise, _) = replay.timer(&journal, Micros::ZERO).unwrap();
    assert_eq!(promise, journal.schedule_timer(secs(2), Micros::ZERO).unwrap().0);
    // A request has no children.
    let http = replay.invoke(&journal, InvokeKind::Http, &name, &input).unwrap();
    assert_eq!(http.1, CallLookup::Absent);
}
