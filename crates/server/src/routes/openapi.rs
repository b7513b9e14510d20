//! The OpenAPI document, made of the table of paths: what is not in the table is not served, and
//! what is, is in the document.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use indelible_api::{Code, Problem, header, problem};
use indelible_records::beginning::{DIGITS_MAX, DIGITS_MIN};
use indelible_records::labels::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::table::ROUTES;
use super::{Body, Form, Parameter, RequiredAccess, ResponseBody, Route};
use crate::answer::Answer;
use crate::request::ApiRequest;
use crate::state::State;

/// The document.
pub(super) async fn serve(_: Arc<State>, _: ApiRequest) -> Result<Answer, Problem> {
    let kind = HeaderValue::from_static("application/json");
    Ok(Answer::of(StatusCode::OK, kind, text()))
}

/// Its text, made once.
pub(crate) fn text() -> Bytes {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    TEXT.get_or_init(|| serde_json::to_vec(&document()).expect("it is JSON").into()).clone()
}

/// The document as a value.
pub(crate) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>();
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        let method = route.method.as_str().to_lowercase();
        path[method] = operation(route, &mut generator, &json!(problem));
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Indelible",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Functions that run to the end exactly once, despite crashes, retries and \
                 duplicate requests.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "bearer": [] }, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key or a session token. None is needed on loopback if \
                                    the server has no keys.",
                },
            },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let mut parameters = Vec::new();
    for name in names(route.path) {
        let about = about(name);
        parameters.push(json!({
            "name": name, "in": "path", "required": true,
            "description": about, "schema": path_schema(name),
        }));
    }
    let listed = |place: &str, parameter: &Parameter| {
        json!({
            "name": parameter.name, "in": place, "required": false,
            "description": parameter.about, "schema": form(parameter.form),
        })
    };
    parameters.extend(route.query.iter().map(|parameter| listed("query", parameter)));
    parameters.extend(route.headers.iter().map(|parameter| listed("header", parameter)));
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses(route, generator, problem),
    });
    if let Some(body) = body(route.body, generator) {
        operation["requestBody"] = body;
    }
    match route.needs {
        RequiredAccess::Nothing => operation["security"] = json!([]),
        RequiredAccess::Credential => {}
        RequiredAccess::Role(roles) => {
            let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
            let text = format!("Requires the role {} (or admin).", roles.join(" or "));
            operation["description"] = json!(text);
        }
    }
    operation
}

/// The names in braces.
pub(crate) fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn about(name: &str) -> &'static str {
    match name {
        "component" => "The name of a component.",
        "function" => "The name of one of its functions.",
        "execution" => "The id of an execution: whole, or its first digits if no other begins so.",
        "operation" => {
            "The id of an operation: a UUIDv7, or `tx:TRANSACTION:INDEX` of what a transaction started."
        }
        "signal" => "The name of a signal.",
        "promise" => "The id of a promise: whole, or with the first digits of its root.",
        "vault" => "The name of a vault.",
        "endpoint" => "The name of an endpoint.",
        "message" => "The id of a message: `msg_` and 40 digits.",
        "client" => "The id of a client of the ledger.",
        "key" => "The key of an entity; a slash in it is sent as %2F.",
        "height" => "The height of a transaction.",
        _ => "The id of an API key.",
    }
}

fn path_schema(name: &str) -> Value {
    match name {
        "execution" | "promise" => {
            let digits = format!("[0-9a-f]{{{DIGITS_MIN},{DIGITS_MAX}}}");
            let pattern = format!("^{digits}(\\.(0|[1-9][0-9]{{0,8}}))*$");
            json!({ "type": "string", "pattern": pattern })
        }
        "operation" => {
            let hex = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
            let pattern = format!("^({hex}|tx:{hex}:(0|[1-9][0-9]{{0,3}}))$");
            json!({ "type": "string", "pattern": pattern })
        }
        "vault" | "endpoint" => json!({ "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" }),
        "message" => json!({ "type": "string", "pattern": "^msg_[0-9a-f]{40}$" }),
        "key" => json!({ "type": "string", "minLength": 1, "maxLength": 1024 }),
        "height" => form(Form::Number(1, u64::MAX)),
        "token" => json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" }),
        _ => json!({ "type": "string", "minLength": 1, "maxLength": 255 }),
    }
}

fn form(form: Form) -> Value {
    match form {
        Form::Any => json!({ "type": "string" }),
        Form::Text(chars_max) => json!({ "type": "string", "maxLength": chars_max }),
        Form::Namespace => {
            json!({ "type": "string", "pattern": "^[a-z0-9-][a-z0-9_-]{0,63}$", "default": "default" })
        }
        Form::Namespaces => {
            json!({ "type": "string", "pattern": "^(\\*|[a-z0-9-][a-z0-9_-]{0,63})$", "default": "default" })
        }
        // Of a value the bytes are counted, of which a character has one or more.
        Form::Label => json!({
            "type": "array",
            "items": { "type": "string", "pattern": format!(
                "^[0-9A-Za-z._-]{{1,{LABEL_NAME_BYTES_MAX}}}=[^\\x00-\\x1f\\x7f-\\x9f]{{0,{LABEL_VALUE_BYTES_MAX}}}$",
            ) },
            "maxItems": LABELS_MAX,
        }),
        Form::Number(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Form::Seconds(min, max) => json!({ "type": "number", "minimum": min, "maximum": max }),
        Form::Time => json!({ "type": "string", "format": "date-time" }),
        Form::States => {
            let word =
                "(running|blocked|cancelling|stuck|completed|failed|cancelled|indeterminate)";
            json!({ "type": "string", "pattern": format!("^{word}(,{word})*$") })
        }
        Form::IdPrefix => json!({
            "type": "string",
            "pattern": format!("^[0-9a-f]{{{DIGITS_MIN},{DIGITS_MAX}}}$"),
        }),
        Form::Flag => json!({ "type": "boolean", "default": false }),
        Form::Words(words) => json!({ "type": "string", "enum": words }),
        Form::Uuid => json!({
            "type": "string",
            "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
        }),
    }
}

fn body(body: Body, generator: &mut SchemaGenerator) -> Option<Value> {
    let json_of = |schema: Value, required: bool| json!({ "required": required, "content": { "application/json": { "schema": schema } } });
    match body {
        Body::None => None,
        Body::AnyJson => Some(json_of(json!({}), false)),
        Body::Json(schema) => Some(json_of(json!(schema(generator)), true)),
        Body::OptionalJson(schema) => Some(json_of(json!(schema(generator)), false)),
        Body::Wasm => Some(json!({
            "required": true,
            "content": { "application/wasm": { "schema": { "type": "string", "format": "binary" } } },
        })),
    }
}

fn responses(route: &Route, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let mut responses = Map::new();
    let verdict = json!({
        "description": "Why the request failed.",
        "schema": { "type": "string", "enum": ["Fresh", "InFlight", "PriorResult", "PriorError"] },
    });
    for (status, shown) in route.answers {
        let content = match shown {
            ResponseBody::Nothing => None,
            ResponseBody::Json(schema) => {
                Some(json!({ "application/json": { "schema": schema(generator) } }))
            }
            ResponseBody::Document => {
                Some(json!({ "application/json": { "schema": { "type": "object" } } }))
            }
            ResponseBody::Events => {
                Some(json!({ "text/event-stream": { "schema": { "type": "string" } } }))
            }
            ResponseBody::Bytes => Some(json!({
                "application/octet-stream": { "schema": { "type": "string", "format": "binary" } }
            })),
            ResponseBody::Lines => {
                Some(json!({ "application/jsonl": { "schema": { "type": "string" } } }))
            }
            ResponseBody::Text => Some(json!({
                "application/openmetrics-text": { "schema": { "type": "string" } }
            })),
        };
        let description = match status {
            202 => "Still running: `Location` says where to ask again.",
            201 => "Made.",
            204 => "No content.",
            _ => "Success.",
        };
        let mut response = json!({ "description": description });
        if let Some(content) = content {
            response["content"] = content;
        }
        let mut headers = Map::new();
        if *status == 202 {
            let schema = json!({ "type": "string" });
            headers.insert("Location".to_owned(), json!({ "schema": schema }));
        }
        if route.changes() && route.name != "createToken" && route.name != "revokeToken" {
            headers.insert(header::VERDICT.to_owned(), verdict.clone());
        }
        if route.changes() && route.names_execution() {
            let schema = json!({ "type": "string" });
            let about = "The whole id that the id in the path stands for.";
            headers
                .insert(header::ID.to_owned(), json!({ "description": about, "schema": schema }));
        }
        if !headers.is_empty() {
            response["headers"] = Value::Object(headers);
        }
        responses.insert(status.to_string(), response);
    }
    let statuses: BTreeSet<_> = route.problems().map(Code::status).collect();
    for status in statuses {
        let codes: Vec<_> =
            route.problems().filter(|code| code.status() == status).map(Code::as_str).collect();
        let mut response = json!({
            "description": codes.join(", "),
            "content": { (problem::MEDIA_TYPE): { "schema": problem } },
        });
        if route.problems().any(|code| code.status() == status && code.is_retryable()) {
            response["headers"] = json!({
                "Retry-After": { "schema": { "type": "integer" }, "description": "In seconds." },
            });
        }
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every path is in the document, with every problem that it can have.
    #[test]
    fn the_document_has_everything() {
        let document = document();
        let mut names = BTreeSet::new();
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            assert_eq!(operation["operationId"], route.name);
            assert!(names.insert(route.name), "{} is there twice", route.name);
            for code in route.problems() {
                let response = &operation["responses"][code.status().to_string()];
                let description = response["description"].as_str().expect("it is described");
                assert!(description.contains(code.as_str()), "{route:?} {code}");
            }
        }
        let problem = &document["components"]["schemas"]["Problem"];
        assert_eq!(problem["type"], "object");
        assert!(document["components"]["schemas"]["Returned"].is_object());
    }

    /// No reference leads nowhere.
    #[test]
    fn every_reference_is_there() {
        let document = document();
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(!references.is_empty());
        for reference in references {
            let pointer = reference.strip_prefix('#').expect("it is within the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    fn collect(value: &Value, references: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    references.push(reference.clone());
                }
                map.values().for_each(|value| collect(value, references));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }
}
