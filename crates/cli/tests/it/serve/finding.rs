//! Finding executions over HTTP: by label, by key, by the first digits of an id, and in all
//! namespaces that a credential may see.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::process::{Answer, Server, request, until};

/// A server with keys for namespaces, and requests under them.
struct House {
    server: Server,
    _folder: tempfile::TempDir,
    admin: String,
    /// For `alpha` alone.
    alpha: String,
    /// For `alpha` and `beta`.
    both: String,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = |name: &str, rest: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
                .args(["token", "create", name, "--data"])
                .arg(folder.path())
                .args(rest)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let roles = ["--role", "call", "--role", "operate"];
        let admin = token("admin", &["--role", "admin"]);
        let alpha = token("alpha", &[&roles[..], &["--namespace", "alpha"]].concat());
        let both = ["--namespace", "alpha", "--namespace", "beta"];
        let both = token("both", &[&roles[..], &both].concat());
        let server = Server::start(folder.path(), &["--keys"]);
        let house = Self { server, _folder: folder, admin, alpha, both };
        let bytes = std::fs::read(indelible_guests::component("script")).unwrap();
        let body = ("application/wasm", &bytes[..]);
        let key = Some(("idempotency-key", "release-1"));
        let deployed = house.ask(&house.admin, "PUT", "/v1/components/script", key, body);
        assert_eq!(deployed.status, 200);
        house
    }

    fn ask(
        &self,
        by: &str,
        method: &str,
        path: &str,
        header: Option<(&str, &str)>,
        (kind, body): (&str, &[u8]),
    ) -> Answer {
        let bearer = format!("Bearer {by}");
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(header);
        headers.extend((method != "GET").then_some(("content-type", kind)));
        request(&self.server.address, method, path, &headers, body).unwrap()
    }

    fn get(&self, by: &str, path: &str) -> Answer {
        self.ask(by, "GET", path, None, ("", b""))
    }

    fn post(&self, path: &str, key: Option<&str>, body: &str) -> Answer {
        let key = key.map(|key| ("idempotency-key", key));
        self.ask(&self.admin, "POST", path, key, ("application/json", body.as_bytes()))
    }

    /// Starts `script`, and returns the id of its execution.
    fn start(&self, namespace: &str, query: &str, key: Option<&str>, steps: &Value) -> String {
        let path = format!("/v1/start/script/main?namespace={namespace}&{query}");
        let answer = self.post(&path, key, &steps.to_string());
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
        answer.json()["execution_id"].as_str().unwrap().to_owned()
    }

    /// The same, when it is over.
    fn run(&self, namespace: &str, query: &str, key: Option<&str>, steps: &Value) -> String {
        let id = self.start(namespace, query, key, steps);
        let path = format!("/v1/executions/{id}/outcome");
        assert!([200, 424].contains(&self.get(&self.admin, &path).status));
        id
    }

    /// The ids of a list.
    fn listed(&self, by: &str, query: &str) -> Vec<String> {
        let answer = self.get(by, &format!("/v1/executions?{query}"));
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        ids(&answer.json())
    }
}

fn ids(page: &Value) -> Vec<String> {
    let rows = page["executions"].as_array().unwrap();
    rows.iter().map(|row| row["execution_id"].as_str().unwrap().to_owned()).collect()
}

fn problem(answer: &Answer) -> (u16, String, String) {
    let body = answer.json();
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    (answer.status, text("code"), text("detail"))
}

/// C-79: labels of a start and of its function are in lists and details, and find their execution in
/// its namespace alone, newest first, page by page. A bad label changes nothing and uses up no key.
#[test]
fn by_label() {
    let house = House::new();
    let done = json!([{ "label": ["stage", "größe ✓"] }, { "return": 1 }]);
    let fails = json!([{ "fail": "no luck" }]);
    let own: Vec<_> = (0..5)
        .map(|number| house.run("alpha", &format!("label=order=7&label=n={number}"), None, &done))
        .collect();
    let failed = house.run("alpha", "label=order=8", Some("order-8"), &fails);
    let foreign = house.run("beta", "label=order=7", None, &done);

    let (alpha, newest) = (&house.alpha, own.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(house.listed(alpha, "label=order=7"), newest);
    assert_eq!(house.listed(alpha, "label=order%3D7&label=n=3"), [own[3].clone()]);
    assert_eq!(house.listed(alpha, "label=stage=gr%C3%B6%C3%9Fe+%E2%9C%93"), newest);
    assert_eq!(house.listed(alpha, "label=order=7&state=failed"), [""; 0]);
    assert_eq!(
        house.listed(alpha, "label=order=8&state=failed&latest=true"),
        std::slice::from_ref(&failed)
    );
    assert_eq!(
        house.listed(&house.both, "label=order=7&namespace=beta"),
        std::slice::from_ref(&foreign)
    );
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page =
            house.get(alpha, &format!("/v1/executions?label=order=7&limit=2{cursor}")).json();
        seen.extend(ids(&page));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, newest);

    let row = house.get(alpha, "/v1/executions?label=order=8").json()["executions"][0].clone();
    assert_eq!((&row["key"], &row["labels"]), (&json!("order-8"), &json!({ "order": "8" })));
    assert_eq!(row["error"], json!({ "kind": "UserError", "message": "no luck" }));
    let detail = house.get(alpha, &format!("/v1/executions/{failed}")).json();
    assert_eq!(detail["execution"], row);
    let row = house.get(alpha, "/v1/executions?label=n=3").json()["executions"][0].clone();
    assert_eq!(row["labels"], json!({ "order": "7", "n": "3", "stage": "größe ✓" }));
    assert!(row.get("key").is_none() && row.get("error").is_none(), "{row}");

    let many = (0..17).map(|number| format!("label=n{number}=x")).collect::<Vec<_>>().join("&");
    let long = format!("label=n={}", "x".repeat(257));
    for (query, why) in [
        ("label=order", "NAME=VALUE"),
        ("label==7", "the name of a label"),
        ("label=a+b=7", "the name of a label"),
        ("label=a=%0a", "no control characters"),
        (long.as_str(), "at most 256 bytes"),
        ("label=a=1&label=a=1", "given twice"),
        (many.as_str(), "at most 16 labels"),
    ] {
        for path in ["/v1/call/script/main", "/v1/start/script/main"] {
            let path = format!("{path}?namespace=alpha&{query}");
            let (status, code, detail) = problem(&house.post(&path, Some("bad"), "[]"));
            assert_eq!((status, code.as_str()), (400, "malformed-request"), "{query}");
            assert!(detail.contains(why), "{query}: {detail}");
        }
        assert_eq!(house.get(alpha, &format!("/v1/executions?{query}")).status, 400, "{query}");
    }
    let used = house.get(alpha, "/v1/executions?key=bad").json();
    assert_eq!((ids(&used), used.get("key")), (Vec::new(), None));
    let good = house.post("/v1/call/script/main?namespace=alpha&label=a=1", Some("bad"), "[]");
    assert_eq!((good.status, good.header("indelible-verdict")), (200, Some("Fresh")));
    // A repetition with other labels is the same request.
    let again = house.post("/v1/call/script/main?namespace=alpha&label=a=2", Some("bad"), "[]");
    assert_eq!((again.status, again.header("indelible-verdict")), (200, Some("PriorResult")));
    assert_eq!(house.listed(alpha, "label=a=1").len(), 1);
    assert_eq!(house.listed(alpha, "label=a=2"), [""; 0]);
}

/// A key leads to the execution that was started under it, in its own namespace; of a key that was
/// used for anything else, the answer says for what.
#[test]
fn by_key() {
    let house = House::new();
    let waits = json!([{ "signal": "go" }]);
    let id = house.start("alpha", "", Some("order 7/é"), &waits);
    let by = |by: &str, key: &str| house.get(by, &format!("/v1/executions?key={key}")).json();
    let found = by(&house.alpha, "order+7/%C3%A9");
    assert_eq!(ids(&found), std::slice::from_ref(&id));
    assert_eq!(found["key"]["used_for"], "start");
    let operation = &found["key"]["operation"];
    assert_eq!(operation["execution_id"], id.as_str());
    assert_eq!(
        (&operation["namespace"], &operation["in_progress"]),
        (&json!("alpha"), &json!(true))
    );
    assert!(found["executions"][0]["key"] == "order 7/é", "{found}");

    // Unknown, and used in another namespace: the same.
    let unknown = house.get(&house.both, "/v1/executions?namespace=beta&key=nothing");
    let foreign = house.get(&house.both, "/v1/executions?namespace=beta&key=order+7/%C3%A9");
    assert_eq!((unknown.status, &unknown.body), (200, &foreign.body));
    assert_eq!(unknown.json(), json!({ "executions": [] }));
    let refused = house.get(&house.alpha, "/v1/executions?namespace=beta&key=nothing");
    assert_eq!(refused.status, 403);

    let signal = house.post(&format!("/v1/executions/{id}/signals/go"), Some("signal-1"), "1");
    assert_eq!((signal.status, signal.header("indelible-id")), (200, Some(id.as_str())));
    let cancelled = house.start("alpha", "", None, &waits);
    let cancel = format!("/v1/executions/{cancelled}/cancel");
    assert_eq!(house.post(&cancel, Some("cancel-1"), "{}").status, 200);
    let used = |key: &str, what: &str| {
        let found = by(&house.alpha, key);
        assert_eq!(found, json!({ "executions": [], "key": { "used_for": what } }), "{key}");
    };
    used("signal-1", "signal");
    used("cancel-1", "cancel");
    // The keys of deployments are the server's, and shown to those that are good everywhere.
    assert_eq!(by(&house.alpha, "release-1"), json!({ "executions": [] }));
    assert_eq!(by(&house.admin, "release-1")["key"]["used_for"], "deploy");

    for (query, why) in [
        ("key=a&namespace=*", "one namespace"),
        ("key=a&state=failed", "leave state out"),
        ("key=a&label=a=1", "leave label out"),
        ("key=", "key"),
        ("key=%0a", "key"),
    ] {
        let (status, code, detail) =
            problem(&house.get(&house.admin, &format!("/v1/executions?{query}")));
        assert_eq!((status, code.as_str()), (400, "malformed-request"), "{query}");
        assert!(detail.contains(why), "{query}: {detail}");
    }
}

/// The first digits of an id stand for it in every path of an execution or a promise, for reading and
/// for changes, which say the whole id; a child's path may follow. Foreign executions are neither
/// found nor named.
#[test]
fn by_the_first_digits() {
    let house = House::new();
    let calls = json!([{ "call": ["c", "main", [{ "signal": "go" }]] }, { "await": "c" }]);
    let id = house.start("alpha", "", None, &calls);
    let foreign = house.start("beta", "", None, &json!([{ "signal": "go" }]));
    let short = &id[..6];
    let by = |by: &str, path: &str| house.get(by, &format!("/v1/executions/{path}"));
    until("it waits", || {
        let detail = by(&house.alpha, &format!("{short}.0")).json();
        (detail["execution"]["state"] == "blocked").then_some(())
    });
    for digits in [6, 7, 63, 64] {
        let detail = by(&house.alpha, &id[..digits]).json();
        assert_eq!(detail["execution"]["execution_id"], id.as_str(), "{digits}");
    }
    assert_eq!(
        by(&house.alpha, &format!("{short}/tree")).json()["executions"][1]["state"],
        "blocked"
    );
    for path in ["journal", "logs", "outcome?wait=0"] {
        let (whole, short) = (format!("{id}/{path}"), format!("{short}/{path}"));
        let (whole, short) = (by(&house.alpha, &whole), by(&house.alpha, &short));
        assert_eq!((short.status, &short.body), (whole.status, &whole.body), "{path}");
    }
    // Foreign and missing: the same.
    let missing = if foreign.starts_with("ffffff") { "eeeeee" } else { "ffffff" };
    let (foreign_one, missing_one) = (by(&house.alpha, &foreign[..8]), by(&house.alpha, missing));
    assert_eq!((foreign_one.status, &foreign_one.body), (404, &missing_one.body));
    assert_eq!(by(&house.both, &foreign[..8]).status, 200);
    for bad in ["abcde", "ABCDEF", "abcdeg", "abcdef.", "abcdef.x", "abcdef.01", "%20abcdef"] {
        let (status, code, detail) = problem(&by(&house.alpha, bad));
        assert_eq!((status, code.as_str()), (400, "malformed-request"), "{bad}");
        assert!(detail.contains("6 to 64 lower-case"), "{detail}");
    }

    let write = |path: &str, body: &str| house.post(&format!("/v1/{path}"), None, body);
    let signal = write(&format!("executions/{short}.0/signals/go"), "1");
    let child = format!("{id}.0");
    assert_eq!((signal.status, signal.header("indelible-id")), (200, Some(child.as_str())));
    let cancel = write(&format!("executions/{}/cancel", &foreign[..9]), "{}");
    assert_eq!((cancel.status, cancel.header("indelible-id")), (200, Some(foreign.as_str())));
    let resolve = r#"{"resolution":{"kind":"did_not_happen"},"reason":"so it is"}"#;
    let (whole, short) = (
        write(&format!("unresolved/{id}.0/resolve"), resolve),
        write(&format!("unresolved/{short}.0/resolve"), resolve),
    );
    assert_eq!((short.status, problem(&short)), (whole.status, problem(&whole)));
    assert_eq!(problem(&short).1, "wrong-state");
}

/// Digits that fit several executions lead to none of them: the problem names those that the
/// credential may see.
#[test]
fn digits_that_fit_several() {
    let house = House::new();
    let done = json!([{ "return": 1 }]);
    // By chance two of a few thousand ids share their first six digits.
    let mut seen = std::collections::HashMap::new();
    let (one, two) = loop {
        let id = house.start("alpha", "", None, &done);
        if let Some(other) = seen.insert(id[..6].to_owned(), id.clone()) {
            break (other, id);
        }
        assert!(seen.len() < 60_000, "ids do not collide");
    };
    let short = &one[..6];
    let path = format!("/v1/executions/{short}");
    let (status, code, detail) = problem(&house.get(&house.alpha, &path));
    assert_eq!((status, code.as_str()), (409, "ambiguous"));
    assert!(
        detail.contains(&one) && detail.contains(&two) && detail.contains("(main)"),
        "{detail}"
    );
    let cancel = house.post(&format!("{path}/cancel"), Some("c"), "{}");
    assert_eq!((cancel.status, cancel.header("indelible-id")), (409, None));
    let unused = house.get(&house.alpha, "/v1/executions?key=c").json();
    assert_eq!(unused, json!({ "executions": [] }));
    let digits = (6..).find(|digits| one[..*digits] != two[..*digits]).unwrap();
    let longer = house.get(&house.alpha, &format!("/v1/executions/{}", &one[..digits]));
    assert_eq!(longer.json()["execution"]["execution_id"], one.as_str());
}

/// `*` is all that the credential may see, in one order of time, page by page: one namespace, some, or
/// all but the server's own.
#[test]
fn in_all_namespaces() {
    let house = House::new();
    let done = json!([{ "return": 1 }]);
    let mut all = Vec::new();
    for number in 0..9 {
        let namespace = ["alpha", "beta", "gamma"][number % 3];
        all.push((namespace, house.run(namespace, "label=order=7", None, &done)));
    }
    all.reverse();
    let of = |names: &[&str]| {
        let own = all.iter().filter(|(namespace, _)| names.contains(namespace));
        own.map(|(_, id)| id.clone()).collect::<Vec<_>>()
    };
    for (by, names) in [
        (&house.alpha, &["alpha"][..]),
        (&house.both, &["alpha", "beta"]),
        (&house.admin, &["alpha", "beta", "gamma"]),
    ] {
        for query in ["", "&label=order=7", "&function=main&state=completed&latest=true"] {
            assert_eq!(house.listed(by, &format!("namespace=*{query}")), of(names), "{query}");
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let path = format!("/v1/executions?namespace=*{query}&limit=2{cursor}");
                let page = house.get(by, &path).json();
                for row in page["executions"].as_array().unwrap() {
                    assert!(names.contains(&row["namespace"].as_str().unwrap()), "{row}");
                }
                seen.extend(ids(&page));
                let Some(next) = page["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            assert_eq!(seen, of(names), "{query}");
        }
    }
    let begins = format!("namespace=*&id_prefix={}", &all[0].1[..12]);
    assert_eq!(house.listed(&house.admin, &begins), [all[0].1.clone()]);
    assert_eq!(all[0].0, "gamma");
    assert_eq!(house.listed(&house.both, &begins), [""; 0]);
    // Only lists take it.
    assert_eq!(house.get(&house.admin, "/v1/unresolved?namespace=*").status, 200);
    let operation = "/v1/operations/0190163d-8694-739b-aea5-966c26f8ad91?namespace=*";
    assert_eq!(house.get(&house.admin, operation).status, 400);
    assert_eq!(house.post("/v1/call/script/main?namespace=*", None, "[]").status, 400);
}
