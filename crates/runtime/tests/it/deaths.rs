//! An execution that kills the process whenever it is replayed, in a process that it kills (C-85).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the test starts processes")]

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use indelible_journal::{Ending, JournalKey, Micros};
use indelible_records::executions::Standing;
use indelible_runtime::world::Witness;
use indelible_runtime::{Actor, Parking, PersonDecision};
use indelible_test_support::example;
use serde_json::json;

use crate::support::{House, by_hand, returned};

/// C-85: one execution cannot crash-loop the server: after its third death it is stuck, the others
/// complete, and the process lives.
#[test]
fn an_execution_that_kills_the_process_is_stuck_after_the_third_time() {
    let deadly = r#"[{"timer":["t",200]},{"await":"t"},{"random":4}]"#;
    // Once while it was new, and three times while it was replayed.
    check_deadly(deadly, "", 4);
}

/// C-85: it is the same with one that is called by what is replayed, and never itself stored.
#[test]
fn a_call_that_kills_the_process_is_stuck() {
    let deadly =
        r#"[{"timer":["t",200]},{"await":"t"},{"call":["c","main",[{"random":4}]]},{"await":"c"}]"#;
    // On the way it is found out that it is not its caller.
    check_deadly(deadly, ".1", 8);
}

/// C-85: and with one that goes on in the same breath, after what it called has ended.
#[test]
fn a_caller_that_kills_the_process_is_stuck() {
    let deadly = r#"[{"timer":["t",200]},{"await":"t"},{"call":["c","main",[]]},{"await":"c"},{"random":4}]"#;
    // On the way it is found out that it is not the call, which is durable then.
    check_deadly(deadly, "", 8);
}

/// `stuck`: which part of the tree is stuck then; `deaths`: after how many at most.
fn check_deadly(deadly: &str, stuck: &str, deaths: u32) {
    let folder = tempfile::tempdir().unwrap();
    let component = indelible_guests::component("script");
    for attempt in 1.. {
        let run = Command::new(example("dying"))
            .arg(folder.path())
            .arg(&component)
            .arg(deadly)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        if !run.status.success() {
            assert!(attempt <= deaths, "it dies and dies: {said}");
            assert!(!said.contains("stuck"), "{said}");
            continue;
        }
        let deadly = said.lines().find_map(|line| line.strip_prefix("deadly ")).unwrap();
        let told: Vec<_> = said.lines().filter(|line| line.starts_with("stuck")).collect();
        assert_eq!(told.len(), 1, "the others are innocent: {said}");
        let why = format!("stuck {deadly}{stuck} the process died 3 times");
        assert!(told[0].starts_with(&why), "{said}");
        assert_eq!(said.lines().filter(|line| line.starts_with("ended")).count(), 19, "{said}");
        return;
    }
}

/// Remembers what a test says.
#[derive(Default)]
struct Memory(Mutex<HashMap<JournalKey, u32>>);

impl Witness for Memory {
    fn deaths(&self, key: &JournalKey) -> u32 {
        self.0.lock().unwrap().get(key).copied().unwrap_or(0)
    }

    fn replaying(&self, key: &JournalKey) {
        *self.0.lock().unwrap().entry(key.clone()).or_default() += 1;
    }

    fn survived(&self, key: &JournalKey) {
        self.0.lock().unwrap().remove(key);
    }
}

/// C-22, C-25: what is cancelled while it is stuck has its time to clean up when it is released,
/// and no more than that.
#[test]
fn the_time_to_clean_up_begins_with_the_release() {
    check_clean_up(10);
    check_clean_up(120);
}

fn check_clean_up(pass: u64) {
    let mut house = House::new(by_hand(Parking::Drop));
    let memory = Arc::new(Memory::default());
    house.witness = memory.clone();
    house.reopen();
    house.deploy("script");
    let cleaning_up = json!({ "cancelled": [{ "signal": "never" }] });
    let program = json!([cleaning_up, { "signal": "go" }, { "signal": "never" }]);
    let id = house.start("a", "script/main", &program.to_string());
    house.work();
    memory.0.lock().unwrap().insert(house.row(&id).key, 3);
    house.signal(&id, "go", "1");
    house.work();
    house.cancel(&id);
    // Before the time is over that it would have had, and after it.
    house.pass(Micros::from_secs(pass));
    assert_eq!(house.row(&id).standing, Standing::Stuck);
    house
        .wait(house.engine().release(&id, PersonDecision::by(Actor::new("somebody"), "again")))
        .unwrap();
    house.pass(Micros::from_secs(59));
    assert_eq!(house.row(&id).standing, Standing::Cancelling);
    house.pass(Micros::from_secs(1));
    let Ending::Cancelled(reason) = house.ending(&id) else { panic!("it was cancelled") };
    assert_eq!(reason, "enough (the time limit for cleaning up passed)");
}

/// C-85: a person lets it go on, and it has three lives again; whatever survives is forgotten.
#[test]
fn a_released_one_has_its_lives_back() {
    let mut house = House::new(by_hand(Parking::Drop));
    let memory = Arc::new(Memory::default());
    house.witness = memory.clone();
    house.reopen();
    house.deploy("script");
    let program = json!([{ "signal": "go" }, { "signal": "go" }, { "return": 1 }]).to_string();
    let ids: Vec<_> =
        ["a", "b"].map(|id| house.start(id, "script/main", &program)).into_iter().collect();
    house.work();
    let key = house.row(&ids[0]).key;
    memory.0.lock().unwrap().insert(key.clone(), 3);
    memory.0.lock().unwrap().insert(house.row(&ids[1]).key, 2);
    for id in &ids {
        house.signal(id, "go", "1");
    }
    house.work();
    let row = house.row(&ids[0]);
    assert_eq!(row.standing, Standing::Stuck);
    assert!(row.stuck.unwrap().contains("died 3 times in a row"));
    assert_eq!(house.row(&ids[1]).standing, Standing::Blocked);
    house.settle();
    house.work();
    assert_eq!(memory.0.lock().unwrap().len(), 1, "whatever survives is forgotten");
    // It is stuck in the next process, too, whatever that remembers.
    house.crash();
    house.signal(&ids[0], "go", "2");
    house.work();
    assert_eq!(house.row(&ids[0]).standing, Standing::Stuck);
    let actor = Actor::new("somebody");
    house
        .wait(house.engine().release(&ids[0], PersonDecision::by(actor, "the bug is mended")))
        .unwrap();
    house.work();
    assert_eq!(returned(&house.ending(&ids[0])), "1");
    house.settle();
    house.work();
    assert!(memory.0.lock().unwrap().is_empty());
}
