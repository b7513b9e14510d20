//! What happens to a tree, by value: an input in, what follows out. No clock, no store, no thread; what
//! is stored is a map. The hard cases are here one by one; `crates/sim` mixes them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::task::Poll;

use indelible_execution::guest::{Stop, WaitRequest, WaitResult};
use indelible_execution::input::{
    Cancel, CommandRefusal, EffectReport, Reply, Request, Signal, StartReply,
};
use indelible_execution::output::{Event, ExecutionEnd, Notice, Outgoing};
use indelible_execution::{Input, Tree};
use indelible_http::End;
use indelible_journal::{
    Attempt, Ending, ErrorKind, Idempotency, InvokeKind, JournalKey, Micros, OnUnknown, Outcome,
    Payload, RetryPolicy, SignalName,
};
use indelible_machine::{CallerId, Guard, Machine as _, TimerChange};
use indelible_records::{EXECUTIONS, JOURNALS, OPERATIONS, QUEUE, queue};

use crate::support::{World, answer, request, returns};

/// D1, V-29: a start is one commit with its record, its journal and its place in the queue, under the
/// condition that there is no record; its first run follows at once, and the reply with the commit.
#[test]
fn a_start_is_one_commit() {
    let mut world = World::new();
    let mut tree = Tree::default();
    tree.handle(&world.context(), Input::Asked(CallerId(1), world.start("a")));
    let run = tree.next(&world.context()).unwrap();
    assert!(run.begins.is_some_and(|begins| begins.function == "order" && !begins.replays));
    let changes = tree.changes().unwrap();
    let rows = changes.rows.unwrap();
    for table in [OPERATIONS, EXECUTIONS, JOURNALS, QUEUE] {
        assert!(rows.writes().iter().any(|write| write.table == table), "{}", table.name());
    }
    assert!(rows.conditions().iter().any(|condition| condition.table == OPERATIONS));
    assert!(world.apply(&rows));
    let [(CallerId(1), Reply::Begun(StartReply::New(_)))] = &changes.replies[..] else { panic!() };
    assert!(tree.changes().is_none(), "nothing else follows");
}

/// V-11: a second start of the tree in the same turn looks again; in another tree, over the same record,
/// the store refuses the second commit.
#[test]
fn starts_that_race() {
    let mut world = World::new();
    let mut tree = Tree::default();
    for asker in [1, 2] {
        tree.handle(&world.context(), Input::Asked(CallerId(asker), world.start("a")));
    }
    let changes = tree.changes().unwrap();
    let replies: Vec<_> = changes.replies.iter().map(|(asker, reply)| (asker.0, reply)).collect();
    let [(1, Reply::Begun(StartReply::New(_))), (2, Reply::Begun(StartReply::Raced))] =
        &replies[..]
    else {
        panic!("{replies:?}")
    };
    // As after a redeploy: another root, the same operation.
    let mut other = Tree::default();
    let start = world.start_of_version("a", 2);
    other.handle(&world.context(), Input::Asked(CallerId(3), start));
    assert!(world.apply(&changes.rows.unwrap()));
    assert!(!world.apply(&other.changes().unwrap().rows.unwrap()), "the record is there");
}

/// V-11: a start that comes when the first one is stored, and forgotten because it sleeps, looks again
/// and changes nothing: nothing of what is stored is begun anew.
#[test]
fn a_late_start_changes_nothing() {
    let mut world = World::new();
    let (mut tree, key) = running(&world);
    let timer = tree.guest(&world.context(), &key).start_timer(Micros::from_secs(60)).unwrap();
    assert!(
        tree.guest(&world.context(), &key).wait(&WaitRequest::One(timer)).unwrap().is_pending()
    );
    tree.handle(&world.context(), Input::Stopped(key, Stop::Waiting { kept: false }));
    world.take(&mut tree);
    assert!(tree.is_idle());
    tree.handle(&world.context(), Input::Asked(CallerId(2), world.start("a")));
    assert!(tree.next(&world.context()).is_none());
    let changes = tree.changes().unwrap();
    assert!(changes.rows.unwrap().writes().is_empty());
    assert!(matches!(&changes.replies[..], [(CallerId(2), Reply::Begun(StartReply::Raced))]));
}

/// D1, C-3: more than a commit has room for is taken from a join set: the tree says so before anything
/// else is decided, and the record of the operation ends with its root.
#[test]
fn more_than_one_commit() {
    let mut world = World::new();
    let (mut tree, key) = running(&world);
    let large = Payload::json(format!("\"{}\"", "x".repeat(3 << 20)));
    let guest = |tree: &mut Tree, world: &World, want: &WaitRequest| {
        tree.guest(&world.context(), &key).wait(want).unwrap()
    };
    let set = tree.guest(&world.context(), &key).create_join_set().unwrap();
    let call = tree.guest(&world.context(), &key).call("child", Payload::json("1"));
    let child = call.unwrap().unwrap();
    tree.guest(&world.context(), &key).submit(set, child).unwrap();
    assert!(guest(&mut tree, &world, &WaitRequest::Next(set)).is_pending());
    tree.handle(&world.context(), Input::Stopped(key.clone(), Stop::Waiting { kept: true }));
    let called = tree.next(&world.context()).unwrap().key;
    tree.handle(&world.context(), Input::Stopped(called, Stop::Returned(Ok(large))));
    assert_eq!(tree.next(&world.context()).unwrap().key, key);
    assert!(guest(&mut tree, &world, &WaitRequest::Next(set)).is_ready());
    assert!(tree.is_full(), "it is committed before anything else is decided");
    world.take(&mut tree);
    tree.handle(&world.context(), Input::Stopped(key, returns("1")));
    world.take(&mut tree);
    assert!(!world.record("a").is_in_progress());
}

/// A tree with a running guest, and its execution.
fn running(world: &World) -> (Tree, JournalKey) {
    let mut tree = Tree::default();
    tree.handle(&world.context(), Input::Asked(CallerId(1), world.start("a")));
    let run = tree.next(&world.context()).unwrap();
    (tree, run.key)
}

/// The guest sends a request, and waits for it. The attempt is on its way.
fn sends(world: &World, tree: &mut Tree, key: &JournalKey, policy: RetryPolicy) -> u32 {
    let child = tree.guest(&world.context(), key).http(&request(), Ok(policy)).unwrap();
    let got = tree.guest(&world.context(), key).wait(&WaitRequest::One(child)).unwrap();
    assert!(got.is_pending());
    tree.handle(&world.context(), Input::Stopped(key.clone(), Stop::Waiting { kept: true }));
    assert!(tree.next(&world.context()).is_none(), "there is no guest to run");
    let notices = tree.notices();
    let [Notice::RoomWanted(place)] = &notices[..] else { panic!("it asks for room") };
    assert_eq!((&place.key, place.child, place.attempt), (key, child, Attempt::FIRST));
    let started = Input::StartEffect(key.clone(), child, Attempt::FIRST, Guard::NOTHING);
    tree.handle(&world.context(), started);
    child
}

/// Whether observers are told of this end.
fn has_ended(events: &[Event], key: &JournalKey, ending: &Ending) -> bool {
    let is_it = |end: &ExecutionEnd| end.key == *key && end.ending == *ending;
    events.iter().any(|event| matches!(event, Event::Ended(end) if is_it(end)))
}

fn not_idem() -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    policy.class.idempotency = Idempotency::NonIdem;
    policy.on_unknown = OnUnknown::Indeterminate;
    policy
}

fn ended(key: &JournalKey, child: u32, end: End) -> Input {
    let attempt = Attempt::FIRST;
    Input::EffectReport(Box::new(EffectReport { key: key.clone(), run: 0, child, attempt, end }))
}

/// D2: a request is among what leaves with the commit that says that it was started, and not before.
#[test]
fn what_leaves_waits_for_its_commit() {
    let mut world = World::new();
    let (mut tree, key) = running(&world);
    let child = sends(&world, &mut tree, &key, not_idem());
    let changes = tree.changes().unwrap();
    let [Outgoing::Send(sending)] = &changes.outgoing[..] else { panic!() };
    assert_eq!((&sending.key, sending.child, sending.attempt), (&key, child, Attempt::FIRST));
    assert!(world.apply(&changes.rows.unwrap()));
    let journal = world.journal(&key);
    assert_eq!(journal.open_invokes().next().unwrap().kind, InvokeKind::Http);
    assert!(tree.changes().is_none());
}

fn cancel(key: &JournalKey) -> Input {
    let (execution, reason) = (key.execution_id().clone(), "enough".to_owned());
    let cancel = Cancel { execution, reason, actor: None, under: None };
    Input::Asked(CallerId(9), Request::Cancel(cancel))
}

/// J-80, C-22, C-40: an answer that arrives while its execution is being cancelled is written down, and
/// nothing of it is lost; the guest is told of the cancel.
#[test]
fn an_answer_during_a_cancel() {
    let mut world = World::new();
    let (mut tree, key) = running(&world);
    let child = sends(&world, &mut tree, &key, not_idem());
    world.take(&mut tree);
    tree.handle(&world.context(), cancel(&key));
    tree.handle(&world.context(), ended(&key, child, answer(200)));
    let run = tree.next(&world.context()).unwrap();
    assert_eq!((&run.key, run.begins), (&key, None), "its guest goes on");
    let got = tree.guest(&world.context(), &key).wait(&WaitRequest::One(child)).unwrap();
    let Poll::Ready(WaitResult::Cancelled(reason)) = got else { panic!("{got:?}") };
    assert_eq!(reason, "enough");
    tree.handle(&world.context(), Input::Stopped(key.clone(), returns("1")));
    let events = world.take(&mut tree);
    assert!(has_ended(&events, &key, &Ending::Cancelled("enough".to_owned())), "{events:?}");
    let journal = world.journal(&key);
    let outcome = journal.result(&key.execution_id().child(child));
    assert!(matches!(outcome, Some(Outcome::Ok(_))), "{outcome:?}");
}

/// V-38, C-24: an end that comes before the cancel stands; a cancel that comes before the end, and that
/// the guest was not told of, does not undo it either.
#[test]
fn a_cancel_against_an_end() {
    for cancel_first in [false, true] {
        let world = World::new();
        let (mut tree, key) = running(&world);
        let end = Input::Stopped(key.clone(), returns("1"));
        let inputs = if cancel_first { [cancel(&key), end] } else { [end, cancel(&key)] };
        for input in inputs {
            tree.handle(&world.context(), input);
        }
        let changes = tree.changes().unwrap();
        let (_, reply) = &changes.replies[1];
        match (cancel_first, reply) {
            (true, Reply::Done(Ok(_))) | (false, Reply::Done(Err(CommandRefusal::Over(_)))) => {}
            (_, reply) => panic!("{reply:?}"),
        }
        let ending = Ending::Completed(Payload::json("1"));
        assert!(has_ended(&changes.events, &key, &ending), "{:?}", changes.events);
    }
}

/// D5, V-24, C-41: another process started an effect and died, so its outcome is unknown. An `idem`
/// effect is tried again; any other ends as Indeterminate for the guest, and nothing is sent.
#[test]
fn an_unknown_effect() {
    for idem in [true, false] {
        let mut policy = not_idem();
        if idem {
            policy.class.idempotency = Idempotency::Idem;
        }
        let mut world = World::new();
        let (mut tree, key) = running(&world);
        let child = sends(&world, &mut tree, &key, policy);
        world.take(&mut tree);
        // The process dies, and another recovers what the queue says.
        let [queue::Row::Tree(entry)] = &world.queue()[..] else { panic!("it is in the queue") };
        let mut tree = Tree::default();
        tree.handle(&world.context(), Input::Recover(entry.clone(), Guard::NOTHING));
        while tree.next(&world.context()).is_some() {}
        let changes = tree.changes().unwrap();
        let sent = changes.outgoing.iter().filter(|out| !matches!(out, Outgoing::Doubt(_)));
        assert_eq!(sent.count(), 0, "nothing is sent");
        assert_eq!(changes.outgoing.len(), usize::from(!idem), "an operator is told of the doubt");
        let put = changes.timers.iter().filter(|(_, change)| *change == TimerChange::Put).count();
        assert_eq!(put, usize::from(idem), "a next attempt has a time");
        assert!(world.apply(&changes.rows.unwrap()));
        let journal = world.journal(&key);
        match journal.result(&key.execution_id().child(child)) {
            None if idem => {}
            Some(Outcome::Err(failure)) if !idem => {
                assert_eq!(failure.kind, ErrorKind::Indeterminate);
            }
            outcome => panic!("{outcome:?}"),
        }
    }
}

/// D4: an execution whose guest was evicted is forgotten when what it did is stored. Its timer brings it
/// back: the guest begins again over its journal, and goes on behind the sleep.
#[test]
fn a_timer_of_an_evicted_guest() {
    let mut world = World::new();
    let (mut tree, key) = running(&world);
    let sleep = Micros::from_secs(60);
    let timer = tree.guest(&world.context(), &key).start_timer(sleep).unwrap();
    let wait = |tree: &mut Tree, world: &World| {
        tree.guest(&world.context(), &key).wait(&WaitRequest::One(timer)).unwrap()
    };
    assert!(wait(&mut tree, &world).is_pending());
    tree.handle(&world.context(), Input::Stopped(key.clone(), Stop::Waiting { kept: true }));
    world.take(&mut tree);
    assert!(!tree.is_idle(), "its guest is kept");
    tree.handle(&world.context(), Input::Evicted(key.clone()));
    assert!(tree.is_idle(), "nothing of it has to stay");
    let mut tree = Tree::default();
    world.now = world.now.saturating_add(sleep);
    let due = world.timers().remove(0);
    tree.handle(&world.context(), Input::Due(due.clone()));
    let run = tree.next(&world.context()).unwrap();
    assert!(run.begins.is_some_and(|begins| begins.replays), "it runs over what is stored");
    assert_eq!(tree.guest(&world.context(), &key).start_timer(sleep).unwrap(), timer);
    assert!(
        matches!(wait(&mut tree, &world), Poll::Ready(WaitResult::Settled(_))),
        "the sleep is over"
    );
    let changes = tree.changes().unwrap();
    assert!(changes.timers.contains(&(due, TimerChange::Delete)), "{:?}", changes.timers);
    assert!(world.apply(&changes.rows.unwrap()));
}

/// A look at an execution that waits in the store changes nothing, and brings nothing to run.
#[test]
fn a_look_changes_nothing() {
    let mut world = World::new();
    let (mut tree, key) = running(&world);
    let timer = tree.guest(&world.context(), &key).start_timer(Micros::from_secs(60)).unwrap();
    assert!(
        tree.guest(&world.context(), &key).wait(&WaitRequest::One(timer)).unwrap().is_pending()
    );
    tree.handle(&world.context(), Input::Stopped(key.clone(), Stop::Waiting { kept: false }));
    world.take(&mut tree);
    let mut tree = Tree::default();
    let view = Request::View(key.execution_id().clone());
    tree.handle(&world.context(), Input::Asked(CallerId(5), view));
    assert!(!tree.has_work());
    let changes = tree.changes().unwrap();
    assert!(changes.rows.unwrap().writes().is_empty());
    assert!(matches!(&changes.replies[..], [(CallerId(5), Reply::TreeView(Ok(_)))]));
}

/// C-41, D14: an input that comes before the stored queue was read loads the execution, and starts
/// nothing of what the queue stands for; that begins when the queue names the execution, and once.
#[test]
fn a_load_starts_nothing() {
    let mut world = World::new();
    let (mut tree, key) = running(&world);
    let call = tree.guest(&world.context(), &key).call("child", Payload::json("1"));
    let child = call.unwrap().unwrap();
    assert!(
        tree.guest(&world.context(), &key).wait(&WaitRequest::One(child)).unwrap().is_pending()
    );
    world.take(&mut tree);
    // The process dies before the call has begun.
    let [queue::Row::Tree(entry)] = &world.queue()[..] else { panic!("it is in the queue") };
    let mut tree = Tree::default();
    tree.handle(&world.context(), signal(&key));
    assert!(!tree.has_work(), "nothing runs because of a signal that is not waited for");
    world.take(&mut tree);
    assert!(!tree.is_idle(), "it stays until the queue names it");
    for _ in 0..2 {
        tree.handle(&world.context(), Input::Recover(entry.clone(), Guard::NOTHING));
    }
    let called = tree.next(&world.context()).unwrap().key;
    assert_eq!(called.execution_id().as_promise(), &key.execution_id().child(child));
    assert!(tree.next(&world.context()).is_none(), "the call has begun once");
}

/// C-22, J-80: a cancel was stored, and its process died before the call had heard of it. A signal wakes
/// the caller before the queue was read; when the queue names the caller, the cancel reaches the call.
#[test]
fn a_cancel_reaches_calls_after_a_crash() {
    let mut world = World::new();
    let (mut tree, key) = running(&world);
    let call = tree.guest(&world.context(), &key).call("child", Payload::json("1"));
    let child = call.unwrap().unwrap();
    assert!(
        tree.guest(&world.context(), &key).wait(&WaitRequest::One(child)).unwrap().is_pending()
    );
    tree.handle(&world.context(), Input::Stopped(key.clone(), Stop::Waiting { kept: true }));
    let called = tree.next(&world.context()).unwrap().key;
    tree.handle(&world.context(), cancel(&key));
    world.take(&mut tree);
    assert!(world.journal(&called).cancel_requested().is_none());
    let mut tree = Tree::default();
    tree.handle(&world.context(), signal(&key));
    let rows = world.queue();
    for row in rows.into_iter().filter_map(queue::Row::tree) {
        tree.handle(&world.context(), Input::Recover(row, Guard::NOTHING));
    }
    while tree.next(&world.context()).is_some() {}
    world.take(&mut tree);
    assert!(world.journal(&called).cancel_requested().is_some());
}

fn signal(key: &JournalKey) -> Input {
    let (name, payload) = (SignalName::new("go").unwrap(), Payload::json("1"));
    let execution = key.execution_id().clone();
    let signal = Signal { execution, name, payload, actor: None, under: None };
    Input::Asked(CallerId(2), Request::Signal(signal))
}
