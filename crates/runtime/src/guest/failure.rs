//! How a guest's end becomes a failure that people can read and programs can match on: the one
//! place where traps turn into outcomes.

use std::fmt::Write as _;

use indelible_journal::{ErrorKind, Failure};
use wasmtime::{Trap, WasmBacktrace};

use super::bounds::{BACKTRACE_FRAMES_MAX, FAILURE_MESSAGE_BYTES_MAX, FRAME_NAME_BYTES_MAX, cut};
use super::run::Stop;
use super::state::{Halt, Panic, Rules};
use super::wire;

/// How a guest ended that did not return.
pub(super) fn trapped(error: &wasmtime::Error, panic: Option<&Panic>) -> Stop {
    let (kind, message) = match error.downcast_ref::<Halt>() {
        Some(Halt::Stop) => return Stop::Stopped,
        Some(Halt::Timeout(message)) => (ErrorKind::Timeout, message.clone()),
        Some(Halt::Trap(message)) => (ErrorKind::Trap, message.clone()),
        // A panic ends in `unreachable`; the guest's own message is worth more than the place.
        None if let Some(Panic { message, location }) = panic => {
            let message = if location.is_empty() {
                format!("panicked: {message}")
            } else {
                format!("panicked at {location}: {message}")
            };
            return Stop::Trapped(failure(ErrorKind::Trap, message));
        }
        None => (ErrorKind::Trap, reason(error)),
    };
    Stop::Trapped(failure(kind, message + &backtrace(error)))
}

fn failure(kind: ErrorKind, message: String) -> Failure {
    Failure::new(kind, cut(message, FAILURE_MESSAGE_BYTES_MAX))
}

/// The reason of a trap, in a line.
fn reason(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => "trapped: it reached `unreachable`".into(),
        Some(Trap::StackOverflow) => "trapped: its stack is exhausted".into(),
        Some(Trap::MemoryOutOfBounds) => {
            "trapped: memory access out of bounds (a stack overflow can look like this, too)".into()
        }
        Some(trap) => {
            let text = trap.to_string();
            format!("trapped: {}", text.strip_prefix("wasm trap: ").unwrap_or(&text))
        }
        None => {
            let text = error.root_cause().to_string();
            // wasmtime keeps this error's type private, so its text has to do; a test checks it.
            if text.contains("hostcall") && text.contains("fuel") {
                return "passed more bytes to the host in one call than allowed \
                     (`handed_over_bytes_max`)"
                    .into();
            }
            format!("trapped: {text}")
        }
    }
}

/// Where a trap happened: the innermost frames, one in a line.
fn backtrace(error: &wasmtime::Error) -> String {
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], WasmBacktrace::frames);
    let mut text = String::new();
    for frame in frames.iter().take(BACKTRACE_FRAMES_MAX) {
        let name = match frame.func_name() {
            // `{:#}`: without the hash, which says nothing to people.
            Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
            None => format!("function {}", frame.func_index()),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  in {}", cut(name, FRAME_NAME_BYTES_MAX));
    }
    if frames.len() > BACKTRACE_FRAMES_MAX {
        // How many more is not known: wasmtime has a bound of its own.
        text.push_str("\n  and more");
    }
    text
}

/// How a guest ended that returned. What it returned is bounded before it is journaled.
pub(super) fn returned(result: Result<wire::Payload, wire::Failure>, rules: &Rules) -> Stop {
    let bytes_max = rules.payload_bytes_max;
    let too_large = |what: &str, bytes: usize| {
        format!("the function returned {what} of {bytes} bytes; at most {bytes_max} are allowed")
    };
    Stop::Returned(match result {
        Ok(payload) => {
            let payload = indelible_journal::Payload::from(payload);
            match payload.bytes.len() {
                bytes if bytes > bytes_max => {
                    // This is its outcome, since it would return as much in every attempt.
                    Err(failure(ErrorKind::UserError, too_large("a value", bytes)))
                }
                _ => Ok(payload),
            }
        }
        Err(error) => {
            let mut error = Failure::from(error);
            error.message = cut(error.message, FAILURE_MESSAGE_BYTES_MAX);
            if let Some(detail) = error.detail.take_if(|detail| detail.bytes.len() > bytes_max) {
                let note = too_large("an error value", detail.bytes.len());
                error.message = cut(error.message, FAILURE_MESSAGE_BYTES_MAX / 2);
                error.message.push_str(&format!(" ({note})"));
            }
            Err(error)
        }
    })
}
