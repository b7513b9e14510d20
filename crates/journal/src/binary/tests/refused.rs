//! What `encode` refuses: whatever would come back different, or not at all.

use super::*;
use crate::ids::JoinSetId;
use crate::names::SignalName;
use crate::time::Micros;

fn child() -> ExecutionId {
    ExecutionId::new(root().child(3)).unwrap()
}

/// What writing one event of `execution_id` at time 10 says is wrong with it.
fn unstorable(execution_id: &ExecutionId, event: Event) -> &'static str {
    let record = Record { sequence: Sequence::new(4), timestamp: time(10), event };
    match encode_records(execution_id, &[record]) {
        Err(EncodeError::Unstorable { sequence, what }) if sequence == Sequence::new(4) => what,
        other => panic!("expected a refusal: {other:?}"),
    }
}

/// A batch begins somewhere and has no holes.
#[test]
fn places() {
    assert_eq!(encode(&root(), &[]), Err(EncodeError::Empty));
    let mut batch = records(5, [Event::ExecutionResumed, Event::ExecutionResumed]);
    for found in [0, 4, 5, 7].map(Sequence::new) {
        batch[1].sequence = found;
        let refused = EncodeError::NotConsecutive { after: Sequence::new(5), found };
        assert_eq!(encode_records(&root(), &batch), Err(refused));
    }
    // After the last number there is comes none, and not the first.
    batch[0].sequence = Sequence::new(u64::MAX);
    batch[1].sequence = Sequence::ZERO;
    assert!(encode_records(&root(), &batch).is_err());
}

/// C-19: time does not go back within a batch.
#[test]
fn time_going_back() {
    let mut batch = records(0, [Event::ExecutionResumed, Event::ExecutionResumed]);
    batch[1].timestamp = time(batch[0].timestamp.as_micros() - 1);
    assert!(matches!(
        encode_records(&root(), &batch),
        Err(EncodeError::Unstorable { sequence, .. }) if sequence == Sequence::new(1)
    ));
}

/// C-19: times that are left out are those that would be read.
#[test]
fn times_that_do_not_follow() {
    let promise_id = root().child(0);
    let recorded = Event::TimeRecorded { promise_id: promise_id.clone(), time: time(11) };
    assert_eq!(unstorable(&root(), recorded), "the time it recorded is not its own (C-19)");
    let duration = Micros::new(5);
    let timer = Event::TimerScheduled { promise_id, duration, fire_at: time(16) };
    assert_eq!(unstorable(&root(), timer), "its timer does not fire after its duration");
}

/// C-32: ids of other executions cannot be said.
#[test]
fn ids_from_elsewhere() {
    let not_child = "it names a promise that is not the execution's child";
    for promise_id in [root().as_promise().clone(), child().child(0)] {
        let fired = Event::TimerFired { promise_id: promise_id.clone() };
        assert_eq!(unstorable(&root(), fired), not_child);
        let created = Event::JoinSetCreated { join_set_id: JoinSetId::at(promise_id.clone()) };
        assert_eq!(unstorable(&root(), created), not_child);
        let name = SignalName::new("go").unwrap();
        let waiting_on = WaitSet::of_numbers(&root(), vec![0]).unwrap();
        let kind = AwaitKind::Signal { name, promise_id };
        assert_eq!(unstorable(&root(), Event::ExecutionAwaiting { waiting_on, kind }), not_child);
    }
    let waiting_on = WaitSet::of_numbers(&child(), vec![0]).unwrap();
    let awaiting = Event::ExecutionAwaiting { waiting_on, kind: AwaitKind::Single };
    assert_eq!(unstorable(&root(), awaiting), "it waits on promises of another execution (C-26)");
}

/// C-32: an ExecutionStarted says what its execution's id says.
#[test]
fn a_start_of_something_else() {
    let (own, event) = golden::started();
    let Event::ExecutionStarted(started) = event else { panic!("{event:?}") };
    assert_eq!(
        unstorable(&child(), Event::ExecutionStarted(started.clone())),
        "its parent is not the execution's caller (C-32)"
    );
    let mut deeper = started;
    deeper.attempts = deeper.attempts.called(Attempt::FIRST);
    assert_eq!(
        unstorable(&own, Event::ExecutionStarted(deeper)),
        "it has not one attempt for each call down to it (C-32)"
    );
}

fn awaiting(members: usize) -> Event {
    let members = u32::try_from(members).unwrap();
    let waiting_on = WaitSet::of_numbers(&root(), (0..members).collect()).unwrap();
    Event::ExecutionAwaiting { waiting_on, kind: AwaitKind::Any }
}

/// J-90: the members that a batch waits on are bounded in all, on both sides alike, and cutting
/// a list of entries into batches keeps each within.
#[test]
fn members_of_wait_sets() {
    check(&root(), &records(0, [awaiting(WAIT_MEMBERS_MAX - 1), awaiting(1)]));
    let over = records(0, [awaiting(WAIT_MEMBERS_MAX - 1), Event::ExecutionResumed, awaiting(2)]);
    let sequence = Sequence::new(2);
    assert_eq!(encode_records(&root(), &over), Err(EncodeError::TooManyWaiting { sequence }));

    let entries: Vec<Entry> = over.iter().cloned().map(Entry::accepted).collect();
    let lengths: Vec<usize> = batches(&entries).map(<[Entry]>::len).collect();
    assert_eq!(lengths, [2, 1]);
    let rows = batches(&entries).map(|batch| encode(&root(), batch).unwrap());
    let read = rows.flat_map(|row| decode(&root(), row.into()).unwrap()).collect::<Vec<_>>();
    assert_eq!(read, over);

    // One that no row can hold is refused; it does not stop the cutting.
    let events = [awaiting(WAIT_MEMBERS_MAX + 1), Event::ExecutionResumed];
    let entries: Vec<Entry> = records(0, events).into_iter().map(Entry::accepted).collect();
    let lengths: Vec<usize> = batches(&entries).map(<[Entry]>::len).collect();
    assert_eq!(lengths, [1, 1]);
    assert_eq!(batches(&[]).count(), 0);
}

/// A refused batch leaves nothing behind in the buffer.
#[test]
fn nothing_is_left_behind() {
    let batch =
        records(0, [Event::ExecutionResumed, Event::TimerFired { promise_id: child().child(0) }]);
    let entries: Vec<Entry> = batch.into_iter().map(Entry::accepted).collect();
    let mut out = b"before".to_vec();
    assert!(encode_into(&mut out, &root(), &entries).is_err());
    assert_eq!(out, b"before");
}
