//! The ledger over HTTP: every status that a transaction can meet, streams, exports.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use indelible_ledger::{ClientId, LastCommitted, Scope, Sequence, VaultName};
use indelible_records::ledger as rows;
use indelible_store::{Batch, embedded};
use indelible_test_store::folder::hand_over;
use serde_json::{Value, json};

use crate::support::export;
use crate::support::process::{Answer, PATIENCE, Server, request};

const VAULT: &str = "/v1/vaults/wallets";

/// A server with a vault.
struct Bench {
    server: Server,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &[]);
        let bench = Self { server, folder };
        assert_eq!(bench.put(VAULT, "{}").status, 201);
        bench
    }

    fn put(&self, path: &str, body: &str) -> Answer {
        let kind = [("content-type", "application/json")];
        request(&self.server.address, "PUT", path, &kind, body.as_bytes()).unwrap()
    }

    fn delete(&self, path: &str) -> Answer {
        request(&self.server.address, "DELETE", path, &[], b"").unwrap()
    }

    fn get(&self, path: &str) -> Answer {
        self.server.get(&format!("{VAULT}{path}"))
    }

    fn send(&self, path: &str, body: &Value) -> Answer {
        self.server.post(&format!("{VAULT}/{path}"), &[], &body.to_string())
    }

    /// A transaction of the client `c`.
    fn write(&self, sequence: u64, attempt: u32, operations: Value) -> Answer {
        self.send("transactions", &numbered(sequence, attempt, operations))
    }

    fn height(&self) -> u64 {
        self.get("/state").json()["height"].as_u64().unwrap()
    }

    fn balance(&self, key: &str) -> Value {
        self.get(&format!("/entities/{key}")).json()["entity"]["is"]["amount"]["quantity"].clone()
    }
}

fn numbered(sequence: u64, attempt: u32, operations: Value) -> Value {
    let mut body = json!({"client_id": "c", "sequence": sequence, "attempt": attempt});
    body["operations"] = operations;
    body
}

fn add(key: &str, delta: i64) -> Value {
    json!([{"add": {"key": key, "delta": delta, "unit": "EUR", "min": 0}}])
}

/// Status, code and verdict.
fn met(answer: &Answer) -> (u16, String, String) {
    let json = answer.json();
    let word = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    (answer.status, word("code"), word("verdict"))
}

#[track_caller]
fn expect(answer: &Answer, status: u16, code: &str, verdict: &str) {
    assert_eq!(
        met(answer),
        (status, code.to_owned(), verdict.to_owned()),
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
}

/// Q-1, Q-4, Q-5, Q-6, Q-10, Q-13, Q-14, Q-15, Q-16, C-8, C-45, C-51: one of everything, with the
/// statuses that a client tells them apart by.
#[test]
fn one_of_everything() {
    let bench = Bench::new();
    // The vault itself.
    let vault = bench.server.get(VAULT).json();
    assert_eq!((&vault["vault"], &vault["height"]), (&json!("wallets"), &json!(0)));
    assert_eq!(bench.server.get("/v1/vaults").json(), json!({"vaults": [vault.clone()]}));
    assert_eq!(bench.put(VAULT, "{}").status, 200);
    expect(&bench.put("/v1/vaults/Wallets", "{}"), 400, "malformed-request", "");
    expect(&bench.server.get("/v1/vaults/none"), 404, "no-such-vault", "");
    // Fresh, and again: the same answer but for the verdict.
    let first = bench.write(1, 1, add("ann", 100));
    expect(&first, 200, "", "Fresh");
    let answer = first.json();
    assert_eq!(answer["results"], json!([{"added": {"version": 1, "balance": "100"}}]));
    assert_eq!(answer["incarnation"], vault["incarnation"]);
    let again = bench.write(1, 1, add("ann", 100));
    expect(&again, 200, "", "PriorResult");
    assert_eq!(done(&again), done(&first));
    // A text and a JSON integer are one amount; other operations are another request.
    let text = json!([{"add": {"key": "ann", "delta": "100", "unit": "EUR", "min": "0"}}]);
    expect(&bench.write(1, 1, text), 200, "", "PriorResult");
    let other = bench.write(1, 1, add("ann", 99));
    expect(&other, 422, "SEQUENCE_MISMATCH", "");
    assert_eq!(other.json()["refusal"]["code_number"], 14);
    // A batch under the number of a single write.
    let batch = |sequence: u64| {
        json!({"client_id": "c", "sequence": sequence, "attempt": 1,
            "writes": [{"operations": add("ann", 1)}, {"operations": add("bob", 2)}]})
    };
    expect(&bench.send("batches", &batch(1)), 422, "SEQUENCE_MISMATCH", "");
    expect(&bench.send("batches", &batch(2)), 200, "", "Fresh");
    let repeated = bench.send("batches", &batch(2));
    expect(&repeated, 200, "ALREADY_COMMITTED", "PriorResult");
    assert_eq!(repeated.json()["code_number"], 5);
    assert_eq!(repeated.json()["results"][1], json!({"added": {"version": 2, "balance": "2"}}));
    // A gap, and what the client asks then.
    let gap = bench.write(4, 1, add("ann", 1));
    expect(&gap, 409, "SEQUENCE_GAP", "");
    let refusal = gap.json()["refusal"].clone();
    assert_eq!(refusal["last_committed_sequence"], 2);
    assert_eq!((&refusal["restored"], &refusal["sequence"]), (&json!(false), &json!(4)));
    let client = bench.get("/clients/c?sequence=1").json();
    assert_eq!(client["last_committed_sequence"], 2);
    assert_eq!((&client["owner"], &client["next_attempt"]), (&json!("system:local"), &json!(2)));
    assert_eq!(client["refused"]["code"], "SEQUENCE_GAP");
    assert_eq!(client["receipt"]["results"], answer["results"]);
    assert_eq!(bench.get("/clients/other").json()["last_committed_sequence"], 0);
    // A condition that does not hold: the first failing operation, and what it met.
    let refused = bench.write(
        3,
        2,
        json!([
            {"get": {"key": "ann"}},
            {"transfer": {"from": "bob", "to": "ann", "quantity": 5, "min": 0}},
        ]),
    );
    expect(&refused, 412, "BELOW_MIN", "Fresh");
    assert_eq!(
        refused.json()["refusal"]["operation"],
        json!({"write": 0, "index": 1, "key": "bob", "current_version": 2,
            "current_value": {"amount": {"quantity": "2", "unit": "EUR"}}})
    );
    let run = json!({"client_id": "c", "attempt": 3, "transactions": [
        {"sequence": 3, "operations": add("ann", 1)},
        {"sequence": 4, "writes": [{"operations": add("bob", 1)},
            {"operations": [{"check": {"key": "ann", "condition": {"version": 1}}}]}]},
        {"sequence": 5, "operations": add("ann", 1)},
    ]});
    let stopped = bench.send("runs", &run);
    expect(&stopped, 412, "VERSION_MISMATCH", "Fresh");
    let refusal = stopped.json()["refusal"].clone();
    assert_eq!(refusal["results"].as_array().unwrap().len(), 1);
    assert_eq!((&refusal["sequence"], &refusal["operation"]["write"]), (&json!(4), &json!(1)));
    assert_eq!(bench.height(), 3);
    let run = json!({"client_id": "c", "attempt": 4, "transactions": [
        {"sequence": 4, "operations": add("ann", 1)}, {"sequence": 5, "operations": add("bob", -3)},
    ]});
    expect(&bench.send("runs", &run), 412, "BELOW_MIN", "Fresh");
    let run = json!({"client_id": "c", "attempt": 5, "transactions": [
        {"sequence": 4, "operations": add("ann", 1)}, {"sequence": 5, "operations": add("bob", -2)},
    ]});
    let whole = bench.send("runs", &run);
    let verdicts = |answer: &Answer| {
        let results = answer.json()["results"].as_array().unwrap().clone();
        results.iter().map(|result| result["verdict"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((whole.status, verdicts(&whole)), (200, vec![json!("PriorResult"), json!("Fresh")]));
    // What is there now, and was.
    assert_eq!((bench.balance("ann"), bench.balance("bob")), (json!("103"), json!("0")));
    let entities = bench.get("/entities").json();
    assert_eq!(
        (&entities["height"], entities["entities"].as_array().unwrap().len()),
        (&json!(5), 2)
    );
    let earlier = bench.get("/entities/bob?at=2").json();
    assert_eq!((&earlier["height"], &earlier["entity"]["version"]), (&json!(2), &json!(2)));
    assert_eq!(bench.get("/entities/none").json()["entity"], Value::Null);
    expect(&bench.get("/entities/bob?at=6"), 404, "not-found", "");
    let history = bench.get("/entities/bob/history?limit=1").json();
    assert_eq!(history["versions"][0]["version"], 5);
    let next = history["next"].as_u64().unwrap();
    let history = bench.get(&format!("/entities/bob/history?before={next}")).json();
    assert_eq!(history["versions"][0]["version"], 2);
    let log = bench.get("/transactions?from=2&limit=1").json();
    assert_eq!((&log["height"], &log["next"]), (&json!(5), &json!(3)));
    assert_eq!(log["transactions"][0]["transaction"]["kind"], "batch");
    assert_eq!(log["transactions"][0], bench.get("/transactions/2").json());
    expect(&bench.get("/transactions/6"), 404, "not-found", "");
    assert_eq!(bench.get("/state?at=1").json()["head"], answer["head"]);
    // Numbers of what was done, by short lists of words.
    let metrics = String::from_utf8(bench.server.get("/metrics").body).unwrap();
    for line in [
        "indelible_ledger_transactions_total{verdict=\"Fresh\",scope=\"vault\"} 5",
        "indelible_ledger_refusals_total{code=\"SEQUENCE_GAP\"} 1",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line}: {metrics}");
    }
    // Deleted: the name is not free at once (C-47).
    let wrong = "00000000-0000-0000-0000-000000000000";
    expect(&bench.delete(&format!("{VAULT}?incarnation={wrong}")), 409, "other-incarnation", "");
    assert!(bench.delete(VAULT).json()["name_free_at"].is_string());
    expect(&bench.server.get(VAULT), 404, "no-such-vault", "");
    expect(&bench.put(VAULT, "{}"), 409, "vault-name-taken", "");
    let actions = bench.server.get("/v1/audit").json();
    let actions: Vec<_> = actions["entries"].as_array().unwrap().iter().collect();
    assert!(actions.iter().all(|entry| entry["actor"] == "system:local"), "{actions:?}");
}

/// C-42: a late copy of what was refused is never applied: it meets its own refusal again, or the
/// attempt that was refused after it.
#[test]
fn late_copies_of_refused_writes() {
    let bench = Bench::new();
    expect(&bench.write(7, 1, add("ann", 5)), 409, "SEQUENCE_GAP", "");
    expect(&bench.write(1, 2, add("ann", 5)), 200, "", "Fresh");
    // The same copy again, although its number may be the next one by then.
    expect(&bench.write(7, 1, add("ann", 5)), 409, "SEQUENCE_GAP", "PriorError");
    let stale = bench.write(2, 1, add("ann", 5));
    expect(&stale, 409, "STALE_ATTEMPT", "");
    let refused = &stale.json()["refusal"]["refused"];
    assert_eq!((&refused["attempt"], &refused["sequence"]), (&json!(1), &json!(7)));
    assert_eq!(refused["code"], "SEQUENCE_GAP");
    assert_eq!((bench.balance("ann"), bench.height()), (json!("5"), 1));
    // A refusal outlives the process that gave it.
    expect(&bench.write(2, 2, add("ann", -6)), 412, "BELOW_MIN", "Fresh");
    let Bench { server, folder } = bench;
    server.kill();
    let bench = Bench { server: Server::start(folder.path(), &[]), folder };
    expect(&bench.write(2, 2, add("ann", -6)), 412, "BELOW_MIN", "PriorError");
    expect(&bench.write(2, 2, add("ann", 1)), 409, "STALE_ATTEMPT", "");
    expect(&bench.write(2, 3, add("ann", 1)), 200, "", "Fresh");
}

/// V-37, I-12, C-5: a name in a header is used up by the first request under it, refused or not; and
/// what a transaction starts is found by its operation id.
#[test]
fn transactions_under_a_name() {
    let bench = Bench::new();
    bench.server.deploy("bench", "bench");
    let path = format!("{VAULT}/transactions");
    let send = |header: (&str, &str), operations: Value| {
        bench.server.post(&path, &[header], &json!({ "operations": operations }).to_string())
    };
    let key = |name| ("idempotency-key", name);
    let start = json!([{"start": {"function": "bench/echo",
        "input": {"codec": "json", "value": {"paid": true}}}}]);
    let started = send(key("a"), start.clone());
    expect(&started, 200, "", "Fresh");
    assert_eq!(started.header("indelible-verdict"), Some("Fresh"));
    expect(&send(key("a"), start), 200, "", "PriorResult");
    expect(&send(key("a"), add("ann", 1)), 422, "mismatch", "");
    let operation = started.json()["results"][0]["started"]["operation_id"].clone();
    let operation = operation.as_str().unwrap();
    assert_eq!(bench.server.get(&format!("/v1/operations/{operation}")).status, 200);
    let outcome = bench.server.get(&format!("/v1/operations/{operation}/outcome"));
    assert_eq!((outcome.status, &outcome.json()["result"]), (200, &json!({"paid": true})));
    // A refusal uses the key up.
    expect(&send(key("b"), add("ann", -1)), 412, "BELOW_MIN", "Fresh");
    expect(&send(key("c"), add("ann", 9)), 200, "", "Fresh");
    expect(&send(key("b"), add("ann", -1)), 412, "BELOW_MIN", "PriorError");
    let id = |digits: &str| format!("{digits}-8694-739b-aea5-966c26f8ad91");
    let old = id("0190163d");
    expect(&send(("indelible-operation-id", &old), add("ann", 1)), 410, "expired", "");
    let far = id("ffffffff");
    let future = send(("indelible-operation-id", &far), add("ann", 1));
    expect(&future, 400, "operation-id-from-the-future", "");
    // What is refused before it is looked at uses nothing up.
    for (function, status, code) in
        [("none/echo", 404, "no-such-component"), ("bench/none", 404, "no-such-function")]
    {
        let input = json!({"codec": "json", "value": 1});
        let start = json!([{"start": {"function": function, "input": input}}]);
        expect(&send(key("d"), start), status, code, "");
    }
    expect(&send(key("d"), add("ann", 1)), 200, "", "Fresh");
    assert_eq!(bench.height(), 3);
}

/// Q-18, C-43: what is malformed, oversized or unknown is refused with 400 and uses nothing up.
#[test]
fn requests_are_read_strictly() {
    let bench = Bench::new();
    let get = json!([{"get": {"key": "a"}}]);
    let with = |name: &str, value: Value| {
        let mut body = numbered(1, 1, get.clone());
        body[name] = value;
        body
    };
    let large = "1".repeat((1 << 20) + 1);
    let set = |value: Value| json!([{"set": {"key": "a", "to": {"value": value}}}]);
    for body in [
        with("sequence", json!(0)),
        with("sequence", json!(-1)),
        with("sequence", json!(1.5)),
        with("sequence", json!("1")),
        with("sequence", Value::Null),
        with("client_id", json!("")),
        with("client_id", json!(" ")),
        with("client_id", json!("a\nb")),
        with("client_id", json!("c".repeat(256))),
        with("client_id", Value::Null),
        with("attempt", json!(0)),
        with("actor", json!("user:root")),
        with("timestamp", json!("2026-01-01T00:00:00Z")),
        with("incarnation", json!("x")),
        with("operations", json!([])),
        with("operations", json!([{"get": {"key": "k".repeat(1_025)}}])),
        with("operations", json!([{"get": {"key": "a", "x": 1}}])),
        with("operations", json!([{"lock": {"key": "a"}}])),
        with("operations", json!(vec![get[0].clone(); 1_001])),
        with("operations", set(json!({"codec": "text", "text": large}))),
        with("operations", set(json!({"codec": "raw"}))),
        with("operations", add("a", 1)[0].clone()),
        with("operations", json!([{"transfer": {"from": "a", "to": "a", "quantity": 1}}])),
        with("operations", json!([{"transfer": {"from": "a", "to": "b", "quantity": 0}}])),
        json!({ "operations": get }),
        json!([get]),
    ] {
        let refused = bench.send("transactions", &body);
        expect(&refused, 400, "malformed-request", "");
    }
    let path = format!("{VAULT}/transactions");
    let body = numbered(1, 1, get.clone()).to_string();
    let alone = json!({ "operations": get, "attempt": 1 }).to_string();
    let id = "0190163d-8694-739b-aea5-966c26f8ad91";
    for (headers, body, code) in [
        (&[("idempotency-key", "k")][..], &body, "malformed-request"),
        (&[("indelible-operation-id", id)], &body, "malformed-request"),
        (&[("idempotency-key", "k")], &alone, "malformed-request"),
        (&[("indelible-operation-id", "order-1")], &alone, "malformed-request"),
        (
            &[("idempotency-key", "k"), ("indelible-operation-id", id)],
            &alone,
            "key-and-operation-id",
        ),
    ] {
        expect(&bench.server.post(&path, headers, body), 400, code, "");
    }
    let write = json!({"operations": get});
    let run = |second: Value| json!({"client_id": "c", "transactions": [{"sequence": 1, "operations": get}, second]});
    for (path, body) in [
        ("batches", json!({"client_id": "c", "sequence": 1, "writes": []})),
        ("batches", json!({"client_id": "c", "sequence": 0, "writes": [write]})),
        ("batches", json!({"client_id": "c", "sequence": 1, "operations": get})),
        ("runs", json!({"client_id": "c", "transactions": []})),
        ("runs", run(json!({"sequence": 3, "operations": get}))),
        ("runs", run(json!({"sequence": 2}))),
        ("runs", run(json!({"sequence": 2, "operations": get, "writes": [write]}))),
        ("runs", run(json!({"sequence": 2, "operations": get, "attempt": 1}))),
        ("runs", json!({"client_id": "", "transactions": [{"sequence": 1, "operations": get}]})),
    ] {
        expect(&bench.send(path, &body), 400, "malformed-request", "");
    }
    for path in [
        "/entities?at=x",
        "/entities?limit=0",
        "/entities?after=",
        "/entities/%20",
        "/entities/a?at=-1",
        "/clients/c?sequence=0",
        "/transactions/0",
        "/transactions/01",
        "/events?incarnation=x",
        "/state?x=1",
    ] {
        expect(&bench.get(path), 400, "malformed-request", "");
    }
    assert_eq!(bench.get("/clients/c").json()["last_committed_sequence"], 0);
    expect(&bench.write(1, 1, get), 200, "", "Fresh");
}

/// C-49: a number past the last one is told from a malformed one; at the end of a stream it meets the
/// end, and what was committed is still answered.
#[test]
fn the_end_of_a_stream() {
    let bench = Bench::new();
    let path = format!("{VAULT}/transactions");
    let write = |bench: &Bench, number: &str, delta: i64| {
        let body = numbered(0, 9, add("ann", delta)).to_string();
        let body = body.replace("\"sequence\":0", &format!("\"sequence\":{number}"));
        bench.server.post(&path, &[], &body)
    };
    let send = |bench: &Bench, number: &str| write(bench, number, 1);
    let beyond = ["18446744073709551616", &"9".repeat(50)];
    for number in beyond {
        let gap = send(&bench, number);
        expect(&gap, 409, "SEQUENCE_GAP", "");
        assert_eq!(gap.json()["refusal"]["last_committed_sequence"], 0);
    }
    expect(&bench.write(1, 1, add("ann", 1)), 200, "", "Fresh");
    let Bench { server, folder } = bench;
    server.stop();
    raise_to_the_last(folder.path());
    let bench = Bench { server: Server::start(folder.path(), &[]), folder };
    let last = u64::MAX.to_string();
    for number in beyond {
        expect(&send(&bench, number), 409, "SEQUENCE_EXHAUSTED", "");
    }
    expect(&send(&bench, &last), 200, "ALREADY_COMMITTED", "PriorResult");
    expect(&write(&bench, &last, 2), 422, "SEQUENCE_MISMATCH", "");
    let run = format!(
        r#"{{"client_id":"c","transactions":[{{"sequence":1,"operations":{}}}]}}"#,
        add("ann", 1)
    );
    let again = bench.server.post(&format!("{VAULT}/runs"), &[], &run);
    assert_eq!(
        (again.status, &again.json()["results"][0]["verdict"]),
        (200, &json!("PriorResult"))
    );
    assert_eq!(bench.height(), 1);
}

/// No stream gets to its last number by writing.
fn raise_to_the_last(data: &Path) {
    let folder = data.join("store");
    let options = embedded::Options::default();
    let store = embedded::open(&folder, &indelible_records::TABLES, &options).unwrap();
    let vault = Some(VaultName::new("wallets").unwrap());
    let scope = Scope { namespace: "default".parse().unwrap(), vault };
    let Some(rows::ScopeRow::Live(live)) = rows::scope(&store, &scope).unwrap().value else {
        panic!("the vault is there")
    };
    let incarnation = live.vault.incarnation();
    let client = ClientId::new("c").unwrap();
    let mut stream = rows::stream(&store, incarnation, &client).unwrap().value.unwrap();
    let last = stream.last.unwrap();
    stream.last = Some(LastCommitted { sequence: Sequence::MAX, ..last });
    let mut batch = Batch::new();
    rows::put_stream(&mut batch, incarnation, &client, &stream);
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    hand_over(store, &folder);
}

/// What was done, without whether it was done now.
fn done(answer: &Answer) -> Value {
    let mut json = answer.json();
    for name in ["verdict", "code", "code_number"] {
        json.as_object_mut().unwrap().remove(name);
    }
    json
}

/// Q-12, C-50: 64 copies of one number at once are one transaction, and 64 equal answers.
#[test]
fn copies_of_one_number() {
    const COPIES: usize = 64;
    let bench = Bench::new();
    for sequence in 1..=3 {
        let start = Barrier::new(COPIES);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let send = || {
                start.wait();
                bench.write(sequence, 1, add("ann", 1))
            };
            let copies: Vec<_> = (0..COPIES).map(|_| scope.spawn(send)).collect();
            copies.into_iter().map(|copy| copy.join().unwrap()).collect()
        });
        let fresh = answers.iter().filter(|answer| answer.json()["verdict"] == "Fresh").count();
        assert_eq!(fresh, 1);
        for answer in &answers {
            assert_eq!(answer.status, 200);
            assert_eq!(done(answer), done(&answers[0]));
        }
        assert_eq!((bench.height(), bench.balance("ann")), (sequence, json!(sequence.to_string())));
    }
}

/// Pages are bounded by bytes, too, and lead to everything; and a height is found in the history of a
/// key that changed thousands of times.
#[test]
fn pages_of_large_and_of_restless_entities() {
    let bench = Bench::new();
    for first in [1, 1_001, 2_001] {
        let run: Vec<_> = (first..first + 1_000)
            .map(|sequence| json!({"sequence": sequence, "operations": add("ann", 1)}))
            .collect();
        let run = json!({"client_id": "c", "transactions": run});
        assert_eq!(bench.send("runs", &run).status, 200);
    }
    let then = bench.get("/entities?at=2500").json();
    assert_eq!(then["entities"][0]["entity"]["version"], 2_500);
    let text = "x".repeat(1 << 20);
    for number in 0..24_u64 {
        let value = json!({"codec": "text", "text": text});
        let set = json!([{"set": {"key": format!("k{number:02}"), "to": {"value": value}}}]);
        assert_eq!(bench.write(3_001 + number, 1, set).status, 200);
    }
    for at in ["", "&at=3024"] {
        let (mut keys, mut pages, mut after) = (Vec::new(), 0, String::new());
        loop {
            let page = bench.get(&format!("/entities?prefix=k&limit=500{at}{after}"));
            assert!(page.body.len() < 24 << 20, "{}", page.body.len());
            let page = page.json();
            let entities = page["entities"].as_array().unwrap();
            keys.extend(entities.iter().map(|entity| entity["key"].as_str().unwrap().to_owned()));
            pages += 1;
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert!(keys.len() == 24 && keys.is_sorted() && pages > 1, "{pages}: {keys:?}");
    }
}

/// A stream of events that is read as it comes.
struct Events {
    stream: BufReader<TcpStream>,
    text: String,
}

impl Events {
    fn open(server: &Server, query: &str, last: Option<u64>) -> Self {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let last = last.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
        let host = &server.address;
        write!(stream, "GET {VAULT}/events{query} HTTP/1.1\r\nhost: {host}\r\n{last}\r\n").unwrap();
        let mut events = Self { stream: BufReader::new(stream), text: String::new() };
        assert_eq!(events.line(), "HTTP/1.1 200 OK");
        while !events.line().is_empty() {}
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next message; a comment is passed over.
    fn next(&mut self) -> (u64, Value) {
        loop {
            if let Some((message, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
                let found = field("id: ").map(|id| {
                    let data = field("data: ").unwrap_or("null");
                    (id.parse().unwrap(), serde_json::from_str(data).unwrap())
                });
                self.text = rest.to_owned();
                if let Some(found) = found {
                    return found;
                }
                continue;
            }
            let size = usize::from_str_radix(&self.line(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).unwrap();
            assert!(size > 0, "the stream ended");
            self.text.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        }
    }
}

/// Each transaction comes once and in order, however often the stream is resumed; and a stream that
/// begins with what comes next says where that is.
#[test]
fn a_stream_of_a_vault_is_resumed() {
    const TRANSACTIONS: u64 = 40;
    let bench = Bench::new();
    bench.write(1, 1, add("ann", 1));
    let mut next = Events::open(&bench.server, "", None);
    assert_eq!(next.next(), (1, Value::Null));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for sequence in 2..=TRANSACTIONS {
                assert_eq!(bench.write(sequence, 1, add("ann", 1)).status, 200);
            }
        });
        let mut seen = 0;
        let mut events = Events::open(&bench.server, "?from=1", None);
        while seen < TRANSACTIONS {
            let (id, data) = events.next();
            assert_eq!(id, seen + 1);
            assert_eq!(data["transaction"]["height"], id);
            assert_eq!(data["results"][0]["added"]["balance"], id.to_string());
            seen = id;
            if seen % 7 == 0 {
                events = Events::open(&bench.server, "", Some(seen));
            }
        }
        for height in 2..=TRANSACTIONS {
            assert_eq!(next.next().0, height);
        }
    });
    let ahead = [("last-event-id", "41")];
    let path = format!("{VAULT}/events");
    let ahead = request(&bench.server.address, "GET", &path, &ahead, b"").unwrap();
    expect(&ahead, 404, "not-found", "");
}

/// An export is whole, and proves itself; that of the namespace's own ledger too.
#[test]
fn an_export_verifies() {
    let bench = Bench::new();
    for sequence in 1..=300 {
        let value = json!({"codec": "json", "value": {"n": sequence}});
        let set = json!([{"set": {"key": format!("k{}", sequence % 9), "to": {"value": value}}}]);
        assert_eq!(bench.write(sequence, 1, set).status, 200);
    }
    let one = numbered(1, 1, add("ann", 1)).to_string();
    assert_eq!(bench.server.post("/v1/ledger/transactions", &[], &one).status, 200);
    for (base, height) in [(VAULT, 300), ("/v1/ledger", 1)] {
        let verified = export::verified(&bench.server.address, base);
        assert_eq!(verified.height.get(), height);
    }
    expect(&bench.server.get("/v1/ledger/export?namespace=other"), 404, "no-such-vault", "");
}

/// Makes an API key in a data folder, and returns what is sent as `Authorization`.
fn key(data: &Path, name: &str, roles: &[&str], namespace: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(["token", "create", name, "--namespace", namespace, "--json", "--data"]).arg(data);
    command.args(roles.iter().flat_map(|role| ["--role", role]));
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    format!("Bearer {}", made["secret"].as_str().unwrap())
}

/// Q-18, Q-21, C-46: a client id is its first writer's. Others can neither use it nor ask about it,
/// until an operator hands it over; the log and the audit record have the names of the keys.
#[test]
fn a_client_id_has_an_owner() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let admin = key(data, "admin", &["admin"], "*");
    let ann = key(data, "ann", &["write"], "shop");
    let bob = key(data, "bob", &["write"], "shop");
    let reader = key(data, "reader", &["read"], "shop");
    let operator = key(data, "operator", &["operate"], "shop");
    let stranger = key(data, "stranger", &["write", "operate"], "bank");
    let server = Server::start(data, &["--keys"]);
    let ask = |by: &str, method: &str, path: &str, body: &str| {
        let path = format!("{VAULT}{path}?namespace=shop");
        let headers = [("authorization", by), ("content-type", "application/json")];
        let headers = if body.is_empty() { &headers[..1] } else { &headers[..] };
        request(&server.address, method, &path, headers, body.as_bytes()).unwrap()
    };
    let write = |by: &str, sequence: u64| {
        let body = numbered(sequence, 1, add("till", 1));
        ask(by, "POST", "/transactions", &body.to_string())
    };
    expect(&ask(&ann, "PUT", "", "{}"), 403, "forbidden", "");
    assert_eq!(ask(&operator, "PUT", "", "{}").status, 201);
    expect(&write(&reader, 1), 403, "forbidden", "");
    expect(&write(&operator, 1), 403, "forbidden", "");
    expect(&write(&stranger, 1), 403, "forbidden", "");
    expect(&write(&ann, 1), 200, "", "Fresh");
    // Foreign: a repetition and what is next alike.
    for sequence in [1, 2, 9] {
        expect(&write(&bob, sequence), 403, "foreign-client", "");
    }
    expect(&ask(&bob, "GET", "/clients/c", ""), 403, "foreign-client", "");
    expect(&ask(&reader, "GET", "/clients/c", ""), 403, "foreign-client", "");
    assert_eq!(ask(&operator, "GET", "/clients/c", "").json()["owner"], "client:ann");
    let wide = numbered(0, 1, add("till", 1)).to_string();
    let wide = wide.replace("\"sequence\":0", "\"sequence\":18446744073709551616");
    expect(&ask(&bob, "POST", "/transactions", &wide), 403, "foreign-client", "");
    let hand = |by: &str, owner: &str| {
        let body = json!({"owner": owner, "reason": "the till has a new key"});
        ask(by, "PUT", "/clients/c/owner", &body.to_string())
    };
    expect(&hand(&ann, "client:bob"), 403, "forbidden", "");
    expect(&hand(&operator, "bob"), 400, "malformed-request", "");
    assert_eq!(hand(&operator, "client:bob").status, 200);
    expect(&write(&ann, 2), 403, "foreign-client", "");
    expect(&write(&bob, 2), 200, "", "Fresh");
    let log = ask(&reader, "GET", "/transactions", "").json();
    let actors: Vec<_> = log["transactions"].as_array().unwrap().iter().collect();
    let actors: Vec<_> = actors.iter().map(|entry| &entry["transaction"]["actor"]).collect();
    assert_eq!(actors, [&json!("client:ann"), &json!("client:bob")]);
    // Who handed it over, and why.
    let audit = request(&server.address, "GET", "/v1/audit", &[("authorization", &admin)], b"");
    let audit = audit.unwrap().json();
    let mut entries = audit["entries"].as_array().unwrap().iter();
    let entry = entries.find(|entry| entry["reason"] == "the till has a new key").unwrap();
    assert_eq!(entry["actor"], "client:operator");
}
