//! From what the engine says to what a caller is told: the one place where errors of the rooms
//! behind become codes of the API. What is told of a mistake of the server's own is only that it is
//! one; the log has the rest.

use indelible_api::{Code, Problem};
use indelible_runtime::guest::DeployError;
use indelible_runtime::{ControlError, DeployRefused, EngineError, NotDone, StartRefused};

use crate::state::State;

/// There is none with this id, or it is somebody else's: the same words for both.
pub(crate) fn not_found() -> Problem {
    Problem::new(Code::NotFound, "there is none with this id that the credential may see")
}

/// Stored rows that the request needs are damaged. The log has table and key; the answer does not,
/// because the key may belong to another caller.
pub(crate) fn damaged() -> Problem {
    Problem::new(Code::Damaged, "a part of the data folder is damaged, and this request needs it")
}

impl State {
    /// The engine cannot do anything now.
    pub(crate) fn engine_error(&self, error: &EngineError) -> Problem {
        match error {
            EngineError::Busy { .. } | EngineError::ReadsBusy { .. } => {
                Problem::new(Code::Busy, error.to_string())
            }
            EngineError::Stopped => Problem::new(Code::Stopping, "the server stops"),
            EngineError::Lost(_) => Problem::new(
                Code::StoreStopped,
                "the store has stopped: nobody knows of this request",
            ),
            error if error.is_damage() => {
                if let EngineError::Malformed(what) = error {
                    self.engine.store().damage().note(what);
                }
                damaged()
            }
            error => {
                self.trouble(&format!("a request could not be carried out: {error}"));
                Problem::new(Code::Internal, "the server's log says more")
            }
        }
    }

    /// Why a function was not started.
    pub(crate) fn start_refused(&self, refused: &StartRefused) -> Problem {
        let code = match refused {
            StartRefused::NoComponent(_) => Code::NoSuchComponent,
            StartRefused::NoFunction { .. } => Code::NoSuchFunction,
            StartRefused::TooLarge { .. } => Code::PayloadTooLarge,
            StartRefused::Conflict => Code::Conflict,
            StartRefused::Expired => Code::Expired,
            StartRefused::FromTheFuture => Code::OperationIdFromTheFuture,
            StartRefused::Indeterminate => Code::Indeterminate,
            StartRefused::Mismatch => Code::Mismatch,
            StartRefused::KeyAndId => Code::KeyAndOperationId,
            StartRefused::ReservedNamespace => Code::ReservedNamespace,
            StartRefused::Engine(error) => return self.engine_error(error),
            other => {
                self.trouble(&format!("a start was refused: {other}"));
                return Problem::new(Code::Internal, "the server's log says more");
            }
        };
        Problem::new(code, refused.to_string())
    }

    /// Why something was not done to an execution.
    pub(crate) fn not_done(&self, error: &ControlError) -> Problem {
        let code = match error {
            ControlError::NotDone(NotDone::Unknown) => return not_found(),
            ControlError::NotDone(NotDone::Full(_) | NotDone::FullBytes(_)) => Code::TooManySignals,
            ControlError::NotDone(NotDone::Damaged(_)) => return damaged(),
            ControlError::NotDone(NotDone::Broken(why)) => {
                self.trouble(&format!("an execution cannot go on: {why}"));
                return Problem::new(Code::Internal, "the server's log says more");
            }
            ControlError::NotDone(_) | ControlError::ClocksDiffer { .. } => Code::WrongState,
            ControlError::TooLarge { .. } => Code::PayloadTooLarge,
            ControlError::Mismatch => Code::Mismatch,
            ControlError::Engine(error) => return self.engine_error(error),
            other => {
                self.trouble(&format!("a command was refused: {other}"));
                return Problem::new(Code::Internal, "the server's log says more");
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
                self.trouble(&format!("a component could not be compiled: {}", chain(error)));
                Problem::new(Code::Internal, "the server's log says more")
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
