//! A client that knows nothing of HTTP but how to write a request.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use indelible_http_peer::Peer;

/// So that a peer that does not answer fails a test, and does not hang it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn of(peer: &Peer) -> Self {
        Self::at(peer.address())
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// A `POST` of a behaviour under a key.
    pub(crate) fn post(&mut self, behaviour: &str, key: &str) {
        self.send(post(behaviour, key));
    }

    /// Reads these bytes and no others.
    #[track_caller]
    pub(crate) fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let expected = bytes.as_ref();
        let mut got = vec![0; expected.len()];
        let mut filled = 0;
        while filled < got.len() {
            match self.0.read(&mut got[filled..]) {
                Ok(0) => panic!("the end after {:?}", String::from_utf8_lossy(&got[..filled])),
                Ok(some) => filled += some,
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&got[..filled])),
            }
        }
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&got), text(expected));
    }

    /// The connection was closed by the peer, and nothing more came.
    #[track_caller]
    pub(crate) fn expect_closed(&mut self) {
        let mut byte = [0];
        assert_eq!(self.0.read(&mut byte).unwrap(), 0, "{byte:?} came instead of the end");
    }

    /// The connection was reset by the peer, and nothing more came.
    #[track_caller]
    pub(crate) fn expect_reset(&mut self) {
        let read = self.0.read(&mut [0]);
        assert_eq!(read.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    }

    /// The connection is open, and there is nothing to read.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self) {
        self.0.set_nonblocking(true).unwrap();
        let read = self.0.read(&mut [0]);
        assert_eq!(read.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
        self.0.set_nonblocking(false).unwrap();
    }

    /// Everything up to the end.
    pub(crate) fn rest(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text
    }

    /// Reads whatever comes, until the end or a reset.
    pub(crate) fn end(&mut self) {
        let read = self.0.read_to_end(&mut Vec::new());
        let reset = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
        assert!(read.as_ref().map_or_else(reset, |_| true), "{read:?}");
    }

    /// The same connection once more.
    pub(crate) fn clone(&self) -> Self {
        Self(self.0.try_clone().unwrap())
    }

    /// Sends no more, and still reads.
    pub(crate) fn finish(&mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }
}

pub(crate) fn post(behaviour: &str, key: &str) -> String {
    format!(
        "POST /do/{behaviour} HTTP/1.1\r\nIdempotency-Key: {key}\r\ncontent-length: 2\r\n\r\n{{}}"
    )
}

/// A whole answer with a JSON body.
pub(crate) fn json(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// The usual body.
pub(crate) fn usual(key: &str, count: usize) -> String {
    format!("{{\"count\":{count},\"key\":\"{key}\"}}")
}

/// The usual answer.
pub(crate) fn ok(key: &str, count: usize) -> String {
    json("200 OK", "", &usual(key, count))
}
