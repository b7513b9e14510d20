//! Starting functions, and what comes of them (C-31).

use std::hash::BuildHasher as _;
use std::sync::Arc;

use indelible_idempotency::IdempotencyKey;
use indelible_journal::{
    Attempt, ComponentDigest, Durability, Ending, Event, ExecutionId, FunctionName, JournalKey,
    Namespace, OperationId, OperationKey, Payload, RootHash, Started, TraceParent,
};
use indelible_operations::Binding;
use indelible_operations::id;
use indelible_operations::retention::Age;
use indelible_store::Position;
use indelible_store::rows::executions::{self, Execution as Row};
use indelible_store::rows::journals;
use tokio::sync::oneshot;

use super::{Engine, EngineError, StartRefused};
use crate::admission::{Admitted, NotAdmitted};
use crate::guest::Manifest;
use crate::keys::{self, Keyed};
use crate::operation::{self, Known, Record, RecordError, Request};
use crate::run_queue::Flow;
use crate::shared::Shared;
use crate::tree::command::{Answer, Begun, Command};
use crate::tree::reconcile;
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
    /// ([`Options::operation_window`](crate::Options::operation_window) after its end); then
    /// nobody can tell it from a new one.
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
}

/// A function that was started. It is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedExecution {
    /// Its execution.
    pub execution_id: ExecutionId,
    /// The id of the operation.
    pub operation_id: OperationId,
    /// Whether it had been started before, by the same request.
    pub attached: bool,
}

/// How often a start may find that somebody else was quicker: once is enough, because then there
/// is a record.
const RACES_MAX: usize = 4;

/// What a start came to.
struct BegunStart<T> {
    started: StartedExecution,
    /// Nobody may be told before this is durable.
    position: Position,
    before: Option<T>,
}

impl Engine {
    /// Starts a function. When this returns, the start is durable: whatever happens, the function
    /// is carried through.
    pub async fn start(&self, start: Start) -> Result<StartedExecution, StartRefused> {
        let begun = self.begin(&start, |_| ()).await?;
        self.durable(begun.position).await?;
        Ok(begun.started)
    }

    /// Starts a function and waits for its end: one wait for the disk, where
    /// [`Engine::start`] and [`Engine::outcome`] have two.
    pub async fn call(&self, start: Start) -> Result<(StartedExecution, Ending), StartRefused> {
        let shared = &self.shared;
        let mut begun = self.begin(&start, |execution| shared.watchers.watch(execution)).await?;
        let execution = begun.started.execution_id.clone();
        let _watching = Watching { shared, execution: &execution };
        let ended = match (begun.started.attached, begun.before.take()) {
            // Watched since before it began.
            (false, Some(ended)) => ended,
            _ => {
                let ending = self.outcome(&execution).await?;
                let gone = || EngineError::Malformed(format!("{execution} is gone"));
                return Ok((begun.started, ending.ok_or_else(gone)?));
            }
        };
        let (ending, position) = ended.await.map_err(|_| self.stopped_why())?;
        self.durable(position).await?;
        Ok((begun.started, ending))
    }

    /// Starts a function, or finds that it was started. `before` is done with its execution when
    /// nothing has happened yet.
    async fn begin<T>(
        &self,
        start: &Start,
        before: impl Fn(&ExecutionId) -> T,
    ) -> Result<BegunStart<T>, StartRefused> {
        let shared = &self.shared;
        let max = shared.guests.options().payload_bytes_max;
        if start.input.bytes.len() > max {
            return Err(StartRefused::TooLarge { bytes: start.input.bytes.len(), max });
        }
        if start.namespace.as_str() == reconcile::NAMESPACE {
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
        let new = start.operation_id.clone().unwrap_or_else(|| mint(shared));
        let flow = flow(&called);
        let _room = self.room(flow).await?;
        let keyed = start.idempotency_key.as_ref();
        let keyed = keyed.map(|key| Keyed::new(key, &called, &start.input));
        for _ in 0..RACES_MAX {
            // Before an id is made or a version looked at: neither makes an old request new.
            let known = match &keyed {
                Some(keyed) => self.known(&start.namespace, keyed).await?,
                None => None,
            };
            let operation_id = known.clone().unwrap_or_else(|| new.clone());
            let operation = OperationKey { namespace: start.namespace.clone(), operation_id };
            let begun = |execution_id, attached, position, before| {
                let operation_id = operation.operation_id.clone();
                let started = StartedExecution { execution_id, operation_id, attached };
                Ok(BegunStart { started, position, before })
            };
            let mut lost = None;
            if let Some(Known { record, in_progress }) = find(shared, &operation)? {
                let position = shared.store.accepted();
                // V-9. A known key has compared the requests, by their canonical form.
                if record.binding != binding && known.is_none() {
                    return self.refuse(StartRefused::Conflict).await;
                }
                // What is volatile has no row before its end: its tree knows whether it goes on.
                if in_progress {
                    lost = self.volatile(start, &operation, &record)?;
                }
                if lost.is_none() {
                    // V-30, V-31: whether it goes on or is over, it is waited for.
                    return begun(operation::execution(&record), true, position, None);
                }
            } else if known.is_some() {
                // The key's record goes before the operation's: if only this one is left, both are
                // going.
                continue;
            } else if start.operation_id.is_some() {
                // V-59, C-3: never Absent because it was forgotten. What the engine made itself is
                // new.
                match operation::age(shared, &operation) {
                    Age::Fresh => {}
                    Age::Expired => return self.refuse(StartRefused::Expired).await,
                    Age::TooFarAhead => return self.refuse(StartRefused::FromTheFuture).await,
                }
            }
            let (again, started, root) = match lost {
                Some((attempt, started, root)) => (Some(attempt), started, root),
                None => {
                    let (started, root) = self.started(start, &operation)?;
                    (None, started, root)
                }
            };
            let done = before(&ExecutionId::root_of(root));
            let (operation, keyed) = (operation.clone(), keyed.clone());
            let request = Request { operation, root, binding, keyed };
            let (reply, answer) = oneshot::channel();
            let command = crate::tree::command::Start { started, request, again, reply };
            shared.send_in(flow, &root, Command::Start(Box::new(command)));
            let Answer { value, position } = answer.await.map_err(|_| self.stopped_why())?;
            match value {
                Begun::New(execution) => return begun(execution, false, position, Some(done)),
                Begun::Already(execution) => return begun(execution, true, position, Some(done)),
                Begun::Conflict => {
                    self.durable(position).await?;
                    return Err(StartRefused::Conflict);
                }
                Begun::Indeterminate => {
                    drop(done);
                    shared.watchers.forget(&ExecutionId::root_of(root));
                    self.durable(position).await?;
                    return Err(StartRefused::Indeterminate);
                }
                Begun::Raced => {
                    drop(done);
                    shared.watchers.forget(&ExecutionId::root_of(root));
                }
            }
        }
        let message = format!(
            "the operation {new} has an execution, or its key a record, and no record says which"
        );
        Err(EngineError::Malformed(message).into())
    }

    /// The operation that a request under this key led to.
    async fn known(
        &self,
        namespace: &Namespace,
        keyed: &Keyed,
    ) -> Result<Option<OperationId>, StartRefused> {
        match keys::find(&self.shared, namespace, &keyed.key).map_err(unreadable)? {
            None => Ok(None),
            Some(record) if record.hash == keyed.hash => Ok(Some(record.operation_id)),
            Some(_) => self.refuse(StartRefused::Mismatch).await,
        }
    }

    /// A refusal is an answer too: what it shows must be durable (D2).
    async fn refuse<T>(&self, refused: StartRefused) -> Result<T, StartRefused> {
        self.durable(self.shared.store.accepted()).await?;
        Err(refused)
    }

    /// What an execution is started with, and the root of its tree.
    fn started(
        &self,
        start: &Start,
        operation: &OperationKey,
    ) -> Result<(Started, RootHash), StartRefused> {
        let components = &self.shared.components;
        let no_component = || StartRefused::NoComponent(start.component.clone());
        let digest = components.active(&start.component).ok_or_else(no_component)?;
        self.started_by(start, operation, digest)
    }

    /// The same for a volatile operation whose record says that it goes on, with the attempt: the
    /// version that it was admitted with is part of its root (D6). None for a persist one, which
    /// goes on by itself.
    fn volatile(
        &self,
        start: &Start,
        operation: &OperationKey,
        record: &Record,
    ) -> Result<Option<(Attempt, Started, RootHash)>, StartRefused> {
        let mut versions = self.shared.components.versions(&start.component).into_iter();
        let admitted = |digest: &_| RootHash::derive(digest, None, operation) == record.root;
        let Some(digest) = versions.find(admitted) else { return Ok(None) };
        let (started, root) = self.started_by(start, operation, digest)?;
        let class = started.retry_policy.as_ref().map(|policy| policy.class.durability);
        Ok((class == Some(Durability::Volatile)).then_some((record.attempt, started, root)))
    }

    fn started_by(
        &self,
        start: &Start,
        operation: &OperationKey,
        digest: ComponentDigest,
    ) -> Result<(Started, RootHash), StartRefused> {
        let components = &self.shared.components;
        let no_component = || StartRefused::NoComponent(start.component.clone());
        let functions = components.functions(&digest).map_err(EngineError::from)?;
        let functions = functions.ok_or_else(no_component)?;
        let spec = functions.function(&start.function).ok_or_else(|| StartRefused::NoFunction {
            component: start.component.clone(),
            function: start.function.clone(),
            has: names(&functions),
        })?;
        let root = RootHash::derive(&digest, None, operation);
        let key = JournalKey::first(ExecutionId::root_of(root));
        let function_name: FunctionName = spec.name.clone();
        let started = Started {
            component_digest: digest,
            function_name,
            input: start.input.clone(),
            parent_id: None,
            idempotency_key: Some(operation.clone()),
            attempts: key.attempts().clone(),
            limits: self.shared.guests.options().limits,
            retry_policy: Some(Arc::clone(&spec.retry_policy)),
            trace_parent: start.trace_parent.clone(),
        };
        Ok((started, root))
    }

    /// Waits for an execution's end. None: there is no such execution, or it was volatile and its
    /// process has ended.
    pub async fn outcome(&self, execution: &ExecutionId) -> Result<Option<Ending>, EngineError> {
        let shared = &self.shared;
        let watching = Watching { shared, execution };
        let ended = shared.watchers.watch(execution);
        // Looked up after watching: an end between the two is seen twice, never missed.
        let row = match self.execution(execution).await? {
            // It may have ended since it was looked up.
            None if !self.is_volatile(execution).await? => {
                let Some(row) = self.execution(execution).await? else { return Ok(None) };
                Some(row)
            }
            row => row,
        };
        if let Some(row) = row
            && row.standing.is_terminal()
        {
            return Ok(Some(self.ending(&row).await?));
        }
        let (ending, position) = ended.await.map_err(|_| self.stopped_why())?;
        drop(watching);
        self.durable(position).await?;
        Ok(Some(ending))
    }

    /// Whether an execution goes on in memory alone (C-39).
    async fn is_volatile(&self, execution: &ExecutionId) -> Result<bool, EngineError> {
        let _room = self.room(Flow::GOING_ON).await?;
        let (reply, answer) = oneshot::channel();
        let command = Command::IsVolatile(execution.clone(), reply);
        self.shared.send(execution.root(), command);
        answered(&self.shared, answer).await
    }

    /// How an execution stands: the last attempt at it. What is shown is durable. None, too, for
    /// one that is volatile and has not ended.
    pub async fn execution(&self, execution: &ExecutionId) -> Result<Option<Row>, EngineError> {
        let seen = executions::latest(&self.shared.store, execution)?;
        self.shared.store.durable(seen.position).await?;
        Ok(seen.value)
    }

    /// How an execution ended, from its last event.
    async fn ending(&self, row: &Row) -> Result<Ending, EngineError> {
        let last = row.length.saturating_sub(1);
        let seen = journals::read(&self.shared.store, &row.key, last, 1)?;
        self.shared.store.durable(seen.position).await?;
        match seen.value.records.into_iter().last().map(|record| record.event) {
            Some(Event::ExecutionCompleted { result }) => Ok(Ending::Completed(result)),
            Some(Event::ExecutionFailed { error }) => Ok(Ending::Failed(error)),
            Some(Event::ExecutionCancelled { reason }) => Ok(Ending::Cancelled(reason)),
            _ => Err(EngineError::Malformed(format!("the journal of {} has no end", row.key))),
        }
    }

    /// Waits for room: so many commands are under way at most.
    pub(super) async fn room(&self, flow: Flow) -> Result<Admitted<'_>, EngineError> {
        self.shared.admission.admit(flow).await.map_err(|why| match why {
            NotAdmitted::Busy(waiting) => EngineError::Busy { waiting },
            NotAdmitted::Closed => self.stopped_why(),
        })
    }

    /// Everything that was read so far is durable.
    pub(super) async fn durable_now(&self) -> Result<(), EngineError> {
        self.durable(self.shared.store.accepted()).await
    }

    /// Waits for the disk.
    pub(super) async fn durable(&self, position: Position) -> Result<(), EngineError> {
        Ok(self.shared.store.durable(position).await?)
    }

    /// Why nobody answers.
    fn stopped_why(&self) -> EngineError {
        stopped(&self.shared)
    }
}

/// Calls of the same function take turns with those of others.
fn flow(called: &str) -> Flow {
    Flow::of(foldhash::fast::FixedState::default().hash_one(called))
}

/// The names of all functions, for people.
fn names(manifest: &Manifest) -> String {
    let names: Vec<_> =
        manifest.functions().iter().map(|function| function.name.as_str()).collect();
    names.join(", ")
}

/// Takes a watcher away when nobody waits any more, however that came.
struct Watching<'a> {
    shared: &'a Shared,
    execution: &'a ExecutionId,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.shared.watchers.forget(self.execution);
    }
}

/// An answer of a tree's, when what it depends on is durable (D2).
pub(super) async fn answered<T>(
    shared: &Shared,
    answer: oneshot::Receiver<Answer<T>>,
) -> Result<T, EngineError> {
    let Answer { value, position } = answer.await.map_err(|_| stopped(shared))?;
    shared.store.durable(position).await?;
    Ok(value)
}

/// Why nobody answers: the store has stopped, or the engine.
fn stopped(shared: &Shared) -> EngineError {
    match shared.store.poison() {
        Some(poison) => EngineError::Lost(indelible_store::Lost::Poisoned(poison)),
        None => EngineError::Stopped,
    }
}

fn find(shared: &Shared, operation: &OperationKey) -> Result<Option<Known>, EngineError> {
    operation::find(shared, operation).map_err(unreadable)
}

fn unreadable(error: RecordError) -> EngineError {
    match error {
        RecordError::Read(error) => error.into(),
        RecordError::Unknown(_) | RecordError::UnknownKey(_) => {
            EngineError::Malformed(error.to_string())
        }
    }
}

/// An operation id of our own: a UUIDv7 (C-31).
fn mint(shared: &Shared) -> OperationId {
    let mut random = [0; 10];
    shared.entropy.fill(Purpose::Id, &mut random);
    id::mint(shared.clock.now(), &random)
}
