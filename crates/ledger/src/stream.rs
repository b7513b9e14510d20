//! A client's stream in a scope: which number is next, what a repeated one meets, and which attempts
//! were overtaken by a refusal.
//!
//! # Attempts (C-42)
//!
//! A refused write uses up no number. So a copy of it that is still under way can find its
//! number to be the next one, after its client has been told that it failed and has sent something
//! else. Three schedules; the payload A is always meant to be applied once:
//!
//! 1. A goes as 7 and is refused (gap: 6 is missing). The client sends A as 6, which commits. Now the
//!    late copy of 7 is next in line, and A would be applied twice.
//! 2. A run of 6 and 7 stops at 6. The client mends 6, which commits, and thinks again about 7. Now a
//!    late copy of the old run would apply the old 7.
//! 3. 6 is refused by a condition. The client gives up and uses 6 for something else. The copy of the
//!    old 6 comes first, and meets a condition that holds by now.
//!
//! So the stream keeps the highest attempt that was refused, durably before the refusal is told, and
//! takes no new number under it or an earlier one. A client that raises its attempt after every
//! refusal that it saw is safe from all of its own late copies. The attempt counts in the stream and
//! not in the number, because a late copy can carry any number.

use std::sync::Arc;

use indelible_idempotency::RequestHash;
use indelible_journal::Timestamp;

use crate::names::Actor;
use crate::numbers::{Attempt, Height, RestoreCount, Sequence, TransactionId};
use crate::refusal::{Code, Refusal};
use crate::request::Kind;
use crate::transaction::Receipt;

/// The row of a client in a scope (impl Q-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Whose it is: the actor that first left a row (C-46). An operator can hand it over.
    pub owner: Actor,
    /// Its last committed number; `None` before the first.
    pub last: Option<LastCommitted>,
    /// The highest attempt that was refused, with what was refused.
    pub refused: Option<RefusedAttempt>,
}

/// The last committed number. Its hash stays for ever (C-5), whatever becomes of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastCommitted {
    /// The number.
    pub sequence: Sequence,
    /// The hash of its request.
    pub hash: RequestHash,
    /// Its transaction.
    pub transaction: TransactionId,
    /// The height of that.
    pub height: Height,
    /// The time of that.
    pub time: Timestamp,
    /// How often the store had been restored then (C-48).
    pub restores: RestoreCount,
}

/// An attempt that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAttempt {
    /// The attempt.
    pub attempt: Attempt,
    /// The number that was refused.
    pub sequence: Sequence,
    /// The hash of its request.
    pub hash: RequestHash,
    /// Why.
    pub refusal: StreamRefusal,
}

/// A refusal that a stream remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamRefusal {
    /// An operation was refused.
    Condition(Refusal),
    /// A number was missing before it.
    Gap(Gap),
    /// Another request has the number, and later ones of the run were not reached.
    Mismatch,
}

impl StreamRefusal {
    /// Its code.
    pub fn code(&self) -> Code {
        match self {
            Self::Condition(refusal) => refusal.code,
            Self::Gap(_) => Code::SequenceGap,
            Self::Mismatch => Code::SequenceMismatch,
        }
    }
}

/// Numbers are missing before the one that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The last committed number; 0 before the first (C-27).
    pub last: u64,
    /// The store was restored since: what the client knows to be committed may be gone (C-48).
    pub restored: bool,
}

/// What a client's write claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim<'a> {
    /// Who writes.
    pub actor: &'a Actor,
    /// The number.
    pub sequence: Sequence,
    /// The attempt, if the client counts them.
    pub attempt: Option<Attempt>,
    /// The hash of the request.
    pub hash: RequestHash,
}

/// What a claim meets in its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The number is the next one.
    Next,
    /// The number has been committed: [`Stream::repeat`] says what it gets.
    Repeated,
    /// Numbers before it are missing.
    Gap(Gap),
    /// There are no further numbers (C-49).
    Exhausted,
    /// This very attempt was refused, and is refused again with the same words.
    RefusedBefore(RefusedAttempt),
    /// The attempt is not above one that was refused.
    Stale(RefusedAttempt),
    /// The stream belongs to another (C-46).
    Foreign,
}

impl Stream {
    /// A stream in which nothing has happened yet.
    pub fn new(owner: Actor) -> Self {
        Self { owner, last: None, refused: None }
    }

    /// The last committed number; 0 before the first (C-27).
    pub fn last_sequence(&self) -> u64 {
        self.last.map_or(0, |last| last.sequence.get())
    }

    /// Whether this actor may write to it and ask about it (impl C-46).
    pub fn belongs_to(&self, actor: &Actor) -> bool {
        self.owner == *actor
    }

    /// The attempt that a client sends next if it knows of no other: after the refused one.
    /// `None` when there is none left: then it goes on under another client id.
    pub fn next_attempt(&self) -> Option<Attempt> {
        self.refused.as_ref().map_or(Some(Attempt::FIRST), |refused| refused.attempt.next())
    }

    /// Judges a claim; `None` is a client that has no row yet (impl, C-42).
    ///
    /// The order matters: ownership first, so that foreign clients learn nothing; then numbers that
    /// were committed, which stay answered whatever the attempt; then attempts, before anything could
    /// take the number for new.
    pub fn judge(stream: Option<&Self>, claim: &Claim<'_>, restores: RestoreCount) -> Judgement {
        let Some(stream) = stream else {
            return Self::new(claim.actor.clone()).judge_number(claim, restores);
        };
        if !stream.belongs_to(claim.actor) {
            return Judgement::Foreign;
        }
        if claim.sequence.get() <= stream.last_sequence() {
            return Judgement::Repeated;
        }
        match &stream.refused {
            Some(refused) if claim.attempt.is_some_and(|attempt| attempt <= refused.attempt) => {
                let is_same = (refused.sequence, refused.hash) == (claim.sequence, claim.hash);
                let refused = refused.clone();
                if is_same { Judgement::RefusedBefore(refused) } else { Judgement::Stale(refused) }
            }
            _ => stream.judge_number(claim, restores),
        }
    }

    fn judge_number(&self, claim: &Claim<'_>, restores: RestoreCount) -> Judgement {
        // `last` is below the claimed number, so it has a next one.
        if claim.sequence.get() - 1 == self.last_sequence() {
            Judgement::Next
        } else {
            Judgement::Gap(self.gap(restores))
        }
    }

    /// Judges a number that is past the last one that there is (impl C-49).
    pub fn judge_beyond(stream: Option<&Self>, actor: &Actor, restores: RestoreCount) -> Judgement {
        match stream {
            Some(stream) if !stream.belongs_to(actor) => Judgement::Foreign,
            Some(stream) if stream.last_sequence() == u64::MAX => Judgement::Exhausted,
            Some(stream) => Judgement::Gap(stream.gap(restores)),
            None => Judgement::Gap(Self::new(actor.clone()).gap(restores)),
        }
    }

    /// The gap that a number meets (impl C-48). What was committed since the restore has taken the
    /// client's word for where it stands; before that, the stream may have gone back.
    fn gap(&self, restores: RestoreCount) -> Gap {
        let known = self.last.map_or(RestoreCount::default(), |last| last.restores);
        Gap { last: self.last_sequence(), restored: restores > known }
    }

    /// What a number gets that has been committed (impl, C-5, C-7, C-44).
    ///
    /// It is never applied again, whatever is still known of it. Another request than the committed
    /// one is a mismatch as long as that can be told: for ever for the last number, as long as there
    /// is a receipt for earlier ones.
    pub fn repeat(
        &self,
        claim: &Claim<'_>,
        kind: Kind,
        cached: Option<Arc<Receipt>>,
        stored: Option<Arc<Receipt>>,
    ) -> Answer {
        let last = self.last.filter(|last| last.sequence == claim.sequence);
        let is_cached = cached.is_some();
        let receipt = cached.or(stored);
        let known = last.map(|last| last.hash).or(receipt.as_ref().map(|receipt| receipt.hash));
        if known.is_some_and(|known| known != claim.hash) {
            return Answer::Mismatch;
        }
        match (receipt, last, kind) {
            (Some(receipt), _, Kind::Single) if is_cached => Answer::PriorResult(receipt),
            (Some(receipt), _, _) => Answer::AlreadyCommitted(Prior::Receipt(receipt)),
            (None, Some(last), _) => Answer::AlreadyCommitted(Prior::Last(last)),
            (None, None, _) => Answer::AlreadyCommitted(Prior::Forgotten),
        }
    }

    /// The number was committed: the next one is one more (impl ).
    pub fn commit(&mut self, claim: &Claim<'_>, receipt: &Receipt, restores: RestoreCount) {
        let success = &receipt.success;
        self.last = Some(LastCommitted {
            sequence: claim.sequence,
            hash: claim.hash,
            transaction: success.transaction,
            height: success.height,
            time: success.time,
            restores,
        });
    }

    /// The claim was refused: neither it nor anything under its attempt or an earlier one becomes
    /// new (impl C-42). A claim without an attempt leaves nothing behind (C-9).
    pub fn refuse(&mut self, claim: &Claim<'_>, attempt: Attempt, refusal: StreamRefusal) {
        let Claim { sequence, hash, .. } = *claim;
        self.refused = Some(RefusedAttempt { attempt, sequence, hash, refusal });
    }
}

/// What a client's write is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was applied now.
    Fresh(Arc<Receipt>),
    /// It was applied before, and this is what was answered then.
    PriorResult(Arc<Receipt>),
    /// It was applied before: a success (C-7, C-51).
    AlreadyCommitted(Prior),
    /// Another request has this number (C-5).
    Mismatch,
    /// An operation is refused.
    Refused(Refusal),
    /// Numbers before it are missing.
    Gap(Gap),
    /// There are no further numbers.
    Exhausted,
    /// This very attempt was refused before.
    RefusedBefore(RefusedAttempt),
    /// The attempt was overtaken by a refusal.
    Stale(RefusedAttempt),
    /// The client belongs to another.
    Foreign,
}

/// What is still known of a number that was committed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prior {
    /// Everything.
    Receipt(Arc<Receipt>),
    /// It is the last of its stream, and its receipt is gone.
    Last(LastCommitted),
    /// That it was committed, and no more.
    Forgotten,
}

impl Answer {
    /// Whether the transaction was applied, now or before.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Fresh(_) | Self::PriorResult(_) | Self::AlreadyCommitted(_))
    }

    /// Its code; none for what was applied now or is answered as it was then, and for a foreign
    /// client.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Fresh(_) | Self::PriorResult(_) | Self::Foreign => None,
            Self::AlreadyCommitted(_) => Some(Code::AlreadyCommitted),
            Self::Mismatch => Some(Code::SequenceMismatch),
            Self::Refused(refusal) => Some(refusal.code),
            Self::Gap(_) => Some(Code::SequenceGap),
            Self::Exhausted => Some(Code::SequenceExhausted),
            Self::Stale(_) => Some(Code::StaleAttempt),
            Self::RefusedBefore(refused) => Some(refused.refusal.code()),
        }
    }
}
