//! What is done to executions from outside: signals, cancels, and what a person decides about
//! those that are held. Everything is acknowledged when it is durable, and done once under a key,
//! however often it is asked for (I-11).

use std::sync::Arc;

use indelible_execution::input::{self, How, NotDone, Resolution};
use indelible_execution::keys::{self, Answered, Requested, UnderKey};
use indelible_execution::{Actor, Reply, Request, UnresolvedEffect};
use indelible_idempotency::{IdempotencyKey, RequestHash};
use indelible_journal::{
    DeliveryId, ExecutionId, Payload, PromiseId, RootHash, SignalName, Timestamp,
};
use indelible_records::idempotency_keys::{Answer, Cancelling, KeyRecord, LedTo};
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
pub struct Asked {
    /// Who: written into the audit record.
    pub actor: Option<Actor>,
    /// Why, in the words of whoever asks.
    pub reason: String,
    /// The key that the caller sent: asking again with it gives the same answer and changes nothing,
    /// and asking for something else is refused.
    pub key: Option<IdempotencyKey>,
}

impl Asked {
    /// Nobody in particular, for this reason.
    pub fn because(reason: &str) -> Self {
        Self { reason: reason.to_owned(), ..Self::default() }
    }
}

/// A person's decision: who, why, and under which key, as in [`Asked`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Who: written into the audit record.
    pub actor: Actor,
    /// Why.
    pub reason: String,
    /// The key that the caller sent.
    pub key: Option<IdempotencyKey>,
}

impl Decided {
    /// By this actor, for this reason, under no key.
    pub fn by(actor: Actor, reason: &str) -> Self {
        Self { actor, reason: reason.to_owned(), key: None }
    }
}

/// What was asked for is done, and durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done<T> {
    /// What came of it.
    pub value: T,
    /// It was done before, by a request under the same key: this one has changed nothing.
    pub prior: bool,
}

/// Why something was not done to an execution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It makes no sense to this execution.
    #[error(transparent)]
    NotDone(#[from] NotDone),
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
        "the server's clock says {wall}, and the request says that it is {time}: one of the two is \
         wrong, and nothing was changed. Set the clock that is wrong, and confirm again"
    )]
    ClocksDiffer {
        /// What the request says.
        time: Timestamp,
        /// What the wall clock says.
        wall: Timestamp,
    },
    /// The same idempotency key was used for another request (see I-12, C-31).
    #[error("the idempotency key was used before, for another request")]
    Mismatch,
    /// The engine cannot do anything now.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// What is known of a request.
pub(super) enum Known {
    /// Nothing: it is done now, under its key if it has one.
    Nothing(Option<(UnderKey, Arc<KeyLock>)>),
    /// What was answered under this key. It is durable.
    Answer(Answer, IdempotencyKey),
    /// That its key was used for another request.
    Mismatch,
}

impl Engine {
    /// Sends a signal: its number among those of its name. Acknowledged when it is durable.
    pub async fn signal(
        &self,
        execution: &ExecutionId,
        name: &SignalName,
        payload: Payload,
        asked: Asked,
    ) -> Result<Done<DeliveryId>, ControlError> {
        let Asked { actor, key, .. } = asked;
        let hash = || {
            let signal = Requested::new("signal").text(&execution.to_string());
            signal.text(name.as_str()).payload(&payload).hash()
        };
        let key = key.map(|key| (key, hash()));
        let fits = self.fits(payload.bytes.len());
        let name = name.clone();
        self.ask(Flow::GOING_ON, execution, key, fits, |execution, under| {
            Request::Signal(input::Signal { execution, name, payload, actor, under })
        })
        .await
    }

    /// Asks an execution to end. It may clean up first; what it has in flight is asked, too.
    pub async fn cancel(
        &self,
        execution: &ExecutionId,
        asked: Asked,
    ) -> Result<Done<Cancelling>, ControlError> {
        let Asked { actor, mut reason, key } = asked;
        let key = key.map(|key| (key, requested("cancel", execution, &reason)));
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        self.ask(Flow::CONTROL, execution, key, Ok(()), |execution, under| {
            Request::Cancel(input::Cancel { execution, reason, actor, under })
        })
        .await
    }

    /// Lets a held execution go on: it is replayed again (C-25).
    pub async fn release(
        &self,
        execution: &ExecutionId,
        decided: Decided,
    ) -> Result<Done<()>, ControlError> {
        self.settle(execution, How::Release, decided).await
    }

    /// Ends a held execution as failed (C-25). What it has in flight is cancelled and awaited first
    /// (C-40), so this takes as long as their cleaning up; when it returns, the end is durable.
    pub async fn fail(
        &self,
        execution: &ExecutionId,
        decided: Decided,
    ) -> Result<Done<()>, ControlError> {
        let again = Decided { key: None, ..decided.clone() };
        let done = self.settle(execution, How::Fail, decided).await?;
        if done.prior {
            // Until the end is written nothing but the key remembers the decision: it may have been
            // lost with its process. Whoever is not held has ended, or is about to.
            match self.settle(execution, How::Fail, again).await {
                Ok(_) | Err(ControlError::NotDone(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // It is not acknowledged before.
        self.outcome(execution).await?;
        Ok(done)
    }

    /// Says how an effect ended of which nobody knows whether it happened (D5, C-38). Only one that
    /// is held, or whose reconciler is being asked, can be resolved, and once: anything else is
    /// refused, and nothing has changed.
    pub async fn resolve(
        &self,
        promise: &PromiseId,
        resolution: Resolution,
        decided: Decided,
    ) -> Result<Done<()>, ControlError> {
        let Decided { actor, reason, key } = decided;
        let response = match &resolution {
            Resolution::Happened(response) => response.encode(),
            Resolution::DidNotHappen | Resolution::RunAgain => Vec::new().into(),
        };
        let hash = || {
            let resolve = Requested::new(resolution.action()).text(&promise.to_string());
            resolve.bytes(&response).text(&reason).hash()
        };
        let key = key.map(|key| (key, hash()));
        let fits = self.fits(response.len());
        let execution = promise.parent().ok_or(NotDone::Unknown)?;
        let promise = promise.clone();
        self.ask(Flow::CONTROL, &execution, key, fits, |_, under| {
            let resolve = input::Resolve { promise, resolution, actor, reason, under };
            Request::Resolve(Box::new(resolve))
        })
        .await
    }

    /// Effects of which nobody knows whether they happened, behind this one, at most so many. What
    /// is shown is durable.
    pub async fn unresolved(
        &self,
        after: Option<&UnresolvedEffect>,
        limit: usize,
    ) -> Result<Vec<UnresolvedEffect>, EngineError> {
        let after = after.map(|after| (after.execution.clone(), after.promise.clone()));
        let read = self.shared.read(Lane::Lists, move |reads| {
            let after = after.as_ref().map(|(key, promise)| (key, promise));
            reads.unresolved_after(after, limit)
        });
        read.await
    }

    async fn settle(
        &self,
        execution: &ExecutionId,
        how: How,
        decided: Decided,
    ) -> Result<Done<()>, ControlError> {
        let Decided { actor, reason, key } = decided;
        let kind = match how {
            How::Release => "release",
            How::Fail => "fail",
        };
        let key = key.map(|key| (key, requested(kind, execution, &reason)));
        self.ask(Flow::CONTROL, execution, key, Ok(()), |execution, under| {
            Request::Settle(input::Settle { execution, how, actor, reason, under })
        })
        .await
    }

    /// Whether so many bytes are not too many.
    fn fits(&self, bytes: usize) -> Result<(), ControlError> {
        let max = self.shared.guests.options().payload_bytes_max;
        if bytes > max { Err(ControlError::TooLarge { bytes, max }) } else { Ok(()) }
    }

    /// Asks a tree to do something, if it was not done before under the same key.
    async fn ask<T: Answered>(
        &self,
        flow: Flow,
        execution: &ExecutionId,
        key: Option<(IdempotencyKey, RequestHash)>,
        checked: Result<(), ControlError>,
        request: impl FnOnce(ExecutionId, Option<UnderKey>) -> Request,
    ) -> Result<Done<T>, ControlError> {
        let room = self.shared.room(flow).await?;
        // Before anything else: what is wrong with a request now does not make an old one new
        // (C-31).
        let under = match self.under(key, *execution.root()).await? {
            Known::Nothing(under) => under,
            Known::Mismatch => return Err(ControlError::Mismatch),
            Known::Answer(answer, key) => {
                let value = T::told(answer).ok_or_else(|| other_kind(&key))?;
                return Ok(Done { value, prior: true });
            }
        };
        checked?;
        let (under, lock) = self.note(under).await?.unzip();
        // One that is noted holds its key until a refusal has taken the note away.
        let noted = under.as_ref().is_some_and(|under| under.note.is_some());
        let held = lock.clone().filter(|_| noted);
        let what = request(execution.clone(), under.clone());
        let root = execution.root();
        let replied = self.shared.replied(Flow::GOING_ON, root, what, room, lock).await?;
        let Replied { reply, position } = replied;
        self.shared.store.durable(position).await.map_err(EngineError::from)?;
        match reply {
            Reply::Done(Ok(answer)) => {
                let value = T::told(answer).ok_or_else(|| misanswered(&reply))?;
                Ok(Done { value, prior: false })
            }
            Reply::Done(Err(refused)) => {
                self.forget(under.as_ref()).await?;
                drop(held);
                Err(refused.into())
            }
            reply => Err(misanswered(&reply).into()),
        }
    }

    /// The first of two steps, if this node does not own both the slot of the key and that of what
    /// is to be changed (C-80): the key's slot notes what is asked of the other.
    pub(super) async fn note(
        &self,
        under: Option<(UnderKey, Arc<KeyLock>)>,
    ) -> Result<Option<(UnderKey, Arc<KeyLock>)>, EngineError> {
        let Some((mut under, lock)) = under else { return Ok(None) };
        if under.note.is_none() && self.shared.options.ownership == Ownership::All {
            return Ok(Some((under, lock)));
        }
        if under.note.is_none() {
            // An earlier request's answer, whose note has gone: it must not be taken for this one's.
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

    /// What was noted is refused: the key is free again before the refusal is told (C-80).
    pub(super) async fn forget(&self, under: Option<&UnderKey>) -> Result<(), EngineError> {
        let Some(UnderKey { id, note: Some(note), .. }) = under else { return Ok(()) };
        let mut batch = Batch::in_slots(id.slot());
        windows::replace(&mut batch, id, Some(note), None);
        self.submit_durably(batch).await
    }

    /// Submits a batch and waits until it is durable. A caller that waits for room does not queue
    /// for it: one that is not polled when its turn comes would keep all trees waiting behind it.
    async fn submit_durably(&self, batch: Batch) -> Result<(), EngineError> {
        let store = &self.shared.store;
        loop {
            match store.try_submit(batch.clone()) {
                Err(SubmitError::Full { .. }) => {
                    store.durable(store.accepted()).await?;
                    // Nothing may be on its way to the disk: room that another batch was given and
                    // has not used comes back without a commit, perhaps by this very thread.
                    tokio::task::yield_now().await;
                }
                submitted => return Ok(store.durable(submitted?).await?),
            }
        }
    }

    /// What is known of a request that is no start and changes this tree, or the server: under its
    /// key, if it has one, and what must not differ in a repetition. One at a time: a request that finds
    /// nothing holds the key until what it asks for is accepted.
    pub(super) async fn under(
        &self,
        key: Option<(IdempotencyKey, RequestHash)>,
        target: RootHash,
    ) -> Result<Known, EngineError> {
        let Some((key, hash)) = key else { return Ok(Known::Nothing(None)) };
        let id = keys::id_of(&key);
        // A request before this one may keep the key for as long as the store is paused.
        let lock = Arc::new(self.shared.unless_paused(self.shared.key_locks.take(&id)).await?);
        let under = |id, note| Some((UnderKey { id, hash, target, note }, Arc::clone(&lock)));
        let store = &self.shared.store;
        let Some(found) = windows::get::<KeyRecord>(store, &id)?.value else {
            return Ok(Known::Nothing(under(id, None)));
        };
        let mut record = found.record.clone();
        if let LedTo::Target(at) = record.led_to
            && record.hash == hash
        {
            let answer = Id::answer(&id.namespace, &at, &id.name);
            match windows::get::<KeyRecord>(store, &answer)?.value {
                Some(answer) => record = answer.record,
                // The change was not made: the first request was interrupted.
                None => return Ok(Known::Nothing(under(id, Some(found)))),
            }
        }
        drop(lock);
        // What is told of it is durable (D2).
        self.durable_now().await?;
        Ok(match record.led_to {
            LedTo::Answer(answer) if record.hash == hash => Known::Answer(answer, key),
            LedTo::Answer(_) | LedTo::Operation(_) | LedTo::Target(_) => Known::Mismatch,
        })
    }
}

/// What must not differ in a repetition of something that is done to an execution for a reason.
fn requested(kind: &str, execution: &ExecutionId, reason: &str) -> RequestHash {
    Requested::new(kind).text(&execution.to_string()).text(reason).hash()
}

/// The record of a key does not fit what its hash says that it is of.
pub(super) fn other_kind(key: &IdempotencyKey) -> EngineError {
    EngineError::Malformed(format!("the record of the key {key} is of another kind of request"))
}

/// The longest reason of a cancel, in bytes; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 1024;
