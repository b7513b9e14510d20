//! What is done to executions from outside: signals, cancels, and a person's decisions about stuck
//! executions and held effects. Each change is acknowledged when it is durable, and made once under
//! a key, however often it is asked for (I-11).

use std::sync::Arc;

use indelible_execution::input::{self, CommandRefusal, How, Resolution};
use indelible_execution::keys::{self, KeyedReply, KeyedRequest, RequestParts};
use indelible_execution::{Actor, Reply, Request, UnresolvedEffect};
use indelible_idempotency::{IdempotencyKey, RequestHash};
use indelible_journal::{
    Attempt, DeliveryId, ExecutionId, Payload, PromiseId, RootHash, SignalName, Timestamp,
};
use indelible_records::doubts::{
    Filter as DoubtFilter, Page as DoubtPage, Place as DoubtPlace, StateName,
};
use indelible_records::idempotency_keys::{Answer, CancelOutcome, KeyOutcome, KeyRecord};
use indelible_records::windows::{self, Id};
use indelible_store::{Batch, SubmitError};

use super::outcome::misanswered;
use super::{Engine, EngineError};
use crate::command::Answer as Replied;
use crate::key_locks::KeyLock;
use crate::options::Ownership;
use crate::reader::Lane;
use crate::run_queue::Flow;

/// Who asks for a change, why, and under which key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Who: written into the audit record.
    pub actor: Option<Actor>,
    /// Why, in the caller's words.
    pub reason: String,
    /// The key that the caller sent: asking again with it gives the same answer and changes
    /// nothing, and asking for something else is refused.
    pub key: Option<IdempotencyKey>,
}

impl Attribution {
    /// No actor and no key, for this reason.
    pub fn because(reason: &str) -> Self {
        Self { reason: reason.to_owned(), ..Self::default() }
    }
}

/// A person's decision: who, why, and under which key, as in [`Attribution`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonDecision {
    /// Who: written into the audit record.
    pub actor: Actor,
    /// Why.
    pub reason: String,
    /// The key that the caller sent.
    pub key: Option<IdempotencyKey>,
}

impl PersonDecision {
    /// By this actor, for this reason, under no key.
    pub fn by(actor: Actor, reason: &str) -> Self {
        Self { actor, reason: reason.to_owned(), key: None }
    }
}

/// The requested change was made, and is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt<T> {
    /// The result of the change.
    pub value: T,
    /// The change was made before, by a request under the same key: this one has changed nothing.
    pub prior: bool,
}

/// Why something was not done to an execution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The execution cannot do this in its state.
    #[error(transparent)]
    CommandRefusal(#[from] CommandRefusal),
    /// The signal is larger than it may be.
    #[error("the payload has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most.
        max: usize,
    },
    /// The clock of the operator who confirms the wall clock says something else.
    #[error(
        "the server's clock says {wall}, but the request says {time}: one of the two clocks is \
         wrong. Nothing was changed; set the wrong clock and confirm again"
    )]
    ClocksDiffer {
        /// What the request says.
        time: Timestamp,
        /// What the wall clock says.
        wall: Timestamp,
    },
    /// The same idempotency key was used for another request (see I-12, C-31).
    #[error("the idempotency key was already used for another request")]
    Mismatch,
    /// The engine cannot do anything now.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// What is known of a keyed request.
pub(super) enum KeyLookup {
    /// Nothing: it is carried out now, under its key if it has one.
    Nothing(Option<(KeyedRequest, Arc<KeyLock>)>),
    /// What was answered under this key. The answer is durable.
    Answer(Answer, IdempotencyKey),
    /// The key was used for another request.
    Mismatch,
}

impl Engine {
    /// Sends a signal, and returns its number among the signals of that name when it is durable.
    pub async fn signal(
        &self,
        execution: &ExecutionId,
        name: &SignalName,
        payload: Payload,
        asked: Attribution,
    ) -> Result<Receipt<DeliveryId>, ControlError> {
        let Attribution { actor, key, .. } = asked;
        let hash = || {
            let signal = RequestParts::new("signal").text(&execution.to_string());
            signal.text(name.as_str()).payload(&payload).hash()
        };
        let key = key.map(|key| (key, hash()));
        let mut checked = self.fits(payload.bytes.len());
        if key.is_some() {
            // A restored store may have taken this signal and forgotten it. People's decisions need
            // no such check: they are refused where they have been made.
            checked = checked.and_then(|()| Ok(self.shared.check_unknown_name(None)?));
        }
        let name = name.clone();
        self.ask(Flow::GOING_ON, execution, key, checked, |execution, under| {
            Request::Signal(input::Signal { execution, name, payload, actor, under })
        })
        .await
    }

    /// Asks an execution to end. It may clean up first; its children and effects in flight are
    /// asked, too.
    pub async fn cancel(
        &self,
        execution: &ExecutionId,
        asked: Attribution,
    ) -> Result<Receipt<CancelOutcome>, ControlError> {
        let Attribution { actor, mut reason, key } = asked;
        let key = key.map(|key| (key, requested("cancel", execution, &reason)));
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        self.ask(Flow::CONTROL, execution, key, Ok(()), |execution, under| {
            Request::Cancel(input::Cancel { execution, reason, actor, under })
        })
        .await
    }

    /// Lets a stuck execution go on: it is replayed again (C-25).
    pub async fn release(
        &self,
        execution: &ExecutionId,
        decided: PersonDecision,
    ) -> Result<Receipt<()>, ControlError> {
        self.settle(execution, How::Release, decided).await
    }

    /// Ends a stuck execution as failed (C-25). Its children and effects in flight are cancelled
    /// and awaited first (C-40), so this takes as long as their clean-up; when it returns, the end
    /// is durable.
    pub async fn fail(
        &self,
        execution: &ExecutionId,
        decided: PersonDecision,
    ) -> Result<Receipt<()>, ControlError> {
        let again = PersonDecision { key: None, ..decided.clone() };
        let done = self.settle(execution, How::Fail, decided).await?;
        if done.prior {
            // Until the end is written, only the key's record remembers the decision, and a crash
            // may have come between. So the tree is told again: if the execution is no longer
            // stuck, it has ended or is about to.
            match self.settle(execution, How::Fail, again).await {
                Ok(_) | Err(ControlError::CommandRefusal(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // The decision is acknowledged only when the end is durable.
        self.outcome(execution).await?;
        Ok(done)
    }

    /// Says how an unresolved effect ended (D5, C-38). Only an effect that is held, or whose
    /// reconciler is being asked, can be resolved, and only once: anything else is refused, and
    /// nothing has changed.
    pub async fn resolve(
        &self,
        promise: &PromiseId,
        resolution: Resolution,
        decided: PersonDecision,
    ) -> Result<Receipt<()>, ControlError> {
        self.resolve_attempt(promise, None, resolution, decided).await
    }

    /// [`Engine::resolve`], if this attempt at the effect is the one in doubt: a decision that
    /// comes late must not count for an attempt that the person has not seen.
    pub async fn resolve_attempt(
        &self,
        promise: &PromiseId,
        attempt: Option<Attempt>,
        resolution: Resolution,
        decided: PersonDecision,
    ) -> Result<Receipt<()>, ControlError> {
        let PersonDecision { actor, reason, key } = decided;
        let response = match &resolution {
            Resolution::Happened(response) => response.encode(),
            Resolution::DidNotHappen | Resolution::RunAgain | Resolution::AcceptUnknown => {
                Vec::new().into()
            }
        };
        let hash = || {
            let resolve = RequestParts::new(resolution.action()).text(&promise.to_string());
            let attempt = attempt.map(|attempt| attempt.to_string()).unwrap_or_default();
            resolve.bytes(&response).text(&reason).text(&attempt).hash()
        };
        let key = key.map(|key| (key, hash()));
        let fits = self.fits(response.len());
        let execution = promise.parent().ok_or(CommandRefusal::Unknown)?;
        let promise = promise.clone();
        self.ask(Flow::CONTROL, &execution, key, fits, |_, under| {
            let resolve = input::Resolve { promise, attempt, resolution, actor, reason, under };
            Request::Resolve(Box::new(resolve))
        })
        .await
    }

    /// Up to `limit` unresolved effects after this one, the oldest first: those whose executions
    /// wait for an answer. All that is shown is durable.
    pub async fn unresolved(
        &self,
        after: Option<&UnresolvedEffect>,
        limit: usize,
    ) -> Result<Vec<UnresolvedEffect>, EngineError> {
        let mut after = after.and_then(UnresolvedEffect::place);
        let mut found = Vec::new();
        loop {
            let left = limit - found.len();
            let states = vec![StateName::Held, StateName::Asking];
            let filter = DoubtFilter { states, ..DoubtFilter::default() };
            let read = self
                .shared
                .read(Lane::Lists, move |reads| reads.doubts(&filter, false, after.as_ref(), left));
            let page = read.await?;
            found.extend(page.doubts.iter().map(|(id, doubt)| UnresolvedEffect::new(id, doubt)));
            after = page.next;
            if found.len() == limit || after.is_none() {
                return Ok(found);
            }
        }
    }

    /// Doubts, the oldest first: open ones, and settled ones behind them if they are wanted (see
    /// C-78). A page may be shorter than `limit` though more follow. All that is shown is durable.
    pub async fn doubts(
        &self,
        filter: DoubtFilter,
        with_settled: bool,
        after: Option<DoubtPlace>,
        limit: usize,
    ) -> Result<DoubtPage, EngineError> {
        let read = self.shared.read(Lane::Lists, move |reads| {
            reads.doubts(&filter, with_settled, after.as_ref(), limit)
        });
        read.await
    }

    /// How many doubts are open, counted up to `most`, and since when the oldest is.
    pub async fn open_doubts(
        &self,
        most: usize,
    ) -> Result<(usize, Option<Timestamp>), EngineError> {
        self.shared.read(Lane::Lists, move |reads| reads.open_doubts(most)).await
    }

    async fn settle(
        &self,
        execution: &ExecutionId,
        how: How,
        decided: PersonDecision,
    ) -> Result<Receipt<()>, ControlError> {
        let PersonDecision { actor, reason, key } = decided;
        let kind = match how {
            How::Release => "release",
            How::Fail => "fail",
        };
        let key = key.map(|key| (key, requested(kind, execution, &reason)));
        self.ask(Flow::CONTROL, execution, key, Ok(()), |execution, under| {
            Request::StuckDecision(input::StuckDecision { execution, how, actor, reason, under })
        })
        .await
    }

    fn fits(&self, bytes: usize) -> Result<(), ControlError> {
        let max = self.shared.guests.options().payload_bytes_max;
        if bytes > max { Err(ControlError::TooLarge { bytes, max }) } else { Ok(()) }
    }

    /// Asks a tree to do something, if it was not done before under the same key.
    async fn ask<T: KeyedReply>(
        &self,
        flow: Flow,
        execution: &ExecutionId,
        key: Option<(IdempotencyKey, RequestHash)>,
        checked: Result<(), ControlError>,
        request: impl FnOnce(ExecutionId, Option<KeyedRequest>) -> Request,
    ) -> Result<Receipt<T>, ControlError> {
        let room = self.shared.room(flow).await?;
        // The key comes before all checks: a repeated request gets its first answer, even if it
        // would be refused by now (C-31).
        let under = match self.under(key, *execution.root()).await? {
            KeyLookup::Nothing(under) => under,
            KeyLookup::Mismatch => return Err(ControlError::Mismatch),
            KeyLookup::Answer(answer, key) => {
                let value = T::from_answer(answer).ok_or_else(|| other_kind(&key))?;
                return Ok(Receipt { value, prior: true });
            }
        };
        checked?;
        self.shared.hold.check()?;
        let (under, lock) = self.note(under).await?.unzip();
        // A noted request holds its key's lock until a refusal has deleted the note.
        let noted = under.as_ref().is_some_and(|under| under.note.is_some());
        let held = lock.clone().filter(|_| noted);
        let what = request(execution.clone(), under.clone());
        let root = execution.root();
        let replied = self.shared.replied(Flow::GOING_ON, root, what, room, lock).await?;
        let Replied { reply, position } = replied;
        self.shared.store.durable(position).await.map_err(EngineError::from)?;
        match reply {
            Reply::Done(Ok(answer)) => {
                let value = T::from_answer(answer).ok_or_else(|| misanswered(&reply))?;
                Ok(Receipt { value, prior: false })
            }
            Reply::Done(Err(refused)) => {
                self.forget(under.as_ref()).await?;
                drop(held);
                Err(refused.into())
            }
            reply => Err(misanswered(&reply).into()),
        }
    }

    /// The first of two steps, if this node may not own both the slot of the key and that of the
    /// target (C-80): writes a note into the key's slot, naming the target. The note must be
    /// durable before the target is asked.
    pub(super) async fn note(
        &self,
        under: Option<(KeyedRequest, Arc<KeyLock>)>,
    ) -> Result<Option<(KeyedRequest, Arc<KeyLock>)>, EngineError> {
        let Some((mut under, lock)) = under else { return Ok(None) };
        if under.note.is_none() && self.shared.options.ownership == Ownership::All {
            return Ok(Some((under, lock)));
        }
        if under.note.is_none() {
            // This answer outlived the note of an earlier request: it must not be taken for this
            // one's.
            let id = under.answer_id();
            let outlived = windows::get::<KeyRecord>(&self.shared.store, &id)?.value;
            if outlived.is_some() {
                let mut batch = Batch::in_slots(id.slot());
                windows::replace(&mut batch, &id, outlived.as_ref(), None);
                self.submit_durably(batch).await?;
            }
        }
        let change = under.noted(self.shared.context().expires_at(None));
        let mut batch = Batch::in_slots(change.id.slot());
        change.put(&mut batch);
        self.submit_durably(batch).await?;
        under.note = Some(change.after);
        Ok(Some((under, lock)))
    }

    /// Deletes the note of a refused request: the key must be free before the caller is told
    /// (C-80).
    pub(super) async fn forget(&self, under: Option<&KeyedRequest>) -> Result<(), EngineError> {
        let Some(KeyedRequest { id, note: Some(note), .. }) = under else { return Ok(()) };
        let mut batch = Batch::in_slots(id.slot());
        windows::replace(&mut batch, id, Some(note), None);
        self.submit_durably(batch).await
    }

    /// Submits a batch and waits until it is durable. While the store is full, this polls instead
    /// of queueing: a queued future that is not polled in its turn would block all trees behind it.
    pub(super) async fn submit_durably(&self, batch: Batch) -> Result<(), EngineError> {
        let store = &self.shared.store;
        loop {
            match store.try_submit(batch.clone()) {
                Err(SubmitError::Full { .. }) => {
                    store.durable(store.accepted()).await?;
                    // Nothing may be on its way to the disk: space that another batch reserved and
                    // has not used comes back without a commit, perhaps by this very thread.
                    tokio::task::yield_now().await;
                }
                submitted => return Ok(store.durable(submitted?).await?),
            }
        }
    }

    /// Looks up a request, other than a start, that changes this tree or the server; the hash is of
    /// all that must not differ in a repetition. Three results: (1) no record, or a note without an
    /// answer: the request is to be carried out, and its key stays locked until it is accepted; (2)
    /// the answer to the same request; (3) a record of another request.
    pub(super) async fn under(
        &self,
        key: Option<(IdempotencyKey, RequestHash)>,
        target: RootHash,
    ) -> Result<KeyLookup, EngineError> {
        let Some((key, hash)) = key else { return Ok(KeyLookup::Nothing(None)) };
        let id = keys::id_of(&key);
        // An earlier request may hold the lock for as long as the store is paused.
        let lock = Arc::new(self.shared.unless_paused(self.shared.key_locks.take(&id)).await?);
        let under = |id, note| Some((KeyedRequest { id, hash, target, note }, Arc::clone(&lock)));
        let store = &self.shared.store;
        let Some(found) = windows::get::<KeyRecord>(store, &id)?.value else {
            return Ok(KeyLookup::Nothing(under(id, None)));
        };
        let mut record = found.record.clone();
        if let KeyOutcome::Target(at) = record.led_to
            && record.hash == hash
        {
            let answer = Id::for_answer(&id.namespace, &at, &id.name);
            match windows::get::<KeyRecord>(store, &answer)?.value {
                Some(answer) => record = answer.record,
                // The first request was interrupted before its change was made.
                None => return Ok(KeyLookup::Nothing(under(id, Some(found)))),
            }
        }
        drop(lock);
        // What the caller is told must be durable (D2).
        self.durable_now().await?;
        Ok(match record.led_to {
            KeyOutcome::Answer(answer) if record.hash == hash => KeyLookup::Answer(answer, key),
            KeyOutcome::Answer(_) | KeyOutcome::Operation(_) | KeyOutcome::Target(_) => {
                KeyLookup::Mismatch
            }
        })
    }
}

/// The hash of a request with a reason: all that must not differ in a repetition.
fn requested(kind: &str, execution: &ExecutionId, reason: &str) -> RequestHash {
    RequestParts::new(kind).text(&execution.to_string()).text(reason).hash()
}

/// The hash matches, but the record is of another kind of request.
pub(super) fn other_kind(key: &IdempotencyKey) -> EngineError {
    EngineError::Malformed(format!(
        "the record of the key {key} belongs to another kind of request"
    ))
}

/// The longest reason of a cancel, in bytes; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 1024;
