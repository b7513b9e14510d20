//! The clock by which a server deletes, and an operator who confirms it.

use std::path::Path;

use indelible_journal::Timestamp;
use indelible_records::{TABLES, settings};
use indelible_runtime::world::{Clock as _, System};
use indelible_store::{Batch, embedded};
use indelible_test_store::folder::hand_over;
use serde_json::{Value, json};

use super::kit::User;
use crate::support::process::{Answer, Server};

const DAY: u64 = 86_400_000_000;
const CONFIRM: &str = "/v1/retention/clock/confirm";

/// Writes into a folder that no server has run on it for so many days.
fn idle_for(data: &Path, days: u64) {
    let folder = data.join("store");
    let store = embedded::open(&folder, &TABLES, &embedded::Options::default()).unwrap();
    let time = System.now().as_micros() - days * DAY;
    let row = json!({"version": 1, "time_us": time, "wall_us": time, "purged_us": 0});
    let mut batch = Batch::new();
    settings::put(&mut batch, "retention-clock", row.to_string().as_bytes());
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    hand_over(store, &folder);
}

fn lag(server: &Server) -> i64 {
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    let name = "indelible_retention_lag_seconds ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.parse().unwrap()
}

/// C-3, C-38: after forty days without a server the retention clock has made up for one. A metric and
/// a command show it; an operator confirms it, from a machine whose clock agrees, once under a key; the
/// record has who, what and why, and the next process goes on from there.
#[test]
fn an_operator_confirms_the_clock() {
    let data = tempfile::tempdir().unwrap();
    Server::start(data.path(), &[]).kill();
    idle_for(data.path(), 40);
    let server = Server::start(data.path(), &[]);
    let user = User::of(&server);
    assert_eq!(lag(&server) / 86_400, 39);
    user.run(&["retention", "clock"]).check(
        0,
        "
        retention clock  [TIME]
        wall clock       [TIME]
        lag              39d 0h
        ",
    );
    user.run(&["retention", "confirm", "--reason", "the machine was off"]).check(
        1,
        "
        ---
        error: not confirmed: is it [TIME] now? Deletion has followed [TIME] so far; from now on \
        everything due by [TIME] is deleted
        hint: confirm with --yes; nothing was done
        ",
    );
    let post = |body: &Value, key: &str| -> Answer {
        server.post(CONFIRM, &[("idempotency-key", key)], &body.to_string())
    };
    let refused = [
        (json!({"time": "2020-01-01T00:00:00Z", "reason": "mine is slow"}), 409, "wrong-state"),
        (json!({"time": "yesterday", "reason": "x"}), 400, "malformed-request"),
        (json!({"time": System.now().to_string(), "reason": " "}), 400, "malformed-request"),
        (json!({"reason": "x"}), 400, "malformed-request"),
    ];
    for (body, status, code) in refused {
        let answer = post(&body, "k-1");
        assert_eq!((answer.status, &answer.json()["code"]), (status, &code.into()), "{body}");
    }
    assert_eq!(lag(&server) / 86_400, 39);

    let confirm = ["retention", "confirm", "--yes", "--reason", "the machine was off"];
    user.run(&confirm).check(0, "---\nconfirmed; the retention clock now equals the wall clock");
    assert_eq!(lag(&server), 0);
    let shown = user.json(&["retention", "clock"]);
    assert_eq!(shown["lag_seconds"], 0, "{shown}");
    let said = user.does(&["audit", "--limit", "1"]);
    assert!(said.contains("confirm clock  retention-clock "), "{said}");
    assert!(said.contains("the machine was off"), "{said}");
    let first = post(&json!({"time": System.now().to_string(), "reason": "again"}), "k-2");
    assert_eq!((first.status, first.header("indelible-verdict")), (200, Some("Fresh")));
    let again = post(&json!({"time": System.now().to_string(), "reason": "again"}), "k-2");
    assert_eq!((again.status, again.header("indelible-verdict")), (200, Some("PriorResult")));
    let other = post(&json!({"time": System.now().to_string(), "reason": "other"}), "k-2");
    assert_eq!((other.status, &other.json()["code"]), (422, &"mismatch".into()));
    let confirmed = user.json(&confirm)["confirmed"].as_str().unwrap().parse::<Timestamp>();
    assert!(confirmed.is_ok());
    server.kill();
    let server = Server::start(data.path(), &[]);
    assert_eq!(lag(&server), 0);
}
