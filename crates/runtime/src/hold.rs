//! Whether the engine is on hold: it is open and shows what is stored, and nothing goes on until an
//! operator lifts the hold.
//!
//! While it is on hold no machine is in memory. The stored queue, the timers and the outbox are not
//! looked at, commands are refused, and retention deletes nothing. What only a tree can say is said
//! by one that is loaded for the question and forgotten (`Reads::ask_apart`). So no guest can run,
//! no change can follow from anything, and nothing can leave the process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use indelible_records::hold::{self, Restored};
use indelible_store::{ReadError, Store};

use crate::engine::EngineError;
use crate::options::Opening;

/// Why an engine is on hold. It has at least one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The store was restored on hold: it is, until that is lifted.
    pub restored: Option<Restored>,
    /// The engine was opened [on hold](Opening::OnHold).
    pub paused: bool,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Restored { at, backup_made_at }) = self.restored {
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
    why: Hold,
    /// Held while the hold is being lifted: of two requests one lifts it, and the other finds it
    /// lifted.
    pub(crate) lifting: tokio::sync::Mutex<()>,
}

impl HoldState {
    pub(crate) fn open(store: &Store, opening: Opening) -> Result<Self, ReadError> {
        let why = Hold { restored: hold::get(store)?.value, paused: opening == Opening::OnHold };
        let is_on = (why.restored.is_some() || why.paused).into();
        Ok(Self { is_on, why, lifting: tokio::sync::Mutex::default() })
    }

    /// Once this has said no, it never says yes again.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Refuses what would make something go on.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.is_on() { Err(EngineError::OnHold) } else { Ok(()) }
    }

    /// Why it is on hold, if it is.
    pub(crate) fn why(&self) -> Option<Hold> {
        self.is_on().then_some(self.why)
    }

    /// That the hold is lifted must be durable by now.
    pub(crate) fn lift(&self) {
        self.is_on.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use indelible_journal::Timestamp;

    use super::*;

    #[test]
    fn reasons_in_words() {
        let at = Timestamp::EPOCH;
        let restored = Some(Restored { at, backup_made_at: at });
        let words = |restored, paused| Hold { restored, paused }.to_string();
        let from = format!("restored at {at} from the backup of {at}");
        assert_eq!(words(restored, false), from);
        assert_eq!(words(restored, true), format!("{from}, and started paused"));
        assert_eq!(words(None, true), "started paused");
    }
}
