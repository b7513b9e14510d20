//! Nothing that was shown is taken back (D2): readers remember what they saw of lists, details,
//! journals and events, and look again, while calls go on and the server is killed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use serde_json::{Value, json};

use super::kit::{House, PATIENCE, Place, execution, text};
use super::sse::Watcher;

const KILLS: usize = 7;
const CALLERS: usize = 4;
/// Calls that go on when the server is killed.
const UNDER_WAY: usize = 2;
/// Signals of each life of the server.
const SIGNALS: usize = 8;
/// Calls that come to their end in each life of the server.
const CALLS: usize = 12;

fn is_over(row: &Value) -> bool {
    matches!(row["state"].as_str().unwrap(), "completed" | "failed" | "cancelled")
}

/// What a reader has seen, by execution.
#[derive(Default)]
struct Reader {
    rows: BTreeMap<String, Value>,
    details: BTreeMap<String, Value>,
    journals: BTreeMap<String, Vec<Value>>,
}

impl Reader {
    /// Looks at everything: what was seen before is still so.
    fn look(&mut self, place: &Place) {
        self.lists(place);
        let ids: Vec<_> = self.rows.keys().cloned().collect();
        for id in &ids {
            self.journal(place, id);
            self.detail(place, id);
        }
        let over: Vec<_> =
            place.rows("/v1/executions?state=completed,failed,cancelled&limit=500", "executions");
        for (id, row) in self.rows.iter().filter(|(_, row)| is_over(row)) {
            assert!(over.contains(row), "{id} was over, and is not listed among those");
        }
    }

    fn lists(&mut self, place: &Place) {
        let mut now = BTreeMap::new();
        for row in place.rows("/v1/executions?limit=7", "executions") {
            let id = row["execution_id"].as_str().unwrap().to_owned();
            assert!(now.insert(id.clone(), row).is_none(), "{id} is there twice");
        }
        for (id, before) in &self.rows {
            let row = now.get(id).unwrap_or_else(|| panic!("{id} was shown, and is gone"));
            if is_over(before) {
                assert_eq!(row, before, "what is over stays as it is");
            }
            assert!(row["events"].as_u64() >= before["events"].as_u64(), "{before} became {row}");
            assert!(row["updated_at"].as_str() >= before["updated_at"].as_str(), "{row}");
            for field in ["function", "component_digest", "created_at", "namespace"] {
                assert_eq!(row[field], before[field], "{field} of {id}");
            }
        }
        self.rows = now;
    }

    fn journal(&mut self, place: &Place, id: &str) {
        let now = place.journal(id);
        let before = self.journals.entry(id.to_owned()).or_default();
        assert!(now.starts_with(before), "the journal of {id} lost or changed what it had");
        let listed = self.rows[id]["events"].as_u64().unwrap();
        assert!(now.len() as u64 >= listed, "the list knew of {listed} events of {id}");
        *before = now;
    }

    fn detail(&mut self, place: &Place, id: &str) {
        let now = place.json(&format!("/v1/executions/{id}"));
        if let Some(before) = self.details.get(id)
            && is_over(&before["execution"])
        {
            assert_eq!(&now, before, "how {id} ended stays as it is");
        }
        if is_over(&self.rows[id]) {
            assert_eq!(now["execution"], self.rows[id], "the list knew how {id} ended");
        }
        self.details.insert(id.to_owned(), now);
    }
}

/// D2, V-21: whatever a list, a detail, a journal or a stream of events has shown is there
/// after `kill -9`: the same executions, journals that begin with what was seen, ends that do not
/// change. A stream that is resumed has every event once, in order.
#[test]
fn nothing_that_was_shown_is_taken_back() {
    let mut house = House::new();
    house.deploy("script");
    let done = Arc::new(AtomicBool::new(false));
    // Two executions that live through all of it.
    let body = json!([{"repeat": [KILLS * SIGNALS,
        [{"signal": "go"}, {"call": ["c", "main", []]}, {"await": "c"}]]}]);
    let start = || execution(&house.post("/v1/start/script/main", &[], &body.to_string()));
    let followed = [start(), start()];
    let watchers = followed.clone().map(|id| {
        let place = Arc::clone(&house.place);
        thread::spawn(move || {
            let mut watcher = Watcher::new(&id);
            watcher.watch(&place);
            watcher
        })
    });
    let readers = [(); 2].map(|()| {
        let (place, done) = (Arc::clone(&house.place), Arc::clone(&done));
        thread::spawn(move || {
            let mut reader = Reader::default();
            while !done.load(Ordering::SeqCst) {
                reader.look(&place);
            }
            reader
        })
    });
    let (permit, permits) = mpsc::channel();
    let permits = Arc::new(Mutex::new(permits));
    let (ended, ends) = mpsc::channel();
    let callers = [(); CALLERS].map(|()| {
        let (place, permits) = (Arc::clone(&house.place), Arc::clone(&permits));
        let ended = ended.clone();
        thread::spawn(move || {
            let next = || permits.lock().unwrap().recv();
            while let Ok(number) = next() {
                call(number, &place);
                ended.send(()).unwrap();
            }
        })
    });
    (0..UNDER_WAY).for_each(|number| permit.send(number).unwrap());
    let (allow, allowed) = mpsc::channel();
    let (sent, delivered) = mpsc::channel();
    let feeder = {
        let (place, followed) = (Arc::clone(&house.place), followed.clone());
        thread::spawn(move || {
            for number in allowed {
                for id in &followed {
                    let path = format!("/v1/executions/{id}/signals/go");
                    let key = format!("{id}-{number}");
                    let answer = place.post(&path, ("idempotency-key", &key), "1");
                    assert_eq!(answer.status, 200, "{}", text(&answer));
                }
                sent.send(()).unwrap();
            }
        })
    };
    for kill in 0..KILLS {
        for number in 0..SIGNALS {
            allow.send(kill * SIGNALS + number).unwrap();
        }
        for number in 0..CALLS {
            permit.send(UNDER_WAY + kill * CALLS + number).unwrap();
        }
        let lost = readers.iter().any(thread::JoinHandle::is_finished);
        assert!(!lost, "a reader missed what it had seen");
        // Some have come to their end, and one signal or another is on its way.
        (0..CALLS).for_each(|_| ends.recv_timeout(PATIENCE).unwrap());
        (1..SIGNALS).for_each(|_| delivered.recv_timeout(PATIENCE).unwrap());
        house.crash();
        delivered.recv_timeout(PATIENCE).unwrap();
    }
    drop((allow, permit));
    feeder.join().unwrap();
    let watched = watchers.map(|watcher| watcher.join().unwrap());
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    done.store(true, Ordering::SeqCst);
    let mut seen = readers.map(|reader| reader.join().unwrap());
    house.crash();
    for reader in &mut seen {
        assert!(reader.rows.len() > KILLS, "it has seen some");
        reader.look(&house.place);
        let called = UNDER_WAY + KILLS * CALLS + followed.len();
        assert_eq!(reader.rows.len(), called, "as many as were called");
        assert!(reader.rows.values().all(is_over));
    }
    for (id, watcher) in followed.iter().zip(&watched) {
        let journal = house.place.journal(id);
        let events: Vec<_> = watcher.events.iter().map(|(_, event)| event.clone()).collect();
        assert_eq!(events, journal, "every event once, in order");
        for (place, (id, _)) in watcher.events.iter().enumerate() {
            assert_eq!(*id, format!("1:{place}"));
        }
        // It may have been over just before the last one.
        assert!(watcher.broken >= KILLS - 1, "the stream broke {} times", watcher.broken);
    }
}

/// One call, under a key of its own.
fn call(number: usize, place: &Place) {
    let bodies = [
        r#"[{"call":["a","main",[]]},{"timer":["t",5]},{"all":["a","t"]},{"random":8}]"#,
        r#"[{"timer":["t",2]},{"await":"t"},{"fail":"as it should"}]"#,
        r#"[{"repeat":[5,[{"call":["c","main",[]]},{"await":"c"}]]}]"#,
    ];
    let (key, kind) = (format!("call-{number}"), number % bodies.len());
    let answer = place.post("/v1/call/script/main", ("idempotency-key", &key), bodies[kind]);
    assert_eq!(answer.status, if kind == 1 { 424 } else { 200 }, "{}", text(&answer));
}
