//! A folder that is restored on hold, and a server that is started paused: nothing goes on, in the
//! eyes of peers that count, until an operator says so; then everything does.

use std::path::{Path, PathBuf};

use indelible_http_peer::{Hold, Peer};
use serde_json::{Value, json};

use super::kit::{User, guest, until};
use crate::support::process::{Answer, Server};

/// A server that is lost, and its backup.
struct Lost {
    folder: tempfile::TempDir,
    /// Answers nothing while the server lives, and then what comes.
    answers_late: Peer,
    /// Is down while the server lives.
    down: Peer,
    ids: Unfinished,
}

/// What is unfinished in the backup.
struct Unfinished {
    /// It waits for timers, one after the other.
    ticks: String,
    /// It tries again and again to reach the peer that is down.
    tries: String,
    /// It has a request in flight that may be repeated, and one that may not.
    idem: String,
    once: String,
}

impl Unfinished {
    fn all(&self) -> [&String; 4] {
        [&self.ticks, &self.tries, &self.idem, &self.once]
    }
}

const RETURNS: &str = r#"[{"return":7}]"#;

impl Lost {
    /// A server with all kinds of unfinished work makes a backup, and is lost.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (answers_late, down) = (Peer::start(), Peer::start());
        answers_late.hold(Hold::BeforeAnswering);
        down.down();
        let grants = format!(
            "[components.script]\nhosts = [\"{}\", \"{}\"]\nnetworks = [\"loopback\"]\n\
             plain_http = true\n",
            answers_late.address(),
            down.address()
        );
        std::fs::write(folder.path().join("indelible.toml"), grants).unwrap();
        let server = start(folder.path(), "data", &[]);
        server.deploy("script", "script");
        let over = call(&server, "over", RETURNS);
        assert_eq!(over.status, 200);
        let begin = |steps: Value| {
            let started = server.post("/v1/start/script/main", &[], &steps.to_string()).json();
            started["execution_id"].as_str().unwrap().to_owned()
        };
        let request = |peer: &Peer, name: &str, idem: bool| {
            let url = peer.url(&format!("/do/answer?{name}"));
            let what =
                json!({"method": "POST", "url": url, "idem": idem, "backoff": 20, "cap": 20});
            json!([{ "http": ["h", what] }, { "await": "h" }])
        };
        let nap = json!([{ "timer": ["t", 20] }, { "await": "t" }]);
        let ids = Unfinished {
            ticks: begin(json!([{ "repeat": [1_000_000, nap] }])),
            tries: begin(request(&down, "tries", true)),
            idem: begin(request(&answers_late, "idem", true)),
            once: begin(request(&answers_late, "once", false)),
        };
        answers_late.wait_for_held(2);
        until("it has tried", || {
            let detail = server.get(&format!("/v1/executions/{}", ids.tries)).json();
            (detail["execution"]["events"].as_u64() > Some(4)).then_some(())
        });
        let user = User::of(&server);
        user.does(&["store", "backup", folder.path().join("backup").to_str().unwrap()]);
        server.kill();
        answers_late.release();
        down.up().unwrap();
        Self { folder, answers_late, down, ids }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Server {
        start(self.folder.path(), name, arguments)
    }

    /// What the command says that restores a backup into a folder.
    #[track_caller]
    fn restore(&self, backup: &str, to: &str, flags: &[&str]) -> Value {
        let (backup, to) = (self.at(backup), self.at(to));
        let paths = ["store", "restore", backup.to_str().unwrap(), to.to_str().unwrap()];
        User::new().json(&[&paths, flags].concat())
    }

    /// How many requests have arrived at both peers.
    fn arrived(&self) -> (usize, usize) {
        (self.answers_late.log().len(), self.down.log().len())
    }

    /// How many requests of this name have arrived, all of them with one key.
    fn arrivals_of(&self, name: &str) -> usize {
        let log = [self.answers_late.log(), self.down.log()].concat();
        let own: Vec<_> = log.iter().filter(|one| one.path.ends_with(name)).collect();
        assert!(own.windows(2).all(|two| two[0].key == two[1].key), "{own:?}");
        own.len()
    }

    /// Everything goes on: the timers, the request that was never sent, the one that may be sent
    /// again; and what became of the last is an open question.
    fn goes_on(&self, server: &Server) {
        let ids = &self.ids;
        let before = events(server, &ids.ticks);
        for (id, outcome) in [(&ids.tries, "200"), (&ids.idem, "200"), (&ids.once, "Indeterminate")]
        {
            let ended = server.get(&format!("/v1/executions/{id}/outcome?wait=60"));
            let text = String::from_utf8(ended.body).unwrap();
            assert!(ended.status == 200 && text.contains(outcome), "{outcome}: {text}");
        }
        until("it ticks", || (events(server, &ids.ticks) > before + 4).then_some(()));
        assert_eq!((self.arrivals_of("tries"), self.arrivals_of("once")), (1, 1));
        let open = server.get("/v1/unresolved").json()["unresolved"].clone();
        let open: Vec<_> =
            open.as_array().unwrap().iter().map(|one| &one["execution_id"]).collect();
        assert_eq!(open, [ids.once.as_str()]);
    }
}

fn start(folder: &Path, name: &str, arguments: &[&str]) -> Server {
    let config = folder.join("indelible.toml");
    let config = ["--config", config.to_str().unwrap()];
    Server::start(&folder.join(name), &[&config, arguments].concat())
}

fn call(server: &Server, key: &str, steps: &str) -> Answer {
    server.post("/v1/call/script/main", &[("idempotency-key", key)], steps)
}

fn events(server: &Server, id: &str) -> u64 {
    let detail = server.get(&format!("/v1/executions/{id}")).json();
    detail["execution"]["events"].as_u64().unwrap()
}

fn gauge(server: &Server, name: &str) -> String {
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("indelible_{name} ")));
    line.unwrap().to_owned()
}

#[track_caller]
fn is_on_hold(answer: &Answer) {
    assert_eq!((answer.status, &answer.json()["code"]), (503, &"on-hold".into()), "{answer:?}");
}

/// A server on hold shows everything, accepts nothing new, and says what it is.
fn shows_everything(server: &Server, lost: &Lost) -> Vec<u64> {
    is_on_hold(&server.get("/v1/ready"));
    assert_eq!(server.get("/v1/health").status, 200);
    assert_eq!((gauge(server, "on_hold"), gauge(server, "recovered")), ("1".into(), "0".into()));
    let listed = server.get("/v1/executions").json();
    assert_eq!(listed["executions"].as_array().unwrap().len(), 5);
    for path in ["unresolved", "components", "functions", "tokens", "audit", "retention/clock"] {
        assert_eq!(server.get(&format!("/v1/{path}")).status, 200, "{path}");
    }
    for id in lost.ids.all() {
        for of in ["", "/tree", "/journal", "/logs"] {
            assert_eq!(server.get(&format!("/v1/executions/{id}{of}")).status, 200, "{of}");
        }
        is_on_hold(&server.post(&format!("/v1/executions/{id}/signals/go"), &[], "1"));
        is_on_hold(&server.post(&format!("/v1/executions/{id}/cancel"), &[], "{}"));
    }
    is_on_hold(&call(server, "new", RETURNS));
    is_on_hold(&server.post("/v1/start/script/main", &[], RETURNS));
    let again = call(server, "over", RETURNS);
    assert_eq!((again.status, again.header("indelible-verdict")), (200, Some("PriorResult")));
    lost.ids.all().map(|id| events(server, id)).into()
}

/// A folder that was restored on hold goes on only when an operator says so: through a kill, a stop
/// and restarts, and in a backup of its own. The peers see nothing before, and everything after.
#[test]
fn a_restored_folder_waits_for_an_operator() {
    let lost = Lost::new();
    let restored = lost.restore("backup", "restored", &["--hold"]);
    assert_eq!((&restored["on_hold"], &restored["unfinished"]), (&true.into(), &4.into()));
    let data = lost.at("restored");
    let info = User::new().json(&["store", "info", data.to_str().unwrap()]);
    assert_eq!(info["on_hold"]["backup_made_at"], restored["made_at"]);
    let check = User::new().json(&["store", "check", data.to_str().unwrap()]);
    assert_eq!(check["ok"], true);

    let arrived = lost.arrived();
    assert_eq!(arrived, (2, 0));
    let server = lost.start("restored", &[]);
    until("it says that it is on hold", || {
        let said = server.said();
        (said.contains("\non hold (restored at ") && said.contains("server is on hold"))
            .then_some(())
    });
    let user = User::of(&server);
    user.run(&["hold", "show"]).check(
        0,
        "
        on hold        yes
        restored at    [TIME]
        backup made    [TIME]
        unfinished     4
        unresolved     0
        ---
        hint: look at what is unfinished (`indelible ps --namespace '*' --state \
        running,blocked,cancelling,stuck`) and unknown (`indelible unresolved`), then let it go on \
        with `indelible hold lift --reason TEXT`
        ",
    );
    user.run(&["call", "script/main", RETURNS]).check(
        5,
        "
        ---
        error: the server is on hold: it shows what is stored, and nothing goes on until an operator \
        lifts the hold (on-hold)
        hint: `indelible hold show` says why, and what is unfinished; an admin lets the server go on \
        with `indelible hold lift`
        ",
    );
    user.run(&["hold", "lift", "--reason", "x"]).check(
        1,
        "
        ---
        error: not confirmed: let http://127.0.0.1:[PORT] go on? Unfinished executions: 4; open \
        questions: 0; what was sent after [TIME] may be sent again
        hint: confirm with --yes; nothing was done
        ",
    );
    let reasonless = server.post("/v1/hold/lift", &[], r#"{"reason":" "}"#);
    assert_eq!(reasonless.status, 400);
    // What an operator may want to change first.
    server.deploy("other", "other");
    let token = r#"{"name":"new","roles":["admin"],"namespaces":["*"]}"#;
    assert_eq!(server.post("/v1/tokens", &[], token).status, 201);
    let before = shows_everything(&server, &lost);
    let own = lost.at("own");
    user.does(&["store", "backup", own.to_str().unwrap()]);
    server.kill();

    // Commands that work on the folder itself let nothing go on either.
    let run = ["run", &guest("script"), "main", RETURNS, "--data", data.to_str().unwrap()];
    let said = User::new().run(&run);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{}", said.stderr);
    assert!(said.stderr.contains("restored is on hold (restored at "), "{}", said.stderr);
    assert!(said.stderr.contains("`indelible hold lift`"), "{}", said.stderr);
    let server = lost.start("restored", &[]);
    assert_eq!(shows_everything(&server, &lost), before);
    server.stop();
    let server = lost.start("restored", &["--paused"]);
    assert_eq!(shows_everything(&server, &lost), before);
    server.stop();
    assert_eq!(
        lost.restore("own", "again", &[])["on_hold"],
        true,
        "a backup of it is on hold, too"
    );
    let server = lost.start("again", &[]);
    is_on_hold(&server.get("/v1/ready"));
    server.stop();
    assert_eq!(lost.arrived(), arrived, "no process has sent anything");

    let server = lost.start("restored", &[]);
    let user = User::of(&server);
    let lift = ["hold", "lift", "--yes", "--reason", "nothing is newer there"];
    user.run(&lift).check(0, "---\nthe hold is lifted; the server goes on");
    user.run(&lift).check(0, "---\nthe server is not on hold; nothing has changed");
    assert_eq!(user.json(&lift)["already"], true);
    lost.goes_on(&server);
    assert_eq!(lost.arrivals_of("idem"), 2);
    assert_eq!(call(&server, "new", RETURNS).status, 200);
    assert_eq!(server.get("/v1/ready").status, 200);
    assert_eq!(gauge(&server, "on_hold"), "0");
    let audit = user.does(&["audit"]);
    let lifted: Vec<_> = audit.lines().filter(|line| line.contains("lift hold")).collect();
    let [lifted] = lifted[..] else { panic!("{audit}") };
    assert!(
        lifted.contains("restored at ") && lifted.ends_with("nothing is newer there"),
        "{lifted}"
    );
    server.kill();
    let server = lost.start("restored", &[]);
    assert_eq!(server.get("/v1/ready").status, 200);
    let held = server.get("/v1/hold").json();
    assert_eq!((&held["on_hold"], held.get("restored")), (&false.into(), None));
}

/// A process that is killed as soon as it has said that the hold is lifted leaves a folder that goes on
/// by itself; nothing is sent that must not be.
#[test]
fn a_kill_right_after_the_lift() {
    let lost = Lost::new();
    lost.restore("backup", "restored", &["--hold"]);
    let server = lost.start("restored", &[]);
    assert_eq!(lost.arrived(), (2, 0));
    let lifted = server.post("/v1/hold/lift", &[], r#"{"reason":"go on"}"#);
    assert_eq!((lifted.status, lifted.json()), (200, json!({"already": false})));
    server.kill();
    let server = lost.start("restored", &[]);
    assert_eq!(server.get("/v1/hold").json()["on_hold"], false);
    lost.goes_on(&server);
}

/// `--paused`, its variable and its key put any folder on hold for one process. Lifting that lasts until
/// the process ends, and the folder does not know of it.
#[test]
fn a_server_that_is_started_paused() {
    let lost = Lost::new();
    assert_eq!(lost.restore("backup", "restored", &[])["on_hold"], false);
    let server = lost.start("restored", &["--paused"]);
    until("it says that it is paused", || {
        server.said().contains(", and started paused): nothing goes on").then_some(())
    });
    let before = shows_everything(&server, &lost);
    let held = server.get("/v1/hold").json();
    assert_eq!((&held["on_hold"], &held["paused"]), (&true.into(), &true.into()));
    assert_eq!((&held["unfinished"], &held["unresolved"]), (&4.into(), &0.into()));
    server.kill();
    let server = lost.start("restored", &["--paused"]);
    assert_eq!(shows_everything(&server, &lost), before);
    assert_eq!(lost.arrived(), (2, 0));
    User::of(&server).does(&["hold", "lift", "--yes", "--reason", "tried enough"]);
    lost.goes_on(&server);
    server.kill();
    let server = lost.start("restored", &["--paused"]);
    is_on_hold(&server.get("/v1/ready"));
    server.kill();
    let server = lost.start("restored", &["--paused=false"]);
    assert_eq!(server.get("/v1/ready").status, 200);
}

/// C-48: a folder that was restored without a hold goes on by itself, and refuses keys that it does not
/// know until an operator has looked; a repetition of a key that it knows is answered as ever.
#[test]
fn a_restored_folder_is_closed_to_unknown_keys() {
    let lost = Lost::new();
    assert_eq!(lost.restore("backup", "restored", &[])["on_hold"], false);
    let data = lost.at("restored");
    let info = User::new().json(&["store", "info", data.to_str().unwrap()]);
    assert!(info["on_hold"].is_null() && info["closed"]["restored_at"].is_string(), "{info}");
    let server = lost.start("restored", &[]);
    until("it says that it is closed", || {
        server.said().contains("\nrestored from a backup: keys and ids that").then_some(())
    });
    lost.goes_on(&server);
    assert_eq!(server.get("/v1/ready").status, 200);
    let user = User::of(&server);
    user.run(&["hold", "show"]).check(
        0,
        "
        on hold        no
        restored at    [TIME]
        backup made    [TIME]
        closed         to unknown keys and ids, until [TIME]
        unfinished     1
        unresolved     1
        ---
        hint: find out what was accepted after the backup was made, then let the server take all keys \
        and ids with `indelible hold lift --reason TEXT`
        ",
    );
    let refused = call(&server, "new", RETURNS);
    assert_eq!((refused.status, &refused.json()["code"]), (503, &"restored".into()));
    user.run(&["call", "script/main", RETURNS, "--key", "new"]).check(
        5,
        "
        ---
        error: the data was restored from a backup and does not know this key or id: it is refused \
        until an operator lifts the hold, or until [TIME] (restored)
        hint: find out whether it was done before the restore; `indelible hold show` says from which \
        backup, and an admin opens the server to all keys with `indelible hold lift`
        ",
    );
    let set = r#"{"operations":[{"add":{"key":"n","delta":"1","unit":"x"}}]}"#;
    let keyed = [("idempotency-key", "new")];
    let refused = server.post("/v1/ledger/transactions", &keyed, set);
    assert_eq!((refused.status, &refused.json()["code"]), (503, &"restored".into()));
    let again = call(&server, "over", RETURNS);
    assert_eq!((again.status, again.header("indelible-verdict")), (200, Some("PriorResult")));
    assert_eq!(server.post("/v1/call/script/main", &[], RETURNS).status, 200, "it has no name");
    user.run(&["hold", "lift", "--reason", "x"]).check(
        1,
        "
        ---
        error: not confirmed: let http://127.0.0.1:[PORT] take keys and ids that it does not know; \
        what was sent after [TIME] may be sent again?
        hint: confirm with --yes; nothing was done
        ",
    );
    let lift = ["hold", "lift", "--yes", "--reason", "nothing was lost"];
    user.run(&lift).check(0, "---\nthe hold is lifted; the server goes on");
    user.run(&lift).check(0, "---\nthe server is not on hold; nothing has changed");
    server.kill();
    let server = lost.start("restored", &[]);
    assert_eq!(call(&server, "new", RETURNS).status, 200);
    assert_eq!(server.post("/v1/ledger/transactions", &keyed, set).status, 200);
    let audit = User::of(&server).does(&["audit"]);
    assert_eq!(audit.lines().filter(|line| line.contains("lift hold")).count(), 1, "{audit}");
}
