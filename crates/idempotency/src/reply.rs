//! What a caller is told: the outcome in the shape that goes over the wire.

use serde::{Deserialize, Serialize};

use crate::error::ReplayableError;
use crate::outcome::InFlight;

/// An outcome as a caller sees it (I-23): JSON with the member `kind`. It carries no recorded
/// request, and an error flat, as code and message.
///
/// ```
/// use indelible_idempotency::Reply;
///
/// let reply = Reply::Created { result: "receipt-1" };
/// assert_eq!(serde_json::to_string(&reply)?, r#"{"kind":"Created","result":"receipt-1"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Reply<Res> {
    /// It was done just now.
    Created {
        /// What came of it.
        result: Res,
    },
    /// It had been done before.
    PreExisting {
        /// What came of it then.
        result: Res,
    },
    /// Another attempt is in flight, or its outcome is unknown.
    OperationInProgress {
        /// When to ask again, in seconds; absent where asking again does not help by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_seconds: Option<u64>,
        /// Whether its owner's lease has lapsed, so that its outcome is unknown.
        indeterminate: bool,
    },
    /// The key stands for another request.
    Mismatch,
    /// It failed for good.
    Failed {
        /// The class of the error.
        code: String,
        /// What is said about it.
        message: String,
    },
}

impl<Res> Reply<Res> {
    /// The reply to a request that is in flight.
    pub fn in_progress(in_flight: InFlight) -> Self {
        Self::OperationInProgress {
            retry_after_seconds: in_flight.retry_after().map(|after| after.as_secs().max(1)),
            indeterminate: matches!(in_flight, InFlight::Indeterminate { .. }),
        }
    }

    /// It failed for good. The error's cause is not told to the caller.
    pub fn failed(error: &impl ReplayableError) -> Self {
        let stored = error.to_stored();
        Self::Failed { code: stored.class_tag, message: stored.message }
    }
}
