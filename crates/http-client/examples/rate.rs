//! How many requests a second the client sends to one peer, with 64 on their way: `cargo run
//! --release -p indelible-http-client --example rate`. The peer runs in the same process and shares
//! the machine; what the client's own thread takes is shown apart.
#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::disallowed_methods, reason = "it measures, and asks the system for CPU times")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use indelible_http::{Attempt, End, Part, Request, Sender};
use indelible_http_client::{Client, Config, Grant, Grants, Network};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const IN_FLIGHT: usize = 64;
const REQUESTS: usize = 100_000;
const COMPONENT: &str = "bench";

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"charged\":100}";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("peer")
        .enable_all()
        .build()
        .expect("a thread");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("a listener has an address");
    runtime.spawn(peer(listener));

    let grant = Grant {
        hosts: vec![address.to_string().parse().expect("an address is a host")],
        networks: Network::loopback().to_vec(),
        plain_http: true,
        ..Grant::default()
    };
    let config = Config { grants: Grants::from_iter([(COMPONENT, grant)]), ..Config::default() };
    let client = Arc::new(Client::start(config).expect("a client"));
    let attempt = Attempt {
        request: Request {
            method: "POST".into(),
            url: format!("http://{address}/charges"),
            headers: vec![],
            body: vec![Part::Bytes(b"{\"amount\":100}".as_slice().into())],
        },
        idempotency_key: "5b1f3f6e-3c7e-7c62-9d5e-0b5b0f6a7a11".into(),
        trace_parent: None,
        components: [COMPONENT.to_owned()].into(),
        timeout: Duration::from_secs(30),
        response_bytes_max: 1 << 20,
        idem: false,
    };
    // Once to warm up.
    for round in 0..2 {
        let (cpu, start) = (cpu_seconds("indelible-http"), Instant::now());
        run(&client, &attempt);
        let (cpu, took) = (cpu_seconds("indelible-http") - cpu, start.elapsed().as_secs_f64());
        if round > 0 {
            let count = REQUESTS as f64;
            println!(
                "{:.0} requests/s, {IN_FLIGHT} in flight; the client's thread: {:.1} µs of CPU \
                 each, {:.0} requests/s on half a core",
                count / took,
                cpu / count * 1e6,
                count / cpu / 2.0,
            );
        }
    }
}

/// Keeps so many on their way, and waits for the last.
fn run(client: &Arc<Client>, attempt: &Attempt) {
    let (tell, told) = channel();
    let left = Arc::new(AtomicUsize::new(REQUESTS));
    for _ in 0..IN_FLIGHT {
        next(client, attempt.clone(), left.clone(), tell.clone());
    }
    for _ in 0..REQUESTS {
        assert!(told.recv().expect("every attempt ends"), "an answer");
    }
}

fn next(
    client: &Arc<Client>,
    attempt: Attempt,
    left: Arc<AtomicUsize>,
    tell: std::sync::mpsc::Sender<bool>,
) {
    if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    {
        return;
    }
    let again = (client.clone(), attempt.clone());
    client.send(
        attempt,
        Box::new(move |end| {
            let _ = tell.send(matches!(end, End::Answered(_)));
            next(&again.0, again.1.clone(), left.clone(), tell.clone());
        }),
    );
}

/// Reads as much as is there and answers every request in it.
async fn peer(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        stream.set_nodelay(true).expect("an open connection");
        tokio::spawn(async move {
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                let requests =
                    buffer[..count].windows(4).filter(|four| four == b"\r\n\r\n").count();
                if stream.write_all(&ANSWER.repeat(requests)).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// What the threads of this name have used. Linux only: nothing elsewhere.
fn cpu_seconds(name: &str) -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return f64::NAN };
    let seconds = |path: std::path::PathBuf| {
        let comm = std::fs::read_to_string(path.join("comm")).ok()?;
        if !comm.trim().starts_with(name) {
            return None;
        }
        let schedule = std::fs::read_to_string(path.join("schedstat")).ok()?;
        schedule.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1e9)
    };
    tasks.filter_map(|task| seconds(task.ok()?.path())).sum()
}
