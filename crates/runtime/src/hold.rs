//! What waits for an operator's decision. An engine *on hold* is open and shows what is stored, and
//! nothing goes on until an operator lifts the hold. One over a store that was restored, and is not on
//! hold, is *closed to unknown names*: it refuses keys and operation ids that it does not know (C-48).
//!
//! While it is on hold no machine is in memory. The stored queue, the timers and the outbox are not
//! looked at, commands are refused, and retention deletes nothing. What only a tree can say is said
//! by one that is loaded for the question and forgotten (`Reads::ask_apart`). So no guest can run,
//! no change can follow from anything, and nothing can leave the process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use indelible_journal::{OperationId, Timestamp};
use indelible_operations::id;
use indelible_records::hold::{self, Restored};
use indelible_store::{ReadError, Store};

use crate::engine::EngineError;
use crate::options::{Opening, Options};

/// Why an engine is on hold. It has at least one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The store was restored: it waits for an operator until that is lifted.
    pub restored: Option<Restored>,
    /// The engine was opened [on hold](Opening::OnHold).
    pub paused: bool,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Restored { at, backup_made_at, .. }) = self.restored {
            write!(f, "restored at {at} from the backup of {backup_made_at}")?;
        }
        match *self {
            Self { paused: false, .. } => Ok(()),
            Self { restored: None, .. } => f.write_str("started paused"),
            Self { restored: Some(_), .. } => f.write_str(", and started paused"),
        }
    }
}

/// The hold of an engine.
#[derive(Debug)]
pub(crate) struct HoldState {
    is_on: AtomicBool,
    /// Whether names that the store does not know are refused.
    is_closed: AtomicBool,
    /// From then on they are not: no caller repeats a request from before the restore.
    opens_at: Timestamp,
    /// Operation ids that were made from then on are not: no clock of a client was so far ahead that
    /// one of them was sent before the restore.
    ids_from: Timestamp,
    why: Hold,
    /// Held while the hold is being lifted: of two requests one lifts it, and the other finds it
    /// lifted.
    pub(crate) lifting: tokio::sync::Mutex<()>,
}

impl HoldState {
    pub(crate) fn open(store: &Store, options: &Options) -> Result<Self, ReadError> {
        let restored = hold::get(store)?.value;
        let why = Hold { restored, paused: options.opening == Opening::OnHold };
        let is_on = (restored.is_some_and(|restored| restored.on_hold) || why.paused).into();
        let restored_at = restored.map_or(Timestamp::EPOCH, |restored| restored.at);
        Ok(Self {
            is_on,
            is_closed: restored.is_some().into(),
            opens_at: restored_at.saturating_add(options.operation_window),
            ids_from: restored_at.saturating_add(options.operation_ahead_max),
            why,
            lifting: tokio::sync::Mutex::default(),
        })
    }

    /// Once this has said no, it never says yes again.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Refuses what would make something go on.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.is_on() { Err(EngineError::OnHold) } else { Ok(()) }
    }

    /// Until when names that the store does not know are refused, if they are at the time of the
    /// retention clock.
    pub(crate) fn closed_until(&self, time: impl FnOnce() -> Timestamp) -> Option<Timestamp> {
        let is_closed = self.is_closed.load(Ordering::Acquire) && time() < self.opens_at;
        is_closed.then_some(self.opens_at)
    }

    /// Refuses a name that the store does not know, if a request may have come under it that the
    /// restore has made unknown (impl C-48). What counts is when the name was stamped, which an
    /// operation id may carry. HTTP gives a key no time; that at which it arrives is never earlier.
    pub(crate) fn check_unknown(
        &self,
        id: Option<&OperationId>,
        time: impl FnOnce() -> Timestamp,
    ) -> Result<(), EngineError> {
        self.check()?;
        let Some(until) = self.closed_until(time) else { return Ok(()) };
        match id.and_then(id::created_at) {
            Some(made_at) if made_at >= self.ids_from => Ok(()),
            _ => Err(EngineError::Restored { until }),
        }
    }

    /// Why it is on hold, if it is.
    pub(crate) fn why(&self) -> Option<Hold> {
        self.is_on().then_some(self.why)
    }

    /// What an operator can lift, if there is anything.
    pub(crate) fn liftable(&self, time: impl FnOnce() -> Timestamp) -> Option<Hold> {
        (self.is_on() || self.closed_until(time).is_some()).then_some(self.why)
    }

    /// That the hold is lifted must be durable by now. Returns whether it was on hold.
    pub(crate) fn lift(&self) -> bool {
        self.is_closed.store(false, Ordering::Release);
        self.is_on.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use indelible_journal::Timestamp;

    use super::*;

    #[test]
    fn reasons_in_words() {
        let at = Timestamp::EPOCH;
        let restored = Some(Restored { at, backup_made_at: at, on_hold: true });
        let words = |restored, paused| Hold { restored, paused }.to_string();
        let from = format!("restored at {at} from the backup of {at}");
        assert_eq!(words(restored, false), from);
        assert_eq!(words(restored, true), format!("{from}, and started paused"));
        assert_eq!(words(None, true), "started paused");
    }
}
