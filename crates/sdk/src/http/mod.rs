//! HTTP requests: effects that never happen twice unless that is harmless.
//!
//! A request is journaled before it leaves, with an `Idempotency-Key` that is equal on every
//! attempt. If the outcome of an attempt is unknown, what happens depends on the request's class:
//!
//! - `idem` (GET, HEAD, PUT, DELETE, OPTIONS, and what says so with [`Request::idem`]): it is sent
//!   again.
//! - not `idem` (all others): it is not. Its [reconciler](Request::reconciler) is asked, if it has
//!   one; otherwise it ends as [`Indeterminate`](crate::ErrorKind::Indeterminate), or waits
//!   for a person ([`Request::hold_if_unknown`]).
//!
//! ```no_run
//! # use indelible_sdk::prelude::*;
//! # #[derive(Serialize)] struct Charge { cents: u64 }
//! # fn demo() -> Result<(), Error> {
//! let charged = http::post("https://payments.example.com/charges")
//!     .bearer("PAYMENTS_KEY")
//!     .json(&Charge { cents: 500 })
//!     .timeout(Duration::from_secs(10))
//!     .send();
//! match charged.wait() {
//!     Ok(answer) if answer.is_success() => info!("charged"),
//!     Ok(answer) => return Err(format!("the bank says {}", answer.status).into()),
//!     Err(Error::Failed(failure)) if failure.kind == ErrorKind::Indeterminate => {
//!         warn!("it is unknown whether the card was charged")
//!     }
//!     Err(error) => return Err(error),
//! }
//! # Ok(()) }
//! ```
//!
//! A component reaches the hosts that it is granted, and no others, and has the secrets that it is
//! granted. A secret is named here and put in its place when the request leaves: it is never in a
//! journal, and no guest sees it.

mod reconcile;
mod response;

use std::time::Duration;

use serde::Serialize;

use crate::bindings::indelible::guest::{http as wit, types};
use crate::error::{ErrorKind, Failure};
use crate::function::{Function, Listed};
use crate::host;
use crate::payload::Payload;
use crate::promise::Promise;
use crate::time::micros;

pub use self::reconcile::{Question, Reconciled};
pub use self::response::Response;

/// The default of [`Request::settle`].
const SETTLE: Duration = Duration::from_secs(60);

/// A request that was not sent yet. [`Request::send`] sends it.
#[derive(Debug, Clone)]
#[must_use = "a request is sent by `send`"]
pub struct Request {
    request: wit::Request,
    policy: wit::HttpPolicy,
    /// Why it cannot be sent.
    problem: Option<String>,
}

/// A header's value or a body: bytes and secrets, in this order.
#[derive(Debug, Clone, Default)]
pub struct Value(Vec<wit::Part>);

/// The name of a secret that the host knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The secret of this name, for a header or a body.
///
/// ```
/// # use indelible_sdk::http::{self, secret};
/// # let _ =
/// http::get("https://api.example.com").header("x-api-key", secret("API_KEY"))
/// # ;
/// ```
#[must_use]
pub fn secret(name: impl Into<String>) -> Secret {
    Secret(name.into())
}

impl Value {
    /// What follows: text, bytes or a secret.
    #[must_use]
    pub fn then(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }
}

impl From<Secret> for Value {
    fn from(secret: Secret) -> Self {
        Self(vec![wit::Part::Secret(secret.0)])
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self(vec![wit::Part::Bytes(bytes)])
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

/// A GET: `idem`.
pub fn get(url: impl Into<String>) -> Request {
    request("GET", url)
}

/// A HEAD: `idem`.
pub fn head(url: impl Into<String>) -> Request {
    request("HEAD", url)
}

/// A PUT: `idem`.
pub fn put(url: impl Into<String>) -> Request {
    request("PUT", url)
}

/// A DELETE: `idem`.
pub fn delete(url: impl Into<String>) -> Request {
    request("DELETE", url)
}

/// A POST: not `idem`.
pub fn post(url: impl Into<String>) -> Request {
    request("POST", url)
}

/// A PATCH: not `idem`.
pub fn patch(url: impl Into<String>) -> Request {
    request("PATCH", url)
}

/// A request with this method, in capitals.
pub fn request(method: impl Into<String>, url: impl Into<String>) -> Request {
    Request {
        request: wit::Request {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
        },
        policy: wit::HttpPolicy {
            idem: None,
            retry_policy: types::RetryPolicy {
                retries_max: Some(8),
                backoff_base: 500_000,
                backoff_cap: 60_000_000,
                deadline: None,
            },
            timeout: 30_000_000,
            not_processed: None,
            no_answer: None,
            reconciler: None,
            on_unknown: wit::OnUnknown::Indeterminate,
        },
        problem: None,
    }
}

impl Request {
    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.request.headers.push(wit::Header { name: name.into(), value: value.into().0 });
        self
    }

    /// Adds `Authorization: Bearer` with the secret of this name.
    pub fn bearer(self, secret: impl Into<String>) -> Self {
        self.header("authorization", Value::from("Bearer ").then(Secret(secret.into())))
    }

    /// The body.
    pub fn body(mut self, body: impl Into<Value>) -> Self {
        self.request.body = body.into().0;
        self
    }

    /// A value as JSON, as the body, with the header that says so.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        match Payload::json(value) {
            Ok(payload) => self.body(payload.bytes).header("content-type", "application/json"),
            Err(error) => {
                self.problem = Some(format!("the body cannot be written as JSON: {error}"));
                self
            }
        }
    }

    /// How long one attempt may take: from the lookup of the name to the last byte of the answer.
    /// 30 seconds, unless this says otherwise.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.policy.timeout = micros(time);
        self
    }

    /// Sending it again is harmless, because the server makes nothing of it or knows it by its
    /// `Idempotency-Key`.
    pub fn idem(mut self) -> Self {
        self.policy.idem = Some(true);
        self
    }

    /// Sending it again is not harmless, whatever its method.
    pub fn not_idem(mut self) -> Self {
        self.policy.idem = Some(false);
        self
    }

    /// How often it may be tried again: 8 times, unless this says otherwise.
    pub fn retries(mut self, most: u32) -> Self {
        self.policy.retry_policy.retries_max = Some(most);
        self
    }

    /// It may be tried again without bound.
    pub fn retries_unbounded(mut self) -> Self {
        self.policy.retry_policy.retries_max = None;
        self
    }

    /// How long to wait before the first retry, and at most: the wait doubles, give or take a
    /// tenth. Half a second and a minute, unless this says otherwise. A longer `Retry-After` of the
    /// server is honoured.
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        self.policy.retry_policy.backoff_base = micros(first);
        self.policy.retry_policy.backoff_cap = micros(most);
        self
    }

    /// For how long it is tried again.
    pub fn deadline(mut self, time: Duration) -> Self {
        self.policy.retry_policy.deadline = Some(micros(time));
        self
    }

    /// Statuses that prove that it was not processed, so that it is sent again: 429, and 503 too if
    /// it is `idem`, unless this says otherwise.
    pub fn not_processed(mut self, statuses: impl IntoIterator<Item = u16>) -> Self {
        self.policy.not_processed = Some(statuses.into_iter().collect());
        self
    }

    /// Statuses that say nothing about whether it was processed: 502 and 504, unless this says
    /// otherwise.
    pub fn no_answer(mut self, statuses: impl IntoIterator<Item = u16>) -> Self {
        self.policy.no_answer = Some(statuses.into_iter().collect());
        self
    }

    /// The function to ask whether it happened, if that is unknown: a function of this component
    /// from a [`Question`] to a [`Reconciled`], which may itself use only what is `idem`.
    ///
    /// "It did not happen" is believed when it is said twice, the second time a minute later at the
    /// earliest ([`Request::settle`]): a request on the wire can arrive after the question.
    ///
    /// ```no_run
    /// # use indelible_sdk::prelude::*;
    /// use indelible_sdk::http::{Question, Reconciled};
    ///
    /// #[function]
    /// fn was_it_charged(question: Question) -> Result<Reconciled, Error> {
    ///     let key = &question.idempotency_key;
    ///     let found = http::get(format!("https://bank.example.com/by-key/{key}")).send().wait()?;
    ///     Ok(match found.status {
    ///         200 => Reconciled::Happened(found),
    ///         404 => Reconciled::DidNotHappen,
    ///         _ => Reconciled::NotKnownYet,
    ///     })
    /// }
    ///
    /// #[function]
    /// fn charge(cents: u64) -> Result<u16, Error> {
    ///     let sent = http::post("https://bank.example.com/charges")
    ///         .json(&cents)
    ///         .reconciler::<was_it_charged>()
    ///         .send();
    ///     Ok(sent.wait()?.status)
    /// }
    /// # indelible_sdk::guest!(charge, was_it_charged);
    /// # fn main() {}
    /// ```
    pub fn reconciler<F: Function + Listed>(mut self) -> Self {
        let settle = self.policy.reconciler.map_or(micros(SETTLE), |reconciler| reconciler.settle);
        let function = F::DEFINITION.name.to_owned();
        self.policy.reconciler = Some(wit::Reconciler { function, settle });
        self
    }

    /// For how long "it did not happen" is not believed. Call it after [`Request::reconciler`].
    pub fn settle(mut self, time: Duration) -> Self {
        match &mut self.policy.reconciler {
            Some(reconciler) => reconciler.settle = micros(time),
            None => {
                self.problem = Some("the request has a settle time but no reconciler".to_owned());
            }
        }
        self
    }

    /// If it is unknown whether it happened, it is held for a person's decision instead of ending
    /// as `Indeterminate`.
    pub fn hold_if_unknown(mut self) -> Self {
        self.policy.on_unknown = wit::OnUnknown::Hold;
        self
    }

    /// Sends it. It goes on by itself: several can be in flight at once, in a
    /// [`JoinSet`](crate::JoinSet), or raced against a timer.
    pub fn send(self) -> Promise<Response> {
        let place = self.request.url.split(['?', '#']).next().unwrap_or_default();
        let what = format!("{} {place}", self.request.method);
        match self.problem {
            Some(problem) => {
                let failure = Failure::new(ErrorKind::NotPerformed, problem);
                Promise::refused(failure, what, Response::read)
            }
            None => {
                let number = host::send_http(&self.request, &self.policy);
                Promise::started(number, what, Response::read)
            }
        }
    }
}
