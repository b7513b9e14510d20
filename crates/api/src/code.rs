//! The codes of errors: what a program can match on. A code means the same for ever; new ones may
//! come. Each has a page in `docs/errors/`, which is part of the binary.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The code of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Code {
    /// The request makes no sense: its body, its query, an id or a header.
    MalformedRequest,
    /// The input does not fit the function. Nothing was started, and the key is not used up.
    InvalidInput,
    /// The request has an idempotency key and an operation id.
    KeyAndOperationId,
    /// The operation id carries a time that has not come.
    OperationIdFromTheFuture,
    /// There is no credential, or none that is known and good.
    Unauthenticated,
    /// The credential lacks the role, or the namespace.
    Forbidden,
    /// The request came under a name that is not the server's own, or from a web page.
    OriginRefused,
    /// The namespace is the server's own.
    ReservedNamespace,
    /// The client id belongs to another caller.
    ForeignClient,
    /// Nothing with this id exists, or the credential may not see it.
    NotFound,
    /// The API has no such path.
    NoSuchPath,
    /// No component of this name is deployed.
    NoSuchComponent,
    /// The component has no function of this name.
    NoSuchFunction,
    /// The namespace has no vault of this name.
    NoSuchVault,
    /// The namespace has no endpoint of this name.
    NoSuchEndpoint,
    /// The path does not take this method.
    MethodNotAllowed,
    /// The body did not come in time.
    RequestTimeout,
    /// The operation goes on, and the caller asked not to be attached.
    InFlight,
    /// The operation id was used before, for another request.
    Conflict,
    /// Several executions begin with the digits of the id.
    Ambiguous,
    /// The execution is not in a state in which this can be done.
    WrongState,
    /// The new version would break callers of functions that are in use.
    BreakingChange,
    /// A number of the client before this one is missing.
    #[serde(rename = "SEQUENCE_GAP")]
    SequenceGap,
    /// The client has used up its numbers.
    #[serde(rename = "SEQUENCE_EXHAUSTED")]
    SequenceExhausted,
    /// The attempt was overtaken by a refusal.
    #[serde(rename = "STALE_ATTEMPT")]
    StaleAttempt,
    /// The vault was deleted, and its name is not free yet.
    VaultNameTaken,
    /// The vault is another one than the request is meant for.
    OtherIncarnation,
    /// The operation id is unknown, and older than operations are remembered.
    Expired,
    /// The log does not go back that far.
    Compacted,
    /// The operation wants no entity under the key, and there is one.
    #[serde(rename = "KEY_EXISTS")]
    KeyExists,
    /// The operation needs an entity under the key, and there is none.
    #[serde(rename = "KEY_NOT_FOUND")]
    KeyNotFound,
    /// The entity has another version than the condition says.
    #[serde(rename = "VERSION_MISMATCH")]
    VersionMismatch,
    /// The entity holds something else than the condition says.
    #[serde(rename = "VALUE_MISMATCH")]
    ValueMismatch,
    /// Less would remain than the operation allows.
    #[serde(rename = "BELOW_MIN")]
    BelowMin,
    /// More would be there than the operation allows.
    #[serde(rename = "ABOVE_MAX")]
    AboveMax,
    /// The entity is no amount, or one of another unit.
    #[serde(rename = "UNIT_MISMATCH")]
    UnitMismatch,
    /// The amount would not fit 128 bits.
    #[serde(rename = "AMOUNT_OVERFLOW")]
    AmountOverflow,
    /// The values that the transaction would answer are too large.
    #[serde(rename = "RESULT_TOO_LARGE")]
    ResultTooLarge,
    /// The body is larger than it may be.
    PayloadTooLarge,
    /// The body's media type is not what the path wants, or the body is encoded.
    UnsupportedMediaType,
    /// The idempotency key was used before, for another request.
    Mismatch,
    /// The component cannot be deployed.
    InvalidComponent,
    /// The client's number was used for another request.
    #[serde(rename = "SEQUENCE_MISMATCH")]
    SequenceMismatch,
    /// The function was carried out, and failed.
    FunctionFailed,
    /// The execution was cancelled before it returned.
    Cancelled,
    /// It is unknown whether it happened.
    Indeterminate,
    /// The execution buffers as many signals as it may.
    TooManySignals,
    /// An error in the server itself.
    Internal,
    /// A part of the data folder is damaged, and the request needs it.
    Damaged,
    /// The server has as much to do as it takes on.
    Busy,
    /// The server is on hold: it shows everything, and nothing goes on.
    OnHold,
    /// The data folder was restored, and does not know the key or the id of the request.
    Restored,
    /// The server stops, or has not begun.
    Stopping,
    /// The disk failed and nothing is written any more, or the store is paused.
    StoreStopped,
    /// A code that this version does not know, from a newer server.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// The text, status and page of a code.
struct CodeText {
    text: &'static str,
    status: u16,
    retryable: bool,
    title: &'static str,
    page: &'static str,
}

impl Code {
    /// All codes, by status.
    pub const ALL: [Self; 54] = [
        Self::MalformedRequest,
        Self::InvalidInput,
        Self::KeyAndOperationId,
        Self::OperationIdFromTheFuture,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::OriginRefused,
        Self::ReservedNamespace,
        Self::ForeignClient,
        Self::NotFound,
        Self::NoSuchPath,
        Self::NoSuchComponent,
        Self::NoSuchFunction,
        Self::NoSuchVault,
        Self::NoSuchEndpoint,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::InFlight,
        Self::Conflict,
        Self::Ambiguous,
        Self::WrongState,
        Self::BreakingChange,
        Self::SequenceGap,
        Self::SequenceExhausted,
        Self::StaleAttempt,
        Self::VaultNameTaken,
        Self::OtherIncarnation,
        Self::Expired,
        Self::Compacted,
        Self::KeyExists,
        Self::KeyNotFound,
        Self::VersionMismatch,
        Self::ValueMismatch,
        Self::BelowMin,
        Self::AboveMax,
        Self::UnitMismatch,
        Self::AmountOverflow,
        Self::ResultTooLarge,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::Mismatch,
        Self::InvalidComponent,
        Self::SequenceMismatch,
        Self::FunctionFailed,
        Self::Cancelled,
        Self::Indeterminate,
        Self::TooManySignals,
        Self::Internal,
        Self::Damaged,
        Self::Busy,
        Self::OnHold,
        Self::Restored,
        Self::Stopping,
        Self::StoreStopped,
    ];

    const fn about(self) -> CodeText {
        match self {
            Self::MalformedRequest => CodeText {
                text: "malformed-request",
                status: 400,
                retryable: false,
                title: "The request is malformed",
                page: include_str!("../../../docs/errors/malformed-request.md"),
            },
            Self::InvalidInput => CodeText {
                text: "invalid-input",
                status: 400,
                retryable: false,
                title: "The input does not fit the function",
                page: include_str!("../../../docs/errors/invalid-input.md"),
            },
            Self::KeyAndOperationId => CodeText {
                text: "key-and-operation-id",
                status: 400,
                retryable: false,
                title: "The request has both an idempotency key and an operation id",
                page: include_str!("../../../docs/errors/key-and-operation-id.md"),
            },
            Self::OperationIdFromTheFuture => CodeText {
                text: "operation-id-from-the-future",
                status: 400,
                retryable: false,
                title: "The operation id lies in the future",
                page: include_str!("../../../docs/errors/operation-id-from-the-future.md"),
            },
            Self::Unauthenticated => CodeText {
                text: "unauthenticated",
                status: 401,
                retryable: false,
                title: "The request has no valid credential",
                page: include_str!("../../../docs/errors/unauthenticated.md"),
            },
            Self::Forbidden => CodeText {
                text: "forbidden",
                status: 403,
                retryable: false,
                title: "The credential does not permit this request",
                page: include_str!("../../../docs/errors/forbidden.md"),
            },
            Self::OriginRefused => CodeText {
                text: "origin-refused",
                status: 403,
                retryable: false,
                title: "Requests from other web origins are refused",
                page: include_str!("../../../docs/errors/origin-refused.md"),
            },
            Self::ReservedNamespace => CodeText {
                text: "reserved-namespace",
                status: 403,
                retryable: false,
                title: "The namespace is reserved for the server",
                page: include_str!("../../../docs/errors/reserved-namespace.md"),
            },
            Self::ForeignClient => CodeText {
                text: "foreign-client",
                status: 403,
                retryable: false,
                title: "The client id belongs to another caller",
                page: include_str!("../../../docs/errors/foreign-client.md"),
            },
            Self::NotFound => CodeText {
                text: "not-found",
                status: 404,
                retryable: false,
                title: "Not found",
                page: include_str!("../../../docs/errors/not-found.md"),
            },
            Self::NoSuchPath => CodeText {
                text: "no-such-path",
                status: 404,
                retryable: false,
                title: "No such path",
                page: include_str!("../../../docs/errors/no-such-path.md"),
            },
            Self::NoSuchComponent => CodeText {
                text: "no-such-component",
                status: 404,
                retryable: false,
                title: "No component of this name is deployed",
                page: include_str!("../../../docs/errors/no-such-component.md"),
            },
            Self::NoSuchFunction => CodeText {
                text: "no-such-function",
                status: 404,
                retryable: false,
                title: "The component has no function of this name",
                page: include_str!("../../../docs/errors/no-such-function.md"),
            },
            Self::NoSuchEndpoint => CodeText {
                text: "no-such-endpoint",
                status: 404,
                retryable: false,
                title: "No endpoint of this name exists",
                page: include_str!("../../../docs/errors/no-such-endpoint.md"),
            },
            Self::NoSuchVault => CodeText {
                text: "no-such-vault",
                status: 404,
                retryable: false,
                title: "No vault of this name exists",
                page: include_str!("../../../docs/errors/no-such-vault.md"),
            },
            Self::MethodNotAllowed => CodeText {
                text: "method-not-allowed",
                status: 405,
                retryable: false,
                title: "The path does not support this method",
                page: include_str!("../../../docs/errors/method-not-allowed.md"),
            },
            Self::RequestTimeout => CodeText {
                text: "request-timeout",
                status: 408,
                retryable: true,
                title: "The request arrived too slowly",
                page: include_str!("../../../docs/errors/request-timeout.md"),
            },
            Self::InFlight => CodeText {
                text: "in-flight",
                status: 409,
                retryable: true,
                title: "The operation is still running",
                page: include_str!("../../../docs/errors/in-flight.md"),
            },
            Self::Conflict => CodeText {
                text: "conflict",
                status: 409,
                retryable: false,
                title: "The operation id was already used for another request",
                page: include_str!("../../../docs/errors/conflict.md"),
            },
            Self::Ambiguous => CodeText {
                text: "ambiguous",
                status: 409,
                retryable: false,
                title: "Several executions begin with these digits",
                page: include_str!("../../../docs/errors/ambiguous.md"),
            },
            Self::WrongState => CodeText {
                text: "wrong-state",
                status: 409,
                retryable: false,
                title: "The current state does not allow this",
                page: include_str!("../../../docs/errors/wrong-state.md"),
            },
            Self::BreakingChange => CodeText {
                text: "breaking-change",
                status: 409,
                retryable: false,
                title: "Functions that are in use would break",
                page: include_str!("../../../docs/errors/breaking-change.md"),
            },
            Self::SequenceGap => CodeText {
                text: "SEQUENCE_GAP",
                status: 409,
                retryable: false,
                title: "A sequence before this one is missing",
                page: include_str!("../../../docs/errors/SEQUENCE_GAP.md"),
            },
            Self::SequenceExhausted => CodeText {
                text: "SEQUENCE_EXHAUSTED",
                status: 409,
                retryable: false,
                title: "The client has no further sequence",
                page: include_str!("../../../docs/errors/SEQUENCE_EXHAUSTED.md"),
            },
            Self::StaleAttempt => CodeText {
                text: "STALE_ATTEMPT",
                status: 409,
                retryable: false,
                title: "The attempt was overtaken by a refusal",
                page: include_str!("../../../docs/errors/STALE_ATTEMPT.md"),
            },
            Self::VaultNameTaken => CodeText {
                text: "vault-name-taken",
                status: 409,
                retryable: false,
                title: "The name of the vault is not free yet",
                page: include_str!("../../../docs/errors/vault-name-taken.md"),
            },
            Self::OtherIncarnation => CodeText {
                text: "other-incarnation",
                status: 409,
                retryable: false,
                title: "The vault is another one of the same name",
                page: include_str!("../../../docs/errors/other-incarnation.md"),
            },
            Self::Expired => CodeText {
                text: "expired",
                status: 410,
                retryable: false,
                title: "The operation id is too old",
                page: include_str!("../../../docs/errors/expired.md"),
            },
            Self::Compacted => CodeText {
                text: "compacted",
                status: 410,
                retryable: false,
                title: "The log does not go back that far",
                page: include_str!("../../../docs/errors/compacted.md"),
            },
            Self::KeyExists => CodeText {
                text: "KEY_EXISTS",
                status: 412,
                retryable: false,
                title: "There is an entity under the key",
                page: include_str!("../../../docs/errors/KEY_EXISTS.md"),
            },
            Self::KeyNotFound => CodeText {
                text: "KEY_NOT_FOUND",
                status: 412,
                retryable: false,
                title: "There is no entity under the key",
                page: include_str!("../../../docs/errors/KEY_NOT_FOUND.md"),
            },
            Self::VersionMismatch => CodeText {
                text: "VERSION_MISMATCH",
                status: 412,
                retryable: false,
                title: "The entity has another version",
                page: include_str!("../../../docs/errors/VERSION_MISMATCH.md"),
            },
            Self::ValueMismatch => CodeText {
                text: "VALUE_MISMATCH",
                status: 412,
                retryable: false,
                title: "The entity holds something else",
                page: include_str!("../../../docs/errors/VALUE_MISMATCH.md"),
            },
            Self::BelowMin => CodeText {
                text: "BELOW_MIN",
                status: 412,
                retryable: false,
                title: "Less would remain than the minimum",
                page: include_str!("../../../docs/errors/BELOW_MIN.md"),
            },
            Self::AboveMax => CodeText {
                text: "ABOVE_MAX",
                status: 412,
                retryable: false,
                title: "More would be there than the maximum",
                page: include_str!("../../../docs/errors/ABOVE_MAX.md"),
            },
            Self::UnitMismatch => CodeText {
                text: "UNIT_MISMATCH",
                status: 412,
                retryable: false,
                title: "The entity is not an amount of this unit",
                page: include_str!("../../../docs/errors/UNIT_MISMATCH.md"),
            },
            Self::AmountOverflow => CodeText {
                text: "AMOUNT_OVERFLOW",
                status: 412,
                retryable: false,
                title: "The amount would be too large",
                page: include_str!("../../../docs/errors/AMOUNT_OVERFLOW.md"),
            },
            Self::ResultTooLarge => CodeText {
                text: "RESULT_TOO_LARGE",
                status: 412,
                retryable: false,
                title: "The results would be too large",
                page: include_str!("../../../docs/errors/RESULT_TOO_LARGE.md"),
            },
            Self::PayloadTooLarge => CodeText {
                text: "payload-too-large",
                status: 413,
                retryable: false,
                title: "The payload is too large",
                page: include_str!("../../../docs/errors/payload-too-large.md"),
            },
            Self::UnsupportedMediaType => CodeText {
                text: "unsupported-media-type",
                status: 415,
                retryable: false,
                title: "The content type is not supported",
                page: include_str!("../../../docs/errors/unsupported-media-type.md"),
            },
            Self::Mismatch => CodeText {
                text: "mismatch",
                status: 422,
                retryable: false,
                title: "The idempotency key was already used for another request",
                page: include_str!("../../../docs/errors/mismatch.md"),
            },
            Self::InvalidComponent => CodeText {
                text: "invalid-component",
                status: 422,
                retryable: false,
                title: "The component cannot be deployed",
                page: include_str!("../../../docs/errors/invalid-component.md"),
            },
            Self::SequenceMismatch => CodeText {
                text: "SEQUENCE_MISMATCH",
                status: 422,
                retryable: false,
                title: "The sequence was already used for another request",
                page: include_str!("../../../docs/errors/SEQUENCE_MISMATCH.md"),
            },
            Self::FunctionFailed => CodeText {
                text: "function-failed",
                status: 424,
                retryable: false,
                title: "The function failed",
                page: include_str!("../../../docs/errors/function-failed.md"),
            },
            Self::Cancelled => CodeText {
                text: "cancelled",
                status: 424,
                retryable: false,
                title: "The execution was cancelled",
                page: include_str!("../../../docs/errors/cancelled.md"),
            },
            Self::Indeterminate => CodeText {
                text: "indeterminate",
                status: 424,
                retryable: false,
                title: "The outcome is unknown",
                page: include_str!("../../../docs/errors/indeterminate.md"),
            },
            Self::TooManySignals => CodeText {
                text: "too-many-signals",
                status: 429,
                retryable: true,
                title: "The execution has too many unread signals",
                page: include_str!("../../../docs/errors/too-many-signals.md"),
            },
            Self::Internal => CodeText {
                text: "internal",
                status: 500,
                retryable: false,
                title: "Internal server error",
                page: include_str!("../../../docs/errors/internal.md"),
            },
            Self::Damaged => CodeText {
                text: "damaged",
                status: 500,
                retryable: false,
                title: "A part of the data folder is damaged",
                page: include_str!("../../../docs/errors/damaged.md"),
            },
            Self::Busy => CodeText {
                text: "busy",
                status: 503,
                retryable: true,
                title: "The server is busy",
                page: include_str!("../../../docs/errors/busy.md"),
            },
            Self::OnHold => CodeText {
                text: "on-hold",
                status: 503,
                retryable: true,
                title: "The server is on hold",
                page: include_str!("../../../docs/errors/on-hold.md"),
            },
            Self::Restored => CodeText {
                text: "restored",
                status: 503,
                retryable: true,
                title: "The data was restored from a backup",
                page: include_str!("../../../docs/errors/restored.md"),
            },
            Self::Stopping => CodeText {
                text: "stopping",
                status: 503,
                retryable: true,
                title: "The server is stopping",
                page: include_str!("../../../docs/errors/stopping.md"),
            },
            Self::StoreStopped => CodeText {
                text: "store-stopped",
                status: 503,
                retryable: true,
                title: "The store has stopped",
                page: include_str!("../../../docs/errors/store-stopped.md"),
            },
            Self::Unknown => CodeText {
                text: "unknown",
                status: 500,
                retryable: false,
                title: "Unknown error code",
                page: "This version of `indelible` does not know this code. A newer server sent \
                     it; see that version's documentation.\n",
            },
        }
    }

    /// Its text.
    pub const fn as_str(self) -> &'static str {
        self.about().text
    }

    /// The status of an answer with it.
    pub const fn status(self) -> u16 {
        self.about().status
    }

    /// Whether the same request may succeed later.
    pub const fn is_retryable(self) -> bool {
        self.about().retryable
    }

    /// What it means, in a few words.
    pub const fn title(self) -> &'static str {
        self.about().title
    }

    /// What it means, and what to do: Markdown.
    pub const fn page(self) -> &'static str {
        self.about().page
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that is no code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchCode;

impl fmt::Display for NoSuchCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown error code")
    }
}

impl std::error::Error for NoSuchCode {}

impl FromStr for Code {
    type Err = NoSuchCode;

    fn from_str(text: &str) -> Result<Self, NoSuchCode> {
        Self::ALL.into_iter().find(|code| code.as_str() == text).ok_or(NoSuchCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text in documents, in paths and in pages is one.
    #[test]
    fn a_code_has_one_text() {
        for code in Code::ALL {
            let json = serde_json::to_string(&code).expect("it is JSON");
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(code.as_str().parse(), Ok(code));
            assert!((400..600).contains(&code.status()), "{code}");
            let head = format!("# {code}\n\nStatus {}.", code.status());
            assert!(code.page().starts_with(&head), "{code}");
            assert!(code.page().contains(code.title()), "{code}");
        }
    }

    /// No page is left over, and none is missing.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the pages are files")]
    fn every_page_has_a_code() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        for file in std::fs::read_dir(folder).expect("the folder is there") {
            let name = file.expect("it can be read").file_name();
            let name = name.to_string_lossy();
            let code = name.strip_suffix(".md").expect("pages are Markdown");
            assert!(code == "README" || code.parse::<Code>().is_ok(), "{name}");
        }
    }
}
