//! Replay: a guest runs again from the beginning, and each of its calls meets what the journal
//! holds (J-72, J-74, J-79, J-91, C-22, C-25, C-30, C-37).
//!
//! [`Replay`] is the guest's place in its journal. Live or replayed, each call asks it first: a
//! recorded answer is returned, an absent one is then appended with a command of [`Journal`]. So
//! both paths decide alike, and replay appends nothing that is recorded.

mod join_set;
mod wait;

use std::collections::HashMap;

use bytes::Bytes;

use crate::event::{InvokeKind, Sequence};
use crate::ids::{ComponentDigest, DEPTH_MAX, PromiseId};
use crate::journal::{Child, InputHash, Journal};
use crate::names::FunctionName;
use crate::payload::{Outcome, Payload};
use crate::status::Status;
use crate::time::{Micros, Timestamp};
use crate::violation::Rule;
use crate::wait::Wait;

/// Why a guest cannot run over a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// The component that was loaded is not the one that the execution is pinned to (J-93).
    #[error("the execution is pinned to a component other than {loaded:#}: {}",
        pinned.as_ref().map_or("it has not started".to_owned(), |pinned| format!("{pinned:#}")))]
    WrongComponent {
        /// The pinned component; none if the journal is empty.
        pinned: Option<ComponentDigest>,
        /// The component that was loaded.
        loaded: ComponentDigest,
    },
    /// The process died between the event that ended a wait and its ExecutionResumed. Append what
    /// is missing with [`Journal::wake`] first, or the guest's next call would be refused.
    #[error("the execution is blocked, but its wait has ended: wake it first")]
    NotWoken,
}

/// A guest's mistake. It depends only on what this run has done, and is refused live and replayed
/// alike, before anything is answered, written or numbered. So the journal accepts everything that
/// is answered as absent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {reason}")]
pub struct GuestMistake {
    /// The rule that it breaks.
    pub rule: Rule,
    /// Why, for people.
    pub reason: String,
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The guest's mistake.
    #[error(transparent)]
    Refused(#[from] GuestMistake),
    /// The guest asked for something else than is recorded.
    #[error(transparent)]
    Diverged(#[from] Divergence),
}

/// The guest asked for something else than the journal holds at this place (C-25). Nothing may be
/// appended; the execution is stuck, with both sides shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {promise_id:#} the journal holds {recorded}, but the guest asked for {asked}")]
pub struct Divergence {
    /// The place.
    pub promise_id: PromiseId,
    /// What the journal holds.
    pub recorded: String,
    /// What the guest asked for.
    pub asked: String,
}

/// What the journal knows of a call (C-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallLookup {
    /// It is over. The guest gets the result when it awaits the call: the await may first tell it
    /// of a cancel that came earlier (C-22).
    Completed,
    /// It is scheduled and not over: append nothing.
    Pending,
    /// It is new: append it.
    Absent,
}

/// Whether the journal holds what the guest asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayMatch {
    /// It does: append nothing.
    Present,
    /// It does not: append it; and ask again, if it takes no child number.
    Absent,
}

/// The result of an await.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwaitResult<'a> {
    /// The one promise, or the one that resolved first, by its number in the journal.
    Promise(PromiseId),
    /// All of them.
    All,
    /// The signal.
    Signal(&'a Payload),
    /// The guest learns, once, that it is being cancelled (C-22).
    Cancelled,
    /// Nothing yet: record the wait with [`Journal::wait`], and ask again later.
    Pending,
}

/// The next result of a join set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextResult<'a> {
    /// A result that was taken before: return it (J-91).
    Taken(PromiseId, &'a Outcome),
    /// A member has completed: take its result with [`Journal::take_next`], and ask again.
    Ready,
    /// No member has completed: record this wait with [`Journal::wait`], and ask again later.
    Pending(Wait),
    /// All were taken.
    Exhausted,
    /// The guest learns, once, that it is being cancelled (C-22).
    Cancelled,
}

/// A guest's place in its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// The number that the guest's next call gets (J-2).
    next_child: u32,
    /// What this run has done with each join set.
    sets: HashMap<u32, SetView>,
    /// How many submissions to all sets this run has seen.
    submitted: u64,
    taken: u64,
    /// The last event that satisfied an await of this run.
    satisfied_at: Option<Sequence>,
    /// Whether this run has been told that it is being cancelled.
    told_cancelled: bool,
}

/// How many of the recorded submissions to a join set, and of its recorded results, this run has
/// seen so far. The journal may be ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct SetView {
    submitted: u32,
    taken: u32,
}

impl Replay {
    /// The place of a guest that begins to run, if its component is the pinned one (J-93).
    pub fn begin(journal: &Journal, loaded: &ComponentDigest) -> Result<Self, BeginError> {
        if journal.component_digest() != Some(loaded) {
            let (pinned, loaded) = (journal.component_digest().copied(), *loaded);
            return Err(BeginError::WrongComponent { pinned, loaded });
        }
        if journal.can_wake() {
            return Err(BeginError::NotWoken);
        }
        Ok(Self {
            next_child: 0,
            sets: HashMap::new(),
            submitted: 0,
            taken: 0,
            satisfied_at: None,
            told_cancelled: false,
        })
    }

    /// Whether the journal holds nothing past this place: the guest runs live.
    pub fn is_live(&self, journal: &Journal) -> bool {
        self.next_child >= journal.next_child()
            && (self.submitted, self.taken) == journal.join_set_totals()
    }

    /// Whether what the guest does now was not done by an earlier run: it runs live, and is past
    /// the last recorded wait. Everything that was awaited before that wait was in the journal when
    /// the wait was recorded; so a run that was satisfied by a later event is past it.
    ///
    /// It may be true for something that was done before: after a crash it is unknown how far a run
    /// came behind its last stored event. It is never false for something new.
    pub fn is_new(&self, journal: &Journal) -> bool {
        let past = |wait| self.told_cancelled || self.satisfied_at > Some(wait);
        self.is_live(journal) && journal.awaited_at().is_none_or(past)
    }

    /// Whether this run was told that it is being cancelled: what it does afterwards is its cleanup
    /// (C-22).
    pub fn was_told_cancelled(&self) -> bool {
        self.told_cancelled
    }

    /// The guest returns: the journal must hold nothing that this run did not ask for (C-25). Only
    /// then is its result recorded.
    pub fn finish(&self, journal: &Journal) -> Result<(), Divergence> {
        self.not_blocked(journal, "to return")?;
        self.ends_here(journal, "to return")
    }

    /// Before something is answered as absent, which is appended next: the journal must be at this
    /// place, neither ahead, nor in a wait, nor at its end (C-25).
    fn check_may_append(&self, journal: &Journal, asked: &str) -> Result<(), Divergence> {
        self.ends_here(journal, asked)?;
        self.not_blocked(journal, asked)?;
        match journal.status() {
            Some(status) if status.is_terminal() => Err(Divergence {
                promise_id: journal.next_promise(),
                recorded: format!("the end: it is {status}"),
                asked: asked.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The journal must hold nothing past this place.
    fn ends_here(&self, journal: &Journal, asked: &str) -> Result<(), Divergence> {
        if self.is_live(journal) {
            return Ok(());
        }
        let promise = journal.key().execution_id().child(self.next_child);
        Err(match journal.child_at(self.next_child) {
            Some(recorded) => diverged(promise, recorded, asked.to_owned()),
            None => Divergence {
                promise_id: promise,
                recorded: "more of a join set".to_owned(),
                asked: asked.to_owned(),
            },
        })
    }

    fn not_blocked(&self, journal: &Journal, asked: &str) -> Result<(), Divergence> {
        match journal.status() {
            Some(Status::Blocked { kind, .. }) => Err(Divergence {
                promise_id: journal.next_promise(),
                recorded: format!("a wait of kind {}", kind.name()),
                asked: asked.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The guest calls a function or makes a request.
    pub fn invoke(
        &mut self,
        journal: &Journal,
        kind: InvokeKind,
        function_name: &FunctionName,
        input: &Payload,
    ) -> Result<(PromiseId, CallLookup), ReplayError> {
        if kind == InvokeKind::Function && journal.key().execution_id().depth() + 1 >= DEPTH_MAX {
            let reason = format!("calls nest at most {DEPTH_MAX} deep");
            return Err(GuestMistake { rule: Rule::J82, reason }.into());
        }
        let (promise, child) = self.take_child(journal, function_name.as_str())?;
        let found = match child {
            None => CallLookup::Absent,
            Some(Child::Invoke(invoke))
                if invoke.kind == kind
                    && invoke.function_name == *function_name
                    && invoke.input == InputHash::of(input) =>
            {
                if invoke.result().is_some() {
                    CallLookup::Completed
                } else {
                    CallLookup::Pending
                }
            }
            Some(other) => {
                let same_call = matches!(other, Child::Invoke(invoke)
                    if invoke.kind == kind && invoke.function_name == *function_name);
                let input = if same_call { " with another input" } else { "" };
                let asked = format!("{kind:?} {function_name}{input}");
                return Err(diverged(promise, other, asked).into());
            }
        };
        Ok((promise, found))
    }

    /// The guest wants `length` random bytes.
    pub fn random<'a>(
        &mut self,
        journal: &'a Journal,
        length: usize,
    ) -> Result<Option<&'a Bytes>, ReplayError> {
        match self.take_child(journal, "random bytes")? {
            (_, None) => Ok(None),
            (_, Some(Child::Random(value))) if value.len() == length => Ok(Some(value)),
            (promise, Some(other)) => {
                Err(diverged(promise, other, format!("{length} random bytes")).into())
            }
        }
    }

    /// The guest wants to know the time.
    pub fn now(&mut self, journal: &Journal) -> Result<Option<Timestamp>, ReplayError> {
        match self.take_child(journal, "the time")? {
            (_, None) => Ok(None),
            (_, Some(Child::Time(time))) => Ok(Some(*time)),
            (promise, Some(other)) => Err(diverged(promise, other, "the time".to_owned()).into()),
        }
    }

    /// The guest starts a timer, which it awaits by its promise.
    pub fn timer(
        &mut self,
        journal: &Journal,
        duration: Micros,
    ) -> Result<(PromiseId, ReplayMatch), ReplayError> {
        match self.take_child(journal, "a timer")? {
            (promise, None) => Ok((promise, ReplayMatch::Absent)),
            (promise, Some(Child::Timer(timer))) if timer.duration == duration => {
                Ok((promise, ReplayMatch::Present))
            }
            (promise, Some(other)) => {
                Err(diverged(promise, other, format!("a timer of {duration}")).into())
            }
        }
    }

    /// Takes the next number, and what the journal holds there. If that is nothing, the journal
    /// will accept a new child: this takes no number that the journal would refuse.
    fn take_child<'a>(
        &mut self,
        journal: &'a Journal,
        asked: &str,
    ) -> Result<(PromiseId, Option<&'a Child>), ReplayError> {
        let number = self.next_child;
        let child = journal.child_at(number);
        if child.is_none() {
            self.check_may_append(journal, asked)?;
        }
        self.next_child = number.checked_add(1).ok_or_else(|| GuestMistake {
            rule: Rule::J82,
            reason: "the execution has no child numbers left".to_owned(),
        })?;
        Ok((journal.key().execution_id().child(number), child))
    }

    /// Whether an await that was satisfied at this event, or not at all, has to tell the guest of
    /// its cancel: it is the first await that was not satisfied before the CancelRequested (C-22).
    fn tells_cancelled(&mut self, journal: &Journal, satisfied_at: Option<Sequence>) -> bool {
        let tells = journal.cancel_requested().is_some_and(|(requested_at, _)| {
            let in_time = satisfied_at.is_some_and(|at| at < requested_at);
            !self.told_cancelled && !in_time
        });
        self.told_cancelled |= tells;
        if !tells {
            self.satisfied_at = self.satisfied_at.max(satisfied_at);
        }
        tells
    }
}

/// A divergence with both sides (C-25).
fn diverged(promise_id: PromiseId, recorded: &Child, asked: String) -> Divergence {
    let recorded = match recorded {
        Child::Invoke(invoke) => {
            format!("{:?} {} (sequence {})", invoke.kind, invoke.function_name, invoke.scheduled_at)
        }
        Child::Timer(timer) => format!("a timer of {}", timer.duration),
        Child::Random(value) => format!("{} random bytes", value.len()),
        Child::Signal(signal) => format!("a received signal `{}`", signal.name),
        Child::Time(_) | Child::JoinSet(_) => recorded.noun().to_owned(),
    };
    Divergence { promise_id, recorded, asked }
}
