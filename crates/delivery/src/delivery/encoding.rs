//! The row of a delivery.

use super::{DeadReason, Delivery, State, WaitCause};
use crate::attempt::FailureRecord;
use crate::bytes::{Decoder, Encoder, Malformed};
use crate::ids::MessageId;

const VERSION: u8 = 1;

impl Delivery {
    /// Its row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        encode_state(&self.state, &mut out);
        out.u32(self.attempts);
        out.u32(self.retries);
        out.bool(self.may_have_arrived);
        out.list(&self.failures, |out, failure| failure.encode(out));
        out.finish()
    }

    /// The delivery of a row.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            Ok(Self {
                state: decode_state(from)?,
                attempts: from.u32()?,
                retries: from.u32()?,
                may_have_arrived: from.bool()?,
                failures: from.list(FailureRecord::decode)?,
            })
        })
    }
}

fn encode_state(state: &State, out: &mut Encoder) {
    match state {
        State::Queued => out.u8(1),
        State::Sending { since } => {
            out.u8(2);
            out.time(*since);
        }
        State::Waiting { until, cause } => {
            out.u8(3);
            out.time(*until);
            out.u8(match cause {
                WaitCause::Retry => 1,
                WaitCause::Endpoint => 2,
            });
        }
        State::Delivered { at, status } => {
            out.u8(4);
            out.time(*at);
            out.u16(*status);
        }
        State::Dead { at, reason } => {
            out.u8(5);
            out.time(*at);
            out.u8(reason.number());
        }
        State::Reissued { at, by } => {
            out.u8(6);
            out.time(*at);
            out.raw(by.as_bytes());
        }
        State::Abandoned { at } => {
            out.u8(7);
            out.time(*at);
        }
        State::Ended { at, reason } => {
            out.u8(8);
            out.time(*at);
            out.u8(reason.number());
        }
    }
}

fn decode_state(from: &mut Decoder<'_>) -> Result<State, Malformed> {
    Ok(match from.u8()? {
        1 => State::Queued,
        2 => State::Sending { since: from.time()? },
        3 => State::Waiting {
            until: from.time()?,
            cause: match from.u8()? {
                1 => WaitCause::Retry,
                2 => WaitCause::Endpoint,
                _ => return Err(Malformed("a delivery waits for an unknown cause")),
            },
        },
        4 => State::Delivered { at: from.time()?, status: from.u16()? },
        5 => State::Dead { at: from.time()?, reason: decode_reason(from)? },
        6 => State::Reissued { at: from.time()?, by: MessageId::from_bytes(from.array()?) },
        7 => State::Abandoned { at: from.time()? },
        8 => State::Ended { at: from.time()?, reason: decode_reason(from)? },
        _ => return Err(Malformed("a delivery has an unknown state")),
    })
}

pub(crate) fn decode_reason(from: &mut Decoder<'_>) -> Result<DeadReason, Malformed> {
    DeadReason::from_number(from.u8()?).ok_or(Malformed("a reason is not one"))
}
