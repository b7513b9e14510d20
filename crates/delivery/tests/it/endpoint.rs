//! Settings of endpoints: what they mean, and which field is wrong.

use indelible_delivery::attempt::Busy503;
use indelible_delivery::breaker::Thresholds;
use indelible_delivery::lane::LanePolicy;
use indelible_delivery::schedule::Schedule;
use indelible_delivery::signing::Secret;
use indelible_delivery::{Endpoint, EndpointSettings, Message, TopicPattern};
use indelible_journal::Idempotency;

use crate::support::{at, endpoint, message, seconds, settings};

/// Two fields are enough; the rest has defaults that are safe to send with.
#[test]
fn defaults() {
    let endpoint = endpoint();
    assert_eq!(endpoint.class, Idempotency::Idem);
    assert_eq!(endpoint.busy, Busy503::Unknown);
    assert_eq!(endpoint.lane, LanePolicy::Block);
    assert_eq!(endpoint.schedule, Schedule::standard());
    assert_eq!(endpoint.breaker, Thresholds::DEFAULT);
    assert_eq!(endpoint.attempt_timeout, seconds(20));
    assert_eq!(endpoint.ttl, None);
    assert!(endpoint.wants(&message("a")));
}

/// Each wrong field is named.
#[test]
fn wrong_settings_name_their_field() {
    let many = |count: usize| {
        let steps: Vec<String> = (0..count).map(|_| "1".to_owned()).collect();
        format!(r#""schedule":{{"steps_seconds":[{}]}}"#, steps.join(","))
    };
    let steps = many(100);
    let table = [
        ("name", r#""name":"Upper""#),
        ("name", r#""name":"""#),
        ("url", r#""url":"example.com""#),
        ("url", r#""url":"ftp://example.com/""#),
        ("url", r#""url":"https://user:word@example.com/""#),
        ("url", r#""url":"https://example.com/#part""#),
        ("url", r#""url":"https://""#),
        ("topics", r#""topics":["a b"]"#),
        ("topics", r#""topics":[".*"]"#),
        ("fields.pointer", r#""fields":[{"pointer":"a","value":1}]"#),
        ("secrets", r#""secrets":["short"]"#),
        ("secrets", r#""secrets":["whsec_AAAA"]"#),
        ("rate_per_second", r#""rate_per_second":0"#),
        ("in_flight_max", r#""in_flight_max":0"#),
        ("in_flight_max", r#""in_flight_max":1001"#),
        ("schedule.steps_seconds", r#""schedule":{"steps_seconds":[0]}"#),
        ("schedule.steps_seconds", steps.as_str()),
        ("schedule.backoff.base_ms", r#""schedule":{"backoff":{"base_ms":0,"cap_ms":1}}"#),
        ("schedule.backoff.cap_ms", r#""schedule":{"backoff":{"base_ms":2,"cap_ms":1}}"#),
        (
            "schedule.backoff.retries_max",
            r#""schedule":{"backoff":{"base_ms":1,"cap_ms":1,"retries_max":100}}"#,
        ),
        ("breaker.failures_percent", r#""breaker":{"failures_percent":101}"#),
        ("breaker.attempts_min", r#""breaker":{"attempts_min":0}"#),
        ("breaker.window_seconds", r#""breaker":{"window_seconds":0}"#),
        ("attempt_timeout_ms", r#""attempt_timeout_ms":300001"#),
        ("ttl_seconds", r#""ttl_seconds":0"#),
    ];
    for (field, wrong) in table {
        let base = [("name", r#""crm""#), ("url", r#""https://example.com/""#)];
        let rest = base.iter().filter(|(name, _)| *name != field);
        let fields: Vec<String> =
            rest.map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
        let json = format!("{{{wrong},{}}}", fields.join(","));
        let error = settings(&json).read().unwrap_err();
        assert_eq!(error.field, field, "{wrong}: {error}");
    }
    let unknown = r#"{"name":"crm","url":"https://example.com/","retries":3}"#;
    assert!(serde_json::from_str::<EndpointSettings>(unknown).is_err());
}

/// A topic is matched whole, or by its beginning up to a dot.
#[test]
fn topics_match() {
    let pattern = |text: &str| text.parse::<TopicPattern>().unwrap();
    let table = [
        ("*", "order.created", true),
        ("order.created", "order.created", true),
        ("order.created", "order.created.late", false),
        ("order.*", "order.created", true),
        ("order.*", "order.created.late", true),
        ("order.*", "order", false),
        ("order.*", "orders.created", false),
    ];
    for (wanted, topic, matches) in table {
        assert_eq!(pattern(wanted).matches(&topic.parse().unwrap()), matches, "{wanted} {topic}");
        assert_eq!(pattern(wanted).to_string(), wanted);
    }
}

/// Fields of the body choose, too; what is not JSON has none.
#[test]
fn fields_choose() {
    let json = r#"{"name":"a","url":"https://example.com/",
        "topics":["order.*"],"fields":[{"pointer":"/order/id","value":7}]}"#;
    let endpoint = settings(json).read().unwrap();
    let with = |body: &'static str| Message { body: body.into(), ..message("a") };
    assert!(endpoint.wants(&with(r#"{"order":{"id":7}}"#)));
    assert!(!endpoint.wants(&with(r#"{"order":{"id":8}}"#)));
    assert!(!endpoint.wants(&with("{}")));
    assert!(!endpoint.wants(&with("no JSON")));
    let other = Message { topic: "invoice.paid".parse().unwrap(), ..message("a") };
    assert!(!endpoint.wants(&other));
}

/// While a secret is rotated, messages are signed with both; then with the new one alone.
#[test]
fn secrets_overlap_while_they_are_rotated() {
    let mut endpoint: Endpoint = endpoint();
    let (old, new, newer) =
        (Secret::hmac(&[1; 32]), Secret::ed25519([2; 32]), Secret::hmac(&[3; 32]));
    endpoint.rotate(old.clone(), at(0), seconds(60));
    endpoint.rotate(new.clone(), at(0), seconds(60));
    let used =
        |endpoint: &Endpoint, second| endpoint.secrets_at(at(second)).cloned().collect::<Vec<_>>();
    assert_eq!(used(&endpoint, 59), [new.clone(), old.clone()]);
    assert_eq!(used(&endpoint, 60), std::slice::from_ref(&new));
    // A second rotation does not give the oldest more time.
    endpoint.rotate(newer.clone(), at(30), seconds(60));
    assert_eq!(used(&endpoint, 31), [newer.clone(), new.clone(), old]);
    assert_eq!(used(&endpoint, 60), [newer.clone(), new]);
    endpoint.rotate(newer.clone(), at(1_000), seconds(60));
    assert_eq!(endpoint.secrets.len(), 2, "what is no longer used is dropped");
}

/// D11: no text of settings or endpoint has a secret.
#[test]
fn secrets_are_in_no_text() {
    let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let json = format!(r#"{{"name":"a","url":"https://example.com/","secrets":["{secret}"]}}"#);
    let settings = settings(&json);
    let endpoint = settings.read().unwrap();
    let shown = serde_json::to_string(&settings).unwrap();
    for text in [format!("{settings:?}"), format!("{endpoint:?}"), shown] {
        assert!(!text.contains("C2FVsBQ") && !text.contains("11, 97"), "{text}");
    }
}
