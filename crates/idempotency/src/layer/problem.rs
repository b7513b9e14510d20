//! What the caller is told where the handler has no word: one closed list, as problem documents
//! (RFC 9457). None of them carries anything of the database or of a recorded request.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

/// How long to wait where nothing better is known.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// Every answer of the middleware itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// There is no key, and one is required.
    KeyRequired,
    /// The key cannot be one (see I-6).
    KeyInvalid(String),
    /// Whose key it is cannot be told.
    ScopeUnknown,
    /// The request's body broke off.
    RequestUnreadable,
    /// The request's body is beyond the bound.
    RequestTooLarge { bytes_max: usize },
    /// Somebody is at it (see I-13).
    InProgress { retry_after: Duration },
    /// Somebody was at it, and nobody knows what became of it (see C-34).
    Indeterminate,
    /// The key stands for another request (see I-12).
    Mismatch,
    /// What is recorded is an error, and not of this middleware.
    RecordedFailure,
    /// What is recorded does not fit this version (see I-17).
    IncompatibleState,
    /// The handler's response is beyond the bound.
    ResponseTooLarge,
    /// The handler's response broke off.
    ResponseUnreadable,
    /// The handler went, and left the transaction locked.
    TransactionHeld,
    /// The attempt is gone from under the handler.
    AttemptLost,
    /// The database refuses, and would again.
    Internal,
    /// The database is not there, or has too much to do. Nothing was done.
    Unavailable,
    /// The end of the transaction was not heard of.
    OutcomeUnknown,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    code: &'static str,
    detail: &'a str,
}

impl Problem {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::KeyRequired | Self::KeyInvalid(_) | Self::RequestUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Self::ScopeUnknown => StatusCode::FORBIDDEN,
            Self::RequestTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::InProgress { .. } | Self::Indeterminate => StatusCode::CONFLICT,
            Self::Mismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RecordedFailure
            | Self::IncompatibleState
            | Self::ResponseTooLarge
            | Self::ResponseUnreadable
            | Self::TransactionHeld
            | Self::AttemptLost
            | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable | Self::OutcomeUnknown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Which problem it is, for programs: it does not change.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::KeyRequired => "idempotency.key-required",
            Self::KeyInvalid(_) => "idempotency.key-invalid",
            Self::ScopeUnknown => "idempotency.scope-unknown",
            Self::RequestUnreadable => "idempotency.request-unreadable",
            Self::RequestTooLarge { .. } => "idempotency.request-too-large",
            Self::InProgress { .. } => "idempotency.in-progress",
            Self::Indeterminate => "idempotency.indeterminate",
            Self::Mismatch => "idempotency.mismatch",
            Self::RecordedFailure => "idempotency.recorded-failure",
            Self::IncompatibleState => "idempotency.incompatible-state",
            Self::ResponseTooLarge => "idempotency.response-too-large",
            Self::ResponseUnreadable => "idempotency.response-unreadable",
            Self::TransactionHeld => "idempotency.transaction-held",
            Self::AttemptLost => "idempotency.attempt-lost",
            Self::Internal => "idempotency.internal",
            Self::Unavailable => "idempotency.unavailable",
            Self::OutcomeUnknown => "idempotency.outcome-unknown",
        }
    }

    fn detail(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::KeyRequired => "the request needs the header Idempotency-Key",
            Self::KeyInvalid(why) => return Cow::Owned(why.clone()),
            Self::ScopeUnknown => "it cannot be told whose idempotency key this is",
            Self::RequestUnreadable => "the body of the request broke off",
            Self::RequestTooLarge { bytes_max } => {
                return Cow::Owned(format!(
                    "the body of the request has more than {bytes_max} bytes"
                ));
            }
            Self::InProgress { .. } => "a request with this key is being carried out",
            Self::Indeterminate => {
                "a request with this key was begun and not ended; whether it was done is not known"
            }
            Self::Mismatch => "the key was used for another request",
            Self::RecordedFailure => "the request with this key failed for good",
            Self::IncompatibleState => "the recorded response cannot be read",
            Self::ResponseTooLarge => "the response is too large to be recorded; nothing was done",
            Self::ResponseUnreadable => "the response broke off; nothing was done",
            Self::TransactionHeld => "the transaction could not be ended; nothing was done",
            Self::AttemptLost => "the attempt at the request was lost",
            Self::Internal => "the request could not be recorded; nothing was done",
            Self::Unavailable => "the request cannot be recorded now; nothing was done",
            Self::OutcomeUnknown => {
                "whether the request was done is not known; send it again with the same key"
            }
        })
    }

    /// When the same request is worth sending again.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InProgress { retry_after } => Some(*retry_after),
            Self::Unavailable | Self::OutcomeUnknown => Some(RETRY_AFTER_DEFAULT),
            _ => None,
        }
    }

    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let status = self.status();
        let document = Document {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            code: self.code(),
            detail: &self.detail(),
        };
        let body = serde_json::to_vec(&document).expect("texts and a number have JSON");
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = self.retry_after() {
            // Whole seconds; 0 would ask for a storm.
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}
