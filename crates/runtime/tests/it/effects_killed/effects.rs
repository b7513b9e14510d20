//! What the store says of effects, read without an engine: each attempt, and how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use indelible_http::{Request, Response};
use indelible_journal::{
    Ending, ErrorKind, Event, Failure, Idempotency, InvokeKind, Journal, JournalKey, Outcome,
    Payload, PromiseId, Record, RetryCause, RetryPolicy, Timestamp,
};
use indelible_records::journals;
use indelible_records::listing::{self, Filter};
use indelible_store::Store;

use crate::effects_killed::keys;

/// A journal, with what is needed of it.
pub(crate) struct Told {
    pub(crate) key: JournalKey,
    pub(crate) function: String,
    /// The operation that it is the root of, if it is one.
    pub(crate) operation: Option<(String, String)>,
    pub(crate) ending: Ending,
    /// In the order in which the guest wanted them.
    pub(crate) effects: Vec<Effect>,
}

/// An effect in one journal.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) promise: PromiseId,
    pub(crate) url: String,
    pub(crate) policy: Arc<RetryPolicy>,
    pub(crate) attempts: Vec<Attempt>,
    /// None: its caller ended before it had begun.
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Timestamp,
    /// Why another followed, and what was wrong with this one; none: it was the last.
    pub(crate) again: Option<(RetryCause, Failure)>,
}

impl Effect {
    pub(crate) fn is_idem(&self) -> bool {
        self.policy.class.idempotency == Idempotency::Idem
    }

    pub(crate) fn idempotency_key(&self) -> String {
        keys::of(&self.promise)
    }

    /// How many attempts ended so that another followed for this cause.
    pub(crate) fn again(&self, cause: RetryCause) -> usize {
        let causes = self.attempts.iter().filter_map(|attempt| attempt.again.as_ref());
        causes.filter(|(own, _)| *own == cause).count()
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Some(Outcome::Err(failure)) => Some(failure),
            _ => None,
        }
    }

    pub(crate) fn response(&self) -> Option<Response> {
        match &self.outcome {
            Some(Outcome::Ok(payload)) => Some(Response::decode(&payload.bytes).unwrap()),
            _ => None,
        }
    }

    /// How many attempts are proven not to have left.
    pub(crate) fn unsent(&self) -> usize {
        self.again(RetryCause::NotSent) + usize::from(self.last_was_unsent())
    }

    /// Whether its last attempt is proven not to have left. What is cancelled has not begun, and is
    /// written as begun only because it ends.
    pub(crate) fn last_was_unsent(&self) -> bool {
        self.failure().is_some_and(|failure| {
            let cancelled = failure.kind == ErrorKind::Cancelled;
            cancelled || failure.message.starts_with("the request was not sent")
        })
    }

    pub(crate) fn is_indeterminate(&self) -> bool {
        self.failure().is_some_and(|failure| failure.kind == ErrorKind::Indeterminate)
    }
}

/// Everything that is told in the store.
pub(crate) fn all(store: &Store) -> Vec<Told> {
    let snapshot = store.snapshot().unwrap();
    let filter = Filter { with_children: true, ..Filter::default() };
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = listing::list(&snapshot, &filter, cursor.as_ref(), 1_000).unwrap().value;
        all.extend(page.executions.into_iter().map(|row| told(store, row.key)));
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

fn told(store: &Store, key: JournalKey) -> Told {
    let (mut records, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let page = journals::read(store, &key, from, 1_000).unwrap().value;
        records.extend(page.records);
        next = page.next;
    }
    let effects = effects(&key, &records);
    let journal = Journal::recover(key.clone(), records).unwrap();
    let started = journal.started().unwrap();
    let operation = started.idempotency_key.as_ref().map(|operation| {
        (operation.namespace.as_str().to_owned(), operation.operation_id.as_str().to_owned())
    });
    let function = started.function_name.to_string();
    let ending = journal.ending().unwrap_or_else(|| panic!("{key:#} is not over")).clone();
    Told { key, function, operation, ending, effects }
}

fn effects(key: &JournalKey, records: &[Record]) -> Vec<Effect> {
    let mut effects: BTreeMap<PromiseId, Effect> = BTreeMap::new();
    let mut order = Vec::new();
    for Record { timestamp, event, .. } in records {
        match event {
            Event::InvokeScheduled {
                promise_id,
                kind: InvokeKind::Http,
                input,
                retry_policy,
                ..
            } => {
                order.push(promise_id.clone());
                let effect = effect(promise_id, input, retry_policy);
                effects.insert(promise_id.clone(), effect);
            }
            Event::InvokeStarted { promise_id, attempt } => {
                let Some(effect) = effects.get_mut(promise_id) else { continue };
                let (started_at, ended_at) = (*timestamp, Timestamp::MAX);
                effect.attempts.push(Attempt { started_at, ended_at, again: None });
                assert_eq!(attempt.get() as usize, effect.attempts.len(), "{key:#}");
            }
            Event::InvokeRetrying { promise_id, cause, error, .. } => {
                let Some(effect) = effects.get_mut(promise_id) else { continue };
                let last = effect.attempts.last_mut().unwrap();
                last.again = Some((*cause, (**error).clone()));
                last.ended_at = *timestamp;
            }
            Event::InvokeCompleted { promise_id, result, .. } => {
                let Some(effect) = effects.get_mut(promise_id) else { continue };
                effect.outcome = Some(result.clone());
                if let Some(last) = effect.attempts.last_mut() {
                    last.ended_at = *timestamp;
                }
            }
            _ => {}
        }
    }
    order.into_iter().map(|promise| effects.remove(&promise).unwrap()).collect()
}

fn effect(promise: &PromiseId, input: &Payload, policy: &Arc<RetryPolicy>) -> Effect {
    let (promise, policy) = (promise.clone(), Arc::clone(policy));
    let url = Request::decode(&input.bytes).unwrap().url;
    Effect { promise, url, policy, attempts: Vec::new(), outcome: None }
}
