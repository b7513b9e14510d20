//! Functions: calling and starting them.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use http::{Method, StatusCode};
use indelible_api::call::{Started, StillRunning};
use indelible_api::{Code, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::{CallError, Invalid, StartError};
use crate::handle::{Handle, poll_wait, seconds};
use crate::id::{Identity, OperationId};
use crate::reply::Reply;
use crate::request::Request;
use crate::send::{NoAnswer, Refusal};

/// A function of a component: what it takes, and what it returns.
pub struct Function<In: ?Sized, Out> {
    client: Client,
    component: String,
    function: String,
    types: PhantomData<fn(&In) -> Out>,
}

impl<In: ?Sized, Out> Clone for Function<In, Out> {
    fn clone(&self) -> Self {
        let Self { client, component, function, types } = self;
        Self {
            client: client.clone(),
            component: component.clone(),
            function: function.clone(),
            types: *types,
        }
    }
}

impl<In: ?Sized, Out> fmt::Debug for Function<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({}/{})", self.component, self.function)
    }
}

impl<In: Serialize + ?Sized, Out: DeserializeOwned> Function<In, Out> {
    pub(crate) fn new(client: Client, component: String, function: String) -> Self {
        Self { client, component, function, types: PhantomData }
    }

    /// Calls it and waits for what it returns: `.call(&input).await`, with options between the two.
    ///
    /// Dropping the future hangs up. A `persist` function goes on all the same; a volatile one may
    /// be given up.
    pub fn call(&self, input: &In) -> Invocation<Out, ToCall> {
        self.invocation(input)
    }

    /// Starts it, and does not wait: `.start(&input).await`, with options between the two.
    pub fn start(&self, input: &In) -> Invocation<Out, ToStart> {
        self.invocation(input)
    }

    fn invocation<How>(&self, input: &In) -> Invocation<Out, How> {
        // Once: every attempt must send the same bytes, or it would be another request (see V-9).
        let body = serde_json::to_vec(input)
            .map_err(|error| Invalid(format!("the input is not JSON: {error}")));
        Invocation {
            client: self.client.clone(),
            component: self.component.clone(),
            function: self.function.clone(),
            body,
            identity: None,
            wait: None,
            if_in_flight: None,
            trace_parent: None,
            labels: Vec::new(),
            how: PhantomData,
        }
    }
}

/// What to do if the operation is already running (see C-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfInFlight {
    /// Attach to it and wait (see V-30).
    #[default]
    Attach,
    /// Return the error `InFlight` at once.
    Conflict,
}

/// To be called.
#[derive(Debug)]
pub enum ToCall {}

/// To be started.
#[derive(Debug)]
pub enum ToStart {}

/// A call or a start that has not been sent: options, then `.await`.
#[must_use = "nothing is sent until it is awaited"]
pub struct Invocation<Out, How> {
    client: Client,
    component: String,
    function: String,
    body: Result<Vec<u8>, Invalid>,
    identity: Option<Identity>,
    wait: Option<Duration>,
    if_in_flight: Option<IfInFlight>,
    trace_parent: Option<String>,
    labels: Vec<String>,
    how: PhantomData<fn() -> (Out, How)>,
}

impl<Out, How> fmt::Debug for Invocation<Out, How> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("component", &self.component)
            .field("function", &self.function)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl<Out, How> Invocation<Out, How> {
    /// Under the caller's own key. It takes the place of an operation id.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.identity = Some(Identity::Key(key.into()));
        self
    }

    /// Under this operation id, which the caller minted. It takes the place of a key.
    pub fn operation_id(mut self, id: OperationId) -> Self {
        self.identity = Some(Identity::Operation(id));
        self
    }

    /// What to do if the operation is already running.
    pub fn if_in_flight(mut self, then: IfInFlight) -> Self {
        self.if_in_flight = Some(then);
        self
    }

    /// The trace that it belongs to: a `traceparent` as W3C has it.
    pub fn trace_parent(mut self, trace_parent: impl Into<String>) -> Self {
        self.trace_parent = Some(trace_parent.into());
        self
    }

    /// With this label: the execution is found by it ([`Filter::label`](crate::Filter::label)). An
    /// execution has at most 16. Labels are not part of the request: asking again with others finds
    /// the same execution, with those of the first start.
    pub fn label(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.labels.push(format!("{name}={value}"));
        self
    }

    /// The request. If the caller gave no key and no operation id, an id is minted here, before the
    /// first attempt: a lost answer never leads to a second execution (V-5, V-69).
    fn request(self, path: &str, wait: Option<Duration>) -> Result<(Client, Request), Invalid> {
        let mut query = self.client.scoped(Vec::new());
        query.extend(wait.map(|wait| ("wait", seconds(wait))));
        query.extend(self.labels.iter().map(|label| ("label", label.clone())));
        let uri = self.client.uri(&[path, &self.component, &self.function], &query)?;
        let identity = self.identity.unwrap_or_else(|| Identity::Operation(OperationId::mint()));
        let mut request = Request::change(Method::POST, uri).json(self.body?).named(identity)?;
        match self.if_in_flight {
            None => {}
            Some(IfInFlight::Attach) => request.text(header::IF_IN_FLIGHT, "attach")?,
            Some(IfInFlight::Conflict) => request.text(header::IF_IN_FLIGHT, "conflict")?,
        }
        if let Some(trace_parent) = &self.trace_parent {
            request.text(header::TRACE_PARENT, trace_parent)?;
        }
        Ok((self.client, request))
    }
}

impl<Out: DeserializeOwned> Invocation<Out, ToCall> {
    /// How long to wait for the outcome, in all; then it is [`CallError::StillRunning`]. The server
    /// counts in whole seconds.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    async fn send(self) -> Result<Out, CallError<Out>> {
        self.reply().await?.read().map_err(CallError::Output)
    }

    /// Sends it as `.await` does, and returns the function's result with all that the server says:
    /// the execution, the operation, and whether this is the result of an earlier request.
    pub async fn reply(self) -> Result<Reply, CallError<Out>> {
        let wait = self.wait.unwrap_or(self.client.inner.timeouts.call);
        // `None`: too far in the future for the clock.
        let deadline = Instant::now().checked_add(wait);
        let first = poll_wait(deadline);
        let (client, mut request) =
            self.request("call", Some(first)).map_err(CallError::Invalid)?;
        request.timeout = Some(first.saturating_add(client.inner.timeouts.answer));
        let answer = client.inner.ask(&request).await?;
        match answer.status {
            StatusCode::OK => Reply::of(&answer).map_err(CallError::Malformed),
            StatusCode::ACCEPTED => {
                let on: StillRunning = answer.read().map_err(CallError::Malformed)?;
                let identity = request.identity;
                let own = match &identity {
                    Some(Identity::Operation(id)) => Some(id.to_string()),
                    _ => None,
                };
                let operation = on.operation_id.or(own);
                let handle = Handle::new(client, on.execution_id, operation, answer.verdict());
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(CallError::StillRunning(handle));
                }
                let ended = handle.wait_until(deadline).await;
                ended.map_err(|error| error.after_acceptance(&handle, identity))
            }
            _ => Err(CallError::refused(answer)),
        }
    }
}

impl<Out: DeserializeOwned> Invocation<Out, ToStart> {
    async fn send(self) -> Result<Handle<Out>, StartError> {
        let (client, request) = self.request("start", None).map_err(StartError::Invalid)?;
        let answer = client.inner.ask(&request).await.map_err(|error| match error {
            NoAnswer::Lost(lost) => StartError::Transport(lost),
            NoAnswer::Malformed(malformed) => StartError::Malformed(malformed),
        })?;
        if answer.status == StatusCode::ACCEPTED {
            let started: Started = answer.read().map_err(StartError::Malformed)?;
            let operation = Some(started.operation_id);
            return Ok(Handle::new(client, started.execution_id, operation, Some(started.verdict)));
        }
        let retry_after = answer.retry_after();
        Err(match answer.refusal() {
            Refusal::Malformed(malformed) => StartError::Malformed(malformed),
            Refusal::Problem(problem) => match problem.code {
                Code::Indeterminate => StartError::Indeterminate(problem),
                Code::Conflict => StartError::Conflict(problem),
                Code::Mismatch => StartError::Mismatch(problem),
                Code::Expired => StartError::Expired(problem),
                Code::InFlight => {
                    StartError::InFlight(crate::error::InFlight { problem, retry_after })
                }
                _ => StartError::Refused(problem),
            },
        })
    }
}

impl<Out: DeserializeOwned + 'static> IntoFuture for Invocation<Out, ToCall> {
    type Output = Result<Out, CallError<Out>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl<Out: DeserializeOwned + 'static> IntoFuture for Invocation<Out, ToStart> {
    type Output = Result<Handle<Out>, StartError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
