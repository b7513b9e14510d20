//! A process without descriptors. In a process of its own: the limit holds for all tests of a
//! process.

use std::process::Command;

use indelible_server::listen::Bounds;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpSocket;

use crate::listen::support::{Client, Running, echo, until};

const VARIABLE: &str = "INDELIBLE_TEST_NO_DESCRIPTORS";

#[test]
fn who_cannot_be_accepted_is_accepted_later() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "listen::descriptors::in_another_process", "--nocapture"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}{}", String::from_utf8_lossy(&child.stderr));
    assert!(output.contains("served late"), "{output}");
}

/// The other process; alone, it does nothing.
#[tokio::test]
async fn in_another_process() {
    if std::env::var(VARIABLE).is_err() {
        return;
    }
    // The server raises what it may.
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: hard }).unwrap();
    let server = Running::new(Bounds::default(), echo).await;
    let mut early = server.client().await;
    assert_eq!(early.get("/1").await, "/1");
    assert_eq!(getrlimit(Resource::Nofile).current, hard);
    // Nothing more can be opened.
    let late = TcpSocket::new_v4().unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: hard }).unwrap();
    let mut fillers = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        fillers.push(file);
    }
    let mut late = Client(late.connect(server.address).await.unwrap());
    until("it cannot be accepted", || server.readings.accept_failed.get() > 0).await;
    // A client that is connected is served, and the accept loop does not spin on its failures.
    for _ in 0..100 {
        assert_eq!(early.get("/2").await, "/2");
    }
    assert!(server.readings.accept_failed.get() < 100);
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    assert_eq!(late.get("/3").await, "/3");
    println!("served late");
}
