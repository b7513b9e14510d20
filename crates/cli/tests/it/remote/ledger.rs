//! The ledger from the command line: vaults, transactions under each kind of name, reads, and proofs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::kit::{House, User, until};

const OPEN: &str = r#"[
  {"set": {"key": "ann", "to": {"amount": {"quantity": 100, "unit": "EUR"}}, "condition": "absent"}},
  {"set": {"key": "bob", "to": {"amount": {"quantity": 0, "unit": "EUR"}}, "condition": "absent"}}
]"#;

const PAY: &str = r#"[{"transfer": {"from": "ann", "to": "bob", "quantity": 5, "min": 0}}]"#;

/// A user with a vault of two accounts, at height 1.
fn wallets() -> (House, User) {
    wallets_of(House::new(&[]))
}

fn wallets_of(house: House) -> (House, User) {
    let user = User::of(&house.server);
    user.does(&["vault", "create", "wallets"]);
    user.file("open.json", OPEN);
    user.file("pay.json", PAY);
    user.does(&["ledger", "tx", "open.json", "--vault", "wallets", "--key", "open"]);
    (house, user)
}

fn in_wallets<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["ledger"], arguments, &["--vault", "wallets"]].concat()
}

/// Vaults are made, listed, shown and deleted; nothing is deleted without a yes.
#[test]
fn vaults() {
    let (_house, user) = wallets();
    let shown = user.json(&["vault", "create", "stock", "--log-retention", "400d"]);
    assert_eq!(
        (&shown["vault"], &shown["log_retention_seconds"]),
        (&json!("stock"), &json!(34_560_000))
    );
    let list = user.does(&["vault", "ls"]);
    let lines: Vec<&str> = list.lines().map(str::trim_end).collect();
    assert_eq!(lines.len(), 3, "{list}");
    assert!(lines[1].starts_with("stock") && lines[1].ends_with("for 400d"), "{list}");
    assert!(lines[2].starts_with("wallets       1  ") && lines[2].ends_with("for good"), "{list}");
    let json = user.does(&["vault", "ls", "--json"]);
    assert_eq!(json.lines().count(), 2, "{json}");
    let page = user.does(&["vault", "show", "wallets"]);
    for label in ["vault        wallets\n", "height       1\n", "log kept     for good\n", "head  "]
    {
        assert!(page.contains(label), "{page}");
    }
    user.run(&["vault", "rm", "wallets"]).check(
        1,
        "
        ---
        error: not confirmed: delete the vault wallets with all entities and 1 transaction?
        hint: confirm with --yes; nothing was done
        ",
    );
    user.run(&["vault", "rm", "wallets", "--yes"]).check(
        0,
        "
        ---
        the vault wallets was deleted; its name is free at [TIME]
        ",
    );
    let gone = user.run(&["vault", "show", "wallets"]);
    assert_eq!(gone.code, 1);
    assert!(
        gone.stderr.contains("(no-such-vault)\nhint: `indelible vault ls` lists them"),
        "{}",
        gone.stderr
    );
    let taken = user.run(&["vault", "create", "wallets"]);
    assert!(taken.stderr.contains("(vault-name-taken)"), "{}", taken.stderr);
}

/// Values are put under conditions, read again, now and as they were, and no repetition sets twice.
#[test]
fn values() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    let set = ["ledger", "set", "config", r#"{"open": true}"#, "--if-absent", "--key", "k"];
    user.run(&set).check(0, "---\ncommitted at height 1\n");
    user.run(&set).check(0, "---\ncommitted at height 1; it was applied before, and not again\n");
    user.run(&["ledger", "get", "config"]).check(0, r#"{"open": true}"#);
    let refused = user.run(&["ledger", "set", "config", "1", "--if-version", "9"]);
    assert_eq!(refused.code, 1);
    let told = "(VERSION_MISMATCH)\n  operation 0 of write 0, key config: version 1: {\"open\": true}\nhint: ";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    let written = user.json(&["ledger", "set", "config", "2", "--if-version", "1"]);
    assert_eq!((&written["height"], &written["verdict"]), (&json!(2), &json!("Fresh")));
    let got = user.json(&["ledger", "get", "config", "--at", "1"]);
    assert_eq!(got["entity"]["is"]["value"]["value"], json!({"open": true}));
    user.run(&["ledger", "history", "config"]).check(0, "2  2\n1  {\"open\": true}\n");
    user.run(&["ledger", "get", "--prefix", "con"]).check(0, "config  2  2\n");
    user.run(&["ledger", "get", "other"]).check(
        1,
        r#"
        ---
        error: there is no entity under the key "other" at height 2
        hint: `indelible ledger get --prefix ''` lists all; `ledger history` what was
        "#,
    );
    let expires = ["ledger", "set", "soon", "1", "--expires-at", "2100-01-01T00:00:00Z"];
    user.does(&expires);
    let got = user.json(&["ledger", "get", "soon"]);
    assert_eq!(got["entity"]["expires_at"], "2100-01-01T00:00:00.000000Z");
}

/// Under a key, an operation id or a number of one's own, a repetition gets the first answer; what is
/// refused changes nothing.
#[test]
fn names() {
    let (_house, user) = wallets();
    let id = "01987654-3210-7fff-bfff-0123456789ab";
    // An id of long ago is refused: it carries its time.
    let old = user.run(&in_wallets(&["tx", "pay.json", "--id", id]));
    assert!(old.stderr.contains("(expired)"), "{}", old.stderr);
    let key = in_wallets(&["tx", "@pay.json", "--key", "pay-1"]);
    user.run(&key).check(0, "---\ncommitted at height 2\n  balances 95 and 5\n");
    let again =
        "---\ncommitted at height 2; it was applied before, and not again\n  balances 95 and 5\n";
    user.run(&key).check(0, again);
    let other = user.run(&in_wallets(&["tx", "open.json", "--key", "pay-1"]));
    assert!(other.stderr.contains("(mismatch)"), "{}", other.stderr);
    let numbered = |number| {
        in_wallets(&["tx", "pay.json", "--client", "till", "--sequence", number, "--attempt", "1"])
    };
    user.run(&numbered("1"))
        .check(0, "---\ncommitted at height 3, sequence 1\n  balances 90 and 10\n");
    assert!(user.run(&numbered("1")).stderr.contains("it was applied before, and not again"));
    let gap = user.run(&numbered("7"));
    assert_eq!(gap.code, 1);
    assert!(
        gap.stderr.contains("(SEQUENCE_GAP)\nhint: `indelible ledger client CLIENT`"),
        "{}",
        gap.stderr
    );
    let client = user.does(&in_wallets(&["client", "till", "--sequence", "1"]));
    for line in [
        "last number   1\n",
        "next attempt  2\n",
        "refused       attempt 1 of number 7: SEQUENCE_GAP\n",
        "receipt       height 3, ",
    ] {
        assert!(client.contains(line), "{client}");
    }
    let much = r#"[{"transfer": {"from": "ann", "to": "bob", "quantity": 1000, "min": 0}}]"#;
    let refused = user.run(&in_wallets(&["tx", much, "--key", "much"]));
    let told = "(BELOW_MIN)\n  operation 0 of write 0, key ann: version 3: 90 EUR\nhint: see `indelible explain BELOW_MIN`\n";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    assert_eq!(user.does(&in_wallets(&["get", "ann"])), "90 EUR\n");
}

/// What makes no sense is said, with what to do, and nothing is sent.
#[test]
fn misuse() {
    let (_house, user) = wallets();
    for (arguments, code, told) in [
        (&["tx", "[", "--key", "k"][..], 2, "is not JSON"),
        (&["tx", "missing.json"][..], 1, "cannot read missing.json"),
        (&["tx", "{\"write\":[]}", "--client", "c"][..], 2, "this is not a batch"),
        (&["tx", "{\"writes\":[[]]}", "--key", "k"][..], 2, "a batch needs the number of a client"),
        (&["tx", "[]", "--key", "k"][..], 1, "(malformed-request)"),
        (&["tx", "[{\"drop\":{}}]", "--key", "k"][..], 1, "(malformed-request)"),
        (&["tx", "pay.json", "--key", "k", "--client", "c"][..], 2, "cannot be used with"),
        (&["tx", "pay.json", "--sequence", "1"][..], 2, "--client"),
        (&["get"][..], 2, "required"),
        (&["set", "k", "{"][..], 2, "is not JSON"),
        (&["log", "--from", "x"][..], 2, "invalid value"),
    ] {
        let said = user.run(&in_wallets(arguments));
        assert_eq!(said.code, code, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains(told), "{arguments:?}: {}", said.stderr);
        assert!(
            said.code == 2 || said.stderr.contains("\nhint: "),
            "{arguments:?}: {}",
            said.stderr
        );
        assert_eq!(said.stdout, "");
    }
    assert_eq!(user.json(&["vault", "show", "wallets"])["height"], 1);
}

/// Passes everything on, until it keeps the answers to changes to itself.
struct Line {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    has_answer: Arc<AtomicBool>,
}

impl Line {
    fn new(listener: TcpListener, server: &str) -> Self {
        let server: SocketAddr = server.parse().unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, has_answer) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (cut, has) = (Arc::clone(&is_cut), Arc::clone(&has_answer));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                let is_change = Arc::<AtomicBool>::default();
                let (cut, has) = (Arc::clone(&cut), Arc::clone(&has));
                pass(client.try_clone().unwrap(), server.try_clone().unwrap(), {
                    let is_change = Arc::clone(&is_change);
                    move |bytes| {
                        is_change.fetch_or(bytes.starts_with(b"POST "), Ordering::SeqCst);
                        true
                    }
                });
                pass(server, client, move |_| {
                    let keeps = cut.load(Ordering::SeqCst) && is_change.load(Ordering::SeqCst);
                    has.fetch_or(keeps, Ordering::SeqCst);
                    !keeps
                });
            }
        });
        Self { address, is_cut, has_answer }
    }
}

/// Passes on what `passes`.
fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&[u8]) -> bool + Send + 'static) {
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if passes(&bytes[..count]) && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        _ = to.shutdown(std::net::Shutdown::Both);
    });
}

/// Q-9, Q-11: a command with `--client` whose answer is lost, and that is killed while it waits, is
/// typed again: the transaction is applied once. After an answer the same command is another one.
#[test]
fn a_client_whose_answers_are_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The server is called by the line's address, too.
    let name = listener.local_addr().unwrap().to_string();
    let (house, user) = wallets_of(House::new(&["--host-name", &name]));
    let line = Line::new(listener, &house.server.address);
    let url = format!("http://{}", line.address);
    let tx = |operations| {
        in_wallets(&["tx", operations, "--client", "till", "--url", url.as_str()])
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    let run = |operations| {
        let arguments = tx(operations);
        user.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let killed = |operations| {
        line.is_cut.store(true, Ordering::SeqCst);
        line.has_answer.store(false, Ordering::SeqCst);
        let mut child = user.command().args(tx(operations)).stderr(Stdio::null()).spawn().unwrap();
        until("the server has answered", || line.has_answer.load(Ordering::SeqCst).then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
        line.is_cut.store(false, Ordering::SeqCst);
    };
    run("pay.json").check(0, "---\ncommitted at height 2, sequence 1\n  balances 95 and 5\n");
    killed("pay.json");
    run("pay.json").check(
        0,
        "
        ---
        committed at height 3, sequence 2; it was applied before, and not again
          balances 90 and 10
        ",
    );
    run("pay.json").check(0, "---\ncommitted at height 4, sequence 3\n  balances 85 and 15\n");
    // Another command sends what the killed one has left first.
    killed("pay.json");
    run(r#"{"writes": [[{"get": {"key": "bob"}}], [{"add": {"key": "bob", "delta": 1}}]]}"#).check(
        0,
        "
        ---
        an earlier transaction of this client, sequence 4, had no answer; it is committed
        committed at height 6, sequence 5
          20 EUR
          balance 21
        ",
    );
    let refused = run(r#"[{"add": {"key": "bob", "delta": -99, "min": 0}}]"#);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("(BELOW_MIN)"), "{}", refused.stderr);
    run("pay.json").check(0, "---\ncommitted at height 7, sequence 6\n  balances 75 and 26\n");
    // The file is lost: that is noticed.
    let folder = user.folder().join("config/indelible/ledger");
    let file = folder.join(format!(
        "http%3a%2f%2f127%2e0%2e0%2e1%3a{}/@only/wallets/till.state",
        line.address.port()
    ));
    std::fs::write(&file, "x").unwrap();
    let torn = run("pay.json");
    assert!(
        torn.stderr.contains("is torn") && torn.stderr.contains("\nhint: remove it"),
        "{}",
        torn.stderr
    );
    std::fs::remove_file(&file).unwrap();
    let lost = run("pay.json");
    assert_eq!(lost.code, 1);
    assert!(lost.stderr.contains("the server knows it up to sequence 6"), "{}", lost.stderr);
    assert!(lost.stderr.contains("then go on with --recover\n"), "{}", lost.stderr);
    let arguments = [tx("pay.json"), vec!["--recover".to_owned()]].concat();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    user.run(&arguments).check(0, "---\ncommitted at height 8, sequence 7\n  balances 70 and 31\n");
}

/// An export verifies; with a byte flipped anywhere it does not, and the line is named.
#[test]
fn a_flipped_byte_is_found() {
    let (_house, user) = wallets();
    user.does(&in_wallets(&["tx", "pay.json", "--key", "pay"]));
    let export = user.does(&in_wallets(&["export"]));
    assert_eq!(export.lines().count(), 4, "{export}");
    let file = user.file("wallets.jsonl", &export);
    let verify = |arguments: &[&str]| user.run(&[&["ledger", "verify"], arguments].concat());
    let head = user.json(&["vault", "show", "wallets"])["head"].as_str().unwrap().to_owned();
    // Without a server.
    let alone = User::new();
    let path = file.to_str().unwrap();
    let verified = alone.json(&["ledger", "verify", path, "--head", &head]);
    assert_eq!(
        (&verified["ok"], &verified["height"], &verified["transactions"]),
        (&json!(true), &json!(2), &json!(2))
    );
    assert_eq!((&verified["vault"], &verified["head"]), (&json!("wallets"), &json!(head)));
    let text = verify(&[path]).stdout;
    assert!(text.starts_with("verified    2 transactions of "), "{text}");
    let other = verify(&[path, "--head", &"0".repeat(64)]);
    assert_eq!(other.code, 1);
    assert!(other.stderr.contains("not with the one that was given\nhint: "), "{}", other.stderr);
    // The pure crate's tests flip every byte; these go through the command.
    let bytes = export.as_bytes();
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1;
        user.file("flipped.jsonl", &flipped);
        let said = verify(&["flipped.jsonl", "--json"]);
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        assert_eq!(said.code, 1, "byte {at}");
        let found: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(
            (&found["ok"], &found["line"]),
            (&json!(false), &json!(line)),
            "byte {at}: {}",
            said.stderr
        );
        let told = format!("error: flipped.jsonl: line {line}: ");
        assert!(
            said.stderr.starts_with(&told) && said.stderr.contains("\nhint: "),
            "{}",
            said.stderr
        );
    }
    let whole: Vec<&str> = export.lines().collect();
    for (what, lines) in [
        ("cut off", &whole[..3]),
        ("without a transaction", &[whole[0], whole[2], whole[3]][..]),
        ("empty", &[][..]),
    ] {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let said = user.run_with(&["ledger", "verify", "-"], &text);
        assert_eq!(said.code, 1, "{what}");
        assert!(said.stderr.starts_with("error: -: line "), "{what}: {}", said.stderr);
    }
    let missing = verify(&["missing.jsonl"]);
    assert!(
        missing.stderr.contains("cannot read missing.jsonl") && missing.stderr.contains("\nhint: ")
    );
}

/// The log is shown, and followed: each transaction once and in order, while they come.
#[test]
fn the_log() {
    let (_house, user) = wallets();
    let mut watch = user
        .command()
        .args(in_wallets(&["watch", "--from", "1", "--json"]))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut height = || -> Value {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["transaction"]["height"].clone()
    };
    assert_eq!(height(), 1);
    for (number, expected) in [("1", 2), ("2", 3)] {
        user.does(&in_wallets(&["tx", "pay.json", "--client", "c", "--sequence", number]));
        assert_eq!(height(), expected);
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    let log = user.does(&in_wallets(&["log", "--limit", "2"]));
    let lines: Vec<&str> = log.lines().collect();
    assert!(
        lines[0].starts_with("1  ") && lines[0].ends_with("  key open  set ann, set bob"),
        "{log}"
    );
    assert!(lines[1].ends_with("  c#1  transfer 5 from ann to bob"), "{log}");
    assert_eq!(lines.len(), 2);
    let json = user.does(&in_wallets(&["log", "--from", "3", "--json"]));
    assert!(json.contains(r#""to_balance":"10""#), "{json}");
}
