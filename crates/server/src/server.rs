//! The server: a listener, an engine behind it, and a way to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use indelible_runtime::world::Clock;
use indelible_runtime::{Engine, EngineError};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

use crate::auth::local::Scheme;
use crate::auth::{Access, OwnHosts, SessionKeys, TokenError, Tokens};
use crate::dispatch::{Router, dispatch};
use crate::listen::body::Budget;
use crate::listen::{self, Bounds, BoundsError, Tls};
use crate::logs::LogFile;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::seal::Seal;
use crate::state::State;

/// Connections that the kernel keeps until they are accepted: enough for all clients that reconnect
/// after a restart. A client past it tries again after a second. Linux allows 4,096 by default.
const BACKLOG: u32 = 4_096;

/// How a server is set up.
#[derive(Debug)]
pub struct Config {
    /// Where it listens; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Its certificate.
    pub tls: Option<Tls>,
    /// Who is let in.
    pub letting: AccessPolicy,
    /// The operator's word that a proxy in front adds TLS: plain HTTP is then taken on any address.
    pub behind_proxy: bool,
    /// Further names of this server, as `HOST` or `HOST:PORT`.
    pub names: Vec<String>,
    /// Bounds of requests.
    pub options: Options,
    /// What functions logged, if it is kept: it can be read.
    pub logs: Option<Arc<LogFile>>,
    /// Bounds of connections.
    pub bounds: Bounds,
    /// The most bytes of bodies in memory, of all requests together.
    pub body_bytes_max: usize,
}

/// Who is let in.
#[derive(Debug)]
pub enum AccessPolicy {
    /// Every request, without a credential: on loopback alone, for development.
    Open,
    /// Requests with an API key or a session token.
    Keys {
        /// How session tokens are verified, if there are any.
        sessions: Option<SessionKeys>,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            tls: None,
            letting: AccessPolicy::Open,
            behind_proxy: false,
            names: Vec::new(),
            options: Options::default(),
            logs: None,
            bounds: Bounds::default(),
            body_bytes_max: listen::body::BUDGET_BYTES,
        }
    }
}

impl Config {
    /// Whether it is safe, and makes sense (D11).
    pub fn check(&self) -> Result<(), ServeError> {
        let scheme = if self.tls.is_some() { Scheme::Https } else { Scheme::Http };
        OwnHosts::new(scheme, self.listen.port(), self.names.iter().map(String::as_str))
            .map_err(|error| ServeError::Name(error.to_string()))?;
        // Behind a proxy requests come from elsewhere, whatever the address says.
        let outside = self.behind_proxy || !self.listen.ip().is_loopback();
        if outside && matches!(self.letting, AccessPolicy::Open) {
            return Err(ServeError::NoKeys(self.listen));
        }
        if outside && self.tls.is_none() && !self.behind_proxy {
            return Err(ServeError::NoTls(self.listen));
        }
        Ok(())
    }
}

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Any client that can reach the server could do everything (D11).
    #[error("{0} can be reached from other machines, and callers would need no credential")]
    NoKeys(SocketAddr),
    /// An eavesdropper on the network could read everything (D11).
    #[error("{0} can be reached from other machines, and connections would not be encrypted")]
    NoTls(SocketAddr),
    /// A name is invalid.
    #[error("invalid host name of this server: {0}")]
    Name(String),
    /// The address cannot be bound.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The API keys cannot be read.
    #[error("the API keys cannot be read: {0}")]
    Tokens(#[from] TokenError),
    /// The key of cursors cannot be read or made.
    #[error("the key that seals cursors cannot be read or created: {0}")]
    Seal(#[source] EngineError),
    /// The bounds contradict each other.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    /// The store has stopped: nothing is written any more.
    #[error("the store has stopped: {0}")]
    Store(String),
}

impl ServeError {
    /// What to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoKeys(_) => {
                Some("require API keys with --keys, or listen on loopback: --listen 127.0.0.1:7070")
            }
            Self::Name(_) => {
                Some("give --host-name as HOST or HOST:PORT, without a scheme or a path")
            }
            Self::NoTls(_) => Some(
                "encrypt with --tls-cert and --tls-key, or give --behind-proxy if a proxy in front \
                 adds TLS",
            ),
            Self::Listen(_, error) => Some(match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another process uses the port: stop it, or choose another port with --listen \
                     (port 0 is any free one)"
                }
                io::ErrorKind::PermissionDenied => {
                    "ports below 1024 need privileges; choose another port with --listen"
                }
                io::ErrorKind::AddrNotAvailable => {
                    "this machine does not have the address; 0.0.0.0 stands for all of its \
                     addresses"
                }
                _ => "choose another address with --listen",
            }),
            Self::Tokens(_) | Self::Seal(_) => Some(
                "nothing was changed: copy the data folder as it is, run `indelible store check`, \
                 and restore a backup with `indelible store restore`",
            ),
            Self::Bounds(_) | Self::Store(_) => None,
        }
    }
}

/// How a server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Connections that were cut because they did not come to an end in time.
    pub cut: usize,
}

/// A server that is bound to its address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    scheme: Scheme,
    listen: listen::Server,
    state: Arc<State>,
}

impl Server {
    /// Binds the address. Call it before an engine is opened, so that a server that cannot listen
    /// starts no work. Needs a Tokio runtime.
    pub fn listen(config: &Config) -> Result<TcpListener, ServeError> {
        config.check()?;
        listener(config.listen).map_err(|error| ServeError::Listen(config.listen, error))
    }

    /// A server over an engine, on an address that was taken. Nothing is answered before
    /// [`Server::serve`]. Reads on this thread, and writes what a new store has to have.
    pub fn new(
        config: Config,
        listener: TcpListener,
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ServeError> {
        config.check()?;
        let Config { listen, tls, letting, names, options, logs, bounds, body_bytes_max, .. } =
            config;
        let tokens = Arc::new(Tokens::open(engine.store().clone())?);
        let seal = Arc::new(Seal::open(engine.store()).map_err(ServeError::Seal)?);
        let access = match letting {
            AccessPolicy::Open => Access::Open,
            AccessPolicy::Keys { sessions } => {
                Access::Required { tokens: Arc::clone(&tokens), sessions }
            }
        };
        let failed = |error| ServeError::Listen(listen, error);
        let address = listener.local_addr().map_err(failed)?;
        let scheme = if tls.is_some() { Scheme::Https } else { Scheme::Http };
        let hosts = OwnHosts::new(scheme, address.port(), names.iter().map(String::as_str));
        let hosts = hosts.map_err(|error| ServeError::Name(error.to_string()))?;
        let connections = listen::Server::new(bounds, tls)?;
        let state = Arc::new(State {
            waiters: Arc::new(Semaphore::new(options.waiters_max)),
            requests: Semaphore::new(options.requests_max),
            numbered: AtomicU64::new(0),
            log_readers: Arc::new(Semaphore::new(options.log_readers_max)),
            // Each holds a snapshot.
            backups: Arc::new(Semaphore::new(1)),
            logs,
            metrics: Metrics::new(),
            budget: Budget::new(body_bytes_max),
            body_bytes_max,
            draining: connections.draining(),
            connections: connections.readings(),
            answers: Arc::new(Semaphore::new(options.answer_bytes_max)),
            seal,
            engine,
            access,
            tokens,
            hosts,
            options,
            clock,
        });
        Ok(Self { listener, address, scheme, listen: connections, state })
    }

    /// The address that it has.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it is, as a URL.
    pub fn url(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until `stop` resolves; then requests under way are answered, and a request that waits
    /// for an outcome is told where to ask again. It also ends when the store has stopped.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<Stopped, ServeError> {
        let Self { listener, listen, state, .. } = self;
        let router = Arc::new(Router::new());
        let service = {
            let state = Arc::clone(&state);
            move |request, _| dispatch(Arc::clone(&state), Arc::clone(&router), request)
        };
        let mut poison = None;
        let ended = async {
            tokio::select! {
                () = stop => {}
                stopped = state.engine.stopped() => poison = Some(stopped.to_string()),
            }
        };
        let listen::Stopped { cut } = listen.serve(listener, service, ended).await;
        match poison {
            Some(why) => Err(ServeError::Store(why)),
            None => Ok(Stopped { cut }),
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that is started again has its port at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
