//! The client, and what it reads.

use std::fmt;
use std::sync::Arc;

use http::{HeaderValue, StatusCode, Uri};
use indelible_api::access::{AuditPage, Tokens, WhoAmI};
use indelible_api::call::Operation;
use indelible_api::component::{Component, Components, Functions};
use indelible_api::control::{Hold, RetentionClock};
use indelible_api::execution::{Detail, Events, Executions};
use indelible_api::unresolved::{UnresolvedDetail, UnresolvedPage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::builder::{Builder, Timeouts, is_namespace};
use crate::call::Function;
use crate::connect::Connections;
use crate::download::Backup;
use crate::error::{BuildError, Error, Invalid};
use crate::handle::Handle;
use crate::logs::Logs;
use crate::pages::{Filter, Pages, UnresolvedFilter};
use crate::request::{Request, uri};
use crate::retry::{OnRepeat, Retries};
use crate::watch::Watch;

/// A client of an Indelible server. Cloning it is cheap: clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    pub(crate) namespace: Option<Arc<str>>,
}

/// What all clones share.
pub(crate) struct Inner {
    pub(crate) base: Url,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) pool: Connections,
    pub(crate) timeouts: Timeouts,
    pub(crate) retries: Retries,
    pub(crate) on_repeat: Option<OnRepeat>,
    pub(crate) answer_bytes_max: usize,
}

/// Without the token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.inner.base.as_str())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Makes a client of the server at this address: `http://127.0.0.1:7070`, or `https://…`, also
    /// with a path before that of the API.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder::new(address.into())
    }

    /// The same client in another namespace.
    pub fn in_namespace(&self, namespace: &str) -> Result<Self, BuildError> {
        if !is_namespace(namespace) {
            return Err(BuildError::Namespace);
        }
        Ok(Self { inner: Arc::clone(&self.inner), namespace: Some(namespace.into()) })
    }

    /// A function of a component. Whether there is one shows when it is called.
    pub fn function<In, Out>(
        &self,
        component: impl Into<String>,
        function: impl Into<String>,
    ) -> Function<In, Out>
    where
        In: Serialize + ?Sized,
        Out: DeserializeOwned,
    {
        Function::new(self.clone(), component.into(), function.into())
    }

    /// An execution that this or another client has started.
    pub fn attach<Out: DeserializeOwned>(&self, execution_id: impl Into<String>) -> Handle<Out> {
        Handle::attached(self.clone(), execution_id.into())
    }

    /// An operation of the namespace: its outcome is there for as long as it is remembered, even
    /// when its execution is no longer kept (see V-31).
    pub fn attach_operation<Out: DeserializeOwned>(&self, operation: &Operation) -> Handle<Out> {
        let Operation { execution_id, operation_id, .. } = operation.clone();
        Handle::new(self.clone(), execution_id, Some(operation_id), None)
    }

    /// What happens to an execution, from its first event on, until it is over.
    pub fn watch(&self, execution_id: &str) -> Result<Watch, Error> {
        let uri = self.uri(&["executions", execution_id, "events"], &[])?;
        Ok(Watch::new(self.clone(), uri))
    }

    /// Executions of the namespace, newest first.
    pub fn executions(&self, filter: &Filter) -> Result<Pages<Executions>, Error> {
        let query = filter.query();
        let query = if filter.everywhere { query } else { self.scoped(query) };
        self.pages(&["executions"], query)
    }

    /// An execution, whole.
    pub async fn execution(&self, execution_id: &str) -> Result<Detail, Error> {
        self.read(&["executions", execution_id], &[]).await
    }

    /// An execution with all that it called.
    pub fn tree(&self, execution_id: &str) -> Result<Pages<Executions>, Error> {
        self.pages(&["executions", execution_id, "tree"], Vec::new())
    }

    /// The journal of an execution; of its latest attempt, unless `attempts` says which.
    pub fn journal(
        &self,
        execution_id: &str,
        attempts: Option<&str>,
    ) -> Result<Pages<Events>, Error> {
        let query = attempts.map(|attempts| ("attempts", attempts.to_owned()));
        self.pages(&["executions", execution_id, "journal"], query.into_iter().collect())
    }

    /// What an execution and everything that it called have logged, oldest first, and what they log
    /// from now on.
    pub fn logs(&self, execution_id: &str) -> Result<Logs, Error> {
        // A malformed id is an error here, not at the first page.
        self.uri(&["executions", execution_id, "logs"], &[])?;
        Ok(Logs::new(self.clone(), execution_id.to_owned()))
    }

    /// A copy of everything in the store, as it was at one moment, while the server goes on. For
    /// admins.
    pub async fn backup(&self) -> Result<Backup, Error> {
        Backup::open(self).await
    }

    /// What is known of an operation of the namespace. [`Error::Expired`]: its record is gone (see
    /// V-59).
    pub async fn operation(&self, operation_id: &str) -> Result<Operation, Error> {
        self.read(&["operations", operation_id], &self.scoped(Vec::new())).await
    }

    /// What is unknown: effects and lost calls of which it is, or was, unknown whether they
    /// happened, the oldest first. A client without a namespace lists those of all namespaces that
    /// its credential permits.
    pub fn unresolved(&self, filter: &UnresolvedFilter) -> Result<Pages<UnresolvedPage>, Error> {
        self.pages(&["unresolved"], self.scoped(filter.query()))
    }

    /// One question, with the evidence that a person needs to settle it.
    pub async fn unresolved_detail(&self, promise_id: &str) -> Result<UnresolvedDetail, Error> {
        self.read(&["unresolved", promise_id], &[]).await
    }

    /// What is deployed.
    pub async fn components(&self) -> Result<Components, Error> {
        self.read(&["components"], &[]).await
    }

    /// One component.
    pub async fn component(&self, component: &str) -> Result<Component, Error> {
        self.read(&["components", component], &[]).await
    }

    /// All functions of the active versions.
    pub async fn functions(&self) -> Result<Functions, Error> {
        self.read(&["functions"], &[]).await
    }

    /// All API keys, without their secrets.
    pub async fn tokens(&self) -> Result<Tokens, Error> {
        self.read(&["tokens"], &[]).await
    }

    /// The record of who did what, newest first.
    pub fn audit(&self) -> Result<Pages<AuditPage>, Error> {
        self.pages(&["audit"], Vec::new())
    }

    /// The clock by which records and finished executions are deleted. For admins.
    pub async fn retention_clock(&self) -> Result<RetentionClock, Error> {
        self.read(&["retention", "clock"], &[]).await
    }

    /// Whether the server is on hold, and what would go on. For admins.
    pub async fn hold(&self) -> Result<Hold, Error> {
        self.read(&["hold"], &[]).await
    }

    /// The caller that the token stands for.
    pub async fn whoami(&self) -> Result<WhoAmI, Error> {
        self.read(&["whoami"], &[]).await
    }

    /// Whether the server answers at all. It is asked once.
    pub async fn health(&self) -> Result<(), Error> {
        match self.once(&["health"]).await? {
            (StatusCode::OK, _) => Ok(()),
            (_, error) => Err(error),
        }
    }

    /// Whether the server is ready for work. It is asked once; a server that is not ready is no
    /// error.
    pub async fn ready(&self) -> Result<bool, Error> {
        match self.once(&["ready"]).await? {
            (StatusCode::OK, _) => Ok(true),
            (StatusCode::SERVICE_UNAVAILABLE, _) => Ok(false),
            (_, error) => Err(error),
        }
    }

    /// Asks once: the status, and the error to return if it is not the expected one.
    async fn once(&self, segments: &[&str]) -> Result<(StatusCode, Error), Error> {
        let mut request = Request::get(self.uri(segments, &[])?);
        request.repeatable = false;
        match self.inner.ask(&request).await {
            Ok(answer) => Ok((answer.status, answer.refusal().into())),
            Err(error) => {
                let error = Error::from(error);
                match &error {
                    Error::Transport(lost) => match lost.source {
                        crate::error::Cause::Unavailable { status, .. } => Ok((status, error)),
                        _ => Err(error),
                    },
                    _ => Err(error),
                }
            }
        }
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &[(&'static str, String)],
    ) -> Result<T, Error> {
        self.fetch(&Request::get(self.uri(segments, query)?)).await
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, request: &Request) -> Result<T, Error> {
        let answer = self.inner.ask(request).await?;
        match answer.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED => {
                answer.read().map_err(Error::Malformed)
            }
            _ => Err(answer.refusal().into()),
        }
    }

    pub(crate) fn pages<P: crate::pages::Page>(
        &self,
        segments: &[&str],
        query: Vec<(&'static str, String)>,
    ) -> Result<Pages<P>, Error> {
        // Malformed segments are an error here, not at the first page.
        self.uri(segments, &query)?;
        let segments = segments.iter().map(|&segment| segment.to_owned()).collect();
        Ok(Pages::new(self.clone(), segments, query))
    }

    /// With the namespace, if there is one.
    pub(crate) fn scoped(
        &self,
        mut query: Vec<(&'static str, String)>,
    ) -> Vec<(&'static str, String)> {
        query.extend(self.namespace.as_ref().map(|namespace| ("namespace", namespace.to_string())));
        query
    }

    pub(crate) fn uri(
        &self,
        segments: &[&str],
        query: &[(&'static str, String)],
    ) -> Result<Uri, Invalid> {
        let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        uri(&self.inner.base, segments, &query)
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}
