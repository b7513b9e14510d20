//! The bytes of every row, as they are for ever.

use std::fmt::Write as _;

use indelible_delivery::attempt::{FailureCode, FailureRecord};
use indelible_delivery::breaker::{Breaker, Sample, Thresholds};
use indelible_delivery::dead::{
    DecisionRecord, DecisionType, Entry, EntryState, Proof, SealedEntry, Status,
};
use indelible_delivery::delivery::{DeadReason, Delivery, State, WaitCause};
use indelible_delivery::inbox::{InboxRow, Reception, Source, SourceSettings, TargetSettings};
use indelible_delivery::oip::ErrorCode;
use indelible_delivery::signing::{Ed25519Key, Secret};
use indelible_delivery::{
    ContentHash, Disabled, Endpoint, EndpointState, Malformed, Message, Origin, SecretText,
    SigningSecret,
};
use indelible_ledger::TransactionId;
use indelible_slots::Slot;
use proptest::prelude::*;

use crate::support::{at, endpoint, message, seconds, settings};

/// One of each origin.
pub(crate) fn origins() -> Vec<Origin> {
    let promise = format!("{}.0.2", "ab".repeat(32)).parse().unwrap();
    let id = TransactionId::from_bytes([3; 16]);
    let slot = Slot::new(0x123).unwrap();
    vec![
        Origin::Promise(promise),
        Origin::Transaction { id, index: 4, slot },
        message("key-1").origin,
        Origin::Decision { reissue_of: message("key-1").id(), entry: ContentHash::of(b"entry") },
    ]
}

fn endpoints() -> Vec<Endpoint> {
    let full = r#"{"name":"full","url":"https://example.com:8443/a?b=c","topics":["*","a.b","a.*"],
        "fields":[{"pointer":"/a/0","value":{"x":[1,null]}}],"idem":false,
        "busy_is_not_processed":true,"on_dead_letter":"skip","rate_per_second":50,
        "schedule":{"backoff":{"base_ms":500,"cap_ms":5000}},"ttl_seconds":600}"#;
    let mut full = settings(full).read().unwrap();
    full.secrets = vec![
        SigningSecret { secret: Secret::hmac(&[1; 32]), until: None },
        SigningSecret { secret: Secret::ed25519([2; 32]), until: Some(at(60)) },
    ];
    full.state = EndpointState::Disabled { since: at(1), why: Disabled::Gone };
    vec![endpoint(), full]
}

fn deliveries() -> Vec<Delivery> {
    let codes = [
        FailureCode::Status(500),
        FailureCode::NotSent,
        FailureCode::Forbidden,
        FailureCode::NoAnswer,
        FailureCode::DeliveryTimeout,
        FailureCode::SenderLost,
        FailureCode::Rejected(ErrorCode::StateHashMismatch),
    ];
    let failures = codes.into_iter().zip(1..);
    let failures = failures.map(|(code, n)| FailureRecord::new(n, at(n.into()), code, "é"));
    let states = [
        State::Queued,
        State::Sending { since: at(1) },
        State::Waiting { until: at(2), cause: WaitCause::Retry },
        State::Waiting { until: at(3), cause: WaitCause::Endpoint },
        State::Delivered { at: at(4), status: 204 },
        State::Dead { at: at(5), reason: DeadReason::Unknown },
        State::Reissued { at: at(6), by: message("again").id() },
        State::Abandoned { at: at(7) },
        State::Ended { at: at(8), reason: DeadReason::Expired },
    ];
    let mut deliveries: Vec<Delivery> =
        states.map(|state| Delivery { state, ..Delivery::default() }).into();
    deliveries[0] = Delivery {
        attempts: 7,
        retries: 6,
        may_have_arrived: true,
        failures: failures.collect(),
        ..Delivery::default()
    };
    deliveries
}

fn breakers() -> Vec<Breaker> {
    let mut all = vec![Breaker::default()];
    let mut breaker = Breaker::default();
    for second in 0..10 {
        breaker.record(Sample::Failed, at(second), at(second), &Thresholds::DEFAULT);
        if second == 8 {
            all.push(breaker.clone());
        }
    }
    all.push(breaker.clone());
    breaker.admit(at(100));
    all.push(breaker);
    all
}

fn sources() -> Vec<Source> {
    let whsec = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let public = Ed25519Key::from_seed([1; 32]).public().to_string();
    let hmac = r#"{"hmac":{"header":"X-Sig","prefix":"p=","base64":true,
        "timestamp_header":"X-Time","id_pointer":"/id","retry_horizon_seconds":60}}"#;
    let presets = [
        (r#""standard_webhooks""#, whsec),
        (r#""stripe""#, whsec),
        (r#""github""#, whsec),
        (hmac, whsec),
        (r#""oip""#, &public),
    ];
    let targets = [
        TargetSettings::Start("paid".to_owned()),
        TargetSettings::Signal {
            name: "paid".to_owned(),
            execution_pointer: "/execution".to_owned(),
        },
        TargetSettings::Transaction("wallets".to_owned()),
    ];
    let presets = presets.iter().zip(targets.iter().cycle());
    let source = |((preset, secret), target): (&(&str, &str), &TargetSettings)| {
        let text = SecretText((*secret).to_owned());
        let settings = crate::inbox::source(preset, secret).settings;
        let target = target.clone();
        SourceSettings { secrets: vec![text], target, ..settings }.read().unwrap()
    };
    presets.map(source).collect()
}

fn inbox_rows() -> Vec<InboxRow> {
    let accepted = Reception::Accepted { ack: "{}".into(), effect: "exe_1".into() };
    let rejected = Reception::Rejected(ErrorCode::StateHashMismatch);
    let row = |reception| InboxRow {
        conflict_hash: ContentHash::of(b"body"),
        reception,
        received: at(1),
        kept_until: at(2),
    };
    vec![row(accepted), row(rejected)]
}

fn descendant() -> Entry {
    let entry = crate::dead::envelope(true);
    let ancestors = crate::dead::webhook(true).lineage();
    Entry { ancestors, ttl: None, failures: vec![], ..entry }
}

fn entry_states() -> Vec<EntryState> {
    let of = |status| EntryState { status, ..EntryState::NEW };
    let mut states: Vec<EntryState> = Status::ALL.map(of).into();
    states[1].successor = Some(message("again").id());
    states[2].escalated = true;
    states
}

fn decision_records() -> Vec<DecisionRecord> {
    let entry = crate::dead::webhook(true);
    let types = [
        (DecisionType::Retry, Some(Proof::NotNeeded)),
        (DecisionType::Retry, Some(Proof::Receiver)),
        (DecisionType::Retry, Some(Proof::ReissueOf)),
        (DecisionType::Abandon, None),
        (DecisionType::GovernanceEscalation, None),
        (DecisionType::Redeliver, Some(Proof::Statement)),
    ];
    let record = |(decision_type, proof)| {
        let payload = crate::dead::payload(&entry, decision_type);
        DecisionRecord {
            previous: DecisionRecord::GENESIS,
            entry: entry.id,
            decision_type,
            new_message_id: payload.new_message_id.map(|id| id.0),
            proof,
            decided_alone: decision_type == DecisionType::Abandon,
            taken_at: at(1),
            decision: payload.sign(&crate::dead::ana()),
        }
    };
    types.map(record).into()
}

/// Every line is a name and the bytes of a row in hexadecimal. A row that this build writes in
/// another way would not be read by the build before it.
#[test]
fn golden_bytes() {
    let mut found = String::new();
    let mut line = |name: &str, row: Vec<u8>| {
        writeln!(found, "{name} {}", data_encoding::HEXLOWER.encode(&row)).unwrap();
    };
    for origin in origins() {
        let message = Message { origin, lane_key: None, ..message("key-1") };
        assert_eq!(Message::decode(&message.encode()), Ok(message.clone()));
        line(&format!("message {}", message.id()), message.encode());
    }
    for endpoint in endpoints() {
        assert_eq!(Endpoint::decode(&endpoint.encode()), Ok(endpoint.clone()));
        line("endpoint", endpoint.encode());
    }
    for delivery in deliveries() {
        assert_eq!(Delivery::decode(&delivery.encode()), Ok(delivery.clone()));
        line("delivery", delivery.encode());
    }
    for breaker in breakers() {
        assert_eq!(Breaker::decode(&breaker.encode()), Ok(breaker.clone()));
        line("breaker", breaker.encode());
    }
    for source in sources() {
        assert_eq!(Source::decode(&source.encode()), Ok(source.clone()));
        line("source", source.encode());
    }
    for row in inbox_rows() {
        assert_eq!(InboxRow::decode(&row.encode()), Ok(row.clone()));
        line("inbox", row.encode());
    }
    let server = Ed25519Key::from_seed([9; 32]);
    for entry in [crate::dead::webhook(true), crate::dead::envelope(false), descendant()] {
        let sealed = entry.seal(&server);
        assert_eq!(sealed.open(&[server.public()]), Ok(entry));
        line("entry", sealed.encode());
    }
    for state in entry_states() {
        assert_eq!(EntryState::decode(&state.encode()), Ok(state));
        line("entry-state", state.encode());
    }
    for record in decision_records() {
        assert_eq!(DecisionRecord::decode(&record.encode()), Ok(record.clone()));
        line("decision", record.encode());
    }
    compare("rows-1.txt", include_str!("../fixtures/rows-1.txt"), &found);
}

/// The fixture and what this build writes. The panic shows all of it, for a fixture that is new.
pub(crate) fn compare(file: &str, golden: &str, found: &str) {
    assert!(golden == found, "GOLDEN {file}\n{found}END GOLDEN");
}

/// C-77, O-24: an id leads to the slot of its origin, is the same each time, and has no dot.
#[test]
fn ids_follow_from_their_origin() {
    for origin in origins() {
        let id = origin.message_id();
        assert_eq!(id, origin.message_id());
        assert_eq!(id.slot(), origin.slot());
        assert!(!id.to_string().contains('.'));
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    let mut ids: Vec<_> = origins().iter().map(Origin::message_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), origins().len());
}

/// C-60: messages of one origin are compared by everything but their time.
#[test]
fn conflicts_are_told_by_content() {
    let one = message("a");
    let later = Message { created: one.created.saturating_add(seconds(9)), ..one.clone() };
    assert_eq!(one.conflict_hash(), later.conflict_hash());
    let others = [
        Message { body: "{}".into(), ..one.clone() },
        Message { topic: "order.paid".parse().unwrap(), ..one.clone() },
        Message { lane_key: None, ..one.clone() },
        Message { content_type: "text/plain".parse().unwrap(), ..one.clone() },
    ];
    for other in others {
        assert_ne!(one.conflict_hash(), other.conflict_hash());
    }
}

proptest! {
    /// D12: bytes that are no row, cut rows and rows of another version are refused; what is read is
    /// written again with the same bytes.
    #[test]
    fn damaged_rows_are_refused(
        line: prop::sample::Index,
        at: prop::sample::Index,
        flip in 1..=255_u8,
    ) {
        let golden: Vec<&str> = include_str!("../fixtures/rows-1.txt").lines().collect();
        let (name, hex) = line.get(&golden).rsplit_once(' ').unwrap();
        let row = data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap();
        let rewritten = |row: &[u8]| -> Result<Vec<u8>, Malformed> {
            Ok(match name.split(' ').next().unwrap() {
                "message" => Message::decode(row)?.encode(),
                "endpoint" => Endpoint::decode(row)?.encode(),
                "delivery" => Delivery::decode(row)?.encode(),
                "breaker" => Breaker::decode(row)?.encode(),
                "source" => Source::decode(row)?.encode(),
                "inbox" => InboxRow::decode(row)?.encode(),
                "entry" => SealedEntry::decode(row)?.encode(),
                "entry-state" => EntryState::decode(row)?.encode(),
                "decision" => DecisionRecord::decode(row)?.encode(),
                other => panic!("{other}"),
            })
        };
        prop_assert_eq!(&rewritten(&row), &Ok(row.clone()));
        let at = at.index(row.len());
        prop_assert!(rewritten(&row[..at]).is_err());
        let newer = [&[row[0] + 1], &row[1..]].concat();
        prop_assert!(rewritten(&newer).is_err());
        let longer = [&row[..], &[0]].concat();
        prop_assert!(rewritten(&longer).is_err());
        // A flipped byte is for the row's seal to notice: here it is only no panic.
        let mut flipped = row;
        flipped[at] ^= flip;
        _ = rewritten(&flipped);
    }
}
