//! HTTP effects where two things meet: a person and a cancel, a deadline and a second attempt, a
//! held execution and its timers, a stop and what is on its way. The wire is the test's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use indelible_http::{Attempt, End, Report, Response, Sender};
use indelible_journal::{ErrorKind, Event, ExecutionId, JournalKey, Micros, Outcome, Timestamp};
use indelible_records::executions::Standing;
use indelible_records::{queue, timers};
use indelible_runtime::world::{Clock as _, Witness};
use indelible_runtime::{Actor, Attribution, Options, Parking, PersonDecision, Resolution};
use indelible_store::Bounds;

use crate::support::wire::{Wire, answer, answered, timed_out};
use crate::support::{House, KEEP, by_hand, failed, returned};

/// A house with a wire.
fn house(options: Options) -> (House, Arc<Wire>) {
    let mut house = House::new(options);
    let wire = Wire::new();
    house.http = wire.clone();
    house.reopen();
    house.deploy("behaviours");
    (house, wire)
}

/// A request: method, how attempts end, and more fields.
fn spec(method: &str, path: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    format!(r#"{{"method":"{method}","url":"http://peer/{path}"{more}}}"#)
}

/// Works until everything waits for the wire or a timer far ahead.
fn work(house: &House) {
    for _ in 0..5 {
        house.work();
        house.settle();
        thread::yield_now();
    }
    house.work();
}

fn actor() -> Actor {
    Actor::new("ada")
}

#[track_caller]
fn resolve(house: &House, id: &ExecutionId, child: u32, resolution: Resolution) {
    let promise = id.child(child);
    house
        .wait(house.engine().resolve(&promise, resolution, PersonDecision::by(actor(), "why")))
        .unwrap();
}

fn unresolved(house: &House) -> usize {
    house.wait(house.engine().unresolved(None, 100)).unwrap().len()
}

/// How the first effect of an execution ended.
#[track_caller]
fn outcome(house: &House, id: &ExecutionId) -> Outcome {
    let ends = house.events(id).into_iter().filter_map(|record| match record.event {
        Event::InvokeCompleted { result, .. } => Some(result),
        _ => None,
    });
    ends.last().expect("it has ended")
}

#[track_caller]
fn kind(house: &House, id: &ExecutionId) -> String {
    match outcome(house, id) {
        Outcome::Ok(_) => "ok".to_owned(),
        Outcome::Err(failure) => failure.kind.to_string(),
    }
}

/// Nothing is left of what is over: no timer, no place in the queue, nothing unresolved.
#[track_caller]
fn nothing_is_left(house: &House) {
    house.settle();
    let store = house.engine().store();
    assert_eq!(timers::from(store, Timestamp::EPOCH, 10).unwrap().value, [], "timers");
    assert_eq!(queue::next(store, None, 10).unwrap().value, [], "the queue");
    assert_eq!(unresolved(house), 0, "unresolved");
    assert_eq!(house.engine().readings().effects_in_flight, 0, "in flight");
    assert_eq!(*house.told.trouble.lock().unwrap(), [""; 0], "trouble");
}

/// Says how often a process died of whatever is replayed.
#[derive(Default)]
struct Deaths(AtomicU32);

impl Deaths {
    fn set(&self, deaths: u32) {
        self.0.store(deaths, Ordering::SeqCst);
    }
}

impl Witness for Deaths {
    fn deaths(&self, _key: &JournalKey) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    fn has_suspects(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

/// A house in which whatever is replayed can be held.
fn house_that_holds() -> (House, Arc<Wire>, Arc<Deaths>) {
    let (mut house, wire) = house(by_hand(Parking::Drop));
    let deaths = Arc::new(Deaths::default());
    house.witness = deaths.clone();
    house.reopen();
    (house, wire, deaths)
}

/// Passes the time of the guest's timer: its execution is replayed, and held.
#[track_caller]
fn is_held(house: &House, deaths: &Deaths, id: &ExecutionId) {
    deaths.set(3);
    house.pass(Micros::from_millis(6));
    work(house);
    assert_eq!(house.row(id).standing, Standing::Stuck);
}

fn release(house: &House, deaths: &Deaths, id: &ExecutionId) {
    deaths.set(0);
    house.wait(house.engine().release(id, PersonDecision::by(actor(), "it is mended"))).unwrap();
    house.work_through();
}

/// C-25, D5: the time of an effect's next attempt comes while its execution is stuck. When that is
/// released, the attempt is made: nothing else remembers it.
#[test]
fn a_retry_that_was_due_while_its_execution_was_held_is_made_after_the_release() {
    let (house, wire, deaths) = house_that_holds();
    let input = format!("[{},5]", spec("GET", "unknown,200", r#""backoff_ms":1000"#));
    let id = house.start("a", "sends_or_timer", &input);
    work(&house);
    assert_eq!(wire.count(), 1);
    is_held(&house, &deaths, &id);
    house.pass(Micros::from_secs(2));
    work(&house);
    assert_eq!(wire.count(), 1, "what is held sends nothing");
    release(&house, &deaths, &id);
    assert_eq!(wire.count(), 2, "the next attempt is due");
    assert!(returned(&house.ending(&id)).starts_with(r#"["timer",{"status":200"#));
}

/// C-25, D5: the same with crashes in between.
#[test]
fn a_retry_that_was_due_while_held_is_made_after_a_crash_and_the_release() {
    let (mut house, wire, deaths) = house_that_holds();
    let input = format!("[{},5]", spec("GET", "unknown,200", r#""backoff_ms":1000"#));
    let id = house.start("a", "sends_or_timer", &input);
    work(&house);
    is_held(&house, &deaths, &id);
    house.crash();
    house.pass(Micros::from_secs(2));
    work(&house);
    house.crash();
    work(&house);
    release(&house, &deaths, &id);
    assert_eq!(wire.count(), 2, "the next attempt is due");
}

/// docs/guarantees.md: an answer that arrives late, before a person or a reconciler has decided, is
/// the outcome: also if its execution is stuck at that moment.
#[test]
fn a_late_answer_is_not_lost_while_its_execution_is_held() {
    let (house, wire, deaths) = house_that_holds();
    let input = format!("[{},5]", spec("POST", "open", r#""hold":true"#));
    let id = house.start("a", "sends_or_timer", &input);
    work(&house);
    let mut late = wire.end_and_keep(timed_out());
    work(&house);
    assert_eq!(unresolved(&house), 1);
    is_held(&house, &deaths, &id);
    late(answered(201));
    work(&house);
    release(&house, &deaths, &id);
    assert_eq!(unresolved(&house), 0, "the peer has said how it ended");
    assert!(returned(&house.ending(&id)).starts_with(r#"["timer",{"status":201"#));
}

/// docs/guarantees.md: an answer that is too large is one: it says, late as in time, that the effect
/// is over.
#[test]
fn a_late_answer_that_is_too_large_is_an_answer() {
    let (house, wire) = house(by_hand(KEEP));
    let id = house.start("a", "sends", &spec("POST", "open", r#""hold":true"#));
    work(&house);
    let mut late = wire.end_and_keep(timed_out());
    work(&house);
    late(End::TooLarge(answer(200)));
    house.work_through();
    assert_eq!(unresolved(&house), 0, "the peer has answered");
    assert_eq!(kind(&house, &id), "Uncategorized");
}

/// What a reconciler says while the execution is stuck counts when that is released.
#[test]
fn a_reconcilers_answer_is_kept_while_its_execution_is_held() {
    let (house, wire, deaths) = house_that_holds();
    let input = format!("[{},5]", spec("POST", "unknown", r#""settle_ms":1"#));
    let id = house.start("a", "sends_or_timer", &input);
    work(&house);
    assert_eq!(wire.open(), 1, "the reconciler asks the peer");
    is_held(&house, &deaths, &id);
    deaths.set(0);
    wire.end(End::Answered(Response { body: "{\"processed\":1}".into(), ..answer(200) }));
    work(&house);
    assert_eq!(house.row(&id).standing, Standing::Stuck);
    release(&house, &deaths, &id);
    assert!(returned(&house.ending(&id)).starts_with(r#"["timer",{"status":200"#));
    nothing_is_left(&house);
}

/// C-24, C-40: a person has an effect run again, and the second attempt could not be sent. The
/// first may have happened: if the execution is cancelled then, its end is Indeterminate.
#[test]
fn what_may_have_happened_is_not_cancelled_between_its_attempts() {
    let (house, wire) = house(by_hand(KEEP));
    let input = spec("POST", "unknown,unsent", r#""hold":true,"backoff_ms":1000"#);
    let id = house.start("a", "sends", &input);
    work(&house);
    resolve(&house, &id, 0, Resolution::RunAgain);
    work(&house);
    assert_eq!(wire.count(), 2);
    house.cancel(&id);
    house.work_through();
    assert_eq!(kind(&house, &id), "Indeterminate", "the first attempt may have happened");
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Indeterminate);
}

/// C-40: the same when its caller ends without waiting for it.
#[test]
fn what_may_have_happened_does_not_end_as_cancelled_with_its_caller() {
    let (house, wire) = house(by_hand(KEEP));
    let input = spec("POST", "unknown,unsent", r#""hold":true,"backoff_ms":1000"#);
    let id = house.start("a", "sends_and_leaves", &input);
    work(&house);
    resolve(&house, &id, 0, Resolution::RunAgain);
    work(&house);
    assert_eq!(wire.count(), 2);
    house.pass(Micros::from_millis(2));
    house.work_through();
    assert_eq!(returned(&house.ending(&id)), "\"left\"");
    assert_eq!(kind(&house, &id), "Indeterminate", "the first attempt may have happened");
}

/// C-24: the same when the second attempt waits for room, and never began.
#[test]
fn what_may_have_happened_is_not_cancelled_while_it_waits_for_room() {
    let (house, wire) = house(Options { effects_in_flight_max: 1, ..by_hand(KEEP) });
    let id = house.start("a", "sends", &spec("POST", "unknown", r#""hold":true"#));
    work(&house);
    let other = house.start("b", "sends", &spec("POST", "open", ""));
    work(&house);
    assert_eq!(wire.open(), 1);
    resolve(&house, &id, 0, Resolution::RunAgain);
    work(&house);
    assert_eq!(wire.count(), 2, "there is no room");
    house.cancel(&id);
    work(&house);
    wire.end(answered(200));
    house.work_through();
    house.ending(&other);
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Indeterminate);
}

/// C-24, C-40: a cancel of the caller reaches an unresolved effect two calls below; the end is
/// Indeterminate at every level.
#[test]
fn a_cancel_is_indeterminate_for_all_callers_of_what_nobody_knows() {
    let (house, _) = house(by_hand(KEEP));
    let id = house.start("a", "sends_by_call", &spec("POST", "unknown", r#""hold":true"#));
    work(&house);
    assert_eq!(unresolved(&house), 1);
    house.cancel(&id);
    house.work_through();
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Indeterminate);
    nothing_is_left(&house);
}

/// D5: an effect that a person has run again gets the time of a whole attempt: its deadline passed
/// long ago, while it waited for that person. With less time its outcome would be unknown again.
#[test]
fn run_again_has_the_time_of_an_attempt() {
    let (house, wire) = house(by_hand(KEEP));
    let input = spec("POST", "unknown,200", r#""hold":true,"deadline_ms":60000"#);
    let id = house.start("a", "sends", &input);
    work(&house);
    house.pass(Micros::from_secs(24 * 3600));
    resolve(&house, &id, 0, Resolution::RunAgain);
    house.work_through();
    assert!(returned(&house.ending(&id)).contains("200"));
    let time = wire.sent()[1].timeout;
    assert!(time >= Duration::from_secs(30), "{time:?} for what a person decided");
}

/// C-38: nothing is sent after its deadline because its reconciler says that it did not happen.
#[test]
fn a_reconciler_starts_nothing_after_the_deadline() {
    let (house, wire) = house(by_hand(KEEP));
    wire.knows(0);
    let input = spec("POST", "unknown,200", r#""settle_ms":60000,"deadline_ms":5000"#);
    let id = house.start("a", "sends", &input);
    house.work_through();
    assert!(house.row(&id).standing.is_terminal());
    let late: Vec<_> = wire.sent().iter().map(|sent| sent.timeout).collect();
    assert_eq!(late.len(), 1, "sent a minute after its deadline, with these times: {late:?}");
    assert_eq!(kind(&house, &id), "NotPerformed");
}

/// D5, I-2: a reconciler is asked about the key that the request was sent with, also if the guest
/// chose it itself. With another, the peer knows nothing, "did not happen" is believed, and it is
/// done twice.
#[test]
fn a_reconciler_is_asked_about_the_key_that_was_sent() {
    let (house, wire) = house(by_hand(KEEP));
    let own = r#""settle_ms":60000,"headers":[["Idempotency-Key","order-7"]]"#;
    house.start("a", "sends", &spec("POST", "unknown", own));
    work(&house);
    let asked = wire.sent().last().unwrap().request.url.clone();
    assert!(asked.ends_with("/lookup/order-7"), "{asked}");
}

/// D1, C-40: the end of an execution with very many unresolved effects fits into batches of the
/// store, whose default bound is five times this one.
#[test]
fn the_end_of_very_many_unresolved_effects_fits_into_batches() {
    let (mut house, wire) = house(by_hand(KEEP));
    const WRITES_MAX: usize = 20_000;
    house.bounds = Bounds { batch_writes_max: WRITES_MAX, ..Bounds::DEFAULT };
    house.reopen();
    let specs = vec![spec("POST", "unknown", r#""hold":true"#); WRITES_MAX + 1];
    let id = house.start("a", "sends_at_once", &format!("[{}]", specs.join(",")));
    house.work_through();
    assert_eq!(wire.count(), specs.len());
    let cancelled = house.wait(house.engine().cancel(&id, Attribution::because("enough")));
    assert_eq!(*house.told.trouble.lock().unwrap(), [""; 0], "{cancelled:?}");
    house.work_through();
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Indeterminate);
}

/// A person and a reconciler at once: what the person said counts, at the very moment at which the
/// question was to be asked, and the reconciler's answer about the attempt before does not.
#[test]
fn a_person_is_quicker_than_a_reconciler() {
    let processed = |count: u32| {
        let body = format!("{{\"processed\":{count}}}").into();
        End::Answered(Response { body, ..answer(200) })
    };
    for parking in [KEEP, Parking::Drop] {
        for crash in [false, true] {
            let (mut house, wire) = house(by_hand(parking));
            let id = house.start("a", "sends", &spec("POST", "unknown,open", r#""settle_ms":1"#));
            work(&house);
            assert_eq!((wire.count(), wire.open()), (2, 1), "the reconciler asks the peer");
            resolve(&house, &id, 0, Resolution::RunAgain);
            work(&house);
            assert_eq!((wire.count(), wire.open()), (3, 2), "it runs again");
            wire.end(processed(1));
            house.engine().fire_again();
            work(&house);
            assert!(!house.row(&id).standing.is_terminal(), "that was about another attempt");
            if crash {
                house.crash();
                wire.cut();
                work(&house);
                // The question about the second attempt.
                wire.end(processed(1));
            } else {
                wire.end(answered(201));
            }
            house.work_through();
            let expected = if crash { "200" } else { "201" };
            assert!(returned(&house.ending(&id)).contains(expected));
            let posts = wire.sent().iter().filter(|sent| sent.request.method == "POST").count();
            assert_eq!(posts, 2);
            nothing_is_left(&house);
        }
    }
}

/// An answer about the first attempt is not taken for one about the second, whose outcome is
/// unknown too.
#[test]
fn an_answer_about_another_attempt_is_none() {
    let (house, wire) = house(by_hand(KEEP));
    let id = house.start("a", "sends", &spec("POST", "unknown", r#""settle_ms":1"#));
    work(&house);
    resolve(&house, &id, 0, Resolution::RunAgain);
    work(&house);
    assert_eq!((wire.count(), wire.open()), (4, 2), "both attempts are asked about");
    let body = "{\"processed\":1}";
    wire.end(End::Answered(Response { body: body.into(), ..answer(200) }));
    work(&house);
    assert!(!house.row(&id).standing.is_terminal(), "that was about the first attempt");
    wire.end(End::Answered(Response { body: body.into(), ..answer(200) }));
    house.work_through();
    assert!(returned(&house.ending(&id)).contains("200"));
    nothing_is_left(&house);
}

/// A caller that ends while its reconciler is being asked: the answer is dropped, and nothing is
/// left of either.
#[test]
fn an_answer_to_nobody() {
    let (house, wire) = house(by_hand(Parking::Drop));
    let id = house.start("a", "sends", &spec("POST", "unknown", r#""settle_ms":1"#));
    work(&house);
    assert_eq!(wire.open(), 1);
    house.cancel(&id);
    work(&house);
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Indeterminate);
    wire.end(answered(500));
    house.work_through();
    nothing_is_left(&house);
}

/// Timers that are told again and again, and guests that are woken for nothing, send nothing twice,
/// ask nothing twice, and leave nothing.
#[test]
fn what_is_told_twice_happens_once() {
    for room in [1, 1_024] {
        let options = Options { effects_in_flight_max: room, ..by_hand(Parking::Drop) };
        let (house, wire) = house(options);
        wire.knows(1);
        let input = format!(
            "[{},{},{}]",
            spec("POST", "unsent,429,200", ""),
            spec("GET", "unknown,503,200", ""),
            spec("POST", "unknown", r#""settle_ms":1000"#),
        );
        let id = house.start("a", "sends_at_once", &input);
        for _ in 0..200 {
            house.engine().fire_again();
            house.engine().fire_due().unwrap();
            house.engine().fire_again();
            work(&house);
            house.engine().nudge(&id);
            let Some(due) = house.engine().next_due() else { break };
            house.move_clock_to(due);
        }
        house.work_through();
        let json = returned(&house.ending(&id));
        assert_eq!(json.matches("\"status\":200").count(), 3, "{json}");
        let sent = wire.sent();
        let count =
            |path: &str| sent.iter().filter(|sent| sent.request.url.ends_with(path)).count();
        assert_eq!(
            (count("unsent,429,200"), count("unknown,503,200"), count("/unknown")),
            (3, 3, 1)
        );
        nothing_is_left(&house);
    }
}

/// D5: the clock stands still while a reconciler is asked for the second time and says that the
/// request did not happen. The next attempt is due at the moment at which the question was, so both
/// have the same row; and after a death in between the answer is found when the timer fires again.
#[test]
fn a_question_and_the_next_attempt_are_due_at_one_moment() {
    let without_time = |house: &House| house.work_until(house.clock.now());
    for commits in 1.. {
        let (mut house, wire) = house(by_hand(Parking::Drop));
        wire.knows(0);
        let id = house.start("a", "sends", &spec("POST", "unknown,201", r#""settle_ms":1000"#));
        without_time(&house);
        house.move_clock_to(house.engine().next_due().unwrap());
        house.disk.dies_after(commits);
        without_time(&house);
        // A commit may still be on its way to the disk.
        house.settle();
        let died = house.disk.is_dead();
        if died {
            house.crash();
            // The process may have seen that its disk died.
            house.told.trouble.lock().unwrap().clear();
            // Time passes only for a request of the reconciler that was lost.
            house.work_through();
        }
        house.disk.revive();
        assert!(returned(&house.ending(&id)).contains("201"), "death after {commits} commits");
        nothing_is_left(&house);
        if !died {
            break;
        }
    }
}

/// Room for one request serves all, in whatever state they are, and cancels on the way leave no
/// room taken.
#[test]
fn room_for_one_serves_all() {
    let (mut house, wire) = house(Options { effects_in_flight_max: 1, ..by_hand(KEEP) });
    let start = |house: &House, n: u32| {
        let path = ["200", "unsent,200", "429,unknown", "open"][n as usize % 4];
        house.start(&n.to_string(), "sends", &spec("POST", path, r#""backoff_ms":10"#))
    };
    let ids: Vec<_> = (0..24).map(|n| start(&house, n)).collect();
    for (round, id) in ids.iter().enumerate().skip(1).step_by(5) {
        work(&house);
        assert!(wire.open() <= 1 && house.engine().readings().effects_in_flight <= 1);
        // Some are over by then: which, depends on who found room.
        let _ = house.wait(house.engine().cancel(id, Attribution::because("enough")));
        if round % 2 == 0 {
            wire.end(answered(200));
        }
        if round == 11 {
            house.crash();
            wire.cut();
        }
    }
    for _ in 0..100 {
        house
            .work_until(Timestamp::from_micros(house.clock.now().as_micros() + 1_000_000).unwrap());
        wire.end(answered(200));
    }
    house.work_through();
    for id in &ids {
        house.ending(id);
    }
    nothing_is_left(&house);
}

/// A sender that drops an attempt without a report: its outcome is unknown, and its permit is free.
#[test]
fn a_sender_that_says_nothing_keeps_no_room() {
    let (house, wire) = house(Options { effects_in_flight_max: 1, ..by_hand(KEEP) });
    let id = house.start("a", "sends", &spec("POST", "open", ""));
    let next = house.start("b", "sends", &spec("POST", "200", ""));
    work(&house);
    assert_eq!((wire.open(), wire.count()), (1, 1));
    wire.cut();
    house.work_through();
    assert!(returned(&house.ending(&id)).contains("Indeterminate"));
    assert!(returned(&house.ending(&next)).contains("200"));
    nothing_is_left(&house);
}

/// A stop with requests that wait for room: they have not begun, and the next engine sends them.
#[test]
fn a_stop_leaves_what_waits_for_room_to_the_next_engine() {
    let options = Options { workers: 1, effects_in_flight_max: 1, ..Options::default() };
    let options = Options { drain_max: Micros::from_millis(1), ..options };
    let (mut house, wire) = house(options);
    wire.get_stuck(true);
    let start = |n: u32| {
        let request = house.request(&n.to_string(), "sends", &spec("POST", "200", ""));
        house.wait_for_disk(house.engine().start(request)).unwrap().execution_id
    };
    let ids: Vec<_> = (0..5).map(start).collect();
    while wire.open() == 0 {
        thread::yield_now();
    }
    assert_eq!(wire.open(), 1);
    wire.get_stuck(false);
    house.reopen();
    let ends: Vec<_> = ids
        .iter()
        .map(|id| returned(&house.wait_for_disk(house.engine().outcome(id)).unwrap().unwrap()))
        .collect();
    let unknown = ends.iter().filter(|end| end.contains("Indeterminate")).count();
    assert_eq!((unknown, wire.count()), (1, 4), "{ends:?}");
}

/// A sender that is slow to take a request, on whatever thread hands it over.
struct Slow {
    entered: mpsc::Sender<ThreadId>,
    goes_on: Mutex<mpsc::Receiver<()>>,
    took: Arc<AtomicBool>,
}

impl Sender for Slow {
    fn send(&self, _attempt: Attempt, _report: Report) {
        let _ = self.entered.send(thread::current().id());
        let _ = self.goes_on.lock().unwrap().recv();
        self.took.store(true, Ordering::SeqCst);
    }
}

/// An engine that is dropped while its store's thread hands over a request: the store is closed by
/// another thread, because a thread cannot wait for itself.
#[test]
fn the_stores_own_thread_does_not_close_the_store() {
    // Of all threads: other tests run in this process, too.
    let panics: Arc<Mutex<Vec<(ThreadId, String)>>> = Arc::default();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new({
        let panics = panics.clone();
        move |info| {
            panics.lock().unwrap().push((thread::current().id(), info.to_string()));
            before(info);
        }
    }));
    let (entered, enters) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (mut house, _) = house(by_hand(KEEP));
    let took = Arc::<AtomicBool>::default();
    house.http = Arc::new(Slow { entered, goes_on: Mutex::new(goes_on), took: took.clone() });
    house.reopen();
    let of_one_store = Arc::strong_count(&house.disk);
    house.disk.hold();
    {
        let start = house.engine().start(house.request("a", "sends", &spec("POST", "200", "")));
        let mut start = std::pin::pin!(start);
        while house.engine().readings().effects_leaving == 0 {
            let waker = std::task::Waker::noop();
            let _ = start.as_mut().poll(&mut std::task::Context::from_waker(waker));
            house.engine().step();
        }
    }
    house.disk.release();
    let stores_own = enters.recv().unwrap();
    // The engine stops meanwhile, and waits for the threads that are still in it.
    let goes = thread::spawn(move || go_on.send(()).unwrap());
    house.reopen();
    assert!(took.load(Ordering::SeqCst), "the engine is gone, and the thread is still in it");
    goes.join().unwrap();
    house.start("b", "echo", "1");
    // The first store is closed when its thread has let go of the disk.
    while Arc::strong_count(&house.disk) > of_one_store {
        thread::yield_now();
    }
    let mut panics = std::mem::take(&mut *panics.lock().unwrap());
    panics.retain(|(thread, _)| *thread == stores_own);
    assert_eq!(panics, []);
}
