//! A request that was let in: what it says, read strictly.

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use indelible_api::{Code, Problem, header};
use indelible_idempotency::{ConsumerNamespace, IdempotencyKey, parse_key};
use indelible_journal::{Namespace, OperationId, Payload, Timestamp, TraceParent};
use indelible_ledger::TransactionId;
use indelible_operations::id;
use indelible_records::beginning::IdPrefix;
use indelible_records::labels::{Label, Labels};
use indelible_records::listing::{Whose, is_own};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::auth::{ALL_NAMESPACES, Caller, Namespaces};
use crate::listen::body::BudgetShare;
use crate::routes::{Form, Route};

/// The deepest JSON that is taken: deeper than real documents, and too shallow to exhaust a guest's
/// stack.
pub(crate) const JSON_DEPTH_MAX: usize = 128;

/// The namespace of a request that names none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// The namespace of keys for server-wide commands. No caller can name it.
pub(crate) const SERVER_NAMESPACE: &str = "_server";

/// A request that was let in.
pub(crate) struct ApiRequest {
    pub(crate) params: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) caller: Caller,
    pub(crate) body: Bytes,
    /// The body's part of the budget, for as long as its bytes are there.
    pub(crate) held: Option<BudgetShare>,
}

pub(crate) fn malformed(detail: impl Into<String>) -> Problem {
    Problem::new(Code::MalformedRequest, detail)
}

/// What varies in a path, decoded.
pub(crate) fn params(found: &matchit::Params<'_, '_>) -> Result<Vec<(String, String)>, Problem> {
    let decoded = |(name, value): (&str, &str)| {
        let text = percent_decode_str(value).decode_utf8();
        let text = text.map_err(|_| malformed(format!("{name} in the path is not UTF-8")))?;
        Ok((name.to_owned(), text.into_owned()))
    };
    found.iter().map(decoded).collect()
}

/// The query: each parameter once, but for labels, and none that the path does not have.
pub(crate) fn query(route: &Route, text: Option<&str>) -> Result<Vec<(String, String)>, Problem> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            let text = percent_decode_str(&text).decode_utf8();
            text.map(std::borrow::Cow::into_owned).map_err(|_| malformed("the query is not UTF-8"))
        };
        let (name, value) = (decode(name)?, decode(value)?);
        let Some(parameter) = route.query.iter().find(|parameter| parameter.name == name) else {
            let has: Vec<_> = route.query.iter().map(|parameter| parameter.name).collect();
            let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
            return Err(malformed(format!(
                "the query has an unknown parameter; known parameters: {has}"
            )));
        };
        let repeats = matches!(parameter.form, Form::Label);
        if !repeats && found.iter().any(|(before, _)| *before == name) {
            return Err(malformed(format!("the query has {name} twice")));
        }
        check(parameter.name, parameter.form, &value)?;
        found.push((name, value));
    }
    Ok(found)
}

/// Whether a parameter has the form that the document says.
fn check(name: &str, form: Form, value: &str) -> Result<(), Problem> {
    let range = |problem: String| Err(malformed(format!("{name} {problem}")));
    match form {
        Form::Text(chars_max) if value.chars().count() > chars_max => {
            range(format!("has more than {chars_max} characters"))
        }
        Form::Any | Form::Text(_) | Form::Uuid => Ok(()),
        Form::Namespaces if value == ALL_NAMESPACES => Ok(()),
        Form::Namespace | Form::Namespaces => match ConsumerNamespace::new(value) {
            Ok(_) => Ok(()),
            Err(error) => range(format!("is invalid: {error}")),
        },
        Form::Number(min, max) => match value.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) && is_plain(value) => Ok(()),
            _ => range(format!("must be a whole number from {min} to {max}")),
        },
        Form::Seconds(min, max) => match value.parse::<f64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(()),
            _ => range(format!("must be a number of seconds from {min} to {max}")),
        },
        Form::Time => match value.parse::<Timestamp>() {
            Ok(_) => Ok(()),
            Err(_) => range("must be a time in RFC 3339, such as 2027-01-01T00:00:00Z".to_owned()),
        },
        Form::States => match value.split(',').find(|word| state(word).is_none()) {
            None => Ok(()),
            Some(_) => range(
                "has an unknown state; known states: running, blocked, cancelling, stuck, \
                 completed, failed, cancelled"
                    .to_owned(),
            ),
        },
        Form::IdPrefix => match value.parse::<IdPrefix>() {
            Ok(_) => Ok(()),
            Err(error) => range(format!("is invalid: {error}")),
        },
        Form::Label => match value.parse::<Label>() {
            Ok(_) => Ok(()),
            Err(error) => range(format!("is invalid: {error}")),
        },
        Form::Flag if matches!(value, "true" | "false") => Ok(()),
        Form::Flag => range("must be true or false".to_owned()),
        Form::Words(words) if words.contains(&value) => Ok(()),
        Form::Words(words) => range(format!("must be one of {}", words.join(", "))),
    }
}

/// Digits alone: `+1` is no spelling of a number here.
fn is_plain(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn state(word: &str) -> Option<indelible_api::execution::State> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

impl ApiRequest {
    /// What varies in the path.
    pub(crate) fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// A parameter of the query.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A whole number of the query; its range was looked at.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.query(name).and_then(|value| value.parse().ok())
    }

    /// A time of the query.
    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        self.query(name).and_then(|value| value.parse().ok())
    }

    /// Whether the parameter is `true`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.query(name) == Some("true")
    }

    /// How long to wait.
    pub(crate) fn wait(&self) -> std::time::Duration {
        let seconds = self.query("wait").and_then(|value| value.parse().ok());
        std::time::Duration::from_secs_f64(seconds.unwrap_or(crate::routes::WAIT_SECONDS))
    }

    /// The most rows of a page.
    pub(crate) fn limit(&self) -> usize {
        let limit = self.number("limit").unwrap_or(crate::routes::LIMIT);
        usize::try_from(limit).unwrap_or(usize::MAX)
    }

    /// A header that a request has at most once.
    pub(crate) fn header(&self, name: &'static str) -> Result<Option<&str>, Problem> {
        let mut values = self.headers.get_all(HeaderName::from_static(name)).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(malformed(format!("the header {name} appears twice")));
        }
        let value = std::str::from_utf8(value.as_bytes());
        value.map(Some).map_err(|_| malformed(format!("the header {name} is not UTF-8")))
    }

    /// The namespace that the request is for, if the credential belongs to it.
    pub(crate) fn namespace(&self) -> Result<ConsumerNamespace, Problem> {
        let named = match (self.query("namespace"), self.caller.only_namespace()) {
            (Some(named), _) => ConsumerNamespace::new(named),
            (None, Some(only)) => return Ok(only.clone()),
            (None, None) => ConsumerNamespace::new(DEFAULT_NAMESPACE),
        };
        let named = named.map_err(|error| malformed(format!("namespace is invalid: {error}")))?;
        if is_own(named.as_str()) {
            let detail = "namespaces that begin with _ are reserved for the server";
            return Err(Problem::new(Code::Forbidden, detail));
        }
        if !self.caller.in_namespace(named.as_str()) {
            let detail = "the credential does not permit the namespace of the request";
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(named)
    }

    /// Whose executions a list has: those of the namespace that the request names or, if it names
    /// `*`, of every namespace that the credential may see.
    pub(crate) fn whose(&self) -> Result<Whose, Problem> {
        if self.query("namespace") != Some(ALL_NAMESPACES) {
            return Ok(domain(&self.namespace()?).into());
        }
        Ok(match self.caller.namespaces() {
            Namespaces::All => Whose::Callers,
            Namespaces::Some(names) => {
                let names = names.iter().filter(|name| !is_own(name.as_str()));
                Whose::Namespaces(names.map(domain).collect())
            }
        })
    }

    /// The labels of the query.
    pub(crate) fn labels(&self) -> Result<Labels, Problem> {
        let labels = self.query.iter().filter(|(name, _)| name == "label");
        let labels = labels.filter_map(|(_, label)| label.parse().ok());
        Labels::of_start(labels).map_err(|error| malformed(format!("label: {error}")))
    }

    /// The request's idempotency key (see I-6).
    pub(crate) fn key(
        &self,
        namespace: &ConsumerNamespace,
    ) -> Result<Option<IdempotencyKey>, Problem> {
        let raw = self.header(header::IDEMPOTENCY_KEY)?;
        parse_key(namespace, raw).map_err(|error| malformed(error.to_string()))
    }

    /// Checks the key of a request that has no further effect when it is repeated. The key changes
    /// nothing, but an invalid one is refused as everywhere.
    pub(crate) fn check_unused_key(&self) -> Result<(), Problem> {
        self.key(&ConsumerNamespace::new(SERVER_NAMESPACE).expect("it is one")).map(drop)
    }

    /// The caller's own id for the operation: a UUIDv7 in its one spelling, so that two spellings
    /// of an id are not two operations.
    pub(crate) fn operation_id(&self) -> Result<Option<OperationId>, Problem> {
        self.header(header::OPERATION_ID)?.map(operation_id).transpose()
    }

    /// Whether the caller wants an error if the operation is in flight already (C-2).
    pub(crate) fn conflict_if_in_flight(&self) -> Result<bool, Problem> {
        match self.header(header::IF_IN_FLIGHT)? {
            None | Some("attach") => Ok(false),
            Some("conflict") => Ok(true),
            Some(_) => Err(malformed(format!(
                "the header {} must be attach or conflict",
                header::IF_IN_FLIGHT
            ))),
        }
    }

    /// The trace that the request belongs to; what makes no sense is ignored, as W3C says.
    pub(crate) fn trace_parent(&self) -> Option<TraceParent> {
        let text = self.header(header::TRACE_PARENT).ok()??;
        is_trace_parent(text).then(|| TraceParent::new(text).ok())?
    }

    /// The body as JSON that is passed on; none is `null`.
    pub(crate) fn any_json(&self) -> Result<Payload, Problem> {
        if self.body.is_empty() {
            return Ok(Payload::json("null"));
        }
        check_json(&self.body)?;
        Ok(Payload::json(self.body.clone()))
    }

    /// The body as JSON of a shape.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        check_json(&self.body)?;
        // A list would be read too, as the fields in their order.
        if self.body.trim_ascii_start().first() != Some(&b'{') {
            return Err(malformed("the body must be a JSON object"));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| malformed(format!("the body is invalid: {error}")))
    }

    /// The same, with the type's default if there is no body.
    pub(crate) fn optional_json<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() { Ok(T::default()) } else { self.json() }
    }
}

/// An operation id as it comes over HTTP.
pub(crate) fn operation_id(text: &str) -> Result<OperationId, Problem> {
    let not_one = || malformed("the operation id must be a UUIDv7 in lower case with hyphens");
    let id = OperationId::new(text).map_err(|_| not_one())?;
    let canonical = text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    if canonical && id::created_at(&id).is_some() { Ok(id) } else { Err(not_one()) }
}

/// An operation id that can be asked about: a caller's own, or that of an execution which a transaction
/// started. No caller can take the latter for an operation of its own.
pub(crate) fn operation_named(text: &str) -> Result<OperationId, Problem> {
    let started = || {
        let (transaction, index) = text.strip_prefix("tx:")?.rsplit_once(':')?;
        let transaction: TransactionId = transaction.parse().ok()?;
        let id = transaction.operation(index.parse().ok()?);
        (id.as_str() == text).then_some(id)
    };
    started().map_or_else(|| operation_id(text), Ok)
}

/// The domain's type of a namespace.
pub(crate) fn domain(namespace: &ConsumerNamespace) -> Namespace {
    Namespace::new(namespace.as_str()).expect("a consumer's namespace is a name")
}

/// Valid JSON, and not too deep.
fn check_json(body: &[u8]) -> Result<(), Problem> {
    serde_json::from_slice::<&RawValue>(body)
        .map_err(|error| malformed(format!("the body is not JSON: {error}")))?;
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in body {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'[' | b'{') => depth += 1,
            (false, b']' | b'}') => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > JSON_DEPTH_MAX {
        return Err(malformed(format!(
            "the body is nested more than {JSON_DEPTH_MAX} levels deep"
        )));
    }
    Ok(())
}

/// A `traceparent` of a version that is known, with ids that are not zero.
fn is_trace_parent(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    match parts[..] {
        ["00", trace, parent, flags] => {
            hex(trace, 32) && !zero(trace) && hex(parent, 16) && !zero(parent) && hex(flags, 2)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Brackets in texts do not count, and one level too many is refused.
    #[test]
    fn json_has_a_depth() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check_json(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        let deep = check_json(nested(JSON_DEPTH_MAX + 1).as_bytes()).expect_err("it is too deep");
        assert_eq!(deep.code, Code::MalformedRequest);
        let text = format!("\"{}\\\"{}\"", "[".repeat(200), "{".repeat(200));
        assert!(check_json(text.as_bytes()).is_ok());
        for broken in [&b"{"[..], b"\xff", b"1 2", b"", b"{\"a\":\"\xc3\x28\"}"] {
            assert!(check_json(broken).is_err(), "{broken:?}");
        }
    }

    /// C-3: over HTTP an operation id carries its time, and has one spelling.
    #[test]
    fn operation_ids_have_one_spelling() {
        let good = "0190163d-8694-739b-aea5-966c26f8ad91";
        assert!(operation_id(good).is_ok());
        let upper = good.to_uppercase();
        let plain = good.replace('-', "");
        let braces = format!("{{{good}}}");
        let version_4 = "0190163d-8694-439b-aea5-966c26f8ad91";
        for wrong in [&upper, &plain, &braces, version_4, "order-1", "", "\u{7f}"] {
            assert!(operation_id(wrong).is_err(), "{wrong}");
        }
    }

    /// W3C: what makes no sense is ignored.
    #[test]
    fn trace_parents() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_trace_parent(good));
        for (from, to) in [("00-", "ff-"), ("-01", "-1"), ("0af7", "0AF7"), ("-01", "-01-x")] {
            assert!(!is_trace_parent(&good.replacen(from, to, 1)), "{to}");
        }
        assert!(!is_trace_parent(&good.replace("b7ad6b7169203331", "0000000000000000")));
    }
}
