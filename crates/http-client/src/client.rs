//! The client: its threads, and what all attempts share.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use indelible_http::{Attempt, Report, Sender};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use tracing::{Instrument as _, Level, Span, enabled};

use crate::attempt::{Reporter, run};
use crate::config::{Bounds, Config, StartError};
use crate::connect::Connector;
use crate::grants::Grants;
use crate::pool::Pool;
use crate::resolve::Lookups;
use crate::secrets::Vault;
use crate::tls;

/// The bounds of the time between two looks at idle connections.
const SWEEP_MIN: Duration = Duration::from_millis(100);
const SWEEP_MAX: Duration = Duration::from_secs(10);

/// Sends requests, at most one for each attempt, and reports how each attempt ended.
///
/// The caller bounds the number of attempts that wait for a permit. When the client is dropped,
/// attempts on their way end as not sent or as unknown; the drop does not wait for them.
pub struct Client {
    inner: Arc<Inner>,
    handle: Handle,
    /// The client's own threads; `None` if it runs on the caller's runtime.
    own: Option<Runtime>,
}

/// What all attempts share.
#[derive(Debug)]
pub(crate) struct Inner {
    grants: RwLock<Arc<Grants>>,
    pub(crate) vault: Vault,
    pub(crate) pool: Pool,
    pub(crate) connector: Connector,
    pub(crate) bounds: Bounds,
    pub(crate) late_listeners: Semaphore,
}

impl Client {
    /// Starts a client with threads of its own.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(config.threads.max(1))
            .max_blocking_threads(config.bounds.lookup_threads_max.max(1))
            .thread_name("indelible-http")
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        match Self::start_on(runtime.handle().clone(), config) {
            Ok(mut client) => {
                client.own = Some(runtime);
                Ok(client)
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Starts a client on a runtime of the caller's, which needs tokio's time and I/O drivers.
    pub fn start_on(handle: Handle, config: Config) -> Result<Self, StartError> {
        let Config { grants, secrets, proxies, roots, resolver, bounds, .. } = config;
        let inner = Arc::new(Inner {
            grants: RwLock::new(Arc::new(grants)),
            vault: Vault::open(secrets)?,
            pool: Pool::new(bounds.clone()),
            late_listeners: Semaphore::new(bounds.late_listeners_max),
            connector: Connector {
                lookups: Lookups::new(resolver),
                proxies,
                tls: tls::config(&roots)?,
                bounds: bounds.clone(),
            },
            bounds,
        });
        handle.spawn(sweep(Arc::downgrade(&inner)));
        Ok(Self { inner, handle, own: None })
    }

    /// Replaces what components may do, for attempts from now on.
    pub fn set_grants(&self, grants: Grants) {
        *self.inner.grants.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grants);
    }
}

impl Inner {
    pub(crate) fn grants(&self) -> Arc<Grants> {
        self.grants.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sender for Client {
    fn send(&self, attempt: Attempt, report: Report) {
        let reporter = Reporter::new(report);
        // Looking up the span costs time, so only where it may be logged.
        let span = if enabled!(Level::DEBUG) { Span::current() } else { Span::none() };
        self.handle.spawn(run(self.inner.clone(), attempt, reporter).instrument(span));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.own.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("bounds", &self.inner.bounds).finish_non_exhaustive()
    }
}

/// Looks at idle connections from time to time, as long as there is a client.
async fn sweep(inner: Weak<Inner>) {
    loop {
        let Some(every) = inner.upgrade().map(|inner| inner.bounds.idle_time / 2) else { return };
        tokio::time::sleep(every.clamp(SWEEP_MIN, SWEEP_MAX)).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.pool.sweep();
    }
}
