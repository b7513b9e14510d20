//! What the journals of a tree say of each other when everything is over: callers and calls,
//! attempts and those before them.

use std::collections::BTreeMap;

use indelible_journal::{
    Attempts, Ending, ErrorKind, Event, ExecutionId, Failure, Journal, JournalKey, Outcome,
    PromiseId, Record, SignalName,
};

type Tree = BTreeMap<JournalKey, (Journal, Vec<Record>)>;

/// Every journal is legal and over, and they agree.
#[track_caller]
pub fn agree(tree: &[(JournalKey, Vec<Record>)]) {
    let tree: Tree = tree
        .iter()
        .map(|(key, records)| {
            let journal = Journal::recover(key.clone(), records.clone()).unwrap();
            (key.clone(), (journal, records.clone()))
        })
        .collect();
    for (key, (journal, records)) in &tree {
        let status = journal.status().unwrap();
        assert!(status.is_terminal(), "{key} is {status}");
        let in_flight: Vec<_> = journal
            .open_invokes()
            .filter(|open| open.phase != indelible_journal::InvokePhase::Scheduled)
            .collect();
        assert!(in_flight.is_empty(), "{key} ended with {in_flight:?}");
        calls_agree(&tree, key, records);
        cancel_is_heeded(&tree, key, records);
        caller_agrees(&tree, key, journal);
        attempts_agree(&tree, key, journal);
    }
}

/// What a caller's journal says of its calls, their journals say, too.
#[track_caller]
fn calls_agree(tree: &Tree, key: &JournalKey, records: &[Record]) {
    for (place, record) in records.iter().enumerate() {
        let called = |promise: &PromiseId, attempt| {
            let execution = ExecutionId::new(promise.clone()).unwrap();
            JournalKey::new(execution, key.attempts().called(attempt)).unwrap()
        };
        match &record.event {
            Event::InvokeStarted { promise_id, attempt } => {
                let child = called(promise_id, *attempt);
                let next = records.get(place + 1).map(|record| &record.event);
                assert!(
                    tree.contains_key(&child) || never_began(next),
                    "{key} started {child}, which does not exist"
                );
            }
            Event::InvokeCompleted { promise_id, attempt, result } => {
                let child = called(promise_id, *attempt);
                let Some((journal, _)) = tree.get(&child) else { continue };
                let ending = journal.ending().map(outcome);
                assert_eq!(ending.as_ref(), Some(result), "{key} and {child}");
            }
            Event::InvokeRetrying { promise_id, failed_attempt, error, .. } => {
                let child = called(promise_id, *failed_attempt);
                let ending = tree.get(&child).and_then(|(journal, _)| journal.ending());
                assert_eq!(ending, Some(&Ending::Failed(error.clone())), "{key} and {child}");
            }
            _ => {}
        }
    }
}

/// What was not started when a cancel was asked for does not begin; what is called from then on
/// does (C-22).
#[track_caller]
fn cancel_is_heeded(tree: &Tree, key: &JournalKey, records: &[Record]) {
    let asked = |record: &Record| matches!(record.event, Event::CancelRequested { .. });
    let Some(asked_at) = records.iter().position(asked) else { return };
    for record in &records[asked_at..] {
        let Event::InvokeStarted { promise_id, attempt } = &record.event else { continue };
        if *attempt != indelible_journal::Attempt::FIRST {
            continue;
        }
        let before = records[..asked_at].iter().any(|record| {
            matches!(&record.event, Event::InvokeScheduled { promise_id: scheduled, .. }
                if scheduled == promise_id)
        });
        let execution = ExecutionId::new(promise_id.clone()).unwrap();
        let child = JournalKey::new(execution, key.attempts().called(*attempt)).unwrap();
        assert!(!(before && tree.contains_key(&child)), "{child} began after the cancel of {key}");
    }
}

/// A cancel reaches what was in flight in the same instant (C-22), whatever happened to the
/// process meanwhile. Not so where time passes before the engine has done what there was to do.
#[track_caller]
pub fn cancels_arrive(tree: &[(JournalKey, Vec<Record>)]) {
    let find = |key: &JournalKey| tree.iter().find(|(other, _)| other == key);
    let asked = |record: &Record| matches!(record.event, Event::CancelRequested { .. });
    for (key, records) in tree {
        let Some(asked_at) = records.iter().position(asked) else { continue };
        let mut in_flight = BTreeMap::new();
        for record in &records[..asked_at] {
            match &record.event {
                Event::InvokeStarted { promise_id, attempt } => {
                    in_flight.insert(promise_id, Some(*attempt));
                }
                Event::InvokeRetrying { promise_id, failed_attempt, .. } => {
                    in_flight.insert(promise_id, failed_attempt.next());
                }
                Event::InvokeCompleted { promise_id, .. } => {
                    in_flight.remove(promise_id);
                }
                _ => {}
            }
        }
        for (promise, attempt) in in_flight {
            let execution = ExecutionId::new(promise.clone()).unwrap();
            let attempts = key.attempts().called(attempt.unwrap());
            let child = JournalKey::new(execution, attempts).unwrap();
            let (_, called) = find(&child).expect("what was started is there");
            let over_at = called.last().unwrap().timestamp;
            assert!(
                called.iter().any(asked) || over_at <= records[asked_at].timestamp,
                "the cancel of {key} never came to {child}"
            );
        }
    }
}

/// Whether a call was over in the moment in which it was written as started.
fn never_began(next: Option<&Event>) -> bool {
    matches!(next, Some(Event::InvokeCompleted { result: Outcome::Err(failure), .. })
        if matches!(failure.kind, ErrorKind::Cancelled | ErrorKind::NotPerformed))
}

/// A call has a caller that started it, and that ended after it.
#[track_caller]
fn caller_agrees(tree: &Tree, key: &JournalKey, journal: &Journal) {
    let Some(parent) = key.execution_id().parent() else { return };
    let attempts = key.attempts().as_slice();
    let attempts = Attempts::new(&attempts[..attempts.len() - 1]).unwrap();
    let caller = JournalKey::new(parent, attempts).unwrap();
    let (calling, records) = tree.get(&caller).expect("a call has a caller");
    let own = key.attempts().own();
    let starts = records
        .iter()
        .filter(|record| {
            matches!(&record.event, Event::InvokeStarted { promise_id, attempt }
                if promise_id == key.execution_id().as_promise() && *attempt == own)
        })
        .count();
    assert_eq!(starts, 1, "{caller} started {key} so often");
    assert!(
        journal.last_timestamp() <= calling.last_timestamp(),
        "{key} went on when {caller} was over"
    );
}

/// An attempt follows one that failed, and has its signals and its cancel (C-32).
#[track_caller]
fn attempts_agree(tree: &Tree, key: &JournalKey, journal: &Journal) {
    let Some(next_key) = key.next_attempt() else { return };
    if let Some((next, _)) = tree.get(&next_key) {
        assert!(matches!(journal.ending(), Some(Ending::Failed(_))), "{next_key} has no reason");
        let before: Vec<(&SignalName, _)> = journal.deliveries().collect();
        let after: Vec<_> = next.deliveries().take(before.len()).collect();
        assert_eq!(before, after, "{next_key} has not the signals of {key}");
        let asked = |journal: &Journal| journal.cancel_requested().map(|(_, why)| why.to_owned());
        if asked(journal).is_some() {
            assert_eq!(asked(journal), asked(next), "{next_key} has not the cancel of {key}");
        }
    }
    let before = key.attempts().own().get() - 1;
    if let Some(before) = indelible_journal::Attempt::new(before) {
        let attempts = key.attempts().as_slice();
        let mut attempts = attempts.to_vec();
        *attempts.last_mut().unwrap() = before;
        let attempts = Attempts::new(&attempts).unwrap();
        let before = JournalKey::new(key.execution_id().clone(), attempts).unwrap();
        assert!(tree.contains_key(&before), "{key} without {before}");
    }
}

/// What a caller gets when its call ended like this.
fn outcome(ending: &Ending) -> Outcome {
    match ending {
        Ending::Completed(payload) => Outcome::Ok(payload.clone()),
        Ending::Failed(failure) => (**failure).clone().into(),
        Ending::Cancelled(reason) => Failure::new(ErrorKind::Cancelled, reason).into(),
    }
}
