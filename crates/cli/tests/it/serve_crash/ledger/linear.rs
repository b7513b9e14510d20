//! What 32 clients saw of a few keys while the server was killed, judged by a checker that is no work
//! of ours.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;

use indelible_test_support::Prng;
use porcupine_rs::{Operation, check_operations};
use serde_json::{Value, json};

use super::super::kit::Place;
use super::kit::{Delivery, NamedWrite, Reply, Stream, VAULT, house, kill_between, setting};
use super::register::{
    Action, Condition, Entity, History, Outcome, Register, Step, heights, lost_updates, stale_reads,
};

const CLIENTS: u32 = 32;
/// Of each client. The search is exponential in the worst case: this many take it milliseconds.
const OPERATIONS: usize = 40;
const KEYS: usize = 5;
const KILLS: usize = 3;

/// No two `set` write the same, and no sum of additions leads from one of them to another.
const SPACING: i64 = 1_000_000;
/// The step of a keyed client that it sends once, and of which it never asks again.
const OPEN_AT: usize = 20;
/// How many histories of each kind that must be refused are made of the one that was seen.
const BROKEN: usize = 8;

/// Requests and answers of all clients, in one order.
struct Observer<'a> {
    place: &'a Place,
    clock: AtomicI64,
    done: AtomicUsize,
}

impl Observer<'_> {
    fn now(&self) -> i64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Does one step and says when.
    fn observe(
        &self,
        client: u32,
        key: usize,
        action: Action,
        act: impl FnOnce(&Place) -> Outcome,
    ) -> Operation<Register> {
        let call_time = self.now();
        let outcome = act(self.place);
        let return_time = match outcome {
            Outcome::Open => i64::MAX,
            _ => self.now(),
        };
        self.done.fetch_add(1, Ordering::SeqCst);
        let op = Step { key, action, outcome };
        Operation { client_id: Some(client), call_time, return_time, op, metadata: None }
    }

    fn read(&self, client: u32, key: usize) -> Operation<Register> {
        self.observe(client, key, Action::Read, |place| {
            let read = place.json(&format!("{VAULT}/entities/k{key}"));
            seen(&read["height"], &read["entity"])
        })
    }
}

fn seen(height: &Value, entity: &Value) -> Outcome {
    let content = &entity["is"];
    Outcome::Seen { height: height.as_u64().unwrap(), entity: met(&entity["version"], content) }
}

fn met(version: &Value, content: &Value) -> Option<Entity> {
    let quantity = || quantity(&content["amount"]["quantity"]);
    version.as_u64().map(|version| Entity { version, quantity: quantity() })
}

fn quantity(text: &Value) -> i64 {
    text.as_str().unwrap().parse().unwrap()
}

/// What a write was answered, as the checker has it.
fn outcome(reply: &Reply) -> Outcome {
    let answer = match reply {
        Reply::Committed(answer) => answer,
        Reply::Refused { code, refusal } => {
            let holds = ["KEY_EXISTS", "KEY_NOT_FOUND", "VERSION_MISMATCH", "BELOW_MIN"];
            assert!(holds.contains(&code.as_str()), "{code}: {refusal}");
            let failed = &refusal["operation"];
            let met = met(&failed["current_version"], &failed["current_value"]);
            return Outcome::Refused { met };
        }
    };
    let height = answer["height"].as_u64().unwrap();
    let (kind, result) = answer["results"][0].as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "got" => seen(&answer["height"], &result["entity"]),
        "deleted" => Outcome::Deleted { height, version: result["version"].as_u64() },
        "set" => {
            assert_eq!(result["version"], height);
            Outcome::Set { height }
        }
        "added" => {
            assert_eq!(result["version"], height);
            Outcome::Added { height, balance: quantity(&result["balance"]) }
        }
        _ => panic!("{answer}"),
    }
}

fn operation(key: usize, action: Action) -> Value {
    let key = format!("k{key}");
    match action {
        Action::Get | Action::Read => json!({"get": {"key": key}}),
        Action::Delete => json!({"delete": {"key": key}}),
        Action::Add { delta } => {
            json!({"add": {"key": key, "delta": delta, "unit": "EUR", "min": 0}})
        }
        Action::Set { to, condition } => {
            let to = json!({"amount": {"quantity": to, "unit": "EUR"}});
            match condition {
                None => json!({"set": {"key": key, "to": to}}),
                Some(Condition::Absent) => {
                    json!({"set": {"key": key, "to": to, "condition": "absent"}})
                }
                Some(Condition::Version(version)) => {
                    json!({"set": {"key": key, "to": to, "condition": {"version": version}}})
                }
            }
        }
    }
}

/// What a client does next. It knows of a key what it was told last.
fn draw(random: &mut Prng, to: i64, known: Option<u64>) -> Action {
    match random.weighted(&[6, 2, 2, 5, 6, 1]) {
        0 => Action::Read,
        1 => Action::Get,
        2 => Action::Set { to, condition: None },
        3 => {
            let condition = known.map_or(Condition::Absent, Condition::Version);
            Action::Set { to, condition: Some(condition) }
        }
        4 => {
            let small = 1 + i64::try_from(random.below(999)).unwrap();
            // What is taken is often more than there is.
            let delta = if random.one_in(3) { small - to } else { small };
            Action::Add { delta }
        }
        _ => Action::Delete,
    }
}

/// The version that a client knows a key to have after a step.
fn version(outcome: Outcome) -> Option<u64> {
    match outcome {
        Outcome::Set { height } | Outcome::Added { height, .. } => Some(height),
        Outcome::Seen { entity, .. } | Outcome::Refused { met: entity } => {
            entity.map(|entity| entity.version)
        }
        Outcome::Deleted { .. } | Outcome::Open => None,
    }
}

/// One client: those with an odd number write under idempotency keys, the others number their writes.
fn client(number: u32, seed: u64, observer: &Observer<'_>) -> (Stream, History) {
    let mut random = Prng::new(seed * u64::from(CLIENTS) + u64::from(number));
    let mut stream = Stream::new(format!("c{number}"));
    let is_keyed = number % 2 == 1;
    let mut known = [None; KEYS];
    let mut history = History::new();
    for step in 0..OPERATIONS {
        let key = random.index(KEYS);
        let to = i64::from(number) * OPERATIONS as i64 + step as i64 + 1;
        let mut action = draw(&mut random, to * SPACING, known[key]);
        let is_open = is_keyed && step == OPEN_AT;
        if is_open {
            action = Action::Set { to: to * SPACING, condition: None };
        }
        let seen = if let Action::Read = action {
            observer.read(number, key)
        } else {
            let operations = [operation(key, action)];
            let write = if is_keyed {
                NamedWrite::keyed(format!("{number}-{step}"), &operations)
            } else {
                stream.next(&operations)
            };
            let delivery = Delivery::draw(&mut random);
            observer.observe(number, key, action, |place| {
                if is_open {
                    write.hang_up(place);
                    return Outcome::Open;
                }
                let reply = write.send(place, delivery);
                if !is_keyed {
                    stream.take(&reply);
                }
                outcome(&reply)
            })
        };
        known[key] = version(seen.op.outcome);
        history.push(seen);
    }
    (stream, history)
}

/// C-50: what 32 clients saw of a vault, whose server was killed three
/// times, is what they would have seen of one that does one thing at a time. A write that was sent
/// several times took effect once; one that was never answered, once or not at all. Heights say the
/// same. The same history with one stale read, or with one update that the next one did not see, is
/// refused by the same checker.
#[test]
fn histories_are_linearizable() {
    for seed in 0..setting("INDELIBLE_HISTORIES", 1) {
        let (mut house, seed) = (house(), seed as u64);
        let place = std::sync::Arc::clone(&house.place);
        let observer =
            Observer { place: &place, clock: AtomicI64::new(0), done: AtomicUsize::new(0) };
        let (streams, histories): (Vec<_>, Vec<_>) = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let observer = &observer;
                    scope.spawn(move || client(number, seed, observer))
                })
                .collect();
            let every = CLIENTS as usize * OPERATIONS / (KILLS + 1);
            kill_between(&mut house, KILLS, every, &observer.done);
            clients.into_iter().map(|client| client.join().unwrap()).unzip()
        });
        let mut history = histories.concat();
        house.crash();
        history.extend((0..KEYS).map(|key| observer.read(CLIENTS, key)));
        for stream in &streams {
            stream.assert_known(&place);
        }
        judge(&history);
    }
}

fn judge(history: &History) {
    let open = history.iter().filter(|step| matches!(step.op.outcome, Outcome::Open)).count();
    assert_eq!(open, CLIENTS as usize / 2);
    assert!(check_operations(history), "no order explains: {history:#?}");
    heights(history).unwrap();
    let broken = stale_reads(history).take(BROKEN).chain(lost_updates(history).take(BROKEN));
    assert_eq!(broken.map(|broken| assert!(!check_operations(&broken))).count(), 2 * BROKEN);
    // The second judgement can fail, too: two transactions at one height, and a height that goes back.
    let heights_of = |history: &History, change: fn(u64) -> u64| {
        let mut broken = history.clone();
        let last = broken.iter_mut().max_by_key(|step| match step.op.outcome {
            Outcome::Set { height } => height,
            _ => 0,
        });
        if let Outcome::Set { height } = &mut last.unwrap().op.outcome {
            *height = change(*height);
        }
        heights(&broken)
    };
    assert!(heights_of(history, |height| height).is_ok());
    assert!(heights_of(history, |height| height - 1).is_err());
    assert!(heights_of(history, |_| 0).is_err());
}
