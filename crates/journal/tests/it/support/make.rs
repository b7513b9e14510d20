//! Parts of events, in few words: executions, names, payloads, policies.

use std::sync::Arc;

use indelible_journal::{
    Attempt, Attempts, ComponentDigest, DeliveryId, ErrorKind, Event, ExecutionId, Failure,
    FunctionName, InvokeKind, JoinSetId, JournalKey, Limits, Namespace, OperationId, OperationKey,
    Outcome, Payload, PromiseId, Reconciler, Record, RetryBound, RetryClass, RetryPolicy, RootHash,
    Sequence, SignalName, Started, Timestamp, WaitSet,
};
use indelible_journal::{Micros, RetryCause};

/// An execution that can be started: its key, and what its first event says.
#[derive(Clone)]
pub(crate) struct Execution {
    pub(crate) key: JournalKey,
    pub(crate) started: Started,
}

impl Execution {
    /// A root at the attempts' only number, started by `parent`, if that was an execution.
    pub(crate) fn root(parent: Option<ExecutionId>, own: u32) -> Self {
        let digest = ComponentDigest::of(b"component");
        let key = operation("op-1");
        let root = RootHash::derive(&digest, parent.as_ref(), &key);
        Self::make(ExecutionId::root_of(root), &[own], parent, Some(key), Some(policy(3)))
    }

    /// A call at this path, with one attempt for the root and each segment.
    pub(crate) fn child(path: &[u32], attempts: &[u32]) -> Self {
        let root = RootHash::from_bytes([7; 32]);
        let promise = PromiseId::new(root, path).expect("the path is not too long");
        let id = ExecutionId::new(promise).expect("the path is not too long");
        let parent = id.parent();
        Self::make(id, attempts, parent, None, None)
    }

    fn make(
        id: ExecutionId,
        numbers: &[u32],
        parent_id: Option<ExecutionId>,
        idempotency_key: Option<OperationKey>,
        retry_policy: Option<Arc<RetryPolicy>>,
    ) -> Self {
        let attempts = attempts(numbers);
        let started = Started {
            component_digest: ComponentDigest::of(b"component"),
            function_name: function("main"),
            input: payload(0),
            parent_id,
            idempotency_key,
            attempts: attempts.clone(),
            limits: Limits { memory_bytes_max: 1, stack_bytes_max: 1, table_elements_max: 1 },
            retry_policy,
            trace_parent: None,
        };
        Self { key: JournalKey::new(id, attempts).expect("one attempt for each call"), started }
    }

    pub(crate) fn id(&self) -> &ExecutionId {
        self.key.execution_id()
    }

    /// The legal first event.
    pub(crate) fn start(&self) -> Event {
        Event::ExecutionStarted(Box::new(self.started.clone()))
    }

    /// Child `number` of this execution.
    pub(crate) fn pid(&self, number: u32) -> PromiseId {
        self.id().child(number)
    }

    pub(crate) fn set(&self, number: u32) -> JoinSetId {
        JoinSetId::at(self.pid(number))
    }

    /// These children, to wait on; a number that is given twice counts once.
    pub(crate) fn wait(&self, numbers: &[u32]) -> WaitSet {
        wait_set(self.id(), numbers)
    }
}

pub(crate) fn wait_set(id: &ExecutionId, numbers: &[u32]) -> WaitSet {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    WaitSet::of_numbers(id, numbers).expect("no number stands twice")
}

/// An execution of another tree.
pub(crate) fn foreign() -> ExecutionId {
    ExecutionId::root_of(RootHash::from_bytes([9; 32]))
}

pub(crate) fn operation(id: &str) -> OperationKey {
    OperationKey {
        namespace: Namespace::new("test").expect("a name"),
        operation_id: OperationId::new(id).expect("a name"),
    }
}

pub(crate) fn attempt(number: u32) -> Attempt {
    Attempt::new(number).expect("attempts count from 1")
}

pub(crate) fn attempts(numbers: &[u32]) -> Attempts {
    let numbers: Vec<Attempt> = numbers.iter().map(|number| attempt(*number)).collect();
    Attempts::new(&numbers).expect("there is at least the root's")
}

pub(crate) fn delivery(number: u64) -> DeliveryId {
    DeliveryId::new(number).expect("deliveries count from 1")
}

pub(crate) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).expect("before the year 9999")
}

pub(crate) fn function(name: &str) -> FunctionName {
    FunctionName::new(name).expect("a name")
}

pub(crate) fn signal(name: &str) -> SignalName {
    SignalName::new(name).expect("a name")
}

/// Few payloads; two of them differ in their codec alone.
pub(crate) fn payload(n: u64) -> Payload {
    match n % 3 {
        0 => Payload::json("1"),
        1 => Payload::json("2"),
        _ => Payload::new(indelible_journal::Codec::RAW, "1"),
    }
}

/// Few outcomes, of both kinds.
pub(crate) fn outcome(n: u64) -> Outcome {
    match n % 5 {
        3 => Failure::new(ErrorKind::UserError, "no").into(),
        4 => Failure::new(ErrorKind::Indeterminate, "no").into(),
        n => Outcome::Ok(payload(n)),
    }
}

pub(crate) fn failure() -> Box<Failure> {
    Box::new(Failure::new(ErrorKind::Transient, "later"))
}

/// The default, with another bound.
pub(crate) fn policy(bound: u32) -> Arc<RetryPolicy> {
    Arc::new(RetryPolicy { bound: RetryBound::Bounded(bound), ..RetryPolicy::default() })
}

/// The 32 policies that the rules can tell apart: four bounds, four classes, a reconciler or none.
pub(crate) fn any_policy(n: u64) -> Arc<RetryPolicy> {
    let bound = match n % 4 {
        3 => RetryBound::Unbounded,
        bound => RetryBound::Bounded(u32::try_from(bound).expect("below 3")),
    };
    let class = match (n & 4, n & 16) {
        (0, 0) => RetryClass::PERSIST,
        (0, _) => RetryClass::VOLATILE,
        (_, 0) => RetryClass::PERSIST_IDEM,
        _ => RetryClass::VOLATILE_IDEM,
    };
    let ask = Reconciler { function: function("ask"), settle: Micros::ZERO };
    let reconciler = (n & 8 != 0).then_some(ask);
    Arc::new(RetryPolicy { bound, class, reconciler, ..RetryPolicy::default() })
}

pub(crate) fn scheduled(promise_id: PromiseId, retry_policy: Arc<RetryPolicy>) -> Event {
    Event::InvokeScheduled {
        promise_id,
        kind: InvokeKind::Function,
        function_name: function("charge"),
        input: payload(0),
        retry_policy,
    }
}

pub(crate) fn retrying(promise_id: PromiseId, failed: u32, cause: RetryCause) -> Event {
    Event::InvokeRetrying {
        promise_id,
        failed_attempt: attempt(failed),
        cause,
        error: failure(),
        retry_at: at(1),
    }
}

/// Numbers and stamps events in their order, one microsecond apart from 0.
pub(crate) fn records(events: Vec<Event>) -> Vec<Record> {
    (0..)
        .zip(events)
        .map(|(n, event)| Record { sequence: Sequence::new(n), timestamp: at(n), event })
        .collect()
}
