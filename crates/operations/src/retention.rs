//! How long the record of an operation is kept, and what an id without a record means (C-3).
//!
//! Both belong together: a record goes only when its id has become one that is recognized as
//! expired, so that no id is ever executed twice because it was forgotten (V-59). All times are
//! passed in; the caller must not let them go back.

use indelible_journal::{Durability, Micros, OperationId, Timestamp};

use crate::id;
use crate::state::{Operation, State};

/// How far ahead of ours the clock of a client may be.
pub const AHEAD_MAX: Micros = Micros::from_secs(10 * 60);

/// What an id without a record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Age {
    /// It may be new.
    Fresh,
    /// It may have had a record that is gone: it is refused (V-59).
    Expired,
    /// It was made in the future, by more than clocks may differ. It is refused: its record would
    /// have to be kept for that much longer (C-3).
    TooFarAhead,
}

/// How long records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    window: Micros,
    ahead_max: Micros,
}

/// Why this is not how long records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "operations are kept for {window} after their end, but callers retry for {retry_horizon}: a \
     late retry would run the operation again"
)]
pub struct TooShort {
    /// How long records would be kept.
    pub window: Micros,
    /// For how long callers retry.
    pub retry_horizon: Micros,
}

impl Retention {
    /// Records stay for `window` after the end of their operation. Callers retry for at most
    /// `retry_horizon`: a window that is shorter is refused (V-56, C-3). Clocks of clients are
    /// ahead by at most `ahead_max`.
    pub fn new(window: Micros, retry_horizon: Micros, ahead_max: Micros) -> Result<Self, TooShort> {
        if window < retry_horizon {
            return Err(TooShort { window, retry_horizon });
        }
        Ok(Self { window, ahead_max })
    }

    /// How long a record stays after the end of its operation.
    pub fn window(&self) -> Micros {
        self.window
    }

    /// What this id means now if it has no record. An id that carries no time is always fresh: once
    /// its record is gone, it is new again.
    pub fn age(&self, id: &OperationId, now: Timestamp) -> Age {
        let Some(created) = id::created_at(id) else { return Age::Fresh };
        if created.saturating_since(now) > self.ahead_max {
            Age::TooFarAhead
        } else if now >= created && now.saturating_since(created) >= self.window {
            Age::Expired
        } else {
            Age::Fresh
        }
    }

    /// From when on the record of an operation may go, which has been in its state since `since`.
    /// `None`: it stays (V-57, V-58). `created` is the time in its id, if it carries one.
    ///
    /// The id may come from a clock that is ahead of ours, so its record stays until the id is
    /// recognized as expired, not just for the window after its end.
    pub fn until<O>(
        &self,
        operation: &Operation<O>,
        created: Option<Timestamp>,
        since: Timestamp,
    ) -> Option<Timestamp> {
        if !may_go(operation) {
            return None;
        }
        self.after(created, since)
    }

    /// The same for an operation that is known to be over.
    pub fn after(&self, created: Option<Timestamp>, since: Timestamp) -> Option<Timestamp> {
        let from = created.map_or(since, |created| created.max(since));
        Timestamp::from_micros(from.as_micros().checked_add(self.window.get())?)
    }
}

/// Whether the record of an operation may go at all.
fn may_go<O>(operation: &Operation<O>) -> bool {
    match &operation.state {
        // V-57.
        State::Live(_) => false,
        State::Sealed(_) | State::Released(_) => true,
        // V-58: a persist operation waits for recovery or a person to resolve it, however long.
        State::Indeterminate(class) => class.durability == Durability::Volatile,
    }
}
