//! `interface http` as it crosses: the request that a guest sends, and its policy for an unknown
//! outcome, in the journal's words.

use indelible_http::{HEADERS_MAX, Header, PARTS_MAX, Part, Request};
use indelible_journal::{
    Backoff, Durability, FunctionName, Idempotency, Micros, OnUnknown, Reconciler, RetryBound,
    RetryClass, RetryPolicy, Statuses,
};
use wasmtime::component::{ComponentType, Lift};

use super::wire;

/// `part`.
#[derive(Debug, ComponentType, Lift)]
#[component(variant)]
pub(super) enum HttpPart {
    #[component(name = "bytes")]
    Bytes(Vec<u8>),
    #[component(name = "secret")]
    Secret(String),
}

/// `header`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(super) struct HttpHeader {
    name: String,
    value: Vec<HttpPart>,
}

/// `request`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(super) struct HttpRequest {
    method: String,
    url: String,
    headers: Vec<HttpHeader>,
    body: Vec<HttpPart>,
}

/// `reconciler`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(super) struct HttpReconciler {
    function: String,
    settle: u64,
}

/// `on-unknown`.
#[derive(Debug, Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "lifting makes them from their numbers")]
pub(super) enum HttpOnUnknown {
    #[component(name = "indeterminate")]
    Indeterminate,
    #[component(name = "hold")]
    Hold,
}

/// `http-policy`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(super) struct HttpPolicy {
    idem: Option<bool>,
    #[component(name = "retry-policy")]
    retry_policy: wire::RetryPolicy,
    timeout: u64,
    #[component(name = "not-processed")]
    not_processed: Option<Vec<u16>>,
    #[component(name = "no-answer")]
    no_answer: Option<Vec<u16>>,
    reconciler: Option<HttpReconciler>,
    #[component(name = "on-unknown")]
    on_unknown: HttpOnUnknown,
}

/// The longest that one attempt may take.
const TIMEOUT_MAX: Micros = Micros::from_secs(60 * 60);

/// The most statuses that a policy names: it is journaled with every request.
const STATUSES_MAX: usize = 64;

/// Methods that are `idem` unless a request says otherwise (D5).
const IDEM_METHODS: [&str; 5] = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"];

fn parts(parts: Vec<HttpPart>) -> Vec<Part> {
    let part = |part| match part {
        HttpPart::Bytes(bytes) => Part::Bytes(bytes.into()),
        HttpPart::Secret(name) => Part::Secret(name),
    };
    parts.into_iter().map(part).collect()
}

/// The request to send, and its policy. Err: why it is invalid. It is journaled either way, and the
/// guest learns of the error when it awaits: otherwise a rule that comes later could lead a replay
/// elsewhere (D6).
pub(super) fn effect(
    request: HttpRequest,
    policy: HttpPolicy,
) -> (Request, Result<RetryPolicy, String>) {
    let HttpRequest { method, url, headers, body } = request;
    let header = |HttpHeader { name, value }| Header { name, value: parts(value) };
    let headers = headers.into_iter().map(header).collect();
    let request = Request { method, url, headers, body: parts(body) };
    let policy = check(&request).and_then(|()| retry_policy(&request.method, policy));
    (request, policy)
}

fn check(request: &Request) -> Result<(), String> {
    let token = |c: char| c.is_ascii_uppercase() || c == '-';
    if request.method.is_empty() || request.method.len() > 32 || !request.method.chars().all(token)
    {
        return Err("the method must be in capital letters".to_owned());
    }
    if ["CONNECT", "TRACE"].contains(&request.method.as_str()) {
        return Err(format!("{} is not a request to a server", request.method));
    }
    if request.headers.len() > HEADERS_MAX {
        let count = request.headers.len();
        return Err(format!("it has {count} headers; at most {HEADERS_MAX} are allowed"));
    }
    let lists = request.headers.iter().map(|header| &header.value).chain([&request.body]);
    match lists.map(Vec::len).max() {
        Some(count) if count > PARTS_MAX => {
            Err(format!("a value has {count} parts; at most {PARTS_MAX} are allowed"))
        }
        _ => Ok(()),
    }
}

fn retry_policy(method: &str, policy: HttpPolicy) -> Result<RetryPolicy, String> {
    let idem = policy.idem.unwrap_or_else(|| IDEM_METHODS.contains(&method));
    let retry = policy.retry_policy;
    let timeout = Micros::new(policy.timeout);
    if timeout == Micros::ZERO || timeout > TIMEOUT_MAX {
        return Err(format!("its time-out is {timeout}; it must be above zero and at most 1 h"));
    }
    let statuses = |given: Option<Vec<u16>>| match given {
        Some(list) if list.len() > STATUSES_MAX => {
            Err(format!("it names {} statuses; at most {STATUSES_MAX} are allowed", list.len()))
        }
        Some(list) => Ok(Some(Statuses::from_iter(list))),
        None => Ok(None),
    };
    let usual: &[u16] = if idem { &[429, 503] } else { &[429] };
    let not_processed = statuses(policy.not_processed)?;
    let reconciler = match policy.reconciler {
        None => None,
        Some(HttpReconciler { function, settle }) => {
            let function = FunctionName::new(&function)
                .map_err(|error| format!("the reconciler's name is invalid: {error}"))?;
            Some(Reconciler { function, settle: Micros::new(settle) })
        }
    };
    let policy = RetryPolicy {
        class: RetryClass {
            durability: Durability::Persist,
            idempotency: if idem { Idempotency::Idem } else { Idempotency::NonIdem },
        },
        bound: retry.retries_max.map_or(RetryBound::Unbounded, RetryBound::Bounded),
        backoff: Backoff {
            base: Micros::new(retry.backoff_base),
            cap: Micros::new(retry.backoff_cap),
        },
        deadline: retry.deadline.map(Micros::new),
        attempt_timeout: Some(timeout),
        reconciler,
        on_unknown: match policy.on_unknown {
            HttpOnUnknown::Indeterminate => OnUnknown::Indeterminate,
            HttpOnUnknown::Hold => OnUnknown::Hold,
        },
        not_processed: not_processed.unwrap_or_else(|| usual.iter().copied().collect()),
        callee: None,
        no_answer: statuses(policy.no_answer)?,
    };
    super::manifest::check_policy(&policy)?;
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> HttpPolicy {
        let retry_policy = wire::RetryPolicy {
            retries_max: Some(3),
            backoff_base: 1_000,
            backoff_cap: 1_000_000,
            deadline: None,
        };
        HttpPolicy {
            idem: None,
            retry_policy,
            timeout: 30_000_000,
            not_processed: None,
            no_answer: None,
            reconciler: None,
            on_unknown: HttpOnUnknown::Indeterminate,
        }
    }

    fn given(method: &str, policy: HttpPolicy) -> Result<RetryPolicy, String> {
        let (method, url) = (method.to_owned(), "http://a.b".to_owned());
        effect(HttpRequest { method, url, headers: vec![], body: vec![] }, policy).1
    }

    /// V-24, C-38: the class that a method has unless the request says otherwise.
    #[test]
    fn classes_follow_the_method() {
        let class = |method: &str, idem| {
            given(method, HttpPolicy { idem, ..policy() }).unwrap().class.idempotency
        };
        for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
            assert_eq!(class(method, None), Idempotency::Idem, "{method}");
            assert_eq!(class(method, Some(false)), Idempotency::NonIdem, "{method}");
        }
        for method in ["POST", "PATCH", "MERGE"] {
            assert_eq!(class(method, None), Idempotency::NonIdem, "{method}");
            assert_eq!(class(method, Some(true)), Idempotency::Idem, "{method}");
        }
    }

    #[test]
    fn statuses_have_defaults() {
        assert_eq!(given("POST", policy()).unwrap().not_processed.as_slice(), [429]);
        assert_eq!(given("GET", policy()).unwrap().not_processed.as_slice(), [429, 503]);
        let none = HttpPolicy { not_processed: Some(vec![]), ..policy() };
        assert!(given("POST", none).unwrap().not_processed.as_slice().is_empty());
    }

    #[test]
    fn nonsense_is_told() {
        let why = |method: &str, policy| given(method, policy).unwrap_err();
        assert!(why("post", policy()).contains("capital letters"));
        assert!(why("", policy()).contains("capital letters"));
        assert!(why("G\r\nET", policy()).contains("capital letters"));
        assert!(why("CONNECT", policy()).contains("not a request"));
        assert!(why("GET", HttpPolicy { timeout: 0, ..policy() }).contains("time-out"));
        assert!(why("GET", HttpPolicy { timeout: u64::MAX, ..policy() }).contains("time-out"));
        let many = HttpPolicy { no_answer: Some((0..100).collect()), ..policy() };
        assert!(why("GET", many).contains("100 statuses"));
        let reconciler = Some(HttpReconciler { function: "\n".into(), settle: 0 });
        assert!(why("POST", HttpPolicy { reconciler, ..policy() }).contains("reconciler"));
        let mut backwards = policy();
        backwards.retry_policy.backoff_cap = 1;
        assert!(why("GET", backwards).contains("below the base"));
    }
}
