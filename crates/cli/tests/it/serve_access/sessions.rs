//! Session tokens: people. They were signed elsewhere, with HMAC-SHA-256 and the secret below.

use crate::serve_access::support::{Running, json, key, text};

/// What they are signed with.
const SECRET: &str = "a secret that only the tests have";

/// `{"alg":"HS256","typ":"JWT"}`.
const HEAD: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
/// `{"sub":"ann","exp":4102444800,"aud":"tests","roles":["call"],"namespaces":["alpha"]}`.
const ANN: &str = "eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImF1ZCI6InRlc3RzIiwicm9sZXMiOlsiY2FsbCJdLCJuYW1lc3BhY2VzIjpbImFscGhhIl19";
/// The signature of the two.
const ANN_SIGNED: &str = "nKXuZopGHYxXDIl4ijT6nI32Uv8Nx7XotiuAF6NtB9o";
/// The same with `"sub":"root"`, `"roles":["admin"]`, `"namespaces":["*"]`.
const ROOT: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJyb290IiwiZXhwIjo0MTAyNDQ0ODAwLCJhdWQiOiJ0ZXN0cyIsInJvbGVzIjpbImFkbWluIl0sIm5hbWVzcGFjZXMiOlsiKiJdfQ.yY4QX8_n193qsC0LqWGklxLV_rkbueR3-QUqBSsyHWg";

/// What is wrong with them, and they.
const BAD: &[(&str, &str)] = &[
    (
        "another secret",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImF1ZCI6InRlc3RzIiwicm9sZXMiOlsiY2FsbCJdLCJuYW1lc3BhY2VzIjpbImFscGhhIl19.fEWzc1bltod1GhMpDoKZGK7NtNLmqPJmROUb--ZpGPA",
    ),
    (
        "no signature: alg none",
        "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImF1ZCI6InRlc3RzIiwicm9sZXMiOlsiY2FsbCJdLCJuYW1lc3BhY2VzIjpbImFscGhhIl19.",
    ),
    (
        "exp is over",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJleHAiOjEwMDAwMDAwMDAsImF1ZCI6InRlc3RzIiwicm9sZXMiOlsiY2FsbCJdLCJuYW1lc3BhY2VzIjpbImFscGhhIl19.uADgNwQ4ANKspo4ctV-FedsPHOPxr5nL8e8yvp6_oiQ",
    ),
    (
        "nbf is to come",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImF1ZCI6InRlc3RzIiwicm9sZXMiOlsiY2FsbCJdLCJuYW1lc3BhY2VzIjpbImFscGhhIl0sIm5iZiI6NDEwMjQ0NDAwMH0.WpGhMWaHxv05E3Pu-SKAsPsdsN5bH0SoUkn2Rx61uCY",
    ),
    (
        "another audience",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImF1ZCI6Im90aGVycyIsInJvbGVzIjpbImNhbGwiXSwibmFtZXNwYWNlcyI6WyJhbHBoYSJdfQ.RRzilegM3N8d3qFnyKp8M-5qKlbVqGq3nT21p7fVR04",
    ),
    (
        "an admin of one namespace",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImF1ZCI6InRlc3RzIiwicm9sZXMiOlsiYWRtaW4iXSwibmFtZXNwYWNlcyI6WyJhbHBoYSJdfQ.TR8CtdzDwuRvOJSMN2-toTorhOD-Y8omvrqObfikQFY",
    ),
    (
        "a line feed in the subject",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm5cbmNsaWVudDp4IiwiZXhwIjo0MTAyNDQ0ODAwLCJhdWQiOiJ0ZXN0cyIsInJvbGVzIjpbImNhbGwiXSwibmFtZXNwYWNlcyI6WyJhbHBoYSJdfQ.0HwcydQ5jSczJXjoay7df_Uj37NjPoCNXy_3-5spHLE",
    ),
    (
        "something critical",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImNyaXQiOlsiZXhwIl19.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImF1ZCI6InRlc3RzIiwicm9sZXMiOlsiY2FsbCJdLCJuYW1lc3BhY2VzIjpbImFscGhhIl19.C1EhDkqVf_aJu-PHuuncfblyx-SsTuL2-S6GlWAZ3V0",
    ),
];

/// Q-18: the record names whom the credential names, whatever else the request says: a person by
/// their session, a program by its key.
#[test]
fn people_and_programs_are_named_by_their_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("session.key");
    std::fs::write(&file, SECRET).unwrap();
    let shop = key(&data, "shop", &["--role", "call", "--namespace", "alpha"]);
    let file = file.to_str().unwrap();
    let server =
        Running::start(&data, &["--keys", "--session-key", file, "--session-audience", "tests"]);
    server.deploy(Some(ROOT));
    let ann = format!("{HEAD}.{ANN}.{ANN_SIGNED}");
    let who = server.ask("GET", "/v1/whoami", Some(&ann), None).json();
    assert_eq!(who["actor"], "user:ann");
    assert_eq!(who["namespaces"], serde_json::json!(["alpha"]));
    let call = |credential: &str| {
        let bearer = format!("Bearer {credential}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("actor", "user:eve"),
            ("x-forwarded-user", "eve"),
        ];
        let body = br#"{"actor":"user:eve"}"#;
        crate::support::process::request(
            &server.address,
            "POST",
            "/v1/call/bench/echo",
            &headers,
            body,
        )
        .unwrap()
    };
    let latest = || {
        let record = server.ask("GET", "/v1/audit?limit=1", Some(ROOT), None).json();
        let text = |name: &str| record["entries"][0][name].as_str().unwrap_or_default().to_owned();
        (text("action"), text("actor"))
    };
    let named = |action: &str, actor: &str| (action.to_owned(), actor.to_owned());
    assert_eq!(latest(), named("deploy", "user:root"));
    assert_eq!(call(&ann).status, 200);
    assert_eq!(latest(), named("start", "user:ann"));
    assert_eq!(call(&shop.secret).status, 200);
    assert_eq!(latest(), named("start", "client:shop"));
    // What they may is what the token says.
    assert_eq!(server.ask("GET", "/v1/audit", Some(&ann), None).status, 403);
    let foreign = "/v1/call/bench/echo?namespace=beta";
    assert_eq!(server.ask("POST", foreign, Some(&ann), json("1")).status, 403);

    let before = server.snapshot(Some(ROOT));
    for (what, token) in BAD {
        let answer = call(token);
        assert_eq!(answer.status, 401, "{what}: {}", text(&answer));
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    // Claims of one token under the signature of another.
    let claims = ROOT.split('.').nth(1).unwrap();
    for mixed in [
        format!("{HEAD}.{claims}.{ANN_SIGNED}"),
        format!("{HEAD}.{ANN}."),
        format!("{HEAD}.{ANN}"),
        format!("{ann}."),
        format!(" {ann}"),
        format!("{ann}, {ann}"),
        String::new(),
        "x".repeat(9_000),
    ] {
        assert_eq!(call(&mixed).status, 401, "{mixed}");
    }
    assert_eq!(server.snapshot(Some(ROOT)), before);
}
