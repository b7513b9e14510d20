//! An execution's status: only a fold over its events (J-31, J-32, J-56, INV-4).

use std::fmt;

use crate::event::Event;
use crate::wait::{AwaitKind, WaitSet};

/// Where an execution stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Status {
    /// The guest runs, or could.
    Running,
    /// The guest waits.
    Blocked {
        /// The promises that it waits for.
        waiting_on: WaitSet,
        /// How many of them have to be resolved, or which signal has to come.
        kind: AwaitKind,
    },
    /// A cancel was requested; the guest may clean up. This lasts until the end (C-22).
    Cancelling,
    /// The function returned. Terminal.
    Completed,
    /// The function failed. Terminal.
    Failed,
    /// Cancelled. Terminal.
    Cancelled,
}

impl Status {
    /// The status after an event (J-32). Seven events change it, the other 13 do not. No
    /// `ExecutionAwaiting` or `ExecutionResumed` follows a `CancelRequested` (see C-22), so
    /// Cancelling lasts.
    #[must_use]
    pub fn after(self, event: &Event) -> Self {
        match event {
            Event::ExecutionStarted(_) | Event::ExecutionResumed => Self::Running,
            Event::ExecutionAwaiting { waiting_on, kind } => {
                Self::Blocked { waiting_on: waiting_on.clone(), kind: kind.clone() }
            }
            Event::CancelRequested { .. } => Self::Cancelling,
            Event::ExecutionCompleted { .. } => Self::Completed,
            Event::ExecutionFailed { .. } => Self::Failed,
            Event::ExecutionCancelled { .. } => Self::Cancelled,
            _ => self,
        }
    }

    /// The status of a journal with these events; none for an empty one (J-32).
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Self> {
        let mut events = events.into_iter();
        let first = Self::Running.after(events.next()?);
        Some(events.fold(first, Self::after))
    }

    /// Whether it is over (J-31).
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The status' name, as the specification has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Blocked { .. } => "Blocked",
            Self::Cancelling => "Cancelling",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
