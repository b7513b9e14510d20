//! One connection: HTTP on it, until it ends, does wrong, or the server stops.
//!
//! A connection without a request is parked: a socket and a timer, without hyper's part and its
//! buffers, 16 KiB and more. Of ten thousand idle HTTP/1.1 connections, each took that many bytes of
//! resident memory (a release build; mimalloc keeps for reuse what the last column has freed):
//!
//! | | never asked | asked once, 500 a second | asked once, all within 2 s |
//! |---|---|---|---|
//! | parked after 2 s | 2,300 | 4,100 | 23,000 |
//! | hyper-util's `auto` server, never parked | 3,700 | 30,800 | 30,900 |
//!
//! `auto` does not give back a connection with the bytes that it has read, so it cannot be parked,
//! and hyper's own two servers are here in its place.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::sent::{AnswerBody, Request};
use super::service::{Phase, Upgrade};
use super::watch::{Protocol, Watch, Why};
use super::wire::{Socket, Wire};
use super::{Bounds, Draining, Peer, Readings, Service, Tls, linger};

/// A peer that vanished is noticed after two minutes, also while a request waits: the kernel probes
/// after one minute of silence, and up to four times more.
const SILENCE: Duration = Duration::from_secs(60);
const QUESTION_EVERY: Duration = Duration::from_secs(15);
const QUESTIONS: u32 = 4;

/// The most unsent bytes of an answer that the kernel takes. Without this it takes megabytes for a
/// peer that reads nothing, and each byte has been read from the store and made into JSON. Bytes on
/// their way to the peer do not count, so a peer that reads is served as fast as before.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// A clone is held by every connection and stream: when all are dropped, the server has ended.
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
    // hyper's timeout cannot tell a slow head from an idle connection; `Watch` can.
    http.header_read_timeout(None)
        .max_headers(bounds.headers_max)
        .max_header_size(bounds.head_bytes_max)
        .max_buf_size(bounds.head_bytes_max);
    http
}

/// How HTTP/2 is spoken.
pub(super) fn http2(bounds: &Bounds, streams: Streams) -> http2::Builder<Streams> {
    let mut http = http2::Builder::new(streams);
    let head = u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX);
    http.max_concurrent_streams(bounds.streams_max)
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
    _held: ConnectionPermit,
) {
    // An answer is written at once. An error here means that the peer is gone, which shows below.
    drop(stream.set_nodelay(true));
    let questions = TcpKeepalive::new().with_time(SILENCE).with_interval(QUESTION_EVERY);
    let options = SockRef::from(&stream);
    let _ = options.set_tcp_keepalive(&questions.with_retries(QUESTIONS));
    #[cfg(target_os = "linux")]
    let _ = options.set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
    let watch = Arc::new(Watch::new(Instant::now()));
    let socket = Socket::new(stream, Arc::clone(&watch));
    let Some(Tls(acceptor)) = &shared.tls else {
        return Box::pin(drive(&shared, service, socket, peer, watch)).await;
    };
    // Boxed, like `drive`: a task is as large as the largest of its states.
    let handshake = Box::pin(async { acceptor.accept(socket).await.map(Box::new) });
    let handshake = timeout(shared.bounds.handshake_time_max, handshake);
    let mut draining = peer.draining.clone();
    let secured = tokio::select! {
        secured = handshake => secured,
        // No request has come yet, so the connection can be dropped.
        () = draining.begun() => return,
    };
    match secured {
        Ok(Ok(secured)) => Box::pin(drive(&shared, service, secured, peer, watch)).await,
        Ok(Err(_)) | Err(_) => shared.readings.tls_failed.add_one(),
    }
}

/// What runs on a connection after 101, once the answer is written.
type Upgraded = Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>;

/// Serves HTTP on a connection, and parks it while no request comes.
async fn drive<S: Service, T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    shared: &Shared,
    service: S,
    stream: T,
    peer: Peer,
    watch: Arc<Watch>,
) {
    let Shared { bounds, readings, http1, http2, .. } = shared;
    let timer = pin!(sleep_until(Instant::now() + bounds.idle_time_max));
    let draining = &peer.draining;
    let mut turns =
        Turns { bounds, readings, watch: &watch, timer, draining, told: None, parked: true };
    let mut wire = Wire::new(stream, Arc::clone(&watch));
    let upgraded = Arc::new(Upgraded::default());
    let answering = |request: http::Request<Incoming>| {
        answer(&service, request, &peer, &watch, &upgraded, bounds, readings)
    };
    loop {
        let over = AtomicBool::new(false);
        let mut first = poll_fn(|context| match over.load(Relaxed) {
            true => Poll::Ready(None),
            false => wire.poll_protocol(context),
        });
        readings.parked.add_one();
        turns.parked = true;
        let turn = turns.run(Pin::new(&mut first), |_| over.store(true, Relaxed)).await;
        turns.parked = false;
        readings.parked.take_one();
        let Turn::Ended(protocol) = turn else { return };
        let Some(protocol) = protocol else {
            // Tells the peer of a TLS session that nothing was cut off.
            drop(timeout(bounds.stall_time_max, wire.shutdown()).await);
            return;
        };
        let io = TokioIo::new(wire);
        if protocol == Protocol::Http2 {
            let mut connection = Box::pin(http2.serve_connection(io, service_fn(answering)));
            turns.run(connection.as_mut(), http2::Connection::graceful_shutdown).await;
            return;
        }
        let connection = http1.serve_connection(io, service_fn(answering)).with_upgrades();
        let mut connection = Box::new(connection);
        let end = http1::UpgradeableConnection::graceful_shutdown;
        let turn = turns.run(Pin::new(&mut *connection), end).await;
        let Some(parts) = connection.into_parts() else {
            let going_on = upgraded.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut going_on) = going_on {
                turns.run(going_on.as_mut(), |_| {}).await;
            }
            return;
        };
        wire = parts.io.into_inner();
        match turn {
            Turn::Park => wire.unread(&parts.read_buf),
            // Only if the write side was closed in good order: a peer that broke off waits for no
            // answer.
            Turn::Ended(_) if wire.is_shut_down() => {
                let mut draining = draining.clone();
                let lingering = Box::pin(linger::drain(&mut wire, bounds));
                tokio::select! {
                    biased;
                    () = draining.begun() => {}
                    () = lingering => {}
                }
                return;
            }
            Turn::Ended(_) | Turn::Cut => return,
        }
    }
}

/// How one turn of a connection ended.
enum Turn<T> {
    /// The connection ended by itself.
    Ended(T),
    /// The connection took too long, or the server's time to drain is over.
    Cut,
    /// No request came for a while, and every answer is written.
    Park,
}

/// Runs a connection under its timeouts and the server's stop.
struct Turns<'a> {
    bounds: &'a Bounds,
    readings: &'a Readings,
    watch: &'a Watch,
    timer: Pin<&'a mut Sleep>,
    draining: &'a Draining,
    /// The deadline of a connection that was told to end.
    told: Option<Instant>,
    /// Whether the connection is parked: only its first bytes are waited for.
    parked: bool,
}

impl Turns<'_> {
    /// Polls the connection's current future; `end` makes that future end in good order.
    async fn run<C: Future + ?Sized>(
        &mut self,
        mut connection: Pin<&mut C>,
        end: impl Fn(Pin<&mut C>),
    ) -> Turn<C::Output> {
        let mut draining = self.draining.clone();
        let mut phase = Phase::Serving;
        loop {
            let turn = poll_fn(|context| match connection.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending => self.poll_due(context).map(Err),
            });
            let turn = tokio::select! {
                biased;
                next = draining.after(phase) => {
                    if next == Phase::Cutting {
                        self.readings.cut.add_one();
                        self.watch.cut();
                        return Turn::Cut;
                    }
                    phase = next;
                    end(connection.as_mut());
                    continue;
                }
                turn = turn => turn,
            };
            match turn {
                Ok(output) => return Turn::Ended(output),
                Err(Why::Quiet) => return Turn::Park,
                Err(Why::Idle) if self.told.is_none() => {
                    self.readings.idle_too_long.add_one();
                    self.told = Some(Instant::now() + self.bounds.stall_time_max);
                    end(connection.as_mut());
                    continue;
                }
                // It was told to end, and its time is over.
                Err(Why::Idle) => {}
                Err(Why::HeadTooSlow) => {
                    self.readings.heads_too_slow.add_one();
                    return Turn::Cut;
                }
                Err(Why::Stalled) => self.readings.stalled.add_one(),
            }
            self.watch.cut();
            return Turn::Cut;
        }
    }

    /// Whether something took too long; if not, the timer is set. The timer is only ever moved to
    /// an earlier time: progress moves the deadline back many times a second, and then costs
    /// nothing.
    fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<Why> {
        loop {
            let deadline = match (self.watch.deadline(self.bounds, self.parked), self.told) {
                // An idle connection that was told to end has until `told`.
                (Some((_, Why::Idle | Why::Quiet)) | None, Some(end)) => Some((end, Why::Idle)),
                (deadline, _) => deadline,
            };
            if let Some((at, _)) = deadline
                && at < self.timer.deadline()
            {
                self.timer.as_mut().reset(at);
            }
            ready!(self.timer.as_mut().poll(context));
            let now = Instant::now();
            match deadline {
                Some((at, why)) if at <= now => return Poll::Ready(why),
                Some((at, _)) => self.timer.as_mut().reset(at),
                None => self.timer.as_mut().reset(now + self.bounds.stall_time_max),
            }
        }
    }
}

/// Has the service answer. A panic of the service ends this request only.
fn answer<S: Service>(
    service: &S,
    mut request: http::Request<Incoming>,
    peer: &Peer,
    watch: &Arc<Watch>,
    upgraded: &Arc<Upgraded>,
    bounds: &Bounds,
    readings: &Arc<Readings>,
) -> impl Future<Output = Result<Response<AnswerBody<S::Body>>, Infallible>> + Send + 'static + use<S>
{
    let under_way = Request::begin(Arc::clone(watch));
    // HTTP/1 writes a body as it is; an HTTP/2 stream would keep all that it is given.
    let piece_bytes_max = match request.version() {
        Version::HTTP_2 => bounds.stream_send_bytes_max,
        _ => usize::MAX,
    };
    // HTTP/2 bounds the bytes of headers, and HTTP/1 both.
    let too_many = request.headers().len() > bounds.headers_max;
    // Not left to the service: the upgraded connection stays under this task's timeouts.
    let upgrading = hyper::upgrade::on(&mut request);
    let (service, peer, readings) = (service.clone(), peer.clone(), Arc::clone(readings));
    let (watch, upgraded) = (Arc::clone(watch), Arc::clone(upgraded));
    async move {
        let status = if too_many {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        } else {
            match caught(async move { service.call(request, peer).await }).await {
                Some(mut response) => {
                    let upgrade = response.extensions_mut().remove::<Upgrade>();
                    if response.status() == StatusCode::SWITCHING_PROTOCOLS
                        && let Some(go_on) = upgrade.and_then(|upgrade| upgrade.take())
                    {
                        // The upgraded connection counts as a request under way.
                        let under_way = Request::begin(watch);
                        let going_on = async move {
                            let Ok(stream) = upgrading.await else { return };
                            if caught(go_on(TokioIo::new(stream))).await.is_none() {
                                readings.panicked.add_one();
                            }
                            drop(under_way);
                        };
                        *upgraded.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some(Box::pin(going_on));
                    }
                    let sent = |body| AnswerBody::new(Some(body), piece_bytes_max, under_way);
                    return Ok(response.map(sent));
                }
                None => {
                    readings.panicked.add_one();
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            }
        };
        let mut response = Response::new(AnswerBody::new(None, piece_bytes_max, under_way));
        *response.status_mut() = status;
        Ok(response)
    }
}

/// What the future comes to, or none if it panics.
async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // The future is not polled again after a panic, and no other code sees its state.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

/// What a connection holds until it is over; it is counted as open for as long.
#[expect(dead_code, reason = "a place and a life are held, and dropped")]
pub(super) struct ConnectionPermit {
    readings: Arc<Readings>,
    place: OwnedSemaphorePermit,
    alive: Alive,
}

impl ConnectionPermit {
    pub(super) fn new(readings: Arc<Readings>, place: OwnedSemaphorePermit, alive: Alive) -> Self {
        readings.accepted.add_one();
        readings.open.add_one();
        Self { readings, place, alive }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.readings.open.take_one();
    }
}
