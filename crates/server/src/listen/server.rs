//! Takes connections until it is told to stop, then lets them end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::connection::{self, ConnectionPermit, Shared, Streams};
use super::service::Phase;
use super::{Bounds, BoundsError, Draining, Peer, Readings, Service, Tls, descriptors};

/// How long the loop waits when the system has no descriptor or no memory for a connection. Both
/// come back when connections end; until then `accept` would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long the stop waits for tasks that were told to drop everything, which they do when next
/// polled.
const CUT_TIME_MAX: Duration = Duration::from_secs(5);

/// A server that does not serve yet.
#[derive(Debug)]
pub struct Server {
    bounds: Bounds,
    tls: Option<Tls>,
    readings: Arc<Readings>,
    phase: watch::Sender<Phase>,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Connections that were cut since what was under way on them took too long.
    pub cut: usize,
}

impl Server {
    /// Within these bounds; with TLS if there is a certificate.
    pub fn new(bounds: Bounds, tls: Option<Tls>) -> Result<Self, BoundsError> {
        bounds.check()?;
        let (phase, _) = watch::channel(Phase::Serving);
        Ok(Self { bounds, tls, readings: Arc::default(), phase })
    }

    /// Numbers about its connections.
    pub fn readings(&self) -> Arc<Readings> {
        Arc::clone(&self.readings)
    }

    /// Tells when it is stopping.
    pub fn draining(&self) -> Draining {
        Draining(self.phase.subscribe())
    }

    /// Serves until `stop` comes, and then until requests under way are answered or their time is
    /// over. When this is dropped, everything is cut.
    pub async fn serve<S: Service>(
        self,
        listener: TcpListener,
        service: S,
        stop: impl Future<Output = ()>,
    ) -> Stopped {
        let draining = self.draining();
        let Self { bounds, tls, readings, phase } = self;
        let (alive, mut all_ended) = mpsc::channel(1);
        let connections_max = descriptors::connections_max(bounds.connections_max);
        let drain_time_max = bounds.drain_time_max;
        let http1 = connection::http1(&bounds);
        let http2 = connection::http2(&bounds, Streams(alive.clone()));
        let secured = tls.is_some();
        let readings_shared = Arc::clone(&readings);
        let shared = Shared { bounds, readings: readings_shared, tls, http1, http2 };
        let shared = Arc::new(shared);
        let room = Arc::new(Semaphore::new(connections_max));
        let accepting = async {
            loop {
                let place = Arc::clone(&room).acquire_owned().await;
                let place = place.expect("the semaphore is never closed");
                let (stream, address) = accept(&listener, &readings).await;
                let held = ConnectionPermit::new(Arc::clone(&readings), place, alive.clone());
                let peer = Peer { address, tls: secured, draining: draining.clone() };
                let (shared, service) = (Arc::clone(&shared), service.clone());
                tokio::spawn(connection::serve(shared, service, stream, peer, held));
            }
        };
        tokio::select! {
            () = stop => {}
            () = accepting => {}
        }
        // A peer that connects from now on is refused, and can try elsewhere.
        drop(listener);
        // `shared` holds a clone of `alive` too, to start streams.
        drop((shared, alive, draining));
        let cut_before = readings.cut.get();
        phase.send_replace(Phase::Draining);
        if timeout(drain_time_max, all_ended.recv()).await.is_err() {
            phase.send_replace(Phase::Cutting);
            drop(timeout(CUT_TIME_MAX, all_ended.recv()).await);
        }
        let cut = readings.cut.get() - cut_before;
        Stopped { cut: usize::try_from(cut).unwrap_or(usize::MAX) }
    }
}

/// The next connection. No error ends the loop: each concerns one connection, or passes.
async fn accept(listener: &TcpListener, readings: &Readings) -> (TcpStream, std::net::SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                readings.accept_failed.add_one();
                if !is_of_one_connection(&error) {
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Whether the error concerns only a peer that left early; the next connection may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
