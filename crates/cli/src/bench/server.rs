//! `indelible bench --url`: calls over HTTP, as programs make them: many keep-alive connections,
//! each call under its own key; then one connection alone, with the disk for comparison; then known
//! keys. Without a URL, the benchmark starts a server in a process of its own.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::io::{BufRead as _, BufReader, Write};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, value_parser};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::drive::{Producer, Stretch, drive_for};
use super::house::{self, COMPONENT, EngineArguments};
use super::place::{BenchFolder, Guest};
use super::report::{Measurement, Report, figures, latency, micros, round};
use super::{guest, meters, note, raw};
use crate::failure::Failure;

/// The longest time until a server is ready.
const READY_MAX: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct ServerArguments {
    /// The server to call, as http://127.0.0.1:7070; the component of the benchmark is deployed to
    /// it. Without it, one is started in a folder of its own
    #[arg(long, value_name = "URL")]
    url: Option<Uri>,
    /// The variable that has the API key to call it with
    #[arg(long, value_name = "VARIABLE", requires = "url")]
    token_env: Option<String>,
    /// How many connections call at once
    #[arg(long, value_name = "N", default_value = "64",
        value_parser = value_parser!(u32).range(1..=4096))]
    pub(super) connections: u32,
    /// How long each measurement takes
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=86_400))]
    pub(super) seconds: u32,
    #[command(flatten)]
    pub(super) place: EngineArguments,
}

/// A server to call.
#[derive(Clone)]
pub(super) struct Target {
    authority: String,
    authorization: Option<String>,
    /// The process id, if the server is our own.
    process: Option<u32>,
}

pub(super) fn run(
    arguments: &ServerArguments,
    runtime: &Runtime,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let component = guest::component(arguments.place.guest.as_deref())?;
    let place = arguments.place.folder.make(runtime)?;
    let mut report = Report::new(out, arguments.place.json);
    let (target, server) = arguments.target(runtime, &place, &mut report)?;
    let bench = Bench { arguments, runtime, target: &target };
    bench.deploy(component)?;
    // The first calls load the component, which is not measured.
    bench.drive(arguments.connections, Duration::from_millis(200), Keys::Fresh)?;

    let (connections, length) =
        (arguments.connections, Duration::from_secs(arguments.seconds.into()));
    let driven = bench.drive(connections, length, Keys::Fresh)?;
    report.measurement(&bench.measurement("call", connections, &driven, None))?;

    let alone = || bench.drive(1, length, Keys::Fresh);
    let (driven, raw_sync_us) = raw::beside(runtime, &place, alone)?;
    report.measurement(&bench.measurement("call alone", 1, &driven, Some(raw_sync_us)))?;

    let driven = bench.drive(connections, length, Keys::Known)?;
    report.measurement(&bench.measurement("replay", connections, &driven, None))?;
    if let Some(server) = server {
        server.kill();
    }
    Ok(())
}

impl ServerArguments {
    /// The server to call, and its process if it was started for this.
    pub(super) fn target<W: Write>(
        &self,
        runtime: &Runtime,
        place: &Arc<BenchFolder>,
        report: &mut Report<'_, W>,
    ) -> Result<(Target, Option<Guest>), Failure> {
        if let Some(url) = &self.url {
            return Ok((Target::named(url, self.token_env.as_deref())?, None));
        }
        let (target, guest, took) = started(runtime, place)?;
        let (rss_mb, ready_ms) = (target.rss_mb(), round(took.as_secs_f64() * 1e3, 1));
        let text = format!(
            "serve: ready after {ready_ms:.0} ms, {} MB of memory",
            rss_mb.map_or("?".to_owned(), |mb| format!("{mb:.0}")),
        );
        report.measurement(&Measurement::new("serve", figures!(ready_ms, rss_mb), text))?;
        Ok((target, Some(guest)))
    }
}

/// Starts a server: its address, and how long it took to be ready.
fn started(
    runtime: &Runtime,
    place: &Arc<BenchFolder>,
) -> Result<(Target, Guest, Duration), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot start a server: {error}"))
            .hint("run `indelible serve` by itself to see why")
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Process::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(place.join("data"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let began = Instant::now();
    let (guest, output) = place.let_in(&mut command).map_err(|error| failed(&error))?;
    let mut line = String::new();
    let mut output = BufReader::new(output.ok_or_else(|| failed(&"it printed nothing"))?);
    output.read_line(&mut line).map_err(|error| failed(&error))?;
    let url: Uri = line.trim().parse().map_err(|_| failed(&"it ended at once"))?;
    let target = Target { process: Some(guest.id()), ..Target::named(&url, None)? };
    runtime.block_on(async {
        let mut connection = Connection::new(target.clone()).await?;
        while began.elapsed() < READY_MAX {
            let (status, _) = connection.get("/v1/ready").await?;
            if status == StatusCode::OK {
                return Ok(());
            }
        }
        Err(failed(&"it did not become ready in time"))
    })?;
    Ok((target, guest, began.elapsed()))
}

impl Target {
    fn named(url: &Uri, token_env: Option<&str>) -> Result<Self, Failure> {
        let authority = url.authority().filter(|_| url.scheme_str() == Some("http"));
        let authority = authority.ok_or_else(|| {
            Failure::new("the URL must be http://HOST:PORT").hint("the benchmark uses plain HTTP")
        })?;
        let token = token_env.map(|name| {
            std::env::var(name).map_err(|_| Failure::new(format!("{name} is not set")))
        });
        let authorization = token.transpose()?.map(|token| format!("Bearer {token}"));
        Ok(Self { authority: authority.to_string(), authorization, process: None })
    }

    pub(super) fn rss_mb(&self) -> Option<f64> {
        self.process.and_then(|process| meters::rss_mb_of(&process.to_string()))
    }

    /// How often the server's store has synced.
    pub(super) fn syncs(&self, runtime: &Runtime) -> Option<u64> {
        let metrics =
            runtime.block_on(async { Connection::new(self.clone()).await?.get("/metrics").await });
        let (_, body) = metrics.ok()?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let line =
            text.lines().find_map(|line| line.strip_prefix("indelible_store_syncs_total "))?;
        line.trim().parse().ok()
    }
}

/// A keep-alive connection.
pub(super) struct Connection {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(super) async fn new(target: Target) -> Result<Self, Failure> {
        let stream = TcpStream::connect(&target.authority).await.map_err(|error| {
            Failure::new(format!("cannot connect to {}: {error}", target.authority))
                .hint("start a server with `indelible serve`")
        })?;
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| broken(&error))?;
        // If the connection ends, the next request returns the error.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { target, sender })
    }

    async fn get(&mut self, path: &str) -> Result<(StatusCode, Bytes), Failure> {
        self.send(Method::GET, path, None, None, Bytes::new()).await
    }

    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        key: Option<&str>,
        kind: Option<&str>,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", &self.target.authority);
        let headers = [("idempotency-key", key), ("content-type", kind)];
        let own = ("authorization", self.target.authorization.as_deref());
        for (name, value) in headers.into_iter().chain([own]) {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let request = request.body(Full::new(body)).expect("its parts are good");
        self.sender.ready().await.map_err(|error| broken(&error))?;
        let response = self.sender.send_request(request).await;
        let response = response.map_err(|error| broken(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| broken(&error))?;
        Ok((status, body.to_bytes()))
    }
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("a connection broke: {error}")).hint("see the server's log")
}

/// Which keys the calls have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// A key that was never used.
    Fresh,
    /// A key that was used before.
    Known,
}

/// Calls one function again and again.
struct Caller {
    connection: Connection,
    /// Tells callers and runs apart.
    prefix: String,
    number: u64,
    keys: Keys,
}

impl Producer for Caller {
    type Input = String;

    fn prepare(&mut self) -> String {
        if self.keys == Keys::Fresh {
            self.number += 1;
        }
        format!("{}-{}", self.prefix, self.number)
    }

    async fn commit(&mut self, key: String) -> Result<(), Failure> {
        let path = concat!("/v1/call/", "bench", "/echo");
        let (key, kind) = (Some(key.as_str()), Some("application/json"));
        let body = Bytes::from_static(b"{\"n\":1}");
        let (status, body) = self.connection.send(Method::POST, path, key, kind, body).await?;
        if status == StatusCode::OK {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        Err(Failure::new(format!("a call was answered with {status}: {body}")))
    }
}

struct Bench<'a> {
    arguments: &'a ServerArguments,
    runtime: &'a Runtime,
    target: &'a Target,
}

impl Bench<'_> {
    fn deploy(&self, component: Vec<u8>) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let mut connection = Connection::new(self.target.clone()).await?;
            let path = format!("/v1/components/{COMPONENT}");
            let (kind, component) = (Some("application/wasm"), component.into());
            let sent = connection.send(Method::PUT, &path, None, kind, component).await?;
            match sent {
                (StatusCode::OK, _) => Ok(()),
                (status, body) => {
                    let body = String::from_utf8_lossy(&body).into_owned();
                    Err(Failure::new(format!("the component was not deployed: {status} {body}")))
                }
            }
        })
    }

    fn drive(
        &self,
        connections: u32,
        length: Duration,
        keys: Keys,
    ) -> Result<(Stretch, Option<u64>), Failure> {
        if self.arguments.url.is_some() {
            note("calls go to a server that others may use");
        }
        let since = house::moment();
        let callers = self.runtime.block_on(async {
            let mut callers = Vec::new();
            for number in 0..connections {
                let connection = Connection::new(self.target.clone()).await?;
                let prefix = format!("bench-{since}-{number}");
                let mut caller = Caller { connection, prefix, number: 0, keys };
                if keys == Keys::Known {
                    // This call makes the key known.
                    let key = caller.prepare();
                    caller.commit(key).await?;
                }
                callers.push(caller);
            }
            Ok(callers)
        })?;
        let before = self.target.syncs(self.runtime);
        let driven = drive_for(self.runtime, callers, length)?;
        let fsyncs =
            before.zip(self.target.syncs(self.runtime)).map(|(before, after)| after - before);
        Ok((driven, fsyncs))
    }

    fn measurement(
        &self,
        workload: &'static str,
        connections: u32,
        (stretch, fsyncs): &(Stretch, Option<u64>),
        raw_sync_us: Option<f64>,
    ) -> Measurement {
        let (seconds, count) = (round(stretch.seconds, 3), stretch.latencies.count());
        let per_s = round(stretch.per_s(), 1);
        let [p50_us, p99_us] = stretch.latencies.micros([500, 990]);
        let max_us = micros(stretch.latencies.max());
        let rss_mb = self.target.rss_mb();
        let beside = raw_sync_us.map_or(String::new(), |sync| {
            format!(" (a sync of the disk alone: {})", latency(sync))
        });
        let syncs = fsyncs.map_or(String::new(), |fsyncs| {
            format!(", {:.3} syncs each", fsyncs as f64 / count.max(1) as f64)
        });
        let memory = rss_mb.map_or(String::new(), |mb| format!(", {mb:.0} MB"));
        let text = format!(
            "{workload}: {per_s:.0} per s, {connections} connections, p50 {}{beside}, p99 {}, \
             longest {}{syncs}{memory}",
            latency(p50_us),
            latency(p99_us),
            latency(max_us),
        );
        let mut figures = figures! {
            connections, seconds, count, per_s, p50_us, p99_us, max_us, fsyncs, rss_mb
        };
        if let Some(raw_sync_us) = raw_sync_us {
            figures = figures.with("raw_sync_us", raw_sync_us);
        }
        Measurement::new(workload, figures, text)
    }
}
