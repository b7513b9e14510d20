//! The bytes of a connection, watched: what is sent beneath TLS, what comes above it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::watch::{Protocol, Watch};

/// A socket that tells the watch whether the peer takes what is written to it.
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
            // Otherwise the kernel would keep the bytes that the peer does not take.
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

/// The stream that hyper reads and writes; it tells the watch when bytes of a request come.
pub(super) struct Wire<T> {
    inner: T,
    watch: Arc<Watch>,
    /// Bytes that came before hyper was there to read them.
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

    /// Puts back bytes that were read, to be read again: the beginning of a head, whose time runs
    /// from now. They are copied, since even an empty slice may hold the buffer that it came from.
    pub(super) fn unread(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.watch.note_bytes(bytes);
        }
        self.unread = Bytes::copy_from_slice(bytes);
    }
}

impl<T: AsyncRead + Unpin> Wire<T> {
    /// Reads as many bytes as show which protocol is spoken, and leaves them to be read. `None` is
    /// the end of the stream, or an error.
    pub(super) fn poll_protocol(&mut self, context: &mut Context<'_>) -> Poll<Option<Protocol>> {
        loop {
            let mut bytes = [0; FIRST_BYTES];
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer));
            let came = buffer.filled();
            if read.is_err() || came.is_empty() {
                return Poll::Ready(None);
            }
            self.unread = [&self.unread, came].concat().into();
            match self.watch.note_bytes(came) {
                Protocol::Unknown(_) => {}
                protocol => return Poll::Ready(Some(protocol)),
            }
        }
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
            self.watch.note_bytes(came);
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
