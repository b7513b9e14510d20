//! The JSON of the API: what is read, what is written, what is refused.

use indelible_journal::{OperationId, Payload, Timestamp};
use indelible_ledger::json;
use indelible_ledger::{Content, Entity, Height, OperationResult, Unit};
use serde_json::{Value, json};

fn read(text: &str) -> Result<json::Operation, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Every operation is written as it was read; an amount is read as a JSON integer, too.
#[test]
fn operations_are_written_as_they_were_read() {
    let whole = [
        json!({"set": {
            "condition": {"version": 3}, "expires_at": "2027-01-01T00:00:00.000000Z", "key": "a",
            "to": {"value": {"codec": "json", "value": {"b": [1, null]}}},
        }}),
        json!({"set": {"condition": {"is": {"value": {"codec": "text", "text": "é"}}}, "key": "a",
            "to": {"amount": {"quantity": "-170141183460469231731687303715884105728", "unit": "EUR"}}}}),
        json!({"set": {"key": "a", "to": {"value": {"codec": "json", "value": null}}}}),
        json!({"delete": {"condition": "present", "key": "a"}}),
        json!({"check": {"condition": "absent", "key": "a"}}),
        json!({"check": {"condition": {"hash": "00".repeat(32)}, "key": "a"}}),
        json!({"get": {"key": "a"}}),
        json!({"add": {"condition": "absent", "delta": "5", "key": "a", "max": "9", "min": "-1", "unit": "EUR"}}),
        json!({"transfer": {"from": "a", "max": "9", "min": "0", "quantity": "5", "to": "b", "unit": "EUR"}}),
        json!({"start": {"function": "mail/send", "input": {"base64": "/w==", "codec": "raw"}}}),
    ];
    for operation in whole {
        let text = operation.to_string();
        let domain = read(&text).unwrap().read().unwrap();
        assert_eq!(serde_json::to_string(&json::Operation::of(&domain)).unwrap(), text);
        let numbers = text.replace("\"5\"", "5").replace("\"-1\"", "-1").replace("\"9\"", "9");
        assert_eq!(read(&numbers).unwrap().read().unwrap(), domain, "{numbers}");
    }
}

/// Nothing is guessed: each of these is refused, with what is wrong.
#[test]
fn operations_are_read_strictly() {
    let add = |delta: &str| format!(r#"{{"add":{{"key":"a","delta":{delta}}}}}"#);
    for wrong in ["1.0", "1e3", "18446744073709551616", r#""5.0""#, r#"" 5""#, r#""+5""#, r#""05""#]
        .iter()
        .chain([&r#""-0""#, &r#""x""#, &"true", &"null", &"[]"])
        .chain([&r#""170141183460469231731687303715884105728""#])
    {
        assert!(read(&add(wrong)).is_err(), "{wrong}");
    }
    for wrong in [
        r#"{"get":{"key":"a","x":1}}"#,
        r#"{"get":{"key":""}}"#,
        r#"{"get":{}}"#,
        r#"{"get":{"key":"a"},"delete":{"key":"a"}}"#,
        r#"{"send":{"key":"a"}}"#,
        r#""get""#,
        r#"{"check":{"key":"a","condition":"none"}}"#,
        r#"{"check":{"key":"a","condition":{"version":-1}}}"#,
        r#"{"set":{"key":"a","to":{"value":{"codec":"jsn","text":""}}}}"#,
        r#"{"set":{"key":"a","to":{"amount":{"quantity":1,"unit":""}}}}"#,
        r#"{"set":{"key":"a","to":{"amount":{"quantity":1,"unit":"x"}},"expires_at":"soon"}}"#,
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    for (wrong, why) in [
        (r#"{"codec":"raw"}"#, json::PayloadError::Forms),
        (r#"{"codec":"json","value":1,"text":"1"}"#, json::PayloadError::Forms),
        (r#"{"codec":"raw","base64":"/w"}"#, json::PayloadError::Base64),
    ] {
        let start = format!(r#"{{"start":{{"function":"a/b","input":{wrong}}}}}"#);
        assert_eq!(read(&start).unwrap().read(), Err(why), "{wrong}");
    }
}

/// What operations answered, as clients see it.
#[test]
fn results_on_the_wire() {
    let version = Height::new(3);
    let entity = Entity {
        content: Content::amount(7, Unit::new("EUR").unwrap()),
        version,
        expires_at: Some(Timestamp::EPOCH),
    };
    let value = Entity { content: Content::value(Payload::json("1")), version, expires_at: None };
    let operation = OperationId::new("tx:1:0").unwrap();
    let cases: [(OperationResult, Value); 9] = [
        (OperationResult::Set { version }, json!({"set": {"version": 3}})),
        (OperationResult::Deleted { version: Some(version) }, json!({"deleted": {"version": 3}})),
        (OperationResult::Deleted { version: None }, json!({"deleted": {"version": null}})),
        (OperationResult::Checked, json!({"checked": {}})),
        (OperationResult::Got(None), json!({"got": {"entity": null}})),
        (
            OperationResult::Got(Some(entity)),
            json!({"got": {"entity": {"version": 3, "expires_at": "1970-01-01T00:00:00.000000Z",
                "is": {"amount": {"quantity": "7", "unit": "EUR"}}}}}),
        ),
        (
            OperationResult::Got(Some(value)),
            json!({"got": {"entity": {"version": 3, "is": {"value": {"codec": "json", "value": 1}}}}}),
        ),
        (
            OperationResult::Transferred { version, from_balance: -1, to_balance: 8 },
            json!({"transferred": {"version": 3, "from_balance": "-1", "to_balance": "8"}}),
        ),
        (OperationResult::Started { operation }, json!({"started": {"operation_id": "tx:1:0"}})),
    ];
    for (result, expected) in cases {
        let written = json::OperationResult::of(&result);
        assert_eq!(serde_json::to_value(&written).unwrap(), expected);
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<json::OperationResult>(&text).unwrap(), written);
    }
}
