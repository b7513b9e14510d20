//! From the engine's errors to what a caller is told: the one place where internal errors become
//! codes of the API. Of an error of the server itself, the caller learns only that it occurred; the
//! log has the rest.

use std::fmt::Display;

use indelible_api::{Code, Problem};
use indelible_runtime::delivery::DeliveryError;
use indelible_runtime::guest::DeployError;
use indelible_runtime::ledger::LedgerError;
use indelible_runtime::{CommandRefusal, ControlError, DeployRefused, EngineError, StartRefused};
use tracing::error;

use crate::state::State;

/// Nothing with this id exists, or it belongs to another namespace: the same words for both.
pub(crate) fn not_found() -> Problem {
    Problem::new(Code::NotFound, "nothing with this id is visible to the credential")
}

/// Stored rows that the request needs are damaged. The log has table and key; the answer does not,
/// because the key may belong to another caller.
pub(crate) fn damaged() -> Problem {
    Problem::new(Code::Damaged, "the request needs a part of the data folder that is damaged")
}

/// Something that the server itself got wrong. The caller learns only that.
pub(crate) fn internal(error: &dyn Display) -> Problem {
    error!(%error, "request failed");
    Problem::new(Code::Internal, "an internal error occurred; see the server's log")
}

/// The store cannot reach its backend. It resumes by itself, and may then carry out this request.
pub(crate) fn store_paused() -> Problem {
    Problem::new(
        Code::StoreStopped,
        "the store is paused: it is unknown whether the request was accepted; ask again under the \
         same key or operation id",
    )
}

impl State {
    /// The engine cannot do anything now.
    pub(crate) fn engine_error(&self, error: &EngineError) -> Problem {
        match error {
            EngineError::Busy { .. } | EngineError::ReadsBusy { .. } => {
                Problem::new(Code::Busy, error.to_string())
            }
            EngineError::OnHold => Problem::new(
                Code::OnHold,
                "the server is on hold: it shows what is stored, and nothing goes on until an \
                 operator lifts the hold",
            ),
            EngineError::Restored { .. } => Problem::new(Code::Restored, error.to_string()),
            EngineError::Stopped => Problem::new(Code::Stopping, "the server is stopping"),
            error if error.is_pause() => store_paused(),
            EngineError::Lost(_) => Problem::new(
                Code::StoreStopped,
                "the store has stopped: it is unknown whether the request was accepted; ask again \
                 under the same key or operation id",
            ),
            error if error.is_damage() => {
                if let EngineError::Malformed(what) = error {
                    self.engine.store().damage().note(what);
                }
                damaged()
            }
            error => internal(error),
        }
    }

    /// Why nothing was written to the ledger, or nothing is shown of it.
    pub(crate) fn ledger_error(&self, error: &LedgerError) -> Problem {
        let code = match error {
            LedgerError::NoVault => Code::NoSuchVault,
            LedgerError::NoClient | LedgerError::Beyond { .. } => Code::NotFound,
            LedgerError::OtherIncarnation(_) => Code::OtherIncarnation,
            LedgerError::NameTaken { .. } => Code::VaultNameTaken,
            LedgerError::Compacted { .. } => Code::Compacted,
            LedgerError::Foreign => {
                self.metrics.refused(Code::ForeignClient.as_str());
                Code::ForeignClient
            }
            LedgerError::Expired => Code::Expired,
            LedgerError::FromTheFuture => Code::OperationIdFromTheFuture,
            LedgerError::Retention { .. } => Code::MalformedRequest,
            LedgerError::Start(refused) => return self.start_refused(refused),
            LedgerError::Engine(error) => return self.engine_error(error),
            LedgerError::Malformed(what) => {
                self.engine.store().damage().note(what);
                return damaged();
            }
            error => return internal(error),
        };
        Problem::new(code, error.to_string())
    }

    /// Why nothing was sent, or nothing was done with an endpoint or a dead letter.
    pub(crate) fn delivery_error(&self, error: &DeliveryError) -> Problem {
        let code = match error {
            DeliveryError::NoEndpoint => Code::NoSuchEndpoint,
            DeliveryError::NoMessage => Code::NotFound,
            DeliveryError::Mismatch => Code::Mismatch,
            DeliveryError::TooManyEndpoints
            | DeliveryError::NotDead
            | DeliveryError::MayHaveArrived => Code::WrongState,
            DeliveryError::Full(_) => Code::Busy,
            DeliveryError::Body(_) => Code::PayloadTooLarge,
            DeliveryError::Engine(error) => return self.engine_error(error),
            DeliveryError::Malformed(what) => {
                self.engine.store().damage().note(what);
                return damaged();
            }
            error => return internal(error),
        };
        Problem::new(code, error.to_string())
    }

    /// Why a function was not started.
    pub(crate) fn start_refused(&self, refused: &StartRefused) -> Problem {
        let code = match refused {
            StartRefused::NoComponent(_) => Code::NoSuchComponent,
            StartRefused::NoFunction { .. } => Code::NoSuchFunction,
            StartRefused::TooLarge { .. } => Code::PayloadTooLarge,
            StartRefused::InvalidInput { .. } => Code::InvalidInput,
            StartRefused::Conflict => Code::Conflict,
            StartRefused::Expired => Code::Expired,
            StartRefused::FromTheFuture => Code::OperationIdFromTheFuture,
            StartRefused::Indeterminate => Code::Indeterminate,
            StartRefused::Mismatch => Code::Mismatch,
            StartRefused::KeyAndId => Code::KeyAndOperationId,
            StartRefused::ReservedNamespace => Code::ReservedNamespace,
            StartRefused::Volatile(_) => Code::MalformedRequest,
            StartRefused::Engine(error) => return self.engine_error(error),
            other => {
                error!(error = %other, "start was refused");
                return Problem::new(
                    Code::Internal,
                    "an internal error occurred; see the server's log",
                );
            }
        };
        Problem::new(code, refused.to_string())
    }

    /// Why something was not done to an execution.
    pub(crate) fn not_done(&self, error: &ControlError) -> Problem {
        let code = match error {
            ControlError::CommandRefusal(CommandRefusal::Unknown) => return not_found(),
            ControlError::CommandRefusal(
                CommandRefusal::Full(_) | CommandRefusal::FullBytes(_),
            ) => Code::TooManySignals,
            ControlError::CommandRefusal(CommandRefusal::Damaged(_)) => return damaged(),
            ControlError::CommandRefusal(CommandRefusal::Broken(why)) => {
                error!(error = why, "execution cannot continue");
                return Problem::new(
                    Code::Internal,
                    "an internal error occurred; see the server's log",
                );
            }
            ControlError::CommandRefusal(_) | ControlError::ClocksDiffer { .. } => Code::WrongState,
            ControlError::TooLarge { .. } => Code::PayloadTooLarge,
            ControlError::Mismatch => Code::Mismatch,
            ControlError::Engine(error) => return self.engine_error(error),
            other => {
                error!(error = %other, "command was refused");
                return Problem::new(
                    Code::Internal,
                    "an internal error occurred; see the server's log",
                );
            }
        };
        Problem::new(code, error.to_string())
    }

    /// Why a component was not deployed.
    pub(crate) fn not_deployed(&self, refused: &DeployRefused) -> Problem {
        match refused {
            DeployRefused::Name(error) => Problem::new(Code::MalformedRequest, error.to_string()),
            DeployRefused::Component(error @ DeployError::Busy { .. }) => {
                Problem::new(Code::Busy, error.to_string())
            }
            DeployRefused::Component(error @ DeployError::Compiler(_)) => {
                error!(error = chain(error), "component cannot be compiled");
                Problem::new(Code::Internal, "an internal error occurred; see the server's log")
            }
            DeployRefused::Component(error) => {
                let mut detail = chain(error);
                // For these, what to do depends on what was found.
                if let DeployError::TooComplex(_) | DeployError::Stopped(_) = error {
                    detail = format!("{detail}: {}", error.hint().unwrap_or_default());
                }
                Problem::new(Code::InvalidComponent, detail)
            }
            DeployRefused::Mismatch => Problem::new(Code::Mismatch, refused.to_string()),
            DeployRefused::NoComponent(_) => {
                Problem::new(Code::NoSuchComponent, refused.to_string())
            }
            DeployRefused::NoVersion { .. } => Problem::new(Code::NotFound, refused.to_string()),
            DeployRefused::Breaking { .. } => {
                Problem::new(Code::BreakingChange, refused.to_string())
            }
            DeployRefused::Engine(error) => self.engine_error(error),
            other => Problem::new(Code::Internal, other.to_string()),
        }
    }
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
