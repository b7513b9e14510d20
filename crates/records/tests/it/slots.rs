//! The slot of each row (D13): total over all keys, and the one that the ids in a key lead to.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

use indelible_journal::RootHash;
use indelible_records::executions::Standing;
use indelible_records::idempotency_keys::{Answer, KeyOutcome, SERVER};
use indelible_records::outbox::{self, Channel, Message, MessageId};
use indelible_records::windows::{Id, Kind};
use indelible_records::{
    ANSWERS, AUDIT, COMPONENTS, EXPIRIES, IDEMPOTENCY_KEYS, OPERATIONS, Room, SETTINGS, TABLES,
    audit, doubts, queue, timers, windows,
};
use indelible_slots::{Slot, SlotSet, of_key, of_operation};
use indelible_store::{Batch, Table};

use indelible_test_store::rows::{Run, at, held, key};
use indelible_test_support::Prng;

use crate::support::{key_record, shop};

/// D13: every key has a slot, whatever it is.
#[test]
fn every_key_has_a_slot() {
    let mut numbers = Prng::new(7);
    for _ in 0..20_000 {
        let length = numbers.below(90) as usize;
        let key: Vec<u8> = (0..length).map(|_| numbers.below(256) as u8).collect();
        for table in TABLES {
            assert!(table.slot_of(&key).get() < Slot::COUNT, "{} {key:?}", table.name());
        }
    }
}

/// C-77, D13: the rows of a tree, of its indexes, its timers, its place in the queue and its audit
/// entries are in the slot of its root; records are in that of their id or key, and so are the
/// entries that let them go; what is of the whole server is in slot 0.
#[test]
fn rows_are_where_their_ids_lead() {
    let root = *key(3, &[], &[1]).execution_id().root();
    assert_ne!(root.slot(), Slot::SERVER);
    let mut batch = Batch::in_slots(root.slot());
    let mut run = Run::start(3, &key(3, &[], &[1]), "place_order", at(1_000));
    run.work(at(1_001), 2);
    run.label("order=1=✓");
    run.label("urgent=");
    run.end(at(1_300), Standing::Completed);
    run.flush(&mut batch);
    let mut child = Run::start(3, &key(3, &[7], &[1, 2]), "größe", at(1_100));
    child.flush(&mut batch);
    let entry = queue::Entry { ticket: 9, key: key(3, &[], &[1]) };
    queue::put(&mut batch, &entry);
    timers::put(&mut batch, &timers::Timer { due: at(7), key: entry.key.clone(), child: None });
    let doubt = doubts::DoubtId { key: entry.key.clone(), child: 1 };
    doubts::replace(&mut batch, &doubt, None, &held());
    let about = audit::AuditSubject::Execution(entry.key);
    audit::put(&mut batch, &audit::Entry::new(at(1), [0xee; 16], "user:ada", "cancel", about));
    let channel = Channel { from: root.slot(), to: Slot::new(1).unwrap() };
    let message = Message { room: Room::Tree, key: "key".into(), payload: "payload".into() };
    outbox::put(&mut batch, MessageId { channel, number: 1 }, &message);
    outbox::settle(&mut batch, channel, 0, &[]);
    let back = Channel { from: channel.to, to: channel.from };
    outbox::apply(&mut batch, MessageId { channel: back, number: 1 }, 0);
    let record = key_record(Some(50), KeyOutcome::Answer(Answer::Done));
    windows::replace(&mut batch, &Id::for_answer(&shop(), &root, "key 7"), None, Some(&record));
    assert_eq!(slots(&batch), SlotSet::from(root.slot()));
    assert_eq!(batch.writes().iter().filter(|write| write.table == AUDIT).count(), 1);

    for (kind, name, slot) in [
        (Kind::Operation, "order-1", of_operation("shop", "order-1")),
        (Kind::Operation, "0198c0de-0000-7000-8000-000000000abc", Slot::new(0xabc).unwrap()),
        (Kind::IdempotencyKey, "order 7 ✓", of_key("shop", "order 7 ✓")),
    ] {
        let id = Id { kind, namespace: shop(), name: name.to_owned() };
        let mut batch = Batch::in_slots(slot);
        windows::replace(&mut batch, &id, None, Some(&record));
        assert_eq!((slots(&batch), id.slot()), (SlotSet::from(slot), slot), "{name}");
        let tables = batch.writes().iter().map(|write| write.table).collect::<Vec<Table>>();
        assert!(tables.contains(&EXPIRIES));
        assert!(tables.contains(&OPERATIONS) || tables.contains(&IDEMPOTENCY_KEYS));
    }
    assert_eq!(Id::for_answer(&shop(), &SERVER, "key 7").slot(), Slot::SERVER);
    assert_eq!(ANSWERS.slot_of(b"\0\x04shopabc"), Slot::new(0xabc).unwrap());
    for table in [COMPONENTS, SETTINGS] {
        assert_eq!(table.slot_of(RootHash::from_bytes([0xff; 32]).as_bytes()), Slot::SERVER);
    }
}

fn slots(batch: &Batch) -> SlotSet {
    batch.writes().iter().map(|write| write.table.slot_of(&write.key)).collect()
}
