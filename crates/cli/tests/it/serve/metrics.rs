//! The metrics of a server that has done something, against what is written about them.

use std::collections::BTreeSet;

use indelible_http_peer::Peer;
use serde_json::json;

use crate::support::process::Server;

const DOCUMENT: &str = include_str!("../../../../../docs/metrics.md");
const RULES: &str = include_str!("../../../../../docs/prometheus-rules.yml");

fn metrics(server: &Server) -> String {
    String::from_utf8(server.get("/metrics").body).unwrap()
}

/// The value of a metric with these labels; 0 if it is not there.
fn value(text: &str, metric: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

/// The names of metrics in a text that come behind `mark`.
fn names<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(mark).skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// Without what its kind adds to the name of a metric.
fn family(name: &str) -> &str {
    let suffixes = ["_total", "_bucket", "_sum", "_count"];
    suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// Executions are counted once each, by function and outcome, with the time of all attempts; and
/// attempts at HTTP requests by their end. What an operator can ask for is what is counted: the
/// list of what ended as Indeterminate has that execution, and that of failed ones has not.
#[test]
fn what_ended_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::start();
    let config = folder.path().join("indelible.toml");
    let lines = format!(
        "[components.behaviours]\nhosts = [\"{}\"]\nnetworks = [\"loopback\"]\nplain_http = true\n",
        peer.address()
    );
    std::fs::write(&config, lines).unwrap();
    let arguments = ["--config", config.to_str().unwrap()];
    let server = Server::start(&folder.path().join("data"), &arguments);
    server.deploy("bench", "bench");
    server.deploy("behaviours", "behaviours");
    for _ in 0..2 {
        assert_eq!(server.post("/v1/call/bench/echo", &[], "1").status, 200);
    }
    // Its first attempt panics behind the request: the second sends it again, unless it is unknown
    // whether it happened.
    let sends = |behaviour: &str| {
        let url = peer.url(&format!("/do/{behaviour}"));
        let request = json!({ "method": "POST", "url": url, "backoff_ms": 1 });
        let input = json!([[request], 1]).to_string();
        server.post("/v1/call/behaviours/sends_again", &[], &input)
    };
    let answered = sends("answer");
    assert_eq!(answered.status, 200, "{}", answered.json());
    let lost = sends("drop-after");
    assert_eq!((lost.status, &lost.json()["code"]), (424, &"indeterminate".into()));
    let text = metrics(&server);
    let ended = |function: &str, outcome: &str| {
        let labels = format!("{{function=\"{function}\",outcome=\"{outcome}\"}}");
        value(&text, &format!("indelible_executions_ended_total{labels}"))
    };
    let all = ["completed", "failed", "cancelled", "indeterminate"];
    assert_eq!(all.map(|outcome| ended("echo", outcome)), [2.0, 0.0, 0.0, 0.0], "{text}");
    assert_eq!(all.map(|outcome| ended("sends_again", outcome)), [1.0, 0.0, 0.0, 1.0], "{text}");
    let took = |what: &str| value(&text, &format!("indelible_execution_seconds_{what}"));
    assert_eq!(took("bucket{function=\"echo\",le=\"+Inf\"}"), 2.0, "{text}");
    assert_eq!(took("count{function=\"echo\"}"), 2.0, "{text}");
    assert!(took("sum{function=\"echo\"}") > 0.0, "{text}");
    let attempts = ["answered", "not_sent", "unknown"];
    let attempts = attempts
        .map(|end| value(&text, &format!("indelible_effect_attempts_total{{end=\"{end}\"}}")));
    assert_eq!(attempts, [2.0, 0.0, 1.0], "{text}");

    // What it took is counted from its first attempt on.
    let id = answered.json()["execution_id"].as_str().unwrap().to_owned();
    let tree = server.get(&format!("/v1/executions/{id}/tree")).json();
    let first = &tree["executions"][0]["created_at"];
    let detail = server.get(&format!("/v1/executions/{id}")).json();
    let page = server.get("/v1/executions?function=sends_again&state=completed").json();
    for shown in [&detail["execution"], &page["executions"][0]] {
        assert_eq!((&shown["attempts"], &shown["first_created_at"]), (&"2".into(), first));
    }

    let id = lost.json()["execution_id"].as_str().unwrap().to_owned();
    let listed = |state: &str| {
        let page = server.get(&format!("/v1/executions?state={state}&latest=true")).json();
        page["executions"].as_array().unwrap().clone()
    };
    let unknown = listed("indeterminate");
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0]["execution_id"], id.as_str());
    assert_eq!(unknown[0]["state"], "indeterminate");
    assert_eq!(unknown[0]["error"]["kind"], "Indeterminate");
    assert!(listed("failed").is_empty());
}

/// `docs/metrics.md` has each metric that there is and no other, and the rules for Prometheus name
/// none that there is not.
#[test]
fn each_metric_is_documented() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.get("/v1/ready").status, 200, "one request was answered");
    // A transaction that is applied, and one that is refused: counters begin with the first.
    for (key, body) in [
        ("applied", r#"{"operations":[{"add":{"key":"a","delta":1,"unit":"x"}}]}"#),
        ("refused", r#"{"operations":[{"check":{"key":"none","condition":"present"}}]}"#),
    ] {
        server.post("/v1/ledger/transactions", &[("idempotency-key", key)], body);
    }
    let text = metrics(&server);
    let is: BTreeSet<&str> = names(&text, "# TYPE indelible_").collect();
    let rows = DOCUMENT.split("## What to watch").next().unwrap();
    let documented: BTreeSet<&str> = names(rows, "\n| `").map(family).collect();
    assert_eq!(documented, is);
    let named: BTreeSet<&str> =
        names(RULES, "indelible_").filter(|name| !name.is_empty()).map(family).collect();
    assert!(named.len() > 10, "{named:?}");
    let missing: Vec<_> = named.difference(&is).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // Each rule says when, what and how bad.
    let count = |mark: &str| RULES.matches(mark).count();
    let alerts = count("\n      - alert: Indelible");
    assert!(alerts > 10);
    for mark in ["\n        expr: ", "\n        labels: { severity: ", "\n          summary: \""] {
        assert_eq!(count(mark), alerts, "{mark}");
    }
}
