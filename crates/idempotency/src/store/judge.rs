//! What a recorded row means for a request that came: pure.

use std::time::Duration;

use super::client::Recorded;
use crate::error::StoredError;
use crate::json::{Json, Limits};
use crate::outcome::{DecodeError, InFlight, Mismatch, Outcome};
use crate::request::RequestHash;

/// The values of the column `status`.
pub(super) const IN_PROGRESS: &str = "in_progress";
pub(super) const COMMITTED: &str = "committed";
pub(super) const FAILED: &str = "failed";

/// An outcome in JSON.
pub type RawOutcome = Outcome<Json, Json, StoredError>;

/// The outcome of a `begin` that finds this row (I-8). The hash is compared before the status
/// (I-28): if it differs, the row is about another request, whatever became of that one.
pub(super) fn judge(
    recorded: Recorded,
    submitted_hash: RequestHash,
) -> Result<RawOutcome, DecodeError> {
    let recorded_hash = hash(&recorded.hash)?;
    if recorded_hash != submitted_hash {
        let recorded_request = json("request", recorded.request);
        let mismatch = Mismatch { recorded_request, recorded_hash, submitted_hash };
        return Ok(Outcome::Mismatch(mismatch));
    }
    match recorded.status.as_str() {
        IN_PROGRESS => Ok(Outcome::InFlight(in_flight(recorded.lease_ms))),
        COMMITTED => json("result", recorded.result).map(Outcome::PriorResult),
        FAILED => error(recorded.error).map(Outcome::PriorError),
        other => Err(unknown_status(other)),
    }
}

pub(super) fn hash(bytes: &[u8]) -> Result<RequestHash, DecodeError> {
    let why = || DecodeError { what: "hash", why: format!("{} bytes, not 32", bytes.len()) };
    bytes.try_into().map(RequestHash::from_bytes).map_err(|_| why())
}

/// A recorded text as JSON. It was within limits when it was recorded.
pub(super) fn json(what: &'static str, text: Option<String>) -> Result<Json, DecodeError> {
    let text = text.ok_or_else(|| DecodeError { what, why: "it is missing".to_owned() })?;
    Json::parse_within(text, &Limits::NONE)
        .map_err(|why| DecodeError { what, why: why.to_string() })
}

pub(super) fn error(text: Option<String>) -> Result<StoredError, DecodeError> {
    let what = "error";
    json(what, text)?.decode().map_err(|why| DecodeError::new(what, &why))
}

pub(super) fn unknown_status(status: &str) -> DecodeError {
    DecodeError { what: "status", why: format!("unknown status {status:?}") }
}

fn in_flight(lease_ms: i64) -> InFlight {
    let distance = Duration::from_millis(lease_ms.unsigned_abs());
    // The end of the lease is the first moment at which it may be taken over.
    if lease_ms > 0 {
        InFlight::Leased { remaining: distance }
    } else {
        InFlight::Indeterminate { lapsed: distance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(byte: u8) -> RequestHash {
        RequestHash::from_bytes([byte; 32])
    }

    fn row(status: &str) -> Recorded {
        Recorded {
            hash: vec![1; 32],
            status: status.to_owned(),
            request: Some("{\"a\":1}".to_owned()),
            result: (status == COMMITTED).then(|| "2".to_owned()),
            error: (status == FAILED).then(|| r#"{"classTag":"t","message":"m"}"#.to_owned()),
            lease_ms: 500,
        }
    }

    /// I-8, I-11: what each status means for the same request.
    #[test]
    fn the_same_request() {
        let judged = |row| judge(row, hash_of(1)).unwrap();
        assert_eq!(
            judged(row(IN_PROGRESS)),
            Outcome::InFlight(InFlight::Leased { remaining: Duration::from_millis(500) })
        );
        for lease_ms in [0, -7] {
            let lapsed = Duration::from_millis(lease_ms_size(lease_ms));
            assert_eq!(
                judged(Recorded { lease_ms, ..row(IN_PROGRESS) }),
                Outcome::InFlight(InFlight::Indeterminate { lapsed })
            );
        }
        assert_eq!(judged(row(COMMITTED)), Outcome::PriorResult(Json::parse("2").unwrap()));
        let stored = StoredError { class_tag: "t".into(), message: "m".into(), cause: None };
        assert_eq!(judged(row(FAILED)), Outcome::PriorError(stored));
    }

    fn lease_ms_size(lease_ms: i64) -> u64 {
        lease_ms.unsigned_abs()
    }

    /// I-28, I-12, I-9: another request is a mismatch in every status, and mismatches are equal by
    /// the content of their hashes.
    #[test]
    fn another_request() {
        let expected = |submitted| {
            Outcome::Mismatch(Mismatch {
                recorded_request: Json::parse("{\"a\":1}").map_err(|_| unreachable!("it is JSON")),
                recorded_hash: hash_of(1),
                submitted_hash: submitted,
            })
        };
        for status in [IN_PROGRESS, COMMITTED, FAILED] {
            let judged = judge(row(status), hash_of(2)).unwrap();
            assert_eq!(judged, expected(hash_of(2)));
            assert_ne!(judged, expected(hash_of(3)));
        }
        // I-18: a recorded request that is no JSON does not hide the mismatch.
        let broken = Recorded { request: Some("{".to_owned()), ..row(COMMITTED) };
        let Outcome::Mismatch(mismatch) = judge(broken, hash_of(2)).unwrap() else {
            panic!("the hashes differ");
        };
        assert!(mismatch.recorded_request.is_err());
    }

    /// I-17: a row that makes no sense is an error, never an outcome.
    #[test]
    fn rows_that_make_no_sense() {
        let refused = |row| judge(row, hash_of(1)).unwrap_err().what;
        assert_eq!(refused(Recorded { hash: vec![1; 31], ..row(COMMITTED) }), "hash");
        assert_eq!(refused(row("done")), "status");
        assert_eq!(refused(Recorded { result: None, ..row(COMMITTED) }), "result");
        assert_eq!(refused(Recorded { result: Some("{".into()), ..row(COMMITTED) }), "result");
        assert_eq!(refused(Recorded { error: Some("{}".into()), ..row(FAILED) }), "error");
    }
}
