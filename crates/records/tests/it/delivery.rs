//! The rows of delivery: what is stored reads back, and a byte that changes, or a row that is missing,
//! is found.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use bytes::Bytes;
use indelible_delivery::attempt::{AttemptEnd, Unknown};
use indelible_delivery::breaker::Breaker;
use indelible_delivery::delivery::{Context, Input, State, step};
use indelible_delivery::schedule::Jitter;
use indelible_delivery::{
    ContentType, Delivery, EndpointSettings, LaneKey, Message, Origin, Topic,
};
use indelible_journal::Namespace;
use indelible_ledger::OriginId;
use indelible_records::delivery::{
    self, DeliveryKey, OfficeRow, OpenRow, StoredDelivery, StoredEndpoint, StoredMessage,
};
use indelible_records::{DELIVERIES, MESSAGES, TABLES, check};
use indelible_slots::SlotSet;
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, Scan, Store};
use indelible_test_store::rows::at;

fn namespace() -> Namespace {
    Namespace::new("shop").unwrap()
}

fn endpoint() -> StoredEndpoint {
    let settings = r#"{"name":"crm","url":"https://example.com/","idem":false,
        "secrets":["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]}"#;
    let settings: EndpointSettings = serde_json::from_str(settings).unwrap();
    let (endpoint, breaker) = (settings.read().unwrap(), Breaker::default());
    StoredEndpoint { deleted: false, paused_until: Some(at(50)), breaker, endpoint }
}

fn office() -> OfficeRow {
    OfficeRow {
        last_number: 4,
        last_endpoint: 1,
        swept: 1,
        ticket: Some(9),
        sweeps_at: Some(at(7_000)),
    }
}

fn message(number: u64) -> StoredMessage {
    let key = OriginId::new(&format!("key-{number}")).unwrap();
    let message = Message {
        origin: Origin::Key { namespace: namespace(), key },
        namespace: namespace(),
        topic: Topic::new("order.created").unwrap(),
        lane_key: Some(LaneKey::new("größe").unwrap()),
        content_type: ContentType::new("application/json").unwrap(),
        body: Bytes::from_static(b"{}"),
        created: at(10),
    };
    StoredMessage { number, endpoints: vec![1], message }
}

fn deliveries() -> [(DeliveryKey, StoredDelivery); 3] {
    let endpoint = endpoint().endpoint;
    [2, 3, 4].map(|number| {
        let StoredMessage { message, .. } = message(number);
        let told = |delivery: Delivery, input| {
            let (now, policy) = (at(20 + number), endpoint.policy(message.created));
            step(delivery, input, &Context { now, jitter: Jitter(7), policy }).unwrap().delivery
        };
        let delivery = match number {
            2 => {
                let end = AttemptEnd::Unknown(Unknown::NoAnswer);
                let begun = told(Delivery::default(), Input::Begin);
                told(begun, Input::End { attempt: 1, end, text: "cut" })
            }
            3 => told(Delivery::default(), Input::Begin),
            _ => Delivery::default(),
        };
        let (id, lane) = (message.id(), message.lane_key);
        (DeliveryKey { endpoint: 1, number }, StoredDelivery { message: id, lane, delivery })
    })
}

/// One row of each kind at least: a dead letter, an attempt under way, and one that is queued.
pub(crate) fn fill(batch: &mut Batch) {
    let namespace = namespace();
    batch.touch(delivery::room_key(&namespace).slot());
    delivery::put_office(batch, &namespace, &office());
    delivery::put_endpoint(batch, &namespace, 1, &endpoint());
    for (key, stored) in deliveries() {
        batch.touch(stored.message.slot());
        delivery::put_message(batch, stored.message, &message(key.number));
        match stored.delivery.state {
            State::Dead { .. } => delivery::put_dead(batch, &namespace, key),
            State::Sending { .. } => delivery::put_open(batch, &namespace, OpenRow::Sending, key),
            _ => delivery::put_open(batch, &namespace, OpenRow::Queued, key),
        }
        let lane = delivery::lane_row(&namespace, key, stored.lane.as_ref().unwrap());
        batch.put(DELIVERIES, lane, Bytes::new());
        delivery::put_delivery(batch, &namespace, key, &stored);
    }
}

pub(crate) fn assert_filled(store: &Store) {
    let namespace = namespace();
    assert_eq!(delivery::office(store, &namespace).unwrap().value, Some(office()));
    let endpoints = delivery::endpoints(store, &namespace, 0, 10).unwrap().value;
    assert_eq!(endpoints, [(1, endpoint())]);
    for (key, stored) in deliveries() {
        let known = delivery::message(store, stored.message).unwrap().value;
        assert_eq!(known, Some(message(key.number)));
        let id = delivery::message_of_number(store, &namespace, key.number).unwrap().value;
        assert_eq!(id, Some(stored.message));
        let all = delivery::deliveries_of(store, &namespace, key.number, 10).unwrap().value;
        assert_eq!(all, [(key, stored)]);
    }
    let key = |number| DeliveryKey { endpoint: 1, number };
    let open = |what| delivery::open(store, &namespace, what, None, 10).unwrap().value;
    assert_eq!(open(OpenRow::Sending), [key(3)]);
    assert_eq!(open(OpenRow::Queued), [key(4)]);
    assert_eq!(delivery::dead(store, &namespace, None, 10).unwrap().value, [key(2)]);
    let lanes = delivery::lanes(store, &namespace, None, 10).unwrap().value;
    assert_eq!(lanes.iter().map(|(_, _, key)| key.number).collect::<Vec<_>>(), [2, 3, 4]);
    let newest = delivery::messages_below(store, &namespace, 4, 1).unwrap().value;
    assert_eq!(newest[0].0, 3);
}

fn commit(store: &Store, batch: Batch) {
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
}

fn problems(store: &Store) -> u64 {
    check::check(store, &mut |_| {}).unwrap().problems_count
}

/// D12, D13: rows read back as what they were, each in its slot; a bit that flips in any of them is a
/// problem, and so is a message, a delivery or a number that is missing.
#[test]
fn what_is_stored_reads_back_and_is_checked() {
    let store = Store::start(Arc::new(MemoryBackend::new()), &TABLES, Bounds::DEFAULT).unwrap();
    let mut batch = Batch::in_slots(SlotSet::empty());
    fill(&mut batch);
    commit(&store, batch);
    assert_filled(&store);
    assert_eq!(check::check(&store, &mut |_| {}).unwrap().problems, []);
    for table in [MESSAGES, DELIVERIES] {
        for (key, value) in store.scan(&Scan::all(table, 100)).unwrap().value.rows {
            let mut changes: Vec<Option<Bytes>> = (0..value.len())
                .step_by(7)
                .map(|at| {
                    let mut flipped = value.to_vec();
                    flipped[at] ^= 1 << (at % 8);
                    Some(flipped.into())
                })
                .collect();
            // What the office counts, an endpoint and what only says that something is open cannot be
            // missed by others.
            let kind = key.get(2 + "shop".len()).copied();
            if table == MESSAGES || kind == Some(2) || kind == Some(7) {
                changes.push(None);
            }
            for change in changes {
                let mut batch = Batch::new();
                match &change {
                    Some(flipped) => batch.put(table, key.clone(), flipped.clone()),
                    None => batch.delete(table, key.clone()),
                };
                commit(&store, batch);
                assert!(problems(&store) > 0, "{} {key:?} {change:?}", table.name());
                let mut batch = Batch::new();
                batch.put(table, key.clone(), value.clone());
                commit(&store, batch);
            }
        }
    }
    assert_eq!(problems(&store), 0);
}
