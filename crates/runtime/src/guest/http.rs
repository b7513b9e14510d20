//! `interface http` as it crosses: the request that a guest sends, and its policy for an unknown
//! outcome, in the journal's words.

use indelible_execution::policy;
use indelible_http::{Header, Part, Request};
use indelible_journal::{OnUnknown, RetryPolicy};
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

fn parts(parts: Vec<HttpPart>) -> Vec<Part> {
    let part = |part| match part {
        HttpPart::Bytes(bytes) => Part::Bytes(bytes.into()),
        HttpPart::Secret(name) => Part::Secret(name),
    };
    parts.into_iter().map(part).collect()
}

/// The request to send, and its policy. Err: why it is invalid, which the guest learns when it awaits.
pub(super) fn effect(
    request: HttpRequest,
    policy: HttpPolicy,
) -> (Request, Result<RetryPolicy, String>) {
    let HttpRequest { method, url, headers, body } = request;
    let header = |HttpHeader { name, value }| Header { name, value: parts(value) };
    let headers = headers.into_iter().map(header).collect();
    let request = Request { method, url, headers, body: parts(body) };
    let policy = policy::of_request(&request, policy.into());
    (request, policy)
}

impl From<HttpPolicy> for policy::HttpPolicy {
    fn from(policy: HttpPolicy) -> Self {
        let reconciler = policy.reconciler;
        Self {
            idem: policy.idem,
            retries: policy.retry_policy.into(),
            timeout: policy.timeout,
            not_processed: policy.not_processed,
            no_answer: policy.no_answer,
            reconciler: reconciler.map(|HttpReconciler { function, settle }| (function, settle)),
            on_unknown: match policy.on_unknown {
                HttpOnUnknown::Indeterminate => OnUnknown::Indeterminate,
                HttpOnUnknown::Hold => OnUnknown::Hold,
            },
        }
    }
}
