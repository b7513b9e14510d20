//! What crosses between a function and the test host: the contract's types and the journal's.

use indelible_execution::guest;
use indelible_journal::{self as journal, Codec, Outcome};

use crate::bindings::indelible::guest::host::{Failure, Outcome as WireOutcome, Payload, Settled};
use crate::bindings::indelible::guest::types::ErrorKind;

/// The two sides of each kind. A function cannot claim the last two: only a host finds that a guest
/// trapped or ran differently.
const KINDS: [(ErrorKind, journal::ErrorKind); 9] = [
    (ErrorKind::UserError, journal::ErrorKind::UserError),
    (ErrorKind::Transient, journal::ErrorKind::Transient),
    (ErrorKind::Timeout, journal::ErrorKind::Timeout),
    (ErrorKind::Cancelled, journal::ErrorKind::Cancelled),
    (ErrorKind::Indeterminate, journal::ErrorKind::Indeterminate),
    (ErrorKind::NotPerformed, journal::ErrorKind::NotPerformed),
    (ErrorKind::Uncategorized, journal::ErrorKind::Uncategorized),
    (ErrorKind::Trap, journal::ErrorKind::Trap),
    (ErrorKind::Nondeterminism, journal::ErrorKind::Nondeterminism),
];

/// How many of [`KINDS`] a function can claim.
const CLAIMED: usize = 7;

pub(super) fn payload_in(payload: &Payload) -> journal::Payload {
    journal::Payload::new(Codec::from_number(payload.codec), payload.bytes.clone())
}

pub(super) fn payload_out(payload: journal::Payload) -> Payload {
    Payload { codec: payload.codec.number(), bytes: payload.bytes.into() }
}

/// How a function ended, as its journal has it.
pub(super) fn result_in(
    result: Result<crate::Payload, crate::Failure>,
) -> Result<journal::Payload, journal::Failure> {
    match result {
        Ok(payload) => Ok(payload_in(&payload.into_host())),
        Err(failure) => {
            let Failure { kind, message, detail } = failure.into_host();
            let known = KINDS[..CLAIMED].iter().find(|(claimed, _)| *claimed == kind);
            let kind = known.map_or(journal::ErrorKind::UserError, |(_, kind)| *kind);
            Err(journal::Failure { kind, message, detail: detail.as_ref().map(payload_in) })
        }
    }
}

pub(super) fn failure_out(failure: journal::Failure) -> Failure {
    let kind = KINDS.iter().find(|(_, kind)| *kind == failure.kind);
    Failure {
        kind: kind.map_or(ErrorKind::Uncategorized, |(kind, _)| *kind),
        message: failure.message,
        detail: failure.detail.map(payload_out),
    }
}

pub(super) fn outcome_out(outcome: Outcome) -> WireOutcome {
    match outcome {
        Outcome::Ok(payload) => Ok(payload_out(payload)),
        Outcome::Err(failure) => Err(failure_out(*failure)),
    }
}

pub(super) fn settled_out(settled: guest::Settled) -> Settled {
    Settled { promise: settled.promise, outcome: outcome_out(settled.outcome) }
}
