//! Every credential against every path: with its own things, foreign ones, and missing ones.

use std::path::Path;
use std::time::SystemTime;

use indelible_api::access::Role;
use indelible_journal::Timestamp;
use indelible_server::ROUTES;
use indelible_server::routes::RequiredAccess;

use crate::serve_access::support::{Body, Key, Running, json, key, text, try_key, undated};
use crate::support::process::{Answer, until};

/// What the path of a row names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Of {
    /// Nothing: the path is about the whole server.
    Nobody,
    /// The namespace in the query.
    Namespace,
    /// An execution that is over.
    Over,
    /// An execution that waits for a signal.
    Waits,
    Operation,
    Promise,
    Component,
    Token,
}

/// A path: who may, what its name stands for, what is sent, and what comes of it on one's own.
struct Row(&'static str, &'static str, RequiredAccess, Of, Body<'static>, u16);

const SEE: RequiredAccess = RequiredAccess::Role(&[Role::Call, Role::Operate]);
const CALL: RequiredAccess = RequiredAccess::Role(&[Role::Call]);
const OPERATE: RequiredAccess = RequiredAccess::Role(&[Role::Operate]);
const READ: RequiredAccess = RequiredAccess::Role(&[Role::Read, Role::Write, Role::Operate]);
const WRITE: RequiredAccess = RequiredAccess::Role(&[Role::Write]);
const SEE_MESSAGES: RequiredAccess =
    RequiredAccess::Role(&[Role::Send, Role::Decide, Role::Operate]);
const SEND: RequiredAccess = RequiredAccess::Role(&[Role::Send]);
const DECIDE: RequiredAccess = RequiredAccess::Role(&[Role::Decide]);
const DEPLOY: RequiredAccess = RequiredAccess::Role(&[Role::Deploy]);
const ADMIN: RequiredAccess = RequiredAccess::Role(&[Role::Admin]);
const ANY: RequiredAccess = RequiredAccess::Credential;
const ONE: Body<'static> = Some(("application/json", b"1"));
const EMPTY: Body<'static> = Some(("application/json", b"{}"));
const WASM: Body<'static> = Some(("application/wasm", b"\0asm"));
const NEW: Body<'static> =
    Some(("application/json", br#"{"name":"made","roles":["call"],"namespaces":["alpha"]}"#));

/// Written by hand, and compared with the server's own table: a new path, or another role for one,
/// fails the test until its row here is written.
const ROWS: &[Row] = &[
    Row("POST", "/v1/call/{component}/{function}", CALL, Of::Namespace, ONE, 200),
    Row("POST", "/v1/start/{component}/{function}", CALL, Of::Namespace, ONE, 202),
    Row("GET", "/v1/operations/{operation}", SEE, Of::Operation, None, 200),
    Row("GET", "/v1/operations/{operation}/outcome", SEE, Of::Operation, None, 200),
    Row("GET", "/v1/executions", SEE, Of::Namespace, None, 200),
    Row("GET", "/v1/executions/{execution}", SEE, Of::Over, None, 200),
    Row("GET", "/v1/executions/{execution}/outcome", SEE, Of::Over, None, 200),
    Row("GET", "/v1/executions/{execution}/tree", SEE, Of::Over, None, 200),
    Row("GET", "/v1/executions/{execution}/journal", SEE, Of::Over, None, 200),
    Row("GET", "/v1/executions/{execution}/events", SEE, Of::Over, None, 200),
    Row("GET", "/v1/executions/{execution}/logs", SEE, Of::Over, None, 200),
    Row("POST", "/v1/executions/{execution}/signals/{signal}", OPERATE, Of::Waits, ONE, 200),
    Row("POST", "/v1/executions/{execution}/cancel", OPERATE, Of::Waits, EMPTY, 200),
    // Nothing holds it.
    Row("POST", "/v1/executions/{execution}/release", OPERATE, Of::Waits, EMPTY, 409),
    Row("POST", "/v1/executions/{execution}/fail", OPERATE, Of::Waits, EMPTY, 409),
    Row("GET", "/v1/unresolved", SEE, Of::Namespace, None, 200),
    // Nothing is unknown about it.
    Row("GET", "/v1/unresolved/{promise}", SEE, Of::Promise, None, 404),
    // The body makes no sense, which only a credential that may see the execution is told.
    Row("POST", "/v1/unresolved/{promise}/resolve", OPERATE, Of::Promise, EMPTY, 400),
    Row("GET", "/v1/components", ANY, Of::Nobody, None, 200),
    Row("GET", "/v1/components/{component}", ANY, Of::Component, None, 200),
    // It is none.
    Row("PUT", "/v1/components/{component}", DEPLOY, Of::Nobody, WASM, 422),
    // The body makes no sense.
    Row("POST", "/v1/components/{component}/activate", DEPLOY, Of::Component, EMPTY, 400),
    Row("GET", "/v1/functions", ANY, Of::Nobody, None, 200),
    Row("GET", "/v1/endpoints", SEE_MESSAGES, Of::Namespace, None, 200),
    // The body makes no sense.
    Row("PUT", "/v1/endpoints/{endpoint}", OPERATE, Of::Namespace, EMPTY, 400),
    Row("GET", "/v1/endpoints/{endpoint}", SEE_MESSAGES, Of::Namespace, None, 200),
    // It is not there.
    Row("DELETE", "/v1/endpoints/{endpoint}", OPERATE, Of::Namespace, None, 404),
    Row("POST", "/v1/endpoints/{endpoint}/enable", OPERATE, Of::Namespace, EMPTY, 200),
    Row("POST", "/v1/endpoints/{endpoint}/disable", OPERATE, Of::Namespace, EMPTY, 200),
    Row("POST", "/v1/endpoints/{endpoint}/secrets", OPERATE, Of::Namespace, EMPTY, 200),
    // The body makes no sense.
    Row("POST", "/v1/messages", SEND, Of::Namespace, EMPTY, 400),
    Row("GET", "/v1/messages", SEE_MESSAGES, Of::Namespace, None, 200),
    Row("GET", "/v1/messages/{message}", SEE_MESSAGES, Of::Namespace, None, 200),
    Row("GET", "/v1/dead-letters", SEE_MESSAGES, Of::Namespace, None, 200),
    // There is no reason.
    Row(
        "POST",
        "/v1/messages/{message}/endpoints/{endpoint}/redeliver",
        DECIDE,
        Of::Namespace,
        EMPTY,
        400,
    ),
    Row(
        "POST",
        "/v1/messages/{message}/endpoints/{endpoint}/abandon",
        DECIDE,
        Of::Namespace,
        EMPTY,
        400,
    ),
    Row("GET", "/v1/vaults", READ, Of::Namespace, None, 200),
    Row("PUT", "/v1/vaults/{vault}", OPERATE, Of::Namespace, EMPTY, 200),
    Row("GET", "/v1/vaults/{vault}", READ, Of::Namespace, None, 200),
    // Meant for another incarnation: nothing is deleted.
    Row("DELETE", "/v1/vaults/{vault}", OPERATE, Of::Namespace, None, 409),
    // The body makes no sense.
    Row("POST", "/v1/vaults/{vault}/transactions", WRITE, Of::Namespace, EMPTY, 400),
    Row("POST", "/v1/vaults/{vault}/batches", WRITE, Of::Namespace, EMPTY, 400),
    Row("POST", "/v1/vaults/{vault}/runs", WRITE, Of::Namespace, EMPTY, 400),
    Row("GET", "/v1/vaults/{vault}/clients/{client}", READ, Of::Namespace, None, 200),
    // The body makes no sense.
    Row("PUT", "/v1/vaults/{vault}/clients/{client}/owner", OPERATE, Of::Namespace, EMPTY, 400),
    Row("GET", "/v1/vaults/{vault}/entities", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/vaults/{vault}/entities/{key}", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/vaults/{vault}/entities/{key}/history", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/vaults/{vault}/transactions", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/vaults/{vault}/transactions/{height}", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/vaults/{vault}/state", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/vaults/{vault}/export", READ, Of::Namespace, None, 200),
    // Meant for another incarnation: there is no stream without an end.
    Row("GET", "/v1/vaults/{vault}/events", READ, Of::Namespace, None, 409),
    // The body makes no sense.
    Row("POST", "/v1/ledger/transactions", WRITE, Of::Namespace, EMPTY, 400),
    Row("POST", "/v1/ledger/batches", WRITE, Of::Namespace, EMPTY, 400),
    Row("POST", "/v1/ledger/runs", WRITE, Of::Namespace, EMPTY, 400),
    Row("GET", "/v1/ledger/clients/{client}", READ, Of::Namespace, None, 200),
    // The body makes no sense.
    Row("PUT", "/v1/ledger/clients/{client}/owner", OPERATE, Of::Namespace, EMPTY, 400),
    Row("GET", "/v1/ledger/entities", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/ledger/entities/{key}", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/ledger/entities/{key}/history", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/ledger/transactions", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/ledger/transactions/{height}", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/ledger/state", READ, Of::Namespace, None, 200),
    Row("GET", "/v1/ledger/export", READ, Of::Namespace, None, 200),
    // Meant for another incarnation: there is no stream without an end.
    Row("GET", "/v1/ledger/events", READ, Of::Namespace, None, 409),
    Row("GET", "/v1/tokens", ADMIN, Of::Nobody, None, 200),
    Row("POST", "/v1/tokens", ADMIN, Of::Nobody, NEW, 201),
    Row("DELETE", "/v1/tokens/{token}", ADMIN, Of::Token, None, 200),
    Row("GET", "/v1/audit", ADMIN, Of::Nobody, None, 200),
    Row("GET", "/v1/backup", ADMIN, Of::Nobody, None, 200),
    Row("GET", "/v1/retention/clock", ADMIN, Of::Nobody, None, 200),
    // The body makes no sense.
    Row("POST", "/v1/retention/clock/confirm", ADMIN, Of::Nobody, EMPTY, 400),
    Row("GET", "/v1/hold", ADMIN, Of::Nobody, None, 200),
    // The body makes no sense.
    Row("POST", "/v1/hold/lift", ADMIN, Of::Nobody, EMPTY, 400),
    Row("GET", "/v1/whoami", ANY, Of::Nobody, None, 200),
    Row("GET", "/v1/health", RequiredAccess::Nothing, Of::Nobody, None, 200),
    Row("GET", "/v1/ready", RequiredAccess::Nothing, Of::Nobody, None, 200),
    Row("GET", "/v1/openapi.json", RequiredAccess::Nothing, Of::Nobody, None, 200),
    Row("GET", "/metrics", ANY, Of::Nobody, None, 200),
];

/// Where the thing in the path is, as the asker sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Whose {
    Own,
    Foreign,
    Missing,
}

const WHOSE: [Whose; 3] = [Whose::Own, Whose::Foreign, Whose::Missing];

/// A client that asks. Its `role` is `None` if its credential is missing or not valid.
struct Asker {
    name: &'static str,
    credential: Option<String>,
    role: Option<Role>,
    /// Whether the credential is for all namespaces.
    everywhere: bool,
}

/// What there is on the server.
struct World<'a> {
    server: &'a Running,
    admin: &'a Key,
    spare: &'a Key,
    /// What is over, in `alpha` and in `beta`: execution and operation.
    alpha: (String, String),
    beta: (String, String),
    /// A message in each namespace.
    messages: [String; 3],
}

impl World<'_> {
    /// The path of a row, for a thing that is the asker's own, foreign or missing.
    fn path(&self, row: &Row, whose: Whose) -> String {
        let Row(_, path, _, of, ..) = row;
        let over = if whose == Whose::Own { &self.alpha } else { &self.beta };
        let missing = whose == Whose::Missing;
        // An id of the same form that does not exist.
        let turned = |id: &str| id.chars().rev().collect::<String>();
        let execution = match of {
            Of::Waits if !missing => {
                let namespace = if whose == Whose::Own { "alpha" } else { "beta" };
                self.server.begin(Some(&self.admin.secret), "listen", namespace, "9").0
            }
            _ if missing => turned(&over.0),
            _ => over.0.clone(),
        };
        let operation = match over.1.strip_suffix(|_: char| true) {
            Some(most) if missing && over.1.ends_with('0') => format!("{most}1"),
            Some(most) if missing => format!("{most}0"),
            _ => over.1.clone(),
        };
        let token = if missing { turned(&self.spare.id) } else { self.spare.id.clone() };
        let component = if missing && *of == Of::Component { "nothing" } else { "bench" };
        let promise = format!("{execution}.1");
        let names = [
            ("{component}", component),
            ("{function}", "echo"),
            ("{signal}", "other"),
            ("{operation}", &operation),
            ("{execution}", &execution),
            ("{promise}", &promise),
            ("{token}", &token),
            ("{vault}", "till"),
            ("{endpoint}", if row.0 == "DELETE" { "absent" } else { "hook" }),
            ("{message}", &self.messages[whose as usize]),
            ("{client}", "till"),
            ("{key}", "a"),
            ("{height}", "1"),
        ];
        let path = names.iter().fold((*path).to_owned(), |path, (name, to)| path.replace(name, to));
        let path = match (of, whose) {
            (Of::Operation, _) | (Of::Namespace, Whose::Own) => format!("{path}?namespace=alpha"),
            (Of::Namespace, Whose::Foreign) => format!("{path}?namespace=beta"),
            (Of::Namespace, Whose::Missing) => format!("{path}?namespace=gamma"),
            _ => path,
        };
        // Meant for another incarnation than there is.
        let of_none = "&incarnation=00000000-0000-0000-0000-000000000000";
        let is_pinned = row.5 == 409 && *of == Of::Namespace;
        if is_pinned { path + of_none } else { path }
    }
}

/// What the rules say: the status.
fn expected(row: &Row, asker: &Asker, whose: Whose) -> u16 {
    let Row(_, _, needs, of, _, own) = row;
    let may = match needs {
        RequiredAccess::Nothing => return *own,
        _ if asker.role.is_none() => return 401,
        RequiredAccess::Credential => true,
        RequiredAccess::Role(roles) => {
            asker.role == Some(Role::Admin) || roles.iter().any(|role| asker.role == Some(*role))
        }
    };
    match (of, whose) {
        _ if !may => 403,
        // Components and keys are the whole server's.
        (Of::Nobody, _) | (_, Whose::Own) | (Of::Component | Of::Token, Whose::Foreign) => *own,
        // In the namespace that the request names there is none, for every asker.
        (Of::Operation, _) | (_, Whose::Missing) if *of != Of::Namespace => 404,
        _ if asker.everywhere => *own,
        (Of::Namespace, _) => 403,
        _ => 404,
    }
}

/// The server's table says what the one here says.
#[test]
fn the_table_is_whole() {
    let theirs: Vec<_> =
        ROUTES.iter().map(|route| (route.method.as_str(), route.path, route.needs)).collect();
    let ours = ROWS.iter().map(|Row(method, path, needs, ..)| (*method, *path, *needs));
    assert_eq!(theirs, ours.collect::<Vec<_>>());
}

/// Q-18: each path does its work for the credentials that may use it, and nothing for others; a
/// foreign thing is answered as a missing one, byte by byte; the record names the keys; and a
/// secret is nowhere but in the answer that made it.
#[test]
fn who_may_do_what() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let whole = |role: &'static str| ["--role", role];
    let alpha = |role: &'static str| ["--role", role, "--namespace", "alpha"];
    let admin = key(data, "the-admin", &whole("admin"));
    let call = key(data, "the-caller", &alpha("call"));
    let operate = key(data, "the-operator", &alpha("operate"));
    let read = key(data, "the-reader", &alpha("read"));
    let write = key(data, "the-writer", &alpha("write"));
    let send = key(data, "the-sender", &alpha("send"));
    let decide = key(data, "the-decider", &alpha("decide"));
    let deploy = key(data, "the-deployer", &whole("deploy"));
    let revoked = key(data, "the-revoked", &whole("admin"));
    let spare = key(data, "the-spare", &alpha("call"));
    // On a slow machine the key may expire before it is made: then the test tries again.
    let expired = until("a key is made before it ends", || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let soon = u64::try_from(now.as_micros()).unwrap() + 4_000_000;
        let soon = Timestamp::from_micros(soon).unwrap().to_string();
        let made = try_key(data, "the-expired", &["--role", "admin", "--expires-at", &soon]);
        made.inspect_err(|said| assert!(said.contains("must be in the future"), "{said}")).ok()
    });
    let keys = [
        &admin, &call, &operate, &read, &write, &send, &decide, &deploy, &revoked, &spare, &expired,
    ];
    let mut secrets = keys.map(|key| key.secret.clone()).to_vec();

    let server = Running::start(data, &["--keys"]);
    let by = Some(admin.secret.as_str());
    server.deploy(by);
    let over = |namespace| server.begin(by, "echo", namespace, "1");
    for namespace in ["alpha", "beta", "gamma"] {
        let vault = format!("/v1/vaults/till?namespace={namespace}");
        assert_eq!(server.ask("PUT", &vault, by, json("{}")).status, 201);
        let body = r#"{"client_id":"c","sequence":1,"operations":[{"get":{"key":"a"}}]}"#;
        for scope in ["vaults/till", "ledger"] {
            let path = format!("/v1/{scope}/transactions?namespace={namespace}");
            assert_eq!(server.ask("POST", &path, by, json(body)).status, 200);
        }
    }
    let messages = ["alpha", "beta", "gamma"].map(|namespace| {
        let endpoint = format!("/v1/endpoints/hook?namespace={namespace}");
        let settings = json(r#"{"url":"https://hook.invalid/"}"#);
        let made = server.ask("PUT", &endpoint, by, settings);
        assert_eq!(made.status, 201);
        server.send_message(by, namespace)
    });
    let world = World {
        messages,
        server: &server,
        admin: &admin,
        spare: &spare,
        alpha: over("alpha"),
        beta: over("beta"),
    };
    let untouched = server.begin(by, "listen", "beta", "9").0;
    // Good until the moment when it is not.
    assert_eq!(server.ask("GET", "/v1/audit", Some(&revoked.secret), None).status, 200);
    let revoke = format!("/v1/tokens/{}", revoked.id);
    assert_eq!(server.ask("DELETE", &revoke, by, None).status, 200);
    until("its time is over", || {
        let answer = server.ask("GET", "/v1/whoami", Some(&expired.secret), None);
        (answer.status != 200).then_some(())
    });

    // The id of one key with the secret of another.
    let mixed = admin.secret.replace(&admin.id, &deploy.id);
    let asker = |name, credential: Option<&str>, role, everywhere| Asker {
        name,
        credential: credential.map(ToOwned::to_owned),
        role,
        everywhere,
    };
    let askers = [
        asker("call", Some(&call.secret), Some(Role::Call), false),
        asker("operate", Some(&operate.secret), Some(Role::Operate), false),
        asker("read", Some(&read.secret), Some(Role::Read), false),
        asker("write", Some(&write.secret), Some(Role::Write), false),
        asker("send", Some(&send.secret), Some(Role::Send), false),
        asker("decide", Some(&decide.secret), Some(Role::Decide), false),
        asker("deploy", Some(&deploy.secret), Some(Role::Deploy), true),
        asker("admin", Some(&admin.secret), Some(Role::Admin), true),
        asker("nobody", None, None, false),
        asker("revoked", Some(&revoked.secret), None, false),
        asker("expired", Some(&expired.secret), None, false),
        asker("mixed", Some(&mixed), None, false),
    ];
    let mut wrong = Vec::new();
    for row in ROWS {
        let mut strangers: Option<Answer> = None;
        for asker in &askers {
            let mut refusals = Vec::new();
            for whose in WHOSE {
                let path = world.path(row, whose);
                let expected = expected(row, asker, whose);
                let refused = matches!(expected, 401 | 403 | 404);
                let latest = || server.ask("GET", "/v1/audit?limit=1", by, None).body;
                let before = if refused { latest() } else { Vec::new() };
                let answer = server.ask(row.0, &path, asker.credential.as_deref(), row.4);
                let who = asker.name;
                let cell = format!("{} {path} ({who}, {whose:?})", row.0);
                if answer.status != expected {
                    let text = text(&answer);
                    wrong.push(format!("{cell}: {} and not {expected}: {text}", answer.status));
                }
                if refused && latest() != before {
                    wrong.push(format!("{cell}: it was refused, and something was done"));
                }
                if answer.status == 201 {
                    secrets.push(answer.json()["secret"].as_str().unwrap().to_owned());
                }
                if expected == 401 {
                    let first = strangers.get_or_insert_with(|| undated(&answer));
                    if *first != undated(&answer) {
                        wrong.push(format!("{cell}: another 401 than others get"));
                    }
                }
                if refused && (whose != Whose::Own || expected != 404) {
                    refusals.push((cell, expected, undated(&answer)));
                }
            }
            // Refusals of the same status are the same: no client learns what there is.
            for pair in refusals.windows(2) {
                if pair[0].1 == pair[1].1 && pair[0].2 != pair[1].2 {
                    wrong.push(format!("{} is told from {}", pair[0].0, pair[1].0));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));

    // No request has touched the execution that waits in `beta`.
    let detail = server.ask("GET", &format!("/v1/executions/{untouched}"), by, None).json();
    assert_eq!(detail["execution"]["state"], "blocked");
    // Who did what, by their credential.
    let record = server.ask("GET", "/v1/audit?limit=500", by, None).json();
    let record = record["entries"].as_array().unwrap();
    let actor = |action: &str, actor: &str| {
        let is = |entry: &&serde_json::Value| entry["action"] == action && entry["actor"] == actor;
        record.iter().any(|entry| is(&entry))
    };
    assert!(actor("start", "client:the-caller"), "{record:?}");
    assert!(actor("cancel", "client:the-operator"), "{record:?}");
    for entry in record {
        let known = ["client:the-caller", "client:the-operator", "client:the-admin", "system:cli"];
        assert!(known.iter().any(|known| entry["actor"] == *known), "{entry}");
    }

    assert!(secrets.len() > 9);
    nowhere(&secrets, server, data);
}

/// Two namespaces: who names none means `default`, to which the key does not belong.
#[test]
fn a_key_for_two_namespaces_has_to_say_which() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let admin = key(data, "admin", &["--role", "admin"]);
    let two = ["--role", "call", "--namespace", "alpha", "--namespace", "beta"];
    let two = key(data, "two", &two);
    let server = Running::start(data, &["--keys"]);
    server.deploy(Some(&admin.secret));
    let call = |query: &str| {
        let path = format!("/v1/call/bench/echo{query}");
        server.ask("POST", &path, Some(&two.secret), json("1")).status
    };
    assert_eq!(call("?namespace=alpha"), 200);
    assert_eq!(call("?namespace=beta"), 200);
    assert_eq!(call(""), 403);
    assert_eq!(call("?namespace=default"), 403);
    // Equal keys in two namespaces have nothing to do with each other (I-4).
    let mut ids = Vec::new();
    for namespace in ["alpha", "beta"] {
        let bearer = format!("Bearer {}", two.secret);
        let path = format!("/v1/call/bench/echo?namespace={namespace}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "same"),
        ];
        let answer =
            crate::support::process::request(&server.address, "POST", &path, &headers, b"1")
                .unwrap();
        assert_eq!(answer.header("indelible-verdict"), Some("Fresh"), "{}", text(&answer));
        ids.push(answer.json()["execution_id"].clone());
    }
    assert_ne!(ids[0], ids[1]);
}

/// A secret is in no answer but the one that made it, not in what the server says, and in no file.
fn nowhere(secrets: &[String], server: Running, data: &Path) {
    let seen = server.seen();
    let said = server.stop();
    let mut files = Vec::new();
    files_in(data, &mut files);
    assert!(files.iter().any(|(_, text)| text.contains("the-caller")), "keys are somewhere");
    for secret in secrets {
        // What is random in it.
        let random = &secret[secret.len() - 43..];
        let shows = |answer: &&Answer| {
            let heads = answer.headers.iter().any(|(_, value)| value.contains(random));
            heads || text(answer).contains(random)
        };
        let showing: Vec<_> = seen.iter().filter(shows).map(|answer| answer.status).collect();
        assert!(showing.is_empty() || showing == [201], "{showing:?}");
        assert!(!said.contains(random), "{said}");
        for (name, text) in &files {
            assert!(!text.contains(random), "{name}");
        }
    }
}

fn files_in(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_in(&path, files);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            files.push((path.display().to_string(), text));
        }
    }
}
