//! A writer that keeps its number in a file, so that none of its transactions is applied twice and
//! none is lost, whatever crashes: the program, the server, or what is between them.
//!
//! - [`state`]: what the file says. [`mod@file`]: how it is locked and replaced. Both are described in
//!   `docs/formats/ledger-client.md`.
//! - [`decide`]: what to do after an answer. Pure.
//! - `open`: how a writer begins. `error`: why one does not go on.
//!
//! The order of a request's steps: number, attempt and bytes are durable in the file (Q-11); then
//! they are sent, again and again, until there is an answer (Q-9); an answer that refuses is noted in
//! the file; then the caller is told. A success is not noted: the next request takes the place of
//! this one in the file. A writer that starts again sends what the file holds, whether it was answered
//! or not, and gets the answer of then.

pub(crate) mod decide;
mod error;
mod file;
mod open;
pub(crate) mod state;

use std::sync::Arc;

use http::{Method, StatusCode};
use indelible_api::ledger::{ClientState, Committed, CommittedRun};
use indelible_api::{Code, Problem};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::task::{JoinHandle, spawn_blocking};

use self::decide::{Copies, Step, Stop, StreamFacts, Told, after_answer, after_state};
pub use self::error::{SequencedError, StopReason};
use self::file::StateFile;
pub use self::file::{StateFileError, WriterStep};
pub use self::open::{IfMissing, OpenSequenced};
pub use self::state::StreamName;
use self::state::{Body, Door, FileState, KeptRequest, RunMember};
use crate::error::{Invalid, Malformed};
use crate::id::Identity;
use crate::ledger::{Ledger, raw};
use crate::request::Request;
use crate::send::{Answer, NoAnswer, Refusal};

/// How often one request is sent under another number or attempt. More would mean that another
/// process writes under the same client id.
const RESENDS_MAX: u32 = 8;

/// What one transaction does.
#[derive(Debug, Clone)]
pub struct Operations(Result<OperationsText, Invalid>);

#[derive(Debug, Clone)]
enum OperationsText {
    Single(Box<RawValue>),
    Batch(Box<RawValue>),
}

impl Operations {
    /// A single write: these operations, all or nothing. They are what
    /// [`Ledger::transact`](crate::Ledger::transact) takes.
    pub fn single<O: Serialize + ?Sized>(operations: &O) -> Self {
        Self(raw(operations).map(OperationsText::Single))
    }

    /// A batch: several writes under one number, all or nothing.
    pub fn batch<O: Serialize>(writes: impl IntoIterator<Item = O>) -> Self {
        #[derive(Serialize)]
        struct Write<O> {
            operations: O,
        }
        let writes: Vec<_> = writes.into_iter().map(|operations| Write { operations }).collect();
        Self(raw(&writes).map(OperationsText::Batch))
    }
}

/// What became of a request: of a run each transaction has an end of its own.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunEnd {
    /// The number of the first transaction.
    pub first: u64,
    /// Those that are committed, in order.
    pub committed: Vec<Committed>,
    /// Why the one behind them was not. Neither it nor those behind it have changed anything.
    pub refused: Option<Box<Problem>>,
}

/// A request that the file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The number of its first transaction.
    pub first: u64,
    /// How many transactions it has.
    pub count: u32,
    /// The body as it is sent.
    pub body: String,
}

/// A writer of one client's stream, from [`Ledger::sequenced`]: one request at a time, each sent until
/// it has an answer.
///
/// ```no_run
/// use indelible_client::{Client, Operations, SequencedError};
/// use serde_json::json;
///
/// # async fn run(client: Client) -> Result<(), SequencedError> {
/// let wallets = client.vault("wallets");
/// let mut writer = wallets.sequenced("till-1", "/var/lib/shop/till-1").await?;
/// // A request that the last run of this program has left: it is sent again, and applied once.
/// if let Some((request, end)) = writer.resume().await? {
///     println!("{} of {} are committed", end.committed.len(), request.count);
/// }
/// let pay = json!([{"transfer": {"from": "ann", "to": "bob", "quantity": 500, "min": 0}}]);
/// match writer.transact(Operations::single(&pay)).await {
///     Ok(committed) => println!("height {:?}", committed.height),
///     Err(SequencedError::Refused(problem)) => println!("nothing was moved: {}", problem.detail),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sequenced {
    ledger: Ledger,
    file: Arc<StateFile>,
    state: FileState,
    /// Counts the states that must be durable before the next step.
    revision: u64,
    /// The newest of them that is durable.
    durable: u64,
    /// A state that is being written. It goes on when the future that began it is dropped, and no
    /// other may be written beside it.
    storing: Option<(u64, JoinHandle<Result<(), StateFileError>>)>,
    copies: Copies,
}

impl Sequenced {
    /// Whose numbers these are.
    pub fn stream(&self) -> &StreamName {
        &self.state.stream
    }

    /// The last number that is known to be committed; 0 before the first.
    pub fn committed(&self) -> u64 {
        self.state.committed
    }

    /// The incarnation that requests are meant for; `None` until the server has said it.
    pub fn incarnation(&self) -> Option<&str> {
        self.state.incarnation.as_deref()
    }

    /// A request that has no answer yet, or of which a writer that was started again does not know.
    /// [`resume`](Self::resume) ends it.
    pub fn unfinished(&self) -> Option<Unfinished> {
        let KeptRequest { first, count, body, .. } = self.state.request.clone()?;
        Some(Unfinished { first, count, body })
    }

    /// Sends what the file holds until it has an answer. A program calls this when it starts, and
    /// after an error without an answer: [`SequencedError::Transport`] and its like.
    pub async fn resume(&mut self) -> Result<Option<(Unfinished, RunEnd)>, SequencedError> {
        match self.unfinished() {
            None => Ok(None),
            Some(request) => Ok(Some((request, self.finish().await?))),
        }
    }

    /// One transaction under the next number. After [`SequencedError::Refused`] the number is free for
    /// another one.
    pub async fn transact(&mut self, operations: Operations) -> Result<Committed, SequencedError> {
        self.keep(vec![operations], Only::One)?;
        let mut end = self.finish().await?;
        match (end.refused, end.committed.pop()) {
            (None, Some(committed)) => Ok(committed),
            (Some(problem), _) => Err(SequencedError::Refused(problem)),
            (None, None) => unreachable!("as many are committed as were sent"),
        }
    }

    /// Several transactions under consecutive numbers in one request (see C-8). The first refusal stops
    /// it.
    pub async fn run(&mut self, transactions: Vec<Operations>) -> Result<RunEnd, SequencedError> {
        self.keep(transactions, Only::Run)?;
        self.finish().await
    }

    /// Notes in the file that the last request was answered. Without it, a writer that starts again
    /// sends that request once more, which changes nothing and gets the same answer.
    pub async fn settle(&mut self) -> Result<(), SequencedError> {
        if self.state.request.is_some() {
            return Err(self.unfinished_error());
        }
        self.revision += 1;
        Ok(self.store().await?)
    }

    /// Takes the next number for these. From here on they are sent until there is an answer.
    fn keep(&mut self, transactions: Vec<Operations>, only: Only) -> Result<(), SequencedError> {
        if self.state.request.is_some() {
            return Err(self.unfinished_error());
        }
        let count = u32::try_from(transactions.len())
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| Invalid("a run has at least one transaction".to_owned()))?;
        let last = self.state.committed.checked_add(count.into());
        let (Some(first), Some(_)) = (self.state.committed.checked_add(1), last) else {
            return Err(self.stopped(Stop::Exhausted));
        };
        let mut members = Vec::new();
        for (sequence, Operations(text)) in (first..=u64::MAX).zip(transactions) {
            let (operations, writes) = match text? {
                OperationsText::Single(operations) => (Some(operations), None),
                OperationsText::Batch(writes) => (None, Some(writes)),
            };
            members.push(RunMember { sequence, operations, writes });
        }
        let body = Body {
            client_id: Some(self.state.stream.client.clone()),
            attempt: Some(self.state.attempt),
            incarnation: self.state.incarnation.clone(),
            ..Body::default()
        };
        let (door, body) = match only {
            Only::Run => (Door::Runs, Body { transactions: Some(members), ..body }),
            Only::One => {
                let RunMember { sequence, operations, writes } =
                    members.pop().expect("there is one");
                let door = if writes.is_some() { Door::Batches } else { Door::Transactions };
                (door, Body { sequence: Some(sequence), operations, writes, ..body })
            }
        };
        let request = KeptRequest { door, first, count, body: body.text() };
        self.copies = Copies::Answered;
        self.advance(FileState { request: Some(request), ..self.state.clone() });
        Ok(())
    }

    /// Sends the request until there is an answer to it (impl Q-9).
    async fn finish(&mut self) -> Result<RunEnd, SequencedError> {
        for _ in 0..RESENDS_MAX {
            self.store().await?;
            let Some(request) = self.state.request.clone() else {
                unreachable!("a request is kept until it has an answer");
            };
            let reply = self.send(&request).await?;
            self.file.step(WriterStep::Answer);
            let step = match after_answer(&self.state, reply.told(), self.copies) {
                Step::AskState(asking) => after_state(&self.state, asking, &self.facts().await?),
                step => step,
            };
            match step {
                Step::Applied(state) => {
                    self.state = self.learned(state, &reply)?;
                    return Ok(reply.end(request.first));
                }
                Step::Refused(state) => {
                    self.advance(state);
                    self.store().await?;
                    return Ok(reply.end(request.first));
                }
                Step::Send(state) => {
                    // What was sent before can no longer be applied: its attempt was refused.
                    self.copies = Copies::Answered;
                    self.advance(state);
                }
                Step::Stop(Stop::Unsettled) => return Err(reply.unsettled()),
                Step::Stop(Stop::Nonsense) | Step::AskState(_) => {
                    return Err(self.nonsense(&request, reply.status));
                }
                Step::Stop(stop) => return Err(self.stopped(stop)),
            }
        }
        Err(self.stopped_for(StopReason::Contended))
    }

    /// One request on the wire, again and again until there is an answer or the time is over.
    async fn send(&mut self, kept: &KeptRequest) -> Result<Reply, SequencedError> {
        let uri = self.ledger.uri(&[kept.door.segment()], Vec::new())?;
        let client_id = self.state.stream.client.clone();
        let identity = Identity::Sequence { client_id, sequence: kept.first };
        let body = kept.body.clone().into_bytes();
        let request = Request::change(Method::POST, uri).json(body).named(identity)?;
        self.file.step(WriterStep::Send);
        // Until there is an answer: the future may be dropped.
        let before = std::mem::replace(&mut self.copies, Copies::Unknown);
        let answer = match self.ledger.client.inner.ask(&request).await {
            Ok(answer) => answer,
            Err(NoAnswer::Lost(lost)) => {
                if !lost.may_have_arrived {
                    self.copies = before;
                }
                return Err(SequencedError::Transport(lost));
            }
            Err(NoAnswer::Malformed(malformed)) => {
                return Err(SequencedError::Malformed(malformed));
            }
        };
        let reply = Reply::of(answer, kept)?;
        self.copies = before;
        Ok(reply)
    }

    async fn facts(&self) -> Result<StreamFacts, SequencedError> {
        let state = self.ledger.client_state(&self.state.stream.client, None).await;
        Ok(facts(&state.map_err(SequencedError::of)?))
    }

    /// What the answer to an applied request says of the scope (impl C-47).
    fn learned(&self, state: FileState, reply: &Reply) -> Result<FileState, SequencedError> {
        let Some(last) = reply.committed.last() else {
            return Ok(state);
        };
        let incarnation = last.incarnation.0.to_string();
        if state.incarnation.as_ref().is_some_and(|pinned| *pinned != incarnation) {
            return Err(self.stopped(Stop::OtherIncarnation));
        }
        Ok(FileState { incarnation: Some(incarnation), restores: last.restores, ..state })
    }

    /// From here on this is the state, and it must be durable before the next step.
    fn advance(&mut self, state: FileState) {
        self.state = state;
        self.revision += 1;
    }

    /// Makes the state durable. It may be dropped at any await and called again.
    async fn store(&mut self) -> Result<(), StateFileError> {
        while self.durable < self.revision {
            let (file, state, revision) = (&self.file, &self.state, self.revision);
            let (revision, storing) = self.storing.get_or_insert_with(|| {
                let (file, state) = (Arc::clone(file), state.clone());
                (revision, spawn_blocking(move || file.store(&state)))
            });
            let (revision, stored) = (*revision, storing.await);
            self.storing = None;
            match stored {
                Ok(stored) => stored?,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => {
                    let (doing, path) = ("write", self.file.path().to_owned());
                    let source = std::io::Error::other(error);
                    return Err(StateFileError::Io { doing, path, source });
                }
            }
            self.durable = revision;
        }
        Ok(())
    }

    fn unfinished_error(&self) -> SequencedError {
        let sequence = self.state.request.as_ref().map_or(0, |request| request.first);
        SequencedError::Unfinished { stream: Box::new(self.state.stream.clone()), sequence }
    }

    fn stopped(&self, stop: Stop) -> SequencedError {
        self.stopped_for(StopReason::of(stop))
    }

    fn stopped_for(&self, reason: StopReason) -> SequencedError {
        let sequence = self.state.request.as_ref().map(|request| request.first);
        SequencedError::Stopped { stream: Box::new(self.state.stream.clone()), sequence, reason }
    }

    fn nonsense(&self, request: &KeptRequest, status: StatusCode) -> SequencedError {
        let client_id = self.state.stream.client.clone();
        let identity = Some(Identity::Sequence { client_id, sequence: request.first });
        let what = "it does not fit the request that was sent".to_owned();
        SequencedError::Malformed(Malformed { status, what, identity })
    }
}

/// Whether transactions are sent as a run.
#[derive(Clone, Copy)]
enum Only {
    One,
    Run,
}

/// An answer to a request.
#[derive(Debug)]
struct Reply {
    status: StatusCode,
    committed: Vec<Committed>,
    refused: Option<Box<Problem>>,
}

impl Reply {
    fn of(answer: Answer, request: &KeptRequest) -> Result<Self, SequencedError> {
        let status = answer.status;
        if status == StatusCode::OK {
            let committed = match request.door {
                Door::Runs => answer.read().map(|CommittedRun { results }| results),
                Door::Transactions | Door::Batches => answer.read().map(|one| vec![one]),
            };
            let committed: Vec<Committed> = committed.map_err(SequencedError::Malformed)?;
            if committed.len() != request.count as usize {
                let what = format!("{} of {} transactions", committed.len(), request.count);
                return Err(SequencedError::Malformed(answer.malformed(what)));
            }
            return Ok(Self { status, committed, refused: None });
        }
        match answer.refusal() {
            Refusal::Malformed(malformed) => Err(SequencedError::Malformed(malformed)),
            Refusal::Problem(mut problem) => {
                let results = problem.refusal.as_mut().and_then(|refusal| refusal.results.take());
                let committed = results.unwrap_or_default();
                Ok(Self { status, committed, refused: Some(problem) })
            }
        }
    }

    fn told(&self) -> Told {
        let Some(problem) = &self.refused else {
            return Told::Applied;
        };
        let refusal = problem.refusal.as_deref();
        match problem.code {
            Code::SequenceGap => {
                Told::Gap { restored: refusal.is_some_and(|it| it.restored == Some(true)) }
            }
            Code::StaleAttempt => {
                let refused = refusal.and_then(|refusal| refusal.refused.as_ref());
                Told::Stale { refused: refused.map_or(0, |refused| refused.attempt) }
            }
            Code::SequenceMismatch => Told::NumberTaken,
            Code::SequenceExhausted => Told::Exhausted,
            Code::ForeignClient => Told::ForeignClient,
            Code::OtherIncarnation => Told::OtherIncarnation,
            Code::MalformedRequest | Code::PayloadTooLarge | Code::UnsupportedMediaType => {
                Told::Malformed
            }
            // The rest of the codes with a refusal are those of operations.
            _ if refusal.is_some() => {
                Told::Refused { applied: u32::try_from(self.committed.len()).unwrap_or(u32::MAX) }
            }
            _ => Told::Unjudged,
        }
    }

    fn end(self, first: u64) -> RunEnd {
        RunEnd { first, committed: self.committed, refused: self.refused }
    }

    fn unsettled(self) -> SequencedError {
        match self.refused {
            Some(problem) => SequencedError::Unsettled(problem),
            None => unreachable!("what was applied is settled"),
        }
    }
}

fn facts(state: &ClientState) -> StreamFacts {
    StreamFacts {
        incarnation: state.incarnation.as_ref().map(|incarnation| incarnation.0.to_string()),
        restores: state.restores,
        last: state.last_committed_sequence,
        next_attempt: state.next_attempt,
    }
}
