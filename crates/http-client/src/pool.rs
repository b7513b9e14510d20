//! Connections that are open, by origin: idle ones of HTTP/1, shared ones of HTTP/2, and how many
//! requests are on their way.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::config::Bounds;
use crate::connect::{ConnectError, Connector, Link, Reach, ReadyConnection};
use crate::grants::AttemptGrants;
use crate::target::Origin;
use crate::wire::Wire;

/// How long a connection has to become ready for the next request after an answer: the peer may
/// have answered before it had read the whole request.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// A connection is dropped this long before the peer's announced idle timeout, or after half of
/// that timeout if that is later: a request sent at the last moment would arrive too late.
const ANNOUNCED_MARGIN: Duration = Duration::from_secs(1);

/// All connections of a client.
#[derive(Debug)]
pub(crate) struct Pool {
    places: Mutex<HashMap<Origin, Arc<OriginPool>>>,
    in_flight: Arc<Semaphore>,
    idle_count: AtomicUsize,
    bounds: Bounds,
}

/// The connections to one origin.
#[derive(Debug)]
pub(crate) struct OriginPool {
    in_flight: Arc<Semaphore>,
    /// Held while a connection is opened that may turn out to be HTTP/2: other requests wait and
    /// share it, instead of each opening its own.
    opening: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of their last use, the most recent last.
    idle: VecDeque<Http1>,
    shared: Vec<Arc<Shared>>,
    /// The last new connection with TLS was of HTTP/1.
    is_http1: bool,
}

/// A connection of HTTP/1.
#[derive(Debug)]
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Full<Bytes>>,
    reach: Reach,
    wire: Arc<Wire>,
    /// The peer's idle timeout, as its last answer announced it.
    pub(crate) closed_after: Option<Duration>,
}

/// A connection of HTTP/2.
#[derive(Debug)]
pub(crate) struct Shared {
    sender: http2::SendRequest<Full<Bytes>>,
    reach: Reach,
    wire: Arc<Wire>,
    streams: AtomicUsize,
    streams_max: Arc<AtomicUsize>,
    /// It takes no new requests.
    retired: AtomicBool,
    /// Requests that are not `idem` may use it: it was new, or its peer recently heard, when the
    /// oldest of its streams began. A connection that an `idem` request took up after a long
    /// silence is not trusted until its peer is heard. Changes under the lock of its
    /// [`OriginPool`].
    trusted: AtomicBool,
    used: Mutex<Instant>,
}

/// Which open connections a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// All open connections.
    Any,
    /// Connections whose peer was heard so recently that it cannot be about to close them.
    Recent,
    /// No open connection: only a new one.
    Never,
}

/// A connection in the hands of one request.
#[derive(Debug)]
pub(crate) enum Lease {
    Http1 { connection: Http1, is_new: bool },
    Http2 { stream: Stream, is_new: bool },
}

/// A request's part of a connection of HTTP/2.
#[derive(Debug)]
pub(crate) struct Stream(Arc<Shared>);

/// Leave for one request to be on its way.
#[derive(Debug)]
pub(crate) struct Permit {
    _all: OwnedSemaphorePermit,
    _origin: OwnedSemaphorePermit,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            places: Mutex::default(),
            in_flight: Arc::new(Semaphore::new(bounds.in_flight_max)),
            idle_count: AtomicUsize::new(0),
            bounds,
        }
    }

    /// The connections of an origin.
    pub(crate) fn place(&self, origin: &Origin) -> Arc<OriginPool> {
        let mut places = lock(&self.places);
        if let Some(place) = places.get(origin) {
            return place.clone();
        }
        let place = Arc::new(OriginPool {
            in_flight: Arc::new(Semaphore::new(self.bounds.in_flight_per_origin_max)),
            opening: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        });
        places.insert(origin.clone(), place.clone());
        place
    }

    /// Waits for a permit. The origin's comes first: a request that waits for a slow origin must
    /// not hold a permit that requests to other origins need.
    pub(crate) async fn permit(&self, place: &OriginPool) -> Permit {
        let acquire = async |semaphore: &Arc<Semaphore>| {
            semaphore.clone().acquire_owned().await.expect("it is never closed")
        };
        let origin = acquire(&place.in_flight).await;
        Permit { _all: acquire(&self.in_flight).await, _origin: origin }
    }

    /// An open connection that this attempt may use, or else a new one.
    pub(crate) async fn lease(
        &self,
        place: &OriginPool,
        origin: &Origin,
        granted: &AttemptGrants,
        reuse: Reuse,
        connector: &Connector,
        deadline: Instant,
    ) -> Result<Lease, ConnectError> {
        if let Some(lease) = self.open_one(place, granted, reuse) {
            return Ok(lease);
        }
        let may_share = || origin.tls && !lock(&place.state).is_http1;
        let opening = if may_share() { Some(place.opening.lock().await) } else { None };
        if opening.is_some()
            && let Some(lease) = self.open_one(place, granted, reuse)
        {
            return Ok(lease);
        }
        // If the peer turned out to speak HTTP/1, there is nothing to share: release the lock, so
        // that the other waiting requests open their connections at the same time.
        let _opening = opening.filter(|_| may_share());
        // Boxed: otherwise every attempt's future would be as large as this one, and few need it.
        let opened = Box::pin(connector.open(origin, granted, deadline)).await?;
        Ok(self.keep(place, opened))
    }

    /// An open connection that may carry the request.
    fn open_one(&self, place: &OriginPool, granted: &AttemptGrants, reuse: Reuse) -> Option<Lease> {
        let mut state = lock(&place.state);
        let before = state.idle.len();
        let idle = match reuse {
            Reuse::Never => return None,
            Reuse::Recent => state.recent(granted, &self.bounds),
            Reuse::Any => state.newest(granted, &self.bounds),
        };
        self.idle_count.fetch_sub(before - state.idle.len(), Ordering::Relaxed);
        if let Some(connection) = idle {
            return Some(Lease::Http1 { connection, is_new: false });
        }
        state.shared.retain(|shared| shared.is_usable());
        let fits = |shared: &&Arc<Shared>| {
            let streams = shared.streams.load(Ordering::Relaxed);
            let recent = shared.wire.silent_for() < self.bounds.idle_time_not_idem;
            let trusted = recent || (streams > 0 && shared.trusted.load(Ordering::Relaxed));
            shared.trusted.store(trusted, Ordering::Relaxed);
            let max = shared.streams_max.load(Ordering::Relaxed);
            streams < max.min(self.bounds.streams_per_connection_max)
                && (trusted || reuse == Reuse::Any)
                && shared.reach.allowed(granted)
        };
        let shared = state.shared.iter().find(fits)?;
        Some(Lease::Http2 { stream: Stream::new(shared), is_new: false })
    }

    fn keep(&self, place: &OriginPool, opened: ReadyConnection) -> Lease {
        let ReadyConnection { link, reach, wire } = opened;
        match link {
            Link::Http1(sender) => {
                lock(&place.state).is_http1 = true;
                let connection = Http1 { sender, reach, wire, closed_after: None };
                Lease::Http1 { connection, is_new: true }
            }
            Link::Http2 { sender, streams_max } => {
                let shared = Arc::new(Shared {
                    sender,
                    reach,
                    wire,
                    streams: AtomicUsize::new(0),
                    streams_max,
                    retired: AtomicBool::new(false),
                    trusted: AtomicBool::new(true),
                    used: Mutex::new(Instant::now()),
                });
                let stream = Stream::new(&shared);
                let mut state = lock(&place.state);
                state.is_http1 = false;
                state.shared.push(shared);
                Lease::Http2 { stream, is_new: true }
            }
        }
    }

    /// Takes a connection back whose answer is complete.
    pub(crate) async fn give_back(&self, place: &OriginPool, lease: Lease) {
        let Lease::Http1 { mut connection, .. } = lease else { return };
        let sender = &mut connection.sender;
        if !sender.is_ready() && !matches!(timeout(SETTLE_MAX, sender.ready()).await, Ok(Ok(()))) {
            return;
        }
        let mut state = lock(&place.state);
        let room = state.idle.len() < self.bounds.idle_per_origin_max
            && self.idle_count.load(Ordering::Relaxed) < self.bounds.idle_max;
        if room {
            self.idle_count.fetch_add(1, Ordering::Relaxed);
            state.idle.push_back(connection);
        }
    }

    /// Closes connections that were idle for too long, and forgets origins without connections.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let old = |since: Instant| now.saturating_duration_since(since) >= self.bounds.idle_time;
        lock(&self.places).retain(|_, place| {
            let mut state = lock(&place.state);
            let before = state.idle.len();
            state.idle.retain(|idle| {
                idle.sender.is_ready() && idle.wire.silent_for() < idle.idle_time(&self.bounds)
            });
            self.idle_count.fetch_sub(before - state.idle.len(), Ordering::Relaxed);
            state.shared.retain(|shared| {
                let is_idle = shared.streams.load(Ordering::Relaxed) == 0;
                shared.is_usable() && !(is_idle && old(*lock(&shared.used)))
            });
            let is_empty = state.idle.is_empty() && state.shared.is_empty();
            // A second reference belongs to an attempt on its way.
            !is_empty || Arc::strong_count(place) > 1
        });
    }
}

impl State {
    /// The idle connection that was used last: the least likely to be closing.
    fn newest(&mut self, granted: &AttemptGrants, bounds: &Bounds) -> Option<Http1> {
        let mut index = self.idle.len();
        while index > 0 {
            index -= 1;
            let idle = &self.idle[index];
            let is_over = !idle.sender.is_ready() || !idle.is_silent_less(bounds.idle_time, bounds);
            if is_over || idle.reach.allowed(granted) {
                let connection = self.idle.remove(index);
                if !is_over {
                    return connection;
                }
            }
        }
        None
    }

    /// The least recently used of the idle connections whose peer was heard recently. This keeps as
    /// many of them recent as are used at a time; if the most recent were taken first, a burst
    /// would find most of the others too old. If there is none, the oldest is closed to make room
    /// for a new one.
    fn recent(&mut self, granted: &AttemptGrants, bounds: &Bounds) -> Option<Http1> {
        let recent = |idle: &Http1| idle.is_silent_less(bounds.idle_time_not_idem, bounds);
        let mut index = self.idle.partition_point(|idle| !recent(idle));
        while let Some(idle) = self.idle.get(index) {
            let is_over = !idle.sender.is_ready() || !recent(idle);
            if is_over || idle.reach.allowed(granted) {
                let connection = self.idle.remove(index);
                if !is_over {
                    return connection;
                }
            } else {
                index += 1;
            }
        }
        self.idle.pop_front();
        None
    }
}

impl Http1 {
    /// Whether its peer has been silent for less than `silent_max` and less than its announced
    /// timeout.
    fn is_silent_less(&self, silent_max: Duration, bounds: &Bounds) -> bool {
        self.wire.silent_for() < silent_max.min(self.idle_time(bounds))
    }

    /// How long it may be idle.
    fn idle_time(&self, bounds: &Bounds) -> Duration {
        let announced = self
            .closed_after
            .map_or(Duration::MAX, |after| after.saturating_sub(ANNOUNCED_MARGIN).max(after / 2));
        announced.min(bounds.idle_time)
    }
}

impl Lease {
    pub(crate) fn reach(&self) -> &Reach {
        match self {
            Self::Http1 { connection, .. } => &connection.reach,
            Self::Http2 { stream, .. } => &stream.0.reach,
        }
    }

    pub(crate) fn wire(&self) -> &Arc<Wire> {
        match self {
            Self::Http1 { connection, .. } => &connection.wire,
            Self::Http2 { stream, .. } => &stream.0.wire,
        }
    }

    /// Makes the connection refuse a request that is not `idem` if the peer may be closing it by
    /// the time of the request's first byte. The limit is twice the silence allowed when a
    /// connection is taken, because a busy machine may need as long again until the write.
    /// `is_last`: no further connection is tried, so a new one is used however long that took.
    pub(crate) fn guard(&self, bounds: &Bounds, is_last: bool) {
        let silent_max = bounds.idle_time_not_idem.saturating_mul(2);
        match self {
            Self::Http1 { is_new: true, .. } | Self::Http2 { is_new: true, .. } => {
                self.wire().guard_new(if is_last { Duration::MAX } else { silent_max });
            }
            Self::Http1 { .. } => self.wire().guard_reused(silent_max),
            // With other streams open, the peer is at work and may send at any time.
            Self::Http2 { stream, .. } if stream.is_alone() => self.wire().guard_reused(silent_max),
            Self::Http2 { .. } => {}
        }
    }

    /// The connection, if it can be shared: HTTP/2.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        match self {
            Self::Http1 { .. } => None,
            Self::Http2 { stream, .. } => Some(stream.0.clone()),
        }
    }

    /// Whether this request is the connection's first.
    pub(crate) fn is_new(&self) -> bool {
        match self {
            Self::Http1 { is_new, .. } | Self::Http2 { is_new, .. } => *is_new,
        }
    }
}

impl Shared {
    fn is_usable(&self) -> bool {
        !self.retired.load(Ordering::Relaxed) && self.sender.is_ready()
    }

    /// Lets no new request use it; those that do go on.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }
}

impl Stream {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.streams.fetch_add(1, Ordering::Relaxed);
        Self(shared.clone())
    }

    pub(crate) fn sender(&self) -> http2::SendRequest<Full<Bytes>> {
        self.0.sender.clone()
    }

    fn is_alone(&self) -> bool {
        self.0.streams.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        *lock(&self.0.used) = Instant::now();
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
