//! The store in JSON (I-16): the rules of `begin` and of its ends, on any client.

use std::time::Duration;

use super::client::{BeginCall, Begun, Client, ClientError, Ending, OwnerCall, Row};
use super::error::StoreError;
use super::factory::IdempotencyStoreFactory;
use super::judge::{COMMITTED, FAILED, IN_PROGRESS, RawOutcome, judge, unknown_status};
use super::record::Record;
use super::settings::{OnLapse, Settings};
use super::typed::{IdempotencyStore, Operation};
use crate::error::{ReplayableError, StoredError};
use crate::json::Json;
use crate::key::IdempotencyKey;
use crate::outcome::{Attempt, InFlight, Outcome};
use crate::request::Request;

/// The most rows that one purge deletes: a transaction of some milliseconds.
pub const PURGE_ROWS_MAX: u32 = 10_000;

/// The first pause while another attempt is in flight, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A store on one connection of the caller's, in JSON.
pub struct RawIdempotencyStore<'c, C: Client> {
    client: &'c C,
    settings: &'c Settings,
    connection: &'c mut C::Connection,
    on_lapse: OnLapse,
    in_flight_wait: Duration,
}

impl<'c, C: Client> RawIdempotencyStore<'c, C> {
    pub(super) fn new(
        factory: &'c IdempotencyStoreFactory<C>,
        connection: &'c mut C::Connection,
    ) -> Self {
        let IdempotencyStoreFactory { client, settings } = factory;
        let Settings { on_lapse, in_flight_wait, .. } = *settings;
        Self { client, settings, connection, on_lapse, in_flight_wait }
    }

    /// The typed form of an operation (I-16).
    pub fn typed_as<Req, Res, E>(
        self,
        operation: Operation<Req, Res, E>,
    ) -> IdempotencyStore<'c, C, Req, Res, E> {
        IdempotencyStore::new(self, operation)
    }

    /// What to do where a lease has lapsed, instead of what the settings say.
    pub fn on_lapse(mut self, on_lapse: OnLapse) -> Self {
        self.on_lapse = on_lapse;
        self
    }

    /// How long to wait for what is in flight, instead of what the settings say.
    pub fn in_flight_wait(mut self, wait: Duration) -> Self {
        self.in_flight_wait = wait;
        self
    }

    /// Begins a request under its key (I-8). Of any number of concurrent calls one is fresh; the
    /// others do not wait for it, unless a wait is set, and their transactions stay usable (I-13).
    pub async fn begin(
        &mut self,
        key: &IdempotencyKey,
        request: &Request,
    ) -> Result<RawOutcome, StoreError> {
        self.begin_or_take_over(key, request, self.on_lapse).await
    }

    /// Begins a request and, if its owner's lease has lapsed, takes its place (C-34). Call it only
    /// when it is known that the work was not done, or that it may be done again. If the work turns
    /// out to have been done, commit its result.
    pub async fn take_over(
        &mut self,
        key: &IdempotencyKey,
        request: &Request,
    ) -> Result<RawOutcome, StoreError> {
        self.begin_or_take_over(key, request, OnLapse::Restart).await
    }

    async fn begin_or_take_over(
        &mut self,
        key: &IdempotencyKey,
        request: &Request,
        on_lapse: OnLapse,
    ) -> Result<RawOutcome, StoreError> {
        self.own(key)?;
        let hash = request.hash();
        let call = BeginCall {
            namespace: key.namespace().as_str(),
            key: key.value(),
            hash: hash.as_bytes(),
            request: request.json().as_str(),
            lease: self.settings.lease,
            replay_window: self.settings.replay_window,
        };
        let mut looked_again = false;
        let mut pauses = Pauses::within(self.in_flight_wait);
        loop {
            let outcome = match self.client.begin(self.connection, &call).await? {
                Begun::Fresh(owner) => {
                    return Ok(Outcome::FreshAttempt(Attempt::resume(key.clone(), owner)));
                }
                Begun::Recorded(recorded) => judge(recorded, hash)?,
                // Another transaction may have committed its row a moment ago: then the next look
                // finds it.
                Begun::Nothing if !looked_again => {
                    looked_again = true;
                    continue;
                }
                Begun::Nothing => Outcome::InFlight(InFlight::Uncommitted),
            };
            let lapsed = matches!(outcome, Outcome::InFlight(InFlight::Indeterminate { .. }));
            if lapsed && on_lapse == OnLapse::Restart {
                return match self.client.take_over(self.connection, &call).await? {
                    Some(owner) => Ok(Outcome::FreshAttempt(Attempt::resume(key.clone(), owner))),
                    // Another transaction holds the row: it is taking over, or the owner is ending
                    // it after all.
                    None => Ok(Outcome::InFlight(InFlight::Uncommitted)),
                };
            }
            if lapsed || !matches!(outcome, Outcome::InFlight(_)) {
                return Ok(outcome);
            }
            let Some(pause) = pauses.next() else {
                return Ok(outcome);
            };
            if !self.client.pause(self.connection, pause).await? {
                return Ok(outcome);
            }
        }
    }

    /// Records the result of an attempt (I-10); it is replayed from then on. An attempt ends once:
    /// after a lost answer, a repetition gets [`StoreError::AlreadyEnded`].
    pub async fn commit(&mut self, attempt: &Attempt, result: &Json) -> Result<(), StoreError> {
        self.end(attempt, Ending::Committed(result.as_str())).await
    }

    /// Records that an attempt failed for good (I-10); the error is replayed from then on.
    pub async fn fail_permanent(
        &mut self,
        attempt: &Attempt,
        error: &impl ReplayableError,
    ) -> Result<(), StoreError> {
        let error: StoredError = error.to_stored();
        self.end(attempt, Ending::Failed(Json::of(&error)?.as_str())).await
    }

    /// Forgets an attempt that failed for now: the next `begin` is fresh (I-10, C-4). After a lost
    /// answer, a repetition gets [`StoreError::NoAttempt`].
    pub async fn fail_transient(&mut self, attempt: &Attempt) -> Result<(), StoreError> {
        self.end(attempt, Ending::Forgotten).await
    }

    async fn end(&mut self, attempt: &Attempt, ending: Ending<'_>) -> Result<(), StoreError> {
        self.own(attempt.key())?;
        if self.client.end(self.connection, &owner_call(attempt), ending).await? {
            return Ok(());
        }
        // Nothing of this owner was in progress. Even if it ended the same way before, this is an
        // error: the other work in this transaction would otherwise be done twice.
        let key = attempt.key();
        let Some(row) = self.row_of(attempt).await? else {
            return Err(StoreError::NoAttempt { key: key.clone() });
        };
        let same = match ending {
            Ending::Committed(result) => row.recorded.result.as_deref() == Some(result),
            Ending::Failed(error) => row.recorded.error.as_deref() == Some(error),
            Ending::Forgotten => false,
        };
        Err(not_in_progress(key, &row.recorded.status, same))
    }

    /// The row of an attempt that is not in progress; none if it is gone.
    async fn row_of(&mut self, attempt: &Attempt) -> Result<Option<Row>, StoreError> {
        let key = attempt.key();
        let row =
            self.client.lookup(self.connection, key.namespace().as_str(), key.value()).await?;
        match row {
            Some(row) if row.owner == attempt.owner().as_str() => Ok(Some(row)),
            // A snapshot from before the attempt cannot tell whether its row is gone, or another
            // owner's.
            _ if !self.client.is_seen(self.connection, attempt.owner()).await? => {
                Err(StoreError::RetryTransaction("the attempt is newer than the snapshot".into()))
            }
            Some(_) => Err(StoreError::Superseded { key: key.clone() }),
            None => Ok(None),
        }
    }

    /// Extends the lease of an attempt whose work takes longer.
    pub async fn renew(&mut self, attempt: &Attempt) -> Result<(), StoreError> {
        self.own(attempt.key())?;
        let call = owner_call(attempt);
        if self.client.renew(self.connection, &call, self.settings.lease).await? {
            return Ok(());
        }
        let key = attempt.key();
        Err(match self.row_of(attempt).await? {
            None => StoreError::NoAttempt { key: key.clone() },
            Some(row) => not_in_progress(key, &row.recorded.status, false),
        })
    }

    /// Deletes rows of this namespace whose replay window is over, counted from their begin and
    /// from their end, at most `rows_max` (and never more than [`PURGE_ROWS_MAX`]), and says how
    /// many. Rows in progress stay, whatever their age
    /// (C-3). The consumer calls it from time to time, until it says 0: nothing else ends the
    /// replay of an expired row (I-19).
    pub async fn purge_expired(&mut self, rows_max: u32) -> Result<u64, StoreError> {
        let rows_max = rows_max.min(PURGE_ROWS_MAX);
        let Settings { namespace, replay_window, .. } = self.settings;
        let (namespace, window) = (namespace.as_str(), *replay_window);
        Ok(self.client.purge_expired(self.connection, namespace, window, rows_max).await?)
    }

    /// Everything that is recorded under a key, for support staff.
    pub async fn lookup(&mut self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        self.own(key)?;
        let row =
            self.client.lookup(self.connection, key.namespace().as_str(), key.value()).await?;
        row.map(Record::new).transpose().map_err(StoreError::from)
    }

    fn own(&self, key: &IdempotencyKey) -> Result<(), StoreError> {
        if *key.namespace() == self.settings.namespace {
            return Ok(());
        }
        let store = self.settings.namespace.clone();
        Err(StoreError::ForeignKey { key: key.namespace().clone(), store })
    }
}

fn owner_call(attempt: &Attempt) -> OwnerCall<'_> {
    let key = attempt.key();
    OwnerCall {
        namespace: key.namespace().as_str(),
        key: key.value(),
        owner: attempt.owner().as_str(),
    }
}

/// Why an attempt cannot be ended whose row is still its own.
fn not_in_progress(key: &IdempotencyKey, status: &str, same: bool) -> StoreError {
    let ended = |status| StoreError::AlreadyEnded { key: key.clone(), status, same };
    match status {
        COMMITTED => ended(COMMITTED),
        FAILED => ended(FAILED),
        IN_PROGRESS => StoreError::RetryTransaction("another transaction is taking over".into()),
        other => unknown_status(other).into(),
    }
}

impl From<ClientError> for StoreError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Retry(source) => Self::RetryTransaction(source),
            ClientError::Other(source) => Self::Database(source),
        }
    }
}

/// Pauses that grow, and add up to the wait that was chosen.
struct Pauses {
    left: Duration,
    next: Duration,
}

impl Pauses {
    fn within(wait: Duration) -> Self {
        Self { left: wait, next: PAUSE_FIRST }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next.min(self.left);
        self.left -= pause;
        self.next = (self.next * 2).min(PAUSE_MAX);
        (!pause.is_zero()).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wait that was chosen is neither cut nor exceeded.
    #[test]
    fn pauses_add_up() {
        for wait in [0, 1, 2, 3, 99, 1_000, 12_345].map(Duration::from_millis) {
            assert_eq!(Pauses::within(wait).sum::<Duration>(), wait);
        }
        assert_eq!(Pauses::within(Duration::from_secs(60)).max(), Some(PAUSE_MAX));
    }
}
