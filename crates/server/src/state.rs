//! What all requests share: the engine, who may do what, and how much at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indelible_api::{Code, Problem};
use indelible_journal::{ExecutionId, Micros, Namespace, OperationId, PromiseId, Timestamp};
use indelible_records::beginning::{DIGITS_MAX, DIGITS_MIN, IdPrefix, TREES_MAX};
use indelible_records::executions::{Execution as Row, Standing};
use indelible_records::listing::{Filter, Whose};
use indelible_runtime::world::Clock;
use indelible_runtime::{Engine, EngineError, Lane, Reads};
use indelible_store::{Lost, ReadError, SubmitError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::error;

use crate::auth::{Access, Namespaces, OwnHosts, TokenError, Tokens};
use crate::listen::body::Budget;
use crate::listen::{Draining, Readings};
use crate::logs::LogFile;
use crate::metrics::{ATTENTION_MAX, Attention, Metrics};
use crate::options::Options;
use crate::refusal::{damaged, not_found, store_paused};
use crate::request::{ApiRequest, domain, malformed};
use crate::seal::Seal;

/// How many executions an answer names whose ids begin alike.
const CANDIDATES_MAX: usize = 5;

/// What all requests share.
pub(crate) struct State {
    pub(crate) engine: Arc<Engine>,
    pub(crate) access: Access,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) hosts: OwnHosts,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) budget: Budget,
    pub(crate) clock: Arc<dyn Clock>,
    /// Requests that wait: for an outcome, or for events.
    pub(crate) waiters: Arc<Semaphore>,
    /// Requests under way.
    pub(crate) requests: Semaphore,
    /// The last number that a request got for the log.
    pub(crate) numbered: AtomicU64,
    /// What functions logged.
    pub(crate) logs: Option<Arc<LogFile>>,
    /// Permits of requests that search function logs.
    pub(crate) log_readers: Arc<Semaphore>,
    /// Backups that are taken at a time.
    pub(crate) backups: Arc<Semaphore>,
    /// All bytes of the budget.
    pub(crate) body_bytes_max: usize,
    /// Tells when the server stops.
    pub(crate) draining: Draining,
    pub(crate) connections: Arc<Readings>,
    /// Room for the bytes of large answers.
    pub(crate) answers: Arc<Semaphore>,
    /// Seals cursors that callers must not read.
    pub(crate) seal: Arc<Seal>,
}

/// The namespace and operation that an execution belongs to.
#[derive(Debug, Clone)]
pub(crate) struct OwnedExecution {
    pub(crate) namespace: Namespace,
    pub(crate) operation_id: OperationId,
}

impl State {
    /// The time now.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A number for a request, for the log of this process.
    pub(crate) fn number(&self) -> u64 {
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Room for one more request that waits.
    pub(crate) fn waiter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.waiters).try_acquire_owned().map_err(|_| {
            let max = self.options.waiters_max;
            Problem::new(
                Code::Busy,
                format!("{max} requests are already waiting, which is the limit; try again later"),
            )
        })
    }

    /// Waits for this time, or until the server stops.
    pub(crate) async fn wait(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.draining() => {}
        }
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Resolves when the server stops.
    pub(crate) async fn draining(&self) {
        self.draining.clone().begun().await;
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.has_begun()
    }

    /// The execution in the path, if the credential may see it. An id from outside becomes an
    /// execution only here and in `find`: missing and foreign ones get the same answer.
    pub(crate) async fn execution(
        &self,
        asked: &ApiRequest,
    ) -> Result<(ExecutionId, OwnedExecution), Problem> {
        let execution = ExecutionId::new(self.promise(asked, "execution").await?);
        let execution =
            execution.map_err(|_| malformed("the execution id in the path is invalid"))?;
        let found = self.find(asked, &execution).await?;
        Ok((execution, found))
    }

    /// The promise or execution that this part of the path names, whole or with the first digits of
    /// its root's id. Whether the credential may see what a whole id names is not looked at here.
    pub(crate) async fn promise(
        &self,
        asked: &ApiRequest,
        what: &str,
    ) -> Result<PromiseId, Problem> {
        let text = asked.param(what);
        let (digits, path) = text.split_at(text.find('.').unwrap_or(text.len()));
        let prefix = digits.parse::<IdPrefix>().ok().filter(|_| digits.len() < DIGITS_MAX);
        let zeros = if prefix.is_some() { DIGITS_MAX - digits.len() } else { 0 };
        let whole = format!("{digits}{}{path}", "0".repeat(zeros));
        let promise = whole.parse::<PromiseId>();
        let promise = promise.map_err(|_| {
            malformed(format!(
                "the {what} id in the path is invalid: it has {DIGITS_MIN} to {DIGITS_MAX} \
                 lower-case hexadecimal digits, and the path of a child may follow"
            ))
        })?;
        let Some(prefix) = prefix else { return Ok(promise) };
        let root = self.root(asked, prefix).await?;
        Ok(PromiseId::new(*root.root(), promise.path()).expect("the path was a promise's before"))
    }

    /// The one root with these first digits among those that the credential may see.
    async fn root(&self, asked: &ApiRequest, prefix: IdPrefix) -> Result<ExecutionId, Problem> {
        let digits = prefix.to_string();
        let whose = match asked.caller.namespaces() {
            Namespaces::All => Whose::All,
            Namespaces::Some(names) => Whose::Namespaces(names.iter().map(domain).collect()),
        };
        let filter = Filter { whose, id_prefix: Some(prefix.clone()), ..Filter::default() };
        let found = async {
            self.engine.enter_lane(Lane::Lookups).await?.list(&filter, None, CANDIDATES_MAX).await
        };
        let found = found.await.map_err(|error| self.engine_error(&error))?;
        let more = found.crowded || found.next.is_some();
        let [] = &found.executions[..] else {
            if let ([one], false) = (&found.executions[..], more) {
                return Ok(one.key.execution_id().clone());
            }
            let line = |row: &Row| format!("{} ({})", row.key.execution_id(), row.function);
            let lines: Vec<_> = found.executions.iter().map(line).collect();
            let more = if more { ", and others" } else { "" };
            return Err(Problem::new(
                Code::Ambiguous,
                format!("{} begin with {digits}{more}; give more digits", lines.join(", ")),
            ));
        };
        if more {
            let detail =
                format!("more than {TREES_MAX} executions begin with {digits}; give more digits");
            return Err(Problem::new(Code::Ambiguous, detail));
        }
        self.root_in_doubt(asked, prefix).await
    }

    /// The one deleted root with these first digits whose doubts the credential may see: they
    /// outlive it (see C-78).
    async fn root_in_doubt(
        &self,
        asked: &ApiRequest,
        prefix: IdPrefix,
    ) -> Result<ExecutionId, Problem> {
        let digits = prefix.to_string();
        let read = move |reads: &Reads<'_>| reads.doubts_by_prefix(&prefix, TREES_MAX);
        let mut found = self.read(Lane::Lookups, read).await?;
        found.retain(|(_, doubt)| asked.caller.in_namespace(&doubt.evidence.namespace));
        match &found[..] {
            [] => Err(not_found()),
            [(id, _)] => Ok(ExecutionId::root_of(*id.key.execution_id().root())),
            several => {
                let roots = several.iter().map(|(id, _)| id.key.execution_id().root().to_string());
                let roots: Vec<_> = roots.take(CANDIDATES_MAX).collect();
                let detail = format!("{} begin with {digits}; give more digits", roots.join(", "));
                Err(Problem::new(Code::Ambiguous, detail))
            }
        }
    }

    /// The owner of an execution, if the credential may see it.
    pub(crate) async fn find(
        &self,
        asked: &ApiRequest,
        execution: &ExecutionId,
    ) -> Result<OwnedExecution, Problem> {
        let found = self.engine.namespace_of(execution).await;
        match found.map_err(|error| self.engine_error(&error))? {
            Some((namespace, operation_id)) if asked.caller.in_namespace(namespace.as_str()) => {
                Ok(OwnedExecution { namespace, operation_id })
            }
            _ => Err(not_found()),
        }
    }

    /// Reads from the store, and makes an answer of it, on a thread that is there for reading: in one
    /// piece, of some milliseconds.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce(&Reads<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, Problem> {
        let read = async { self.engine.enter_lane(lane).await?.run(work).await };
        read.await.map_err(|error| self.engine_error(&error))
    }

    /// What waits for a person now.
    pub(crate) async fn attention(&self) -> Result<Attention, Problem> {
        let now = self.clock.now();
        self.read(Lane::Lists, move |reads| {
            let (unknown, oldest) = reads.open_doubts(ATTENTION_MAX)?;
            let stuck = reads.count(Standing::Stuck, ATTENTION_MAX)?;
            let age = oldest.map_or(Micros::ZERO, |oldest| now.saturating_since(oldest));
            Ok(Attention { unknown, oldest_seconds: age.get() / 1_000_000, stuck })
        })
        .await
    }

    /// Why an API key was not made, or not revoked.
    pub(crate) fn token_error(&self, error: &TokenError) -> Problem {
        match error {
            TokenError::Name
            | TokenError::Grant(_)
            | TokenError::ExpiresAt
            | TokenError::Expired
            | TokenError::TooMany(_) => malformed(error.to_string()),
            TokenError::Lost(Lost::Paused(_)) => store_paused(),
            TokenError::Submit(error) if error.is_pause() => store_paused(),
            TokenError::Read(error) if error.is_pause() => store_paused(),
            TokenError::Lost(_)
            | TokenError::Submit(SubmitError::Poisoned(_))
            | TokenError::Read(ReadError::Poisoned(_)) => {
                Problem::new(Code::StoreStopped, "the store has stopped")
            }
            TokenError::Read(error) if error.is_damage() => damaged(),
            TokenError::Submit(error) if error.is_damage() => damaged(),
            error => {
                error!(%error, "API keys cannot be read or written");
                Problem::new(Code::Internal, "an internal error occurred; see the server's log")
            }
        }
    }
}
