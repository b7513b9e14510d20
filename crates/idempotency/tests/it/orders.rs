//! The example of the README, run as a process of its own against a real PostgreSQL, and killed.
#![expect(clippy::disallowed_methods, reason = "a test reads the source tree and starts programs")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use indelible_postgres_fixture::shared;
use indelible_test_support::example;

fn source(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("it is there")
}

/// The README shows the example to the letter.
#[test]
fn the_readme_has_the_example() {
    let (readme, example) = (source("README.md"), source("examples/orders.rs"));
    assert!(readme.contains(&format!("```rust,no_run\n{example}```")), "copy it over");
}

/// A running shop, killed when it goes.
struct Shop {
    process: Child,
    address: String,
}

impl Shop {
    fn open(url: &str) -> Self {
        let mut process = Command::new(example("orders"))
            .arg(url)
            .stdout(Stdio::piped())
            .spawn()
            .expect("`cargo build -p indelible-idempotency --examples` builds it");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().trim_start_matches("http://").trim_end_matches("/orders");
        Self { address: address.to_owned(), process }
    }

    /// Status, headers and body of the answer.
    fn post(&self, key: Option<&str>, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        write!(
            stream,
            "POST /orders HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n{key}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("an answer has a status"), head.to_lowercase(), body.to_owned())
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it was started here");
    }
}

/// I-11, I-12, I-13, I-22: what the README says of the example is so, a kill included.
#[test]
fn the_example_places_each_order_once() {
    let database = shared().create_database("orders");
    let sql = |text: &str| shared().sql(&database, text).expect("it is SQL").trim().to_owned();
    let shop = Shop::open(&shared().url(&database));
    let order = r#"{"item":"glass","cents":500}"#;

    assert_eq!(shop.post(None, order).0, 400);
    assert_eq!(shop.post(Some(" "), order).0, 400);
    let (status, _, first) = shop.post(Some("o-1"), order);
    assert_eq!((status, first.as_str()), (201, r#"{"kind":"Created","result":{"number":1}}"#));
    // Written otherwise, it is the same order.
    let (status, _, again) = shop.post(Some("o-1"), r#"{ "cents": 500, "item": "glass" }"#);
    assert_eq!((status, again.as_str()), (201, r#"{"kind":"PreExisting","result":{"number":1}}"#));
    let (status, _, other) = shop.post(Some("o-1"), r#"{"item":"glass","cents":501}"#);
    assert_eq!((status, other.as_str()), (422, r#"{"kind":"Mismatch"}"#));
    assert_eq!(sql("SELECT count(*) FROM orders"), "1");

    // Another request holds the key in a transaction that is not over: the answer comes at once.
    sql("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END'");
    sql("CREATE TRIGGER slow BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION slow()");
    let gate = Gate::closed(&database);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| shop.post(Some("o-2"), order));
        gate.somebody_waits();
        let (status, head, second) = shop.post(Some("o-2"), order);
        assert_eq!(status, 409, "{second}");
        assert!(head.contains("retry-after: 1"), "{head}");
        gate.open();
        assert_eq!(waiting.join().expect("it was answered").0, 201);
    });

    // Killed while it is about to place an order: nothing of it is left, and the key is fresh.
    let gate = Gate::closed(&database);
    std::thread::scope(|scope| {
        let lost = scope.spawn(|| {
            // The connection breaks: there is no answer to read.
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shop.post(Some("o-3"), order)))
        });
        gate.somebody_waits();
        let pid = shop.process.id();
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
        assert!(killed.expect("there is a kill").success());
        assert!(lost.join().expect("it caught").is_err());
        gate.open();
    });
    sql("DROP TRIGGER slow ON orders");
    assert_eq!(sql("SELECT count(*) FROM orders WHERE number = 3"), "0");
    let left = "SELECT count(*) FROM idempotency_record WHERE key_value = 'o-3'";
    assert_eq!(sql(left), "0");
}

/// A lock that the shop's inserts wait for.
struct Gate {
    psql: Child,
    database: String,
}

impl Gate {
    fn closed(database: &str) -> Self {
        let mut psql = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-d", &shared().url(database)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("PostgreSQL's package brings psql");
        let stdin = psql.stdin.as_mut().expect("it is piped");
        stdin.write_all(b"SELECT pg_advisory_lock(1);\n\\echo closed\n").expect("it reads");
        let mut stdout = BufReader::new(psql.stdout.as_mut().expect("it is piped"));
        let mut line = String::new();
        while !line.contains("closed") {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).expect("it writes"), 0, "psql has ended");
        }
        Self { psql, database: database.to_owned() }
    }

    /// Returns when a transaction waits for the lock.
    fn somebody_waits(&self) {
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        loop {
            let count = shared().sql(&self.database, waiting).expect("it is SQL");
            if count.trim() != "0" {
                return;
            }
        }
    }

    fn open(mut self) {
        drop(self.psql.stdin.take());
        self.psql.wait().expect("it was started here");
    }
}
