//! How an attempt ended, and what that proves (C-52).

use std::fmt;

use indelible_journal::{Micros, Timestamp};
pub use indelible_operations::effect::Unknown;

use crate::bounds::FAILURE_TEXT_BYTES_MAX;
use crate::bytes::{Decoder, Encoder, Malformed};

/// How an attempt ended, as the shell saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// An answer with this status.
    Answered {
        /// The status.
        status: u16,
        /// How long its `Retry-After` asks to wait.
        retry_after: Option<Micros>,
    },
    /// Nothing was sent, provably (D5): name lookup, connect or TLS failed.
    NotSent,
    /// The address is not allowed. Nothing was sent, and nothing will be.
    Forbidden,
    /// It may have arrived, and there is no answer.
    Unknown(Unknown),
}

/// What an end means for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It arrived.
    Delivered,
    /// It was not processed, or never left: another attempt is safe.
    NotProcessed,
    /// It was refused for good.
    RefusedForGood,
    /// The endpoint is gone: it is refused for good, and so is every later one.
    EndpointGone,
    /// It may have been processed.
    Unknown,
}

/// Whether a 503 with `Retry-After` proves that the request was not processed. The endpoint says so
/// (C-52).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Busy503 {
    /// It does not.
    Unknown,
    /// It does.
    NotProcessed,
}

impl AttemptEnd {
    /// What it means (impl C-52). Redirects are not followed, and prove nothing about what stands
    /// behind the address that answered.
    pub fn meaning(&self, busy: Busy503) -> Meaning {
        match self {
            Self::Answered { status: 200..=299, .. } => Meaning::Delivered,
            Self::Answered { status: 410, .. } => Meaning::EndpointGone,
            Self::Answered { status: 408, .. } => Meaning::Unknown,
            Self::Answered { status: 400..=499, .. } | Self::NotSent => Meaning::NotProcessed,
            Self::Answered { status: 503, retry_after: Some(_) }
                if busy == Busy503::NotProcessed =>
            {
                Meaning::NotProcessed
            }
            Self::Answered { .. } | Self::Unknown(_) => Meaning::Unknown,
            Self::Forbidden => Meaning::RefusedForGood,
        }
    }

    /// How long the receiver asks to wait.
    pub fn retry_after(&self) -> Option<Micros> {
        match self {
            Self::Answered { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The code of the failure; `None` if it was delivered.
    pub fn code(&self) -> Option<FailureCode> {
        match self {
            Self::Answered { status: 200..=299, .. } => None,
            Self::Answered { status, .. } => Some(FailureCode::Status(*status)),
            Self::NotSent => Some(FailureCode::NotSent),
            Self::Forbidden => Some(FailureCode::Forbidden),
            Self::Unknown(Unknown::NoAnswer) => Some(FailureCode::NoAnswer),
            Self::Unknown(Unknown::TimedOut) => Some(FailureCode::DeliveryTimeout),
            Self::Unknown(Unknown::EngineLost) => Some(FailureCode::SenderLost),
        }
    }
}

/// Why an attempt failed: the `errorCode` of O-30.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureCode {
    /// An answer with this status.
    Status(u16),
    /// Nothing was sent.
    NotSent,
    /// The address is not allowed.
    Forbidden,
    /// The connection was cut before an answer.
    NoAnswer,
    /// No answer came in time (O-45).
    DeliveryTimeout,
    /// The process that sent it died.
    SenderLost,
    /// The receiver refused the message with one of the codes of O-45.
    Rejected(crate::oip::ErrorCode),
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "STATUS_{status}"),
            Self::NotSent => f.pad("NOT_SENT"),
            Self::Forbidden => f.pad("ADDRESS_FORBIDDEN"),
            Self::NoAnswer => f.pad("NO_ANSWER"),
            Self::DeliveryTimeout => f.pad("DELIVERY_TIMEOUT"),
            Self::SenderLost => f.pad("SENDER_LOST"),
            Self::Rejected(code) => code.fmt(f),
        }
    }
}

/// One failed attempt (impl O-30).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureRecord {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it failed.
    pub failed_at: Timestamp,
    /// Why, for programs.
    pub code: FailureCode,
    /// Why, for people.
    pub text: Box<str>,
}

impl FailureRecord {
    /// A record. A longer text is cut.
    pub fn new(attempt: u32, failed_at: Timestamp, code: FailureCode, text: &str) -> Self {
        let text = text[..text.floor_char_boundary(FAILURE_TEXT_BYTES_MAX)].into();
        Self { attempt, failed_at, code, text }
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        out.u32(self.attempt);
        out.time(self.failed_at);
        match self.code {
            FailureCode::Status(status) => {
                out.u8(1);
                out.u16(status);
            }
            FailureCode::NotSent => out.u8(2),
            FailureCode::Forbidden => out.u8(3),
            FailureCode::NoAnswer => out.u8(4),
            FailureCode::DeliveryTimeout => out.u8(5),
            FailureCode::SenderLost => out.u8(6),
            FailureCode::Rejected(code) => {
                out.u8(7);
                out.u8(code.number());
            }
        }
        out.text(&self.text);
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let attempt = from.u32()?;
        let failed_at = from.time()?;
        let code = match from.u8()? {
            1 => FailureCode::Status(from.u16()?),
            2 => FailureCode::NotSent,
            3 => FailureCode::Forbidden,
            4 => FailureCode::NoAnswer,
            5 => FailureCode::DeliveryTimeout,
            6 => FailureCode::SenderLost,
            7 => {
                let code = crate::oip::ErrorCode::from_number(from.u8()?);
                FailureCode::Rejected(code.ok_or(Malformed("an error code is not one"))?)
            }
            _ => return Err(Malformed("a failure is of unknown kind")),
        };
        Ok(Self { attempt, failed_at, code, text: from.text()?.into() })
    }
}
