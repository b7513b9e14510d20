//! The server: a listener, an engine behind it, and a way to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use indelible_runtime::world::{Clock, Observer};
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

/// Connections that the kernel keeps until they are taken: what all clients at once come to after a
/// restart. Past it one is tried again only after a second. Linux has 4,096 at most, by default.
const BACKLOG: u32 = 4_096;

/// What a server is.
#[derive(Debug)]
pub struct Config {
    /// Where it listens; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Its certificate.
    pub tls: Option<Tls>,
    /// Who is let in.
    pub letting: Letting,
    /// A proxy in front adds TLS: the word that plain HTTP may be taken from any address.
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
pub enum Letting {
    /// Everybody: on loopback alone, for development.
    Everybody,
    /// Those who have an API key, or a session token.
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
            letting: Letting::Everybody,
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
        if outside && matches!(self.letting, Letting::Everybody) {
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
    /// Whoever can reach it could do everything (D11).
    #[error("{0} can be reached from elsewhere, and nobody would need a credential")]
    NoKeys(SocketAddr),
    /// Whoever listens on the way could read everything (D11).
    #[error("{0} can be reached from elsewhere, and nothing would be encrypted")]
    NoTls(SocketAddr),
    /// A name is none.
    #[error("a name of this server: {0}")]
    Name(String),
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The API keys cannot be read.
    #[error("the API keys cannot be read: {0}")]
    Tokens(#[from] TokenError),
    /// The key of cursors cannot be had.
    #[error("the key that cursors are sealed with cannot be had: {0}")]
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
                Some("--keys lets in only those who have one; 127.0.0.1 is loopback")
            }
            Self::Name(_) => {
                Some("--host-name takes HOST or HOST:PORT, without a scheme or a path")
            }
            Self::NoTls(_) => Some(
                "--tls-cert and --tls-key encrypt; --behind-proxy says that a proxy in front does",
            ),
            Self::Listen(_, error) => Some(match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another process has the port: stop it, or name another with --listen; port 0 \
                     is any that is free"
                }
                io::ErrorKind::PermissionDenied => {
                    "ports below 1024 are not for everybody; --listen names another"
                }
                io::ErrorKind::AddrNotAvailable => {
                    "this machine does not have the address; 0.0.0.0 is all that it has"
                }
                _ => "--listen names another address",
            }),
            Self::Tokens(_) | Self::Seal(_) => Some(
                "nothing was changed: copy the data folder as it is, see what `indelible store \
                 check` says, and restore a backup with `indelible store restore`",
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
    /// Takes the address. Before an engine is opened: what cannot be served is not begun. Within a
    /// runtime.
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
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ServeError> {
        config.check()?;
        let Config { listen, tls, letting, names, options, logs, bounds, body_bytes_max, .. } =
            config;
        let tokens = Arc::new(Tokens::open(engine.store().clone())?);
        let seal = Arc::new(Seal::open(engine.store()).map_err(ServeError::Seal)?);
        let access = match letting {
            Letting::Everybody => Access::Open,
            Letting::Keys { sessions } => {
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
            observer,
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

    /// Serves until `stop` resolves; then requests under way come to their answers, and whoever
    /// waits is told where to ask again. It also ends when the store has stopped.
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
