//! The inbox: what is verified, what is remembered and for how long, and what a copy meets.

use std::collections::BTreeMap;

use indelible_delivery::ContentHash;
use indelible_delivery::inbox::{
    InboxRow, Known, PurgeHorizon, Reception, Source, SourceRefusal, SourceSettings, Verdict, judge,
};
use indelible_delivery::oip::ErrorCode;
use indelible_delivery::signing::{HmacKey, Rejected, Secret, standard};
use indelible_journal::Timestamp;

use crate::support::{at, seconds};

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn settings(json: &str) -> SourceSettings {
    serde_json::from_str(json).unwrap()
}

pub(crate) fn source(preset: &str, secret: &str) -> Source {
    let json = format!(
        r#"{{"name":"shop","preset":{preset},"secrets":["{secret}"],"target":{{"start":"paid"}}}}"#
    );
    settings(&json).read().unwrap()
}

/// A receiver with its rows in memory: one commit for a row and its effect.
struct Receiver {
    source: Source,
    rows: BTreeMap<String, InboxRow>,
    effects: BTreeMap<String, u32>,
    horizon: PurgeHorizon,
}

/// What a sender is told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Ack(String),
    Mismatch,
    Refused(SourceRefusal),
}

impl Receiver {
    fn new(source: Source) -> Self {
        let (rows, effects) = Default::default();
        Self { source, rows, effects, horizon: PurgeHorizon::default() }
    }

    fn receive(&mut self, headers: &[(&str, &str)], body: &str, clock: Timestamp) -> Told {
        let now = self.horizon.now(clock);
        let arrival = match self.source.arrive(headers, body.as_bytes(), now) {
            Ok(arrival) => arrival,
            Err(refusal) => return Told::Refused(refusal),
        };
        let id = arrival.id.to_string();
        let known = self.rows.get(&id).map(Known::Row);
        match judge(known, arrival.conflict_hash) {
            Verdict::Fresh => {
                let count = self.effects.entry(id.clone()).or_default();
                *count += 1;
                let ack = format!("{id} {count}");
                let row = InboxRow {
                    conflict_hash: arrival.conflict_hash,
                    reception: Reception::Accepted {
                        ack: ack.clone().into(),
                        effect: "exe_1".into(),
                    },
                    received: now,
                    kept_until: self.source.kept_until(now),
                };
                self.rows.insert(id, row);
                Told::Ack(ack)
            }
            Verdict::PriorResult(ack) => {
                let ack = String::from_utf8(ack.to_vec()).unwrap();
                let row = self.rows.get_mut(&id).unwrap();
                row.kept_until = self.source.kept_until(now);
                Told::Ack(ack)
            }
            Verdict::Mismatch => Told::Mismatch,
            verdict => panic!("{verdict:?}"),
        }
    }

    fn purge(&mut self, clock: Timestamp) {
        let now = self.horizon.now(clock);
        self.horizon = self.horizon.advance(now);
        self.rows.retain(|_, row| row.kept_until > now);
    }

    fn standard(&mut self, id: &str, body: &str, signed: Timestamp, clock: Timestamp) -> Told {
        let secret: Secret = SECRET.parse().unwrap();
        let time = standard::timestamp(signed);
        let signature = standard::sign([&secret], id, &time, body.as_bytes());
        let headers = [
            (standard::ID, id),
            (standard::TIMESTAMP, time.as_str()),
            (standard::SIGNATURE, signature.as_str()),
        ];
        self.receive(&headers, body, clock)
    }
}

fn receiver() -> Receiver {
    Receiver::new(source(r#""standard_webhooks""#, SECRET))
}

/// O-2, O-3, O-4, C-12: copies take effect once, and get the same acknowledgement.
#[test]
fn copies_take_effect_once() {
    let mut receiver = receiver();
    let first = receiver.standard("msg_1", "{}", at(0), at(0));
    for second in [1, 100, 86_400] {
        assert_eq!(receiver.standard("msg_1", "{}", at(second), at(second)), first);
    }
    assert_eq!(receiver.standard("msg_1", "{ }", at(2), at(2)), Told::Mismatch);
    assert_eq!(receiver.effects["msg_1"], 1);
    assert!(matches!(receiver.standard("msg_2", "{}", at(2), at(2)), Told::Ack(_)));
}

/// O-19: a forged id leaves no row, and does not block the true message.
#[test]
fn a_forged_id_blocks_nothing() {
    let mut receiver = receiver();
    let headers = [
        (standard::ID, "msg_1"),
        (standard::TIMESTAMP, "1700000000"),
        (standard::SIGNATURE, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="),
    ];
    let refused = Told::Refused(SourceRefusal::Rejected(Rejected::Signature));
    assert_eq!(receiver.receive(&headers, "forged", at(0)), refused);
    assert!(receiver.rows.is_empty());
    assert!(matches!(receiver.standard("msg_1", "true", at(0), at(0)), Told::Ack(_)));
    assert_eq!(receiver.receive(&headers, "forged", at(0)), refused);
}

/// C-54: the window counts from the last copy, so that a provider that goes on retrying is never
/// taken for new.
#[test]
fn every_copy_prolongs_the_window() {
    let day = 86_400;
    let mut receiver = receiver();
    for days in [0, 29, 58, 87] {
        let now = at(days * day);
        receiver.purge(now);
        receiver.standard("msg_1", "{}", now, now);
    }
    assert_eq!(receiver.effects["msg_1"], 1);
    receiver.purge(at(117 * day));
    assert!(receiver.rows.is_empty());
}

/// C-54: after a purge the receiver's now does not go back, whatever its clock does.
#[test]
fn a_clock_that_is_set_back_forgets_nothing() {
    let mut receiver = receiver();
    receiver.standard("msg_1", "{}", at(0), at(0));
    let later = at(31 * 86_400);
    receiver.purge(later);
    assert!(receiver.rows.is_empty());
    // The old message comes again, and the clock says that it is of now.
    let stale = Told::Refused(SourceRefusal::Rejected(Rejected::Stale));
    assert_eq!(receiver.standard("msg_1", "{}", at(0), at(1)), stale);
    assert_eq!(receiver.effects["msg_1"], 1);
    receiver.purge(at(0));
    assert_eq!(receiver.horizon, PurgeHorizon::new(later));
}

/// C-10, C-64, O-16, O-20: the 100,001st id evicts none; a source that is full asks its sender to
/// come back.
#[test]
fn capacity_evicts_nothing() {
    let json = format!(
        r#"{{"name":"shop","preset":"standard_webhooks","secrets":["{SECRET}"],
            "target":{{"start":"paid"}},"live_max":100001}}"#
    );
    let mut receiver = Receiver::new(settings(&json).read().unwrap());
    for n in 0..=100_000 {
        assert!(!receiver.source.is_full(receiver.rows.len() as u64), "{n}");
        receiver.standard(&format!("msg_{n}"), "{}", at(0), at(0));
    }
    assert!(receiver.source.is_full(receiver.rows.len() as u64));
    for n in (0..=100_000).step_by(997) {
        receiver.standard(&format!("msg_{n}"), "{}", at(1), at(1));
    }
    assert!(receiver.effects.values().all(|count| *count == 1));
}

/// C-53: what a copy meets, whatever became of the first.
#[test]
fn verdicts() {
    let (hash, other) = (ContentHash::of(b"one"), ContentHash::of(b"other"));
    let row =
        |reception| InboxRow { conflict_hash: hash, reception, received: at(0), kept_until: at(1) };
    let accepted = row(Reception::Accepted { ack: "ok".into(), effect: "tx".into() });
    let rejected = row(Reception::Rejected(ErrorCode::StateHashMismatch));
    let ack = "ok".into();
    let table = [
        (None, hash, Verdict::Fresh),
        (Some(Known::InFlight(hash)), hash, Verdict::InFlight),
        (Some(Known::InFlight(hash)), other, Verdict::Mismatch),
        (Some(Known::Row(&accepted)), hash, Verdict::PriorResult(&ack)),
        (Some(Known::Row(&accepted)), other, Verdict::Mismatch),
        (Some(Known::Row(&rejected)), hash, Verdict::PriorError(ErrorCode::StateHashMismatch)),
        (Some(Known::Row(&rejected)), other, Verdict::Mismatch),
    ];
    for (known, hash, verdict) in table {
        assert_eq!(judge(known, hash), verdict, "{known:?}");
    }
}

/// Each preset has its id where its provider puts it.
#[test]
fn presets_have_their_ids() {
    let key = HmacKey::new(b"secret").unwrap();
    let hex = |parts: &[&[u8]]| data_encoding::HEXLOWER.encode(&key.sign(parts));
    let id = |source: &Source, headers: &[(&str, &str)], body: &str| {
        source.arrive(headers, body.as_bytes(), at(0)).map(|arrival| arrival.id.to_string())
    };
    let github = source(r#""github""#, "secret");
    let signature = format!("sha256={}", hex(&[b"{}"]));
    let headers = [("x-hub-signature-256", signature.as_str()), ("x-github-delivery", "g-1")];
    assert_eq!(id(&github, &headers, "{}"), Ok("g-1".to_owned()));
    assert_eq!(id(&github, &headers[..1], "{}"), Err(SourceRefusal::NoId));
    let twice = [headers[0], headers[1], headers[1]];
    assert_eq!(id(&github, &twice, "{}"), Err(SourceRefusal::NoId));

    let stripe = source(r#""stripe""#, "secret");
    let check = |body: &str| {
        let tag = hex(&[b"1700000000.", body.as_bytes()]);
        let header = format!("t=1700000000,v1={tag}");
        id(&stripe, &[("stripe-signature", &header)], body)
    };
    assert_eq!(check(r#"{"id":"evt_1"}"#), Ok("evt_1".to_owned()));
    assert_eq!(check(r#"{"id":17}"#), Ok("17".to_owned()));
    for body in ["{}", "no JSON", r#"{"id":1.5}"#, r#"{"id":""}"#, r#"{"id":null}"#] {
        assert_eq!(check(body), Err(SourceRefusal::NoId), "{body}");
    }

    let hmac = r#"{"hmac":{"header":"X-Sig","id_pointer":"/event/id","retry_horizon_seconds":60}}"#;
    let hmac = source(hmac, "secret");
    let body = r#"{"event":{"id":"e"}}"#;
    assert_eq!(id(&hmac, &[("x-sig", &hex(&[body.as_bytes()]))], body), Ok("e".to_owned()));
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(id(&hmac, &[], &large), Err(SourceRefusal::TooLarge((1 << 20) + 1)));
}

/// C-54: a window that is shorter than the provider's retries is refused, and every wrong field is
/// named.
#[test]
fn wrong_settings_name_their_field() {
    let with = |preset: &str, more: &str| {
        format!(
            r#"{{"name":"shop","preset":{preset},"secrets":["{SECRET}"],
                "target":{{"start":"paid"}}{more}}}"#
        )
    };
    let day = 86_400;
    let window = |days: u64| format!(r#","window_seconds":{}"#, days * day);
    let hmac =
        |more: &str| format!(r#"{{"hmac":{{"header":"a","retry_horizon_seconds":864000{more}}}}}"#);
    let ok = [
        with(r#""standard_webhooks""#, &window(4)),
        with(r#""stripe""#, &window(3)),
        with(&hmac(r#","id_header":"b""#), &window(10)),
    ];
    for json in ok {
        assert_eq!(settings(&json).read().map(drop), Ok(()), "{json}");
    }
    let wrong = [
        ("window_seconds", with(r#""standard_webhooks""#, &window(3))),
        ("window_seconds", with(r#""stripe""#, &window(2))),
        ("window_seconds", with(&hmac(r#","id_header":"b""#), &window(9))),
        ("preset.hmac", with(&hmac(""), "")),
        ("preset.hmac", with(&hmac(r#","id_header":"b","id_pointer":"/c""#), "")),
        ("preset.hmac", with(&hmac(r#","id_pointer":"c""#), "")),
        ("live_max", with(r#""github""#, r#","live_max":0"#)),
        ("tolerance_seconds", with(r#""github""#, r#","tolerance_seconds":0"#)),
        ("secrets", with(r#""oip""#, "")),
    ];
    for (field, json) in wrong {
        assert_eq!(settings(&json).read().unwrap_err().field, field, "{json}");
    }
    let source = settings(&with(r#""github""#, "")).read().unwrap();
    assert_eq!(source.window, seconds(30 * day));
    let text = format!("{source:?} {:?}", settings(&with(r#""github""#, "")));
    assert!(!text.contains("C2FVsBQ"), "{text}");
}
