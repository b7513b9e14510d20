//! The ledger in the engine: vaults as machines of the host, over a disk that dies after any commit.
//! The rules themselves are tested in `crates/ledger`; here is what storing, loading and crashing
//! make of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_journal::{Micros, Namespace, OperationId, Timestamp};
use indelible_ledger::{
    Actor, Answer, Attempt, ClientId, Code, Content, EntityKey, Height, Incarnation, Limits,
    OperationResult, OriginId, Prior, Request, RestoreCount, Run, Scope, Sequence, Value,
    VaultName, export, json,
};
use indelible_records::{audit, check, restores};
use indelible_runtime::ledger::{
    LedgerAnswer, LedgerError, LedgerWrite, NamedAnswer, VaultSettings, WriteName, WriteOutcome,
    Writes,
};
use indelible_runtime::{
    Actor as Person, Attribution, Options, Pace, PersonDecision, StartRefused,
};

use indelible_slots::Slot;
use indelible_store::Batch;

use crate::support::{House, KEEP, by_hand};

const DAY: Micros = Micros::from_secs(86_400);

fn scope(vault: &str) -> Scope {
    let vault = Some(VaultName::new(vault).unwrap());
    Scope { namespace: Namespace::new("tests").unwrap(), vault }
}

fn house(options: Options) -> House {
    let house = House::new(options);
    make(&house, "wallets");
    house
}

fn make(house: &House, vault: &str) -> Incarnation {
    let settings = VaultSettings::default();
    let made = async {
        house.engine().put_vault(&scope(vault), settings, Some(Person::new("user:admin"))).await
    };
    house.wait(made).unwrap().0.incarnation.unwrap()
}

/// A request out of operations in JSON.
fn request(operations: &str) -> Request {
    let operations: Vec<json::Operation> = serde_json::from_str(operations).unwrap();
    let operations = operations.into_iter().map(|operation| operation.read().unwrap()).collect();
    Request::single(operations, &Limits::DEFAULT).unwrap()
}

fn transfer(from: &str, to: &str, quantity: u64) -> String {
    format!(r#"[{{"transfer":{{"from":"{from}","to":"{to}","quantity":"{quantity}","min":"0"}}}}]"#)
}

fn client(name: &str) -> ClientId {
    ClientId::new(name).unwrap()
}

fn key(name: &str) -> EntityKey {
    EntityKey::new(name).unwrap()
}

fn actor() -> Actor {
    Actor::new("client:app")
}

fn sequenced(sequence: u64, attempt: Option<u32>, operations: &str) -> Writes {
    let attempt = attempt.map(|attempt| Attempt::new(attempt).unwrap());
    let sequence = Sequence::new(sequence).unwrap();
    Writes::Run(Run::one(client("c"), sequence, attempt, request(operations)))
}

fn named(name: &str, operations: &str) -> Writes {
    let name = WriteName::Key(OriginId::new(name).unwrap());
    Writes::Named(name, request(operations))
}

fn write(house: &House, vault: &str, writes: Writes) -> Result<LedgerAnswer, LedgerError> {
    let write = LedgerWrite { scope: scope(vault), incarnation: None, actor: actor(), writes };
    house.wait(house.engine().write_ledger(write))
}

/// The answer to one write of a client.
#[track_caller]
fn one(answer: Result<LedgerAnswer, LedgerError>) -> Answer {
    match answer.unwrap().outcome {
        WriteOutcome::Run(mut answers) if answers.len() == 1 => answers.remove(0),
        outcome => panic!("{outcome:?}"),
    }
}

#[track_caller]
fn by_name(answer: Result<LedgerAnswer, LedgerError>) -> NamedAnswer {
    match answer.unwrap().outcome {
        WriteOutcome::Named(answer) => answer,
        outcome @ WriteOutcome::Run(_) => panic!("{outcome:?}"),
    }
}

fn balance(house: &House, vault: &str, name: &str) -> i128 {
    let entity = house.wait(house.engine().entity(&scope(vault), &key(name), None)).unwrap();
    match entity.entity.map(|entity| entity.content) {
        Some(Content::Amount(amount)) => amount.quantity,
        None => 0,
        Some(Content::Value(_)) => panic!("{name} is not an amount"),
    }
}

/// The reasons of the entries of the audit record about this.
fn audited(house: &House, action: &str) -> Vec<String> {
    let all = audit::before(house.engine().store(), Timestamp::MAX, 100).unwrap().value;
    all.into_iter().filter(|entry| entry.action == action).map(|entry| entry.reason).collect()
}

#[track_caller]
fn assert_sound(house: &House) {
    house.settle();
    assert_eq!(check::check(house.engine().store(), &mut |_| {}).unwrap().problems, []);
}

const OPENING: &str = r#"[
    {"add":{"key":"alice","delta":"100","unit":"EUR"}},
    {"add":{"key":"bob","delta":"0","unit":"EUR"}}
]"#;

/// Q-2, Q-4, Q-5, Q-6, Q-7, C-5, C-7, C-44: what each number meets, now, after a restart (when the
/// response cache is empty), and what a key meets.
#[test]
fn numbers_and_keys() {
    let mut house = house(by_hand(KEEP));
    let Answer::Fresh(first) = one(write(&house, "wallets", sequenced(1, None, OPENING))) else {
        panic!("it is new")
    };
    assert_eq!(first.success.height, Height::new(1));
    let pay = transfer("alice", "bob", 30);
    assert!(matches!(one(write(&house, "wallets", sequenced(2, None, &pay))), Answer::Fresh(_)));
    assert_eq!((balance(&house, "wallets", "alice"), balance(&house, "wallets", "bob")), (70, 30));
    let again = one(write(&house, "wallets", sequenced(1, None, OPENING)));
    assert!(matches!(&again, Answer::PriorResult(receipt) if *receipt == first), "{again:?}");
    let Answer::Gap(gap) = one(write(&house, "wallets", sequenced(4, None, &pay))) else {
        panic!("3 is missing")
    };
    assert_eq!((gap.last, gap.restored), (2, false));
    assert_eq!(one(write(&house, "wallets", sequenced(1, None, &pay))), Answer::Mismatch);
    let paid = by_name(write(&house, "wallets", named("k", &pay)));
    let NamedAnswer::Fresh(paid) = paid else { panic!("{paid:?}") };
    let broke = transfer("alice", "bob", 1_000);
    let NamedAnswer::Refused(refusal) = by_name(write(&house, "wallets", named("x", &broke)))
    else {
        panic!("alice has not so much")
    };
    assert_eq!((refusal.code, refusal.key.as_str()), (Code::BelowMin, "alice"));
    house.crash();
    let again = one(write(&house, "wallets", sequenced(1, None, OPENING)));
    let prior = Answer::AlreadyCommitted(Prior::Receipt(first));
    assert_eq!(again, prior, "the response cache is gone, the receipt is not");
    assert_eq!(one(write(&house, "wallets", sequenced(2, None, OPENING))), Answer::Mismatch);
    assert_eq!(by_name(write(&house, "wallets", named("k", &pay))), NamedAnswer::PriorResult(paid));
    assert_eq!(by_name(write(&house, "wallets", named("k", &broke))), NamedAnswer::Mismatch);
    let again = by_name(write(&house, "wallets", named("x", &broke)));
    assert_eq!(again, NamedAnswer::PriorError(refusal));
    assert_eq!(balance(&house, "wallets", "alice"), 40);
    let known = async {
        house
            .engine()
            .ledger_client(&scope("wallets"), &client("c"), Some(&actor()), Sequence::new(2).ok())
            .await
    };
    let known = house.wait(known).unwrap();
    assert_eq!(known.stream.unwrap().last_sequence(), 2);
    assert_eq!(known.receipt.unwrap().success.height, Height::new(2));
    // Another vault, and the namespace itself, have streams of their own (Q-13).
    make(&house, "stock");
    assert!(matches!(one(write(&house, "stock", sequenced(1, None, OPENING))), Answer::Fresh(_)));
    assert_sound(&house);
}

/// Q-2, Q-12, Q-15, C-42, C-50: the process dies after every single commit. Clients send their bytes
/// again until there is an answer: each transfer is applied once, a refusal that was told stays, and the
/// vault fits its log.
#[test]
fn a_death_after_every_commit() {
    for pace in [Pace::Ahead, Pace::Lockstep] {
        for commits in 0.. {
            let mut house = House::new(Options { pace, ..by_hand(KEEP) });
            house.disk.dies_after(commits);
            let mut refused = None;
            let mut died = false;
            for step in 0..8 {
                loop {
                    let done = match step {
                        0 => house
                            .wait(house.engine().put_vault(
                                &scope("wallets"),
                                VaultSettings::default(),
                                None,
                            ))
                            .map(drop),
                        1 => write(&house, "wallets", sequenced(1, Some(1), OPENING)).map(drop),
                        // Refused: alice has not so much. The client raises its attempt.
                        4 => {
                            let broke = transfer("alice", "bob", 1_000);
                            write(&house, "wallets", sequenced(4, Some(1), &broke)).map(|answer| {
                                let WriteOutcome::Run(answers) = answer.outcome else { panic!() };
                                let code = answers[0].code();
                                assert_eq!(code, Some(Code::BelowMin), "{answers:?}");
                                refused = Some(());
                            })
                        }
                        5 => write(&house, "wallets", named("k", &transfer("alice", "bob", 1)))
                            .map(drop),
                        6 | 7 => {
                            let pay = transfer("alice", "bob", 1);
                            write(&house, "wallets", sequenced(step - 2, Some(2), &pay)).map(drop)
                        }
                        _ => {
                            let pay = transfer("alice", "bob", 1);
                            write(&house, "wallets", sequenced(step, Some(1), &pay)).map(drop)
                        }
                    };
                    match done {
                        Ok(()) => break,
                        Err(error) => {
                            assert!(house.disk.is_dead(), "{error}");
                            died = true;
                            house.crash();
                        }
                    }
                }
            }
            assert!(refused.is_some());
            // A late copy of what was refused meets a condition that would hold of it now, or not: it is
            // not applied.
            house.crash();
            let late =
                one(write(&house, "wallets", sequenced(6, Some(1), &transfer("alice", "bob", 2))));
            assert_eq!(late.code(), Some(Code::StaleAttempt), "{late:?}");
            let (alice, bob) =
                (balance(&house, "wallets", "alice"), balance(&house, "wallets", "bob"));
            assert_eq!((alice, bob), (95, 5), "after {commits} commits, {pace:?}");
            assert_sound(&house);
            if !died {
                break;
            }
        }
    }
}

/// C-50: many copies of one number at once are one transaction, and all get the same answer.
#[test]
fn copies_at_once() {
    let house = house(by_hand(KEEP));
    let copies: Vec<_> = (0..64)
        .map(|_| {
            let writes = sequenced(1, Some(1), OPENING);
            let write =
                LedgerWrite { scope: scope("wallets"), incarnation: None, actor: actor(), writes };
            Box::pin(house.engine().write_ledger(write))
        })
        .collect();
    let answers: Vec<Answer> = house.wait(async {
        // All are asked before any is answered.
        let mut copies: Vec<_> = copies.into_iter().map(|copy| (copy, None)).collect();
        std::future::poll_fn(|cx| {
            let mut is_pending = false;
            for (copy, answer) in copies.iter_mut().filter(|(_, answer)| answer.is_none()) {
                match copy.as_mut().poll(cx) {
                    std::task::Poll::Ready(done) => *answer = Some(done),
                    std::task::Poll::Pending => is_pending = true,
                }
            }
            if is_pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        })
        .await;
        copies.into_iter().map(|(_, answer)| one(answer.unwrap())).collect()
    });
    let (mut fresh, mut prior) = (0, 0);
    let mut receipts = Vec::new();
    for answer in answers {
        match answer {
            Answer::Fresh(receipt) => {
                fresh += 1;
                receipts.push(receipt);
            }
            Answer::PriorResult(receipt) => {
                prior += 1;
                receipts.push(receipt);
            }
            answer => panic!("{answer:?}"),
        }
    }
    assert_eq!((fresh, prior), (1, 63));
    assert!(receipts.iter().all(|receipt| *receipt == receipts[0]));
    assert_eq!(balance(&house, "wallets", "alice"), 100);
}

/// An execution begins in the commit of the transaction that starts it: the process dies after every
/// commit, and each transaction has its one execution. What cannot be started refuses the transaction,
/// and a repetition is answered as it was, whatever is deployed.
#[test]
fn executions_that_transactions_start() {
    let start = r#"[{"add":{"key":"orders","delta":"1","unit":"pieces"}},
        {"start":{"function":"script/main","input":{"codec":"json","value":[{"return":7}]}}}]"#;
    for commits in 0.. {
        let mut house = house(by_hand(KEEP));
        house.deploy("script");
        house.disk.dies_after(commits);
        let mut died = false;
        let answer = loop {
            match write(&house, "wallets", named("order-1", start)) {
                Ok(answer) => break by_name(Ok(answer)),
                Err(error) => {
                    assert!(house.disk.is_dead(), "{error}");
                    died = true;
                    house.crash();
                }
            }
        };
        house.work_through();
        if house.disk.is_dead() {
            died = true;
            house.crash();
            house.work_through();
        }
        let (NamedAnswer::Fresh(receipt) | NamedAnswer::PriorResult(receipt)) = answer else {
            panic!("{answer:?}")
        };
        let OperationResult::Started { operation } = &receipt.success.results[1] else {
            panic!("{receipt:?}")
        };
        let filter = indelible_runtime::Filter::default();
        let rows = house.wait(house.engine().list(&filter, None, 10)).unwrap().executions;
        assert_eq!(rows.len(), 1, "after {commits} commits");
        let id = rows[0].key.execution_id();
        assert_eq!(crate::support::returned(&house.ending(id)), "7");
        let started = house.events(id).into_iter().next().unwrap();
        let indelible_journal::Event::ExecutionStarted(started) = started.event else { panic!() };
        assert_eq!(started.idempotency_key.unwrap().operation_id, *operation);
        assert_eq!(balance(&house, "wallets", "orders"), 1);
        assert_sound(&house);
        if !died {
            let unknown = start.replace("script/main", "script/nothing");
            let refused = write(&house, "wallets", named("order-2", &unknown));
            let is_start = matches!(
                &refused,
                Err(LedgerError::Start(StartRefused::NoFunction { function, .. })) if function == "nothing"
            );
            assert!(is_start, "{refused:?}");
            assert_eq!(balance(&house, "wallets", "orders"), 1, "nothing of it took place");
            // The key is free.
            let again = by_name(write(&house, "wallets", named("order-2", start)));
            assert!(matches!(again, NamedAnswer::Fresh(_)), "{again:?}");
            break;
        }
    }
}

/// C-84: an entity exists until the transaction that expires it, which has a height of its own. A
/// restart does not forget it, and one that was replaced does not go with its predecessor's time.
#[test]
fn entities_expire() {
    let mut house = house(by_hand(KEEP));
    let soon = house.clock_time().saturating_add(Micros::from_secs(60));
    let set = |key: &str, at: &str| {
        format!(
            r#"[{{"set":{{"key":"{key}","to":{{"value":{{"codec":"text","text":"x"}}}}{at}}}}}]"#
        )
    };
    let expires = format!(r#","expires_at":"{soon}""#);
    for (name, operations) in
        [("a", set("a", &expires)), ("b", set("b", &expires)), ("b2", set("b", ""))]
    {
        let answer = by_name(write(&house, "wallets", named(name, &operations)));
        assert!(matches!(answer, NamedAnswer::Fresh(_)), "{answer:?}");
    }
    house.crash();
    house.move_clock(Micros::from_secs(59));
    house.work();
    let at = |house: &House, name: &str| {
        house.wait(house.engine().entity(&scope("wallets"), &key(name), None)).unwrap()
    };
    assert!(at(&house, "a").entity.is_some());
    house.move_clock(Micros::from_secs(2));
    house.work();
    house.settle();
    assert!(at(&house, "a").entity.is_none());
    assert!(at(&house, "b").entity.is_some());
    assert_eq!(at(&house, "a").height, Height::new(4));
    let log = house.wait(house.engine().ledger_log(&scope("wallets"), Height::new(4), 10)).unwrap();
    assert_eq!(log.entries[0].record.transaction.actor, Actor::new("system:expiry"));
    let then =
        async { house.engine().entity(&scope("wallets"), &key("a"), Some(Height::new(3))).await };
    assert!(house.wait(then).unwrap().entity.is_some(), "the past stays as it was");
    let counted = check::count(house.engine().store()).unwrap();
    let timers = counted.iter().find(|table| table.table == "timers").unwrap();
    assert_eq!(timers.rows, 0);
    assert_sound(&house);
}

/// C-44: what is past its time leaves the log, with what it came under; a checkpoint stays from which
/// the rest is proved. Earlier heights are gone, and the last number of a stream still tells another
/// payload.
#[test]
fn logs_are_cut_off() {
    let mut house = House::new(by_hand(KEEP));
    let settings = VaultSettings { log_retention: Some(Micros::from_secs(1)) };
    let short = house.wait(house.engine().put_vault(&scope("wallets"), settings, None));
    assert!(matches!(short, Err(LedgerError::Retention { .. })), "{short:?}");
    let kept = house.options.operation_window;
    let settings = VaultSettings { log_retention: Some(kept) };
    house.wait(house.engine().put_vault(&scope("wallets"), settings, None)).unwrap();
    one(write(&house, "wallets", sequenced(1, Some(1), OPENING)));
    for step in 2..6 {
        one(write(&house, "wallets", sequenced(step, Some(1), &transfer("alice", "bob", 1))));
    }
    by_name(write(
        &house,
        "wallets",
        named("gone", r#"[{"set":{"key":"x","to":{"value":{"codec":"text","text":"x"}}}}]"#),
    ));
    by_name(write(&house, "wallets", named("gone-2", r#"[{"delete":{"key":"x"}}]"#)));
    by_name(write(&house, "wallets", named("refused", &transfer("alice", "bob", 1_000))));
    for _ in 0..(kept.get() / DAY.get() + 3) {
        house.pass(DAY);
        house.settle();
    }
    by_name(write(&house, "wallets", named("late", &transfer("alice", "bob", 1))));
    house.crash();
    house.pass(DAY);
    house.settle();
    let state = house.wait(house.engine().vault(&scope("wallets"))).unwrap();
    assert_eq!((state.log_from, state.height), (Height::new(7), Height::new(8)));
    let gone = house.wait(house.engine().ledger_log(&scope("wallets"), Height::new(7), 10));
    assert!(matches!(gone, Err(LedgerError::Compacted { log_from }) if log_from == Height::new(7)));
    let then = async {
        house.engine().entity(&scope("wallets"), &key("alice"), Some(Height::new(6))).await
    };
    assert!(matches!(house.wait(then), Err(LedgerError::Compacted { .. })));
    let then = async {
        house.engine().entity(&scope("wallets"), &key("alice"), Some(Height::new(7))).await
    };
    let Some(Content::Amount(amount)) =
        house.wait(then).unwrap().entity.map(|entity| entity.content)
    else {
        panic!("it is there")
    };
    assert_eq!(amount.quantity, 96);
    let old = one(write(&house, "wallets", sequenced(2, Some(1), &transfer("alice", "bob", 1))));
    assert_eq!(old, Answer::AlreadyCommitted(Prior::Forgotten));
    let last = one(write(&house, "wallets", sequenced(5, Some(1), OPENING)));
    assert_eq!(last, Answer::Mismatch, "its hash stays for ever");
    let (start, state) = house.wait(house.engine().ledger_export_start(&scope("wallets"))).unwrap();
    let mut verifier = export::Verifier::new();
    verifier.line(export::header_line(&start, &state).as_bytes()).unwrap();
    let log = house.wait(house.engine().ledger_log(&scope("wallets"), Height::new(8), 10)).unwrap();
    for entry in &log.entries {
        verifier.line(export::record_line(&entry.record).as_bytes()).unwrap();
    }
    let counted = check::count(house.engine().store()).unwrap();
    let rows = |name: &str| counted.iter().find(|one| one.table == name).unwrap().rows;
    // The checkpoint and one transaction; the stream and one key; alice and bob before and after it.
    assert_eq!((rows("ledger_log"), rows("ledger_origins"), rows("ledger_history")), (2, 2, 4));
    assert_sound(&house);
}

/// C-44: a name that a refusal used up goes by its own time, and not with the height at which it was
/// refused: none goes early, and all go although no transaction follows them. A log in which nothing is
/// past its time is not written to.
#[test]
fn refused_names_are_forgotten() {
    let mut house = House::new(by_hand(KEEP));
    let kept = house.options.operation_window;
    let settings = VaultSettings { log_retention: Some(kept) };
    house.wait(house.engine().put_vault(&scope("wallets"), settings, None)).unwrap();
    let count = |house: &House| {
        let counted = check::count(house.engine().store()).unwrap();
        let rows = |name: &str| counted.iter().find(|one| one.table == name).unwrap().rows;
        (rows("ledger_log"), rows("ledger_origins"))
    };
    let days = |house: &House, days: u64| {
        for _ in 0..days {
            house.pass(DAY);
            house.settle();
        }
    };
    let window = kept.get() / DAY.get();
    by_name(write(&house, "wallets", named("opening", OPENING)));
    days(&house, window + 2);
    // The transaction is gone, and a checkpoint stands in its place.
    assert_eq!(count(&house), (1, 0));
    let refuse = |house: &House, name: String| {
        let refused = write(house, "wallets", named(&name, &transfer("alice", "bob", 1_000)));
        assert!(matches!(by_name(refused), NamedAnswer::Refused(_)));
    };
    (0..600).for_each(|name| refuse(&house, format!("early-{name}")));
    days(&house, 2);
    (0..600).for_each(|name| refuse(&house, format!("late-{name}")));
    // Each is a name, and the time at which it goes.
    assert_eq!(count(&house), (1, 2_400), "none goes early");
    house.settle();
    let accepted = house.engine().store().accepted();
    for _ in 0..10 {
        house.pass(Micros::from_secs(60));
        house.settle();
    }
    assert_eq!(house.engine().store().accepted(), accepted, "nothing is past its time");
    days(&house, window - 1);
    assert_eq!(count(&house), (1, 1_200), "the early ones");
    let again = named("late-0", &transfer("alice", "bob", 1_000));
    let again = by_name(write(&house, "wallets", again));
    assert!(matches!(again, NamedAnswer::PriorError(_)), "{again:?}");
    // No engine has retained anything here, so the retention clock begins anew after a crash.
    house.crash();
    days(&house, 3 * window);
    assert_eq!(count(&house), (1, 0));
    assert_sound(&house);
}

/// C-47: a vault that is deleted takes its rows along; its name is free after the window alone, and
/// what is meant for its first life does not reach the second.
#[test]
fn vaults_are_deleted_and_made_again() {
    let house = house(by_hand(KEEP));
    let first = make(&house, "wallets");
    assert_eq!(make(&house, "wallets"), first, "it is there");
    one(write(&house, "wallets", sequenced(1, None, OPENING)));
    let other = make(&house, "stock");
    let wrong = async {
        house.engine().delete_vault(&scope("wallets"), Some(other), Attribution::default()).await
    };
    assert!(matches!(house.wait(wrong), Err(LedgerError::OtherIncarnation(is)) if is == first));
    let delete = |pinned: Option<Incarnation>| {
        let because = Attribution::because("moved");
        house.wait(house.engine().delete_vault(&scope("wallets"), pinned, because))
    };
    let free_at = delete(Some(first)).unwrap();
    house.work_through();
    house.settle();
    // A repetition changes nothing, and is not in the audit record.
    assert_eq!((delete(Some(first)).unwrap(), delete(None).unwrap()), (free_at, free_at));
    assert!(matches!(delete(Some(other)), Err(LedgerError::NoVault)));
    assert_eq!(audited(&house, "delete vault"), ["moved"]);
    assert!(matches!(
        write(&house, "wallets", sequenced(2, None, OPENING)),
        Err(LedgerError::NoVault)
    ));
    let soon =
        async { house.engine().put_vault(&scope("wallets"), VaultSettings::default(), None).await };
    assert!(
        matches!(house.wait(soon), Err(LedgerError::NameTaken { free_at: at }) if at == free_at)
    );
    let counted = check::count(house.engine().store()).unwrap();
    let left: u64 = counted
        .iter()
        .filter(|table| table.table.starts_with("ledger_") && table.table != "ledger_scopes")
        .map(|table| table.rows)
        .sum();
    assert_eq!(left, 0);
    while house.clock_time() <= free_at {
        house.pass(DAY);
        house.settle();
    }
    let second = make(&house, "wallets");
    assert_ne!(second, first);
    let late = LedgerWrite {
        scope: scope("wallets"),
        incarnation: Some(first),
        actor: actor(),
        writes: sequenced(1, None, OPENING),
    };
    let late = house.wait(house.engine().write_ledger(late));
    assert!(matches!(late, Err(LedgerError::OtherIncarnation(is)) if is == second));
    let page = async { house.engine().vaults(&Namespace::new("tests").unwrap(), None, 10).await };
    let names: Vec<String> =
        house.wait(page).unwrap().vaults.iter().map(|vault| vault.scope.to_string()).collect();
    assert_eq!(names, ["tests/stock", "tests/wallets"]);
    assert_sound(&house);
}

/// C-46: a client id belongs to the caller that first wrote under it, a refusal included, until an
/// operator hands it over.
#[test]
fn client_ids_have_owners() {
    let mut house = house(by_hand(KEEP));
    one(write(&house, "wallets", sequenced(1, Some(1), &transfer("alice", "bob", 1))));
    house.crash();
    let other = Actor::new("client:other");
    let ask = |house: &House, actor: &Actor| {
        let write = LedgerWrite {
            scope: scope("wallets"),
            incarnation: None,
            actor: actor.clone(),
            writes: sequenced(1, Some(2), OPENING),
        };
        one(house.wait(house.engine().write_ledger(write)))
    };
    assert_eq!(ask(&house, &other), Answer::Foreign);
    let state = |house: &House, actor: Option<&Actor>| {
        house.wait(house.engine().ledger_client(&scope("wallets"), &client("c"), actor, None))
    };
    assert!(matches!(state(&house, Some(&other)), Err(LedgerError::Foreign)));
    assert_eq!(state(&house, None).unwrap().stream.unwrap().owner, actor());
    let decided = PersonDecision::by(Person::new("user:admin"), "the app was renamed");
    for _ in 0..2 {
        let (scope, client, other) = (scope("wallets"), client("c"), other.clone());
        let handed = house.engine().hand_over_client(&scope, &client, other, decided.clone());
        house.wait(handed).unwrap();
    }
    let action = "hand over client c from client:app to client:other";
    assert_eq!(audited(&house, action), ["the app was renamed"], "once");
    house.crash();
    assert_eq!(ask(&house, &actor()), Answer::Foreign);
    assert!(matches!(ask(&house, &other), Answer::Fresh(_)));
    assert_sound(&house);
}

/// A run is judged number by number, in one commit; entities as they were are read page by page.
#[test]
fn runs_and_the_past() {
    let house = house(by_hand(KEEP));
    let set = |name: &str, text: &str| {
        request(&format!(
            r#"[{{"set":{{"key":"{name}","to":{{"value":{{"codec":"text","text":"{text}"}}}}}}}}]"#
        ))
    };
    let number = |number| Sequence::new(number).unwrap();
    let mut writes = Vec::new();
    for round in 1..=3_u64 {
        for (at, name) in ["k/a", "k/b", "k/c", "l"].into_iter().enumerate() {
            let sequence = number(4 * (round - 1) + at as u64 + 1);
            writes.push((sequence, set(name, &format!("{name} {round}"))));
        }
    }
    let run = Run::new(client("c"), Attempt::new(1).ok(), writes, &Limits::DEFAULT).unwrap();
    let answer = write(&house, "wallets", Writes::Run(run)).unwrap();
    let WriteOutcome::Run(answers) = answer.outcome else { panic!() };
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Answer::Fresh(_))).count(), 12);
    for (at, round) in [(None, 3), (Some(4), 1), (Some(8), 2)] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = async {
                house
                    .engine()
                    .entities(&scope("wallets"), "k/", at.map(Height::new), after.as_ref(), 2)
                    .await
            };
            let page = house.wait(page).unwrap();
            assert_eq!(page.height, Height::new(at.unwrap_or(12)));
            found.extend(page.entities);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let texts: Vec<String> = found
            .iter()
            .map(|(_, entity)| match &entity.content {
                Content::Value(value) => text(value),
                Content::Amount(_) => panic!("it is a value"),
            })
            .collect();
        let expected: Vec<_> = ["k/a", "k/b", "k/c"].map(|name| format!("{name} {round}")).into();
        assert_eq!(texts, expected, "at {at:?}");
    }
    let page =
        async { house.engine().entity_history(&scope("wallets"), &key("k/b"), None, 2).await };
    let page = house.wait(page).unwrap();
    let heights: Vec<u64> = page.versions.iter().map(|(height, _)| height.get()).collect();
    assert_eq!((heights, page.next), (vec![10, 6], Some(Height::new(6))));
    let beyond =
        async { house.engine().entity(&scope("wallets"), &key("l"), Some(Height::new(13))).await };
    assert!(matches!(house.wait(beyond), Err(LedgerError::Beyond { .. })));
    // The namespace itself: nothing is there before its first write.
    let own = Scope { vault: None, ..scope("x") };
    assert_eq!(house.wait(house.engine().vault(&own)).unwrap().incarnation, None);
    let operation = WriteName::Operation(OperationId::new("op-1").unwrap());
    let write = LedgerWrite {
        scope: own.clone(),
        incarnation: None,
        actor: actor(),
        writes: Writes::Named(operation, request(OPENING)),
    };
    house.wait(house.engine().write_ledger(write)).unwrap();
    assert_eq!(house.wait(house.engine().vault(&own)).unwrap().height, Height::new(1));
    assert_sound(&house);
}

/// C-48: a restore takes streams back in time. A client that is ahead of its stream is told that, until
/// it has taken the stream's word for where it stands.
#[test]
fn a_client_learns_of_a_restore() {
    let mut house = house(by_hand(KEEP));
    one(write(&house, "wallets", sequenced(1, Some(1), OPENING)));
    let store = house.engine().store();
    let mut batch = Batch::in_slots(Slot::SERVER);
    restores::put(&mut batch, 1);
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    house.crash();
    let pay = transfer("alice", "bob", 1);
    let answer = write(&house, "wallets", sequenced(5, Some(2), &pay)).unwrap();
    assert_eq!(answer.restores, RestoreCount::new(1));
    let gap = |answer: Answer| match answer {
        Answer::Gap(gap) => (gap.last, gap.restored),
        answer => panic!("{answer:?}"),
    };
    assert_eq!(gap(one(Ok(answer))), (1, true));
    assert!(matches!(one(write(&house, "wallets", sequenced(2, Some(3), &pay))), Answer::Fresh(_)));
    assert_eq!(gap(one(write(&house, "wallets", sequenced(5, Some(4), &pay)))), (2, false));
    assert_sound(&house);
}

fn text(value: &Value) -> String {
    String::from_utf8(value.payload().bytes.to_vec()).unwrap()
}
