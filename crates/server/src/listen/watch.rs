//! What is under way on a connection and since when, from which its deadline follows. Pure but for
//! a lock: times come in.

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
    /// Since when there is no request.
    idle_since: Instant,
    /// When the first byte came of a head that is not complete.
    head_since: Option<Instant>,
    /// Since when the socket takes nothing.
    blocked_since: Option<Instant>,
    /// Answers that have more to send, and since when hyper has not asked for it.
    bodies: Vec<(BodyId, Instant)>,
    bodies_made: u64,
    /// Whether the peer gets a reset rather than a good end.
    cut: bool,
}

/// Which protocol is spoken, as far as the bytes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// So many bytes came, and all match HTTP/2's preface.
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
            cut: false,
        }))
    }

    /// A panic under the lock leaves whole values behind, so poison is ignored.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came: which protocol is spoken, as far as they show.
    pub(super) fn note_bytes(&self, bytes: &[u8]) -> Protocol {
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
        state.protocol
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

    /// An answer's body has more to send, and waits for hyper to ask.
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

    /// hyper asked, and the body has nothing yet; or the body is over.
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

    /// Until when the connection may stay as it is, and what is wrong with it afterwards. A parked
    /// connection is not told to park.
    pub(super) fn deadline(&self, bounds: &Bounds, parked: bool) -> Option<(Instant, Why)> {
        let state = self.state();
        let stalled = state.bodies.iter().map(|(_, since)| *since).chain(state.blocked_since);
        let stalled = stalled.min().map(|since| (since + bounds.stall_time_max, Why::Stalled));
        let waiting = match (state.requests, state.head_since) {
            (0, Some(since)) => Some((since + bounds.head_time_max, Why::HeadTooSlow)),
            (0, None) => {
                let idle = (state.idle_since + bounds.idle_time_max, Why::Idle);
                // Unwritten bytes are in hyper's buffers, which parking gives back.
                let may_park =
                    state.protocol == Protocol::Http1 && !parked && state.blocked_since.is_none();
                let quiet = (state.idle_since + bounds.park_time, Why::Quiet);
                Some(if may_park && quiet.0 < idle.0 { quiet } else { idle })
            }
            _ => None,
        };
        [stalled, waiting].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}
