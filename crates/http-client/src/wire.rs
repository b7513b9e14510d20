//! One TCP connection as the pool needs to know it: when the peer was last heard, whether a byte was
//! written since a request was handed over, and a guard that refuses to write on a connection which
//! the peer may be closing.
//!
//! hyper cannot give a request back once it has begun to encode it, so hyper alone cannot tell a
//! request that met a closed connection from one that was lost on the way. The socket can: a byte
//! that was never written to it has not left. [`Wire::written`] is that proof, and the guard relies
//! on it: the guard is asked at the last moment before the first byte, when the connection task has
//! the request, and refuses by failing the write.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// What is known of a connection. The connection's own task writes it, attempts read it.
#[derive(Debug)]
pub(crate) struct Wire {
    opened: Instant,
    /// When the last byte was read, in nanoseconds since `opened`.
    heard: AtomicU64,
    /// How many bytes were written.
    written: AtomicU64,
    /// The next write is guarded.
    guarded: AtomicBool,
    /// The guard refuses from this time on, in nanoseconds since `opened`.
    stale_at: AtomicU64,
    /// The guard refuses a connection with unread bytes, too.
    expects_silence: AtomicBool,
    /// The guard has refused: nothing is written any more, not even by a shutdown of TLS, which
    /// would flush the request that was refused.
    refused: AtomicBool,
}

impl Wire {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            heard: AtomicU64::new(0),
            written: AtomicU64::new(0),
            guarded: AtomicBool::new(false),
            stale_at: AtomicU64::new(0),
            expects_silence: AtomicBool::new(false),
            refused: AtomicBool::new(false),
        }
    }

    /// How long the peer has been silent; from the start, if it never said anything.
    pub(crate) fn silent_for(&self) -> Duration {
        self.opened.elapsed().saturating_sub(self.heard())
    }

    /// When the peer was last heard, since the connection was opened.
    pub(crate) fn heard(&self) -> Duration {
        Duration::from_nanos(self.heard.load(Ordering::Acquire))
    }

    /// How many bytes were written. A request that was handed over at this count, and has failed
    /// while it is still the count, has not left.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Guards the next write on a connection that carried an answer before. It is refused if the
    /// peer has been silent for `silent_max` by then, has closed its side, or has sent something
    /// unasked: a `408`, an alert, a GOAWAY.
    pub(crate) fn guard_reused(&self, silent_max: Duration) {
        self.guard(self.heard().saturating_add(silent_max), true);
    }

    /// Guards the next write on a new connection: it is refused if the peer has closed its side, or
    /// has been silent for `silent_max` since the handshake. TLS sends tickets by itself after the
    /// handshake, so unread bytes are no sign of an end.
    pub(crate) fn guard_new(&self, silent_max: Duration) {
        self.guard(self.heard().saturating_add(silent_max), false);
    }

    fn guard(&self, stale_at: Duration, expects_silence: bool) {
        let stale_at = u64::try_from(stale_at.as_nanos()).unwrap_or(u64::MAX);
        self.stale_at.store(stale_at, Ordering::Relaxed);
        self.expects_silence.store(expects_silence, Ordering::Relaxed);
        self.guarded.store(true, Ordering::Release);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A TCP connection that keeps its [`Wire`] up to date.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    wire: Arc<Wire>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, wire: Arc::new(Wire::new()) }
    }

    pub(crate) fn wire(&self) -> Arc<Wire> {
        self.wire.clone()
    }

    /// Whether a guarded write may go ahead. Asks the system, not tokio: tokio learns of a peer's
    /// end when it next looks for events, which may be after this write.
    fn pass_guard(&self) -> io::Result<()> {
        let wire = &*self.wire;
        if wire.refused.load(Ordering::Acquire) {
            return Err(io::Error::other("the connection was closed before this write"));
        }
        if !wire.guarded.load(Ordering::Acquire) {
            return Ok(());
        }
        let silence = wire.expects_silence.load(Ordering::Relaxed);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let is_open = match recv(&self.stream, &mut [0], flags) {
            Ok((_, 0)) => false,
            Ok(_) => !silence,
            Err(error) => error == rustix::io::Errno::WOULDBLOCK,
        };
        if is_open && wire.now() < wire.stale_at.load(Ordering::Relaxed) {
            return Ok(());
        }
        wire.refused.store(true, Ordering::Release);
        Err(io::Error::other("the peer may be closing this connection"))
    }

    fn note_written(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            self.wire.written.fetch_add(*bytes as u64, Ordering::Release);
            self.wire.guarded.store(false, Ordering::Release);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.wire.heard.store(self.wire.now(), Ordering::Release);
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pass_guard()?;
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pass_guard()?;
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_written(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
