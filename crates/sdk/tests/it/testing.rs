//! Functions in a test host: what they are answered, what is known of them afterwards, and what a
//! test is told when it cannot go on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use indelible_sdk::http::{Question, Reconciled, Response};
use indelible_sdk::prelude::*;
use indelible_sdk::testing::{HttpAnswer, TestHost};

const DAY: Duration = Duration::from_secs(86_400);
const BANK: &str = "https://bank.example.com/charges";

remote! {
    /// Another component's.
    fn ship(order: u64, item: &str) -> Result<String, Error> as "carrier/ship";
}

/// Charges a card.
#[function]
fn charge(card: &str, cents: u64) -> Result<String, Error> {
    if cents > 1_000 {
        return Err("the limit is 10.00".into());
    }
    Ok(format!("{card}-{cents}"))
}

/// Calls, sleeps, takes a signal, and asks for all that is recorded.
#[function]
fn order(card: &str, cents: u64) -> Result<String, Error> {
    let begun = now();
    let id: u32 = random();
    let receipt = charge::call(card, cents).wait()?;
    info!("charged"; receipt = receipt);
    sleep(DAY)?;
    assert!(now() - begun >= DAY, "the time has moved, id {id}");
    info!("slept");
    match signal::<String>("stop").wait_for(DAY)? {
        Some(reason) => Err(format!("stopped after {receipt}: {reason}").into()),
        None => Ok(receipt),
    }
}

#[function]
fn parcel(order: u64) -> Result<String, Error> {
    ship::call(order, "tea").wait()
}

/// Several at once: a join set, a race, all of a list, and the first of different things.
#[function]
fn many() -> Result<Vec<String>, Error> {
    let mut set: JoinSet<String> = [3_u64, 1, 2].map(nap::call).into_iter().collect();
    let mut texts = Vec::new();
    while let Some(text) = set.next()? {
        texts.push(text);
    }
    let racers = [nap::call(9), nap::call(8)];
    texts.push(race(&racers)?.outcome?);
    texts.extend(wait_all(&racers)?);
    let (slow, soon) = (nap::call(100), nap::call(50));
    texts.push(select! {
        text = slow => text,
        text = soon => format!("soon {text}"),
        _ = signal::<()>("never") => "a signal".to_owned(),
    }?);
    Ok(texts)
}

#[function]
fn nap(seconds: u64) -> Result<String, Error> {
    sleep(Duration::from_secs(seconds))?;
    Ok(format!("{seconds} s"))
}

/// Pays by HTTP, and says how that ended.
#[function]
fn pay(idem: bool) -> String {
    let request = http::post(BANK).bearer("BANK").json(&500).retries(2);
    let request = if idem { request.idem() } else { request };
    ended(request)
}

#[function]
fn was_it_charged(question: &Question) -> Reconciled {
    assert_eq!(question.url, BANK);
    Reconciled::Happened(Response::new(208))
}

#[function]
fn pay_and_ask() -> String {
    ended(http::post(BANK).reconciler::<was_it_charged>())
}

#[function]
fn pay_or_hold() -> String {
    ended(http::post(BANK).hold_if_unknown())
}

fn ended(request: http::Request) -> String {
    match request.send().wait() {
        Ok(answer) => answer.status.to_string(),
        Err(Error::Failed(failure)) => format!("{:?}", failure.kind),
        Err(Error::Cancelled(reason)) => reason,
    }
}

/// Undoes what it did when it is cancelled.
#[function]
fn saga() -> Result<String, Error> {
    let receipt = charge::call("card", 5).wait()?;
    match sleep(DAY) {
        Err(Error::Cancelled(reason)) => {
            refund::call(&receipt).wait()?;
            Err(Error::Cancelled(reason))
        }
        other => other.map(|()| receipt),
    }
}

#[function(idem)]
fn refund(receipt: &str) -> Result<(), Error> {
    info!("refunded {receipt}");
    Ok(())
}

#[function(volatile)]
fn look() -> Result<u16, Error> {
    sleep(DAY)?;
    Ok(http::get("https://shop.example.com").send().wait()?.status)
}

#[function]
fn looks() -> Result<u16, Error> {
    look::call().wait()
}

#[function]
fn passes_in_the_end(times: u32) -> Result<u32, Error> {
    let attempt = context().attempt;
    if attempt < times { Err(Error::transient("busy")) } else { Ok(attempt) }
}

thread_local! {
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

fn runs() -> u32 {
    RUNS.replace(RUNS.get() + 1)
}

/// Not deterministic, in four ways.
#[function]
fn fickle(how: &str) -> Result<u32, Error> {
    let run = runs();
    match how {
        "asks" if run == 0 => sleep(DAY)?,
        "asks" => drop(charge::call("card", 1).wait()?),
        "returns" => return Ok(run),
        "fails" => assert!(run == 0, "another run"),
        "waits" if run > 0 => sleep(DAY)?,
        "less" if run == 0 => drop(now()),
        "more" if run > 0 => drop(now()),
        _ => {}
    }
    Ok(0)
}

#[function]
fn panics() {
    panic!("no tea left");
}

#[function]
fn signal_only() -> Result<(), Error> {
    signal("never").wait()
}

indelible_sdk::guest!(
    charge,
    order,
    parcel,
    many,
    nap,
    pay,
    was_it_charged,
    pay_and_ask,
    pay_or_hold,
    saga,
    refund,
    look,
    looks,
    passes_in_the_end,
    fickle,
    panics,
    signal_only,
);

/// Calls run the real functions, in order, each with a journal; the time moves; the log has each line
/// once, however often the function ran.
#[test]
fn a_function_runs_to_its_end() {
    let mut host = TestHost::new();
    let began = host.now();
    assert_eq!(host.run(|| order::call("card 1", 500)), Ok("card 1-500".to_owned()));
    assert_eq!(host.now() - began, 2 * DAY);
    assert_eq!(host.logs(), ["charged receipt=card 1-500", "slept"]);
    let calls = host.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (calls[0].function.as_str(), calls[0].input()),
        ("charge", ("card 1".to_owned(), 500))
    );
    let journal = host.journal();
    assert!(journal.contains("root.2 ExecutionCompleted(Ok(\"card 1-500\"))\n"), "{journal}");
    assert!(journal.ends_with('\n') && journal.contains("root TimerFired"), "{journal}");

    let error = host.run(|| order::call("card 1", 1_001)).unwrap_err();
    assert_eq!(error.to_string(), "charge: the limit is 10.00", "a host runs several in turn");
    let refused = host.run(|| call_remote::<String>("order", &7)).unwrap_err();
    assert!(refused.to_string().contains("does not match order(card, cents)"), "{refused}");
}

/// Signals come before, between and after.
#[test]
fn signals() {
    for (at, stops) in [(Duration::ZERO, true), (DAY + DAY / 2, true), (3 * DAY, false)] {
        let mut host = TestHost::new().signal_after(at, "stop", "enough");
        match host.run(|| order::call("c", 5)) {
            Ok(_) => assert!(!stops, "{at:?}"),
            Err(error) => {
                assert!(stops, "{at:?}");
                assert_eq!(error.to_string(), "stopped after c-5: enough");
                assert_eq!(error.failure().unwrap().kind, ErrorKind::UserError);
            }
        }
    }
}

/// A test answers in place of a function: of another component, or of the same. The answer is a
/// function, too: it may wait, and its time is seen.
#[test]
fn calls_are_answered() {
    let mut host = TestHost::new().on_call("carrier/ship", |(order, item): (u64, String)| {
        sleep(DAY)?;
        Ok(format!("{item} of {order}"))
    });
    let began = host.now();
    assert_eq!(host.run(|| parcel::call(7)), Ok("tea of 7".to_owned()));
    assert_eq!(host.now() - began, DAY);
    assert_eq!(host.calls()[0].function, "carrier/ship");

    let mut host = TestHost::new()
        .on_call("charge", |_: (String, u64)| -> Result<String, _> { Err("no funds".into()) });
    assert_eq!(host.run(|| order::call("c", 5)).unwrap_err().to_string(), "charge: no funds");

    // One that fails twice, and passes.
    let times = Rc::new(Cell::new(0));
    let counted = Rc::clone(&times);
    let mut host = TestHost::new().on_call("charge", move |_: (String, u64)| {
        counted.set(counted.get() + 1);
        if counted.get() < 3 { Err(Error::transient("busy")) } else { Ok("third".to_owned()) }
    });
    assert_eq!(host.run(|| order::call("c", 5)), Ok("third".to_owned()));
    assert_eq!(times.get(), 3, "an answer that does not wait is asked for once an attempt");
}

#[test]
fn many_at_once() {
    let mut host = TestHost::new();
    let texts = host.run(many::call).unwrap();
    assert_eq!(texts, ["1 s", "2 s", "3 s", "8 s", "9 s", "8 s", "soon 50 s"]);
}

/// What follows an attempt is the server's own decision: see `docs/guides/effects.md`.
#[test]
fn http_requests() {
    let ok = || Response::new(201).into();
    type Answers = Vec<HttpAnswer>;
    let busy = || Response::new(429).with_header("Retry-After", "7").into();
    let cases: Vec<(bool, Answers, &str, usize)> = vec![
        (false, vec![ok()], "201", 1),
        (false, vec![Response::new(404).into()], "404", 1),
        (false, vec![HttpAnswer::not_sent("no route"), ok()], "201", 2),
        (false, vec![busy(), busy(), busy()], "429", 3),
        (false, vec![HttpAnswer::lost("reset")], "Indeterminate", 1),
        (true, vec![HttpAnswer::lost("reset"), ok()], "201", 2),
        (false, vec![Response::new(504).into()], "Indeterminate", 1),
        (false, vec![HttpAnswer::refused("no grant")], "NotPerformed", 1),
        (false, vec![HttpAnswer::from(Response::new(201)).after(DAY)], "Indeterminate", 1),
        (false, vec![HttpAnswer::from(Response::new(201)).after(DAY / 86_400)], "201", 1),
    ];
    for (number, (idem, answers, expected, attempts)) in cases.into_iter().enumerate() {
        let mut answers = answers.into_iter();
        let mut host = TestHost::new().on_http(move |_| answers.next().unwrap());
        assert_eq!(host.run(|| pay::call(idem)).unwrap(), expected, "case {number}");
        let sent = host.http_requests();
        assert_eq!(sent.len(), attempts, "case {number}");
        let first = &sent[0];
        assert_eq!((first.method.as_str(), first.url.as_str()), ("POST", BANK));
        assert_eq!(first.header("Authorization"), Some("Bearer [secret BANK]"));
        assert_eq!(first.json::<u64>(), 500);
        for (one, attempt) in sent.iter().zip(1..) {
            assert_eq!(one.attempt, attempt);
            assert_eq!(one.idempotency_key, first.idempotency_key, "case {number}");
        }
    }
}

#[test]
fn a_reconciler_is_asked() {
    let lost = || TestHost::new().on_http(|_| HttpAnswer::lost("reset"));
    assert_eq!(lost().run(pay_and_ask::call).unwrap(), "208");
    // "It did not happen" is believed when it is said twice, a minute apart. Then it is sent again.
    let mut host = TestHost::new()
        .on_http(|sent| match sent.attempt {
            1 => HttpAnswer::lost("reset"),
            _ => Response::new(201).into(),
        })
        .on_call("was_it_charged", |_: Question| Ok(Reconciled::DidNotHappen));
    let began = host.now();
    assert_eq!(host.run(pay_and_ask::call).unwrap(), "201");
    assert!(host.now() - began >= Duration::from_secs(60), "{}", host.journal());
    // Always lost, and always said not to have happened: a run ends.
    let mut host = lost().on_call("was_it_charged", |_: Question| Ok(Reconciled::DidNotHappen));
    let ran = panic::catch_unwind(AssertUnwindSafe(|| host.run(pay_and_ask::call)));
    let text = ran.unwrap_err().downcast_ref::<String>().cloned().unwrap();
    assert!(text.contains("has not ended after 10000 moves of the time"), "{text}");
}

/// A cancel at each wait: it is undone as far as it was done.
#[test]
fn a_cancel_at_each_wait() {
    let mut ends = Vec::new();
    for wait in 1.. {
        let mut host = TestHost::new().cancel_at_wait(wait, "by hand");
        let error = match host.run(saga::call) {
            Ok(_) => break,
            Err(error) => error,
        };
        assert_eq!(error.failure().unwrap().kind, ErrorKind::Cancelled);
        assert_eq!(error.to_string(), "by hand");
        let calls: Vec<_> = host.calls().into_iter().map(|call| call.function).collect();
        ends.push(calls.join(" "));
    }
    assert_eq!(ends, ["charge", "charge refund"]);
    let mut host = TestHost::new().cancel_after(DAY / 2, "late");
    assert_eq!(host.run(saga::call).unwrap_err().to_string(), "late");
    assert_eq!(host.logs(), ["refunded card-5"]);
}

#[test]
fn other_kinds_of_functions() {
    let host = || TestHost::new().on_http(|_| Response::new(200));
    assert_eq!(host().run(look::call), Ok(200), "volatile");
    assert_eq!(host().run(looks::call), Ok(200), "a volatile call");
    assert_eq!(host().run(|| passes_in_the_end::call(3)), Ok(3));
    let trapped = host().run(panics::call).unwrap_err();
    assert_eq!(trapped.failure().unwrap().kind, ErrorKind::Trap);
    assert_eq!(trapped.to_string(), "panicked: no tea left");
}

/// The same seed and time give the same journal, another seed another.
#[test]
fn runs_can_be_repeated() {
    let journal = |seed| {
        let mut host = TestHost::new().seed(seed).at(Timestamp::from_micros(1_000_000));
        _ = host.run(|| order::call("c", 5));
        host.journal()
    };
    assert_eq!(journal(1), journal(1));
    assert_ne!(journal(1), journal(2));
}

/// What a test is told that cannot go on.
#[test]
fn problems() {
    let fickle =
        |how: &'static str| move |host: &mut TestHost| drop(host.run(|| fickle::call(how)));
    type Case = Box<dyn Fn(&mut TestHost)>;
    let cases: Vec<(Case, &str)> = vec![
        (
            Box::new(fickle("asks")),
            "`fickle` is not deterministic. When it ran again over its journal: at ",
        ),
        (
            Box::new(fickle("asks")),
            ".0 the journal holds a timer of 86400s, but the guest asked for Function charge",
        ),
        (Box::new(fickle("returns")), "its journal: returned 1, where it had returned 0"),
        (Box::new(fickle("fails")), "failed, where it had returned: panicked: another run"),
        (Box::new(fickle("waits")), "waits, where it had returned"),
        (Box::new(fickle("less")), "holds a recorded time, but the guest asked for to return"),
        (Box::new(fickle("more")), "asked for more than before"),
        (
            Box::new(|host| drop(host.run(|| parcel::call(1)))),
            "calls `carrier/ship`, and this test does not answer it: add `.on_call(\"carrier/ship\"",
        ),
        (
            Box::new(|host| drop(host.run(|| pay::call(true)))),
            "sends POST https://bank.example.com/charges, and this test does not answer HTTP",
        ),
        (
            Box::new(|host| {
                let lost = std::mem::take(host).on_http(|_| HttpAnswer::lost("reset"));
                *host = lost;
                drop(host.run(pay_or_hold::call));
            }),
            "held for a person: POST https://bank.example.com/charges: reset",
        ),
        (Box::new(|host| drop(host.run(signal_only::call))), "waits for what this test never"),
        (Box::new(|host| drop(host.run(|| timer(DAY)))), "a call and nothing else"),
    ];
    for (case, expected) in cases {
        RUNS.set(0);
        let mut host = TestHost::new();
        let panicked = panic::catch_unwind(AssertUnwindSafe(|| case(&mut host))).unwrap_err();
        let text = panicked.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(text.contains(expected), "{text}\n  should have {expected}");
        // The thread has no host left over.
        assert_eq!(TestHost::new().run(|| nap::call(1)), Ok("1 s".to_owned()));
    }
}

/// An assertion in an answer fails the test as any other does.
#[test]
#[should_panic(expected = "the test's own")]
fn assertions_in_answers() {
    let mut host = TestHost::new().on_call("charge", |_: (String, u64)| -> Result<String, Error> {
        panic!("the test's own")
    });
    drop(host.run(|| order::call("c", 5)));
}

/// Without a host a function panics, and does not abort.
#[test]
#[should_panic(expected = "there is no host to answer. In a test, run the function in one")]
fn no_host() {
    info!("a line goes nowhere");
    drop(order("card", 5));
}
