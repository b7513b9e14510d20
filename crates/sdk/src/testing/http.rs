//! Requests that a function sends, and how a test answers them.

use std::time::Duration;

use indelible_execution::output::EffectSend;
use indelible_http::{End, Part, Request, Response as Answered};
use serde::de::DeserializeOwned;

use crate::http::Response;

/// One attempt at a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// Its method.
    pub method: String,
    /// Where it is sent to.
    pub url: String,
    /// Its headers, in their order. A secret is `[secret NAME]`.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// Its `Idempotency-Key`, which is equal on every attempt.
    pub idempotency_key: String,
    /// Which attempt it is, from 1.
    pub attempt: u32,
}

impl HttpRequest {
    pub(super) fn of(send: &EffectSend) -> Self {
        let request = Request::decode(&send.request.bytes).expect("the tree has just encoded it");
        let text = |parts: &[Part]| String::from_utf8_lossy(&shown(parts)).into_owned();
        let headers: Vec<(String, String)> =
            request.headers.iter().map(|one| (one.name.clone(), text(&one.value))).collect();
        let mut request = Self {
            body: shown(&request.body),
            method: request.method,
            url: request.url,
            headers,
            idempotency_key: send.idempotency_key.clone(),
            attempt: send.attempt.get(),
        };
        // A key of the request's own is sent as it is.
        if let Some(own) = request.header("idempotency-key").map(str::to_owned) {
            request.idempotency_key = own;
        }
        request
    }

    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// It is not, or not of this type.
    #[must_use]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("the body of {} {} is not what the test expects: {error}", self.method, self.url)
        })
    }
}

/// Parts together: secrets by their names.
fn shown(parts: &[Part]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => all.extend_from_slice(bytes),
            Part::Secret(name) => all.extend_from_slice(format!("[secret {name}]").as_bytes()),
        }
    }
    all
}

/// How an attempt at a request ends. A [`Response`] is one.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    end: End,
    after: Duration,
}

impl HttpAnswer {
    /// Nothing of it left: the host was not reached. It is tried again, whatever its class.
    #[must_use]
    pub fn not_sent(why: impl Into<String>) -> Self {
        Self::now(End::NotSent { why: why.into() })
    }

    /// It may have arrived, and no answer came: the connection broke. What follows depends on the
    /// class of the request.
    #[must_use]
    pub fn lost(why: impl Into<String>) -> Self {
        Self::now(End::Unknown { why: why.into(), timed_out: false })
    }

    /// The component may not send it. It is not tried again.
    #[must_use]
    pub fn refused(why: impl Into<String>) -> Self {
        Self::now(End::Refused { why: why.into() })
    }

    /// It ends after this time. If that is longer than the request's timeout, it ends then, and
    /// it is unknown whether it happened.
    #[must_use]
    pub fn after(mut self, time: Duration) -> Self {
        self.after = time;
        self
    }

    fn now(end: End) -> Self {
        Self { end, after: Duration::ZERO }
    }

    pub(super) fn into_end(self) -> (End, Duration) {
        (self.end, self.after)
    }
}

impl From<Response> for HttpAnswer {
    fn from(response: Response) -> Self {
        let header = |(name, value): (String, Vec<u8>)| (name.to_ascii_lowercase(), value.into());
        Self::now(End::Answered(Answered {
            status: response.status,
            headers: response.headers.into_iter().map(header).collect(),
            body: response.body.into(),
        }))
    }
}
