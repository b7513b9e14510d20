//! The way there and back is exact, and whatever is wrong is said clearly.

use proptest::prelude::*;

use super::*;
use crate::strategies::any_record;
use crate::{
    Codec, Event, ExecutionId, JournalKey, Payload, Record, RootHash, Sequence, Timestamp,
};

const ROOT: &str = "9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c";

fn written(key: &JournalKey, record: &Record) -> String {
    let mut out = Vec::new();
    write_line(key, record, &mut out);
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_event_comes_back_as_it_was((key, record) in any_record()) {
        let line = written(&key, &record);
        prop_assert_eq!(line.find('\n'), Some(line.len() - 1), "one line: {}", line);
        let read = parse_line(&line);
        prop_assert_eq!(read, Ok((key, record)), "{}", line);
    }

    #[test]
    fn every_event_is_described_on_one_short_line((_, record) in any_record()) {
        let line = record.event.describe().to_string();
        prop_assert!(!line.chars().any(crate::describe::rewrites_the_line), "{line:?}");
        prop_assert!(line.chars().count() < 2_000, "{line}");
    }
}

fn completed(payload: Payload) -> String {
    let key = JournalKey::first(ExecutionId::root_of(RootHash::from_bytes([0x9c; 32])));
    let event = Event::ExecutionCompleted { result: payload };
    let record = Record { sequence: Sequence::new(7), timestamp: Timestamp::EPOCH, event };
    written(&key, &record)
}

#[test]
fn a_line_looks_like_this() {
    let expected = format!(
        "{{\"v\":2,\"execution\":\"{ROOT}@1\",\"sequence\":7,\
         \"timestamp\":\"1970-01-01T00:00:00.000000Z\",\"event\":\"ExecutionCompleted\",\
         \"data\":{{\"result\":{{\"codec\":\"json\",\"value\":{{\"b\": 1,\"a\":[ ]}}}}}}}}\n"
    );
    assert_eq!(completed(Payload::json("{\"b\": 1,\"a\":[ ]}")), expected);
}

#[test]
fn a_payload_takes_the_most_readable_form_that_keeps_its_bytes() {
    let check = |codec: Codec, bytes: &'static [u8], expected: &str| {
        let line = completed(Payload::new(codec, bytes));
        let form = line.split_once("\"result\":").unwrap().1.trim_end_matches(['}', '\n']);
        assert_eq!(form, expected);
    };
    check(Codec::JSON, b"null", r#"{"codec":"json","value":null"#);
    check(Codec::JSON, b" 1", r#"{"codec":"json","text":" 1""#);
    check(Codec::JSON, b"[1,\n2]", r#"{"codec":"json","text":"[1,\n2]""#);
    check(Codec::JSON, b"\xff", r#"{"codec":"json","base64":"/w==""#);
    check(Codec::TEXT, b"null", r#"{"codec":"text","text":"null""#);
    check(Codec::TEXT, b"\xff", r#"{"codec":"text","base64":"/w==""#);
    check(Codec::RAW, b"null", r#"{"codec":"raw","base64":"bnVsbA==""#);
    check(Codec::from_number(200), b"", r#"{"codec":"codec-200","base64":"""#);
}

/// `line` is refused; the column is that of `place` in it, or right after it.
#[track_caller]
fn refused(line: &str, place: &str, message: &str) {
    let error = parse_line(line).unwrap_err();
    assert!(error.message.contains(message), "{error} in {line}");
    let start = line.find(place).expect("the place is in the line") + 1;
    let near = start..=start + place.len() + 1;
    assert!(near.contains(&error.column), "{error}, not in {near:?} of {line}");
}

fn with(event: &str, data: &str) -> String {
    format!(
        "{{\"v\":2,\"execution\":\"{ROOT}@1\",\"sequence\":0,\
         \"timestamp\":\"2026-01-02T03:04:05Z\",\"event\":\"{event}\",\"data\":{data}}}"
    )
}

#[test]
fn errors_of_the_line_have_reason_and_column() {
    let good = with("ExecutionResumed", "{}");
    parse_line(&good).unwrap();
    parse_line(&format!("{good}\r\n")).unwrap();
    let broken = |from: &str, to: &str| good.replacen(from, to, 1);

    refused("", "", "blank");
    refused(" \t\r\n", " ", "blank");
    refused(&format!("\u{feff}{good}"), "\u{feff}", "byte order mark");
    refused(&broken(",\"seq", ",\n\"seq"), "\n", "line break");
    refused(&format!("{good}{good}"), "}}{", "trailing characters");
    refused(&good[..good.len() - 3], "\"data\":", "EOF");
    refused("[]", "[", "expected an object");
    refused("null", "null", "expected an object");
    refused(&broken("\"v\":2", "\"v\":3"), "3,", "reads version 2");
    refused(&broken("\"v\":2", "\"v\":1"), "1,", "commit 98696c0 to read version 1");
    refused(&broken("\"v\":2", "\"v\":0,\"new\":[{}]"), "0,", "version 0");
    refused(&broken("\"v\":2", "\"v\":\"2\""), "\"2\"", "invalid type");
    refused(&broken("\"v\":2,", ""), "}}", "missing field `v`");
    refused(&broken("\"v\":2", "\"v\":2,\"v\":2"), "\"v\":2,\"e", "duplicate field `v`");
    refused(&broken("\"v\":2", "\"v\":2,\"w\":1"), "\"w\"", "unknown field `w`");
    refused(&broken("\"sequence\":0", "\"sequence\":-1"), "-1", "expected u64");
    refused(
        &broken("\"sequence\":0", "\"sequence\":18446744073709551616"),
        "18446744073709551616",
        "u64",
    );
    refused(&broken("2026-", "1969-"), "1969-01-02T03:04:05Z\"", "from 1970 to 9999");
    refused(&broken("@1", ""), &format!("{ROOT}\""), "ID@ATTEMPTS");
    refused(&broken("@1", "@1.1"), "@1.1\"", "2 attempts");
    refused(&broken("9c9c", "9C9c"), "@1\"", "64 lower-case");
    refused(&with("\\u0045xecutionPaused", "{}"), "\\u0045xecutionPaused", "`ExecutionPaused`");
    refused(&with("ExecutionPaused", "{}"), "ExecutionPaused", "unknown event `ExecutionPaused`");
}

#[test]
fn errors_inside_data_have_reason_and_column() {
    let started = |rest: &str| with("InvokeStarted", &format!("{{\"promise_id\":{rest}}}"));
    let id = format!("\"{ROOT}.0\"");
    parse_line(&started(&format!("{id},\"attempt\":1"))).unwrap();
    refused(&started(&format!("{id},\"attempt\":0")), "\"attempt\":0", "nonzero");
    refused(&started(&format!("{id},\"attempt\":4294967296")), "4294967296", "u32");
    refused(&started(&format!("{id},\"attempt\":1.0")), "1.0", "floating point");
    refused(&started(&id), &id, "missing field `attempt`");
    refused(&started(&format!("\"{ROOT}.01\",\"attempt\":1")), ".01\"", "`01` is not a child");
    refused(&started("7,\"attempt\":1"), "7,", "expected a string");
    refused(
        &started(&format!("{id},\"attempt\":1,\"attempt\":1")),
        "\"attempt\":1}",
        "duplicate field",
    );
    refused(&started(&format!("{id},\"attempt\":1,\"extra\":1")), "\"extra\"", "unknown field");
    refused(&with("ExecutionResumed", "[]"), "[]", "expected an object");
    refused(&with("ExecutionResumed", "{\"a\":1}"), "\"a\"", "unknown field `a`");
    refused(&with("InvokeStarted", &format!("[{id},1]")), "[", "expected an object");

    let signal = |name: &str, payload: &str| {
        let data = format!("{{\"signal_name\":{name},\"delivery_id\":1,\"payload\":{payload}}}");
        with("SignalDelivered", &data)
    };
    let raw = "{\"codec\":\"raw\",\"base64\":\"\"}";
    refused(&signal("\" \"", raw), "\" \"", "the name is blank");
    refused(&signal("\"a\\u0007\"", raw), "\\u0007\"", "a control character at byte 1");
    refused(&signal(&format!("\"{}\"", "x".repeat(256)), raw), "x\",", "the name has 256 bytes");
    let payload = |fields: &str| signal("\"s\"", &format!("{{{fields}}}"));
    refused(&payload("\"codec\":\"jsn\""), "\"jsn\"", "unknown codec");
    refused(&payload("\"codec\":\"json\""), "\"json\"", "exactly one of");
    refused(
        &payload("\"codec\":\"json\",\"value\":null,\"text\":\"\""),
        "\"text\":\"\"",
        "exactly one of",
    );
    refused(&payload("\"codec\":\"raw\",\"value\":1"), "\"value\":1", "only json has");
    refused(&payload("\"codec\":\"cbor\",\"text\":\"\""), "\"text\":\"\"", "only json and text");
    refused(&payload("\"codec\":\"raw\",\"base64\":\"A\""), "\"A\"", "not base64");
    refused(&payload("\"codec\":\"raw\",\"base64\":null"), "null", "expected a string");
    refused(&payload("\"codec\":\"json\",\"value\":[1,}"), "}}}", "expected");
}

#[test]
fn wait_sets_are_sets_of_the_executions_own_children() {
    let awaiting = |members: &str| {
        with("ExecutionAwaiting", &format!("{{\"waiting_on\":[{members}],\"kind\":\"All\"}}"))
    };
    let (first, second) = (format!("\"{ROOT}.0\""), format!("\"{ROOT}.1\""));
    parse_line(&awaiting("")).unwrap();
    parse_line(&awaiting(&format!("{second},{first}"))).unwrap();
    let twice = awaiting(&format!("{first},{second},{first}"));
    refused(&twice, "],\"kind", "appears twice in a set (J-90)");
    let foreign = format!("\"{ROOT}.1.0\"");
    refused(&awaiting(&format!("{first},{foreign}")), &foreign, "not a child of this execution");
    refused(&awaiting(&format!("{first},3")), "3]", "expected a string");
    let rest =
        |of: &str| with("ExecutionAwaiting", &format!("{{\"waiting_on\":{of},\"kind\":\"All\"}}"));
    parse_line(&rest(&format!("{{\"rest_of\":{first}}}"))).unwrap();
    refused(&rest("{}"), "{},", "missing field `rest_of`");
    refused(&rest("true"), "true", "expected an array of promise ids");
    refused(&rest(&format!("{{\"of\":{first}}}")), "\"of\"", "unknown field `of`");
    refused(
        &rest(&format!("{{\"rest_of\":{foreign}}}")),
        &foreign,
        "not a child of this execution",
    );
    let two = format!("{{\"rest_of\":{first},\"rest_of\":{first}}}");
    refused(&rest(&two), ",\"rest_of\"", "takes one join set");
    refused(
        &with("ExecutionAwaiting", "{\"waiting_on\":[],\"kind\":\"Some\"}"),
        "\"Some\"",
        "unknown variant `Some`",
    );
}

#[test]
fn an_error_message_is_short_and_cannot_rewrite_the_terminal() {
    let hostile = format!("{{\"\u{1b}[2J\u{202e}{}\":1}}", "x".repeat(10_000));
    for line in
        [hostile.clone(), with("ExecutionResumed", &hostile), with(&"\u{9b}".repeat(9_999), "{}")]
    {
        let error = parse_line(&line).unwrap_err();
        assert!(!error.message.chars().any(crate::describe::rewrites_the_line), "{error:?}");
        assert!(error.message.len() < 4_000, "{}", error.message.len());
    }
}

/// Deep nesting is only skipped over, in a loop: the stack does not grow with it.
#[test]
fn nesting_as_deep_as_the_line_is_long_is_no_danger() {
    let deep = "[".repeat(10_000_000);
    assert_eq!(parse_line(&deep).unwrap_err().column, 1);
    for event in ["ExecutionResumed", "ExecutionAwaiting", "Nothing"] {
        parse_line(&with(event, &deep)).unwrap_err();
    }
    let closed = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let payload = format!("{{\"result\":{{\"codec\":\"json\",\"value\":{closed}}}}}");
    let (key, record) = parse_line(&with("ExecutionCompleted", &payload)).unwrap();
    assert_eq!(parse_line(&written(&key, &record)), Ok((key, record)));
}
