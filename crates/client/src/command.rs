//! Requests that change something: signals, cancels, decisions, deployments, API keys.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use bytes::Bytes;
use http::Method;
use indelible_api::access::{CreatedToken, NewToken, Token};
use indelible_api::component::{Activate, Activated, Deployed};
use indelible_api::control::{Cancelling, ConfirmClock, Delivered, Done, LiftHold, Lifted, Reason};
use indelible_api::unresolved::{Resolution, Resolve};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::{Error, Invalid};
use crate::id::Identity;
use crate::request::Request;

/// A command that has not been sent: a key, if the caller has one, then `.await`.
///
/// Without a key of the caller's, one is minted before the first attempt. Every attempt carries it,
/// so that a command whose answer was lost is not carried out twice.
#[must_use = "nothing is sent until it is awaited"]
pub struct Command<T> {
    client: Client,
    request: Result<Request, Invalid>,
    key: Option<String>,
    answer: PhantomData<fn() -> T>,
}

/// What happens to a change of a component's active version that breaks functions in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfBreaking {
    /// It is refused.
    Refuse,
    /// It is made, and the audit record says so.
    Proceed,
}

impl IfBreaking {
    fn query(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Refuse => Vec::new(),
            Self::Proceed => vec![("force", "true".to_owned())],
        }
    }
}

impl<T> fmt::Debug for Command<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> Command<T> {
    /// Sends it under the caller's own key. A program that wants to ask again after its own crash
    /// stores the key first.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    async fn send(self) -> Result<T, Error> {
        let identity = self.key.map_or_else(Identity::mint_key, Identity::Key);
        let request = self.request?.named(identity)?;
        self.client.fetch(&request).await
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for Command<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl Client {
    /// Sends a signal to an execution. Once answered, it is durable.
    pub fn signal<P: Serialize + ?Sized>(
        &self,
        execution_id: &str,
        signal: &str,
        payload: &P,
    ) -> Command<Delivered> {
        self.post(&["executions", execution_id, "signals", signal], payload)
    }

    /// Asks an execution to end. It may clean up first.
    pub fn cancel(&self, execution_id: &str, reason: &str) -> Command<Cancelling> {
        self.post(&["executions", execution_id, "cancel"], &why(reason))
    }

    /// Lets an execution that is stuck go on.
    pub fn release(&self, execution_id: &str, reason: &str) -> Command<Done> {
        self.post(&["executions", execution_id, "release"], &why(reason))
    }

    /// Ends an execution that is stuck, as failed.
    pub fn fail(&self, execution_id: &str, reason: &str) -> Command<Done> {
        self.post(&["executions", execution_id, "fail"], &why(reason))
    }

    /// Settles an open question: says what happened.
    pub fn resolve(&self, promise_id: &str, resolution: Resolution, reason: &str) -> Command<Done> {
        self.resolve_attempt(promise_id, None, resolution, reason)
    }

    /// [`Client::resolve`], if this attempt is the one in doubt: otherwise it is refused.
    pub fn resolve_attempt(
        &self,
        promise_id: &str,
        attempt: Option<u32>,
        resolution: Resolution,
        reason: &str,
    ) -> Command<Done> {
        let body = Resolve { resolution, reason: reason.to_owned(), attempt };
        self.post(&["unresolved", promise_id, "resolve"], &body)
    }

    /// Confirms that the server's wall clock is right: the retention clock is set to it. `time` is
    /// the caller's own time, RFC 3339; a server whose clock differs by more than ten minutes
    /// refuses. For admins.
    pub fn confirm_retention_clock(&self, time: &str, reason: &str) -> Command<Done> {
        let body = ConfirmClock { time: time.to_owned(), reason: reason.to_owned() };
        self.post(&["retention", "clock", "confirm"], &body)
    }

    /// Lets a server that is on hold go on. For admins.
    pub fn lift_hold(&self, reason: &str) -> Command<Lifted> {
        self.post(&["hold", "lift"], &LiftHold { reason: reason.to_owned() })
    }

    /// Deploys a component: its bytes, as a build leaves them. Refused if functions that are in use
    /// would break.
    pub fn deploy(&self, component: &str, bytes: impl Into<Bytes>) -> Command<Deployed> {
        self.deploy_with(component, bytes, IfBreaking::Refuse)
    }

    /// The same, and what happens if functions that are in use would break.
    pub fn deploy_with(
        &self,
        component: &str,
        bytes: impl Into<Bytes>,
        if_breaking: IfBreaking,
    ) -> Command<Deployed> {
        let uri = self.uri(&["components", component], &if_breaking.query());
        let request = uri.map(|uri| {
            let mut request = Request::change(Method::PUT, uri).wasm(bytes.into());
            request.timeout = Some(self.inner.timeouts.deploy);
            request
        });
        self.command(request)
    }

    /// Makes an earlier version of a component the one that new calls use. `digest` is the whole
    /// digest of the version.
    pub fn activate(
        &self,
        component: &str,
        digest: &str,
        if_breaking: IfBreaking,
    ) -> Command<Activated> {
        let activate = Activate { digest: digest.to_owned() };
        let uri = self.uri(&["components", component, "activate"], &if_breaking.query());
        let request =
            uri.and_then(|uri| Ok(Request::change(Method::POST, uri).json(body(&activate)?)));
        self.command(request)
    }

    /// Makes an API key. The request is sent once and never repeated: the server does not keep the
    /// secret that it answers with. If the answer is lost, look at [`Self::tokens`] and revoke the
    /// new key.
    pub async fn make_token(&self, token: &NewToken) -> Result<CreatedToken, Error> {
        let body = body(token)?;
        let request = Request::change(Method::POST, self.uri(&["tokens"], &[])?).json(body);
        self.fetch(&request).await
    }

    /// Revokes an API key.
    pub fn revoke_token(&self, token_id: &str) -> Command<Token> {
        let uri = self.uri(&["tokens", token_id], &[]);
        self.command(uri.map(|uri| Request::change(Method::DELETE, uri)))
    }

    fn post<B: Serialize + ?Sized, T>(&self, segments: &[&str], payload: &B) -> Command<T> {
        let request = self
            .uri(segments, &[])
            .and_then(|uri| Ok(Request::change(Method::POST, uri).json(body(payload)?)));
        self.command(request)
    }

    pub(crate) fn command<T>(&self, request: Result<Request, Invalid>) -> Command<T> {
        Command { client: self.clone(), request, key: None, answer: PhantomData }
    }
}

pub(crate) fn body<B: Serialize + ?Sized>(body: &B) -> Result<Vec<u8>, Invalid> {
    serde_json::to_vec(body).map_err(|error| Invalid(format!("the body is not JSON: {error}")))
}

fn why(reason: &str) -> Reason {
    Reason { reason: reason.to_owned() }
}
