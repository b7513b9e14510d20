//! What a running guest asks of its tree, and the answers: the Rust side of `interface host` in
//! `crates/sdk/wit/guest.wit`, in the journal's words.

use indelible_journal::{ComponentDigest, Failure, JournalKey, Limits, Outcome, Payload};

/// How many promises one await names at most: each is looked up, and all are journaled.
pub const PROMISES_AWAITED_MAX: usize = 10_000;

/// Refuses an await of too many promises.
pub fn check_promises(promises: &[u32]) -> Result<(), String> {
    if promises.len() <= PROMISES_AWAITED_MAX {
        return Ok(());
    }
    Err(format!(
        "the guest awaits {} promises at once; at most {PROMISES_AWAITED_MAX} are allowed: use a \
         join set",
        promises.len()
    ))
}

/// Why a call of the guest's has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The guest made a mistake: it traps with this message.
    Trap(String),
    /// The guest must stop, without an outcome: it diverged from its journal, or its tree is being
    /// dropped.
    Stop,
}

/// A promise and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Its number.
    pub promise: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// What a guest waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitRequest {
    /// One promise.
    One(u32),
    /// The first of these.
    Any(Vec<u32>),
    /// All of these.
    All(Vec<u32>),
    /// A signal.
    Signal(String),
    /// A signal, or the first of these.
    SignalOr(String, Vec<u32>),
    /// The next result of a join set.
    Next(u32),
    /// All results of a join set that were not taken.
    TakeAll(u32),
}

/// What a wait came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitResult {
    /// One promise, or the winner: for `One`, `Any`, `SignalOr`, `Next`.
    Settled(Settled),
    /// All of them, in the order of the promises (`All`) or of arrival (`TakeAll`).
    All(Vec<Settled>),
    /// The signal: for `Signal`, `SignalOr`.
    Signal(Payload),
    /// All were taken: for `Next`.
    Exhausted,
    /// The execution is being cancelled, for this reason (C-22).
    Cancelled(String),
}

/// A guest that is to run until its next stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The execution that it belongs to.
    pub key: JournalKey,
    /// How it begins; none: it goes on from where it stopped.
    pub begins: Option<GuestStart>,
}

/// How a guest begins, for the first time or to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestStart {
    /// The version of the code.
    pub component: ComponentDigest,
    /// What it may use.
    pub limits: Limits,
    /// The function that it runs.
    pub function: String,
    /// The input of the function.
    pub input: Payload,
    /// It replays stored entries.
    pub replays: bool,
}

/// Why a guest stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It waits. If it is not kept, a new guest replays when it is needed.
    Waiting {
        /// Whether it is kept.
        kept: bool,
    },
    /// Its slice of time is over. It is kept.
    Yielded,
    /// It returned.
    Returned(Result<Payload, Failure>),
    /// It trapped, or its CPU budget was used up.
    Trapped(Failure),
    /// A call of its was refused with [`Refusal::Stop`].
    Refused,
    /// Every place for a guest is taken: it has not begun, and its execution stays ready.
    NoPlace,
    /// It cannot run here: its component is not there, or cannot be loaded (J-93).
    CannotRun(String),
}
