//! The journals of a tree must agree when everything is over: parents with children, attempts with
//! the attempts before them.

use std::collections::{BTreeMap, BTreeSet};

use indelible_journal::{
    Attempt, Attempts, Ending, ErrorKind, Event, ExecutionId, Failure, InvokeKind, Journal,
    JournalKey, Outcome, PromiseId, Record, SignalName,
};

type Tree = BTreeMap<JournalKey, (Journal, Vec<Record>)>;

/// Every journal is legal and over, and they agree.
///
/// # Errors
/// What they do not agree about.
pub fn agree(tree: &[(JournalKey, Vec<Record>)]) -> Result<(), String> {
    let mut recovered = Tree::new();
    for (key, records) in tree {
        let journal = Journal::recover(key.clone(), records.clone())
            .map_err(|violation| format!("{key:#} breaks a rule: {violation}"))?;
        recovered.insert(key.clone(), (journal, records.clone()));
    }
    let tree = recovered;
    for (key, (journal, records)) in &tree {
        let status = journal.status().ok_or_else(|| format!("{key:#} is empty"))?;
        ensure!(status.is_terminal(), "{key:#} is {status}");
        let in_flight: Vec<_> = journal
            .open_invokes()
            .filter(|open| open.phase != indelible_journal::InvokePhase::Scheduled)
            .collect();
        ensure!(in_flight.is_empty(), "{key:#} ended with {in_flight:?}");
        calls_agree(&tree, key, records)?;
        cancel_is_heeded(&tree, key, records)?;
        caller_agrees(&tree, key)?;
        attempts_agree(&tree, key, journal)?;
    }
    Ok(())
}

/// The journals of a caller's calls say the same as the caller's journal.
fn calls_agree(tree: &Tree, key: &JournalKey, records: &[Record]) -> Result<(), String> {
    let effects = effects(records);
    for (place, record) in records.iter().enumerate() {
        // Effects have no journal of their own.
        if invoked(&record.event).is_some_and(|promise| effects.contains(promise)) {
            continue;
        }
        let called = |promise: &PromiseId, attempt| callee(key, promise, attempt);
        match &record.event {
            Event::InvokeStarted { promise_id, attempt } => {
                let child = called(promise_id, *attempt);
                let next = records.get(place + 1).map(|record| &record.event);
                ensure!(
                    tree.contains_key(&child) || never_began(next),
                    "{key:#} started {child:#}, which does not exist"
                );
            }
            Event::InvokeCompleted { promise_id, attempt, result } => {
                let child = called(promise_id, *attempt);
                let Some((journal, _)) = tree.get(&child) else { continue };
                let ending = journal.ending().map(outcome);
                ensure!(
                    ending.as_ref() == Some(result),
                    "{child:#} ended with {ending:?}, but {key:#} got {result}"
                );
            }
            Event::InvokeRetrying { promise_id, failed_attempt, error, .. } => {
                let child = called(promise_id, *failed_attempt);
                let ending = tree.get(&child).and_then(|(journal, _)| journal.ending());
                ensure!(
                    ending == Some(&Ending::Failed(error.clone())),
                    "{child:#} ended with {ending:?}, but {key:#} tries again after {error}"
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// The promises that are effects.
fn effects(records: &[Record]) -> BTreeSet<&PromiseId> {
    let effect = |record: &Record| {
        matches!(&record.event, Event::InvokeScheduled { kind: InvokeKind::Http, .. })
    };
    let effects = records.iter().filter(|record| effect(record));
    effects.filter_map(|record| invoked(&record.event)).collect()
}

/// The call or effect that an event is about.
pub(crate) fn invoked(event: &Event) -> Option<&PromiseId> {
    match event {
        Event::InvokeScheduled { promise_id, .. }
        | Event::InvokeStarted { promise_id, .. }
        | Event::InvokeCompleted { promise_id, .. }
        | Event::InvokeRetrying { promise_id, .. } => Some(promise_id),
        _ => None,
    }
}

/// A call that was scheduled and not started before a cancel never begins; a call made after it
/// does (C-22).
fn cancel_is_heeded(tree: &Tree, key: &JournalKey, records: &[Record]) -> Result<(), String> {
    let asked = |record: &Record| matches!(record.event, Event::CancelRequested { .. });
    let Some(asked_at) = records.iter().position(asked) else { return Ok(()) };
    for record in &records[asked_at..] {
        let Event::InvokeStarted { promise_id, attempt } = &record.event else { continue };
        if *attempt != Attempt::FIRST {
            continue;
        }
        let before = records[..asked_at].iter().any(|record| {
            matches!(&record.event, Event::InvokeScheduled { promise_id: scheduled, .. }
                if scheduled == promise_id)
        });
        let child = callee(key, promise_id, *attempt);
        ensure!(
            !(before && tree.contains_key(&child)),
            "{child:#} began after the cancel of {key:#}"
        );
    }
    Ok(())
}

/// A cancel reaches what was in flight in the same instant (C-22), whatever happened to the process
/// meanwhile. Does not hold if time passes before the engine has finished its work.
///
/// # Errors
/// Which cancel never came.
pub fn cancels_arrive(tree: &[(JournalKey, Vec<Record>)]) -> Result<(), String> {
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
            let Some(attempt) = attempt else { continue };
            let child = callee(key, promise, attempt);
            let (_, called) = find(&child).ok_or_else(|| format!("there is no {child:#}"))?;
            let over_at = called.last().map(|record| record.timestamp);
            ensure!(
                called.iter().any(asked) || over_at <= Some(records[asked_at].timestamp),
                "the cancel of {key:#} never came to {child:#}"
            );
        }
    }
    Ok(())
}

/// The journal of an attempt at a call.
pub(crate) fn callee(caller: &JournalKey, promise: &PromiseId, attempt: Attempt) -> JournalKey {
    let execution = ExecutionId::new(promise.clone()).expect("a journal limits the depth");
    let attempts = caller.attempts().called(attempt);
    JournalKey::new(execution, attempts).expect("one attempt for one more call")
}

/// Whether a call was completed in the event after its start: its journal was never begun.
fn never_began(next: Option<&Event>) -> bool {
    matches!(next, Some(Event::InvokeCompleted { result: Outcome::Err(failure), .. })
        if matches!(failure.kind, ErrorKind::Cancelled | ErrorKind::NotPerformed))
}

/// A call has a caller that started it exactly once.
fn caller_agrees(tree: &Tree, key: &JournalKey) -> Result<(), String> {
    let Some(caller) = caller(key) else { return Ok(()) };
    let (_, records) = tree.get(&caller).ok_or_else(|| format!("{key:#} has no caller"))?;
    let own = key.attempts().own();
    let starts = records
        .iter()
        .filter(|record| {
            matches!(&record.event, Event::InvokeStarted { promise_id, attempt }
                if promise_id == key.execution_id().as_promise() && *attempt == own)
        })
        .count();
    ensure!(starts == 1, "{caller:#} started {key:#} {starts} times");
    Ok(())
}

/// No call ends after its caller, by the clock. Does not hold if the clock was set back.
///
/// # Errors
/// Which call went on.
pub fn end_in_order(tree: &[(JournalKey, Vec<Record>)]) -> Result<(), String> {
    let over = |records: &[Record]| records.last().map(|record| record.timestamp);
    for (key, records) in tree {
        let Some(caller) = caller(key) else { continue };
        let calling = tree.iter().find(|(other, _)| *other == caller);
        let calling = calling.and_then(|(_, records)| over(records));
        ensure!(over(records) <= calling, "{key:#} went on when {caller:#} was over");
    }
    Ok(())
}

/// The journal of the caller of this attempt; none for a root.
pub(crate) fn caller(key: &JournalKey) -> Option<JournalKey> {
    let parent = key.execution_id().parent()?;
    let attempts = key.attempts().as_slice();
    let attempts = Attempts::new(&attempts[..attempts.len() - 1])?;
    JournalKey::new(parent, attempts).ok()
}

/// An attempt follows one that failed, and has its signals and its cancel (C-32).
fn attempts_agree(tree: &Tree, key: &JournalKey, journal: &Journal) -> Result<(), String> {
    let Some(next_key) = key.next_attempt() else { return Ok(()) };
    if let Some((next, _)) = tree.get(&next_key) {
        let failed = matches!(journal.ending(), Some(Ending::Failed(_)));
        ensure!(failed, "{next_key:#} has no reason");
        let before: Vec<(&SignalName, _)> = journal.deliveries().collect();
        let after: Vec<_> = next.deliveries().take(before.len()).collect();
        ensure!(before == after, "{next_key:#} has not the signals of {key:#}");
        let asked = |journal: &Journal| journal.cancel_requested().map(|(_, why)| why.to_owned());
        if asked(journal).is_some() {
            ensure!(asked(journal) == asked(next), "{next_key:#} has not the cancel of {key:#}");
        }
    }
    let before = key.attempts().own().get() - 1;
    if let Some(before) = Attempt::new(before) {
        let mut attempts = key.attempts().as_slice().to_vec();
        attempts.pop();
        attempts.push(before);
        let before = Attempts::new(&attempts)
            .and_then(|attempts| JournalKey::new(key.execution_id().clone(), attempts).ok());
        let there = before.is_some_and(|before| tree.contains_key(&before));
        ensure!(there, "{key:#} without the attempt before it");
    }
    Ok(())
}

/// What a caller gets when its call ended like this.
fn outcome(ending: &Ending) -> Outcome {
    match ending {
        Ending::Completed(payload) => Outcome::Ok(payload.clone()),
        Ending::Failed(failure) => (**failure).clone().into(),
        Ending::Cancelled(reason) => Failure::new(ErrorKind::Cancelled, reason).into(),
    }
}
