//! The format of a trace, and how the model's values stand for the journal's (C-38).

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, ensure};
use indelible_journal::{
    Attempt, AwaitKind, Codec, ComponentDigest, DeliveryId, ErrorKind, Event, ExecutionId, Failure,
    FunctionName, InvokeKind, JoinSetId, JournalKey, Limits, Micros, Namespace, OperationId,
    OperationKey, Outcome, Payload, PromiseId, RetryBound, RetryCause, RetryPolicy, RootHash, Rule,
    SignalName, Started, Timestamp, WaitSet, WaitSetError,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The model's cap on retries, whatever the policy's name.
const RETRIES_MAX: u32 = 3;

#[derive(Deserialize)]
pub(super) struct Trace {
    #[serde(rename = "trace")]
    pub(super) name: String,
    pub(super) refused_at: Option<usize>,
    #[serde(default)]
    pub(super) violates: Vec<String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Deserialize)]
pub(super) struct Step {
    pub(super) exec: ModelId,
    pub(super) seq: u64,
    pub(super) ts: u64,
    #[serde(flatten)]
    pub(super) event: ModelEvent,
    pub(super) status: Option<Tagged<ModelStatus>>,
    pub(super) next: Option<u32>,
}

/// `[3,0]` is child 0 of execution `[3]`.
pub(super) type ModelId = Vec<u32>;

/// A value of a sum type: `{"tag": …, "value": …}`.
#[derive(Deserialize)]
pub(super) struct Tagged<T> {
    pub(super) tag: String,
    #[serde(default = "Option::default")]
    pub(super) value: Option<T>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum ModelStatus {
    Blocked { waiting_on: Vec<ModelId>, kind: ModelKind },
    Other(IgnoredAny),
}

#[derive(Deserialize)]
pub(super) struct ModelKind {
    tag: String,
    #[serde(default)]
    value: ModelSignal,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ModelSignal {
    Signal { name: String, promise_id: ModelId },
    Other(IgnoredAny),
}

impl Default for ModelSignal {
    fn default() -> Self {
        Self::Other(IgnoredAny)
    }
}

#[derive(Deserialize)]
#[serde(tag = "event", content = "data")]
pub(super) enum ModelEvent {
    ExecutionStarted {
        component_digest: String,
        idempotency_key: String,
        input: String,
    },
    ExecutionCompleted {
        result: String,
    },
    ExecutionFailed {
        error: String,
    },
    CancelRequested {
        reason: String,
    },
    ExecutionCancelled {
        reason: String,
    },
    InvokeScheduled {
        promise_id: ModelId,
        kind: Tagged<IgnoredAny>,
        function_name: String,
        input: String,
    },
    InvokeStarted {
        promise_id: ModelId,
        attempt: u32,
    },
    InvokeCompleted {
        promise_id: ModelId,
        result: String,
        attempt: u32,
    },
    InvokeRetrying {
        promise_id: ModelId,
        failed_attempt: u32,
        error: String,
        retry_at: u64,
    },
    RandomGenerated {
        promise_id: ModelId,
        value: String,
    },
    TimeRecorded {
        promise_id: ModelId,
        time: u64,
    },
    TimerScheduled {
        promise_id: ModelId,
        duration: u64,
        fire_at: u64,
    },
    TimerFired {
        promise_id: ModelId,
    },
    SignalDelivered {
        signal_name: String,
        payload: String,
        delivery_id: u64,
    },
    SignalReceived {
        promise_id: ModelId,
        signal_name: String,
        payload: String,
        delivery_id: u64,
    },
    ExecutionAwaiting {
        waiting_on: Vec<ModelId>,
        kind: ModelKind,
    },
    ExecutionResumed(IgnoredAny),
    JoinSetCreated {
        join_set_id: ModelId,
    },
    JoinSetSubmitted {
        join_set_id: ModelId,
        promise_id: ModelId,
    },
    JoinSetAwaited {
        join_set_id: ModelId,
        promise_id: ModelId,
        result: String,
    },
}

/// The model's executions as the journal's: each has a root of its own.
pub(super) struct Names {
    roots: BTreeMap<u32, RootHash>,
}

/// A step that no event can express, because the journal's types already rule it out.
pub(super) struct Inexpressible {
    pub(super) rule: &'static str,
    pub(super) reason: String,
}

impl Names {
    /// A root's hash is made from its ExecutionStarted event (J-1), so that event is looked up
    /// first.
    pub(super) fn of(trace: &Trace) -> anyhow::Result<Self> {
        let mut roots = BTreeMap::new();
        for step in &trace.steps {
            let exec = *step.exec.first().context("an execution's id is empty")?;
            if let ModelEvent::ExecutionStarted { component_digest, idempotency_key, .. } =
                &step.event
            {
                let digest = digest(component_digest);
                let operation = operation(exec, idempotency_key)?;
                roots.entry(exec).or_insert(RootHash::derive(&digest, None, &operation));
            }
        }
        Ok(Self { roots })
    }

    fn promise(&self, id: &ModelId) -> anyhow::Result<PromiseId> {
        let (exec, path) = id.split_first().context("an id is empty")?;
        // An execution that never starts has no parts to make a hash from.
        let unstarted = ComponentDigest::of(format!("model execution {exec}").as_bytes());
        let root = self.roots.get(exec).copied();
        let root = root.unwrap_or(RootHash::from_bytes(*unstarted.as_bytes()));
        Ok(PromiseId::new(root, path)?)
    }

    pub(super) fn key(&self, exec: &ModelId) -> anyhow::Result<JournalKey> {
        Ok(JournalKey::first(ExecutionId::new(self.promise(exec)?)?))
    }

    pub(super) fn wait_set(
        &self,
        key: &JournalKey,
        ids: &[ModelId],
    ) -> anyhow::Result<Result<WaitSet, Inexpressible>> {
        let promises: Vec<_> = ids.iter().map(|id| self.promise(id)).collect::<Result<_, _>>()?;
        Ok(WaitSet::new(key.execution_id(), promises).map_err(|error| Inexpressible {
            rule: match error {
                WaitSetError::Duplicate(_) => "J-90",
                _ => Rule::C26.id(),
            },
            reason: error.to_string(),
        }))
    }

    pub(super) fn kind(&self, kind: &ModelKind) -> anyhow::Result<AwaitKind> {
        let signal = || match &kind.value {
            ModelSignal::Signal { name, promise_id } => {
                anyhow::Ok((SignalName::new(name)?, self.promise(promise_id)?))
            }
            ModelSignal::Other(_) => anyhow::bail!("{} without name and promise_id", kind.tag),
        };
        Ok(match kind.tag.as_str() {
            "Single" => AwaitKind::Single,
            "Any" => AwaitKind::Any,
            "All" => AwaitKind::All,
            "AwaitSignal" | "Signal" => {
                let (name, promise_id) = signal()?;
                AwaitKind::Signal { name, promise_id }
            }
            "AwaitSignalOr" | "SignalOr" => {
                let (name, promise_id) = signal()?;
                AwaitKind::SignalOr { name, promise_id }
            }
            other => anyhow::bail!("unknown kind of await `{other}`"),
        })
    }

    /// The journal's event for the model's. The outer error is a malformed trace.
    pub(super) fn event(
        &self,
        key: &JournalKey,
        event: &ModelEvent,
    ) -> anyhow::Result<Result<Event, Inexpressible>> {
        use ModelEvent as M;
        Ok(Ok(match event {
            M::ExecutionStarted { component_digest, idempotency_key, input } => {
                let exec = self.number_of(key);
                Event::ExecutionStarted(Box::new(Started {
                    component_digest: digest(component_digest),
                    function_name: FunctionName::new("model")?,
                    input: payload(input),
                    // The model allows any parent, even the execution itself.
                    parent_id: None,
                    idempotency_key: Some(operation(exec, idempotency_key)?),
                    attempts: key.attempts().clone(),
                    limits: Limits {
                        memory_bytes_max: 0,
                        stack_bytes_max: 0,
                        table_elements_max: 0,
                    },
                    retry_policy: None,
                    trace_parent: None,
                }))
            }
            M::ExecutionCompleted { result } => {
                Event::ExecutionCompleted { result: payload(result) }
            }
            M::ExecutionFailed { error } => Event::ExecutionFailed { error: failure(error) },
            M::CancelRequested { reason } => Event::CancelRequested { reason: reason.clone() },
            M::ExecutionCancelled { reason } => {
                Event::ExecutionCancelled { reason: reason.clone() }
            }
            M::InvokeScheduled { promise_id, kind, function_name, input } => {
                Event::InvokeScheduled {
                    promise_id: self.promise(promise_id)?,
                    kind: match kind.tag.as_str() {
                        "Function" => InvokeKind::Function,
                        "Http" => InvokeKind::Http,
                        other => anyhow::bail!("unknown kind of invoke `{other}`"),
                    },
                    function_name: FunctionName::new(function_name)?,
                    input: payload(input),
                    retry_policy: Arc::new(RetryPolicy {
                        bound: RetryBound::Bounded(RETRIES_MAX),
                        ..RetryPolicy::default()
                    }),
                }
            }
            M::InvokeStarted { promise_id, attempt } => {
                let promise_id = self.promise(promise_id)?;
                let Some(attempt) = Attempt::new(*attempt) else { return Ok(Err(attempt_zero())) };
                Event::InvokeStarted { promise_id, attempt }
            }
            M::InvokeCompleted { promise_id, result, attempt } => {
                let (promise_id, result) =
                    (self.promise(promise_id)?, Outcome::Ok(payload(result)));
                let Some(attempt) = Attempt::new(*attempt) else { return Ok(Err(attempt_zero())) };
                Event::InvokeCompleted { promise_id, result, attempt }
            }
            M::InvokeRetrying { promise_id, failed_attempt, error, retry_at } => {
                let promise_id = self.promise(promise_id)?;
                let Some(failed_attempt) = Attempt::new(*failed_attempt) else {
                    return Ok(Err(attempt_zero()));
                };
                let (cause, error) = (RetryCause::Failed, failure(error));
                let retry_at = timestamp(*retry_at)?;
                Event::InvokeRetrying { promise_id, failed_attempt, cause, error, retry_at }
            }
            M::RandomGenerated { promise_id, value } => Event::RandomGenerated {
                promise_id: self.promise(promise_id)?,
                value: value.clone().into(),
            },
            M::TimeRecorded { promise_id, time } => Event::TimeRecorded {
                promise_id: self.promise(promise_id)?,
                time: timestamp(*time)?,
            },
            M::TimerScheduled { promise_id, duration, fire_at } => Event::TimerScheduled {
                promise_id: self.promise(promise_id)?,
                duration: Micros::new(*duration),
                fire_at: timestamp(*fire_at)?,
            },
            M::TimerFired { promise_id } => {
                Event::TimerFired { promise_id: self.promise(promise_id)? }
            }
            M::SignalDelivered { signal_name, payload: carried, delivery_id } => {
                let Some(delivery_id) = DeliveryId::new(*delivery_id) else {
                    return Ok(Err(delivery_zero(Rule::J44)));
                };
                let signal_name = SignalName::new(signal_name)?;
                Event::SignalDelivered { signal_name, payload: payload(carried), delivery_id }
            }
            M::SignalReceived { promise_id, signal_name, payload: carried, delivery_id } => {
                let Some(delivery_id) = DeliveryId::new(*delivery_id) else {
                    return Ok(Err(delivery_zero(Rule::CF2)));
                };
                let promise_id = self.promise(promise_id)?;
                let signal_name = SignalName::new(signal_name)?;
                let payload = payload(carried);
                Event::SignalReceived { promise_id, signal_name, payload, delivery_id }
            }
            M::ExecutionAwaiting { waiting_on, kind } => match self.wait_set(key, waiting_on)? {
                Ok(waiting_on) => Event::ExecutionAwaiting { waiting_on, kind: self.kind(kind)? },
                Err(inexpressible) => return Ok(Err(inexpressible)),
            },
            M::ExecutionResumed(_) => Event::ExecutionResumed,
            M::JoinSetCreated { join_set_id } => {
                Event::JoinSetCreated { join_set_id: self.join_set(join_set_id)? }
            }
            M::JoinSetSubmitted { join_set_id, promise_id } => Event::JoinSetSubmitted {
                join_set_id: self.join_set(join_set_id)?,
                promise_id: self.promise(promise_id)?,
            },
            M::JoinSetAwaited { join_set_id, promise_id, result } => Event::JoinSetAwaited {
                join_set_id: self.join_set(join_set_id)?,
                promise_id: self.promise(promise_id)?,
                result: Outcome::Ok(payload(result)),
            },
        }))
    }

    fn join_set(&self, id: &ModelId) -> anyhow::Result<JoinSetId> {
        Ok(JoinSetId::at(self.promise(id)?))
    }

    fn number_of(&self, key: &JournalKey) -> u32 {
        let root = key.execution_id().root();
        let found = self.roots.iter().find(|(_, known)| *known == root);
        found.map_or(0, |(number, _)| *number)
    }
}

fn digest(name: &str) -> ComponentDigest {
    ComponentDigest::of(name.as_bytes())
}

/// The model's key is the operation id (C-38); equal keys of two executions are no duplicate in
/// the model, so each has a namespace of its own.
fn operation(exec: u32, key: &str) -> anyhow::Result<OperationKey> {
    Ok(OperationKey {
        namespace: Namespace::new(&format!("model-{exec}"))?,
        operation_id: OperationId::new(key)?,
    })
}

fn payload(text: &str) -> Payload {
    Payload::new(Codec::TEXT, text.to_owned())
}

fn failure(text: &str) -> Box<Failure> {
    Box::new(Failure::new(ErrorKind::Uncategorized, text))
}

pub(super) fn timestamp(clock: u64) -> anyhow::Result<Timestamp> {
    let time = Timestamp::from_micros(clock);
    ensure!(time.is_some(), "the time {clock} is out of range");
    Ok(time.unwrap_or_default())
}

fn attempt_zero() -> Inexpressible {
    Inexpressible { rule: Rule::C18.id(), reason: "attempts count from 1".to_owned() }
}

fn delivery_zero(rule: Rule) -> Inexpressible {
    Inexpressible { rule: rule.id(), reason: "deliveries count from 1".to_owned() }
}
