//! What must be true of doubts: what ended as Indeterminate has one, and every doubt that is said to
//! have ended has such an end (C-78).

use indelible_journal::{
    Attempt, ErrorKind, Event, ExecutionId, InvokeKind, Outcome, PromiseId, Record,
};
use indelible_records::doubts::{self, Doubt, DoubtId, DoubtState, Filter, Finding};
use indelible_store::{ReadError, Store};

use crate::effects::key_of;
use crate::store::StoredJournal;

/// All doubts of a tree.
pub(crate) fn of_tree(
    store: &Store,
    root: &ExecutionId,
) -> Result<Vec<(DoubtId, Doubt)>, ReadError> {
    let filter = Filter { tree: Some(*root.root()), ..Filter::default() };
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = doubts::page(store, &filter, true, after.as_ref(), 1_000, 1_000)?.value;
        all.extend(page.doubts);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// Compares the doubts of a tree with its journals.
pub(crate) fn check(tree: &[StoredJournal], doubts: &[(DoubtId, Doubt)]) -> Result<(), String> {
    for (key, records) in tree {
        for (promise, attempt) in unknown_effects(records) {
            let child = promise.path().last().copied().unwrap_or_default();
            let id = DoubtId { key: key.clone(), child };
            let found = doubts.iter().find(|(other, _)| *other == id).map(|(_, doubt)| doubt);
            let Some(doubt) = found else {
                return Err(format!("{promise:#} ended as Indeterminate, and left no doubt"));
            };
            let is_over = match &doubt.state {
                DoubtState::Ended { .. } => true,
                DoubtState::Settled(settled) => settled.finding != Finding::RunAgain,
                DoubtState::Held | DoubtState::Asking(_) => false,
            };
            ensure!(is_over, "{promise:#} ended, and its doubt is {:?}", doubt.state);
            // An attempt that was not begun is written as begun when it is given up: the doubt is about
            // the one before it.
            ensure!(doubt.attempt <= attempt, "{promise:#} is in doubt about a later attempt");
            let sent = doubt.evidence.request.as_ref().map(|sent| &sent.idempotency_key);
            ensure!(
                sent == Some(&key_of(&promise)),
                "the doubt about {promise:#} has no evidence: {:?}",
                doubt.evidence
            );
        }
    }
    for (id, doubt) in doubts {
        let Some((_, records)) = tree.iter().find(|(key, _)| *key == id.key) else { continue };
        // A volatile execution leaves its end alone.
        let scheduled = |record: &Record| {
            matches!(&record.event, Event::InvokeScheduled { promise_id, .. }
                if *promise_id == id.promise())
        };
        let ended = matches!(doubt.state, DoubtState::Ended { .. });
        if ended && records.iter().any(scheduled) {
            let ends = records.iter().any(|record| ends_unknown(&id.promise(), &record.event));
            ensure!(ends, "{:#} is in doubt, and did not end so: {doubt:?}", id.promise());
        }
    }
    Ok(())
}

fn ends_unknown(promise: &PromiseId, event: &Event) -> bool {
    matches!(event, Event::InvokeCompleted { promise_id, result: Outcome::Err(failure), .. }
        if promise_id == promise && failure.kind == ErrorKind::Indeterminate)
}

/// The HTTP effects of a journal that ended as Indeterminate, with their last attempts.
fn unknown_effects(records: &[Record]) -> Vec<(PromiseId, Attempt)> {
    let is_http = |promise: &PromiseId| {
        records.iter().any(|record| {
            matches!(&record.event,
                Event::InvokeScheduled { promise_id, kind: InvokeKind::Http, .. }
                    if promise_id == promise)
        })
    };
    let ended = records.iter().filter_map(|record| match &record.event {
        Event::InvokeCompleted { promise_id, attempt, .. }
            if ends_unknown(promise_id, &record.event) && is_http(promise_id) =>
        {
            Some((promise_id.clone(), *attempt))
        }
        _ => None,
    });
    ended.collect()
}
