//! One connection: reads requests from it, one after the other, and hands them on.

use std::io;
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::act::{Next, act};
use crate::control;
use crate::ledger::Ledger;
use crate::reply::{CONTINUE, FAST, Reply};
use crate::request::{self, Read};

/// The least room for the next bytes.
const ROOM_BYTES: usize = 16 * 1024;
/// How many bytes of answers are collected before they are written, for a client that pipelines
/// requests.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// How many bytes are still read from a client after it was refused, so that it sees the answer.
const FAREWELL_BYTES_MAX: usize = 1024 * 1024;

/// Serves a connection until it ends.
pub(crate) async fn serve(stream: TcpStream, ledger: Arc<Ledger>) {
    let input = BytesMut::with_capacity(ROOM_BYTES);
    let mut connection = Connection { stream, ledger, input, output: Vec::new(), continued: false };
    // An error means that the connection broke: the client is gone and cannot be told.
    let _ = connection.run().await;
}

struct Connection {
    stream: TcpStream,
    ledger: Arc<Ledger>,
    /// Bytes that are not yet a complete request.
    input: BytesMut,
    /// Answers of the fast path that are not yet written.
    output: Vec<u8>,
    /// Whether `100 Continue` was sent for the request that is arriving.
    continued: bool,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        loop {
            let read = request::read(&self.input);
            if let Read::Fast { bytes, close } = read {
                self.ledger.count_fast();
                self.input.advance(bytes);
                self.output.extend_from_slice(FAST);
                if close || self.output.len() >= OUTPUT_BYTES_MAX {
                    self.flush().await?;
                }
                if close {
                    return Ok(());
                }
                self.continued = false;
                continue;
            }
            self.flush().await?;
            match read {
                Read::Fast { .. } => unreachable!("it is dealt with above"),
                Read::Partial { expects_continue } => {
                    if expects_continue && !self.continued {
                        self.continued = true;
                        self.stream.write_all(CONTINUE).await?;
                    }
                    self.input.reserve(ROOM_BYTES);
                    if self.stream.read_buf(&mut self.input).await? == 0 {
                        // The client may close in the middle of a request, which then has not
                        // arrived.
                        return Ok(());
                    }
                }
                Read::Complete { request, bytes } => {
                    self.input.advance(bytes);
                    self.continued = false;
                    let next = match control::asked(&request) {
                        Some(asked) => {
                            control::answer(&mut self.stream, &self.ledger, &request, asked).await?
                        }
                        None => act(&mut self.stream, &self.ledger, request).await?,
                    };
                    if next == Next::Close {
                        return Ok(());
                    }
                }
                Read::Refused(status) => return self.refuse(status).await,
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output).await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Answers with the reason, and closes. Closing with unread bytes resets the connection, and
    /// the client would not see the answer: so further bytes are read first, within bounds.
    async fn refuse(&mut self, status: u16) -> io::Result<()> {
        self.stream.write_all(&Reply::new(status, "", true).head(0)).await?;
        self.stream.shutdown().await?;
        let mut ignored = [0; 4096];
        let mut read = 0;
        while read < FAREWELL_BYTES_MAX {
            match self.stream.read(&mut ignored).await? {
                0 => break,
                some => read += some,
            }
        }
        Ok(())
    }
}
