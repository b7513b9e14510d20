//! A client's writes from their numbers to their answers: one write, a batch, or a run.

use indelible_journal::Timestamp;

use crate::bounds::Limits;
use crate::names::{Actor, ClientId};
use crate::numbers::{Attempt, RestoreCount, Sequence, TransactionId};
use crate::operation::OperationResult;
use crate::reads::{Layer, SequenceReads};
use crate::request::{Request, RequestError, at_most};
use crate::stream::{Answer, Claim, Judgement, Stream, StreamRefusal};
use crate::transaction::{Origin, Proposal};
use crate::vault::{Application, Applied, Vault};

/// Consecutive writes of one client in one request (impl C-8): a client that pipelines them causes no
/// gaps. A single write, and a batch, is a run of one.
///
/// A run has one attempt. With an attempt for each write, a run that stops at its first would
/// remember that one's attempt, and a late copy could apply a later write under a higher one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    client: ClientId,
    first: Sequence,
    attempt: Option<Attempt>,
    requests: Vec<Request>,
}

impl Run {
    /// One write, or one batch.
    pub fn one(
        client: ClientId,
        sequence: Sequence,
        attempt: Option<Attempt>,
        request: Request,
    ) -> Self {
        Self { client, first: sequence, attempt, requests: vec![request] }
    }

    /// Several writes, with the numbers under which they came.
    pub fn new(
        client: ClientId,
        attempt: Option<Attempt>,
        writes: Vec<(Sequence, Request)>,
        limits: &Limits,
    ) -> Result<Self, RunError> {
        let first = writes.first().ok_or(RunError::Empty)?.0;
        at_most("transactions in the run", writes.len(), limits.run_transactions_max)?;
        for (index, (sequence, _)) in writes.iter().enumerate() {
            let expected = first.checked_add(index as u64);
            if expected != Some(*sequence) {
                return Err(RunError::NotConsecutive { index, found: *sequence, first });
            }
        }
        let requests: Vec<Request> = writes.into_iter().map(|(_, request)| request).collect();
        let bytes = requests.iter().map(Request::bytes).sum();
        at_most("bytes in the run", bytes, limits.run_bytes_max)?;
        Ok(Self { client, first, attempt, requests })
    }

    /// Whose writes they are.
    pub fn client(&self) -> &ClientId {
        &self.client
    }

    /// The number of the first.
    pub fn first(&self) -> Sequence {
        self.first
    }

    /// The attempt of all of them.
    pub fn attempt(&self) -> Option<Attempt> {
        self.attempt
    }

    /// The writes, in order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }
}

/// Why writes are no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// No write at all.
    #[error("the run has no transaction")]
    Empty,
    /// Numbers that do not follow each other.
    #[error(
        "transaction {index} of the run has the sequence {found}; a run that begins with {first} is consecutive"
    )]
    NotConsecutive {
        /// Which write, from 0.
        index: usize,
        /// Its number.
        found: Sequence,
        /// The number of the first.
        first: Sequence,
    },
    /// Past one of the [`Limits`].
    #[error(transparent)]
    Bound(#[from] RequestError),
}

/// What a write needs to know of the server.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The server's time.
    pub now: Timestamp,
    /// Who writes, from the credential.
    pub actor: &'a Actor,
    /// How often the store was restored (C-48).
    pub restores: RestoreCount,
    /// The bounds; of them the one of results counts here.
    pub limits: &'a Limits,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Written {
    /// An answer for each write that was reached, in order. A run stops at its first refusal.
    pub answers: Vec<Answer>,
    /// The transactions that were applied, in order.
    pub applied: Vec<Applied>,
    /// The stream's row is to be stored, before any answer leaves: also after a refusal (C-42).
    pub stream_changed: bool,
}

/// Judges and applies a run, and changes vault and stream in memory.
///
/// After an error both are to be read again: writes before the one that failed may have changed them.
pub fn write<R: SequenceReads>(
    vault: &mut Vault,
    stream: &mut Option<Stream>,
    run: Run,
    mut mint: impl FnMut() -> TransactionId,
    context: &Context<'_>,
    reads: &mut R,
) -> Result<Written, R::Error> {
    let Run { client, first, attempt, requests } = run;
    let mut reads = Layer::new(reads);
    let mut limits = *context.limits;
    let mut written = Written::default();
    let count = requests.len();
    for (index, request) in requests.into_iter().enumerate() {
        let sequence = first.checked_add(index as u64).expect("a run is checked to have numbers");
        let claim = Claim { actor: context.actor, sequence, attempt, hash: request.hash() };
        let answer =
            match Stream::judge(stream.as_ref(), &claim, context.restores) {
                Judgement::Next => {
                    let origin = Origin::Client { client: client.clone(), sequence, attempt };
                    let actor = context.actor.clone();
                    let proposal = Proposal { id: mint(), origin, request, actor };
                    match vault.apply(proposal, context.now, &limits, &mut reads)? {
                        Application::Applied(applied) => {
                            let receipt = applied.receipt.clone();
                            reads.add(&applied.changes);
                            limits.result_bytes_max -= result_bytes(&receipt.success.results);
                            stream
                                .get_or_insert_with(|| Stream::new(context.actor.clone()))
                                .commit(&claim, &receipt, context.restores);
                            written.stream_changed = true;
                            written.applied.push(applied);
                            Answer::Fresh(receipt)
                        }
                        Application::Refused(refusal) => Answer::Refused(refusal),
                    }
                }
                Judgement::Repeated => {
                    let cached = reads.cached(sequence);
                    let stored = match cached {
                        Some(_) => None,
                        None => reads.receipt(sequence)?,
                    };
                    let stream = stream.as_ref().expect("only a stream has numbers to repeat");
                    stream.repeat(&claim, request.kind(), cached, stored)
                }
                Judgement::Gap(gap) => Answer::Gap(gap),
                Judgement::Exhausted => Answer::Exhausted,
                Judgement::RefusedBefore(refused) => Answer::RefusedBefore(refused),
                Judgement::Stale(refused) => Answer::Stale(refused),
                Judgement::Foreign => Answer::Foreign,
            };
        let is_last = index + 1 == count;
        let stops = !answer.is_success();
        if let Some((attempt, refusal)) = attempt.zip(remembered(&answer, is_last)) {
            let remembering = stream.get_or_insert_with(|| Stream::new(context.actor.clone()));
            if remembering.refused.as_ref().is_none_or(|refused| refused.attempt < attempt) {
                remembering.refuse(&claim, attempt, refusal);
                written.stream_changed = true;
            }
        }
        written.answers.push(answer);
        if stops {
            break;
        }
    }
    Ok(written)
}

/// What the stream has to remember of an answer. A mismatch can never become new, because its number
/// is committed: but writes of the run that follow it were not reached, and their client is told so.
fn remembered(answer: &Answer, is_last: bool) -> Option<StreamRefusal> {
    match answer {
        Answer::Refused(refusal) => Some(StreamRefusal::Condition(refusal.clone())),
        Answer::Gap(gap) => Some(StreamRefusal::Gap(*gap)),
        Answer::Mismatch if !is_last => Some(StreamRefusal::Mismatch),
        _ => None,
    }
}

fn result_bytes(results: &[OperationResult]) -> usize {
    let got = |result: &OperationResult| match result {
        OperationResult::Got(Some(entity)) => entity.content.value_bytes(),
        _ => 0,
    };
    results.iter().map(got).sum()
}
