//! Starting functions, and what comes of them (C-31).

use std::hash::BuildHasher as _;
use std::sync::Arc;

use indelible_execution::duplicates::{Known, OperationAttempt, Progress, decide};
use indelible_execution::input::{self, StartReply};
use indelible_execution::keys::{self, KeyedStart};
use indelible_execution::operation::OperationRequest;
use indelible_execution::{Actor, RECONCILE_NAMESPACE, Reply, Request};
use indelible_idempotency::IdempotencyKey;
use indelible_journal::{
    ComponentDigest, Durability, Ending, Event, ExecutionId, JournalKey, Namespace, OperationId,
    OperationKey, Payload, RetryClass, RootHash, Started, TraceParent,
};
use indelible_operations::Binding;
use indelible_operations::id;
use indelible_operations::retention::Age;
use indelible_operations::state::Decision;
use indelible_records::idempotency_keys::{KeyOutcome, KeyRecord};
use indelible_records::labels::Labels;
use indelible_records::operations::{self, Operation};
use indelible_records::windows::{self, Id, WindowedRecord};
use indelible_records::{executions, journals};
use indelible_slots::Slot;
use indelible_store::Position;

use super::outcome::misanswered;
use super::submitted::{Interest, Submission};
use super::{Engine, EngineError, StartRefused};
use crate::command::Answer;
use crate::component::ComponentError;
use crate::guest::Manifest;
use crate::run_queue::Flow;
use crate::shared::Shared;
use crate::world::Purpose;

/// A function to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Within it operation ids are unique.
    pub namespace: Namespace,
    /// The client's own id for this operation: asking again with it finds the same execution.
    /// None: one is made.
    ///
    /// A UUIDv7 carries when it was made. When its operation is no longer remembered, it is
    /// refused, and so is one from the future: it is never executed twice (C-3). Any other name
    /// carries no time: it finds its operation for as long as that is remembered
    /// ([`Options::operation_window`](crate::Options::operation_window) after its end). After that
    /// it finds its execution, if that is still there and of the version that is active now: the
    /// same function with the same input is attached to it, anything else is refused as a conflict.
    /// When [retention](Engine::retain) has taken the execution, or another version is active, the
    /// name cannot be told from a new one, and it is executed again.
    pub operation_id: Option<OperationId>,
    /// The key that the caller sent, of this namespace, instead of an id: asking again with it
    /// finds the same operation, and asking for something else is refused.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Which component: its active version.
    pub component: String,
    /// Which of its functions.
    pub function: String,
    /// What it is given.
    pub input: Payload,
    /// The trace that it belongs to.
    pub trace_parent: Option<TraceParent>,
    /// Who starts it: written into the audit record, if it is started by this.
    pub actor: Option<Actor>,
    /// Its labels, if it is started by this (C-79): a repeated request may have others.
    pub labels: Labels,
}

/// A function that was started. It is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedExecution {
    /// Its execution.
    pub execution_id: ExecutionId,
    /// The id of the operation.
    pub operation_id: OperationId,
    /// What was known of it when the request came.
    pub verdict: Verdict,
}

impl StartedExecution {
    /// Whether it had been started before, by the same request.
    pub fn attached(&self) -> bool {
        self.verdict != Verdict::Fresh
    }
}

/// What was known of an operation when a request for it came (I-8, V-29 to V-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: this request has started it.
    Fresh,
    /// The operation is running; or it was volatile and lost or released, and this request has it
    /// run again.
    InFlight,
    /// Its outcome was on record.
    Prior,
}

/// How often the records of a request are looked up: a second time when its start has lost a race,
/// because then there is a record, and a third time for a purge between two lookups.
const LOOKS_MAX: usize = 3;

struct StartOutcome {
    started: StartedExecution,
    /// The caller may be told only when this position is durable.
    position: Position,
    /// The caller's interest, if it waits: watching since before the tree was asked.
    interest: Option<Interest>,
}

struct OperationLookup {
    known: Known,
    execution: ExecutionId,
    /// For a volatile operation with no outcome on record: what it is started with if it runs
    /// again.
    volatile: Option<(Started, RootHash)>,
}

/// Whether the caller waits for the end of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Yes,
    /// A volatile operation is kept although no caller waits for it.
    No,
}

impl Engine {
    /// Starts a function. When this returns, the start is durable: whatever happens, a persist
    /// function is carried through. A volatile one is not released, although no caller waits for
    /// it.
    pub async fn start(&self, start: Start) -> Result<StartedExecution, StartRefused> {
        let begun = self.start_or_attach(&start, Waits::No).await?;
        self.shared.store.durable(begun.position).await.map_err(EngineError::from)?;
        Ok(begun.started)
    }

    /// Starts a function and waits for its end: one wait for the disk, where [`Engine::start`] and
    /// [`Engine::outcome`] have two. Dropping the future ends the caller's interest, as with a
    /// [`Submission`].
    pub async fn call(&self, start: Start) -> Result<(StartedExecution, Ending), StartRefused> {
        let mut submitted = self.submit(start).await?;
        let ending = submitted.outcome().await?;
        Ok((submitted.into_started(), ending))
    }

    /// Starts a function, perhaps not durably yet: the result must not be shown to a client before
    /// [`Submission::durable`] or [`Submission::outcome`] has returned.
    pub async fn submit(&self, start: Start) -> Result<Submission, StartRefused> {
        let StartOutcome { started, position, interest } =
            self.start_or_attach(&start, Waits::Yes).await?;
        let interest = interest
            .unwrap_or_else(|| Interest::idle(Arc::clone(&self.shared), &started.execution_id));
        Ok(Submission::new(started, start.namespace, position, interest))
    }

    /// Starts a function, or finds that it was started. Each round looks up the key, then the
    /// operation's record, and decides; only a new operation, or a volatile one that may run again,
    /// becomes a command to its tree. Two cases take another round: (1) a purge ran between the two
    /// lookups; (2) the tree answers `Raced`: the record of another start was accepted first, and
    /// the next round finds it.
    async fn start_or_attach(
        &self,
        start: &Start,
        waits: Waits,
    ) -> Result<StartOutcome, StartRefused> {
        let shared = &self.shared;
        if start.namespace.as_str() == RECONCILE_NAMESPACE {
            return Err(StartRefused::ReservedNamespace);
        }
        match (&start.idempotency_key, &start.operation_id) {
            (Some(_), Some(_)) => return Err(StartRefused::KeyAndId),
            (Some(key), None) if key.namespace().as_str() != start.namespace.as_str() => {
                return Err(StartRefused::ForeignKey);
            }
            _ => {}
        }
        let called = format!("{}/{}", start.component, start.function);
        let binding = Binding::of(&called, &start.input);
        let flow = flow(&called);
        let keyed = start.idempotency_key.as_ref();
        let keyed = keyed.map(|key| KeyedStart::new(key, &called, &start.input));
        let key_id = start.idempotency_key.as_ref().map(keys::id_of);
        let slot = key_id.as_ref().map(Id::slot);
        let new = start.operation_id.clone().unwrap_or_else(|| mint(shared, slot));
        // The interest of the round before, which lost a race. It is kept until this round watches:
        // a volatile operation must not be released in between.
        let mut before: Option<Interest> = None;
        for _ in 0..LOOKS_MAX {
            let room = self.shared.room(flow).await?;
            // The key is looked up before a new id or a version counts: neither makes an old
            // request new. Other requests under the same key wait for this lock until this one is
            // accepted.
            let (lock, known) = match (&keyed, &key_id) {
                (Some(keyed), Some(id)) => {
                    let lock = shared.unless_paused(shared.key_locks.take(id)).await?;
                    (Some(Arc::new(lock)), self.known(id, keyed).await?)
                }
                _ => (None, None),
            };
            let operation_id = known.clone().unwrap_or_else(|| new.clone());
            let operation = OperationKey { namespace: start.namespace.clone(), operation_id };
            let begun = |execution_id, verdict, position, interest| {
                let operation_id = operation.operation_id.clone();
                let started = StartedExecution { execution_id, operation_id, verdict };
                Ok(StartOutcome { started, position, interest })
            };
            let stored = operations::get(&shared.store, &operation).map_err(EngineError::from)?;
            let found = match stored.value {
                Some(stored) => Some(self.recorded(start, &operation, &stored)?),
                // A purge deleted the operation's record between the lookups. It deletes the key's
                // record first, so the next round finds neither.
                None if known.is_some() => continue,
                None => self.forgotten(start, &operation)?,
            };
            let position = shared.store.accepted();
            let asked = match &found {
                // The key's hash has compared the requests already, by their canonical form.
                Some(found) if known.is_some() => {
                    OperationAttempt { binding: found.known.binding, age: Age::Fresh }
                }
                // An id that the engine has just made is new.
                _ if start.operation_id.is_none() => OperationAttempt { binding, age: Age::Fresh },
                _ => OperationAttempt { binding, age: shared.age(&operation) },
            };
            let decision = decide(found.as_ref().map(|found| &found.known), &asked);
            let (again, started, root) = match (decision, found) {
                (Decision::Refuse(refusal), _) => return self.refuse(refusal.into()).await,
                (Decision::Replay(()), Some(OperationLookup { execution, .. })) => {
                    return begun(execution, Verdict::Prior, position, None);
                }
                (_, Some(OperationLookup { execution, volatile: None, .. })) => {
                    return begun(execution, Verdict::InFlight, position, None);
                }
                // What is on record was told above. Whatever comes now would run a guest.
                _ if shared.hold.is_on() => return Err(EngineError::OnHold.into()),
                // Nothing of a volatile operation is stored before its end: only its tree knows
                // whether it runs.
                (_, Some(OperationLookup { volatile: Some((started, root)), .. })) => {
                    (true, started, root)
                }
                (_, None) => {
                    if start.operation_id.is_some() || start.idempotency_key.is_some() {
                        shared.check_unknown_name(start.operation_id.as_ref())?;
                    }
                    match self.started(start, &operation) {
                        Ok((started, root)) => {
                            self.check_input(start, &started).await?;
                            (false, started, root)
                        }
                        // The refusal shows what is deployed, which must be durable too.
                        Err(refused) => return self.refuse(refused).await,
                    }
                }
            };
            let execution = ExecutionId::root_of(root);
            // Watch before the tree is asked: the end is not missed, and a volatile operation is
            // not released when another caller leaves.
            let mut interest = (waits == Waits::Yes).then(|| {
                let mut interest = Interest::idle(Arc::clone(shared), &execution);
                interest.watch(class(&started).durability == Durability::Volatile);
                interest
            });
            if let Some(before) = before.take() {
                before.ends();
            }
            let (operation, keyed) = (operation.clone(), keyed.clone());
            let request = OperationRequest { operation, root, binding, keyed };
            let (actor, kept) = (start.actor.clone(), waits == Waits::No);
            let labels = start.labels.clone();
            let what = input::Start { started, request, again, actor, kept, labels };
            let what = Request::Start(Box::new(what));
            let Answer { reply, position } = shared.replied(flow, &root, what, room, lock).await?;
            let Reply::Begun(value) = reply else { return Err(misanswered(&reply).into()) };
            let refused = match value {
                StartReply::New(execution) => {
                    if let Some(interest) = &mut interest {
                        interest.watched_from_the_start();
                    }
                    return begun(execution, Verdict::Fresh, position, interest);
                }
                StartReply::Already(execution) => {
                    return begun(execution, Verdict::InFlight, position, interest);
                }
                StartReply::Indeterminate => Some(StartRefused::Indeterminate),
                StartReply::Raced => None,
            };
            if let Some(refused) = refused {
                // This request started nothing: it must release nothing.
                if let Some(interest) = interest {
                    interest.ends();
                }
                self.shared.store.durable(position).await.map_err(EngineError::from)?;
                return Err(refused);
            }
            before = interest;
        }
        let message = format!(
            "the operation {new} has an execution, or its key has a record, but no record links \
             them"
        );
        Err(EngineError::Malformed(message).into())
    }

    /// The operation that a request under this key led to.
    async fn known(
        &self,
        id: &Id,
        keyed: &KeyedStart,
    ) -> Result<Option<OperationId>, StartRefused> {
        let found = windows::get::<KeyRecord>(&self.shared.store, id).map_err(EngineError::from)?;
        let Some(record) = found.value.map(|found| found.record) else { return Ok(None) };
        match record.led_to {
            KeyOutcome::Operation(id) if record.hash == keyed.hash => Ok(Some(id)),
            // I-12: a key that was used for anything but a start does not match either.
            KeyOutcome::Operation(_) | KeyOutcome::Answer(_) | KeyOutcome::Target(_) => {
                self.refuse(StartRefused::Mismatch).await
            }
        }
    }

    /// A refusal is an answer too: what it shows must be durable (D2).
    async fn refuse<T>(&self, refused: StartRefused) -> Result<T, StartRefused> {
        self.durable_now().await?;
        Err(refused)
    }

    /// What an execution is started with, and the root of its tree.
    fn started(
        &self,
        start: &Start,
        operation: &OperationKey,
    ) -> Result<(Started, RootHash), StartRefused> {
        // Checked for new operations only: a repeated request finds its operation, however large
        // its input.
        let (bytes, max) =
            (start.input.bytes.len(), self.shared.guests.options().payload_bytes_max);
        if bytes > max {
            return Err(StartRefused::TooLarge { bytes, max });
        }
        let components = &self.shared.components;
        let no_component = || StartRefused::NoComponent(start.component.clone());
        let digest = components.active(&start.component).ok_or_else(no_component)?;
        self.started_by(start, operation, digest)
    }

    /// Refuses an input that does not fit the function of the version that a new operation would
    /// start. An operation that is known has been accepted, whatever later versions take.
    async fn check_input(&self, start: &Start, started: &Started) -> Result<(), StartRefused> {
        let Started { component_digest, function_name, input, .. } = started;
        let checked = self.shared.check_input(component_digest, function_name, input).await;
        let problems = checked.map_err(StartRefused::from)?;
        if problems.is_empty() {
            return Ok(());
        }
        let (component, function) = (start.component.clone(), start.function.clone());
        self.refuse(StartRefused::InvalidInput { component, function, problems }).await
    }

    /// What the record of an operation says of it.
    fn recorded(
        &self,
        start: &Start,
        operation: &OperationKey,
        stored: &WindowedRecord<Operation>,
    ) -> Result<OperationLookup, StartRefused> {
        let Operation { root, binding, .. } = stored.record;
        let found = |class, progress, volatile| {
            let known = Known { binding, class, progress };
            OperationLookup { known, execution: ExecutionId::root_of(root), volatile }
        };
        if !stored.is_in_progress() {
            return Ok(found(RetryClass::PERSIST, Progress::Ended, None));
        }
        // The root contains the version that the operation was admitted with (D6).
        let mut versions = self.shared.components.versions(&start.component).into_iter();
        let admitted = |digest: &_| RootHash::derive(digest, None, operation) == root;
        let goes_on = found(RetryClass::PERSIST, Progress::GoesOn, None);
        let Some(digest) = versions.find(admitted) else { return Ok(goes_on) };
        let (started, root) = match self.started_by(start, operation, digest) {
            Ok(begins) => begins,
            Err(StartRefused::Engine(error)) => return Err(error.into()),
            // That version has no such function: the request differs from the one that was
            // admitted.
            Err(_) => return Ok(goes_on),
        };
        Ok(match class(&started) {
            class if class.durability == Durability::Volatile => {
                found(class, Progress::GoesOn, Some((started, root)))
            }
            _ => goes_on,
        })
    }

    /// Finds an operation whose id carries no time, and whose record has expired while its
    /// execution is still stored (C-3): the journal says what was asked for.
    fn forgotten(
        &self,
        start: &Start,
        operation: &OperationKey,
    ) -> Result<Option<OperationLookup>, EngineError> {
        if start.operation_id.as_ref().is_none_or(|id| id::created_at(id).is_some()) {
            return Ok(None);
        }
        let store = &self.shared.store;
        let Some(digest) = self.shared.components.active(&start.component) else { return Ok(None) };
        let execution = ExecutionId::root_of(RootHash::derive(&digest, None, operation));
        let Some(row) = executions::latest(store, &execution)?.value else { return Ok(None) };
        let first = journals::read(store, &row.key, 0, 1)?.value.records.into_iter().next();
        let Some(Event::ExecutionStarted(first)) = first.map(|record| record.event) else {
            // Retention has taken the journal meanwhile.
            return Ok(None);
        };
        let called = format!("{}/{}", start.component, first.function_name);
        let over = row.standing.is_terminal();
        let known = Known {
            binding: Binding::of(&called, &first.input),
            class: RetryClass::PERSIST,
            progress: if over { Progress::Ended } else { Progress::GoesOn },
        };
        Ok(Some(OperationLookup { known, execution, volatile: None }))
    }

    fn started_by(
        &self,
        start: &Start,
        operation: &OperationKey,
        digest: ComponentDigest,
    ) -> Result<(Started, RootHash), StartRefused> {
        let Start { function, input, trace_parent, .. } = start;
        let (input, trace_parent) = (input.clone(), trace_parent.clone());
        let begins = self.shared.started_by(operation, digest, function, input, trace_parent);
        begins.map_err(EngineError::from)?.ok_or_else(|| {
            let component = start.component.clone();
            match self.shared.components.functions(&digest) {
                Ok(Some(functions)) => {
                    let (function, has) = (start.function.clone(), names(&functions));
                    StartRefused::NoFunction { component, function, has }
                }
                _ => StartRefused::NoComponent(component),
            }
        })
    }
}

impl Shared {
    /// What an execution of this version is started with, and the root of its tree; `None` if the
    /// version is gone or has no such function.
    pub(crate) fn started_by(
        &self,
        operation: &OperationKey,
        digest: ComponentDigest,
        function: &str,
        input: Payload,
        trace_parent: Option<TraceParent>,
    ) -> Result<Option<(Started, RootHash)>, ComponentError> {
        let Some(functions) = self.components.functions(&digest)? else { return Ok(None) };
        let Some(spec) = functions.function(function) else { return Ok(None) };
        let root = RootHash::derive(&digest, None, operation);
        let key = JournalKey::first(ExecutionId::root_of(root));
        let started = Started {
            component_digest: digest,
            function_name: spec.name.clone(),
            input,
            parent_id: None,
            idempotency_key: Some(operation.clone()),
            attempts: key.attempts().clone(),
            limits: self.guests.options().limits,
            retry_policy: Some(Arc::clone(&spec.retry_policy)),
            trace_parent,
        };
        Ok(Some((started, root)))
    }
}

fn class(started: &Started) -> RetryClass {
    started.retry_policy.as_ref().map_or(RetryClass::PERSIST, |policy| policy.class)
}

/// The flow of a function: its calls take turns with those of other functions.
pub(super) fn flow(called: &str) -> Flow {
    Flow::of(foldhash::fast::FixedState::default().hash_one(called))
}

/// The names of all functions, for people.
pub(crate) fn names(manifest: &Manifest) -> String {
    let names: Vec<_> =
        manifest.functions().iter().map(|function| function.name.as_str()).collect();
    names.join(", ")
}

/// An operation id of our own: a UUIDv7 (C-31), in the slot of its key (C-77).
fn mint(shared: &Shared, slot: Option<Slot>) -> OperationId {
    let mut random = [0; 10];
    shared.entropy.fill(Purpose::Id, &mut random);
    id::mint(shared.clock.now(), &random, slot)
}

impl Shared {
    /// Judges an operation id that has no record (C-3). Must come after the lookup of the record:
    /// if that is purged in between, the id has expired by now. The wall clock alone does not
    /// judge: if it was set back, an id whose record was purged would look new.
    pub(super) fn age(&self, operation: &OperationKey) -> Age {
        let now = self.clock.now().max(self.retention_clock.purged());
        self.limits.retention.age(&operation.operation_id, now)
    }
}
