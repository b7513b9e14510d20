//! One transaction around `begin`, the effect and `commit`.

use std::collections::VecDeque;
use std::rc::Rc;

use indelible_idempotency::{InFlight, Json, Outcome};

use crate::chaos::abandon::abandon_after;
use crate::chaos::base::{Base, Connection, Note, Trouble};
use crate::chaos::ledger::name;
use crate::chaos::numbers::Numbers;
use crate::chaos::run::Run;

/// The most keys in one transaction. With more than one, transactions that waited for each other
/// could deadlock.
const KEYS_MAX: usize = 3;
/// A transaction that is never looked at so often has ended before.
const POLLS_MAX: usize = 8;

/// Goes over all keys in an order of its own, until it has the result of each: by doing it, or
/// because it was done.
pub(crate) async fn task<B: Base>(run: Rc<Run<B>>, task: usize) {
    let mut numbers = run.numbers(task);
    let mut queue = VecDeque::from(numbers.order(run.keys.len()));
    let mut connection = None;
    let mut visit = 0;
    while !queue.is_empty() {
        let mut open = match connection.take() {
            Some(open) => open,
            None => run.connect().await,
        };
        run.visited();
        visit += 1;
        let count = (1 + numbers.below(KEYS_MAX)).min(queue.len());
        let keys: Vec<usize> = queue.drain(..count).collect();
        let mut answered = Vec::new();
        let result = Json::of(&format!("task {task}, visit {visit}")).unwrap();
        let abandoned = numbers.one_in(32).then(|| numbers.below(POLLS_MAX));
        let visited = visit_keys(&run, &mut open, &keys, &result, &mut numbers, &mut answered);
        let ended = match abandoned {
            Some(polls) => abandon_after(polls, visited).await,
            None => Some(visited.await),
        };
        connection = match ended {
            Some(Ok(())) => Some(open),
            Some(Err(trouble)) => run.after(trouble, open),
            None => {
                run.count(|counts| counts.abandoned += 1);
                // Either is what services do: the connection goes back to a pool, or goes.
                numbers.one_in(2).then_some(open)
            }
        };
        if numbers.one_in(200) {
            connection = None;
        }
        queue.extend(keys.into_iter().filter(|key| !answered.contains(key)));
    }
}

/// One transaction over some keys. Keys whose result is known afterwards are `answered`.
async fn visit_keys<B: Base>(
    run: &Run<B>,
    connection: &mut Connection<B>,
    keys: &[usize],
    result: &Json,
    numbers: &mut Numbers,
    answered: &mut Vec<usize>,
) -> Result<(), Trouble> {
    let mut transaction = run.open(connection).await?;
    let mut done = Vec::new();
    let mut lost = 0;
    for &number in keys {
        let key = &run.keys[number];
        let other = numbers.one_in(16);
        let request = if other { &key.other } else { &key.request };
        let begun = run.store(&mut transaction).begin(&key.key, request).await;
        match run.of_store(begun)? {
            Outcome::FreshAttempt(attempt) => {
                // Nothing else may come of another request, or it would be the key's.
                if other || numbers.one_in(16) {
                    let failed = run.store(&mut transaction).fail_transient(&attempt).await;
                    run.of_store(failed)?;
                    continue;
                }
                let effect_first = numbers.one_in(2);
                if effect_first {
                    effect(run, &mut transaction, number, result).await?;
                }
                let committed = run.store(&mut transaction).commit(&attempt, result).await;
                run.of_store(committed)?;
                if !effect_first {
                    effect(run, &mut transaction, number, result).await?;
                }
                done.push(number);
            }
            Outcome::PriorResult(known) => {
                assert!(!other, "key {number}: another request got a result");
                run.ledger().result_is(number, known.as_str());
                run.count(|counts| counts.replayed += 1);
                answered.push(number);
            }
            Outcome::InFlight(InFlight::Uncommitted) => {
                let noted = run.base.note(&mut transaction, Note::Lost, &name(number), "").await;
                run.of_sql(noted)?;
                lost += 1;
            }
            Outcome::Mismatch(_) => {
                assert!(other, "key {number}: the request is taken for another");
                run.count(|counts| counts.mismatched += 1);
            }
            outcome => panic!("key {number}: {outcome:?}"),
        }
    }
    if numbers.one_in(32) {
        drop(transaction);
        return Ok(());
    }
    run.count(|counts| counts.lost_sent += lost);
    run.of_sql(transaction.commit().await)?;
    run.count(|counts| counts.lost_acknowledged += lost);
    for number in done {
        run.ledger().result_is(number, result.as_str());
        run.count(|counts| counts.acknowledged += 1);
        answered.push(number);
    }
    Ok(())
}

async fn effect<B: Base>(
    run: &Run<B>,
    connection: &mut Connection<B>,
    key: usize,
    result: &Json,
) -> Result<(), Trouble> {
    run.of_sql(run.base.note(connection, Note::Effect, &name(key), result.as_str()).await)
}
