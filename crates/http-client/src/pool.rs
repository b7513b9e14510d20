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
use crate::connect::{ConnectError, Connector, Link, Opened, Reach};
use crate::grants::Granted;
use crate::target::Origin;
use crate::wire::Wire;

/// How long a connection has to become ready for the next request, when its answer is complete:
/// a peer may have answered before it had read all.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// A peer that announces when it closes idle connections is believed with so much to spare, or half
/// of the time if that is shorter: what is sent at the last moment arrives after it.
const ANNOUNCED_MARGIN: Duration = Duration::from_secs(1);

/// All connections of a client.
#[derive(Debug)]
pub(crate) struct Pool {
    places: Mutex<HashMap<Origin, Arc<Place>>>,
    in_flight: Arc<Semaphore>,
    idle_count: AtomicUsize,
    bounds: Bounds,
}

/// The connections to one origin.
#[derive(Debug)]
pub(crate) struct Place {
    in_flight: Arc<Semaphore>,
    /// Held while a connection is opened that may turn out to be of HTTP/2: others wait for it and
    /// share it, instead of each opening its own.
    opening: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The most recently used last.
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
    /// The time after which the peer closes it when it is idle, as the last answer announced it.
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
    /// Requests that are not `idem` may use it: it was new or recently heard when the oldest of its
    /// streams began. One that an `idem` request took up after a long silence has still to prove
    /// that it is alive. Changes under the lock of its [`Place`].
    trusted: AtomicBool,
    used: Mutex<Instant>,
}

/// Which open connections a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// All that are open.
    Any,
    /// Those on which the peer was heard so recently that it cannot be about to close them.
    Recent,
    /// None.
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

/// Room for one request on its way.
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

    /// The place of an origin.
    pub(crate) fn place(&self, origin: &Origin) -> Arc<Place> {
        let mut places = lock(&self.places);
        if let Some(place) = places.get(origin) {
            return place.clone();
        }
        let place = Arc::new(Place {
            in_flight: Arc::new(Semaphore::new(self.bounds.in_flight_per_origin_max)),
            opening: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        });
        places.insert(origin.clone(), place.clone());
        place
    }

    /// Waits for room. The origin's first: who waits for a slow one must not hold others up.
    pub(crate) async fn permit(&self, place: &Place) -> Permit {
        let acquire = async |semaphore: &Arc<Semaphore>| {
            semaphore.clone().acquire_owned().await.expect("it is never closed")
        };
        let origin = acquire(&place.in_flight).await;
        Permit { _all: acquire(&self.in_flight).await, _origin: origin }
    }

    /// A connection: one that is open, if this attempt may use it, or a new one.
    pub(crate) async fn lease(
        &self,
        place: &Place,
        origin: &Origin,
        granted: &Granted,
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
        // Who waited, and learns that there is nothing to share, lets the others open too.
        let _opening = opening.filter(|_| may_share());
        // In a box: every attempt would carry the room for it, and few need it.
        let opened = Box::pin(connector.open(origin, granted, deadline)).await?;
        Ok(self.keep(place, opened))
    }

    /// One that is open.
    fn open_one(&self, place: &Place, granted: &Granted, reuse: Reuse) -> Option<Lease> {
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

    fn keep(&self, place: &Place, opened: Opened) -> Lease {
        let Opened { link, reach, wire } = opened;
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
    pub(crate) async fn give_back(&self, place: &Place, lease: Lease) {
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

    /// Closes what has waited too long, and forgets origins that have nothing left.
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
            // Another hand on it is an attempt on its way.
            !is_empty || Arc::strong_count(place) > 1
        });
    }
}

impl State {
    /// The idle connection that was used last: the least likely to be closing.
    fn newest(&mut self, granted: &Granted, bounds: &Bounds) -> Option<Http1> {
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

    /// The idle connection that was used first, of those on which the peer was heard recently. So as
    /// many of them as are needed at a time stay recent; with the last one first, a burst would find
    /// most of them too old. If there is none, the oldest makes way for the new one.
    fn recent(&mut self, granted: &Granted, bounds: &Bounds) -> Option<Http1> {
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
    /// Whether its peer has been silent for less than this, and less than it announced.
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
    /// the time of the request's first byte. Twice the time for which a connection may be silent
    /// when it is taken: a busy machine may take as long to get from here to the write. `is_last`:
    /// there is no further connection to try, so a new one is used however long that took.
    pub(crate) fn guard(&self, bounds: &Bounds, is_last: bool) {
        let silent_max = bounds.idle_time_not_idem.saturating_mul(2);
        match self {
            Self::Http1 { is_new: true, .. } | Self::Http2 { is_new: true, .. } => {
                self.wire().guard_new(if is_last { Duration::MAX } else { silent_max });
            }
            Self::Http1 { .. } => self.wire().guard_reused(silent_max),
            // With others' streams on it the peer is at work and may say anything at any time.
            Self::Http2 { stream, .. } if stream.is_alone() => self.wire().guard_reused(silent_max),
            Self::Http2 { .. } => {}
        }
    }

    /// The connection, if it is shared with others.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        match self {
            Self::Http1 { .. } => None,
            Self::Http2 { stream, .. } => Some(stream.0.clone()),
        }
    }

    /// Whether this request is its first.
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

    /// Lets nobody else use it.
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
