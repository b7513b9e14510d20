//! A commit is refused, because the store has something else than the tree in memory believes: the tree
//! is given up, and goes on from what is stored, without anybody asking.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::pin::pin;
use std::task::{Context, Waker};

use indelible_journal::{Ending, JournalKey, Micros, Payload};
use indelible_records::executions::{self, Standing};
use indelible_store::Batch;
use serde_json::json;

use crate::support::{House, KEEP, by_hand};

/// More children than run in one turn: the first commit leaves the root in the stored queue.
const CHILDREN: u32 = 80;

/// D1, D14: what the stored queue says is to be done is done, though the memory of it was dropped.
#[test]
fn a_tree_that_was_given_up_goes_on_by_itself() {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    let slots: Vec<_> = (0..CHILDREN).map(|child| format!("c{child}")).collect();
    let call = |slot| json!({ "call": [slot, "main", [{ "return": 1 }]] });
    let mut program: Vec<_> = slots.iter().map(call).collect();
    program.extend(slots.iter().map(|slot| json!({ "await": slot })));
    program.push(json!({ "return": CHILDREN }));
    let request = house.request("one", "script/main", &json!(program).to_string());
    let mut start = pin!(house.engine().start(request));
    let pending = start.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    assert!(pending && house.engine().step(), "one turn, and one commit");
    let started = house.wait_for_disk(start).unwrap();
    let root = JournalKey::first(started.execution_id.clone());

    // Another hand moves the row: the condition of the tree's next commit does not hold.
    let store = house.engine().store();
    let row = executions::get(store, &root).unwrap().value.unwrap();
    let mut moved = row.clone();
    moved.updated_at = row.updated_at.saturating_add(Micros::new(1));
    let mut batch = Batch::in_slots(root.execution_id().root().slot());
    executions::advance(&mut batch, Some(&row), &moved, &[]).unwrap();
    store.submit_blocking(batch).unwrap();

    house.work();
    let trouble = std::mem::take(&mut *house.told.trouble.lock().unwrap());
    assert!(matches!(&trouble[..], [one] if one.contains("commit failed")), "{trouble:?}");
    let row = executions::get(store, &root).unwrap().value.unwrap();
    assert_eq!(row.standing, Standing::Completed, "it went on");
    let ending = house.wait(house.engine().outcome(&started.execution_id)).unwrap();
    assert_eq!(ending, Some(Ending::Completed(Payload::json(CHILDREN.to_string()))));
    let tree = house.tree(&started.execution_id);
    assert_eq!(tree.len(), 1 + CHILDREN as usize, "each call ran once");
}
