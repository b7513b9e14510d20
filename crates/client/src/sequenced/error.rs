//! Why a writer does not go on: each case that a program has to tell apart is a variant.

use indelible_api::Problem;

use super::decide::Stop;
use super::file::StateFileError;
use super::state::StreamName;
use crate::error::{Error, Invalid, Lost, Malformed};

/// Why a request of a [`Sequenced`](crate::Sequenced) has no success.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SequencedError {
    /// The transaction was refused: nothing has changed, and nothing of it will. The number is free
    /// for another transaction.
    #[error("refused: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// The server refused to look at the request, and an earlier copy of it may have been applied: a
    /// role was taken away meanwhile, for one. The file keeps it: call
    /// [`resume`](crate::Sequenced::resume) once the cause is mended.
    #[error(
        "refused ({}) after an earlier attempt that may have been applied; the request is kept: {}",
        .0.code, .0.detail
    )]
    Unsettled(Box<Problem>),
    /// An earlier request has no answer yet. Call [`resume`](crate::Sequenced::resume) first.
    #[error("sequence {sequence} of {stream} is not known to be answered; resume it first")]
    Unfinished {
        /// Whose number.
        stream: Box<StreamName>,
        /// The number.
        sequence: u64,
    },
    /// There is no state file, and the server knows the client: the file was lost, or another program
    /// uses the client id. Look for the file. If it is gone, open with
    /// [`IfMissing::AskServer`](crate::IfMissing::AskServer).
    #[error(
        "there is no state file for {stream}, and the server knows it up to sequence {last}: the \
         file was lost, or another program writes under this client id"
    )]
    FileMissing {
        /// Whose file.
        stream: Box<StreamName>,
        /// The last number that the server has.
        last: u64,
    },
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The writer stops, and the file stays as it is: a person has to look.
    #[error("{stream} stops{}: {reason}", at(*.sequence))]
    Stopped {
        /// Whose stream.
        stream: Box<StreamName>,
        /// The number of the request that is not sent.
        sequence: Option<u64>,
        /// Why.
        reason: StopReason,
    },
    /// There is no answer. The file keeps the request: call [`resume`](crate::Sequenced::resume).
    #[error(transparent)]
    Transport(Lost),
    /// The answer is malformed. The file keeps the request: call
    /// [`resume`](crate::Sequenced::resume).
    #[error(transparent)]
    Malformed(Malformed),
    /// The request cannot be made. Nothing was sent, and no number was used.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

fn at(sequence: Option<u64>) -> String {
    sequence.map(|sequence| format!(" at sequence {sequence}")).unwrap_or_default()
}

/// Why a writer stops, and what a person can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// The server was restored from a backup, and its stream ends before transactions that this client
    /// knows to be committed (C-48). Find out what was lost and whether it is to be done again; then
    /// remove the state file, and open with [`IfMissing::AskServer`](crate::IfMissing::AskServer).
    #[error(
        "the server was restored from a backup, and transactions that were committed are gone; \
         nothing is renumbered"
    )]
    Restored,
    /// The vault is not the one that this client has written to (C-47): it was deleted and made again,
    /// or the address leads to another server. If the new one is meant, use another state file.
    #[error("the vault is another one of the same name than this client has written to")]
    OtherIncarnation,
    /// The client id belongs to another caller (C-46). Use one of your own, or have an operator hand
    /// it over.
    #[error("the client id belongs to another caller")]
    ForeignClient,
    /// The server has another request under the number: another process writes under this client id,
    /// or the state file is an old copy. Compare the log of the vault with what this client has done;
    /// then remove the state file, and open with
    /// [`IfMissing::AskServer`](crate::IfMissing::AskServer).
    #[error(
        "the number was used for another request: another process uses this client id, or the state \
         file is an old copy"
    )]
    NumberTaken,
    /// The stream has no further numbers or attempts (C-49). Go on under another client id.
    #[error("the client has no further numbers; go on under another client id")]
    Exhausted,
    /// The request was overtaken again and again: another process writes under this client id. Give
    /// each its own, then call [`resume`](crate::Sequenced::resume).
    #[error("another process writes under this client id")]
    Contended,
}

impl StopReason {
    pub(super) fn of(stop: Stop) -> Self {
        match stop {
            Stop::Restored => Self::Restored,
            Stop::OtherIncarnation => Self::OtherIncarnation,
            Stop::ForeignClient => Self::ForeignClient,
            Stop::NumberTaken => Self::NumberTaken,
            Stop::Exhausted | Stop::AttemptsExhausted => Self::Exhausted,
            // These two have errors of their own.
            Stop::Unsettled | Stop::Nonsense => Self::Contended,
        }
    }
}

impl SequencedError {
    /// Of a request that only reads.
    pub(super) fn of(error: Error) -> Self {
        match error {
            Error::Mismatch(problem) | Error::Expired(problem) | Error::Refused(problem) => {
                Self::Unsettled(problem)
            }
            Error::Transport(lost) => Self::Transport(lost),
            Error::Malformed(malformed) => Self::Malformed(malformed),
            Error::Invalid(invalid) => Self::Invalid(invalid),
        }
    }
}
