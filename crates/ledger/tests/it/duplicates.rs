//! What a number gets that has been committed, and what ends a stream.

use indelible_ledger::{
    Answer, Code, Judgement, NumberError, Prior, RestoreCount, Sequence, Stream,
};

use crate::support::{Server, add, attempt, batch, euro, json, sequence, set, single};

/// C-5, C-7, C-44: from the cache the answer of then; from the receipt, and from the
/// last row, that it was committed; after the log, no more than that. Never applied again, and never
/// another transaction's answer.
#[test]
fn a_duplicate_by_what_is_still_known() {
    let mut server = Server::new();
    let requests: Vec<_> =
        (1..=3).map(|number| single(vec![set("n", json(&number.to_string()))])).collect();
    let mut first = Vec::new();
    for (number, request) in (1..).zip(&requests) {
        let Answer::Fresh(receipt) = server.send("a", number, None, request) else {
            panic!("it is the next");
        };
        first.push(receipt);
    }
    let state = (server.vault.clone(), server.entities.clone());
    let other = single(vec![set("n", json("0"))]);
    for (number, request) in (1..).zip(&requests) {
        let receipt = &first[number as usize - 1];
        let prior = server.send("a", number, attempt(9), request);
        assert_eq!(prior, Answer::PriorResult(receipt.clone()));
        assert_eq!(server.send("a", number, None, &other), Answer::Mismatch);
    }
    server.kill();
    for (number, request) in (1..).zip(&requests) {
        let prior = server.send("a", number, None, request);
        let receipt = first[number as usize - 1].clone();
        assert_eq!(prior, Answer::AlreadyCommitted(Prior::Receipt(receipt)));
        assert_eq!(prior.code(), Some(Code::AlreadyCommitted));
        assert_eq!(server.send("a", number, None, &other), Answer::Mismatch);
    }
    server.receipts.clear();
    let last = server.stream("a").unwrap().last.unwrap();
    let prior = server.send("a", 3, None, &requests[2]);
    assert_eq!(prior, Answer::AlreadyCommitted(Prior::Last(last)));
    assert_eq!(server.send("a", 3, None, &other), Answer::Mismatch, "its hash stays for ever");
    for request in [&requests[0], &other] {
        let prior = server.send("a", 1, None, request);
        assert_eq!(prior, Answer::AlreadyCommitted(Prior::Forgotten));
    }
    assert_eq!(state, (server.vault.clone(), server.entities.clone()));
}

/// C-7, C-45: a batch shares the stream of single writes, moves it by one, and is one
/// transaction; its duplicate is ALREADY_COMMITTED even from the cache; the other kind is a mismatch.
#[test]
fn batches_and_single_writes_share_a_stream() {
    let mut server = Server::new();
    let (one, two) = (set("x", json("1")), set("y", json("2")));
    let pair = batch(vec![vec![one.clone()], vec![two.clone()]]);
    let flat = single(vec![one.clone(), two]);
    let alone = batch(vec![vec![one.clone()]]);
    let hashes = [pair.hash(), flat.hash(), alone.hash(), single(vec![one]).hash()];
    assert!((1..4).all(|at| !hashes[..at].contains(&hashes[at])));

    let Answer::Fresh(receipt) = server.send("a", 1, None, &pair) else { panic!("it is the next") };
    assert_eq!((server.stream("a").unwrap().last_sequence(), server.vault.height().get()), (1, 1));
    let results: Vec<usize> = pair.results_of(&receipt.success.results).map(<[_]>::len).collect();
    assert_eq!(results, [1, 1]);
    let prior = Answer::AlreadyCommitted(Prior::Receipt(receipt));
    assert_eq!(server.send("a", 1, None, &pair), prior);
    server.kill();
    assert_eq!(server.send("a", 1, None, &pair), prior);
    assert_eq!(server.send("a", 1, None, &flat), Answer::Mismatch);
    assert!(matches!(server.send("a", 2, None, &flat), Answer::Fresh(_)));
    assert_eq!(server.send("a", 2, None, &pair), Answer::Mismatch);
    assert!(matches!(server.send("a", 4, None, &pair), Answer::Gap(gap) if gap.last == 2));

    // A batch that fails uses up nothing, and reports the first write that failed.
    let failing = batch(vec![vec![set("x", json("3"))], vec![set("z", euro(1)), add("x", 1)]]);
    let Answer::Refused(refusal) = server.send("a", 3, None, &failing) else { panic!("refused") };
    let place = failing.place(refusal.index);
    assert_eq!((place.write, place.operation, refusal.index), (1, 1, 2));
    assert_eq!(server.stream("a").unwrap().last_sequence(), 2);
    assert!(matches!(server.send("a", 3, None, &pair), Answer::Fresh(_)));
}

/// a client has a stream in each scope; here each client has one.
#[test]
fn streams_are_independent() {
    let mut server = Server::new();
    let request = single(vec![set("n", json("1"))]);
    for number in 1..=3 {
        for of in ["a", "b", "c"] {
            assert!(matches!(server.send(of, number, None, &request), Answer::Fresh(_)));
        }
    }
    assert_eq!(server.vault.height().get(), 9);
}

/// Q-17, C-49: the last number is committed and replayed; what would come after it is SEQUENCE_EXHAUSTED,
/// and nothing wraps.
#[test]
fn a_stream_ends_at_the_last_number() {
    let mut server = Server::new();
    let request = single(vec![set("n", json("1"))]);
    assert!(matches!(server.send("a", 1, None, &request), Answer::Fresh(_)));
    let last = server.streams.get_mut(&crate::support::client("a")).unwrap().last.as_mut().unwrap();
    last.sequence = sequence(u64::MAX - 1);
    let beyond = |server: &Server, actor: &str| {
        let actor = indelible_ledger::Actor::new(actor);
        Stream::judge_beyond(server.stream("a"), &actor, RestoreCount::default())
    };
    assert!(
        matches!(beyond(&server, "client:app"), Judgement::Gap(gap) if gap.last == u64::MAX - 1)
    );
    assert!(matches!(server.send("a", u64::MAX, None, &request), Answer::Fresh(_)));
    assert!(matches!(server.send("a", u64::MAX, None, &request), Answer::PriorResult(_)));
    server.kill();
    assert!(matches!(server.send("a", u64::MAX, None, &request), Answer::AlreadyCommitted(_)));
    let other = single(vec![set("n", json("2"))]);
    assert_eq!(server.send("a", u64::MAX, attempt(1), &other), Answer::Mismatch);
    assert_eq!(beyond(&server, "client:app"), Judgement::Exhausted);
    assert_eq!(beyond(&server, "client:other"), Judgement::Foreign);
    assert_eq!(Sequence::MAX.checked_add(1), None);
    let wide = Sequence::from_wide(u128::from(u64::MAX) + 1);
    assert!(matches!(wide, Err(NumberError::Beyond { .. })));
}

/// C-43: a sequence of 0 is refused before anything is looked at, as is an empty client id.
#[test]
fn there_is_no_sequence_0() {
    assert_eq!(Sequence::new(0), Err(NumberError::Zero { what: "sequence" }));
    assert!(indelible_ledger::ClientId::new("").is_err());
}

/// C-46: others learn nothing of a stream, whatever they send.
#[test]
fn a_foreign_client_is_refused_first() {
    let mut server = Server::new();
    let request = single(vec![set("n", json("1"))]);
    assert!(matches!(server.send("a", 1, None, &request), Answer::Fresh(_)));
    for number in [1, 2, 3, u64::MAX] {
        let run = indelible_ledger::Run::one(
            crate::support::client("a"),
            sequence(number),
            attempt(1),
            request.clone(),
        );
        assert_eq!(server.run_as("user:mallory", run), [Answer::Foreign]);
    }
    assert_eq!(server.stream("a").unwrap().refused, None);
}

/// C-48: after a restore a client that is ahead is told so, until something is committed in its
/// stream; a gap is no commit, and is told again and again.
#[test]
fn a_client_that_is_ahead_of_a_restored_store() {
    let mut server = Server::new();
    let request = single(vec![set("n", json("1"))]);
    for number in 1..=3 {
        assert!(matches!(server.send("a", number, None, &request), Answer::Fresh(_)));
    }
    let mut restored = server.clone();
    for number in 4..=9 {
        assert!(matches!(server.send("a", number, None, &request), Answer::Fresh(_)));
    }
    restored.restores = RestoreCount::new(1);
    for (tried, number) in [(1, 10), (2, 10), (3, 5)] {
        let gap = restored.send("a", number, attempt(tried), &request);
        assert!(matches!(gap, Answer::Gap(gap) if gap.restored && gap.last == 3), "{gap:?}");
    }
    // A stream that began after the backup is gone altogether.
    let gap = restored.send("b", 2, None, &request);
    assert!(matches!(gap, Answer::Gap(gap) if gap.restored && gap.last == 0), "{gap:?}");
    // A client that was not ahead goes on, and its later gaps are its own.
    assert!(matches!(restored.send("a", 4, attempt(4), &request), Answer::Fresh(_)));
    let gap = restored.send("a", 9, attempt(5), &request);
    assert!(matches!(gap, Answer::Gap(gap) if !gap.restored), "{gap:?}");
}
