//! Writes under a name, and clients who send the same bytes until they are answered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indelible_test_support::Prng;
use serde_json::{Value, json};

use super::super::kit::{House, Place, text, until};

/// The vault.
pub const VAULT: &str = "/v1/vaults/wallets";

/// Copies of one request that are sent at the same time.
const COPIES: usize = 3;

/// A server with the vault.
pub fn house() -> House {
    let house = House::new();
    let json = [("content-type", "application/json")];
    assert_eq!(house.place.ask("PUT", VAULT, &json, "{}").status, 201);
    house
}

/// Kills the server whenever so many steps more are done.
pub fn kill_between(house: &mut House, kills: usize, every: usize, done: &AtomicUsize) {
    for kill in 1..=kills {
        let far = || (done.load(Ordering::SeqCst) >= kill * every).then_some(());
        until("the clients are as far as the next kill", far);
        house.crash();
    }
}

/// How a test is told to do more than it ordinarily does.
pub fn setting(name: &str, ordinary: usize) -> usize {
    std::env::var(name).map_or(ordinary, |text| text.parse().unwrap())
}

/// A transaction under a name: the bytes that are sent, and sent again.
#[derive(Debug, Clone)]
pub struct NamedWrite {
    /// Where it is sent to: a transaction or a batch.
    door: &'static str,
    /// Without one, the body has the client's number.
    key: Option<String>,
    body: String,
}

/// What came of a write, whichever copy of it was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The answer without what the copy met.
    Committed(Value),
    Refused {
        code: String,
        refusal: Value,
    },
}

impl Reply {
    pub fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }
}

/// How a client sends a write. All of them are one operation: the server may apply it once.
#[derive(Debug, Clone, Copy)]
pub enum Delivery {
    /// Until there is an answer.
    UntilAnswered,
    /// The connection is closed at once, and then the bytes are sent until there is an answer. The
    /// first copy may arrive at any time.
    HungUp,
    /// Several copies at the same time.
    AtOnce,
    /// Once more, after the answer.
    Again,
}

impl Delivery {
    /// Most writes are sent as a client does that has no trouble.
    pub fn draw(random: &mut Prng) -> Self {
        let all = [Self::UntilAnswered, Self::HungUp, Self::AtOnce, Self::Again];
        all[random.weighted(&[5, 1, 1, 1])]
    }
}

impl NamedWrite {
    /// One under an idempotency key.
    pub fn keyed(key: String, operations: &[Value]) -> Self {
        let body = json!({ "operations": operations }).to_string();
        Self { door: "transactions", key: Some(key), body }
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        self.key.iter().map(|key| ("idempotency-key", key.as_str())).collect()
    }

    fn path(&self) -> String {
        format!("{VAULT}/{}", self.door)
    }

    /// Sends it and does not wait: it may happen, now or later, or not.
    pub fn hang_up(&self, place: &Place) {
        drop(place.leave(&self.path(), &self.headers(), &self.body));
    }

    /// Sends it until it is answered: the verdict, and what came of it.
    pub fn ask(&self, place: &Place) -> (String, Reply) {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(self.headers());
        let answer = place.ask("POST", &self.path(), &headers, &self.body);
        let mut json = answer.json();
        let verdict = json["verdict"].as_str().unwrap_or("none").to_owned();
        let reply = match answer.status {
            200 => {
                let committed = json.as_object_mut().unwrap();
                for name in ["verdict", "code", "code_number"] {
                    committed.remove(name);
                }
                Reply::Committed(json)
            }
            409 | 412 | 422 => Reply::Refused {
                code: json["code"].as_str().unwrap().to_owned(),
                refusal: json["refusal"].clone(),
            },
            _ => panic!("{}: {}", self.body, text(&answer)),
        };
        (verdict, reply)
    }

    /// Sends it in one of the ways. All answers are one answer, and one of them at most is the first.
    pub fn send(&self, place: &Place, delivery: Delivery) -> Reply {
        let answers = match delivery {
            Delivery::UntilAnswered => vec![self.ask(place)],
            Delivery::HungUp => {
                self.hang_up(place);
                vec![self.ask(place)]
            }
            Delivery::AtOnce => thread::scope(|scope| {
                let copies: Vec<_> = (0..COPIES).map(|_| scope.spawn(|| self.ask(place))).collect();
                copies.into_iter().map(|copy| copy.join().unwrap()).collect()
            }),
            Delivery::Again => {
                let first = self.ask(place);
                let again = self.ask(place);
                let prior = if first.1.is_committed() { "PriorResult" } else { "PriorError" };
                assert_eq!(again.0, prior, "{again:?}");
                vec![first, again]
            }
        };
        let first = answers[0].1.clone();
        assert!(answers.iter().all(|(_, reply)| *reply == first), "{}: {answers:?}", self.body);
        assert!(answers.iter().filter(|(verdict, _)| verdict == "Fresh").count() <= 1);
        first
    }
}

/// A client that numbers its writes.
pub struct Stream {
    pub client: String,
    /// The last number that was committed.
    pub last: u64,
    attempt: u32,
}

impl Stream {
    pub fn new(client: String) -> Self {
        Self { client, last: 0, attempt: 1 }
    }

    /// The next write.
    pub fn next(&self, operations: &[Value]) -> NamedWrite {
        self.numbered("transactions", "operations", &json!(operations))
    }

    /// The next write, as a batch with a write for each operation.
    pub fn next_batch(&self, operations: &[Value]) -> NamedWrite {
        let writes = operations.iter().map(|operation| json!({ "operations": [operation] }));
        self.numbered("batches", "writes", &writes.collect())
    }

    fn numbered(&self, door: &'static str, field: &str, content: &Value) -> NamedWrite {
        let body = json!({
            "client_id": self.client, "sequence": self.last + 1, "attempt": self.attempt,
            field: content,
        });
        NamedWrite { door, key: None, body: body.to_string() }
    }

    /// The next write was answered.
    pub fn take(&mut self, reply: &Reply) {
        match reply {
            Reply::Committed(_) => self.last += 1,
            Reply::Refused { .. } => self.attempt += 1,
        }
    }

    /// The server's word for it.
    pub fn assert_known(&self, place: &Place) {
        let state = place.json(&format!("{VAULT}/clients/{}", self.client));
        assert_eq!(state["last_committed_sequence"], self.last, "{state}");
        assert_eq!(state["next_attempt"], self.attempt, "{state}");
    }
}
