//! Ten thousand connections that ask for nothing. The server and the clients are processes of their
//! own: memory is measured, and a process may not have descriptors for both ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use indelible_server::listen::Bounds;

use crate::listen::support::{Running, SHORT, echo, until};

const CONNECTIONS: usize = 10_000;
const SERVER_VARIABLE: &str = "INDELIBLE_TEST_IDLE_SERVER";
const ADDRESS_VARIABLE: &str = "INDELIBLE_TEST_IDLE_ADDRESS";

/// A connection that has no buffers gets them again, and no byte is lost.
#[tokio::test]
async fn a_connection_wakes_up() {
    let bounds = Bounds { park_time: SHORT, ..Bounds::default() };
    let server = Running::new(bounds, echo).await;
    let mut client = server.client().await;
    for round in 0..3 {
        until("it is parked", || server.readings.parked.get() > 0).await;
        let path = format!("/{round}");
        assert_eq!(client.get(&path).await, path);
        client
            .send("GET /long HTTP/1.1\r\nhost: a\r\n\r\nGET /next HTTP/1.1\r\nhost: a\r\n\r\n")
            .await;
        assert_eq!((client.ok().await, client.ok().await), ("/long".into(), "/next".into()));
    }
    assert_eq!(server.readings.accepted.get(), 1);
}

/// Pages in memory, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

#[test]
fn ten_thousand_idle_connections_are_cheap() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "listen::idle::server", "--nocapture"])
        .env(SERVER_VARIABLE, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}{}", String::from_utf8_lossy(&child.stderr));
    let measured = output.lines().find(|line| line.contains("bytes a connection"));
    println!("{}", measured.expect("it says what it measured"));
}

/// A process whose memory nothing else takes; alone, it does nothing.
#[tokio::test]
async fn server() {
    if std::env::var(SERVER_VARIABLE).is_err() {
        return;
    }
    let bounds = Bounds { park_time: SHORT, ..Bounds::default() };
    let server = Running::new(bounds, echo).await;
    server.client().await.get("/warm").await;
    let before = resident();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "listen::idle::clients", "--nocapture"])
        .env_remove(SERVER_VARIABLE)
        .env(ADDRESS_VARIABLE, server.address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let waiting = tokio::task::spawn_blocking(move || {
        let mut lines = output.lines();
        assert!(lines.any(|line| line.unwrap().contains("all have asked")), "the clients ended");
        lines
    });
    // Kept, so that the clients can write their end.
    let lines = waiting.await.unwrap();
    let all = u64::try_from(CONNECTIONS).unwrap();
    until("all are parked", || server.readings.parked.get() >= all).await;
    let after = resident();
    let each = (after - before) / CONNECTIONS;
    println!("RSS {} KiB, then {} KiB: {each} bytes a connection", before >> 10, after >> 10);
    // 120 MB for all of them. With hyper's buffers it would be twice that.
    assert!(each < 12_000, "{each} bytes a connection");
    // Others are served meanwhile.
    assert_eq!(server.client().await.get("/1").await, "/1");
    drop(child.stdin.take());
    let ended = tokio::task::spawn_blocking(move || (lines.count(), child.wait().unwrap())).await;
    assert!(ended.unwrap().1.success());
}

/// The other process; alone, it does nothing.
#[test]
fn clients() {
    let Ok(address) = std::env::var(ADDRESS_VARIABLE) else { return };
    let address: SocketAddr = address.parse().unwrap();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        let mut answer = [0; 16];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r");
        clients.push(client);
    }
    println!("all have asked");
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).unwrap();
}
