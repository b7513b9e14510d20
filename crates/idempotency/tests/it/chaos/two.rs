//! Two transactions: `begin` in the one, the effect and `commit` in the other. Owners are lost
//! between them, and others take over.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use indelible_idempotency::store::StoreError;
use indelible_idempotency::{Attempt, InFlight, Json, Outcome};

use crate::chaos::abandon::abandon_after;
use crate::chaos::base::{Base, Connection, Note, Trouble};
use crate::chaos::ledger::name;
use crate::chaos::numbers::Numbers;
use crate::chaos::run::Run;

/// A transaction that is never looked at so often has ended before.
const POLLS_MAX: usize = 6;

/// Attempts whose owners were lost after `begin`, by the number of their key.
#[derive(Default)]
pub(crate) struct Forgotten {
    /// Those who come back while others are at it.
    back: RefCell<Vec<(usize, Attempt)>>,
    /// Those who come back when everything is done.
    late: RefCell<Vec<(usize, Attempt)>>,
}

/// What the first transaction came to.
enum Begun {
    /// It is ours.
    Owned(Attempt),
    /// Its result is known.
    Answered,
    /// Another task has it, or it has to be begun again.
    Again,
}

/// A client: its connection, and what it does next.
struct Task<'r, B: Base> {
    run: &'r Run<B>,
    numbers: Numbers,
    connection: Option<Connection<B>>,
    number: usize,
    ends: u32,
}

/// Goes over all keys in an order of its own, until it has the result of each.
pub(crate) async fn task<B: Base>(run: Rc<Run<B>>, forgotten: Rc<Forgotten>, number: usize) {
    let mut numbers = run.numbers(number);
    let mut queue = VecDeque::from(numbers.order(run.keys.len()));
    let mut task = Task { run: &run, numbers, connection: None, number, ends: 0 };
    while let Some(key) = queue.pop_front() {
        match task.begin(key).await {
            // Most are lost, so that each key has a few owners.
            Begun::Owned(attempt) if !task.numbers.one_in(4) => {
                run.count(|counts| counts.forgotten += 1);
                let back = task.numbers.one_in(2);
                let list = if back { &forgotten.back } else { &forgotten.late };
                list.borrow_mut().push((key, attempt));
                queue.push_back(key);
            }
            Begun::Owned(attempt) => {
                task.end(key, &attempt).await;
                queue.push_back(key);
            }
            Begun::Answered => {}
            Begun::Again => queue.push_back(key),
        }
        // An owner may come back as long as no other task has taken over: some are in time, some
        // not.
        if task.numbers.one_in(16) {
            let back = forgotten.back.borrow_mut().pop();
            if let Some((key, attempt)) = back {
                task.end(key, &attempt).await;
            }
        }
    }
}

/// Once every key has its result, owners that come back are all refused.
pub(crate) async fn refuse_the_late<B: Base>(run: &Run<B>, forgotten: &Forgotten) {
    let late = forgotten.late.take();
    assert!(!late.is_empty(), "nobody was lost for good");
    let mut connection = run.connect().await;
    for (key, attempt) in late {
        let mut transaction = run.open(&mut connection).await.unwrap();
        let result = Json::of(&"late").unwrap();
        let committed = run.store(&mut transaction).commit(&attempt, &result).await;
        let superseded = matches!(committed, Err(StoreError::Superseded { .. }));
        assert!(superseded, "key {key}: {committed:?}");
    }
}

impl<B: Base> Task<'_, B> {
    async fn connection(&mut self) -> Connection<B> {
        match self.connection.take() {
            Some(connection) => connection,
            None => self.run.connect().await,
        }
    }

    async fn begin(&mut self, key: usize) -> Begun {
        let mut connection = self.connection().await;
        self.run.visited();
        let begun = begin(self.run, &mut connection, key, &mut self.numbers).await;
        let (begun, connection) = match begun {
            Ok(begun) => (begun, Some(connection)),
            Err(trouble) => (Begun::Again, self.run.after(trouble, connection)),
        };
        self.connection = connection;
        begun
    }

    /// Ends an attempt: tries until it is known to have ended, or another task has it. The result
    /// differs each time: the same again would be taken for the same call, sent twice.
    async fn end(&mut self, key: usize, attempt: &Attempt) {
        for tries in 1.. {
            let mut connection = self.connection().await;
            self.run.visited();
            self.ends += 1;
            let result = Json::of(&format!("task {}, end {}", self.number, self.ends)).unwrap();
            let abandoned = self.numbers.one_in(8).then(|| self.numbers.below(POLLS_MAX));
            let ending = end(self.run, &mut connection, key, attempt, &result, &mut self.numbers);
            let ended = match abandoned {
                Some(polls) => abandon_after(polls, ending).await,
                None => Some(ending.await),
            };
            match ended {
                Some(Ok(())) => {
                    self.connection = Some(connection);
                    return;
                }
                Some(Err(trouble)) => {
                    self.connection = self.run.after(trouble, connection);
                    // On its first try, this task cannot have ended it before.
                    assert!(trouble != Trouble::Ended || tries > 1, "key {key}: not by its owner");
                    if matches!(trouble, Trouble::Refused | Trouble::Ended) {
                        return;
                    }
                }
                None => {
                    self.run.count(|counts| counts.abandoned += 1);
                    self.connection = self.numbers.one_in(2).then_some(connection);
                }
            }
        }
    }
}

/// The first transaction. A task that finds a key in flight writes that down, and may let the
/// owner's lease lapse.
async fn begin<B: Base>(
    run: &Run<B>,
    connection: &mut Connection<B>,
    number: usize,
    numbers: &mut Numbers,
) -> Result<Begun, Trouble> {
    let key = &run.keys[number];
    let mut transaction = run.open(connection).await?;
    let other = numbers.one_in(16);
    let request = if other { &key.other } else { &key.request };
    let take_over = !other && numbers.one_in(2);
    let mut store = run.store(&mut transaction);
    let outcome = match take_over {
        true => store.take_over(&key.key, request).await,
        false => store.begin(&key.key, request).await,
    };
    match run.of_store(outcome)? {
        Outcome::FreshAttempt(attempt) => {
            if other {
                drop(transaction);
                return Ok(Begun::Again);
            }
            run.of_sql(transaction.commit().await)?;
            Ok(Begun::Owned(attempt))
        }
        Outcome::PriorResult(known) => {
            assert!(!other, "key {number}: another request got a result");
            run.ledger().result_is(number, known.as_str());
            run.count(|counts| counts.replayed += 1);
            Ok(Begun::Answered)
        }
        Outcome::InFlight(in_flight) => {
            assert!(!other || in_flight == InFlight::Uncommitted, "key {number}: {in_flight:?}");
            let lapsed = matches!(in_flight, InFlight::Indeterminate { .. });
            assert!(!(take_over && lapsed), "key {number}: nobody took over");
            let noted = run.base.note(&mut transaction, Note::Lost, &name(number), "").await;
            run.of_sql(noted)?;
            if matches!(in_flight, InFlight::Leased { .. }) && numbers.one_in(2) {
                run.of_sql(run.base.lapse(&mut transaction, &name(number)).await)?;
            }
            run.count(|counts| counts.lost_sent += 1);
            run.of_sql(transaction.commit().await)?;
            run.count(|counts| counts.lost_acknowledged += 1);
            Ok(Begun::Again)
        }
        Outcome::Mismatch(_) => {
            assert!(other, "key {number}: the request is taken for another");
            run.count(|counts| counts.mismatched += 1);
            Ok(Begun::Again)
        }
        outcome @ Outcome::PriorError(_) => panic!("key {number}: {outcome:?}"),
    }
}

/// The second transaction: the effect and its record, or neither.
async fn end<B: Base>(
    run: &Run<B>,
    connection: &mut Connection<B>,
    key: usize,
    attempt: &Attempt,
    result: &Json,
    numbers: &mut Numbers,
) -> Result<(), Trouble> {
    let mut transaction = run.open(connection).await?;
    if numbers.one_in(8) {
        run.of_store(run.store(&mut transaction).fail_transient(attempt).await)?;
        return run.of_sql(transaction.commit().await);
    }
    let noted = run.base.note(&mut transaction, Note::Effect, &name(key), result.as_str()).await;
    run.of_sql(noted)?;
    run.of_store(run.store(&mut transaction).commit(attempt, result).await)?;
    run.of_sql(transaction.commit().await)?;
    run.ledger().result_is(key, result.as_str());
    run.count(|counts| counts.acknowledged += 1);
    Ok(())
}
