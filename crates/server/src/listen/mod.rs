//! Connections: how they are taken, kept within bounds, and let go. It serves any function from a
//! request to a response, and knows nothing of what it says.
//!
//! - `bounds`: what a peer may take. [`tls`]: certificates. `stall`: a peer that does not read.
//! - [`body`]: reading bodies within a budget.

pub mod body;
mod bounds;
mod stall;
pub mod tls;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

pub use self::body::Budget;
pub use self::bounds::Bounds;
use self::stall::Unstalled;
pub use self::tls::Tls;

/// How long the listener rests when the system has no descriptors or memory left for another
/// connection: without it, it would ask again at once, for ever.
const REST: Duration = Duration::from_millis(50);

/// Serves until `stop` resolves, then lets requests under way come to their end, for a while. How
/// many connections were cut.
pub async fn serve<S, F, B>(
    listener: TcpListener,
    service: S,
    tls: Option<Tls>,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) -> usize
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    raise_descriptors();
    let builder = builder(&bounds);
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(bounds.connections_max));
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        // Those that are over are let go of.
        while connections.try_join_next().is_some() {}
        let taken = tokio::select! {
            biased;
            () = &mut stop => break,
            taken = take(&listener, &room) => taken,
        };
        let (stream, place) = match taken {
            Ok(taken) => taken,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(_) => {
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let (builder, service, tls) = (builder.clone(), service.clone(), tls.clone());
        let watcher = graceful.watcher();
        let (handshake_max, stall_max) = (bounds.head_time_max, bounds.stall_max);
        connections.spawn(async move {
            // Given back however the connection ends.
            let _place = place;
            let answer = service_fn(move |request| {
                let answered = service(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            // An answer leaves when it is there, not when more of it might be.
            let _ = stream.set_nodelay(true);
            match tls {
                None => {
                    let io = TokioIo::new(Unstalled::new(stream, stall_max));
                    let connection = builder.serve_connection(io, answer).into_owned();
                    let _ = watcher.watch(connection).await;
                }
                Some(tls) => {
                    let shaken = tokio::time::timeout(handshake_max, tls.accept(stream)).await;
                    let Ok(Ok(stream)) = shaken else { return };
                    let io = TokioIo::new(Unstalled::new(stream, stall_max));
                    let connection = builder.serve_connection(io, answer).into_owned();
                    let _ = watcher.watch(connection).await;
                }
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(bounds.drain_max, graceful.shutdown()).await;
    while connections.try_join_next().is_some() {}
    let cut = connections.len();
    connections.shutdown().await;
    cut
}

/// The next connection, when there is room for it: until then others wait in the system's queue.
async fn take(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.expect("nobody closes it");
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// A connection that was gone before it was taken says nothing of the next.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn builder(bounds: &Bounds) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_time_max)
        .max_headers(bounds.headers_max)
        .max_buf_size(bounds.head_bytes_max)
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams_max)
        .max_header_list_size(u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX))
        .initial_stream_window_size(bounds.window_bytes)
        .initial_connection_window_size(bounds.window_bytes * 4)
        .max_send_buf_size(bounds.send_bytes_max)
        .max_pending_accept_reset_streams(bounds.resets_max)
        .max_local_error_reset_streams(bounds.resets_max)
        .keep_alive_interval(bounds.ping_every)
        .keep_alive_timeout(bounds.stall_max);
    builder
}

/// As many descriptors as the system allows: each connection is one.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it is not allowed, there are fewer connections, which wait.
    let _ = setrlimit(Resource::Nofile, raised);
}
