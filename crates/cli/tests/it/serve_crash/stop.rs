//! A server that is asked to stop, once and twice; callers who go away.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::thread;

use indelible_http_peer::Hold;
use serde_json::json;

use super::kit::{House, PATIENCE, execution, met, outcome, text, until, uuid};
use super::operations::{arrived, go_away, spec, wait_for_one, with_peer};
use crate::support::process::{Answer, request};

const ID: &str = "indelible-operation-id";
const WAITS: &str = r#"[{"signal":"go"},{"random":8}]"#;

/// A call that waits on a thread of its own, and goes on already.
fn waiting(house: &House, id: &str) -> thread::JoinHandle<Answer> {
    let (_, address) = house.place.now();
    let own = id.to_owned();
    let waiting = thread::spawn(move || {
        let headers = [("content-type", "application/json"), (ID, &*own)];
        let path = "/v1/call/script/main?wait=300";
        request(&address, "POST", path, &headers, WAITS.as_bytes()).unwrap()
    });
    let path = format!("/v1/operations/{id}");
    until("it goes on", || (house.get(&path).status == 200).then_some(()));
    waiting
}

/// C-2, V-43, V-52, V-53: a caller who waits while the server stops is told where to ask; the
/// process ends well, and what went on goes on in the next one, under the same id.
#[test]
fn a_stop_loses_nothing() {
    let mut house = House::new();
    house.deploy("script");
    let ids = [uuid(0, 1), uuid(0, 2)];
    let calls = ids.clone().map(|id| waiting(&house, &id));
    house.terminate();
    let told = calls.map(|call| call.join().unwrap());
    assert_eq!(house.ended(), Some(0));
    house.start();
    for (id, told) in ids.iter().zip(&told) {
        assert_eq!(met(told), (202, String::new(), "Fresh"));
        assert_eq!(told.json()["operation_id"], id.as_str());
        let run = execution(told);
        assert_eq!(house.get(&format!("/v1/executions/{run}")).json()["operation_id"], id.as_str());
        let signal = house.post(&format!("/v1/executions/{run}/signals/go"), &[], "1");
        assert_eq!(signal.status, 200);
        let ended = house.get(told.header("location").unwrap());
        assert_eq!(ended.json()["result"][0], json!({"signal": 1}));
        let again = house.post("/v1/call/script/main", &[(ID, id)], WAITS);
        assert_eq!((met(&again).2, outcome(&again)), ("PriorResult", outcome(&ended)));
    }
    house.terminate();
    assert_eq!(house.ended(), Some(0), "with nothing to do, too");
}

/// A request that is under way for as long as the test holds this: the server waits for its body.
fn half(house: &House) -> TcpStream {
    let (_, address) = house.place.now();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /v1/start/script/main HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\
         \r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
    stream.write_all(b"[").unwrap();
    stream
}

/// V-20, V-22: a second signal ends the process at once, with a code of its own, though a
/// request is under way; everything that was acknowledged is there in the next one.
#[test]
fn a_second_signal_ends_at_once() {
    let mut house = House::new();
    house.deploy("script");
    let waits = waiting(&house, &uuid(0, 1));
    // Starts that are acknowledged up to the last moment.
    let (acknowledged, all) = mpsc::channel();
    let (_, address) = house.place.now();
    let starter = thread::spawn(move || {
        for number in 0.. {
            let id = uuid(0, 100 + number);
            let headers = [("content-type", "application/json"), (ID, &*id)];
            let path = "/v1/start/script/main";
            let answer = request(&address, "POST", path, &headers, WAITS.as_bytes());
            match answer {
                Ok(answer) if answer.status == 202 => {
                    acknowledged.send((id, execution(&answer))).unwrap();
                }
                // It does not listen any more.
                _ => return,
            }
        }
    });
    let mut runs: Vec<_> = all.iter().take(20).collect();
    // Not before: the server waits for a body, but not for ever.
    let held = half(&house);
    house.terminate();
    // The waiting caller is answered once the server has got the signal.
    let told = waits.join().unwrap();
    assert_eq!(told.status, 202, "{}", text(&told));
    house.terminate();
    assert_eq!(house.ended(), Some(130));
    drop(held);
    starter.join().unwrap();
    runs.extend(all.iter());
    runs.push((uuid_of(&told), execution(&told)));
    house.start();
    for (id, run) in &runs {
        let known = house.get(&format!("/v1/operations/{id}"));
        assert_eq!((known.status, execution(&known)), (200, run.clone()));
        let again = house.post("/v1/start/script/main", &[(ID, id)], WAITS);
        assert_eq!((met(&again).2, execution(&again)), ("InFlight", run.clone()));
    }
    let rows = house.place.rows("/v1/executions?limit=500", "executions");
    // One start may have arrived and not been answered; the half request has started nothing.
    assert!(
        (runs.len()..=runs.len() + 1).contains(&rows.len()),
        "{} of {}",
        rows.len(),
        runs.len()
    );
}

fn uuid_of(answer: &Answer) -> String {
    answer.json()["operation_id"].as_str().unwrap().to_owned()
}

/// V-13, V-18, V-19, V-33, V-42, V-43: a caller who goes takes a volatile call along, and a later
/// request under its id is answered `indeterminate`. A persist call goes on.
#[test]
fn a_caller_who_goes() {
    let (mut house, peer) = with_peer();
    peer.hold(Hold::BeforeAnswering);
    let (volatile, persist) = (uuid(0, 1), uuid(0, 2));
    let call = |house: &House, function: &str, id: &str, name: &str| {
        let path = format!("/v1/call/behaviours/{function}");
        house.leave(&path, &[(ID, id)], &spec(&peer, name))
    };
    let stream = call(&house, "glance", &volatile, "volatile");
    wait_for_one(&peer, "volatile");
    go_away(&house, stream, &volatile);
    let stream = call(&house, "sends", &persist, "persist");
    wait_for_one(&peer, "persist");
    drop(stream);
    peer.release();
    let again = |house: &House, function: &str, id: &str, name: &str| {
        house.post(&format!("/v1/call/behaviours/{function}"), &[(ID, id)], &spec(&peer, name))
    };
    let first = again(&house, "sends", &persist, "persist");
    assert_eq!(first.status, 200, "{}", text(&first));
    for _ in 0..2 {
        let refused = again(&house, "glance", &volatile, "volatile");
        assert_eq!(met(&refused), (424, "indeterminate".into(), "none"));
        let went_on = again(&house, "sends", &persist, "persist");
        assert_eq!((met(&went_on).2, outcome(&went_on)), ("PriorResult", outcome(&first)));
        assert_eq!(went_on.json()["result"]["status"], 200);
        house.crash();
    }
    assert_eq!((arrived(&peer, "volatile"), arrived(&peer, "persist")), (1, 1), "each once");
}

/// V-13, V-18, V-33: a stop gives up what is volatile; a later request is answered `indeterminate`.
#[test]
fn a_stop_releases_what_is_volatile() {
    let mut house = House::new();
    house.deploy("behaviours");
    let id = uuid(0, 1);
    let (path, naps) = ("/v1/call/behaviours/naps", "100000");
    let waits = {
        let (place, id) = (Arc::clone(&house.place), id.clone());
        thread::spawn(move || place.post(path, (ID, &id), naps))
    };
    let known = format!("/v1/operations/{id}");
    until("it goes on", || (house.get(&known).status == 200).then_some(()));
    house.terminate();
    let told = waits.join().unwrap();
    assert_eq!(told.status, 202, "{}", text(&told));
    assert_eq!(house.ended(), Some(0));
    for _ in 0..2 {
        house.start();
        let again = house.post(path, &[(ID, &id)], naps);
        assert_eq!(met(&again), (424, "indeterminate".into(), "none"));
        let asked = house.get(&format!("{known}/outcome"));
        assert_eq!(met(&asked), (424, "indeterminate".into(), "none"), "it was not nothing");
        house.terminate();
        assert_eq!(house.ended(), Some(0));
    }
    house.start();
    assert_eq!(met(&house.get(&format!("/v1/executions/{}", execution(&told)))).0, 404);
}
