//! What happens to an arrival: processed or not, answered or not.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::behaviour::Way;
use crate::ledger::Ledger;
use crate::reply::{GARBAGE, Reply, date_in};
use crate::request::Request;
use crate::{Arrival, Hold, wire};

/// How much of a large body is written at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It takes the next request.
    KeepAlive,
    /// It is closed.
    Close,
}

/// Carries out the behaviour that a request asks for.
pub(crate) async fn act(
    stream: &mut TcpStream,
    ledger: &Ledger,
    request: Request,
) -> io::Result<Next> {
    let close = request.close;
    let (mut arrival, step) = ledger.arrived(request);
    ledger.pass(Hold::BeforeProcessing).await;
    pause(step.process_after).await;
    let count = ledger.process(&mut arrival, &step);
    ledger.pass(Hold::BeforeAnswering).await;
    pause(step.answer_after).await;
    let mut answer = Answer { stream, ledger, arrival, count, close };
    answer.give(step.way).await
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// An answer to an arrival that has been processed, or will not be.
struct Answer<'a> {
    stream: &'a mut TcpStream,
    ledger: &'a Ledger,
    arrival: Arrival,
    /// How often the key was processed, as the peer tells it.
    count: usize,
    /// Whether the client wants the connection closed.
    close: bool,
}

impl Answer<'_> {
    async fn give(&mut self, way: Way) -> io::Result<Next> {
        match way {
            Way::Answer => self.whole(self.reply(200).json(&self.body())).await?,
            Way::CloseIdle => {
                self.whole(self.reply(200).json(&self.body())).await?;
                return Ok(Next::Close);
            }
            Way::Close => return Ok(Next::Close),
            Way::Reset => {
                self.stream.set_zero_linger()?;
                return Ok(Next::Close);
            }
            Way::Hang => return self.hang().await,
            Way::Half => {
                let mut bytes = self.reply(200).json(&self.body());
                bytes.truncate(bytes.len() - self.body().len().div_ceil(2));
                self.stream.write_all(&bytes).await?;
                return Ok(Next::Close);
            }
            Way::HalfChunked => {
                let body = self.body();
                let mut bytes =
                    self.reply(200).header("content-type", "application/json").chunked();
                let half = &body[..body.floor_char_boundary(body.len() / 2)];
                bytes.extend_from_slice(format!("{:x}\r\n{half}", body.len()).as_bytes());
                self.stream.write_all(&bytes).await?;
                return Ok(Next::Close);
            }
            Way::Bad => {
                self.stream.write_all(GARBAGE).await?;
                return Ok(Next::Close);
            }
            Way::Status(status) => self.whole(self.reply(status).json(&self.body())).await?,
            Way::RetryAfter { seconds, status } => {
                self.retry(status, &seconds.to_string()).await?;
            }
            Way::RetryDate { seconds, status } => self.retry(status, &date_in(seconds)).await?,
            Way::Redirect { status, location } => {
                let reply = self.reply(status).header("location", &location);
                self.whole(reply.json(&self.body())).await?;
            }
            Way::Huge(bytes) => self.filler(bytes, PIECE_BYTES, Duration::ZERO).await?,
            Way::Slow { bytes, pause } => self.filler(bytes, 1, pause).await?,
            Way::Echo => self.whole(self.reply(200).json(&wire::line(&self.arrival))).await?,
            Way::Lookup(key) => {
                let processed = self.ledger.look(|state| state.tally(&key).processed);
                let body = json!({ "processed": processed }).to_string();
                self.whole(self.reply(200).json(&body)).await?;
            }
            Way::NotFound => self.error(404, "the paths are /do/…, /fast and /control/…").await?,
            Way::Unknown(why) => self.error(400, &why).await?,
        }
        Ok(if self.close { Next::Close } else { Next::KeepAlive })
    }

    fn reply(&self, status: u16) -> Reply {
        Reply::new(status, &self.arrival.method, self.close)
    }

    /// The usual body.
    fn body(&self) -> String {
        json!({ "count": self.count, "key": self.arrival.key }).to_string()
    }

    /// Writes what completes the answer.
    async fn whole(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        // Recorded before the write, so that a client that has the answer finds it in the log.
        self.ledger.answered(&self.arrival, true);
        let written = self.stream.write_all(&bytes).await;
        if written.is_err() {
            self.ledger.answered(&self.arrival, false);
        }
        written
    }

    async fn retry(&mut self, status: u16, when: &str) -> io::Result<()> {
        let reply = self.reply(status).header("retry-after", when);
        self.whole(reply.json(&self.body())).await
    }

    async fn error(&mut self, status: u16, why: &str) -> io::Result<()> {
        let body = json!({ "error": why }).to_string();
        self.whole(self.reply(status).json(&body)).await
    }

    /// Answers with this many bytes, some at a time, each time after a pause.
    async fn filler(&mut self, bytes: u64, at_once: usize, wait: Duration) -> io::Result<()> {
        let reply = self.reply(200).header("content-type", "application/octet-stream");
        let bodiless = reply.bodiless();
        let head = reply.head(bytes);
        if bodiless || bytes == 0 {
            return self.whole(head).await;
        }
        self.stream.write_all(&head).await?;
        let piece = Bytes::from(vec![b'x'; at_once]);
        let mut left = bytes;
        loop {
            pause(wait).await;
            match usize::try_from(left) {
                Ok(last) if last <= at_once => return self.whole(piece[..last].to_vec()).await,
                _ => self.stream.write_all(&piece).await?,
            }
            left -= u64::try_from(at_once).expect("it fits in memory");
        }
    }

    /// Says nothing until the client closes. Bytes that it sends meanwhile are ignored.
    async fn hang(&mut self) -> io::Result<Next> {
        let mut ignored = [0; 1024];
        while self.stream.read(&mut ignored).await? > 0 {}
        Ok(Next::Close)
    }
}
