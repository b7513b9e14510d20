//! Attempts (C-42): the schedules in which a late copy of a refused write would be applied after all.

use indelible_ledger::{
    Answer, Attempt, Code, Condition, Prior, Request, Run, RunError, StreamRefusal,
};

use crate::support::{
    Server, add, attempt, check, client, euro, json, sequence, set, set_if, single,
};

/// A server on which the client `a` has committed 1 to 5; its account holds 0.
fn at_five() -> Server {
    let mut server = Server::new();
    for number in 1..=5 {
        let open = single(vec![set("account", euro(0)), set("n", json(&number.to_string()))]);
        assert!(matches!(server.send("a", number, None, &open), Answer::Fresh(_)));
    }
    server
}

fn pay() -> Request {
    single(vec![add("account", 10)])
}

/// C-42, Q-6: the payload goes as 7, is refused as a gap, goes again as 6 and is applied; the late copy
/// of 7 is next in line by then, and is refused in the same words.
#[test]
fn a_late_copy_after_a_gap() {
    let mut server = at_five();
    let gap = server.send("a", 7, attempt(1), &pay());
    let Answer::Gap(refused) = &gap else { panic!("{gap:?}") };
    assert_eq!((refused.last, refused.restored), (5, false));
    assert!(matches!(server.send("a", 6, attempt(2), &pay()), Answer::Fresh(_)));
    assert_eq!(server.balance("account"), Some(10));

    for _ in 0..3 {
        let late = server.send("a", 7, attempt(1), &pay());
        let Answer::RefusedBefore(before) = &late else { panic!("{late:?}") };
        assert_eq!((before.attempt, before.sequence), (Attempt::FIRST, sequence(7)));
        assert_eq!(before.refusal, StreamRefusal::Gap(*refused));
        assert_eq!(late.code(), Some(Code::SequenceGap));
        server.kill();
    }
    assert_eq!(server.balance("account"), Some(10));
    // The client goes on; the attempt counts in the stream, so it stays where it is.
    assert!(matches!(server.send("a", 7, attempt(2), &pay()), Answer::Fresh(_)));
    assert_eq!(server.balance("account"), Some(20));
    // Now the late copy is a duplicate of another transaction with the same payload.
    assert!(server.send("a", 7, attempt(1), &pay()).is_success());
    assert_eq!(server.balance("account"), Some(20));
}

/// C-9, C-42: without attempts the rule is the literal one, and such a copy is applied: which is why
/// our client always sends them.
#[test]
fn without_attempts_the_late_copy_is_applied() {
    let mut server = at_five();
    assert!(matches!(server.send("a", 7, None, &pay()), Answer::Gap(_)));
    assert!(matches!(server.send("a", 6, None, &pay()), Answer::Fresh(_)));
    assert!(matches!(server.send("a", 7, None, &pay()), Answer::Fresh(_)));
    assert_eq!(server.balance("account"), Some(20));
    assert_eq!(server.stream("a").unwrap().refused, None, "nothing is remembered of it");
}

/// C-8, C-42: a run of 6 and 7 stops at 6; 6 is mended and applied; a late copy of the run applies
/// nothing, nor does its 7 alone.
#[test]
fn a_late_copy_of_a_run_that_stopped() {
    let mut server = at_five();
    let bad = single(vec![check("missing", Condition::Present), add("account", 1)]);
    let run = || vec![(6, bad.clone()), (7, pay())];
    let answers = server.run("a", attempt(1), run());
    let [Answer::Refused(refusal)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((refusal.index, refusal.code), (0, Code::KeyNotFound));

    let mended = single(vec![add("account", 2)]);
    assert!(matches!(server.send("a", 6, attempt(2), &mended), Answer::Fresh(_)));
    server.kill();
    assert_eq!(server.run("a", attempt(1), run()), [Answer::Mismatch]);
    for number in [7, 8] {
        let late = server.send("a", number, attempt(1), &pay());
        assert_eq!(late.code(), Some(Code::StaleAttempt), "{late:?}");
        let Answer::Stale(remembered) = late else { panic!("it is stale") };
        assert_eq!((remembered.attempt, remembered.sequence), (Attempt::FIRST, sequence(6)));
    }
    assert_eq!(server.balance("account"), Some(2));
}

/// C-42: the mended 6 is the same request, because the world has changed: then the late run repeats 6,
/// and stops before 7.
#[test]
fn a_late_copy_of_a_run_whose_first_was_sent_again() {
    let mut server = at_five();
    let first = single(vec![check("open", Condition::Present), add("account", 1)]);
    let run = || vec![(6, first.clone()), (7, pay())];
    assert!(matches!(server.run("a", attempt(1), run())[..], [Answer::Refused(_)]));
    assert!(matches!(
        server.send("b", 1, attempt(1), &single(vec![set("open", json("true"))])),
        Answer::Fresh(_)
    ));
    assert!(matches!(server.send("a", 6, attempt(2), &first), Answer::Fresh(_)));
    let late = server.run("a", attempt(1), run());
    assert!(matches!(late[..], [Answer::PriorResult(_), Answer::Stale(_)]), "{late:?}");
    assert_eq!(server.balance("account"), Some(1));
}

/// C-42: a run stops at a mismatch, and its client is told that 7 was not reached; so 7 stays out under
/// that attempt, even when the receipt that showed the mismatch is gone.
#[test]
fn a_run_that_stops_at_a_mismatch() {
    let mut server = at_five();
    let other = single(vec![add("account", 100)]);
    let run = || vec![(4, other.clone()), (5, other.clone()), (6, pay())];
    assert_eq!(server.run("a", attempt(1), run()), [Answer::Mismatch]);
    let remembered = server.stream("a").unwrap().refused.clone().unwrap();
    assert_eq!((remembered.sequence, &remembered.refusal), (sequence(4), &StreamRefusal::Mismatch));
    server.receipts.clear();
    server.kill();
    let late = server.run("a", attempt(1), run());
    assert_eq!(late, [Answer::AlreadyCommitted(Prior::Forgotten), Answer::Mismatch]);
    assert!(matches!(server.send("a", 6, attempt(1), &pay()), Answer::Stale(_)));
    assert_eq!(server.balance("account"), Some(0));
    // A mismatch of a single write leaves nothing behind: its number is committed.
    let mut server = at_five();
    assert_eq!(server.send("a", 5, attempt(1), &other), Answer::Mismatch);
    assert_eq!(server.stream("a").unwrap().refused, None);
}

/// C-42: a refusal is answered and the server is killed; the condition holds by the time the copy
/// comes, and it is refused with the version and value of the first time.
#[test]
fn a_refusal_survives_a_kill() {
    let mut server = at_five();
    let wants_six = set_if("n", json("9"), Condition::Content(json("6")));
    let request = single(vec![wants_six, add("account", 10)]);
    let first = server.send("a", 6, attempt(1), &request);
    let Answer::Refused(refusal) = &first else { panic!("{first:?}") };
    assert_eq!(refusal.code, Code::ValueMismatch);
    server.kill();
    let mend = single(vec![set("n", json("6"))]);
    assert!(matches!(server.send("b", 1, None, &mend), Answer::Fresh(_)));

    let late = server.send("a", 6, attempt(1), &request);
    let Answer::RefusedBefore(before) = &late else { panic!("{late:?}") };
    assert_eq!(before.refusal, StreamRefusal::Condition(refusal.clone()));
    assert_eq!(late.code(), Some(Code::ValueMismatch));
    assert_eq!(server.balance("account"), Some(0));
    // Under the next attempt the client means it.
    assert!(matches!(server.send("a", 6, attempt(2), &request), Answer::Fresh(_)));
}

/// C-42: a client that lost its file asks for its state, and goes on above what was refused; copies of
/// what it sent before stay out.
#[test]
fn a_client_that_lost_its_file() {
    let mut server = at_five();
    let lost = single(vec![check("missing", Condition::Present), add("account", 1_000)]);
    assert!(matches!(server.send("a", 6, attempt(1), &lost), Answer::Refused(_)));
    assert!(matches!(server.send("a", 8, attempt(2), &pay()), Answer::Gap(_)));

    let stream = server.stream("a").unwrap();
    let (next, tried) = (stream.last_sequence() + 1, stream.next_attempt());
    assert_eq!((next, tried), (6, attempt(3)));
    assert!(matches!(server.send("a", next, tried, &pay()), Answer::Fresh(_)));
    let present = single(vec![set("missing", json("1"))]);
    assert!(matches!(server.send("a", 7, tried, &present), Answer::Fresh(_)));

    for (number, tried, request) in [(8, 1, &lost), (8, 2, &lost), (9, 1, &lost), (9, 2, &pay())] {
        let late = server.send("a", number, attempt(tried), request);
        assert!(matches!(late, Answer::Stale(_)), "{late:?}");
    }
    assert!(matches!(server.send("a", 8, attempt(2), &pay()), Answer::RefusedBefore(_)));
    assert_eq!(server.balance("account"), Some(10));
}

/// C-42, C-46: a refusal is the first row of a stream, and makes its owner; one without an attempt
/// leaves no row.
#[test]
fn a_remembered_refusal_is_the_first_row() {
    let mut server = Server::new();
    assert!(matches!(server.send("a", 2, None, &pay()), Answer::Gap(_)));
    assert!(matches!(server.send("a", 1, None, &pay()), Answer::Refused(_)));
    assert_eq!(server.stream("a"), None);
    let run = |tried| Run::one(client("a"), sequence(1), tried, pay());
    assert!(matches!(server.run_as("user:1", run(attempt(1)))[..], [Answer::Refused(_)]));
    for tried in [None, attempt(1), attempt(2)] {
        assert_eq!(server.run_as("user:2", run(tried)), [Answer::Foreign]);
    }
    assert_eq!(server.stream("a").unwrap().owner.as_str(), "user:1");
    assert_eq!(server.stream("a").unwrap().last_sequence(), 0);
    // An operator hands it over.
    let stream = server.streams.get_mut(&client("a")).unwrap();
    stream.owner = indelible_ledger::Actor::new("user:2");
    assert!(matches!(server.run_as("user:2", run(attempt(1)))[..], [Answer::RefusedBefore(_)]));
    assert_eq!(server.run_as("user:1", run(None)), [Answer::Foreign]);
}

/// C-42: at the last attempt nothing is left but another client id; the number is not wrapped.
#[test]
fn attempts_end() {
    let mut server = Server::new();
    assert!(matches!(server.send("a", 1, attempt(u32::MAX), &pay()), Answer::Refused(_)));
    assert_eq!(server.stream("a").unwrap().next_attempt(), None);
    let open = single(vec![set("account", euro(0))]);
    assert!(matches!(server.send("a", 1, attempt(u32::MAX), &open), Answer::Stale(_)));
    assert!(Attempt::new(0).is_err(), "attempts count from 1");
}

/// C-8: the numbers of a run are consecutive, and there is a first.
#[test]
fn a_run_is_consecutive() {
    let limits = indelible_ledger::Limits::DEFAULT;
    let run = |numbers: &[u64]| {
        let writes = numbers.iter().map(|number| (sequence(*number), pay())).collect();
        Run::new(client("a"), None, writes, &limits)
    };
    assert_eq!(run(&[]), Err(RunError::Empty));
    assert!(run(&[3, 4, 5]).is_ok());
    assert!(run(&[u64::MAX]).is_ok());
    for numbers in [&[1, 1][..], &[1, 3], &[2, 1], &[u64::MAX, 1]] {
        let refused = run(numbers).unwrap_err();
        assert!(matches!(refused, RunError::NotConsecutive { index: 1, .. }), "{refused}");
    }
}

/// C-8: a run that was applied in part is repeated whole: what was applied is answered as before, and
/// the rest is applied. A gap before it stops it at once.
#[test]
fn a_run_is_repeated_and_goes_on() {
    let mut server = at_five();
    assert!(matches!(server.send("a", 6, attempt(1), &pay()), Answer::Fresh(_)));
    let run = |from: u64| (from..from + 3).map(|number| (number, pay())).collect::<Vec<_>>();
    let answers = server.run("a", attempt(1), run(6));
    assert!(matches!(answers[..], [Answer::PriorResult(_), Answer::Fresh(_), Answer::Fresh(_)]));
    assert_eq!(server.balance("account"), Some(30));
    assert_eq!(server.vault.height().get(), 8);
    let again = server.run("a", attempt(1), run(6));
    assert!(again.iter().all(|answer| matches!(answer, Answer::PriorResult(_))));
    assert!(matches!(server.run("a", attempt(1), run(10))[..], [Answer::Gap(_)]));
    assert_eq!(server.vault.height().get(), 8);
}
