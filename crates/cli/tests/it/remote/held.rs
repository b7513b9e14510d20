//! What waits for a person: requests of which it is unknown whether they happened, and executions
//! that do not go on by themselves.

use std::path::Path;
use std::process::Stdio;

use indelible_http_peer::Peer;
use indelible_journal::{Event, ExecutionId, Journal, Payload, Started};
use indelible_records::{JOURNALS, TABLES, executions, journals};
use indelible_store::{Batch, Scan, embedded};
use indelible_test_store::folder::hand_over;
use serde_json::{Value, json};

use super::kit::{House, User, until};
use crate::support::process::{Server, lines};

/// A server whose functions may send to the peer.
fn with_peer() -> (House, Peer) {
    let peer = Peer::start();
    let data = tempfile::tempdir().unwrap();
    // Read once, before the server says that it is ready.
    let aside = tempfile::tempdir().unwrap();
    let config = aside.path().join("indelible.toml");
    let lines = format!(
        "[components.behaviours]\nhosts = [\"{}\"]\nnetworks = [\"loopback\"]\nplain_http = true\n",
        peer.address()
    );
    std::fs::write(&config, lines).unwrap();
    let server = Server::start(data.path(), &["--config", config.to_str().unwrap()]);
    server.deploy("behaviours", "behaviours");
    (House { server, data }, peer)
}

/// Starts a function whose request arrives, gets no answer, and is held: the execution and the
/// promise.
fn hold(house: &House, user: &User, peer: &Peer, more: &str) -> (String, String) {
    let before = peer.log().len();
    let url = peer.url(&format!("/do/{more}"));
    let spec = json!({"method": "POST", "url": url, "backoff_ms": 1, "hold": true}).to_string();
    let id = user.does(&["start", "behaviours/sends", &spec]).trim().to_owned();
    let promise = until("it is held", || {
        let all = house.server.get("/v1/unresolved").json();
        let open = all["unresolved"].as_array().unwrap();
        let own = open.iter().find(|one| one["execution_id"] == id.as_str())?;
        (own["state"] == "held").then(|| own["promise_id"].as_str().unwrap().to_owned())
    });
    assert_eq!(peer.log().len(), before + 1, "it was sent once");
    (id, promise)
}

/// A caller that waits is told that a person is asked, and with which commands that person decides,
/// also without a terminal; and its wait goes on until then.
#[test]
fn a_waiting_call_says_that_a_person_is_asked() {
    let (house, peer) = with_peer();
    let user = User::of(&house.server);
    let url = peer.url("/do/drop-after");
    let spec = json!({"method": "POST", "url": url, "backoff_ms": 1, "hold": true}).to_string();
    let mut call = user.command();
    call.args(["call", "behaviours/sends_by_call", &spec]);
    let mut call = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = lines(call.stderr.take().unwrap());
    let line = told.next().unwrap();
    let before = "waiting for a person: it is unknown whether POST ";
    assert!(line.starts_with(&format!("{before}{url} of sends happened: ")), "{line}");
    let line = told.next().unwrap();
    let hint = "hint: `indelible unresolved ";
    let promise = line.strip_prefix(hint).and_then(|line| line.split('`').next()).unwrap();
    assert!(line.contains(&format!("`indelible resolve {promise} happened|")), "{line}");
    let resolve = ["resolve", promise, "did-not-happen", "--reason", "they never saw it"];
    user.does(&resolve);
    assert_eq!(told.next(), None, "it is told once");
    let ended = call.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("NotPerformed"), "{ended:?}");
}

/// D5, C-38: a person sees what is held, says how it ended, and the workflow goes on from there; the
/// peer sees a request again only if the person says so. Who decided, and why, is in the record.
#[test]
fn a_person_resolves_what_a_server_holds() {
    let (house, peer) = with_peer();
    let user = User::of(&house.server);
    assert_eq!(user.does(&["unresolved"]), "");

    // It happened.
    let (id, promise) = hold(&house, &user, &peer, "drop-after");
    user.run(&["unresolved"]).check(
        0,
        "
        [ID].0
          [TIME]  waits for a person  POST http://127.0.0.1:[PORT]/do/drop-after
          sends  namespace default  sent with Idempotency-Key [ID]
          connection closed before message completed
        ---
        hint: `indelible unresolved PROMISE` shows what was sent. Check the other service, then record \
        what happened: `indelible resolve PROMISE happened|did-not-happen|run-again|accept-unknown \
        --reason TEXT`
        ",
    );
    let line = user.json(&["unresolved"]);
    assert_eq!((&line["promise_id"], &line["state"]), (&promise.as_str().into(), &"held".into()));
    assert_eq!(line["execution_id"], id.as_str());
    let seen = peer.log().pop().unwrap();
    let detail = user.json(&["unresolved", &promise]);
    assert_eq!(detail["request"]["url"], peer.url("/do/drop-after"));
    assert_eq!(detail["sent_key"].as_str(), seen.key.as_deref(), "the other side got this one");
    assert!(user.does(&["unresolved", &promise]).contains("\nattempt     1 at "));
    // Without a terminal it does not ask for what is missing.
    user.run(&["resolve", &promise, "happened", "--reason", "I saw it"]).check(
        2,
        "
        ---
        error: the response is missing: the function continues with it
        hint: give --status and --body, as in --status 201 --body '{\"id\":7}'; nothing was sent
        ",
    );
    let happened = ["happened", "--status", "201", "--body", "seen", "--reason", "I saw it"];
    user.run(&[&["resolve", &promise][..], &happened].concat())
        .check(0, "---\nresolved; an execution that waits for it continues");
    let outcome = outcome(&house, &id);
    assert_eq!((&outcome["status"], &outcome["body"]), (&201.into(), &"seen".into()), "{outcome}");
    user.run(&["resolve", &promise, "did-not-happen", "--reason", "or did it?"]).check(
        1,
        "
        ---
        error: the effect cannot be resolved by a person: system:local settled it at [TIME] it \
        happened (I saw it) (wrong-state)
        hint: nothing has changed; `indelible unresolved` lists what can be resolved
        ",
    );
    assert_eq!(user.does(&["unresolved"]), "", "nothing is open");
    let settled = user.json(&["unresolved", "--all"]);
    assert_eq!(
        (&settled["state"], &settled["settled"]["status"]),
        (&"settled".into(), &201.into())
    );

    // It did not.
    let (id, promise) = hold(&house, &user, &peer, "drop-before");
    let resolve = ["resolve", &promise, "did-not-happen", "--reason", "they never saw it"];
    let resolved = user.json(&resolve);
    let expected = json!({"v": 1, "promise": promise, "resolution": "did-not-happen"});
    assert_eq!(resolved, expected);
    let ended = self::outcome(&house, &id);
    assert_eq!(ended["error"], "NotPerformed", "{ended}");
    let sent = peer.log().len();

    // The request is sent again only if the user confirms it.
    let (id, promise) = hold(&house, &user, &peer, "seq/drop-after,answer");
    let again = ["resolve", &promise, "run-again", "--reason", "twice does no harm"];
    user.run(&again).check(
        1,
        "
        ---
        error: not confirmed: send [ID].0 again? It may happen twice
        hint: confirm with --yes; nothing was done
        ",
    );
    assert_eq!(peer.log().len(), sent + 1, "nothing was sent");
    user.does(&[&again[..], &["--yes"]].concat());
    assert_eq!(self::outcome(&house, &id)["status"], 200);
    assert_eq!(peer.log().len(), sent + 2);

    let audit = user.does(&["audit"]);
    for reason in ["I saw it", "they never saw it", "twice does no harm"] {
        let lines: Vec<_> = audit.lines().filter(|line| line.ends_with(reason)).collect();
        assert_eq!(lines.len(), 1, "{audit}");
        assert!(lines[0].contains("system:local  resolve"), "{audit}");
    }
}

/// What a function returned.
fn outcome(house: &House, id: &str) -> Value {
    let outcome = house.server.get(&format!("/v1/executions/{id}/outcome"));
    assert_eq!(outcome.status, 200, "{}", String::from_utf8_lossy(&outcome.body));
    outcome.json()["result"].clone()
}

/// Gives an execution another program than the one that wrote its journal, as a changed function
/// would: what the store has is well formed, and cannot be replayed.
fn swap_program(data: &Path, id: &str, program: &str) {
    let id: ExecutionId = id.parse().unwrap();
    let folder = data.join("store");
    let store = embedded::open(&folder, &TABLES, &embedded::Options::default()).unwrap();
    let row = executions::latest(&store, &id).unwrap().value.unwrap();
    let mut journal = Journal::new(row.key.clone());
    let mut entries = Vec::new();
    for mut record in journals::read(&store, &row.key, 0, 100).unwrap().value.records {
        if let Event::ExecutionStarted(started) = &mut record.event {
            let input = Payload::json(program.to_owned());
            **started = Started { input, ..(**started).clone() };
        }
        entries.push(journal.append_record(record).unwrap());
    }
    let mut written = Batch::new();
    executions::advance(&mut written, None, &row, &entries).unwrap();
    let mut batch = Batch::new();
    for (key, _) in store.scan(&Scan::all(JOURNALS, 100)).unwrap().value.rows {
        batch.delete(JOURNALS, key);
    }
    for write in written.writes().iter().filter(|write| write.table == JOURNALS) {
        batch.put(JOURNALS, write.key.clone(), write.value.clone().unwrap());
    }
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    hand_over(store, &folder);
}

const WRITER: &str = r#"[{"now":0},{"signal":"go"}]"#;
const READER: &str = r#"[{"random":8},{"signal":"go"}]"#;

/// An execution whose journal does not fit its program, and that is stuck for it.
fn stuck() -> (House, User, String) {
    let House { server, data } = House::new(&[]);
    server.deploy("script", "script");
    let id = User::of(&server).does(&["start", "script/main", WRITER]).trim().to_owned();
    let house = House { server, data };
    until("it waits", || (house.state(&id) == "blocked").then_some(()));
    let House { server, data } = house;
    server.kill();
    swap_program(data.path(), &id, READER);
    let house = House { server: Server::start(data.path(), &[]), data };
    let user = User::of(&house.server);
    user.does(&["signal", &id, "go", "7"]);
    until("it is stuck", || (house.state(&id) == "stuck").then_some(()));
    (house, user, id)
}

/// C-25, C-38: a stuck execution goes on when its program is mended and the user releases it.
#[test]
fn what_is_stuck_is_released() {
    let (House { server, data }, _, id) = stuck();
    server.kill();
    swap_program(data.path(), &id, WRITER);
    let house = House { server: Server::start(data.path(), &[]), data };
    let user = User::of(&house.server);
    assert_eq!(house.state(&id), "stuck", "it does not go on by itself");
    user.run(&["release", &id, "--reason", "mended"]).check(
        0,
        "
        ---
        execution [SHORT] continues
        hint: see its progress with `indelible show [SHORT]`
        ",
    );
    let result = outcome(&house, &id);
    assert_eq!(result[1], json!({"signal": 7}), "{result}");
    user.run(&["release", &id]).check(
        1,
        "
        ---
        error: the execution has already ended: it completed (wrong-state)
        hint: see its state with `indelible show EXECUTION`
        ",
    );
}

/// C-25, C-38: or an operator ends it.
#[test]
fn what_is_stuck_is_failed() {
    let (house, user, id) = stuck();
    user.run(&["fail", &id, "--reason", "refunded by hand"]).check(
        1,
        "
        ---
        error: not confirmed: end [SHORT] (main, stuck) as failed?
        hint: confirm with --yes; nothing was done
        ",
    );
    user.run(&["fail", &id, "--reason", "refunded by hand", "--yes"]).check(
        0,
        "
        ---
        execution [SHORT] ends as failed
        hint: see its progress with `indelible show [SHORT]`
        ",
    );
    let outcome = house.server.get(&format!("/v1/executions/{id}/outcome"));
    assert_eq!((outcome.status, &outcome.json()["error"]["kind"]), (424, &"Nondeterminism".into()));
    let audit = user.does(&["audit", "--limit", "1"]);
    assert!(audit.contains("  fail  ") && audit.ends_with("refunded by hand\n"), "{audit}");
}
