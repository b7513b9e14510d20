//! The middleware's own answers, in one closed list, as problem documents (RFC 9457). None of them
//! carries anything of the database or of a recorded request.

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
    /// The key is invalid (see I-6).
    KeyInvalid(String),
    /// The scope's function named no owner of the key.
    ScopeUnknown,
    /// The request's body broke off.
    RequestUnreadable,
    /// The request's body is beyond the bound.
    RequestTooLarge { bytes_max: usize },
    /// Another request with this key is in flight (see I-13).
    InProgress { retry_after: Duration },
    /// Another request with this key began the work and never ended it: its outcome is unknown (see
    /// C-34).
    Indeterminate,
    /// The key stands for another request (see I-12).
    Mismatch,
    /// An error is recorded that the middleware did not record.
    RecordedFailure,
    /// What is recorded does not fit this version (see I-17).
    IncompatibleState,
    /// The handler's response is beyond the bound.
    ResponseTooLarge,
    /// The handler's response broke off.
    ResponseUnreadable,
    /// The handler returned while a guard of its transaction was alive.
    TransactionHeld,
    /// The attempt's row is gone: the handler ended the transaction itself.
    AttemptLost,
    /// The database refuses, and would again.
    Internal,
    /// The database cannot be reached, or is too busy. Nothing was done.
    Unavailable,
    /// The database's answer to the commit was lost.
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
            Self::ScopeUnknown => "the owner of the idempotency key cannot be determined",
            Self::RequestUnreadable => "the body of the request was cut off",
            Self::RequestTooLarge { bytes_max } => {
                return Cow::Owned(format!(
                    "the body of the request has more than {bytes_max} bytes"
                ));
            }
            Self::InProgress { .. } => "a request with this key is in progress",
            Self::Indeterminate => {
                "a request with this key began and did not finish; it is unknown whether it was \
                 done"
            }
            Self::Mismatch => "the key was used for another request",
            Self::RecordedFailure => "the request with this key failed permanently",
            Self::IncompatibleState => "the recorded response cannot be read",
            Self::ResponseTooLarge => "the response is too large to be recorded; nothing was done",
            Self::ResponseUnreadable => "the response was cut off; nothing was done",
            Self::TransactionHeld => "the transaction could not be ended; nothing was done",
            Self::AttemptLost => "the attempt at the request was lost",
            Self::Internal => "the request could not be recorded; nothing was done",
            Self::Unavailable => "the request cannot be recorded now; nothing was done",
            Self::OutcomeUnknown => {
                "it is unknown whether the request was done; send it again with the same key"
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
            // Whole seconds, and at least 1: with 0, clients would repeat at once.
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}
