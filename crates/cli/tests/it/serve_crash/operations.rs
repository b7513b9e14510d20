//! Requests under one operation id: every row of the table of states, over the wire.

use indelible_http_peer::{Hold, Peer};
use serde_json::json;

use super::kit::{House, execution, met, outcome, text, until, uuid};

/// A server with functions, and a peer that its functions may send to.
pub fn with_peer() -> (House, Peer) {
    let peer = Peer::start();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("indelible.toml");
    let lines = format!(
        "[components.behaviours]\nhosts = [\"{}\"]\nnetworks = [\"loopback\"]\nplain_http = true\n",
        peer.address()
    );
    std::fs::write(&config, lines).unwrap();
    let arguments = ["--config".to_owned(), config.to_str().unwrap().to_owned()];
    let house = House::with(&arguments, folder);
    house.deploy("behaviours");
    (house, peer)
}

/// What a function that sends one request is given.
pub fn spec(peer: &Peer, name: &str) -> String {
    json!({"method": "POST", "url": peer.url(&format!("/do/answer?{name}"))}).to_string()
}

/// How many of its requests have arrived.
pub fn arrived(peer: &Peer, name: &str) -> usize {
    peer.log().iter().filter(|arrival| arrival.path.ends_with(&format!("?{name}"))).count()
}

pub fn wait_for_one(peer: &Peer, name: &str) {
    peer.wait_for(|log| log.iter().any(|arrival| arrival.path.ends_with(&format!("?{name}"))));
}

/// Disconnects the caller of a volatile function, and waits until its execution is released.
pub fn go_away(house: &House, stream: std::net::TcpStream, operation: &str) {
    let known = house.get(&format!("/v1/operations/{operation}"));
    let path = format!("/v1/executions/{}/outcome?wait=0.01", execution(&known));
    drop(stream);
    until("it is released", || (house.get(&path).status == 404).then_some(()));
}

const ID: &str = "indelible-operation-id";

/// V-29, V-30, V-31, V-9, V-22: a request under an unknown id starts an execution; while that goes
/// on, the same request again is attached; when it is over, the request gets its outcome. The
/// server is killed in each state, and another request under the id is a conflict in each.
#[test]
fn absent_live_and_sealed() {
    let mut house = House::new();
    house.deploy("script");
    let (path, id) = ("/v1/start/script/main", uuid(0, 1));
    let at = format!("/v1/operations/{id}");
    assert_eq!(met(&house.get(&at)), (404, "not-found".into(), "none"));
    let body = r#"[{"signal":"go"},{"random":8}]"#;
    let first = house.post(path, &[(ID, &id)], body);
    assert_eq!(met(&first), (202, String::new(), "Fresh"));
    assert_eq!(first.json()["operation_id"], id.as_str());
    let run = execution(&first);
    let conflict = |house: &House| {
        let refused = house.post("/v1/call/script/main", &[(ID, &id)], "[]");
        assert_eq!(met(&refused), (409, "conflict".into(), "none"));
    };
    for _ in 0..2 {
        house.crash();
        let live = house.post(path, &[(ID, &id)], body);
        assert_eq!((met(&live), execution(&live)), ((202, String::new(), "InFlight"), run.clone()));
        let known = house.get(&at).json();
        assert_eq!((&known["execution_id"], &known["in_progress"]), (&json!(run), &json!(true)));
        conflict(&house);
    }
    assert_eq!(house.post(&format!("/v1/executions/{run}/signals/go"), &[], "1").status, 200);
    let sealed = house.post("/v1/call/script/main", &[(ID, &id)], body);
    assert_eq!(sealed.status, 200, "{}", text(&sealed));
    for _ in 0..2 {
        let replayed = house.post("/v1/call/script/main", &[(ID, &id)], body);
        assert_eq!(met(&replayed), (200, String::new(), "PriorResult"));
        assert_eq!(outcome(&replayed), outcome(&sealed));
        assert_eq!(house.get(&at).json()["in_progress"], false);
        conflict(&house);
        house.crash();
    }
    assert_eq!(house.place.audited("start", &run), 1);
}

/// V-59, C-3: an id that is older than anything is remembered is refused, not taken for a new one;
/// so is one from the future. Neither starts anything.
#[test]
fn expired_and_future_ids() {
    let house = House::new();
    house.deploy("script");
    let old = uuid(-5 * 365 * 86_400, 1);
    let ahead = uuid(3_600, 2);
    for (id, status, code) in
        [(&old, 410, "expired"), (&ahead, 400, "operation-id-from-the-future")]
    {
        for path in ["/v1/call/script/main", "/v1/start/script/main"] {
            assert_eq!(met(&house.post(path, &[(ID, id)], "[]")), (status, code.into(), "none"));
        }
        let looked = house.get(&format!("/v1/operations/{id}"));
        assert_eq!(met(&looked), (status, code.into(), "none"));
    }
    let soon = house.post("/v1/call/script/main", &[(ID, &uuid(60, 3))], "[]");
    assert_eq!(met(&soon).2, "Fresh", "clocks differ by a minute");
    let rows = house.place.rows("/v1/executions?limit=50", "executions");
    assert_eq!(rows.len(), 1, "{rows:?}");
}

/// V-32, V-33, V-34, V-35, V-25, V-26, V-13, V-18: a volatile function whose caller has gone, or
/// that was lost with its process. One that is `idem` runs again under its id; one that is not
/// never runs again, and its caller is answered `indeterminate`.
#[test]
fn released_and_lost() {
    let (mut house, peer) = with_peer();
    let rows = [
        ("glance", "released", false),
        ("glance_idem", "released-idem", false),
        ("glance", "lost", true),
        ("glance_idem", "lost-idem", true),
    ];
    for (number, (function, name, killed)) in rows.into_iter().enumerate() {
        let id = uuid(0, number as u64);
        let path = format!("/v1/call/behaviours/{function}");
        let body = spec(&peer, name);
        peer.hold(Hold::BeforeAnswering);
        let stream = house.leave(&path, &[(ID, &id)], &body);
        wait_for_one(&peer, name);
        let run = execution(&house.get(&format!("/v1/operations/{id}")));
        if killed {
            house.crash();
            drop(stream);
        } else {
            go_away(&house, stream, &id);
        }
        peer.release();
        for turn in 0..3 {
            let again = house.post(&path, &[(ID, &id)], &body);
            if function == "glance" {
                assert_eq!(met(&again), (424, "indeterminate".into(), "none"), "{name}");
                assert_eq!(arrived(&peer, name), 1, "{name}: it never runs again");
            } else {
                assert_eq!(again.status, 200, "{name}: {}", text(&again));
                assert_eq!(again.json()["result"]["status"], 200, "{name}");
                assert_eq!(execution(&again), run, "{name}: under the same id");
                assert_eq!(arrived(&peer, name), 2, "{name}: again, and then no more");
                // The operation is the same one: it goes on again.
                let verdict = if turn == 0 { "InFlight" } else { "PriorResult" };
                assert_eq!(met(&again).2, verdict, "{name}");
            }
            if turn == 1 {
                house.crash();
            }
        }
    }
}
