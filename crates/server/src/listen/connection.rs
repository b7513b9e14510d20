//! One connection: HTTP on it, until it ends, does wrong, or the server stops.

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::DerefMut;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use rustix::net::sockopt;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::sent::{Request, Sent};
use super::service::Phase;
use super::watch::{Protocol, Watch, Why};
use super::wire::{Socket, Wire};
use super::{Bounds, Draining, Peer, Readings, Service, Tls, linger};

/// A peer that vanished without a word is noticed after two minutes, also by a request that waits:
/// the kernel asks after one minute of silence, and four times more.
const SILENCE: Duration = Duration::from_secs(60);
const QUESTION_EVERY: Duration = Duration::from_secs(15);
const QUESTIONS: u32 = 4;

/// The most bytes that the kernel takes of an answer before the peer has room for them. Otherwise it
/// takes megabytes for a peer that reads nothing, and each has been read from the store and made into
/// JSON. What is on its way to the peer is not counted, so those who read are as fast as before.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// Held by everything that the server has running.
pub(super) type Alive = mpsc::Sender<Infallible>;

/// Starts the tasks of HTTP/2 streams, and lets the end of the server wait for them.
#[derive(Debug, Clone)]
pub(super) struct Streams(pub(super) Alive);

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
{
    fn execute(&self, stream: F) {
        let alive = self.0.clone();
        tokio::spawn(async move {
            stream.await;
            drop(alive);
        });
    }
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) bounds: Bounds,
    pub(super) readings: Arc<Readings>,
    pub(super) tls: Option<Tls>,
    pub(super) http1: http1::Builder,
    pub(super) http2: http2::Builder<Streams>,
}

/// How HTTP/1 is spoken.
pub(super) fn http1(bounds: &Bounds) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        // Its clock does not tell a head that is slow from a connection that is idle; ours does.
        .header_read_timeout(None)
        .max_headers(bounds.headers_max)
        .max_header_size(bounds.head_bytes_max)
        .max_buf_size(bounds.head_bytes_max);
    http
}

/// How HTTP/2 is spoken.
pub(super) fn http2(bounds: &Bounds, streams: Streams) -> http2::Builder<Streams> {
    let mut http = http2::Builder::new(streams);
    let head = u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX);
    http.timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams_max)
        .max_header_list_size(head)
        .max_pending_accept_reset_streams(bounds.pending_resets_max)
        .max_local_error_reset_streams(bounds.mistakes_max)
        .initial_stream_window_size(bounds.stream_window_bytes)
        .initial_connection_window_size(bounds.connection_window_bytes)
        .max_send_buf_size(bounds.stream_send_bytes_max);
    http
}

/// Serves a connection to its end.
pub(super) async fn serve<S: Service>(
    shared: Arc<Shared>,
    service: S,
    stream: TcpStream,
    peer: Peer,
    _held: Held,
) {
    // An answer is written at once. An error here is a peer that is gone, and shows below.
    drop(stream.set_nodelay(true));
    let _ = sockopt::set_socket_keepalive(&stream, true);
    let _ = sockopt::set_tcp_keepidle(&stream, SILENCE);
    let _ = sockopt::set_tcp_keepintvl(&stream, QUESTION_EVERY);
    let _ = sockopt::set_tcp_keepcnt(&stream, QUESTIONS);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
    let watch = Arc::new(Watch::new(Instant::now()));
    let socket = Socket::new(stream, Arc::clone(&watch));
    let Some(Tls(acceptor)) = &shared.tls else {
        return Box::pin(drive(&shared, service, socket, peer, watch)).await;
    };
    // Boxed, as what follows is: a task takes the room of the largest of its states.
    let handshake = Box::pin(async { acceptor.accept(socket).await.map(Box::new) });
    let handshake = timeout(shared.bounds.handshake_time_max, handshake);
    let mut draining = peer.draining.clone();
    let secured = tokio::select! {
        secured = handshake => secured,
        // Nothing was asked yet.
        () = draining.begun() => return,
    };
    match secured {
        Ok(Ok(secured)) => Box::pin(drive(&shared, service, secured, peer, watch)).await,
        Ok(Err(_)) | Err(_) => shared.readings.tls_failed.add_one(),
    }
}

/// A connection, as a task has it. While nothing is asked it is a socket and a timer; hyper's part
/// and its buffers, 16 KiB and more, are there while there is something to do.
async fn drive<S: Service, T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    shared: &Shared,
    service: S,
    stream: T,
    peer: Peer,
    watch: Arc<Watch>,
) {
    let Shared { bounds, readings, http1, http2, .. } = shared;
    let timer = pin!(sleep_until(Instant::now() + bounds.idle_time_max));
    let draining = peer.draining.clone();
    let mut turns = Turns { bounds, readings, watch: &watch, timer, draining, told: None };
    let mut wire = Wire::new(stream, Arc::clone(&watch));
    let answering = |request: http::Request<Incoming>| {
        answer(&service, request, &peer, &watch, bounds, readings)
    };
    loop {
        let parked = Parked::new(readings, &watch);
        let Some(protocol) = turns.first_bytes(&mut wire).await else {
            // So that the peer of a TLS session knows that nothing was cut off.
            drop(timeout(bounds.stall_time_max, wire.shutdown()).await);
            return;
        };
        drop(parked);
        let io = TokioIo::new(wire);
        if protocol == Protocol::Http2 {
            let connection = http2.serve_connection(io, service_fn(answering));
            turns.run(&mut Box::pin(connection)).await;
            return;
        }
        let mut connection = Box::new(http1.serve_connection(io, service_fn(answering)));
        match turns.run(&mut Pin::new(&mut *connection)).await {
            Turn::Cut => return,
            Turn::Ended => {
                let mut wire = connection.into_parts().io.into_inner();
                // A connection that broke off has no answer to wait for.
                if wire.is_shut_down() {
                    let draining = Box::pin(linger::drain(&mut wire, bounds));
                    tokio::select! {
                        biased;
                        () = turns.draining.begun() => {}
                        () = draining => {}
                    }
                }
                return;
            }
            Turn::Park => {
                let parts = connection.into_parts();
                wire = parts.io.into_inner();
                wire.unread(&parts.read_buf);
            }
        }
    }
}

/// How a connection went on.
enum Turn {
    /// HTTP ended it.
    Ended,
    /// It took too long, or the server is gone.
    Cut,
    /// Nothing was asked for a while, and all was written.
    Park,
}

/// What takes its turn with a connection: its clock, and the end of the server.
struct Turns<'a> {
    bounds: &'a Bounds,
    readings: &'a Readings,
    watch: &'a Watch,
    timer: Pin<&'a mut Sleep>,
    draining: Draining,
    /// When it has to be over, once it was told to end.
    told: Option<Instant>,
}

impl Turns<'_> {
    /// Waits until the peer says something, and reads as much as shows which protocol it is.
    async fn first_bytes<T: AsyncRead + Unpin>(&mut self, wire: &mut Wire<T>) -> Option<Protocol> {
        loop {
            let reading = poll_fn(|context| {
                if let Poll::Ready(read) = wire.poll_first(context) {
                    return Poll::Ready(read.map_err(|_| None));
                }
                due(self.watch, self.bounds, None, self.timer.as_mut(), context)
                    .map(|why| Err(Some(why)))
            });
            let read = tokio::select! {
                biased;
                () = self.draining.begun() => return None,
                read = reading => read,
            };
            match read {
                // The end, or as good as that.
                Ok(0) | Err(None) => return None,
                Ok(_) => match self.watch.protocol() {
                    Protocol::Unknown(_) => {}
                    protocol => return Some(protocol),
                },
                Err(Some(Why::HeadTooSlow)) => {
                    self.readings.heads_too_slow.add_one();
                    return None;
                }
                // A TLS session that cannot write has nothing to say either.
                Err(Some(Why::Idle | Why::Quiet | Why::Stalled)) => {
                    self.readings.idle_too_long.add_one();
                    return None;
                }
            }
        }
    }

    /// Runs HTTP on it.
    async fn run<C: GracefulConnection>(
        &mut self,
        connection: &mut Pin<impl DerefMut<Target = C>>,
    ) -> Turn {
        let mut phase = Phase::Serving;
        loop {
            let turn = poll_fn(|context| {
                if connection.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                due(self.watch, self.bounds, self.told, self.timer.as_mut(), context).map(Some)
            });
            let why = tokio::select! {
                biased;
                next = self.draining.after(phase) => {
                    if next == Phase::Cutting {
                        self.readings.cut.add_one();
                        self.watch.cut();
                        return Turn::Cut;
                    }
                    phase = next;
                    connection.as_mut().graceful_shutdown();
                    continue;
                }
                why = turn => why,
            };
            match why {
                None => return Turn::Ended,
                Some(Why::Quiet) => return Turn::Park,
                Some(Why::Idle) if self.told.is_none() => {
                    self.readings.idle_too_long.add_one();
                    self.told = Some(Instant::now() + self.bounds.stall_time_max);
                    connection.as_mut().graceful_shutdown();
                    continue;
                }
                // It was told, and is still there.
                Some(Why::Idle) => {}
                Some(Why::HeadTooSlow) => {
                    self.readings.heads_too_slow.add_one();
                    return Turn::Cut;
                }
                Some(Why::Stalled) => self.readings.stalled.add_one(),
            }
            self.watch.cut();
            return Turn::Cut;
        }
    }
}

/// Whether something took too long; if not, the timer is set. It is moved forward only: what
/// happens in good time moves the deadline back, many times a second, and costs nothing.
fn due(
    watch: &Watch,
    bounds: &Bounds,
    told: Option<Instant>,
    mut timer: Pin<&mut Sleep>,
    context: &mut Context<'_>,
) -> Poll<Why> {
    loop {
        let deadline = match (watch.deadline(bounds), told) {
            // An idle connection that was told so has until its end.
            (Some((_, Why::Idle | Why::Quiet)) | None, Some(end)) => Some((end, Why::Idle)),
            (deadline, _) => deadline,
        };
        if let Some((at, _)) = deadline
            && at < timer.deadline()
        {
            timer.as_mut().reset(at);
        }
        ready!(timer.as_mut().poll(context));
        let now = Instant::now();
        match deadline {
            Some((at, why)) if at <= now => return Poll::Ready(why),
            Some((at, _)) => timer.as_mut().reset(at),
            None => timer.as_mut().reset(now + bounds.stall_time_max),
        }
    }
}

/// A connection without buffers, for as long as this lives.
struct Parked<'a> {
    readings: &'a Readings,
    watch: &'a Watch,
}

impl<'a> Parked<'a> {
    fn new(readings: &'a Readings, watch: &'a Watch) -> Self {
        readings.parked.add_one();
        watch.park(true);
        Self { readings, watch }
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.readings.parked.take_one();
        self.watch.park(false);
    }
}

/// Has the service answer; what it does wrong stays with the request.
fn answer<S: Service>(
    service: &S,
    request: http::Request<Incoming>,
    peer: &Peer,
    watch: &Arc<Watch>,
    bounds: &Bounds,
    readings: &Arc<Readings>,
) -> impl Future<Output = Result<Response<Sent<S::Body>>, Infallible>> + Send + 'static + use<S> {
    let under_way = Request::begin(Arc::clone(watch));
    // HTTP/1 writes a body as it is; an HTTP/2 stream would keep all that it is given.
    let piece_bytes_max = match request.version() {
        Version::HTTP_2 => bounds.stream_send_bytes_max,
        _ => usize::MAX,
    };
    // HTTP/2 bounds the bytes of headers, and HTTP/1 both.
    let too_many = request.headers().len() > bounds.headers_max;
    let (service, peer, readings) = (service.clone(), peer.clone(), Arc::clone(readings));
    async move {
        let status = if too_many {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        } else {
            match caught(async move { service.call(request, peer).await }).await {
                Some(response) => {
                    let sent = |body| Sent::new(Some(body), piece_bytes_max, under_way);
                    return Ok(response.map(sent));
                }
                None => {
                    readings.panicked.add_one();
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            }
        };
        let mut response = Response::new(Sent::new(None, piece_bytes_max, under_way));
        *response.status_mut() = status;
        Ok(response)
    }
}

/// What the future comes to, or none if it panics.
async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // A future that panicked is not polled again, and nothing else sees what it left behind.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

/// What a connection holds until it is over.
#[expect(dead_code, reason = "it is held, and dropped")]
pub(super) struct Held {
    pub(super) open: Open,
    pub(super) place: OwnedSemaphorePermit,
    pub(super) alive: Alive,
}

/// Counts an open connection for as long as it lives.
pub(super) struct Open(Arc<Readings>);

impl Open {
    pub(super) fn new(readings: &Arc<Readings>) -> Self {
        readings.accepted.add_one();
        readings.open.add_one();
        Self(Arc::clone(readings))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.take_one();
    }
}
