//! A proxy between a client and PostgreSQL that counts round trips.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The type of the message by which the server says that it waits for the client again.
const READY_FOR_QUERY: u8 = b'Z';

/// Counts the round trips of all clients that connect through it.
pub(crate) struct Proxy {
    port: u16,
    round_trips: Arc<AtomicU64>,
}

impl Proxy {
    /// In front of the server at this address. Connections are not encrypted.
    pub(crate) async fn start(host: &'static str, port_server: u16) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let round_trips = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&round_trips);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((host, port_server)).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&count)));
            }
        });
        Self { port, round_trips }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How many there were so far.
    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::SeqCst)
    }
}

/// Forwards both ways until one side closes. Of what the server says every message is counted by
/// its end: the server says that it is ready once for each time that it was waited for.
async fn forward(client: TcpStream, server: TcpStream, round_trips: Arc<AtomicU64>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = tokio::spawn(async move {
        tokio::io::copy(&mut from_client, &mut to_server).await.ok();
        to_server.shutdown().await.ok();
    });
    // Type, length with itself in it, and the rest.
    while let Ok(kind) = from_server.read_u8().await {
        let length = from_server.read_u32().await.unwrap();
        let mut message = vec![kind];
        message.extend(length.to_be_bytes());
        let mut body = vec![0; usize::try_from(length - 4).unwrap()];
        from_server.read_exact(&mut body).await.unwrap();
        message.extend(body);
        // Before the client can go on, so that it never sees too few.
        if kind == READY_FOR_QUERY {
            round_trips.fetch_add(1, Ordering::SeqCst);
        }
        if to_client.write_all(&message).await.is_err() {
            break;
        }
    }
    requests.abort();
}
