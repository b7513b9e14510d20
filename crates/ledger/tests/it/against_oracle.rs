//! The ledger against an oracle of a page: sequences, attempts, receipts, conditions, balances.

use std::collections::BTreeMap;

use indelible_ledger::{
    Amount, Answer, Code, Condition, Content, Operation, Prior, Request, StreamRefusal,
};
use indelible_test_support::Prng;

use crate::support::{
    Server, add, at, attempt, batch, check, client, delete, euro, json, key, sequence, set, set_if,
    single, transfer, unit,
};

/// What a request is expected to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Fresh,
    Cached,
    Committed,
    Mismatch,
    Refused(usize, Code),
    Gap(u64),
    Again(Box<Expected>),
    Stale(u32),
}

impl Expected {
    fn kind(&self) -> String {
        match self {
            Self::Refused(_, code) => code.to_string(),
            Self::Again(first) => format!("again {}", first.kind()),
            Self::Gap(_) => "gap".to_owned(),
            Self::Stale(_) => "stale".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

/// A stream by the letter of, C-7, C-42 and C-44. Requests are numbers.
#[derive(Default)]
struct OracleStream {
    committed: Vec<usize>,
    /// Receipts up to here are gone with the log.
    forgotten: usize,
    /// Answers up to here are no longer cached.
    uncached: usize,
    refused: Option<(u32, u64, usize, Expected)>,
}

/// Entities as (what, version).
type OracleVault = BTreeMap<String, (Content, u64)>;

#[derive(Default)]
struct Oracle {
    vault: OracleVault,
    height: u64,
    streams: BTreeMap<&'static str, OracleStream>,
}

impl Oracle {
    fn send(
        &mut self,
        of: &'static str,
        number: u64,
        tried: Option<u32>,
        (id, request): (usize, &Request),
        is_last: bool,
    ) -> Expected {
        let stream = self.streams.entry(of).or_default();
        let last = stream.committed.len() as u64;
        let expected = if number <= last {
            let at = number as usize - 1;
            let is_known = at >= stream.forgotten || number == last;
            match (is_known, stream.committed[at] == id, at < stream.uncached) {
                (true, false, _) => Expected::Mismatch,
                (true, true, false) if is_single(request) => Expected::Cached,
                _ => Expected::Committed,
            }
        } else if let Some((attempt, at, what, why)) = &stream.refused
            && tried.is_some_and(|tried| tried <= *attempt)
        {
            if (*at, *what) == (number, id) {
                Expected::Again(Box::new(why.clone()))
            } else {
                Expected::Stale(*attempt)
            }
        } else if number > last + 1 {
            Expected::Gap(last)
        } else {
            let mut vault = self.vault.clone();
            match apply(&mut vault, self.height + 1, request) {
                Ok(()) => {
                    self.vault = vault;
                    self.height += 1;
                    stream.committed.push(id);
                    Expected::Fresh
                }
                Err((index, code)) => Expected::Refused(index, code),
            }
        };
        let is_refusal = match expected {
            Expected::Gap(_) | Expected::Refused(..) => true,
            Expected::Mismatch => !is_last,
            _ => false,
        };
        let highest = stream.refused.as_ref().map_or(0, |refused| refused.0);
        if let Some(tried) = tried.filter(|tried| is_refusal && *tried > highest) {
            stream.refused = Some((tried, number, id, expected.clone()));
        }
        expected
    }
}

fn is_single(request: &Request) -> bool {
    request.kind() == indelible_ledger::Kind::Single
}

fn apply(vault: &mut OracleVault, height: u64, request: &Request) -> Result<(), (usize, Code)> {
    for (index, operation) in request.operations().iter().enumerate() {
        step(vault, height, operation).map_err(|code| (index, code))?;
    }
    Ok(())
}

fn step(vault: &mut OracleVault, height: u64, operation: &Operation) -> Result<(), Code> {
    let (condition, of) = match operation {
        Operation::Set { key, condition, .. }
        | Operation::Delete { key, condition }
        | Operation::Add { key, condition, .. } => (condition.as_ref(), key),
        Operation::Check { key, condition } => (Some(condition), key),
        Operation::Get { key } | Operation::Transfer { from: key, .. } => (None, key),
        Operation::Start { .. } => return Ok(()),
    };
    match (condition, vault.get(of.as_str())) {
        (None, _) | (Some(Condition::Absent), None) | (Some(Condition::Present), Some(_)) => {}
        (Some(Condition::Absent), Some(_)) => return Err(Code::KeyExists),
        (Some(_), None) => return Err(Code::KeyNotFound),
        (Some(Condition::Version(wanted)), Some((_, version))) => {
            if wanted.get() != *version {
                return Err(Code::VersionMismatch);
            }
        }
        (Some(Condition::Content(wanted)), Some((content, _))) => {
            if wanted != content {
                return Err(Code::ValueMismatch);
            }
        }
        (Some(Condition::Hash(wanted)), Some((content, _))) => {
            if !matches!(content, Content::Value(value) if value.hash() == *wanted) {
                return Err(Code::ValueMismatch);
            }
        }
    }
    let mut change = |of: &str, delta: i128, new: Option<&str>, min: i128, max: i128| {
        let (amount, _) = match (vault.get(of), new) {
            (None, Some(named)) => (0, named),
            (None, None) => return Err(Code::KeyNotFound),
            (Some((Content::Amount(Amount { quantity, unit }), _)), _)
                if unit.as_str() == "EUR" =>
            {
                (*quantity, "")
            }
            _ => return Err(Code::UnitMismatch),
        };
        let sum = amount + delta;
        if sum < min {
            return Err(Code::BelowMin);
        }
        if sum > max {
            return Err(Code::AboveMax);
        }
        vault.insert(of.to_owned(), (euro(sum), height));
        Ok(())
    };
    match operation {
        Operation::Set { key, content, .. } => {
            vault.insert(key.as_str().to_owned(), (content.clone(), height));
        }
        Operation::Delete { key, .. } => {
            vault.remove(key.as_str());
        }
        Operation::Add { key, delta, unit, min, max, .. } => {
            let named = unit.as_ref().map(indelible_ledger::Unit::as_str);
            let (min, max) = (min.unwrap_or(i128::MIN), max.unwrap_or(i128::MAX));
            change(key.as_str(), *delta, named, min, max)?;
        }
        Operation::Transfer { from, to, quantity, min, max, .. } => {
            change(from.as_str(), -quantity, None, min.unwrap_or(i128::MIN), i128::MAX)?;
            change(to.as_str(), *quantity, None, i128::MIN, max.unwrap_or(i128::MAX))?;
        }
        _ => {}
    }
    Ok(())
}

fn seen(answer: &Answer) -> Expected {
    match answer {
        Answer::Fresh(_) => Expected::Fresh,
        Answer::PriorResult(_) => Expected::Cached,
        Answer::AlreadyCommitted(_) => Expected::Committed,
        Answer::Mismatch => Expected::Mismatch,
        Answer::Refused(refusal) => Expected::Refused(refusal.index, refusal.code),
        Answer::Gap(gap) => Expected::Gap(gap.last),
        Answer::Stale(refused) => Expected::Stale(refused.attempt.get()),
        Answer::RefusedBefore(refused) => Expected::Again(Box::new(match &refused.refusal {
            StreamRefusal::Condition(refusal) => Expected::Refused(refusal.index, refusal.code),
            StreamRefusal::Gap(gap) => Expected::Gap(gap.last),
            StreamRefusal::Mismatch => Expected::Mismatch,
        })),
        Answer::Exhausted | Answer::Foreign => panic!("{answer:?}"),
    }
}

/// Requests that the clients draw from: hashing them anew would take most of the time.
fn requests(random: &mut Prng) -> Vec<Request> {
    let operation = |random: &mut Prng| {
        let names = ["a", "b", "c", "d"];
        let (one, other) = random.pick(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]).unwrap();
        let of = names[random.index(4)];
        let condition = match random.below(8) {
            0 => Condition::Absent,
            1 => Condition::Version(indelible_ledger::Height::new(random.below(30))),
            2 => Condition::Content(json("1")),
            3 => Condition::Hash(indelible_ledger::ValueHash::of(b"1")),
            4 => Condition::Content(euro(10)),
            _ => Condition::Present,
        };
        match random.below(10) {
            0 => set(of, json("1")),
            1 => set_if(of, euro(10), condition),
            2 => set(of, euro(50)),
            3 => delete(of),
            4 => check(of, condition),
            5 | 6 => transfer(one, other, 1 + i128::from(random.below(30))),
            7 => add(of, i128::from(random.below(40)) - 20),
            _ => Operation::Add {
                key: key(of),
                delta: i128::from(random.below(40)) - 20,
                unit: random.one_in(2).then(|| unit("EUR")),
                min: Some(-5),
                max: Some(100),
                condition: random.one_in(4).then_some(condition),
            },
        }
    };
    let operations =
        |random: &mut Prng| (0..1 + random.below(3)).map(|_| operation(random)).collect::<Vec<_>>();
    let mut made: Vec<Request> = Vec::new();
    for _ in 0..48 {
        made.push(single(operations(random)));
        if random.one_in(4) {
            made.push(batch(vec![operations(random), operations(random)]));
        }
    }
    // A request has one number here: two that are the same are one.
    made.sort_by_key(Request::hash);
    made.dedup_by_key(|request| request.hash());
    made
}

/// C-5, C-7, C-8, C-9, C-42, C-44, C-45: a
/// million random writes, singly, in batches and in runs, with late copies, old attempts, answers and
/// receipts that go; after each the answer is the oracle's, and what the vault holds as well.
#[test]
fn a_million_steps() {
    let mut random = Prng::new(42);
    let requests = requests(&mut random);
    let clients = ["a", "b", "c"];
    let mut server = Server::new();
    let mut oracle = Oracle::default();
    let mut steps = 0;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    while steps < 1_000_000 {
        let of = clients[random.index(3)];
        let stream = oracle.streams.entry(of).or_default();
        let last = stream.committed.len() as u64;
        let highest = stream.refused.as_ref().map_or(0, |refused| refused.0);
        let number = match random.below(10) {
            0 => 1 + random.below(last + 1),
            1 => last + 2,
            2 => last.max(1),
            _ => last + 1,
        };
        // Streams with attempts, and one without now and then.
        let tried = match random.below(8) {
            0 => None,
            1 => Some(highest.max(1)),
            2 => Some(1 + u32::try_from(random.below(u64::from(highest) + 1)).unwrap()),
            _ => Some(highest + 1),
        };
        // A late copy of what was refused.
        let late = stream.refused.as_ref().filter(|_| random.one_in(8));
        let late = late.map(|(attempt, number, id, _)| (*attempt, *number, *id));
        let (tried, number) = late.map_or((tried, number), |late| (Some(late.0), late.1));
        let count = if random.one_in(4) { 1 + random.index(4) } else { 1 };
        let writes: Vec<(u64, usize)> = (number..)
            .take(count)
            .map(|number| {
                // Often what was sent under that number: a repetition.
                let committed = stream.committed.get(number as usize - 1).copied();
                let again = committed.filter(|_| !random.one_in(4));
                let copy = late.filter(|late| late.1 == number).map(|late| late.2);
                (number, copy.or(again).unwrap_or_else(|| random.index(requests.len())))
            })
            .collect();
        let run = writes.iter().map(|(number, id)| (*number, requests[*id].clone())).collect();
        let answers = server.run(of, tried.and_then(attempt), run);
        steps += answers.len();
        for (index, (number, id)) in writes.iter().enumerate() {
            let is_last = index + 1 == writes.len();
            let request = (*id, &requests[*id]);
            let expected = oracle.send(of, *number, tried, request, is_last);
            let answer = &answers[index];
            *kinds.entry(expected.kind()).or_default() += 1;
            assert_eq!(seen(answer), expected, "step {steps}: {of} {number} {tried:?}");
            if !answer.is_success() {
                assert_eq!(answers.len(), index + 1, "a run stops at its first refusal");
                break;
            }
            let receipt = match answer {
                Answer::PriorResult(receipt)
                | Answer::AlreadyCommitted(Prior::Receipt(receipt)) => Some(receipt),
                _ => None,
            };
            let is_own = receipt.is_none_or(|receipt| receipt.hash == requests[*id].hash());
            assert!(is_own, "another transaction's answer");
        }
        assert_eq!(server.vault.height().get(), oracle.height);
        if random.one_in(64) {
            compare_entities(&server, &oracle);
        }
        forget(&mut random, &mut server, &mut oracle);
    }
    compare_entities(&server, &oracle);
    let mut state = indelible_ledger::proof::LtHash::default();
    for (key, entity) in &server.entities.0 {
        state.add(key, &entity.summary());
    }
    assert_eq!(&state, server.vault.state());
    // Eight kinds of answers, one of them with seven codes; and refusals that are told again.
    assert!(kinds.len() >= 16 && kinds.values().all(|count| *count > 50), "{kinds:?}");
}

fn compare_entities(server: &Server, oracle: &Oracle) {
    let entities = server.entities.0.iter();
    let stored = entities.map(|(key, entity)| {
        (key.as_str().to_owned(), (entity.content.clone(), entity.version.get()))
    });
    assert_eq!(stored.collect::<OracleVault>(), oracle.vault);
}

/// A kill now and then, and the log's retention.
fn forget(random: &mut Prng, server: &mut Server, oracle: &mut Oracle) {
    if random.one_in(256) {
        server.kill();
        oracle.streams.values_mut().for_each(|stream| stream.uncached = stream.committed.len());
    }
    if random.one_in(4096) {
        let retained = 50;
        for (of, stream) in &mut oracle.streams {
            stream.forgotten = stream.committed.len().saturating_sub(retained);
            stream.uncached = stream.uncached.max(stream.forgotten);
            let (of, first) = (client(of), sequence(stream.forgotten as u64 + 1));
            server.receipts.retain(|(owner, at), _| *owner != of || *at >= first);
            server.cached.retain(|(owner, at), _| *owner != of || *at >= first);
        }
        server.log.clear();
        server.now = at(server.now.as_micros() + 1);
    }
}
