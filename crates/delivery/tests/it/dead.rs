//! Dead letters: their seals, who may decide what, and that nothing that may have arrived is sent
//! again without proof.

use std::collections::BTreeMap;

use indelible_delivery::attempt::{FailureCode, FailureRecord};
use indelible_delivery::dead::{
    AlertChannel, AlertConfig, Alerts, Ancestor, Authority, ChainFault, Decided, Decision,
    DecisionError, DecisionFacts, DecisionPayload, DecisionRecord, DecisionRefusal, DecisionType,
    Edits, Entry, EntryJson, EntryReference, EntryState, IntegrityError, NotificationJson,
    Original, Profile, Proof, RETENTION, ReceiverStatus, RegisteredKey, ReissueVerdict, Role,
    SealedEntry, Status, admit_reissue, alerts, decide, verify_chain,
};
use indelible_delivery::delivery::{DeadReason, Delivery, Input, Outcome, State};
use indelible_delivery::oip::MessageType;
use indelible_delivery::signing::Ed25519Key;
use indelible_delivery::{Maker, MessageId};
use indelible_journal::Timestamp;
use indelible_ledger::json::Text;
use serde_json::json;

use crate::support::{at, message, seconds};

fn server() -> Ed25519Key {
    Ed25519Key::from_seed([9; 32])
}

pub(crate) fn ana() -> Ed25519Key {
    Ed25519Key::from_seed([1; 32])
}

fn registered(key: &Ed25519Key, maker: &str) -> RegisteredKey {
    RegisteredKey {
        maker: Maker::new(maker).unwrap(),
        key: key.public(),
        registered_at: at(0),
        revoked_at: None,
    }
}

/// A dead letter of a webhook.
pub(crate) fn webhook(may_have_arrived: bool) -> Entry {
    let code = FailureCode::Status(404);
    let delivery = Delivery {
        state: State::Dead { at: at(100), reason: DeadReason::Exhausted },
        attempts: 1,
        retries: 0,
        may_have_arrived,
        failures: vec![FailureRecord::new(1, at(99), code, "no such page")],
    };
    let endpoint = "crm".parse().unwrap();
    let ttl = Some(seconds(600));
    let message = message("a");
    Entry::of_webhook(message, endpoint, ttl, &delivery, vec![], RETENTION).unwrap()
}

/// The same of an envelope.
pub(crate) fn envelope(may_have_arrived: bool) -> Entry {
    let webhook = webhook(may_have_arrived);
    let original = Original::Envelope {
        id: message("a").id(),
        message_type: MessageType::StateSync,
        source: "shop".into(),
        stamped: at(0),
        bytes: "{}".into(),
        routing_slip: Some(r#"[{"hop":1}]"#.into()),
    };
    Entry { original, ..webhook }
}

pub(crate) fn payload(entry: &Entry, decision_type: DecisionType) -> DecisionPayload {
    let hash = entry.seal(&server()).hash();
    let reference = EntryReference { dlq_entry_id: Text(entry.id), hash: Text(hash) };
    let origin =
        indelible_delivery::Origin::Decision { reissue_of: entry.message_id(), entry: hash };
    let is_retry = decision_type == DecisionType::Retry;
    DecisionPayload {
        decision_at: Text(at(200)),
        decision_maker: Text(Maker::new("user:ana").unwrap()),
        decision_type,
        entries: vec![reference],
        new_message_id: is_retry.then(|| Text(origin.message_id())),
        rationale: "the receiver was down".to_owned(),
        did_not_arrive: false,
        analysis: None,
        edits: None,
        rate_per_second: None,
    }
}

fn person(role: Role, governance_configured: bool) -> Authority {
    Authority::Person { role, governance_configured }
}

fn facts<'a>(entry: &Entry, statuses: &'a [(MessageId, ReceiverStatus)]) -> DecisionFacts<'a> {
    DecisionFacts {
        hash: entry.seal(&server()).hash(),
        authority: person(Role::Decider, true),
        statuses,
        honours_reissue_of: false,
        clock_skew_max: seconds(5),
    }
}

fn decided(entry: &Entry, of: DecisionType) -> Result<Decided, DecisionRefusal> {
    decide(entry, EntryState::NEW, &payload(entry, of), &facts(entry, &[]))
}

/// O-38: a flipped bit, anywhere in the row, is noticed; so is a key that is none of the server's.
#[test]
fn seals_notice_every_change() {
    let entry = webhook(true);
    let sealed = entry.seal(&server());
    let keys = [server().public()];
    assert_eq!(sealed.open(&keys), Ok(entry.clone()));
    assert_eq!(sealed.open(&[ana().public()]), Err(IntegrityError::ForeignKey));
    let foreign = entry.seal(&ana());
    assert_eq!(foreign.open(&keys), Err(IntegrityError::ForeignKey));
    let row = sealed.encode();
    assert_eq!(SealedEntry::decode(&row), Ok(sealed));
    for byte in 0..row.len() {
        let mut flipped = row.clone();
        flipped[byte] ^= 1 << (byte % 8);
        if let Ok(sealed) = SealedEntry::decode(&flipped) {
            assert!(sealed.open(&keys).is_err(), "byte {byte}");
        }
    }
}

/// O-36, O-37, C-59: a decision is taken only with the unrevoked key of the person that it names,
/// over exactly these bytes, now.
#[test]
fn decisions_are_verified() {
    let entry = webhook(false);
    let payload = payload(&entry, DecisionType::Retry);
    let decision = payload.sign(&ana());
    let known = registered(&ana(), "user:ana");
    assert_eq!(decision.verify(Some(&known), at(200)), Ok(payload.clone()));

    for byte in 0..decision.bytes.len() {
        let mut bytes = decision.bytes.to_vec();
        bytes[byte] ^= 1;
        let flipped = Decision { bytes: bytes.into(), ..decision.clone() };
        assert_eq!(flipped.verify(Some(&known), at(200)), Err(DecisionError::Signature));
    }
    let error = |decision: &Decision, known: Option<&RegisteredKey>, now| {
        decision.verify(known, now).unwrap_err()
    };
    assert_eq!(error(&decision, None, at(200)), DecisionError::UnknownKey);
    let other = Ed25519Key::from_seed([2; 32]);
    let bob = registered(&other, "user:bob");
    assert_eq!(error(&decision, Some(&bob), at(200)), DecisionError::UnknownKey);
    // Bob signs what names Ana.
    assert_eq!(error(&payload.sign(&other), Some(&bob), at(200)), DecisionError::ForeignKey);
    let revoked = RegisteredKey { revoked_at: Some(at(200)), ..known.clone() };
    assert_eq!(error(&decision, Some(&revoked), at(200)), DecisionError::RevokedKey);
    assert!(decision.verify(Some(&revoked), at(199)).is_ok());
    assert_eq!(error(&decision, Some(&known), at(200 + 3_601)), DecisionError::Stale);
    assert!(decision.verify(Some(&known), at(200 + 3_600)).is_ok());
    let early = DecisionPayload { decision_at: Text(at(501)), ..payload.clone() }.sign(&ana());
    assert_eq!(error(&early, Some(&known), at(200)), DecisionError::Stale);

    // A signature over the same bytes for another purpose is none.
    let undomained = Decision { signature: ana().sign(&decision.bytes), ..decision };
    assert_eq!(error(&undomained, Some(&known), at(200)), DecisionError::Signature);
}

/// O-37: what a payload must have.
#[test]
fn malformed_payloads_are_refused() {
    let entry = webhook(false);
    let known = registered(&ana(), "user:ana");
    let retry = payload(&entry, DecisionType::Retry);
    let abandon = payload(&entry, DecisionType::Abandon);
    let twice = vec![retry.entries[0].clone(), retry.entries[0].clone()];
    let many = (0..10_001_u32).map(|n| {
        let id = indelible_delivery::dead::entry_id(entry.message_id(), None, n);
        EntryReference { dlq_entry_id: Text(id), ..retry.entries[0].clone() }
    });
    let table = [
        DecisionPayload { new_message_id: None, ..retry.clone() },
        DecisionPayload { new_message_id: retry.new_message_id, ..abandon.clone() },
        DecisionPayload { rationale: " ".to_owned(), ..abandon.clone() },
        DecisionPayload { rationale: "x".repeat(4_097), ..abandon.clone() },
        DecisionPayload { entries: vec![], ..abandon.clone() },
        DecisionPayload { entries: twice, ..abandon.clone() },
        DecisionPayload { entries: many.collect(), ..abandon.clone() },
        DecisionPayload { rate_per_second: Some(0), ..abandon },
    ];
    for payload in table {
        let error = payload.sign(&ana()).verify(Some(&known), at(200)).unwrap_err();
        assert!(matches!(error, DecisionError::Malformed(_)), "{error}");
    }
    let mut json = serde_json::to_value(&retry).unwrap();
    json["extra"] = 1.into();
    let bytes = serde_json::to_vec(&json).unwrap();
    let signature = ana().sign(&[&b"indelible.decision.v1"[..], &bytes].concat());
    let decision = Decision { bytes: bytes.into(), key: ana().public(), signature };
    let error = decision.verify(Some(&known), at(200)).unwrap_err();
    assert!(matches!(error, DecisionError::Malformed(_)), "{error}");
}

/// O-36, C-61: what each decision does to an entry that certainly did not arrive.
#[test]
fn what_decisions_do() {
    let entry = webhook(false);
    let retry = decided(&entry, DecisionType::Retry).unwrap();
    let reissue = retry.reissue.unwrap();
    assert_eq!(retry.state.status, Status::RetryQueued);
    assert_eq!(retry.state.successor, Some(reissue.id));
    assert_eq!(retry.delivery, Some(Input::Reissue(reissue.id)));
    assert_ne!(reissue.id, entry.message_id(), "O-24: a fresh id");
    assert_eq!(reissue.reissue_of(), [(entry.message_id(), at(0))]);
    assert_eq!(retry.proof, Some(Proof::NotNeeded));

    let again = decided(&entry, DecisionType::Redeliver).unwrap();
    assert_eq!(again.delivery, Some(Input::Redeliver));
    assert_eq!((again.state.status, again.reissue), (Status::RetryQueued, None));

    let abandoned = decided(&entry, DecisionType::Abandon).unwrap();
    assert_eq!(abandoned.state.status, Status::Abandoned);
    assert_eq!(abandoned.told, Some(Outcome::Abandoned));
    assert!(abandoned.closes_ancestors);
    let unknown = decided(&webhook(true), DecisionType::Abandon).unwrap();
    assert_eq!(unknown.told, Some(Outcome::Indeterminate), "C-52: never not performed");

    let escalated = decided(&entry, DecisionType::GovernanceEscalation).unwrap();
    assert_eq!(escalated.state.status, Status::PendingReview);
    assert!(escalated.state.escalated);

    // C-61: REDELIVER is of the webhook profile; O-36: edits are of the other.
    let oip = envelope(false);
    assert_eq!(oip.profile(), Profile::Oip);
    assert!(decided(&oip, DecisionType::Retry).is_ok());
    assert_eq!(decided(&oip, DecisionType::Redeliver), Err(DecisionRefusal::Profile));
    let edits = Some(Edits { priority: Some("CRITICAL".to_owned()), ..Edits::default() });
    for (entry, allowed) in [(&oip, true), (&entry, false)] {
        let edited =
            DecisionPayload { edits: edits.clone(), ..payload(entry, DecisionType::Retry) };
        let result = decide(entry, EntryState::NEW, &edited, &facts(entry, &[]));
        assert_eq!(result.is_ok(), allowed);
    }
}

/// C-61: a decision applies once, to the entry that it signs: replays and a second operator meet a
/// refusal.
#[test]
fn a_decision_applies_once() {
    let entry = webhook(false);
    let types = [
        DecisionType::Retry,
        DecisionType::Redeliver,
        DecisionType::Abandon,
        DecisionType::GovernanceEscalation,
    ];
    for first in types {
        let payload_of = |of| payload(&entry, of);
        let state = decided(&entry, first).unwrap().state;
        for second in types {
            let governed = DecisionFacts { authority: Authority::Governance, ..facts(&entry, &[]) };
            let result = decide(&entry, state, &payload_of(second), &governed);
            let open = first == DecisionType::GovernanceEscalation && second != first;
            assert_eq!(result.is_ok(), open, "{first:?}, {second:?}");
            if !open {
                assert_eq!(result.unwrap_err().status(), 409);
            }
        }
    }
    // An entry of the same message after another series of attempts is another entry.
    let later = Entry { retention_until: at(7), ..entry.clone() };
    let replayed = payload(&entry, DecisionType::Abandon);
    let result = decide(&later, EntryState::NEW, &replayed, &facts(&later, &[]));
    assert_eq!(result, Err(DecisionRefusal::OtherHash));
    let other = Entry { id: indelible_delivery::EntryId::from_bytes([0; 20]), ..entry.clone() };
    let result = decide(&other, EntryState::NEW, &replayed, &facts(&other, &[]));
    assert_eq!(result, Err(DecisionRefusal::OtherEntry));
    // A fresh id that another entry gives is refused.
    let wrong = Some(Text(message("other").id()));
    let wrong = DecisionPayload { new_message_id: wrong, ..payload(&entry, DecisionType::Retry) };
    let result = decide(&entry, EntryState::NEW, &wrong, &facts(&entry, &[]));
    assert_eq!(result, Err(DecisionRefusal::NewMessageId));
}

/// O-38, C-62: who may decide.
#[test]
fn the_role_matrix() {
    let entry = webhook(false);
    let table = [
        (person(Role::Reader, false), false, None),
        (person(Role::Reader, false), true, None),
        (person(Role::Decider, false), false, Some(false)),
        (person(Role::Decider, false), true, None),
        (person(Role::Decider, true), false, Some(false)),
        (person(Role::Decider, true), true, None),
        (person(Role::Admin, false), false, Some(false)),
        (person(Role::Admin, false), true, Some(true)),
        (person(Role::Admin, true), false, Some(false)),
        (person(Role::Admin, true), true, None),
        (Authority::Governance, false, Some(false)),
        (Authority::Governance, true, Some(false)),
    ];
    for (authority, escalated, alone) in table {
        let facts = DecisionFacts { authority, ..facts(&entry, &[]) };
        let state = EntryState { escalated, ..EntryState::NEW };
        let result = decide(&entry, state, &payload(&entry, DecisionType::Abandon), &facts);
        match alone {
            Some(alone) => assert_eq!(result.unwrap().decided_alone, alone, "{authority:?}"),
            None => {
                assert_eq!(result, Err(DecisionRefusal::Authority), "{authority:?}");
                assert_eq!(DecisionRefusal::Authority.status(), 403);
            }
        }
    }
}

/// C-52: what proves that a message which may have arrived did not.
#[test]
fn what_may_have_arrived_needs_proof() {
    let not_known = |horizon, now| ReceiverStatus::NotKnown {
        horizon: Timestamp::from_micros(horizon).unwrap(),
        receiver_now: Timestamp::from_micros(now).unwrap(),
    };
    let made = at(0).as_micros();
    let gone = made + 610 * 1_000_000;
    let refused = Err(DecisionRefusal::MayHaveArrived);
    let table = [
        (None, refused),
        (Some(ReceiverStatus::Applied), Err(DecisionRefusal::Arrived)),
        (Some(ReceiverStatus::Rejected), Ok(Proof::Receiver)),
        (Some(not_known(made - 1, gone + 1)), Ok(Proof::Receiver)),
        // The receiver may have applied it and forgotten.
        (Some(not_known(made, gone + 1)), refused),
        (Some(not_known(made + 1, gone + 1)), refused),
        // A copy may still be on the wire.
        (Some(not_known(made - 1, gone)), refused),
        (Some(not_known(made - 1, made)), refused),
    ];
    for (status, expected) in table {
        for entry in [webhook(true), envelope(true)] {
            for of in [DecisionType::Retry, DecisionType::Redeliver] {
                if of == DecisionType::Redeliver && entry.profile() == Profile::Oip {
                    continue;
                }
                let statuses: Vec<_> =
                    status.iter().map(|status| (entry.message_id(), *status)).collect();
                let facts = facts(&entry, &statuses);
                let plain = payload(&entry, of);
                let found = decide(&entry, EntryState::NEW, &plain, &facts);
                let found = found.map(|decided| decided.proof.unwrap());
                assert_eq!(found, expected, "{of:?} {status:?}");
                // The signed word of a person, unless the receiver knows better.
                let stated = DecisionPayload { did_not_arrive: true, ..plain.clone() };
                let found = decide(&entry, EntryState::NEW, &stated, &facts);
                let found = found.map(|decided| decided.proof.unwrap());
                let word = if expected == refused { Ok(Proof::Statement) } else { expected };
                assert_eq!(found, word, "{of:?} {status:?}");
                // A receiver that honours `reissueOf`, for a fresh id alone.
                let honouring = DecisionFacts { honours_reissue_of: true, ..facts };
                let found = decide(&entry, EntryState::NEW, &plain, &honouring);
                let found = found.map(|decided| decided.proof.unwrap());
                let is_reissue = of == DecisionType::Retry && expected == refused;
                assert_eq!(found, if is_reissue { Ok(Proof::ReissueOf) } else { expected });
            }
        }
    }
    // What is of use for ever can be on the wire for ever.
    let entry = Entry { ttl: None, ..webhook(true) };
    let statuses = [(entry.message_id(), not_known(made - 1, gone * 2))];
    let retry = payload(&entry, DecisionType::Retry);
    let result = decide(&entry, EntryState::NEW, &retry, &facts(&entry, &statuses));
    assert_eq!(result, Err(DecisionRefusal::MayHaveArrived));
}

/// An entry of a message that was issued again, and died.
fn successor(decided: &Decided, may_have_arrived: bool) -> Entry {
    let reissue = decided.reissue.clone().unwrap();
    let original = Original::Envelope {
        id: reissue.id,
        message_type: MessageType::StateSync,
        source: "shop".into(),
        stamped: at(300),
        bytes: "{}".into(),
        routing_slip: None,
    };
    let id = indelible_delivery::dead::entry_id(reissue.id, None, 1);
    let ancestors = reissue.ancestors;
    Entry { id, original, ancestors, may_have_arrived, ..envelope(false) }
}

/// C-52: m1 was applied, which is unknown; m2, issued again for it under `reissueOf`, was never
/// sent; m3 names both, so the receiver tells. m2's own certainty is no proof about m1.
#[test]
fn a_lost_successor_is_no_proof_about_its_ancestor() {
    let m1 = envelope(true);
    let honouring = DecisionFacts { honours_reissue_of: true, ..facts(&m1, &[]) };
    let retry = payload(&m1, DecisionType::Retry);
    let first = decide(&m1, EntryState::NEW, &retry, &honouring).unwrap();
    let m2 = successor(&first, false);
    assert_eq!(decided(&m2, DecisionType::Retry), Err(DecisionRefusal::MayHaveArrived));
    let told = decided(&m2, DecisionType::Abandon).unwrap().told;
    assert_eq!(told, Some(Outcome::Indeterminate));
    let honouring = DecisionFacts { honours_reissue_of: true, ..facts(&m2, &[]) };
    let retry = payload(&m2, DecisionType::Retry);
    let second = decide(&m2, EntryState::NEW, &retry, &honouring).unwrap();
    let named = second.reissue.unwrap().reissue_of();
    assert_eq!(named, [(m1.message_id(), at(0)), (m2.message_id(), at(300))]);
    // The receiver has applied m1.
    let known = |id| id == m1.message_id();
    let verdict = admit_reissue(&named, Timestamp::EPOCH, known);
    assert_eq!(verdict, ReissueVerdict::AlreadyApplied);
}

/// C-52: the word about m1 holds for m1; m2 needs its own.
#[test]
fn a_statement_is_about_one_message() {
    let m1 = envelope(true);
    let stated = DecisionPayload { did_not_arrive: true, ..payload(&m1, DecisionType::Retry) };
    let first = decide(&m1, EntryState::NEW, &stated, &facts(&m1, &[])).unwrap();
    let certain = successor(&first, false);
    let proof = decided(&certain, DecisionType::Retry).unwrap().proof;
    assert_eq!(proof, Some(Proof::NotNeeded));
    let unknown = successor(&first, true);
    assert_eq!(decided(&unknown, DecisionType::Retry), Err(DecisionRefusal::MayHaveArrived));
}

/// C-52: m3 is applied, then the late m1 comes: it meets the row that m3 wrote for it. And a
/// receiver that has purged refuses.
#[test]
fn a_late_ancestor_meets_its_row() {
    let (m1, m3) = (message("m1").id(), message("m3").id());
    let ancestors = [(m1, at(0))];
    let mut rows = BTreeMap::new();
    let mut apply = |id: MessageId, ancestors: &[(MessageId, Timestamp)], horizon| {
        if rows.contains_key(&id) {
            return ReissueVerdict::AlreadyApplied;
        }
        let verdict = admit_reissue(ancestors, horizon, |id| rows.contains_key(&id));
        if verdict == ReissueVerdict::Apply {
            rows.insert(id, ());
            rows.extend(ancestors.iter().map(|(id, _)| (*id, ())));
        }
        verdict
    };
    assert_eq!(apply(m3, &ancestors, at(0)), ReissueVerdict::Forgotten, "not later is too old");
    let horizon = Timestamp::from_micros(at(0).as_micros() - 1).unwrap();
    assert_eq!(apply(m3, &ancestors, horizon), ReissueVerdict::Apply);
    assert_eq!(apply(m1, &[], horizon), ReissueVerdict::AlreadyApplied);
}

/// C-61: a bulk decision takes each entry apart, and none that needs proof without it.
#[test]
fn bulk_decisions_take_each_entry_apart() {
    let (good, unknown) = (webhook(false), envelope(true));
    let unknown = Entry { id: indelible_delivery::EntryId::from_bytes([5; 20]), ..unknown };
    let mut bulk = payload(&good, DecisionType::Retry);
    bulk.entries.extend(payload(&unknown, DecisionType::Retry).entries);
    bulk.new_message_id = None;
    let known = registered(&ana(), "user:ana");
    let bulk = bulk.sign(&ana()).verify(Some(&known), at(201)).unwrap();
    assert!(decide(&good, EntryState::NEW, &bulk, &facts(&good, &[])).is_ok());
    let result = decide(&unknown, EntryState::NEW, &bulk, &facts(&unknown, &[]));
    assert_eq!(result, Err(DecisionRefusal::MayHaveArrived));
}

/// O-31, C-61: what is open stays, whatever its retention; what arrives at last is recovered.
#[test]
fn the_life_of_an_entry() {
    let of = |status| EntryState { status, ..EntryState::NEW };
    let (retention, day) = (at(30), at(31));
    for status in Status::ALL {
        let closed = matches!(status, Status::Abandoned | Status::Recovered);
        assert_eq!(of(status).may_go(retention, day), closed, "{status}");
        assert!(!of(status).may_go(retention, retention));
        let queued = status == Status::RetryQueued;
        let changed = |to| if queued { to } else { status };
        assert_eq!(of(status).recover().status, changed(Status::Recovered));
        assert_eq!(of(status).close().status, changed(Status::Abandoned));
    }
    let entry = webhook(false);
    assert_eq!(entry.retention_until, at(100).saturating_add(seconds(30 * 86_400)));
}

/// O-37: the chain of decisions shows what was removed, changed or put elsewhere.
#[test]
fn decisions_are_chained() {
    let entry = webhook(false);
    let decision = payload(&entry, DecisionType::Abandon).sign(&ana());
    let mut records: Vec<DecisionRecord> = Vec::new();
    for n in 0..4 {
        let previous = records.last().map_or(DecisionRecord::GENESIS, DecisionRecord::hash);
        records.push(DecisionRecord {
            previous,
            entry: entry.id,
            decision_type: DecisionType::Abandon,
            new_message_id: None,
            proof: None,
            decided_alone: false,
            taken_at: at(n),
            decision: decision.clone(),
        });
    }
    let genesis = DecisionRecord::GENESIS;
    assert_eq!(verify_chain(genesis, &records), Ok(records[3].hash()));
    let mut shorter = records.clone();
    shorter.remove(1);
    assert_eq!(verify_chain(genesis, &shorter), Err(ChainFault::Link { at: 1 }));
    let mut later = records.clone();
    later[2].taken_at = at(9);
    assert_eq!(verify_chain(genesis, &later), Err(ChainFault::Link { at: 3 }));
    let mut unsigned = records;
    unsigned[3].decision.signature[0] ^= 1;
    assert_eq!(verify_chain(genesis, &unsigned), Err(ChainFault::Signature { at: 3 }));
}

/// O-29, O-30, O-34: the names of the specification.
#[test]
fn json_has_the_names_of_the_specification() {
    let entry = webhook(true);
    let sealed = entry.seal(&server());
    let json = serde_json::to_value(EntryJson::of(&entry, &sealed, EntryState::NEW)).unwrap();
    let id = entry.message_id().to_string();
    let failures = json!([{
        "attemptNumber": 1,
        "failedAt": "2023-11-14T22:14:59.000000Z",
        "errorCode": "STATUS_404",
        "errorMessage": "no such page",
    }]);
    let expected = json!({
        "dlqEntryId": entry.id.to_string(),
        "hash": sealed.hash().to_string(),
        "originalMessage": {
            "messageId": id,
            "messageType": "order.created",
            "sourceChainId": "shop",
            "timestamp": "2023-11-14T22:13:20.000000Z",
            "endpoint": "crm",
            "contentType": "application/json",
            "base64": data_encoding::BASE64.encode(br#"{"order":{"id":7}}"#),
        },
        "failureHistory": failures,
        "enteredDLQAt": "2023-11-14T22:15:00.000000Z",
        "retentionUntil": "2023-12-14T22:15:00.000000Z",
        "status": "PENDING_REVIEW",
        "reason": "MAX_RETRIES_EXCEEDED",
        "mayHaveArrived": true,
        "escalated": false,
    });
    assert_eq!(json, expected);
    let notification = serde_json::to_value(NotificationJson::of(&envelope(false))).unwrap();
    let expected = json!({
        "dlqEntryId": entry.id.to_string(),
        "messageId": id,
        "messageType": "STATE_SYNC",
        "sourceChainId": "shop",
        "failureHistory": failures,
        "lastError": { "code": "STATUS_404", "message": "no such page" },
        "routingSlip": r#"[{"hop":1}]"#,
        "mayHaveArrived": false,
    });
    assert_eq!(notification, expected);
}

/// O-32, O-46, C-35, C-63: one notification for each entry; thresholds beside it.
#[test]
fn thresholds() {
    let config = AlertConfig {
        enabled: true,
        alert_threshold: 3,
        critical_threshold: 10,
        channels: vec![AlertChannel::Email],
    };
    let table =
        [(1, 1, false, false), (3, 3, true, false), (4, 4, false, false), (1, 10, false, true)];
    for (in_hour, open, threshold, critical) in table {
        let expected = Alerts { notification: true, threshold, critical };
        assert_eq!(alerts(&config, in_hour, open), expected);
        let quiet = AlertConfig { enabled: false, ..config.clone() };
        let expected = Alerts { notification: true, threshold: false, critical: false };
        assert_eq!(alerts(&quiet, in_hour, open), expected);
    }
    assert!(alerts(&config, 50, 11).critical, "every new one");
}

/// C-61: another series of attempts at a message is an ancestor, and no `reissueOf`.
#[test]
fn a_redelivery_is_no_reissue() {
    let entry = webhook(false);
    let earlier = Ancestor {
        entry: entry.id,
        message: entry.message_id(),
        created: at(0),
        may_have_arrived: false,
    };
    let again = Entry { ancestors: vec![earlier], ..entry.clone() };
    assert!(again.reissue_of().is_empty());
    let reissue = decided(&again, DecisionType::Retry).unwrap().reissue.unwrap();
    assert_eq!(reissue.reissue_of(), [(entry.message_id(), at(0))]);
    assert_eq!(reissue.ancestors.len(), 2, "both entries are recovered when it arrives");
}
