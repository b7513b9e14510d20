//! Envelopes: what is signed, and the order in which a receiver checks.

use std::collections::BTreeMap;

use indelible_delivery::inbox::{Deduplication, InboxRow, Known, PurgeHorizon, Reception};
use indelible_delivery::oip::{
    Admission, AdmissionFacts, AdmissionRefusal, Envelope, EnvelopeError, ErrorCode, admit,
};
use indelible_delivery::signing::Ed25519Key;
use indelible_delivery::{ContentHash, ForeignId};
use serde_json::{Value, json};

use crate::support::{at, at_micros, seconds};

fn key() -> Ed25519Key {
    Ed25519Key::from_seed([1; 32])
}

fn state() -> ContentHash {
    ContentHash::of(b"state")
}

fn full() -> Value {
    json!({
        "header": {
            "messageId": "msg_1",
            "messageType": "STATE_SYNC",
            "timestamp": at(0).to_string(),
            "sourceChainId": "shop",
            "priority": "NORMAL",
        },
        "routing": {
            "ttlSeconds": 300,
            "target": "mirror",
            "scope": "wallets",
            "atomicity": "GUARANTEED",
            "phaseTimeouts": { "prepare": 1, "commit": 2, "finalize": 3 },
            "slip": [{ "hop": 1 }],
        },
        "body": { "b": 1.50, "a": "é" },
        "currentStateHash": state().to_string(),
        "attestation": { "origin": "CANTON", "transactionId": "tx-1" },
        "reissueOf": [{ "messageId": "msg_0", "timestamp": at(0).to_string() }],
    })
}

/// The envelope with a field, at a pointer, of another value; `null` removes it.
fn with(pointer: &str, value: Value) -> Value {
    let mut envelope = full();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = envelope.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => _ = parent.remove(field),
        value => _ = parent.insert(field.to_owned(), value),
    }
    envelope
}

fn envelope(json: &Value) -> Envelope {
    serde_json::from_value(json.clone()).unwrap()
}

fn opened(json: &Value) -> Result<Envelope, EnvelopeError> {
    Envelope::open(&envelope(json).sign(&key()), &[key().public()])
}

/// C-59: the signature is over the bytes that came, whatever another serializer would make of them.
#[test]
fn signatures_are_over_the_bytes() {
    let keys = [key().public()];
    let wire = envelope(&full()).sign(&key());
    let read = Envelope::open(&wire, &keys).unwrap();
    assert_eq!(read.conflict_hash(), envelope(&full()).conflict_hash());
    assert_eq!(wire, read.sign(&key()), "the same envelope has the same bytes");
    let foreign = Ed25519Key::from_seed([2; 32]);
    let open = |wire: &[u8]| Envelope::open(wire, &keys).map(drop);
    assert_eq!(open(&envelope(&full()).sign(&foreign)), Err(EnvelopeError::UnknownKey));
    for byte in 0..wire.len() {
        let mut flipped = wire.clone();
        flipped[byte] ^= 1;
        assert!(open(&flipped).is_err(), "byte {byte}");
    }
    // Other blanks are other bytes: they need a signature of their own.
    let text = String::from_utf8(wire).unwrap();
    let spaced = text.replace(r#"\"NORMAL\""#, r#" \"NORMAL\""#);
    assert_eq!(open(spaced.as_bytes()), Err(EnvelopeError::Signature));
    let large = vec![b' '; (2 << 20) + 1];
    assert_eq!(open(&large), Err(EnvelopeError::TooLarge(large.len())));
}

/// O-5, O-11: what an envelope must and must not have.
#[test]
fn envelopes_are_strict() {
    assert!(opened(&full()).is_ok());
    let wrong = [
        with("/header/messageType", json!("OTHER")),
        with("/header/messageType", json!("GOVERNANCE")),
        with("/header/messageId", json!("msg.1")),
        with("/header/sourceChainId", json!("")),
        with("/routing/target", json!("x".repeat(256))),
        with("/routing/atomicity", json!("BEST_EFFORT")),
        with("/routing/slip", json!(vec![1; 65])),
        with("/currentStateHash", Value::Null),
        with("/nonce", json!(1)),
    ];
    for json in wrong {
        let error = opened(&json).map(drop).unwrap_err();
        assert!(matches!(error, EnvelopeError::Malformed(_)), "{json}");
    }
    let unread = [
        with("/extra", json!(1)),
        with("/header/extra", json!(1)),
        with("/header/priority", json!("URGENT")),
        with("/header/timestamp", json!("yesterday")),
        with("/routing/ttlSeconds", json!(-1)),
        with("/body", Value::Null),
    ];
    for json in unread {
        assert!(serde_json::from_value::<Envelope>(json.clone()).is_err(), "{json}");
    }
}

/// C-60: a message that is stamped anew is the same; anything else makes another.
#[test]
fn rounds_are_one_message() {
    let hash = |json: &Value| envelope(json).conflict_hash();
    let same = [
        with("/header/timestamp", json!(at(9).to_string())),
        with("/routing/ttlSeconds", json!(301)),
        with("/routing/slip", Value::Null),
    ];
    for json in same {
        assert_eq!(hash(&json), hash(&full()), "{json}");
    }
    let other = [
        with("/header/messageType", json!("REGULATORY_ACTION")),
        with("/header/priority", json!("CRITICAL")),
        with("/header/sourceChainId", json!("other")),
        with("/routing/target", json!("other")),
        with("/routing/scope", Value::Null),
        with("/routing/atomicity", json!("ALL_OR_NOTHING")),
        with("/routing/phaseTimeouts", Value::Null),
        with("/body", json!({})),
        with("/currentStateHash", json!(ContentHash::of(b"other").to_string())),
        with("/attestation", Value::Null),
        with("/reissueOf", Value::Null),
    ];
    let mut hashes: Vec<_> = other.iter().map(hash).chain([hash(&full())]).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), other.len() + 1);
}

fn facts(windows: &Deduplication) -> AdmissionFacts<'_> {
    AdmissionFacts {
        clock: at(1),
        horizon: PurgeHorizon::default(),
        windows,
        is_authorized: true,
        known: None,
        knows_ancestor: false,
        attestation_used_by: None,
        rollback_incomplete: false,
        state_hash: Some(state()),
        next_nonce: None,
    }
}

fn code<'a>(code: ErrorCode) -> Admission<'a> {
    Admission::Refused(AdmissionRefusal::Code(code))
}

/// O-53, C-56: each failing check refuses alone; of two that fail, the earlier one answers.
#[test]
fn checks_have_an_order() {
    let windows = Deduplication::default();
    let envelope = envelope(&full());
    let hash = envelope.conflict_hash();
    let accepted = Reception::Accepted { ack: "ack".into(), effect: "tx".into() };
    let row =
        InboxRow { conflict_hash: hash, reception: accepted, received: at(0), kept_until: at(700) };
    let other: ForeignId = "msg_other".parse().unwrap();
    let ack = "ack".into();
    type Change<'a> = Box<dyn Fn(&mut AdmissionFacts<'a>) + 'a>;
    let checks: Vec<(Change<'_>, Admission<'_>)> = vec![
        (
            Box::new(|facts| facts.is_authorized = false),
            Admission::Refused(AdmissionRefusal::Authority),
        ),
        (Box::new(|facts| facts.known = Some(Known::Row(&row))), Admission::RepeatAck(&ack)),
        (Box::new(|facts| facts.knows_ancestor = true), Admission::AlreadyApplied),
        (
            Box::new(|facts| facts.horizon = PurgeHorizon::new(at(0))),
            Admission::Refused(AdmissionRefusal::AncestorForgotten),
        ),
        (
            Box::new(|facts| facts.attestation_used_by = Some(&other)),
            code(ErrorCode::AttestationReplayDetected),
        ),
        (
            Box::new(|facts| facts.rollback_incomplete = true),
            code(ErrorCode::RollbackIncompleteReject),
        ),
        (Box::new(|facts| facts.state_hash = None), code(ErrorCode::StateHashMismatch)),
    ];
    assert_eq!(admit(&envelope, &facts(&windows)), Admission::Apply);
    for (first, (change, answer)) in checks.iter().enumerate() {
        for (also, _) in &checks[first..] {
            let mut facts = facts(&windows);
            change(&mut facts);
            also(&mut facts);
            assert_eq!(admit(&envelope, &facts), *answer, "check {first}");
        }
    }
}

/// O-10, C-54, C-56, O-60: time.
#[test]
fn time_is_checked() {
    let windows = Deduplication::default();
    let envelope_at =
        |json: &Value, clock| admit(&envelope(json), &AdmissionFacts { clock, ..facts(&windows) });
    let expired = code(ErrorCode::MessageTtlExpired);
    assert_eq!(envelope_at(&full(), at(300)), Admission::Apply);
    assert_eq!(envelope_at(&full(), at_micros(300_001_000)), expired);
    let future = with("/header/timestamp", json!(at(6).to_string()));
    assert_eq!(envelope_at(&future, at(1)), Admission::Apply);
    let ahead = code(ErrorCode::MessageFromTheFuture);
    assert_eq!(envelope_at(&future, at_micros(999_999)), ahead);
    let long = with("/routing/ttlSeconds", json!(690));
    assert_eq!(envelope_at(&long, at(1)), Admission::Apply);
    let long = with("/routing/ttlSeconds", json!(691));
    let refused = Admission::Refused(AdmissionRefusal::TtlTooLong);
    assert_eq!(envelope_at(&long, at(1)), refused);
    // A clock that is set back does not make an old message fresh.
    let back = AdmissionFacts { horizon: PurgeHorizon::new(at(1_000)), ..facts(&windows) };
    assert_eq!(admit(&envelope(&full()), &back), expired);
}

/// C-56, C-53: an expired message that is known was delivered; a stored REJECT is repeated.
#[test]
fn an_expired_message_that_is_known() {
    let windows = Deduplication::default();
    let message = envelope(&full());
    let table = [
        (Reception::Accepted { ack: "a".into(), effect: "b".into() }, Admission::AlreadyApplied),
        (Reception::Rejected(ErrorCode::StateHashMismatch), code(ErrorCode::StateHashMismatch)),
    ];
    for (reception, answer) in table {
        let row = InboxRow {
            conflict_hash: message.conflict_hash(),
            reception,
            received: at(0),
            kept_until: at(700),
        };
        let facts =
            AdmissionFacts { clock: at(400), known: Some(Known::Row(&row)), ..facts(&windows) };
        assert_eq!(admit(&message, &facts), answer);
        let other = envelope(&with("/body", json!({})));
        assert_eq!(admit(&other, &facts), code(ErrorCode::MessageTtlExpired));
        assert_eq!(admit(&other, &AdmissionFacts { clock: at(1), ..facts }), Admission::Mismatch);
    }
}

/// O-7, C-33: a proof is consumed once, by a message, which may repeat it.
#[test]
fn a_proof_is_consumed_once() {
    let windows = Deduplication::default();
    let message = envelope(&full());
    let own = message.header.message_id.0.clone();
    let used = |by| AdmissionFacts { attestation_used_by: Some(by), ..facts(&windows) };
    assert_eq!(admit(&message, &used(&own)), Admission::Apply, "its first processing failed");
    let other = "msg_2".parse().unwrap();
    let replay = code(ErrorCode::AttestationReplayDetected);
    assert_eq!(admit(&message, &used(&other)), replay);
    let without = envelope(&with("/attestation", Value::Null));
    assert_eq!(admit(&without, &used(&other)), Admission::Apply);
}

/// O-6: nonces 1, 3, 2: the third is refused until the second was applied.
#[test]
fn nonces_are_in_order() {
    let windows = Deduplication::new(seconds(700), BTreeMap::new(), seconds(5)).unwrap();
    let mut lock = with("/nonce", json!(1));
    lock["header"]["messageType"] = json!("LOCK_MANAGEMENT");
    let mut next = 1;
    let mut come = |nonce: u64| {
        lock["nonce"] = json!(nonce);
        let facts = AdmissionFacts { next_nonce: Some(next), ..facts(&windows) };
        let applied = admit(&envelope(&lock), &facts) == Admission::Apply;
        next += u64::from(applied);
        applied
    };
    let came = [1, 3, 2, 3, 3].map(&mut come);
    assert_eq!(came, [true, false, true, true, false]);
}

/// C-67: a question has no row, so none is looked at.
#[test]
fn questions_have_no_rows() {
    let windows = Deduplication::default();
    let mut query = with("/currentStateHash", Value::Null);
    query["header"]["messageType"] = json!("QUERY");
    query["routing"]["ttlSeconds"] = json!(30);
    let query = envelope(&query);
    let known = Some(Known::InFlight(query.conflict_hash()));
    let facts = AdmissionFacts { known, ..facts(&windows) };
    assert_eq!(admit(&query, &facts), Admission::Apply);
}

/// C-53: the source follows from the key that verified.
#[test]
fn a_source_opens_envelopes() {
    let source = crate::inbox::source(r#""oip""#, &key().public().to_string());
    let (arrival, envelope) = source.arrive_envelope(&envelope(&full()).sign(&key())).unwrap();
    assert_eq!(arrival.id.as_str(), "msg_1");
    assert_eq!(arrival.conflict_hash, envelope.conflict_hash());
    assert_eq!(arrival.signed, Some(at(0)));
    let forged = self::envelope(&full()).sign(&Ed25519Key::from_seed([2; 32]));
    let error = source.arrive_envelope(&forged).map(drop);
    assert_eq!(error, Err(EnvelopeError::UnknownKey));
}

/// C-59: the bytes on the wire, as they are for ever.
#[test]
fn golden_wire() {
    let wire = String::from_utf8(envelope(&full()).sign(&key())).unwrap() + "\n";
    let golden = include_str!("../fixtures/envelope-1.json");
    crate::golden::compare("envelope-1.json", golden, &wire);
    assert!(Envelope::open(golden.trim_end().as_bytes(), &[key().public()]).is_ok());
}
