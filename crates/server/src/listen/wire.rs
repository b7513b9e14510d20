//! The bytes of a connection, watched: what is sent beneath TLS, what comes above it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::watch::Watch;

/// A socket: whether the peer takes what is written to it.
pub(super) struct Socket {
    stream: TcpStream,
    watch: Arc<Watch>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, watch: Arc<Watch>) -> Self {
        Self { stream, watch }
    }

    fn wrote(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match polled {
            Poll::Pending => self.watch.blocked(),
            Poll::Ready(_) => self.watch.went(),
        }
        polled
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.watch.is_cut() {
            // Otherwise the kernel would hold on to what the peer does not take.
            drop(self.stream.set_zero_linger());
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(polled)
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

/// What HTTP reads and writes: when the bytes of a request come.
pub(super) struct Wire<T> {
    inner: T,
    watch: Arc<Watch>,
    /// Bytes that came before whoever reads now was there.
    unread: Bytes,
    /// Whether the write side was closed, so that all that was written is on its way.
    shut_down: bool,
}

/// As many bytes as show which protocol is spoken.
const FIRST_BYTES: usize = 24;

impl<T> Wire<T> {
    pub(super) fn new(inner: T, watch: Arc<Watch>) -> Self {
        Self { inner, watch, unread: Bytes::new(), shut_down: false }
    }

    /// Whether the write side was closed in good order.
    pub(super) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// Gives back what was read, to be read again: the beginning of a head, which takes its time
    /// from now. It is copied, since even no bytes at all may hold the buffer that they came in.
    pub(super) fn unread(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.watch.came(bytes);
        }
        self.unread = Bytes::copy_from_slice(bytes);
    }
}

impl<T: AsyncRead + Unpin> Wire<T> {
    /// Reads a few bytes and leaves them to be read: how many there are now. None is the end.
    pub(super) fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [0; FIRST_BYTES];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer))?;
        let came = buffer.filled();
        if came.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.watch.came(came);
        self.unread = [&self.unread, came].concat().into();
        Poll::Ready(Ok(self.unread.len()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Wire<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let part = self.unread.len().min(buffer.remaining());
            buffer.put_slice(&self.unread.split_to(part));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let came = &buffer.filled()[before..];
        if !came.is_empty() {
            self.watch.came(came);
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Wire<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(context);
        self.shut_down |= matches!(polled, Poll::Ready(Ok(())));
        polled
    }
}
