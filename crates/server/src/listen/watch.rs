//! What is under way on a connection and since when, from which follows until when it may go on.
//! Pure but for a lock: times come in.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Bounds;

/// How an HTTP/2 connection begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Shared by the parts of a connection: its bytes, its requests and its task.
#[derive(Debug)]
pub(super) struct Watch(Mutex<State>);

#[derive(Debug)]
struct State {
    protocol: Protocol,
    /// Requests that are not answered in full.
    requests: usize,
    /// Since when there is none.
    idle_since: Instant,
    /// When the first byte of a head came whose end has not come.
    head_since: Option<Instant>,
    /// Since when the socket takes nothing.
    blocked_since: Option<Instant>,
    /// Answers of which there is more, and since when nobody asked for it.
    bodies: Vec<(BodyId, Instant)>,
    bodies_made: u64,
    /// Whether hyper has a part in it.
    parked: bool,
    /// Whether the peer gets a reset rather than a good end.
    cut: bool,
}

/// Which protocol is spoken, as far as the bytes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// That many bytes are those of HTTP/2's preface.
    Unknown(usize),
    Http1,
    Http2,
}

/// The body of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BodyId(u64);

/// Why a connection should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Idle,
    /// It is idle for so long that it needs no buffers.
    Quiet,
    HeadTooSlow,
    Stalled,
}

impl Watch {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            protocol: Protocol::Unknown(0),
            requests: 0,
            idle_since: now,
            head_since: None,
            blocked_since: None,
            bodies: Vec::new(),
            bodies_made: 0,
            parked: true,
            cut: false,
        }))
    }

    /// What panicked while it held the lock left whole values behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came.
    pub(super) fn came(&self, bytes: &[u8]) {
        let mut state = self.state();
        if let Protocol::Unknown(seen) = state.protocol {
            let rest = &PREFACE[seen..];
            let part = rest.len().min(bytes.len());
            state.protocol = match bytes[..part] == rest[..part] {
                false => Protocol::Http1,
                true if part == rest.len() => Protocol::Http2,
                true => Protocol::Unknown(seen + part),
            };
        }
        // Frames of HTTP/2 come at any time and need not belong to a request.
        if state.protocol == Protocol::Http2 {
            state.head_since = None;
        } else if state.requests == 0 && state.head_since.is_none() {
            state.head_since = Some(Instant::now());
        }
    }

    /// Which protocol is spoken, as far as the bytes show.
    pub(super) fn protocol(&self) -> Protocol {
        self.state().protocol
    }

    /// It has buffers, or has none.
    pub(super) fn park(&self, parked: bool) {
        self.state().parked = parked;
    }

    /// The socket took bytes.
    pub(super) fn went(&self) {
        self.state().blocked_since = None;
    }

    /// The socket takes none.
    pub(super) fn blocked(&self) {
        self.state().blocked_since.get_or_insert_with(Instant::now);
    }

    /// A request came.
    pub(super) fn began(&self) {
        let mut state = self.state();
        state.requests += 1;
        state.head_since = None;
    }

    /// A request is over.
    pub(super) fn ended(&self) {
        let mut state = self.state();
        state.requests -= 1;
        if state.requests == 0 {
            state.idle_since = Instant::now();
        }
    }

    /// An answer with a body waits to be asked for it.
    pub(super) fn body_waits(&self, known: Option<BodyId>) -> BodyId {
        let mut state = self.state();
        let id = known.unwrap_or_else(|| {
            state.bodies_made += 1;
            BodyId(state.bodies_made)
        });
        let now = Instant::now();
        match state.bodies.iter_mut().find(|(other, _)| *other == id) {
            Some((_, since)) => *since = now,
            None => state.bodies.push((id, now)),
        }
        id
    }

    /// It was asked, and has nothing yet; or it is over.
    pub(super) fn body_waits_no_more(&self, id: BodyId) {
        self.state().bodies.retain(|(other, _)| *other != id);
    }

    /// From now on the peer gets a reset: what the kernel has yet to send is forgotten.
    pub(super) fn cut(&self) {
        self.state().cut = true;
    }

    pub(super) fn is_cut(&self) -> bool {
        self.state().cut
    }

    /// Until when it may go on like this, and what it does wrong if it does.
    pub(super) fn deadline(&self, bounds: &Bounds) -> Option<(Instant, Why)> {
        let state = self.state();
        let stalled = state.bodies.iter().map(|(_, since)| *since).chain(state.blocked_since);
        let stalled = stalled.min().map(|since| (since + bounds.stall_time_max, Why::Stalled));
        let waiting = match (state.requests, state.head_since) {
            (0, Some(since)) => Some((since + bounds.head_time_max, Why::HeadTooSlow)),
            (0, None) => {
                let idle = (state.idle_since + bounds.idle_time_max, Why::Idle);
                // What is not written yet is in the buffers.
                let may_park = state.protocol == Protocol::Http1
                    && !state.parked
                    && state.blocked_since.is_none();
                let quiet = (state.idle_since + bounds.park_time, Why::Quiet);
                Some(if may_park && quiet.0 < idle.0 { quiet } else { idle })
            }
            _ => None,
        };
        [stalled, waiting].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}
