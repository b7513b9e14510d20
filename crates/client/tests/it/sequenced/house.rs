//! An honest ledger behind a network that lies: it loses requests and answers, doubles requests, and
//! keeps copies back until later.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use indelible_client::api::ledger::{Transact, TransactBatch, TransactRun};
use indelible_client::{Client, Ledger, OpenSequenced};
use indelible_journal::{Namespace, Timestamp};
use indelible_ledger::{
    Actor, Answer, Attempt, ClientId, Content, Context, Entity, EntityKey, Incarnation, Limits,
    Origin, Reads, Receipt, Request, RestoreCount, Run, Scope, Sequence, SequenceReads, Stream,
    StreamRefusal, TransactionId, Vault, VaultName, json, write,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::support::{Act, Seen, answer, quick, raw, read};

pub(crate) const CLIENT: &str = "till-1";

/// What becomes of a request on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives, and its answer does.
    Serve,
    /// It is lost.
    LoseRequest,
    /// It arrives, and its answer is lost.
    LoseAnswer,
    /// It arrives twice.
    Double,
    /// It is kept back.
    Delay,
    /// What was kept back arrives first.
    LateFirst,
    /// What was kept back arrives afterwards.
    LateLast,
}

impl Fate {
    pub(crate) const ALL: [Self; 7] = [
        Self::Serve,
        Self::LoseRequest,
        Self::LoseAnswer,
        Self::Double,
        Self::Delay,
        Self::LateFirst,
        Self::LateLast,
    ];
}

/// Everything that the server stores, and the network's plans.
pub(crate) struct World {
    pub(crate) vault: Vault,
    pub(crate) entities: BTreeMap<EntityKey, Entity>,
    pub(crate) streams: BTreeMap<ClientId, Stream>,
    receipts: BTreeMap<(ClientId, Sequence), Arc<Receipt>>,
    pub(crate) restores: u64,
    pub(crate) incarnation: Incarnation,
    pub(crate) transactions: u64,
    /// Of the next requests; later ones are served.
    pub(crate) fates: VecDeque<Fate>,
    /// Answers that take the place of the server's, one for each request.
    pub(crate) lies: VecDeque<Act>,
    delayed: Vec<Seen>,
    pub(crate) seen: Vec<Seen>,
    /// Called with each request that changes something, as it arrives.
    pub(crate) on_arrival: Option<OnArrival>,
}

type OnArrival = Box<dyn Fn(&Seen) + Send>;

pub(crate) struct House {
    address: SocketAddr,
    world: Arc<Mutex<World>>,
}

impl House {
    pub(crate) async fn new() -> Self {
        let incarnation = Incarnation::from_bytes([7; 16]);
        let vault = Some(VaultName::new("wallets").unwrap());
        let scope = Scope { namespace: Namespace::new("shop").unwrap(), vault };
        let world = Arc::new(Mutex::new(World {
            vault: Vault::new(&scope, incarnation),
            entities: BTreeMap::new(),
            streams: BTreeMap::new(),
            receipts: BTreeMap::new(),
            restores: 0,
            incarnation,
            transactions: 0,
            fates: VecDeque::new(),
            lies: VecDeque::new(),
            delayed: Vec::new(),
            seen: Vec::new(),
            on_arrival: None,
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serves = Arc::clone(&world);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                // A client that is killed leaves half a request.
                let Some(request) = read(&mut stream).await else { continue };
                let act = serves.lock().unwrap().arrive(request);
                if let Act::Write(bytes) = act {
                    _ = stream.write_all(&bytes).await;
                    _ = stream.shutdown().await;
                }
            }
        });
        Self { address, world }
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(crate) fn ledger_address(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn client(&self) -> Client {
        let builder = Client::builder(self.ledger_address()).retries(quick());
        builder.namespace("shop").build().unwrap()
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.client().vault("wallets")
    }

    /// A writer with a file in this folder.
    pub(crate) fn writer(&self, folder: &std::path::Path) -> OpenSequenced {
        self.ledger().sequenced(CLIENT, folder.join("till-1.state"))
    }
}

impl World {
    fn arrive(&mut self, request: Seen) -> Act {
        if request.method == "GET" {
            return self.state();
        }
        self.seen.push(request.clone());
        if let Some(on_arrival) = &self.on_arrival {
            on_arrival(&request);
        }
        if let Some(lie) = self.lies.pop_front() {
            return lie;
        }
        match self.fates.pop_front().unwrap_or(Fate::Serve) {
            Fate::Serve => self.write(&request),
            Fate::LoseRequest => Act::DropAfter,
            Fate::LoseAnswer => {
                self.write(&request);
                Act::DropAfter
            }
            Fate::Double => {
                self.write(&request);
                self.write(&request)
            }
            Fate::Delay => {
                self.delayed.push(request);
                Act::DropAfter
            }
            Fate::LateFirst => {
                self.late();
                self.write(&request)
            }
            Fate::LateLast => {
                let act = self.write(&request);
                self.late();
                act
            }
        }
    }

    /// What was kept back arrives.
    fn late(&mut self) {
        for request in std::mem::take(&mut self.delayed) {
            self.write(&request);
        }
    }

    /// Everything that was ever sent arrives once more, in the order in which it was sent, and then
    /// the other way round.
    pub(crate) fn echo(&mut self) {
        let all = self.seen.clone();
        for request in all.iter().chain(all.iter().rev()) {
            self.write(request);
        }
    }

    pub(crate) fn stream(&mut self) -> &mut Stream {
        self.streams.get_mut(&ClientId::new(CLIENT).unwrap()).unwrap()
    }

    pub(crate) fn last(&self) -> u64 {
        self.streams.get(&ClientId::new(CLIENT).unwrap()).map_or(0, Stream::last_sequence)
    }

    pub(crate) fn balance(&self, key: &str) -> i128 {
        match self.entities.get(&EntityKey::new(key).unwrap()).map(|entity| &entity.content) {
            Some(Content::Amount(amount)) => amount.quantity,
            _ => 0,
        }
    }

    fn state(&self) -> Act {
        let stream = self.streams.get(&ClientId::new(CLIENT).unwrap());
        let next = stream.map_or(Some(Attempt::FIRST), Stream::next_attempt).map(Attempt::get);
        let mut state = json!({
            "client_id": CLIENT, "incarnation": self.incarnation.to_string(),
            "restores": self.restores, "last_committed_sequence": self.last(), "next_attempt": next,
        });
        if let Some(stream) = stream {
            state["owner"] = json!(stream.owner.to_string());
        }
        answer(200, &state)
    }

    fn write(&mut self, request: &Seen) -> Act {
        let (run, pinned) = run(request);
        if pinned.is_some_and(|pinned| pinned.0 != self.incarnation) {
            return refused(409, "other-incarnation", None);
        }
        let is_run = request.target.contains("/runs");
        let answers = self.apply(run);
        let mut results = Vec::new();
        for reply in answers {
            let committed = |receipt: &Receipt, verdict: &str| {
                json!({
                    "verdict": verdict, "transaction": receipt.success.transaction.to_string(),
                    "height": receipt.success.height.get(), "results": [],
                    "incarnation": self.incarnation.to_string(), "restores": self.restores,
                })
            };
            let (status, refusal) = match &reply {
                Answer::Fresh(receipt) => {
                    results.push(committed(receipt, "Fresh"));
                    continue;
                }
                Answer::PriorResult(receipt)
                | Answer::AlreadyCommitted(indelible_ledger::Prior::Receipt(receipt)) => {
                    results.push(committed(receipt, "PriorResult"));
                    continue;
                }
                Answer::Refused(_) => (412, json!({})),
                Answer::Gap(gap) => (409, json!({"restored": gap.restored})),
                Answer::Stale(refused) => (409, stale(refused.attempt.get())),
                Answer::RefusedBefore(refused) => match &refused.refusal {
                    StreamRefusal::Condition(_) => (412, json!({})),
                    StreamRefusal::Gap(gap) => (409, json!({"restored": gap.restored})),
                    StreamRefusal::Mismatch => (422, json!({})),
                },
                Answer::Mismatch => (422, json!({})),
                Answer::Exhausted => (409, json!({})),
                Answer::Foreign => return refused(403, "foreign-client", None),
                other @ Answer::AlreadyCommitted(_) => panic!("all receipts are kept: {other:?}"),
            };
            let mut refusal = refusal;
            let code = reply.code().unwrap();
            refusal["code_number"] = json!(code.number());
            if is_run {
                refusal["results"] = json!(results);
            }
            return refused(status, code.as_str(), Some(refusal));
        }
        match is_run {
            true => answer(200, &json!({ "results": results })),
            false => answer(200, &results[0]),
        }
    }

    fn apply(&mut self, run: Run) -> Vec<Answer> {
        let (actor, limits) = (Actor::new("client:app"), Limits::DEFAULT);
        let of = run.client().clone();
        let mut stream = self.streams.get(&of).cloned();
        let mut ids = self.transactions;
        let mint = || {
            ids += 1;
            TransactionId::from_bytes(u128::from(ids).to_be_bytes())
        };
        let now = Timestamp::from_micros(1_000_000).unwrap();
        let restores = RestoreCount::new(self.restores);
        let context = Context { now, actor: &actor, restores, limits: &limits };
        let mut vault = self.vault.clone();
        let mut stored =
            Stored { entities: &self.entities, receipts: &self.receipts, client: of.clone() };
        let written = write(&mut vault, &mut stream, run, mint, &context, &mut stored).unwrap();
        self.vault = vault;
        for applied in &written.applied {
            self.transactions += 1;
            for change in &applied.changes {
                let after = change.after.clone().expect("nothing is deleted here");
                self.entities.insert(change.key.clone(), after);
            }
            let Origin::Client { sequence, .. } = applied.record.transaction.origin else {
                panic!("a client's number");
            };
            self.receipts.insert((of.clone(), sequence), applied.receipt.clone());
        }
        if let Some(stream) = stream {
            self.streams.insert(of, stream);
        }
        written.answers
    }
}

struct Stored<'a> {
    entities: &'a BTreeMap<EntityKey, Entity>,
    receipts: &'a BTreeMap<(ClientId, Sequence), Arc<Receipt>>,
    client: ClientId,
}

impl Reads for Stored<'_> {
    type Error = Infallible;

    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, Infallible> {
        Ok(self.entities.get(key).cloned())
    }
}

impl SequenceReads for Stored<'_> {
    fn cached(&mut self, _: Sequence) -> Option<Arc<Receipt>> {
        None
    }

    fn receipt(&mut self, sequence: Sequence) -> Result<Option<Arc<Receipt>>, Infallible> {
        Ok(self.receipts.get(&(self.client.clone(), sequence)).cloned())
    }
}

/// The body as the server reads it.
fn run(request: &Seen) -> (Run, Option<json::Text<Incarnation>>) {
    let limits = Limits::DEFAULT;
    let single = |operations: Vec<json::Operation>| {
        let operations = operations.into_iter().map(|operation| operation.read().unwrap());
        Request::single(operations.collect(), &limits).unwrap()
    };
    let batch = |writes: Vec<indelible_client::api::ledger::Write>| {
        let read = |operations: Vec<json::Operation>| {
            operations.into_iter().map(|operation| operation.read().unwrap()).collect()
        };
        let writes = writes.into_iter().map(|write| read(write.operations)).collect();
        Request::batch(writes, &limits).unwrap()
    };
    let number = |number: indelible_client::api::ledger::SequenceNumber| {
        Sequence::from_wide(number.0).unwrap()
    };
    let tried = |attempt: Option<u32>| attempt.map(|attempt| Attempt::new(attempt).unwrap());
    let body = request.body.as_str();
    match request.target.rsplit_once('/').unwrap().1.split('?').next().unwrap() {
        "transactions" => {
            let one: Transact = serde_json::from_str(body).unwrap();
            let (client, sequence) = (one.client_id.unwrap().0, number(one.sequence.unwrap()));
            let request = single(one.operations);
            (Run::one(client, sequence, tried(one.attempt), request), one.incarnation)
        }
        "batches" => {
            let one: TransactBatch = serde_json::from_str(body).unwrap();
            let request = batch(one.writes);
            let run = Run::one(one.client_id.0, number(one.sequence), tried(one.attempt), request);
            (run, one.incarnation)
        }
        "runs" => {
            let run: TransactRun = serde_json::from_str(body).unwrap();
            let writes = run.transactions.into_iter().map(|one| {
                let request = match (one.operations, one.writes) {
                    (Some(operations), None) => single(operations),
                    (None, Some(writes)) => batch(writes),
                    both => panic!("{both:?}"),
                };
                (number(one.sequence), request)
            });
            let read =
                Run::new(run.client_id.0, tried(run.attempt), writes.collect(), &limits).unwrap();
            (read, run.incarnation)
        }
        other => panic!("{other}"),
    }
}

fn stale(attempt: u32) -> Value {
    json!({"refused": {
        "attempt": attempt, "sequence": 1, "request_hash": "", "code": "", "code_number": 1,
    }})
}

/// A problem document.
pub(crate) fn refused(status: u16, code: &str, refusal: Option<Value>) -> Act {
    let mut problem = json!({
        "type": "", "title": "", "status": status, "code": code, "detail": "because",
        "retryable": false,
    });
    if let Some(refusal) = refusal {
        problem["refusal"] = refusal;
    }
    raw(status, "content-type: application/problem+json\r\n", &problem.to_string())
}
