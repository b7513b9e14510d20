//! Transactions: read strictly, given a name, and answered as C-51 says. What is refused here uses up
//! neither a number nor a key.

use std::sync::Arc;

use indelible_api::call::Verdict;
use indelible_api::ledger::{
    Committed, CommittedRun, FailedOperation, Refusal, RunTransaction, SequenceNumber, Transact,
    TransactBatch, TransactRun, Write,
};
use indelible_api::{Code, Problem, header};
use indelible_ledger::json::{Amount, Content, Operation, OperationResult, Payload, Text};
use indelible_ledger::{
    Answer as Met, Attempt, ClientId, ContentSummary, Gap, Incarnation, Judgement, Limits,
    NumberError, OriginId, Prior, Receipt, RefusedAttempt, Request, RequestError, RestoreCount,
    Run, Scope, Sequence, Stream, StreamRefusal,
};
use indelible_runtime::ledger::{
    LedgerAnswer, LedgerError, LedgerWrite, NamedAnswer, WriteName, WriteOutcome, Writes,
};

use super::{actor, read, scope};
use crate::answer::Answer;
use crate::refusal::internal;
use crate::request::{ApiRequest, malformed};
use crate::state::State;

/// What holds for every request.
const LIMITS: Limits = Limits::DEFAULT;

/// A transaction: under a client's number, a key, or an operation id.
pub(crate) async fn transaction(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    let Transact { client_id, sequence, attempt, incarnation, operations } = asked.json()?;
    let request = single(operations)?;
    let pinned = incarnation.map(read);
    match (client_id, sequence, name(&asked)?) {
        (Some(Text(client)), Some(sequence), None) => {
            let requests = vec![(sequence, request)];
            one(&state, &asked, Numbered { scope, client, attempt, pinned, requests }).await
        }
        (None, None, Some(name)) if attempt.is_none() => {
            named(&state, &asked, scope, pinned, name, request).await
        }
        (None, None, None) => Err(malformed(format!(
            "a transaction has a name: client_id and sequence in the body, or one of the headers \
             {} and {}",
            header::IDEMPOTENCY_KEY,
            header::OPERATION_ID
        ))),
        _ => Err(malformed(
            "a transaction has one name: client_id and sequence together, and perhaps an attempt; \
             or an idempotency key; or an operation id",
        )),
    }
}

/// Several writes under one number (impl Q-14).
pub(crate) async fn batch(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    let TransactBatch { client_id, sequence, attempt, incarnation, writes } = asked.json()?;
    let requests = vec![(sequence, whole(writes)?)];
    let (client, pinned) = (client_id.0, incarnation.map(read));
    numbers_alone(&asked)?;
    one(&state, &asked, Numbered { scope, client, attempt, pinned, requests }).await
}

/// Consecutive transactions (see C-8).
pub(crate) async fn run(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    let TransactRun { client_id, attempt, incarnation, transactions } = asked.json()?;
    let mut requests = Vec::with_capacity(transactions.len());
    for (index, transaction) in transactions.into_iter().enumerate() {
        let RunTransaction { sequence, operations, writes } = transaction;
        let request = match (operations, writes) {
            (Some(operations), None) => single(operations),
            (None, Some(writes)) => whole(writes),
            _ => Err(malformed("it has operations, or it has writes")),
        };
        let request = request
            .map_err(|why| malformed(format!("transaction {index} of the run: {}", why.detail)))?;
        requests.push((sequence, request));
    }
    let (client, pinned) = (client_id.0, incarnation.map(read));
    numbers_alone(&asked)?;
    let numbered = Numbered { scope, client, attempt, pinned, requests };
    let (results, stopped) = numbered.write(&state, &asked).await?;
    match stopped {
        None => Ok(Answer::ok(&CommittedRun { results })),
        Some(mut problem) => {
            if let Some(refusal) = &mut problem.refusal {
                refusal.results = Some(results);
            }
            Err(problem)
        }
    }
}

/// A single write or a batch.
async fn one(state: &State, asked: &ApiRequest, write: Numbered) -> Result<Answer, Problem> {
    let (committed, stopped) = write.write(state, asked).await?;
    match (stopped, committed.first()) {
        (Some(problem), _) => Err(problem),
        (None, Some(committed)) => Ok(Answer::ok(committed).verdict(committed.verdict)),
        (None, None) => Err(internal(&"a write was not answered")),
    }
}

fn operations(operations: Vec<Operation>) -> Result<Vec<indelible_ledger::Operation>, Problem> {
    let read = |(index, operation): (usize, Operation)| {
        let read = operation.read();
        read.map_err(|error| malformed(format!("operation {index}: {error}")))
    };
    operations.into_iter().enumerate().map(read).collect()
}

fn single(written: Vec<Operation>) -> Result<Request, Problem> {
    Request::single(operations(written)?, &LIMITS).map_err(|error| unfit(&error))
}

fn whole(writes: Vec<Write>) -> Result<Request, Problem> {
    let writes = writes.into_iter().map(|write| operations(write.operations));
    Request::batch(writes.collect::<Result<_, _>>()?, &LIMITS).map_err(|error| unfit(&error))
}

/// A request past its bounds.
fn unfit(error: &RequestError) -> Problem {
    malformed(error.to_string())
}

/// The name in the headers, if there is one.
fn name(asked: &ApiRequest) -> Result<Option<WriteName>, Problem> {
    match (asked.key(&asked.namespace()?)?, asked.operation_id()?) {
        (Some(_), Some(_)) => Err(Problem::new(
            Code::KeyAndOperationId,
            "a transaction has one name: an idempotency key or an operation id",
        )),
        (Some(key), None) => {
            let key = OriginId::new(key.value());
            Ok(Some(WriteName::Key(key.map_err(|error| malformed(error.to_string()))?)))
        }
        (None, id) => Ok(id.map(WriteName::Operation)),
    }
}

/// Refuses a name in the headers where the numbers in the body are the names.
fn numbers_alone(asked: &ApiRequest) -> Result<(), Problem> {
    match name(asked)? {
        None => Ok(()),
        Some(_) => Err(malformed(
            "batches and runs have the names that their sequences give them: leave the idempotency \
             key and the operation id out",
        )),
    }
}

/// Writes under a client's numbers.
struct Numbered {
    scope: Scope,
    client: ClientId,
    attempt: Option<u32>,
    pinned: Option<Incarnation>,
    requests: Vec<(SequenceNumber, Request)>,
}

impl Numbered {
    /// Applies the writes, and says what came of those that were reached: the transactions that were
    /// applied, now or before, and the refusal that stopped them.
    ///
    /// A number past the last that there is (C-49) can only be the last that is reached: what is before
    /// it is written first.
    async fn write(
        self,
        state: &State,
        asked: &ApiRequest,
    ) -> Result<(Vec<Committed>, Option<Problem>), Problem> {
        let Self { scope, client, attempt, pinned, requests } = self;
        let attempt = attempt.map(Attempt::new).transpose();
        let attempt = attempt.map_err(|error| malformed(error.to_string()))?;
        consecutive(&requests)?;
        let mut writes = Vec::with_capacity(requests.len());
        let mut beyond = None;
        for (number, request) in requests {
            match Sequence::from_wide(number.0) {
                Ok(sequence) => writes.push((sequence, request)),
                Err(NumberError::Beyond { .. }) => {
                    beyond = Some(number);
                    break;
                }
                Err(zero @ NumberError::Zero { .. }) => return Err(malformed(zero.to_string())),
            }
        }
        let mut committed = Vec::with_capacity(writes.len());
        let actor = actor(asked);
        // With a number past the last one there may be none before it; otherwise no run is empty.
        if !writes.is_empty() || beyond.is_none() {
            let shapes: Vec<_> = writes.iter().map(|(_, request)| Shape::of(request)).collect();
            let run = Run::new(client.clone(), attempt, writes, &LIMITS);
            let run = run.map_err(|error| malformed(error.to_string()))?;
            let first = run.first();
            let writes = Writes::Run(run);
            let write = LedgerWrite {
                scope: scope.clone(),
                incarnation: pinned,
                actor: actor.clone(),
                writes,
            };
            let LedgerAnswer { incarnation, restores, outcome } =
                write_ledger(state, write).await?;
            let WriteOutcome::Run(answers) = outcome else {
                return Err(internal(&"numbers were answered as a name"));
            };
            for (index, (met, shape)) in answers.iter().zip(&shapes).enumerate() {
                let sequence = first.checked_add(index as u64).map(Sequence::get);
                let told = Told { state, sequence, incarnation, restores, scope: &scope, shape };
                match told.number(met) {
                    Ok(done) => committed.push(done),
                    Err(refused) => return Ok((committed, Some(refused))),
                }
            }
        }
        let Some(number) = beyond else { return Ok((committed, None)) };
        let known = state.engine.ledger_client(&scope, &client, Some(&actor), None).await;
        let known = known.map_err(|error| state.ledger_error(&error))?;
        if let (Some(pinned), Some(is)) = (pinned, known.incarnation)
            && pinned != is
        {
            return Err(state.ledger_error(&LedgerError::OtherIncarnation(is)));
        }
        let judged = Stream::judge_beyond(known.stream.as_ref(), &actor, known.restores);
        Ok((committed, Some(past_the_last(state, number, &judged))))
    }
}

/// Numbers that follow each other, those past the last one too.
fn consecutive(requests: &[(SequenceNumber, Request)]) -> Result<(), Problem> {
    let first = requests.first().map_or(0, |(number, _)| number.0);
    for (index, (number, _)) in requests.iter().enumerate() {
        if number.0 != first.saturating_add(index as u128) {
            return Err(malformed(format!(
                "transaction {index} of the run has the sequence {number}; a run that begins with \
                 {first} is consecutive"
            )));
        }
    }
    Ok(())
}

/// What a number past the last one meets (impl C-49).
fn past_the_last(state: &State, number: SequenceNumber, judged: &Judgement) -> Problem {
    let mut problem = match judged {
        Judgement::Gap(found) => gap(*found),
        Judgement::Foreign => return foreign(state),
        _ => exhausted(),
    };
    if let Some(refusal) = &mut problem.refusal {
        refusal.sequence = Some(number);
    }
    state.metrics.refused(problem.code.as_str());
    problem
}

/// A transaction under a key or an operation id.
async fn named(
    state: &State,
    asked: &ApiRequest,
    scope: Scope,
    pinned: Option<Incarnation>,
    name: WriteName,
    request: Request,
) -> Result<Answer, Problem> {
    let shape = Shape::of(&request);
    let is_id = matches!(name, WriteName::Operation(_));
    let writes = Writes::Named(name, request);
    let write =
        LedgerWrite { scope: scope.clone(), incarnation: pinned, actor: actor(asked), writes };
    let LedgerAnswer { incarnation, restores, outcome } = write_ledger(state, write).await?;
    let WriteOutcome::Named(met) = outcome else {
        return Err(internal(&"a name was answered as a number"));
    };
    let told = Told { state, sequence: None, incarnation, restores, scope: &scope, shape: &shape };
    let committed = match &met {
        NamedAnswer::Fresh(receipt) => told.applied(Verdict::Fresh, receipt),
        NamedAnswer::PriorResult(receipt) => told.applied(Verdict::PriorResult, receipt),
        NamedAnswer::Refused(refusal) => return Err(told.refused(Verdict::Fresh, refusal)),
        NamedAnswer::PriorError(refusal) => return Err(told.refused(Verdict::PriorError, refusal)),
        NamedAnswer::Mismatch => {
            // As at every other door: an id meets a conflict, a key a mismatch (see C-5).
            let code = if is_id { Code::Conflict } else { Code::Mismatch };
            state.metrics.refused(code.as_str());
            return Err(Problem::new(code, code.title()));
        }
    };
    Ok(Answer::ok(&committed).verdict(committed.verdict))
}

async fn write_ledger(state: &State, write: LedgerWrite) -> Result<LedgerAnswer, Problem> {
    let written = state.engine.write_ledger(write).await;
    written.map_err(|error| state.ledger_error(&error))
}

/// Where the writes of a batch end: what is needed of a request to say where an operation stands.
struct Shape(Vec<usize>);

impl Shape {
    fn of(request: &Request) -> Self {
        let lengths = request.writes().map(<[_]>::len);
        Self(
            lengths
                .scan(0, |end, length| {
                    *end += length;
                    Some(*end)
                })
                .collect(),
        )
    }

    /// Write and operation.
    fn place(&self, index: usize) -> (usize, usize) {
        let write = self.0.partition_point(|end| *end <= index);
        let start = write.checked_sub(1).map_or(0, |before| self.0[before]);
        (write, index - start)
    }
}

/// Makes answers of what a write met (impl C-51).
struct Told<'a> {
    state: &'a State,
    sequence: Option<u64>,
    incarnation: Incarnation,
    restores: RestoreCount,
    scope: &'a Scope,
    shape: &'a Shape,
}

impl Told<'_> {
    fn number(&self, met: &Met) -> Result<Committed, Problem> {
        let refuse = |problem| Err(self.numbered(problem));
        match met {
            Met::Fresh(receipt) => Ok(self.applied(Verdict::Fresh, receipt)),
            Met::PriorResult(receipt) => Ok(self.applied(Verdict::PriorResult, receipt)),
            Met::AlreadyCommitted(prior) => Ok(self.already(met, prior)),
            Met::Refused(refusal) => refuse(self.failed(Verdict::Fresh, refusal)),
            Met::RefusedBefore(refused) => {
                let problem = match &refused.refusal {
                    StreamRefusal::Condition(refusal) => self.failed(Verdict::PriorError, refusal),
                    StreamRefusal::Gap(found) => gap(*found),
                    StreamRefusal::Mismatch => mismatch(),
                };
                refuse(Problem { verdict: Some(Verdict::PriorError), ..problem })
            }
            Met::Mismatch => refuse(mismatch()),
            Met::Gap(found) => refuse(gap(*found)),
            Met::Exhausted => refuse(exhausted()),
            Met::Stale(refused) => refuse(stale(refused)),
            Met::Foreign => Err(foreign(self.state)),
        }
    }

    fn numbered(&self, mut problem: Problem) -> Problem {
        if let Some(refusal) = &mut problem.refusal {
            refusal.sequence = self.sequence.map(|sequence| SequenceNumber(sequence.into()));
        }
        self.state.metrics.refused(problem.code.as_str());
        problem
    }

    fn refused(&self, verdict: Verdict, refusal: &indelible_ledger::Refusal) -> Problem {
        self.numbered(self.failed(verdict, refusal))
    }

    /// A transaction of which nothing but its name is known.
    fn empty(&self, verdict: Verdict) -> Committed {
        self.state.metrics.applied(verdict, self.scope);
        Committed {
            verdict,
            code: None,
            code_number: None,
            sequence: self.sequence,
            transaction: None,
            height: None,
            time: None,
            head: None,
            results: None,
            incarnation: Text(self.incarnation),
            restores: self.restores.get(),
        }
    }

    fn applied(&self, verdict: Verdict, receipt: &Receipt) -> Committed {
        let success = &receipt.success;
        Committed {
            transaction: Some(Text(success.transaction)),
            height: Some(success.height.get()),
            time: Some(Text(success.time)),
            head: Some(Text(success.head)),
            results: Some(success.results.iter().map(OperationResult::of).collect()),
            ..self.empty(verdict)
        }
    }

    /// What is still known of a number that was committed before.
    fn already(&self, met: &Met, prior: &Prior) -> Committed {
        let code = met.code();
        let committed = match prior {
            Prior::Receipt(receipt) => self.applied(Verdict::PriorResult, receipt),
            Prior::Last(last) => Committed {
                transaction: Some(Text(last.transaction)),
                height: Some(last.height.get()),
                time: Some(Text(last.time)),
                ..self.empty(Verdict::PriorResult)
            },
            Prior::Forgotten => self.empty(Verdict::PriorResult),
        };
        let code_number = code.map(indelible_ledger::Code::number);
        Committed { code: code.map(|code| code.to_string()), code_number, ..committed }
    }

    /// The first operation that failed, and what it met.
    fn failed(&self, verdict: Verdict, refusal: &indelible_ledger::Refusal) -> Problem {
        let (write, index) = self.shape.place(refusal.index);
        let current = refusal.current.as_ref();
        let (amount, hash) = match current.map(|current| &current.content) {
            Some(ContentSummary::Amount(amount)) => (Some(amount), None),
            Some(ContentSummary::Value { hash, .. }) => (None, Some(hash.to_string())),
            None => (None, None),
        };
        let amount = amount.map(|amount| Content::Amount(Amount::of(amount)));
        let value = refusal.current_value.as_ref().map(|value| Content::Value(Payload::of(value)));
        let operation = FailedOperation {
            write,
            index,
            key: Text(refusal.key.clone()),
            current_version: current.map(|current| current.version.get()),
            current_value: amount.or(value),
            current_hash: hash,
        };
        let code = refusal.code;
        let detail = format!("operation {index} of write {write} is refused: {code}");
        let refusal = Refusal { operation: Some(operation), ..Refusal::default() };
        Problem { verdict: Some(verdict), ..coded(code, detail, refusal) }
    }
}

/// A problem with a code of the ledger.
fn coded(code: indelible_ledger::Code, detail: impl Into<String>, refusal: Refusal) -> Problem {
    let known = code.as_str().parse().unwrap_or(Code::Internal);
    let refusal = Box::new(Refusal { code_number: code.number(), ..refusal });
    Problem { refusal: Some(refusal), ..Problem::new(known, detail) }
}

/// Numbers before this one are missing (impl Q-6).
fn gap(Gap { last, restored }: Gap) -> Problem {
    let lost = if restored { "; the data folder was restored from a backup since" } else { "" };
    let detail = format!("the last committed sequence of this client is {last}{lost}");
    let refusal = Refusal {
        last_committed_sequence: Some(last),
        restored: Some(restored),
        ..Refusal::default()
    };
    coded(indelible_ledger::Code::SequenceGap, detail, refusal)
}

fn mismatch() -> Problem {
    let detail = "this client has already committed another request under this sequence";
    coded(indelible_ledger::Code::SequenceMismatch, detail, Refusal::default())
}

fn exhausted() -> Problem {
    let detail = format!("the last sequence is {}; go on under another client_id", u64::MAX);
    let refusal = Refusal { last_committed_sequence: Some(u64::MAX), ..Refusal::default() };
    coded(indelible_ledger::Code::SequenceExhausted, detail, refusal)
}

fn stale(refused: &RefusedAttempt) -> Problem {
    let detail = format!("attempt {} was refused; the next one is greater", refused.attempt);
    let refused = Some(super::read::refused(refused));
    let refusal = Refusal { refused, ..Refusal::default() };
    coded(indelible_ledger::Code::StaleAttempt, detail, refusal)
}

/// The client belongs to another (impl C-46).
fn foreign(state: &State) -> Problem {
    state.ledger_error(&LedgerError::Foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every refusal of the ledger has a code of the API with its name, and that has its page.
    #[test]
    fn every_refusal_has_a_code() {
        for code in indelible_ledger::Code::ALL {
            let problem = coded(code, "", Refusal::default());
            if code == indelible_ledger::Code::AlreadyCommitted {
                continue;
            }
            assert_eq!(problem.code.as_str(), code.as_str());
            assert_eq!(problem.refusal.map(|refusal| refusal.code_number), Some(code.number()));
        }
    }
}
