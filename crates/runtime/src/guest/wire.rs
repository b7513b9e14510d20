//! The types of the contract as they cross into and out of a guest, and their equivalents in the
//! journal. `crates/sdk/wit/guest.wit` is the authority.

use indelible_execution::policy::Retries;
use indelible_journal::{self as journal, Codec, ErrorKind, Outcome};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::host;

/// `payload`. The bytes are copied once.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct Payload {
    codec: u8,
    bytes: Vec<u8>,
}

impl From<journal::Payload> for Payload {
    fn from(payload: journal::Payload) -> Self {
        Self { codec: payload.codec.number(), bytes: payload.bytes.into() }
    }
}

impl From<Payload> for journal::Payload {
    fn from(payload: Payload) -> Self {
        Self::new(Codec::from_number(payload.codec), payload.bytes)
    }
}

/// `error-kind`.
#[derive(Debug, Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
pub(super) enum Kind {
    #[component(name = "user-error")]
    UserError,
    #[component(name = "transient")]
    Transient,
    #[component(name = "trap")]
    Trap,
    #[component(name = "timeout")]
    Timeout,
    #[component(name = "cancelled")]
    Cancelled,
    #[component(name = "nondeterminism")]
    Nondeterminism,
    #[component(name = "indeterminate")]
    Indeterminate,
    #[component(name = "not-performed")]
    NotPerformed,
    #[component(name = "uncategorized")]
    Uncategorized,
}

impl From<ErrorKind> for Kind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::UserError => Self::UserError,
            ErrorKind::Transient => Self::Transient,
            ErrorKind::Trap => Self::Trap,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Nondeterminism => Self::Nondeterminism,
            ErrorKind::Indeterminate => Self::Indeterminate,
            ErrorKind::NotPerformed => Self::NotPerformed,
            ErrorKind::Uncategorized => Self::Uncategorized,
        }
    }
}

/// As a guest returns it. Only the engine finds that a guest trapped or ran differently; a guest
/// must not claim it: those attempts would be retried, or their execution be stuck.
impl From<Kind> for ErrorKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::UserError | Kind::Trap | Kind::Nondeterminism => Self::UserError,
            Kind::Transient => Self::Transient,
            Kind::Timeout => Self::Timeout,
            Kind::Cancelled => Self::Cancelled,
            Kind::Indeterminate => Self::Indeterminate,
            Kind::NotPerformed => Self::NotPerformed,
            Kind::Uncategorized => Self::Uncategorized,
        }
    }
}

/// `failure`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct Failure {
    kind: Kind,
    message: String,
    detail: Option<Payload>,
}

impl From<journal::Failure> for Failure {
    fn from(failure: journal::Failure) -> Self {
        let journal::Failure { kind, message, detail } = failure;
        Self { kind: kind.into(), message, detail: detail.map(Into::into) }
    }
}

impl From<Failure> for journal::Failure {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, detail } = failure;
        Self { kind: kind.into(), message, detail: detail.map(Into::into) }
    }
}

/// `outcome`.
pub(super) type WireOutcome = Result<Payload, Failure>;

/// An outcome, to be handed to a guest.
pub(super) fn outcome(outcome: Outcome) -> WireOutcome {
    match outcome {
        Outcome::Ok(payload) => Ok(payload.into()),
        Outcome::Err(failure) => Err((*failure).into()),
    }
}

/// `settled`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(super) struct Settled {
    promise: u32,
    outcome: WireOutcome,
}

impl From<host::Settled> for Settled {
    fn from(settled: host::Settled) -> Self {
        Self { promise: settled.promise, outcome: outcome(settled.outcome) }
    }
}

/// `cancelled`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(super) struct Cancelled {
    /// Why, for people.
    pub(super) reason: String,
}

/// `signal-or-settled`.
#[derive(Debug, ComponentType, Lower)]
#[component(variant)]
pub(super) enum SignalOrSettled {
    #[component(name = "signal")]
    Signal(Payload),
    #[component(name = "settled")]
    Settled(Settled),
}

/// `context`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(super) struct Context {
    #[component(name = "execution-id")]
    execution_id: String,
    attempt: u32,
    #[component(name = "parent-id")]
    parent_id: Option<String>,
    function: String,
}

impl From<host::Context> for Context {
    fn from(context: host::Context) -> Self {
        let host::Context { execution_id, attempt, parent_id, function } = context;
        Self { execution_id, attempt, parent_id, function }
    }
}

/// `level`.
#[derive(Debug, Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "lifting makes them from their numbers")]
pub(super) enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

impl From<Level> for host::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::Trace,
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

/// `retry-policy`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(super) struct RetryPolicy {
    #[component(name = "retries-max")]
    pub(super) retries_max: Option<u32>,
    #[component(name = "backoff-base")]
    pub(super) backoff_base: u64,
    #[component(name = "backoff-cap")]
    pub(super) backoff_cap: u64,
    pub(super) deadline: Option<u64>,
}

impl From<RetryPolicy> for Retries {
    fn from(policy: RetryPolicy) -> Self {
        let RetryPolicy { retries_max, backoff_base, backoff_cap, deadline } = policy;
        Self { retries_max, backoff_base, backoff_cap, deadline }
    }
}

/// `function`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) persist: bool,
    pub(super) idem: bool,
    #[component(name = "retry-policy")]
    pub(super) retry_policy: RetryPolicy,
    #[component(name = "input-schema")]
    pub(super) input_schema: Option<String>,
    #[component(name = "output-schema")]
    pub(super) output_schema: Option<String>,
}

/// What `describe` takes.
pub(super) type DescribeParams = ();
/// What `describe` returns.
pub(super) type DescribeReturn = (Vec<Function>,);
/// What `run` takes.
pub(super) type RunParams = (String, Payload);
/// What `run` returns.
pub(super) type RunReturn = (Result<Payload, Failure>,);
