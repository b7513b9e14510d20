//! A row as support staff reads it.

use std::time::{Duration, SystemTime};

use super::client::Row;
use super::judge::{self, COMMITTED, FAILED, IN_PROGRESS};
use crate::error::StoredError;
use crate::json::Json;
use crate::outcome::DecodeError;
use crate::request::RequestHash;

/// Everything that is recorded under a key. It holds the recorded request: it is not for callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What was asked.
    pub request: Result<Json, DecodeError>,
    /// The hash that repetitions are compared by.
    pub hash: RequestHash,
    /// What became of it.
    pub state: RecordState,
    /// How many owners it has had: more than one after a take-over.
    pub owners: u32,
    /// When it was begun first.
    pub created_at: SystemTime,
    /// When it ended.
    pub ended_at: Option<SystemTime>,
    /// From when on it may be purged, if it ended a replay window ago.
    pub expires_at: SystemTime,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordState {
    /// Nothing yet.
    InProgress {
        /// How long its owner has; none if the lease has lapsed.
        lease: Option<Duration>,
    },
    /// It was done.
    Committed(Result<Json, DecodeError>),
    /// It failed for good.
    Failed(Result<StoredError, DecodeError>),
}

impl Record {
    pub(super) fn new(row: Row) -> Result<Self, DecodeError> {
        let recorded = row.recorded;
        let state = match recorded.status.as_str() {
            IN_PROGRESS => {
                let left = u64::try_from(recorded.lease_ms).ok().filter(|left| *left > 0);
                RecordState::InProgress { lease: left.map(Duration::from_millis) }
            }
            COMMITTED => RecordState::Committed(judge::json("result", recorded.result)),
            FAILED => RecordState::Failed(judge::error(recorded.error)),
            other => return Err(judge::unknown_status(other)),
        };
        Ok(Self {
            request: judge::json("request", recorded.request),
            hash: judge::hash(&recorded.hash)?,
            state,
            owners: u32::try_from(row.owners).unwrap_or(u32::MAX),
            created_at: time(row.created_at_ms),
            ended_at: row.ended_at_ms.map(time),
            expires_at: time(row.expires_at_ms),
        })
    }
}

/// The last time that is told: the end of the year 9999.
const MS_MAX: u64 = 253_402_300_799_999;

/// Times before 1970 become 1970, and infinite ones [`MS_MAX`].
fn time(ms: i64) -> SystemTime {
    let since = u64::try_from(ms).unwrap_or(0).min(MS_MAX);
    SystemTime::UNIX_EPOCH + Duration::from_millis(since)
}
