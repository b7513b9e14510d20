//! The row of an endpoint. It holds secrets: the shell seals it before it is stored.

use std::num::NonZeroU32;

use indelible_journal::{Backoff, Idempotency, RetryBound};

use super::{Disabled, Endpoint, EndpointState, EndpointUrl, SigningSecret, Subscription};
use crate::attempt::Busy503;
use crate::breaker::Thresholds;
use crate::bytes::{Decoder, Encoder, Malformed};
use crate::lane::LanePolicy;
use crate::schedule::Schedule;
use crate::signing::Secret;

const VERSION: u8 = 1;

impl Endpoint {
    /// Its row. It holds the secrets.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        out.text(self.name.as_str());
        match self.state {
            EndpointState::Enabled => out.u8(1),
            EndpointState::Disabled { since, why } => {
                out.u8(match why {
                    Disabled::Gone => 2,
                    Disabled::Operator => 3,
                });
                out.time(since);
            }
        }
        out.text(self.url.as_str());
        self.subscription.encode(&mut out);
        out.list(&self.secrets, |out, secret| {
            secret.secret.encode(out);
            out.option(secret.until, Encoder::time);
        });
        out.bool(self.class == Idempotency::Idem);
        out.bool(self.busy == Busy503::NotProcessed);
        out.bool(self.lane == LanePolicy::Skip);
        out.option(self.rate, |out, rate| out.u32(rate.get()));
        out.u32(self.in_flight_max.get());
        encode_schedule(&self.schedule, &mut out);
        let Thresholds { failures_percent, attempts_min, window, open_for } = self.breaker;
        out.u8(failures_percent);
        out.u32(attempts_min);
        out.micros(window);
        out.micros(open_for);
        out.micros(self.attempt_timeout);
        out.option(self.ttl, Encoder::micros);
        out.finish()
    }

    /// The endpoint of a row.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            Ok(Self {
                name: from.parsed()?,
                state: decode_state(from)?,
                url: EndpointUrl::new(from.text()?).map_err(|_| Malformed("a URL is not one"))?,
                subscription: Subscription::decode(from)?,
                secrets: from.list(|from| {
                    let secret = Secret::decode(from)?;
                    Ok(SigningSecret { secret, until: from.option(Decoder::time)? })
                })?,
                class: if from.bool()? { Idempotency::Idem } else { Idempotency::NonIdem },
                busy: if from.bool()? { Busy503::NotProcessed } else { Busy503::Unknown },
                lane: if from.bool()? { LanePolicy::Skip } else { LanePolicy::Block },
                rate: from.option(non_zero)?,
                in_flight_max: non_zero(from)?,
                schedule: decode_schedule(from)?,
                breaker: Thresholds {
                    failures_percent: from.u8()?,
                    attempts_min: from.u32()?,
                    window: from.micros()?,
                    open_for: from.micros()?,
                },
                attempt_timeout: from.micros()?,
                ttl: from.option(Decoder::micros)?,
            })
        })
    }
}

fn decode_state(from: &mut Decoder<'_>) -> Result<EndpointState, Malformed> {
    let why = match from.u8()? {
        1 => return Ok(EndpointState::Enabled),
        2 => Disabled::Gone,
        3 => Disabled::Operator,
        _ => return Err(Malformed("an endpoint has an unknown state")),
    };
    Ok(EndpointState::Disabled { since: from.time()?, why })
}

fn non_zero(from: &mut Decoder<'_>) -> Result<NonZeroU32, Malformed> {
    NonZeroU32::new(from.u32()?).ok_or(Malformed("a bound is 0"))
}

fn encode_schedule(schedule: &Schedule, out: &mut Encoder) {
    match schedule {
        Schedule::Steps(steps) => {
            out.u8(1);
            out.list(steps, |out, step| out.micros(*step));
        }
        Schedule::Exponential { backoff, bound } => {
            out.u8(2);
            out.micros(backoff.base);
            out.micros(backoff.cap);
            let most = match bound {
                RetryBound::Bounded(most) => Some(*most),
                RetryBound::Unbounded => None,
            };
            out.option(most, Encoder::u32);
        }
    }
}

fn decode_schedule(from: &mut Decoder<'_>) -> Result<Schedule, Malformed> {
    match from.u8()? {
        1 => from.list(Decoder::micros).map(Schedule::Steps),
        2 => Ok(Schedule::Exponential {
            backoff: Backoff { base: from.micros()?, cap: from.micros()? },
            bound: match from.option(Decoder::u32)? {
                Some(most) => RetryBound::Bounded(most),
                None => RetryBound::Unbounded,
            },
        }),
        _ => Err(Malformed("a schedule is of unknown kind")),
    }
}
