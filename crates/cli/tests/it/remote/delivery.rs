//! Delivery from the command line: endpoints, messages and dead letters, over a real server and a
//! receiver that verifies what it gets.

use std::time::{SystemTime, UNIX_EPOCH};

use indelible_delivery::signing::{TOLERANCE, VerifyingKey, standard};
use indelible_http_peer::{Arrival, Peer};
use indelible_journal::Timestamp;
use serde_json::{Value, json};

use super::kit::{House, Said, User, until};
use crate::support::process::Server;

/// A server whose messages may reach the peer.
fn with_peer() -> (House, User, Peer) {
    with_peer_and(&[])
}

fn with_peer_and(more: &[&str]) -> (House, User, Peer) {
    let peer = Peer::start();
    let data = tempfile::tempdir().unwrap();
    // Read once, before the server says that it is ready.
    let aside = tempfile::tempdir().unwrap();
    let config = aside.path().join("indelible.toml");
    std::fs::write(&config, "[deliveries]\nnetworks = [\"loopback\"]\nplain_http = true\n")
        .unwrap();
    let arguments = [&["--config", config.to_str().unwrap()], more].concat();
    let server = Server::start(data.path(), &arguments);
    let user = User::of(&server);
    (House { server, data }, user, peer)
}

/// Makes an endpoint at a path of the peer: its secret.
fn put(user: &User, peer: &Peer, name: &str, path: &str, more: &[&str]) -> String {
    let url = peer.url(path);
    let secret = user.does(&[&["endpoint", "put", name, &url], more].concat());
    assert!(secret.starts_with("whsec_"), "{secret}");
    secret.trim().to_owned()
}

fn send(user: &User, topic: &str, body: &str, key: &str) -> String {
    user.does(&["message", "send", topic, body, "--key", key]).trim().to_owned()
}

/// Waits until the only delivery of a message is in this state.
fn stands(user: &User, message: &str, state: &str) -> Value {
    until(state, || {
        let shown = user.json(&["message", "show", message]);
        let delivery = &shown["deliveries"][0];
        (delivery["state"] == state).then(|| delivery.clone())
    })
}

/// Whether a receiver with this key takes the request for its sender's.
fn verifies(arrival: &Arrival, key: &str) -> bool {
    let header = |name: &str| std::str::from_utf8(arrival.header(name).unwrap()).unwrap();
    let headers = standard::Headers {
        id: header(standard::ID),
        timestamp: header(standard::TIMESTAMP),
        signature: header(standard::SIGNATURE),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    let now = Timestamp::from_micros(now.try_into().unwrap()).unwrap();
    let keys = [key.parse::<VerifyingKey>().unwrap()];
    standard::verify(&keys, &headers, &arrival.body, now, TOLERANCE).is_ok()
}

#[track_caller]
fn refused(said: &Said, code: i32, told: &str) {
    assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{told}: {}", said.stderr);
    assert!(said.stderr.contains(told), "{told}: {}", said.stderr);
    assert!(code == 2 || said.stderr.contains("\nhint: "), "{}", said.stderr);
}

/// O-24: a message goes to the endpoints of its topic with the bytes that were given, signed, under one
/// id; the same command again sends nothing.
#[test]
fn a_message_is_sent_once() {
    let (_house, user, peer) = with_peer();
    let secret = put(&user, &peer, "partner", "/do/answer", &["--topic", "order.*"]);
    put(&user, &peer, "books", "/do/answer", &["--topic", "invoice.*"]);
    let body = r#"{"order": 7,  "price": 1.50}"#;
    let arguments = ["message", "send", "order.created", body, "--key", "o-7", "--lane", "order-7"];
    let sent = user.run(&arguments);
    assert_eq!((sent.code, sent.stderr.as_str()), (0, "it goes to 1 endpoint\n"));
    let id = sent.stdout.trim();
    let again = user.run(&arguments);
    assert_eq!(again.stdout, sent.stdout);
    assert_eq!(again.stderr, "it was accepted before, and not again; it goes to 1 endpoint\n");
    let delivery = stands(&user, id, "delivered");
    assert_eq!((&delivery["status"], &delivery["attempts"]), (&json!(200), &json!(1)));

    let log = peer.log();
    assert_eq!(log.len(), 1, "{log:?}");
    let arrival = &log[0];
    assert_eq!((arrival.path.as_str(), &arrival.body[..]), ("/do/answer", body.as_bytes()));
    for (name, value) in [
        ("webhook-id", id),
        ("content-type", "application/json"),
        ("indelible-topic", "order.created"),
    ] {
        assert_eq!(arrival.header(name).unwrap(), value, "{name}");
    }
    assert!(verifies(arrival, &secret));
    assert!(!verifies(arrival, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));

    // Other bytes under the key.
    let other = user.run(&["message", "send", "order.created", "{}", "--key", "o-7"]);
    refused(&other, 1, "(mismatch)");
    let page = user.does(&["message", "show", id]);
    for line in [
        format!("message       {id}\n"),
        "lane          order-7\n".to_owned(),
        "origin        key o-7\n".to_owned(),
        "body          28 bytes, application/json\n".to_owned(),
        format!("              {body}\n"),
        "endpoint      partner: delivered, status 200, 1 attempt\n".to_owned(),
    ] {
        assert!(page.contains(&line), "{line:?}\n{page}");
    }

    // What is not JSON, what no endpoint wants, and the list.
    let csv = user.file("report.csv", b"a,\xff\n");
    let file = format!("@{}", csv.display());
    let bytes = ["message", "send", "order.report", &file, "--key", "r", "--content-type"];
    let report = user.does(&[&bytes[..], &["text/csv"]].concat());
    stands(&user, report.trim(), "delivered");
    let arrival = peer.log().pop().unwrap();
    assert_eq!(&arrival.body[..], b"a,\xff\n");
    assert_eq!(arrival.header("content-type").unwrap(), "text/csv");
    assert!(verifies(&arrival, &secret));
    let lost = user.run_with(&["message", "send", "other", "-", "--key", "s"], "1\n");
    assert_eq!(lost.code, 0);
    let told = "no endpoint wants it\nhint: `indelible endpoint ls` shows which topics they want\n";
    assert_eq!(lost.stderr, told);
    let list = user.does(&["message", "ls"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 4, "{list}");
    assert!(lines[1].contains(" other ") && lines[1].ends_with(" no endpoint"), "{list}");
    assert!(lines[3].contains("order.created  order-7  delivered"), "{list}");
    let newest = user.json(&["message", "ls", "--limit", "1"]);
    assert_eq!((&newest["topic"], &newest["number"]), (&json!("other"), &json!(3)));
    assert_eq!(user.does(&["message", "ls", "--limit", "0", "--json"]).lines().count(), 3);
}

/// Endpoints are made, changed, listed, disabled, enabled, and deleted with a yes; all of it is in the
/// audit record.
#[test]
fn endpoints() {
    let (_house, user, peer) = with_peer();
    let said = user.run(&["endpoint", "ls"]);
    assert_eq!(said.stdout, "");
    assert!(said.stderr.contains("hint: make one with `indelible endpoint put"), "{}", said.stderr);
    let url = peer.url("/do/answer");
    let made = user.json(&["endpoint", "put", "one", &url]);
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    let settings = &made["endpoint"]["settings"];
    assert!(settings["schedule"].is_null(), "the usual one: {made}");
    assert_eq!(
        (&settings["idem"], &settings["in_flight_max"], &settings["attempt_timeout_ms"]),
        (&json!(true), &json!(16), &json!(20_000))
    );
    assert!(settings.get("secrets").is_none(), "{made}");

    let all = [
        "endpoint",
        "put",
        "one",
        &url,
        "--topic",
        "order.*",
        "--topic",
        "pay",
        "--not-idem",
        "--rate",
        "5",
        "--in-flight",
        "2",
        "--schedule",
        "5s,1m",
        "--timeout",
        "1500ms",
        "--ttl",
        "7d",
        "--on-dead-letter",
        "skip",
    ];
    let said = user.run(&all);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""));
    assert_eq!(said.stderr, "the endpoint one has these settings\n");
    let page = user.does(&["endpoint", "show", "one"]);
    for line in [
        "endpoint      one\n",
        "state         enabled\n",
        "breaker       closed\n",
        "topics        order.*, pay\n",
        "idem          no: ",
        "lanes         a dead letter is skipped\n",
        "rate          at most 5 a second\n",
        "in flight     at most 2\n",
        "retries       after 5s, 1m\n",
        "timeout       1.5s\n",
        "ttl           7d\n",
    ] {
        assert!(page.contains(line), "{line:?}\n{page}");
    }

    // What is shown can be given back, with a change.
    let shown = user.json(&["endpoint", "show", "one"]);
    user.file("one.json", shown["settings"].to_string());
    let copy = ["endpoint", "put", "two", "--settings", "one.json", "--schedule", "none"];
    user.does(&copy);
    let two = user.json(&["endpoint", "show", "two"]);
    let mut expected = shown["settings"].clone();
    expected["name"] = json!("two");
    expected["schedule"] = json!({"steps_seconds": []});
    assert_eq!(two["settings"], expected);
    let own =
        r#"{"url": "https://example.com/", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}"#;
    let given = user.run_with(&["endpoint", "put", "own", "--settings", "-"], own);
    assert_eq!((given.code, given.stdout.as_str()), (0, ""), "{}", given.stderr);

    let disable = ["endpoint", "disable", "one", "--reason", "moves"];
    user.run(&disable).check(0, "---\nmessages to the endpoint one wait\n");
    let list = user.does(&["endpoint", "ls"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 4, "{list}");
    assert!(lines[1].starts_with("one       disabled since "), "{list}");
    assert!(lines[2].starts_with("two       enabled "), "{list}");
    assert_eq!(user.does(&["endpoint", "ls", "--json"]).lines().count(), 3);
    let message = send(&user, "pay", "{}", "p");
    let waits = user.run(&all);
    assert!(waits.stderr.contains("it is disabled since "), "{}", waits.stderr);
    assert!(waits.stderr.contains("hint: `indelible endpoint enable one`"), "{}", waits.stderr);
    assert_eq!(user.json(&["endpoint", "show", "one"])["queued"], 1);
    let enabled = user.json(&["endpoint", "enable", "one"]);
    assert_eq!(enabled["state"], "enabled");
    until("it is delivered", || {
        let shown = user.json(&["message", "show", &message]);
        let delivered = shown["deliveries"].as_array().unwrap().iter();
        delivered.clone().all(|one| one["state"] != "queued").then_some(())
    });

    user.run(&["endpoint", "rm", "one"]).check(
        1,
        "
        ---
        error: not confirmed: delete the endpoint one? What is not delivered to it becomes dead letters
        hint: confirm with --yes; nothing was done
        ",
    );
    user.run(&["endpoint", "rm", "one", "--yes", "--reason", "it is over"])
        .check(0, "---\nthe endpoint one was deleted\n");
    for gone in [
        &["endpoint", "show", "one"][..],
        &["endpoint", "rm", "one"],
        &["endpoint", "enable", "one"],
        &["endpoint", "rotate", "one"],
    ] {
        let said = user.run(gone);
        refused(&said, 1, "(no-such-endpoint)\nhint: `indelible endpoint ls` lists them");
    }
    let audit = user.does(&["audit", "--json"]);
    let actions: Vec<String> = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|entry| format!("{}: {}", entry["action"].as_str().unwrap(), entry["reason"]))
        .collect();
    for action in [r#"delete endpoint: "it is over""#, r#"disable endpoint: "moves""#] {
        assert!(actions.iter().any(|known| known == action), "{action}: {actions:?}");
    }
}

/// A message whose attempts are used up is a dead letter, which is sent again under its id once an
/// operator says so, or given up.
#[test]
fn dead_letters() {
    let (_house, user, peer) = with_peer();
    put(&user, &peer, "e", "/do/seq/status/500,answer", &["--schedule", "none"]);
    assert_eq!(user.run(&["dead", "ls"]).stderr, "there are no dead letters\n");
    let message = send(&user, "a", "{}", "first");
    let dead = stands(&user, &message, "dead");
    assert_eq!(
        (&dead["reason"], &dead["may_have_arrived"], &dead["failures"][0]["code"]),
        (&json!("MAX_RETRIES_EXCEEDED"), &json!(true), &json!("STATUS_500"))
    );
    let list = user.does(&["dead", "ls"]);
    let line = list.lines().nth(1).unwrap();
    assert!(line.starts_with(&format!("{message}  e ")), "{list}");
    assert!(line.ends_with("MAX_RETRIES_EXCEEDED  yes"), "{list}");
    assert_eq!(user.json(&["dead", "ls"])["message"], message.as_str());
    let page = user.does(&["dead", "show", &message, "e"]);
    let told = "endpoint      e: dead, MAX_RETRIES_EXCEEDED, 1 attempt, may have arrived\n";
    assert!(page.contains(told) && page.contains(": STATUS_500: "), "{page}");
    assert_eq!(user.json(&["dead", "show", &message, "e"])["deliveries"][0], dead);

    let redeliver = ["dead", "redeliver", &message, "e", "--reason", "it is back"];
    user.run(&redeliver).check(0, "---\nthe message is sent to e again\n");
    let delivered = stands(&user, &message, "delivered");
    assert_eq!(delivered["attempts"], 2);
    let ids: Vec<_> = peer.log().iter().map(|one| one.header("webhook-id").cloned()).collect();
    assert_eq!(ids, [Some(message.clone().into()), Some(message.clone().into())]);
    let told =
        "(wrong-state)\nhint: `indelible message show MESSAGE` says how its deliveries stand";
    refused(&user.run(&redeliver), 1, told);

    // One whose outcome is unknown, because the endpoint tells no repetitions.
    put(&user, &peer, "once", "/do/drop-after", &["--not-idem", "--topic", "b"]);
    user.does(&["endpoint", "rm", "e", "--yes"]);
    let message = send(&user, "b", "{}", "second");
    let dead = stands(&user, &message, "dead");
    assert_eq!(dead["reason"], "OUTCOME_UNKNOWN");
    let abandon = ["dead", "abandon", &message, "once", "--reason", "done by hand"];
    let said = user.run(&abandon);
    let question = "error: not confirmed: abandon the message for once (dead, OUTCOME_UNKNOWN, 1 \
                    attempt, may have arrived)? It is never sent again\n";
    refused(&said, 1, question);
    user.run(&[&abandon[..], &["--yes"]].concat())
        .check(0, "---\nthe message to once was abandoned; it may have arrived\n");
    stands(&user, &message, "indeterminate");
    refused(&user.run(&[&abandon[..], &["--yes"]].concat()), 1, "(wrong-state)");
    assert_eq!(user.run(&["dead", "ls"]).stderr, "there are no dead letters\n");
    let audit = user.does(&["audit", "--limit", "1"]);
    assert!(audit.contains(&format!("abandon message {message}")), "{audit}");

    // One that never left.
    peer.down();
    let url = peer.url("/do/answer");
    user.does(&["endpoint", "put", "off", &url, "--schedule", "none", "--topic", "c"]);
    let message = send(&user, "c", "{}", "third");
    let dead = stands(&user, &message, "dead");
    assert_eq!(
        (&dead["failures"][0]["code"], &dead["may_have_arrived"]),
        (&json!("NOT_SENT"), &json!(false))
    );
    let arguments = ["dead", "abandon", &message, "off", "--reason", "old", "--yes"];
    assert_eq!(user.json(&arguments)["state"], "abandoned");
}

/// For a while messages are signed with the earlier secret and with the new one, of either kind.
#[test]
fn secrets_rotate() {
    let (_house, user, peer) = with_peer();
    let first = put(&user, &peer, "e", "/do/answer", &[]);
    let arrival = |key: &str| {
        let message = send(&user, "a", "{}", key);
        stands(&user, &message, "delivered");
        peer.log().pop().unwrap()
    };
    let said = user.run(&["endpoint", "rotate", "e", "--overlap", "1h"]);
    assert_eq!(
        said.stderr,
        "messages to the endpoint e are signed with another secret, which is shown only once\n"
    );
    let second = said.stdout.trim();
    let both = arrival("both");
    assert!(verifies(&both, &first) && verifies(&both, second));
    let rotated = user.json(&["endpoint", "rotate", "e", "--ed25519", "--overlap", "0s"]);
    let public = rotated["public_key"].as_str().unwrap();
    assert!(rotated["secret"].as_str().unwrap().starts_with("whsk_"), "{rotated}");
    let third = arrival("third");
    assert!(verifies(&third, public) && !verifies(&third, second) && !verifies(&third, &first));
    user.file("secret", format!("{first}\n"));
    let own = user.run(&["endpoint", "rotate", "e", "--secret-file", "secret", "--overlap", "0s"]);
    own.check(0, "---\nmessages to the endpoint e are signed with another secret\n");
    assert!(verifies(&arrival("fourth"), &first));
}

/// What makes no sense is said, with the field and with what to do, and changes nothing.
#[test]
fn misuse() {
    let (_house, user, peer) = with_peer();
    put(&user, &peer, "e", "/do/answer", &[]);
    let long = "x".repeat(300);
    let id = format!("msg_{}", "0".repeat(40));
    for (arguments, code, told) in [
        (&["endpoint", "put", "f"][..], 2, "<URL>"),
        (&["endpoint", "put", "A", "https://a.example"], 1, "name: the name of the endpoint has"),
        (&["endpoint", "put", "f", "x"], 1, "url: use an absolute URL"),
        (&["endpoint", "put", "f", "ftp://a.example"], 1, "url: use https, or http"),
        (&["endpoint", "put", "f", "https://a:b@c.example"], 1, "url: remove the user name"),
        (&["endpoint", "put", "f", "https://a.example/#b"], 1, "url: remove what follows #"),
        (
            &["endpoint", "put", "e", "https://a.example", "--topic", "a b"],
            1,
            "topics: the topic has",
        ),
        (
            &["endpoint", "put", "e", "https://a.example", "--rate", "0"],
            1,
            "rate_per_second: use 1 to",
        ),
        (&["endpoint", "put", "e", "https://a.example", "--rate", "-1"], 2, "unexpected argument"),
        (
            &["endpoint", "put", "e", "https://a.example", "--in-flight", "1001"],
            1,
            "in_flight_max: use 1 to 1000",
        ),
        (
            &["endpoint", "put", "e", "https://a.example", "--schedule", "5"],
            2,
            "give times as 5s,1m,1h",
        ),
        (
            &["endpoint", "put", "e", "https://a.example", "--schedule", "8d"],
            1,
            "schedule.steps_seconds: use more than 0",
        ),
        (
            &["endpoint", "put", "e", "https://a.example", "--timeout", "301s"],
            1,
            "attempt_timeout_ms: use more than 0",
        ),
        (
            &["endpoint", "put", "e", "https://a.example", "--timeout", "x"],
            2,
            "give a time as 500ms",
        ),
        (
            &["endpoint", "put", "e", "https://a.example", "--ttl", "366d"],
            1,
            "ttl_seconds: use more than 0",
        ),
        (
            &["endpoint", "put", "e", "https://a.example", "--on-dead-letter", "drop"],
            2,
            "block, skip",
        ),
        (&["endpoint", "put", "e", "--settings", "missing.json"], 1, "cannot read missing.json"),
        (&["endpoint", "show", "f"], 1, "(no-such-endpoint)"),
        (
            &["endpoint", "disable", "e", "--reason", &"x".repeat(2_000)],
            1,
            "reason must not exceed",
        ),
        (&["endpoint", "rotate", "e", "--overlap", "366d"], 1, "overlap_seconds: at most"),
        (&["endpoint", "rotate", "e", "--ed25519", "--secret-file", "s"], 2, "cannot be used with"),
        (&["message", "send", "a"], 2, "--key"),
        (&["message", "send", "a", "{", "--key", "k"], 2, "what is not JSON needs --content-type"),
        (&["message", "send", "a", "@missing", "--key", "k"], 1, "cannot read missing"),
        (&["message", "send", "a b", "{}", "--key", "k"], 1, "topic: the topic has"),
        (&["message", "send", "a", "{}", "--key", " "], 2, "invalid idempotency key"),
        (&["message", "send", "a", "{}", "--key", &long], 2, "invalid idempotency key"),
        (
            &["message", "send", "a", "{}", "--key", "k", "--lane", &long],
            1,
            "lane_key: the lane key has",
        ),
        (
            &["message", "send", "a", "{}", "--key", "k", "--content-type", "é"],
            1,
            "content_type: the content type has",
        ),
        (&["message", "show", "x"], 1, "message: invalid id"),
        (&["message", "show", &id], 1, "(not-found)\nhint: `indelible message ls`"),
        (&["dead", "show", &id, "e"], 1, "(not-found)"),
        (&["dead", "redeliver", &id, "e"], 2, "--reason"),
        (&["dead", "redeliver", &id, "e", "--reason", " "], 1, "reason is missing"),
        (&["dead", "redeliver", &id, "e", "--reason", "r"], 1, "(not-found)"),
        (&["dead", "abandon", &id, "e", "--reason", "r", "--yes"], 1, "(not-found)"),
    ] {
        refused(&user.run(arguments), code, told);
    }
    for (settings, code, told) in [
        ("[", 2, "is not JSON"),
        (r#"{"url": "https://a.example", "topic": "a"}"#, 2, "unknown field `topic`"),
        (
            r#"{"url": "https://a.example", "secrets": ["x"]}"#,
            1,
            "secrets: invalid secret: use `whsec_`",
        ),
        (
            r#"{"url": "https://a.example", "fields": [{"pointer": "a", "value": 1}]}"#,
            1,
            "fields.pointer: begin it with /",
        ),
        (
            r#"{"url": "https://a.example", "breaker": {"failures_percent": 0}}"#,
            1,
            "breaker.failures_percent: use 1 to 100",
        ),
        (
            r#"{"url": "https://a.example", "schedule": {"backoff": {"base_ms": 2, "cap_ms": 1, "retries_max": null}}}"#,
            1,
            "schedule.backoff.cap_ms: it is less",
        ),
    ] {
        user.file("settings.json", settings);
        let said = user.run(&["endpoint", "put", "g", "--settings", "settings.json"]);
        refused(&said, code, told);
    }
    let message = send(&user, "a", "{}", "k");
    let said = user.run(&["dead", "show", &message, "f"]);
    refused(&said, 1, "does not go to an endpoint f");
    let said = user.run(&["dead", "redeliver", &message, "f", "--reason", "r"]);
    refused(&said, 1, "(no-such-endpoint)");
    assert_eq!(user.does(&["endpoint", "ls", "--json"]).lines().count(), 1);
}

/// Each role may do its part: to send, to decide, to operate.
#[test]
fn roles() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let make = |name: &str, role: &str| {
        let create =
            ["token", "create", name, "--role", role, "--namespace", "eu", "--data", folder];
        User::new().does(&create).trim().to_owned()
    };
    let [operator, sender, decider, caller] =
        ["operate", "send", "decide", "call"].map(|role| make(role, role));
    let server = Server::start(data.path(), &["--keys"]);
    let user = |token: &str| User::of(&server).with_token(token);
    let (operator, sender, decider, caller) =
        (user(&operator), user(&sender), user(&decider), user(&caller));
    let put = ["endpoint", "put", "e", "https://192.0.2.1/", "--schedule", "none"];
    let send = ["message", "send", "a", "{}", "--key", "k"];
    operator.does(&put);
    // The address is one for documentation: no rule lets it through.
    let message = sender.does(&send);
    let message = message.trim();
    stands(&decider, message, "dead");
    let decide = ["dead", "abandon", message, "e", "--reason", "r", "--yes"];
    for (user, arguments) in [
        (&sender, &put[..]),
        (&decider, &put),
        (&decider, &send),
        (&operator, &send),
        (&operator, &decide),
        (&sender, &decide),
        (&caller, &["message", "ls"]),
        (&caller, &["endpoint", "ls"]),
    ] {
        let said = user.run(arguments);
        refused(&said, 1, "(forbidden)\nhint: an admin creates a key with the role");
    }
    for user in [&sender, &operator] {
        assert_eq!(user.does(&["dead", "ls"]).lines().count(), 2);
        user.does(&["endpoint", "show", "e"]);
    }
    decider.does(&decide);
}
