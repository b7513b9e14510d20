//! Spans as OTLP's JSON: `ExportTraceServiceRequest` in the JSON mapping of Protocol Buffers, with
//! the two exceptions that OTLP makes: ids are hexadecimal, and enums are numbers.

use indelible_journal::Timestamp;
use serde::Serialize;

use super::spans::{Attribute, Kind, Span, SpanEvent, Status, Value};

/// Whose spans they are, within a service.
const SCOPE: &str = "indelible";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource {
    attributes: Vec<KeyValue>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<SpanJson<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanJson<'a> {
    trace_id: String,
    span_id: String,
    parent_span_id: String,
    flags: u32,
    name: &'a str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<KeyValue>,
    events: Vec<EventJson>,
    dropped_events_count: u32,
    status: StatusJson<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventJson {
    time_unix_nano: String,
    name: &'static str,
    attributes: Vec<KeyValue>,
}

#[derive(Serialize)]
struct StatusJson<'a> {
    code: u8,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

#[derive(Serialize)]
struct KeyValue {
    key: &'static str,
    value: AnyValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue {
    StringValue(String),
    /// 64 bits are a text: a number in JSON may have fewer.
    IntValue(String),
}

/// The body of a request that tells of these spans.
pub(super) fn body(service: &str, spans: &[Span]) -> Vec<u8> {
    let name = key_value(&("service.name", Value::Text(service.to_owned())));
    let scope = Scope { name: SCOPE, version: env!("CARGO_PKG_VERSION") };
    let scope_spans = ScopeSpans { scope, spans: spans.iter().map(span).collect() };
    let resource = Resource { attributes: vec![name] };
    let resource_spans = [ResourceSpans { resource, scope_spans: [scope_spans] }];
    serde_json::to_vec(&Request { resource_spans }).expect("texts and numbers are JSON")
}

fn span(span: &Span) -> SpanJson<'_> {
    SpanJson {
        trace_id: span.trace_id.to_string(),
        span_id: span.span_id.to_string(),
        parent_span_id: span.parent.to_string(),
        flags: span.flags.into(),
        name: &span.name,
        kind: match span.kind {
            Kind::Internal => 1,
            Kind::Client => 3,
        },
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end),
        attributes: span.attributes.iter().map(key_value).collect(),
        events: span.events.iter().map(event).collect(),
        dropped_events_count: span.events_dropped,
        status: match &span.status {
            Status::Unset => StatusJson { code: 0, message: "" },
            Status::Error(message) => StatusJson { code: 2, message },
        },
    }
}

fn event(event: &SpanEvent) -> EventJson {
    EventJson {
        time_unix_nano: nanos(event.at),
        name: event.name,
        attributes: event.attributes.iter().map(key_value).collect(),
    }
}

fn key_value((key, value): &Attribute) -> KeyValue {
    let value = match value {
        Value::Text(text) => AnyValue::StringValue(text.clone()),
        Value::Number(number) => AnyValue::IntValue(number.to_string()),
    };
    KeyValue { key, value }
}

/// Times go to the year 9999 here, and OTLP's 64 bits to 2554.
fn nanos(at: Timestamp) -> String {
    at.as_micros().saturating_mul(1_000).to_string()
}
