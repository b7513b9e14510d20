//! The encoding of a retry policy, written and read side by side: one or two bytes of flags, then
//! only what differs from the usual. It is in every InvokeScheduled, so the usual policy takes two
//! bytes.

use super::cursor::Cursor;
use super::error::DecodeError;
use super::varint;
use super::write::Writer;
use crate::ids::ComponentDigest;
use crate::names::FunctionName;
use crate::policy::{
    Backoff, Durability, Idempotency, OnUnknown, Reconciler, RetryBound, RetryClass, RetryPolicy,
    Statuses,
};
use crate::time::Micros;

// The first byte.
const VOLATILE: u8 = 1 << 0;
const IDEM: u8 = 1 << 1;
const HOLD: u8 = 1 << 2;
const UNBOUNDED: u8 = 1 << 3;
const BACKOFF: u8 = 1 << 4;
const DEADLINE: u8 = 1 << 5;
const ATTEMPT_TIMEOUT: u8 = 1 << 6;
/// The second byte follows.
const MORE: u8 = 1 << 7;

// The second byte.
const RECONCILER: u8 = 1 << 0;
const NOT_PROCESSED: u8 = 1 << 1;
const CALLEE: u8 = 1 << 2;
const NO_ANSWER: u8 = 1 << 3;
const MORE_KNOWN: u8 = RECONCILER | NOT_PROCESSED | CALLEE | NO_ANSWER;

/// The backoff that is not written. It is a part of the format and never changes, even if
/// `RetryPolicy::default()` does.
const USUAL_BACKOFF: Backoff =
    Backoff { base: Micros::new(1_000_000), cap: Micros::new(60_000_000) };

fn bit(flag: u8, on: bool) -> u8 {
    if on { flag } else { 0 }
}

impl Writer<'_> {
    pub(super) fn policy(&mut self, policy: &RetryPolicy) {
        let statuses = policy.not_processed.as_slice();
        let more = bit(RECONCILER, policy.reconciler.is_some())
            | bit(NOT_PROCESSED, !statuses.is_empty())
            | bit(CALLEE, policy.callee.is_some())
            | bit(NO_ANSWER, policy.no_answer.is_some());
        let flags = bit(VOLATILE, policy.class.durability == Durability::Volatile)
            | bit(IDEM, policy.class.idempotency == Idempotency::Idem)
            | bit(HOLD, policy.on_unknown == OnUnknown::Hold)
            | bit(UNBOUNDED, policy.bound == RetryBound::Unbounded)
            | bit(BACKOFF, policy.backoff != USUAL_BACKOFF)
            | bit(DEADLINE, policy.deadline.is_some())
            | bit(ATTEMPT_TIMEOUT, policy.attempt_timeout.is_some())
            | bit(MORE, more != 0);
        self.out.push(flags);
        if more != 0 {
            self.out.push(more);
        }
        if let RetryBound::Bounded(retries) = policy.bound {
            varint::write(self.out, retries.into());
        }
        if policy.backoff != USUAL_BACKOFF {
            varint::write(self.out, policy.backoff.base.get());
            varint::write(self.out, policy.backoff.cap.get());
        }
        for time in [policy.deadline, policy.attempt_timeout].into_iter().flatten() {
            varint::write(self.out, time.get());
        }
        if let Some(reconciler) = &policy.reconciler {
            self.bytes(reconciler.function.as_str().as_bytes());
            varint::write(self.out, reconciler.settle.get());
        }
        if !statuses.is_empty() {
            self.statuses(statuses);
        }
        if let Some(callee) = &policy.callee {
            self.out.extend_from_slice(callee.as_bytes());
        }
        if let Some(statuses) = &policy.no_answer {
            self.statuses(statuses.as_slice());
        }
    }

    fn statuses(&mut self, statuses: &[u16]) {
        varint::write(self.out, statuses.len() as u64);
        for status in statuses {
            varint::write(self.out, (*status).into());
        }
    }
}

pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<RetryPolicy, DecodeError> {
    let flags = cursor.byte()?;
    let at = cursor.offset();
    let more = if flags & MORE == 0 { 0 } else { cursor.byte()? };
    if flags & MORE != 0 && more == 0 {
        return Err(DecodeError::Malformed {
            offset: at,
            what: "a second flag byte without flags",
        });
    }
    if more & !MORE_KNOWN != 0 {
        return Err(DecodeError::Malformed { offset: at, what: "a reserved policy flag is set" });
    }
    let class = RetryClass {
        durability: match flags & VOLATILE {
            0 => Durability::Persist,
            _ => Durability::Volatile,
        },
        idempotency: match flags & IDEM {
            0 => Idempotency::NonIdem,
            _ => Idempotency::Idem,
        },
    };
    let on_unknown = match flags & HOLD {
        0 => OnUnknown::Indeterminate,
        _ => OnUnknown::Hold,
    };
    let bound = match flags & UNBOUNDED {
        0 => RetryBound::Bounded(cursor.u32()?),
        _ => RetryBound::Unbounded,
    };
    let at = cursor.offset();
    let backoff = match flags & BACKOFF {
        0 => USUAL_BACKOFF,
        _ => Backoff { base: cursor.micros()?, cap: cursor.micros()? },
    };
    if flags & BACKOFF != 0 && backoff == USUAL_BACKOFF {
        return Err(DecodeError::Malformed { offset: at, what: "the usual backoff is left out" });
    }
    let deadline = (flags & DEADLINE != 0).then(|| cursor.micros()).transpose()?;
    let attempt_timeout = (flags & ATTEMPT_TIMEOUT != 0).then(|| cursor.micros()).transpose()?;
    let reconciler = match more & RECONCILER {
        0 => None,
        _ => {
            Some(Reconciler { function: cursor.name(FunctionName::new)?, settle: cursor.micros()? })
        }
    };
    let not_processed = match more & NOT_PROCESSED {
        0 => Statuses::default(),
        _ => {
            let at = cursor.offset();
            let read = statuses(cursor)?;
            if read.as_slice().is_empty() {
                let what = "an empty list of statuses is left out";
                return Err(DecodeError::Malformed { offset: at, what });
            }
            read
        }
    };
    let callee = match more & CALLEE {
        0 => None,
        _ => Some(ComponentDigest::from_bytes(cursor.hash()?)),
    };
    let no_answer = (more & NO_ANSWER != 0).then(|| statuses(cursor)).transpose()?;
    Ok(RetryPolicy {
        class,
        bound,
        backoff,
        deadline,
        attempt_timeout,
        reconciler,
        on_unknown,
        not_processed,
        callee,
        no_answer,
    })
}

fn statuses(cursor: &mut Cursor<'_>) -> Result<Statuses, DecodeError> {
    let offset = cursor.offset();
    let malformed = |what| DecodeError::Malformed { offset, what };
    let count = cursor.count(1)?;
    // Two bytes in memory for each byte of the row, at most.
    let mut statuses = Vec::with_capacity(count);
    for _ in 0..count {
        let status = u16::try_from(cursor.varint()?);
        statuses.push(status.map_err(|_| malformed("a status is not 16 bits"))?);
    }
    Statuses::ascending(statuses).ok_or(malformed("statuses are not ascending"))
}
