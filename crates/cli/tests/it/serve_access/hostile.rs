//! Requests that mean harm. Each is answered with a problem document, or its connection is closed;
//! none is the server's mistake, none has an effect, and the next request is served.

use indelible_api::Code;
use indelible_server::ROUTES;

use crate::serve_access::support::{Running, json, text};

/// A request, and the statuses that may come of it; 0 is a connection that was closed.
struct Case {
    name: String,
    bytes: Vec<u8>,
    /// The client stops in the middle.
    stops: bool,
    statuses: Vec<u16>,
}

fn case(name: &str, bytes: impl Into<Vec<u8>>, statuses: &[u16]) -> Case {
    Case { name: name.to_owned(), bytes: bytes.into(), stops: false, statuses: statuses.to_vec() }
}

/// A server, and what is there to be harmed: an execution that waits, and one that is over.
struct Target {
    server: Running,
    _folder: tempfile::TempDir,
    waits: String,
    over: String,
}

impl Target {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Running::start(folder.path(), &[]);
        server.deploy(None);
        let waits = server.begin(None, "listen", "default", "9").0;
        let over = server.begin(None, "echo", "default", "1").0;
        Self { server, _folder: folder, waits, over }
    }

    /// The head of a request up to its last header, without the empty line.
    fn head(&self, method: &str, path: &str) -> String {
        let host = &self.server.address;
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n")
    }

    fn get(&self, path: &str) -> Vec<u8> {
        format!("{}\r\n", self.head("GET", path)).into_bytes()
    }

    /// A request with JSON, and further header lines.
    fn post(&self, path: &str, lines: impl AsRef<[u8]>, body: impl AsRef<[u8]>) -> Vec<u8> {
        let body = body.as_ref();
        let mut bytes = self.head("POST", path).into_bytes();
        bytes.extend_from_slice(b"content-type: application/json\r\n");
        bytes.extend_from_slice(lines.as_ref());
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn call(&self, lines: impl AsRef<[u8]>, body: impl AsRef<[u8]>) -> Vec<u8> {
        self.post("/v1/call/bench/echo", lines, body)
    }

    /// A path for a route of the table.
    fn path(&self, path: &str) -> String {
        let path = path.replace("{component}", "bench").replace("{function}", "echo");
        let path = path.replace("{execution}", &self.over).replace("{signal}", "go");
        let path = path.replace("{promise}", &format!("{}.1", self.over));
        let path = path.replace("{operation}", "0190163d-8694-739b-aea5-966c26f8ad91");
        let path = path.replace("{vault}", "till").replace("{client}", "c").replace("{key}", "a");
        path.replace("{height}", "1").replace("{token}", "0123456789abcdef")
    }

    /// All of them, one after the other; what is wrong is told at the end.
    fn suffer(&self, cases: Vec<Case>) {
        let before = self.server.snapshot(None);
        let mut wrong = Vec::new();
        for Case { name, bytes, stops, statuses } in cases {
            let answers = self.server.raw(&bytes, stops);
            let status = answers.first().map_or(0, |answer| answer.status);
            let said: Vec<_> = answers.iter().map(|answer| (answer.status, text(answer))).collect();
            if !statuses.contains(&status) {
                wrong.push(format!("{name}: {said:?} and not {statuses:?}"));
            }
            for answer in &answers {
                let kind = answer.header("content-type").unwrap_or_default();
                let document = kind == "application/problem+json"
                    && answer.json()["status"] == answer.status
                    && !answer.json()["detail"].as_str().unwrap_or_default().is_empty();
                let bare = answer.body.is_empty() && matches!(answer.status, 400 | 414 | 431);
                if answer.status < 400 || answer.status >= 500 || !(document || bare) {
                    wrong.push(format!("{name}: no clear problem: {said:?}"));
                }
            }
            if self.server.snapshot(None) != before {
                wrong.push(format!("{name}: it had an effect"));
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        assert_eq!(self.server.ask("POST", "/v1/call/bench/echo", None, json("1")).status, 200);
    }
}

/// A parameter that a path does not have, or has twice, or that is no UTF-8, on every path.
#[test]
fn queries() {
    let target = Target::new();
    let mut cases = Vec::new();
    for route in ROUTES {
        let path = target.path(route.path);
        let mut queries = vec!["nonsense=1", "%ff=1", "=", "nonsense", "wait=1&nonsense=1"];
        if route.query.iter().any(|parameter| parameter.name == "namespace") {
            queries.extend(["namespace=default&namespace=default", "namespace=a&names%70ace=b"]);
        }
        for query in queries {
            let head = target.head(route.method.as_str(), &format!("{path}?{query}"));
            cases.push(case(&format!("{route:?} {query}"), format!("{head}\r\n"), &[400]));
        }
    }
    let lists = [
        "/v1/executions".to_owned(),
        format!("/v1/executions/{}/tree", target.over),
        "/v1/unresolved".to_owned(),
        "/v1/audit".to_owned(),
    ];
    let long = "x".repeat(2_000);
    for list in &lists {
        for query in [
            "limit=0",
            "limit=501",
            "limit=-1",
            "limit=%2b1",
            "limit=1.0",
            "limit=1e1",
            "limit=",
            "limit=18446744073709551616",
            "cursor=garbage",
            "cursor=~",
            "cursor=1_",
            "cursor=%00",
            "cursor=%ff",
            "cursor=99999999999999999999_00",
            "cursor=0000000000000000000000000000000000000000000000000000000000000000@1",
        ] {
            // One of the forms is a place in a tree.
            let fits = query.contains("@1") && list.ends_with("/tree");
            if !fits {
                cases.push(case(query, target.get(&format!("{list}?{query}")), &[400]));
            }
        }
        cases.push(case("long cursor", target.get(&format!("{list}?cursor={long}")), &[400]));
    }
    for query in [
        "namespace=ABC",
        "namespace=a%20b",
        "namespace=a%2fb",
        "namespace=",
        "namespace=%C3%A4",
        "namespace=..",
        "state=nothing",
        "state=",
        "state=held,,held",
        "state=Held",
        "created_from=yesterday",
        "created_before=2026-13-01T00:00:00Z",
        "created_from=-1",
        "created_before=99999-01-01T00:00:00Z",
        "function=",
        "latest=",
        "latest",
        "latest=1",
        "latest=True",
        "latest=yes",
        "latest=true%20",
        "latest=true&latest=true",
        "id_prefix=",
        "id_prefix=abcde",
        "id_prefix=ABCDEF",
        "id_prefix=abcdeg",
        "id_prefix=abcdef.0",
        "id_prefix=%2babcde",
        "id_prefix=abcde%00",
        "id_prefix=%ff%ff%ff%ff%ff%ff",
        "id_prefix=abcdef&id_prefix=abcdef",
        "id_prefix=abcdef&cursor=garbage",
    ] {
        cases.push(case(query, target.get(&format!("/v1/executions?{query}")), &[400]));
    }
    let names = "n".repeat(300);
    let path = format!("/v1/executions?namespace={names}");
    cases.push(case("long namespace", target.get(&path), &[400]));
    let path = format!("/v1/executions?id_prefix={}0", target.over);
    cases.push(case("65 digits", target.get(&path), &[400]));
    let path = format!("/v1/executions?function={names}");
    cases.push(case("long function", target.get(&path), &[400]));
    for wait in ["-1", "NaN", "nan", "inf", "-inf", "1e9", "1e400", "300.1", "", "1s", "0x1", " 1"]
    {
        let wait = wait.replace(' ', "%20");
        let path = format!("/v1/call/bench/echo?wait={wait}");
        cases.push(case(&path, target.post(&path, "", "1"), &[400]));
        let path = format!("/v1/executions/{}/outcome?wait={wait}", target.over);
        cases.push(case(&path, target.get(&path), &[400]));
    }
    for query in [
        "from=-1",
        "from=4294967296",
        "attempts=",
        "attempts=0",
        "attempts=1.1",
        "attempts=a",
        "attempts=4294967296",
    ] {
        let path = format!("/v1/executions/{}/journal?{query}", target.over);
        cases.push(case(&path, target.get(&path), &[400]));
    }
    for query in ["from=", "from=1", "from=1_", "from=-1_0", "from=01_0", "from=1_0_0", "limit=0"] {
        let path = format!("/v1/executions/{}/logs?{query}", target.over);
        cases.push(case(&path, target.get(&path), &[400]));
    }
    let both = "/v1/audit?before=2026-01-01T00:00:00Z&cursor=1_00";
    cases.push(case("before and cursor", target.get(both), &[400]));
    target.suffer(cases);
}

/// Paths that could be taken for others.
#[test]
fn paths() {
    let target = Target::new();
    let mut cases = Vec::new();
    for path in [
        "//v1/health",
        "/v1//health",
        "/v1/health/",
        "/V1/health",
        "/v1/HEALTH",
        "/v1/./health",
        "/v1/executions/../health",
        "/v1/%2e%2e/v1/health",
        "/v1/health%00",
        "/v1/health%20",
        "/%76%31/health",
        "/v1%2fhealth",
        "/v1/health;x=1",
        "/",
        "/v1",
        "/v1/",
        "/metrics/",
        "/..",
        "/v1/executions/",
        "/v1/call/bench",
        "/v1/components/a/b",
        "/v1/health\\",
        "/etc/passwd",
    ] {
        cases.push(case(path, target.get(path), &[404]));
    }
    for name in ["a%2fb", "..", "%2e%2e", "%2e%2e%2fbench", "BENCH", "bench%00", "bench%20", "%25"]
    {
        let path = format!("/v1/components/{name}");
        cases.push(case(&path, target.get(&path), &[404]));
        let path = format!("/v1/call/{name}/echo");
        cases.push(case(&path, target.post(&path, "", "1"), &[404]));
        let path = format!("/v1/call/bench/{name}");
        cases.push(case(&path, target.post(&path, "", "1"), &[404]));
        if name == "BENCH" {
            continue;
        }
        let mut put = target.head("PUT", &format!("/v1/components/{name}"));
        put.push_str("content-type: application/wasm\r\ncontent-length: 4\r\n\r\n\0asm");
        cases.push(case(&format!("PUT {name}"), put, &[400, 422]));
    }
    let long = "n".repeat(300);
    for path in [format!("/v1/call/{long}/echo"), format!("/v1/call/bench/{long}")] {
        cases.push(case("a long name", target.post(&path, "", "1"), &[404]));
    }
    for method in ["GET", "POST"] {
        let paths = [
            format!("/v1/components/{long}"),
            format!("/v1/executions/{long}"),
            format!("/v1/operations/{long}"),
            "/v1/executions/%ff".to_owned(),
            "/v1/components/%c3%28".to_owned(),
            "/v1/executions/%00".to_owned(),
            format!("/v1/executions/{}", target.over.to_uppercase()),
            format!("/v1/executions/{}%20", target.over),
            format!("/v1/executions/{}.", target.over),
            format!("/v1/executions/{}.01", target.over),
            format!("/v1/executions/{}.-1", target.over),
            format!("/v1/executions/{}.4294967296", target.over),
            format!("/v1/executions/{}{}", target.over, ".1".repeat(200)),
        ];
        for path in paths {
            let head = format!("{}\r\n", target.head(method, &path));
            cases.push(case(&format!("{method} {path}"), head, &[400, 404, 405]));
        }
    }
    for bytes in [&b"/v1/components/\xff"[..], b"/v1/components/\xc3\xa4", b"/v1/health\0"] {
        let mut request = b"GET ".to_vec();
        request.extend_from_slice(bytes);
        let host = &target.server.address;
        let rest = format!(" HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        request.extend_from_slice(rest.as_bytes());
        cases.push(case(&format!("{}", bytes.escape_ascii()), request, &[400, 404]));
    }
    let far = format!("/v1/{}", "x".repeat(60_000));
    cases.push(case("a very long path", target.get(&far), &[414, 431, 404, 0]));
    let host = &target.server.address;
    let absolute = format!("GET http://evil.example/v1/health HTTP/1.1\r\nhost: {host}\r\n");
    cases.push(case("another host in the path", absolute + "connection: close\r\n\r\n", &[403]));
    for method in ["BREW", "TRACE", "PATCH", "get", "PROPFIND", "DELETE"] {
        let head = format!("{}\r\n", target.head(method, "/v1/executions"));
        cases.push(case(method, head, &[405]));
    }
    let star = format!("{}\r\n", target.head("OPTIONS", "*"));
    cases.push(case("OPTIONS *", star, &[404, 400]));
    let connect = format!("{}\r\n", target.head("CONNECT", host));
    cases.push(case("CONNECT", connect, &[400, 404, 405]));
    target.suffer(cases);
}

/// I-6, C-3: keys, ids and other headers that are none, and lines that try to become others.
#[test]
fn headers() {
    let target = Target::new();
    let mut cases = Vec::new();
    let key = |value: &[u8]| [b"idempotency-key: ", value, b"\r\n"].concat();
    let long = "k".repeat(256);
    let wide = "ä".repeat(256);
    let values: &[&[u8]] = &[
        b"",
        b"   ",
        b"a\tb",
        b"a\x01b",
        b"a\x7fb",
        b"a\0b",
        b"a\rb",
        b"a\nb",
        b"a\r\n b",
        b"a\r\nb",
        b"a\xffb",
        "\u{a0}".as_bytes(),
        "\u{85}".as_bytes(),
        long.as_bytes(),
        wide.as_bytes(),
    ];
    for value in values {
        let name = format!("key {}", value.escape_ascii());
        cases.push(case(&name, target.call(key(value), "1"), &[400]));
        let path = format!("/v1/executions/{}/cancel", target.waits);
        cases.push(case(&name, target.post(&path, key(value), "{}"), &[400]));
    }
    cases.push(case("two keys", target.call([key(b"a"), key(b"b")].concat(), "1"), &[400]));
    let id = "0190163d-8694-739b-aea5-966c26f8ad91";
    let ids = [
        id.to_uppercase(),
        id.replace('-', ""),
        format!("{{{id}}}"),
        format!("urn:uuid:{id}"),
        id.replace("-7", "-4"),
        format!("{id}0"),
        id[1..].to_owned(),
        String::new(),
        "00000000-0000-0000-0000-000000000000".to_owned(),
        "ffffffff-ffff-ffff-ffff-ffffffffffff".to_owned(),
        // Made in the far future.
        "ffffffff-ffff-7fff-bfff-ffffffffffff".to_owned(),
    ];
    for id in &ids {
        let line = format!("indelible-operation-id: {id}\r\n");
        cases.push(case(&line, target.call(&line, "1"), &[400]));
        let path = format!("/v1/operations/{id}");
        // Without an id it is another path.
        let status = if id.is_empty() { 404 } else { 400 };
        cases.push(case(&path, target.get(&path), &[status]));
    }
    // Made long ago, and unknown: the server can no longer tell whether the id was used.
    let line = format!("indelible-operation-id: {id}\r\n");
    cases.push(case("an old id", target.call(&line, "1"), &[410]));
    let both = format!("idempotency-key: a\r\n{line}");
    cases.push(case("key and id", target.call(both, "1"), &[400]));
    cases.push(case("two ids", target.call(format!("{line}{line}"), "1"), &[400]));
    for word in ["wait", "", "Attach", "attach, conflict"] {
        let line = format!("indelible-if-in-flight: {word}\r\n");
        cases.push(case(&line, target.call(&line, "1"), &[400]));
    }
    for id in
        ["garbage", "1", "1:", ":1", "0:1", "1.1:1", "1:-1", "1:99999999999999999999", "\u{e4}"]
    {
        let path = format!("/v1/executions/{}/events", target.waits);
        let head = format!("{}last-event-id: {id}\r\n\r\n", target.head("GET", &path));
        cases.push(case(&format!("last event {id}"), head, &[400]));
    }
    let headers = |count: usize| {
        let lines: String = (0..count).map(|number| format!("x-{number}: y\r\n")).collect();
        format!("{}{lines}\r\n", target.head("GET", "/v1/executions"))
    };
    cases.push(case("101 headers", headers(99), &[431, 400]));
    cases.push(case("10,000 headers", headers(10_000), &[431, 400, 0]));
    let head = target.head("GET", "/v1/executions");
    let large = format!("{head}x: {}\r\n\r\n", "y".repeat(60_000));
    cases.push(case("a very long header", large, &[431, 400, 0]));
    for line in ["no colon", ": no name", "a b: c", "a : b", "\u{e4}: b", "x: y\r\n z: w", "a\0: b"]
    {
        let bad = format!("{head}{line}\r\n\r\n");
        cases.push(case(line, bad, &[400]));
    }
    for version in ["HTTP/1.2", "HTTP/2.0", "HTTP/9.9", "http/1.1", "HTTP/1.1 x", "FTP/1.1", ""] {
        let host = &target.server.address;
        let bad = format!("GET /v1/executions {version}\r\nhost: {host}\r\n\r\n");
        cases.push(case(&format!("version {version}"), bad, &[400, 0]));
    }
    // Without a host the server cannot tell whether the request is meant for it.
    cases.push(case("HTTP/1.0", "GET /v1/executions HTTP/1.0\r\n\r\n", &[403]));
    cases.push(case(
        "TLS",
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..],
        &[400, 0],
    ));
    target.suffer(cases);
    assert_eq!(target.server.raw(headers(97).as_bytes(), false)[0].status, 200, "100 headers");
}

/// Bodies that are none, too many, or not what their length says.
#[test]
fn bodies() {
    let target = Target::new();
    let mut cases = Vec::new();
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let members = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    let texts: &[&[u8]] = &[
        b"{",
        b"}",
        b"1 2",
        b"1,",
        b"{} {}",
        b"{\"a\":1}x",
        b"\xff",
        b"\"\xc3\x28\"",
        b"\"\xed\xa0\x80\"",
        b"NaN",
        b"Infinity",
        b"01",
        b"+1",
        b".5",
        b"1.",
        b"0x10",
        b"'a'",
        b"{a:1}",
        b"[1,]",
        b"nul",
        b"\"\n\"",
        b"\"\\x\"",
        b"\xef\xbb\xbf1",
        b" ",
        b"\0",
        b"// 1",
        deep.as_bytes(),
        members.as_bytes(),
    ];
    for body in texts {
        let name: String = body.escape_ascii().to_string().chars().take(20).collect();
        cases.push(case(&name, target.call("", body), &[400]));
        let signal = format!("/v1/executions/{}/signals/go", target.waits);
        cases.push(case(&name, target.post(&signal, "", body), &[400]));
        let cancel = format!("/v1/executions/{}/cancel", target.waits);
        cases.push(case(&name, target.post(&cancel, "", body), &[400]));
        cases.push(case(&name, target.post("/v1/tokens", "", body), &[400]));
    }
    let long = "x".repeat(2_000);
    let cancel = format!("/v1/executions/{}/cancel", target.waits);
    for body in [
        r#"{"reason":"a","reason":"b"}"#,
        r#"{"reason":1}"#,
        r#"{"reason":null}"#,
        r#"{"why":"a"}"#,
        "[]",
        "null",
        "1e999999",
        r#""text""#,
        &format!(r#"{{"reason":"{long}"}}"#),
    ] {
        cases.push(case(body, target.post(&cancel, "", body), &[400]));
    }
    let name = "n".repeat(300);
    for body in [
        r#"{"name":"a","name":"b","roles":["call"],"namespaces":["a"]}"#.to_owned(),
        r#"{"name":"a","roles":[],"namespaces":["a"]}"#.to_owned(),
        r#"{"name":"a","roles":["root"],"namespaces":["a"]}"#.to_owned(),
        r#"{"name":"a","roles":["admin"],"namespaces":["a"]}"#.to_owned(),
        r#"{"name":"a","roles":["call"],"namespaces":[]}"#.to_owned(),
        r#"{"name":"a","roles":["call"],"namespaces":["*","a"]}"#.to_owned(),
        r#"{"name":"a","roles":["call"],"namespaces":["A"]}"#.to_owned(),
        r#"{"name":"a\nb","roles":["call"],"namespaces":["a"]}"#.to_owned(),
        r#"{"name":"","roles":["call"],"namespaces":["a"]}"#.to_owned(),
        r#"{"name":"a","roles":["call"],"namespaces":["a"],"more":1}"#.to_owned(),
        r#"{"name":"a","roles":["call"],"namespaces":["a"],"expires_at":"never"}"#.to_owned(),
        r#"{"name":"a","roles":["call"],"namespaces":["a"],"expires_at":"2001-01-01T00:00:00Z"}"#
            .to_owned(),
        r#"{"name":"a","roles":["call"]}"#.to_owned(),
        r#"["a",["call"],["a"],null]"#.to_owned(),
        format!(r#"{{"name":"{name}","roles":["call"],"namespaces":["a"]}}"#),
    ] {
        cases.push(case(&body, target.post("/v1/tokens", "", &body), &[400]));
    }
    let good = r#"{"name":"a","roles":["call"],"namespaces":["a"]}"#;
    let keyed = target.post("/v1/tokens", "idempotency-key: a\r\n", good);
    cases.push(case("a key for a key", keyed, &[400]));

    // What is not there, or not in a state for it.
    let none = "00".repeat(32);
    let over = &target.over;
    let reason = r#"{"resolution":{"kind":"did_not_happen"},"reason":"a"}"#;
    for (path, body, statuses) in [
        (format!("/v1/unresolved/{none}.1/resolve"), reason, &[404][..]),
        (format!("/v1/unresolved/{none}/resolve"), reason, &[404]),
        ("/v1/unresolved/nothing/resolve".to_owned(), reason, &[400]),
        (format!("/v1/unresolved/{over}/resolve"), reason, &[404]),
        (format!("/v1/unresolved/{over}.1/resolve"), reason, &[404, 409]),
        (format!("/v1/unresolved/{}.1/resolve", target.waits), reason, &[404, 409]),
        (format!("/v1/executions/{over}/signals/go"), "1", &[409]),
        (format!("/v1/executions/{over}/cancel"), "{}", &[409]),
        (format!("/v1/executions/{over}/release"), "{}", &[409]),
        (format!("/v1/executions/{over}/fail"), "{}", &[409]),
        (format!("/v1/executions/{over}.7/cancel"), "{}", &[404, 409]),
        (format!("/v1/executions/{over}.7/signals/go"), "1", &[404, 409]),
        (format!("/v1/executions/{none}/signals/go"), "1", &[404]),
        (format!("/v1/executions/{}/signals/{name}", target.waits), "1", &[400]),
        (format!("/v1/executions/{}/signals/%00", target.waits), "1", &[400]),
        (format!("/v1/executions/{}/signals/%ff", target.waits), "1", &[400]),
    ] {
        cases.push(case(&path, target.post(&path, "", body), statuses));
    }
    for body in [
        r#"{"resolution":{"kind":"perhaps"},"reason":"a"}"#,
        r#"{"resolution":{"kind":"did_not_happen"},"reason":""}"#,
        r#"{"resolution":{"kind":"did_not_happen"},"reason":" "}"#,
        r#"{"resolution":{"kind":"did_not_happen"}}"#,
        r#"{"resolution":{"kind":"run_again","status":200},"reason":"a"}"#,
        r#"{"resolution":{"kind":"happened","status":99},"reason":"a"}"#,
        r#"{"resolution":{"kind":"happened","status":1e400},"reason":"a"}"#,
        r#"{"resolution":{"kind":"happened","status":99999999999999999999},"reason":"a"}"#,
    ] {
        let path = format!("/v1/unresolved/{over}.1/resolve");
        cases.push(case(body, target.post(&path, "", body), &[400]));
    }

    // Lengths that lie.
    let head =
        format!("{}content-type: application/json\r\n", target.head("POST", "/v1/call/bench/echo"));
    let length = |length: &str| format!("{head}content-length: {length}\r\n\r\n1");
    for lie in ["-1", "+1", "1, 2", "0x1", "a", "", "99999999999999999999"] {
        cases.push(case(&format!("length {lie}"), length(lie), &[400, 413]));
    }
    let two = format!("{head}content-length: 1\r\ncontent-length: 2\r\n\r\n1");
    cases.push(case("two lengths", two, &[400]));
    cases.push(case("too large", length("4300000"), &[413]));
    cases.push(case("far too large", length("9223372036854775807"), &[413]));
    cases.push(Case { stops: true, ..case("less than it says", length("10"), &[400, 0]) });
    let chunked = |chunks: &str| format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}");
    for bad in [
        "x\r\n1\r\n0\r\n\r\n",
        "-1\r\n1\r\n",
        "1\r\n11\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n1",
        "1;\n1\r\n",
    ] {
        let name = format!("chunks {}", bad.escape_debug());
        cases.push(Case { stops: true, ..case(&name, chunked(bad), &[400, 0]) });
    }
    cases.push(Case { stops: true, ..case("chunks that end early", chunked("5\r\n1"), &[400, 0]) });
    for coding in
        ["gzip", "chunked, gzip", "xchunked", "identity", "chunked\r\ntransfer-encoding: x"]
    {
        let bad = format!("{head}transfer-encoding: {coding}\r\n\r\n0\r\n\r\n");
        cases.push(case(coding, bad, &[400, 501, 411]));
    }
    let body = format!("{}content-length: 1\r\n\r\n1", target.head("GET", "/v1/executions"));
    cases.push(case("a body on GET", body, &[400]));
    let body = format!(
        "{}content-length: 1\r\n\r\n1",
        target.head("DELETE", "/v1/tokens/0123456789abcdef")
    );
    cases.push(case("a body on DELETE", body, &[400]));
    let large = format!("\"{}\"", "x".repeat(4 << 20));
    cases.push(case("more than a payload has", target.call("", &large), &[413]));
    let mut endless = chunked("").into_bytes();
    for _ in 0..90 {
        endless.extend_from_slice(format!("10000\r\n{}\r\n", "1".repeat(0x10000)).as_bytes());
    }
    cases.push(case("chunks without an end", endless, &[413]));
    for (component, status) in
        [(&b"\0asm\x01\0\0\0"[..], 422), (b"\0asm", 422), (b"", 415), (b"#!/bin/sh", 422)]
    {
        let mut put = target.head("PUT", "/v1/components/bench").into_bytes();
        let kind = if component.is_empty() { "text/plain" } else { "application/wasm" };
        let rest = format!("content-type: {kind}\r\ncontent-length: {}\r\n\r\n", component.len());
        put.extend_from_slice(rest.as_bytes());
        put.extend_from_slice(component);
        cases.push(case(&format!("component {}", component.escape_ascii()), put, &[status]));
    }
    target.suffer(cases);
}

/// A body that is encoded is refused on every path that takes one, before it is read: nothing decodes
/// it, so it would be taken for what it is not.
#[test]
fn encoded_bodies() {
    let target = Target::new();
    let mut cases = Vec::new();
    for route in ROUTES {
        if !route.problems().any(|code| code == Code::UnsupportedMediaType) {
            continue;
        }
        let wasm = route.method == "PUT" && route.path == "/v1/components/{component}";
        let kind = if wasm { "application/wasm" } else { "application/json" };
        let path = target.path(route.path);
        let head = target.head(route.method.as_str(), &path);
        for lines in [
            "content-encoding: gzip\r\ncontent-length: 4000000",
            "content-encoding: GZIP\r\ncontent-length: 0",
            "content-encoding: br\r\ntransfer-encoding: chunked",
            "content-encoding: identity, gzip\r\ncontent-length: 1",
            "content-encoding: identity\r\ncontent-encoding: zstd\r\ncontent-length: 1",
            "content-encoding: aws-chunked\r\ncontent-length: 1",
            "transfer-encoding: gzip, chunked",
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked, chunked",
        ] {
            let bytes = format!("{head}content-type: {kind}\r\n{lines}\r\n\r\n");
            let name = format!("{} {}: {lines}", route.method, route.path);
            cases.push(case(&name, bytes, &[415]));
        }
    }
    assert!(cases.len() > 9 * 5, "{}", cases.len());
    target.suffer(cases);
    // What says that nothing was done to it is as good as one that says nothing.
    for lines in [
        "content-encoding: identity\r\n",
        "content-encoding: Identity\r\n",
        "content-encoding:\r\n",
    ] {
        let answers = target.server.raw(&target.call(lines, "1"), false);
        assert_eq!(answers[0].status, 200, "{lines}: {}", text(&answers[0]));
    }
    let head = target.head("POST", "/v1/call/bench/echo");
    let chunked = format!(
        "{head}content-type: application/json\r\ntransfer-encoding: Chunked\r\n\r\n1\r\n7\r\n0\r\n\r\n"
    );
    assert_eq!(target.server.raw(chunked.as_bytes(), false)[0].status, 200);
}

/// What is odd and no mistake: it is taken as it was written, with a key or without.
#[test]
fn what_is_odd_and_good() {
    let target = Target::new();
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    for (number, body) in [
        "1e999999",
        "-0",
        "123456789012345678901234567890.123456789",
        r#"{"a":1,"a":2}"#,
        r#""\ud800""#,
        r#""\u0000""#,
        &deep,
        " 1 ",
        "null",
    ]
    .iter()
    .enumerate()
    {
        let plain = target.server.raw(&target.call("", body), false);
        assert_eq!(plain[0].status, 200, "{body}: {}", text(&plain[0]));
        let key = format!("idempotency-key: odd \u{9b}{number}\r\n");
        let first = target.server.raw(&target.call(&key, body), false);
        assert_eq!(first[0].header("indelible-verdict"), Some("Fresh"), "{body}");
        assert!(
            text(&first[0]).contains(&format!("\"result\":{}", body.trim())),
            "{}",
            text(&first[0])
        );
        let again = target.server.raw(&target.call(&key, body), false);
        assert_eq!(again[0].header("indelible-verdict"), Some("PriorResult"), "{body}");
        assert_eq!(again[0].body, first[0].body);
    }
    // Two on a connection, the second in the bytes of the first.
    let host = &target.server.address;
    let two = format!("GET /v1/health HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let two = [two.into_bytes(), target.call("", "\"second\"")].concat();
    let answers = target.server.raw(&two, false);
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200]);
    assert!(text(&answers[1]).contains("second"));
    // More than its length says is another request, and none.
    let more = target.call("", "1").into_iter().chain(*b"GET").collect::<Vec<_>>();
    assert_eq!(target.server.raw(&more, false).len(), 1);
    let old = format!("GET /v1/health HTTP/1.0\r\nhost: {host}\r\n\r\n");
    assert_eq!(target.server.raw(old.as_bytes(), false)[0].status, 200);
    // Chunks win over a length, and nothing comes after them.
    let head = target.head("POST", "/v1/call/bench/echo").replace("connection: close\r\n", "");
    let both = format!(
        "{head}content-type: application/json\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n\
         1\r\n7\r\n0\r\n\r\nGET /v1/health HTTP/1.1\r\nhost: {host}\r\n\r\n"
    );
    let answers = target.server.raw(both.as_bytes(), false);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].status == 400 || text(&answers[0]).contains("\"result\":7"));
}
