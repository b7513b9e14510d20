//! `indelible serve`: the server, with everything it needs in one folder.
//!
//! - `config`: what the file says that `--config` names. `token`: `indelible token`, for a server
//!   that is not running. `explain`: `indelible explain`.
#![expect(clippy::disallowed_methods, reason = "it reads the files that were named")]

mod config;
pub(crate) mod explain;
pub(crate) mod token;

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indelible_http_client::Client;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::world::{Observer, System};
use indelible_runtime::{Engine, Options, WitnessFile, World};
use indelible_server::auth::{SessionAlgorithm, SessionKeys};
use indelible_server::listen::Tls;
use indelible_server::traces::{self, Exporter, TracingObserver};
use indelible_server::{Config, Letting, ServeError, Server};
use indelible_store::embedded;
use indelible_store::rows::TABLES;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Failure, Verdict};
use crate::run::Lines;

const HELP: &str = "\
Everything is in the folder that --data names. When the server is ready, its address is the first
line on standard output; what it has to say goes to standard error.

On loopback no API key is needed, unless --keys is given: it is for development. Any other address
needs --keys, and TLS, or --behind-proxy as the word that a proxy adds it. Make the first key with
`indelible token create` before the server is started.

What components may reach, and which secrets they may send, is in the file that --config names:

  [components.shop]
  hosts = [\"api.example.com\"]
  secrets = [\"API_KEY\"]

  [secrets]
  API_KEY = \"env:SHOP_API_KEY\"

The first SIGTERM or SIGINT lets requests under way come to their answers; a second one stops at
once. Nothing is lost by either. Exit codes:
  0  it was stopped
  1  it could not start, or the store has failed
  2  the arguments make no sense
  130  it was stopped at once

Examples:
  indelible serve
  indelible serve --listen 0.0.0.0:7443 --keys --tls-cert chain.pem --tls-key key.pem
  indelible serve --config indelible.toml --keys";

/// Run the server
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Serve {
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "indelible-data")]
    data: PathBuf,
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// What components may reach, as TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Let in only those who have an API key or a session token
    #[arg(long)]
    keys: bool,
    /// The certificate chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy in front adds TLS: plain HTTP is taken from any address
    #[arg(long, conflicts_with = "tls_cert")]
    behind_proxy: bool,
    /// A further name of this server, as HOST or HOST:PORT
    #[arg(long = "host-name", value_name = "NAME")]
    names: Vec<String>,
    /// What session tokens of people are signed with: a secret (HS256), or a public key as PEM
    #[arg(long, value_name = "FILE", requires_all = ["session_audience", "keys"])]
    session_key: Option<PathBuf>,
    /// How they are signed
    #[arg(long, value_enum, default_value_t = Algorithm::Hs256, requires = "session_key")]
    session_algorithm: Algorithm,
    /// Whom they must be for: the claim `aud`
    #[arg(long, value_name = "NAME", requires = "session_key")]
    session_audience: Option<String>,
    /// Whom they must be from: the claim `iss`
    #[arg(long, value_name = "NAME", requires = "session_key")]
    session_issuer: Option<String>,
    /// Where traces are told, by OTLP over HTTP, as http://127.0.0.1:4318/v1/traces
    #[arg(long, value_name = "URL")]
    traces: Option<String>,
}

/// How long a stop waits for traces that were not told yet.
const TRACES_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Algorithm {
    Hs256,
    Es256,
    Eddsa,
    Rs256,
}

/// The exit code of a second signal: as shells have it for an interrupt.
const AT_ONCE: i32 = 130;

impl Serve {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Verdict, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot serve: {error}"));
        // Whatever is wrong with what was said is told before the folder is touched.
        let config = self.config()?;
        let client = config::client(self.config.as_deref())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let exporter = match &self.traces {
            None => None,
            Some(endpoint) => {
                let exporter = Exporter::new(traces::Config::new(endpoint));
                Some(exporter.map_err(|error| Failure::new(format!("--traces: {error}")))?)
            }
        };
        let mut observer: Arc<dyn Observer> = Arc::new(Lines);
        if let Some(exporter) = &exporter {
            let exporter = Arc::clone(exporter);
            observer = Arc::new(TracingObserver { inner: observer, exporter });
        }
        let listener = {
            let _within = runtime.enter();
            Server::listen(&config).map_err(|error| refused(&error))?
        };
        let engine = Arc::new(open(&self.data, client, &observer)?);
        let served = runtime.block_on(async {
            if let Some(exporter) = &exporter {
                exporter.start(engine.store().clone());
            }
            let clock = Arc::new(System);
            let server = Server::new(config, listener, Arc::clone(&engine), clock, observer);
            let server = server.map_err(|error| refused(&error))?;
            let mut interrupts = signals().map_err(|error| failed(&error))?;
            let told = writeln!(out, "{}", server.url()).and_then(|()| out.flush());
            crate::failure::quiet(told).map_err(|error| Failure::output(&error))?;
            note(&format!("listening on {}, data in {}", server.url(), self.data.display()));
            let (stop, stopped) = tokio::sync::oneshot::channel();
            let stopping = tokio::spawn(async move {
                interrupts.recv().await;
                note("stopping; again stops at once");
                let _ = stop.send(());
                interrupts.recv().await;
                // What was acknowledged is on disk: a stop like this is a crash, and loses nothing.
                std::process::exit(AT_ONCE);
            });
            let served = server.serve(async { drop(stopped.await) }).await;
            if let Some(exporter) = &exporter {
                exporter.close(TRACES_MAX).await;
            }
            Ok::<_, Failure>((served, stopping))
        });
        let (served, stopping) = served?;
        // Effects in flight are waited for, and what was accepted is committed, once nobody else has
        // the engine: a component may still be compiled.
        let engine = runtime.block_on(alone(engine));
        drop(engine);
        stopping.abort();
        runtime.shutdown_background();
        match served {
            Ok(_) => Ok(Verdict::Well),
            Err(error) => Err(Failure::new(error.to_string())
                .hint("look at the disk; what was acknowledged is on it")),
        }
    }

    fn config(&self) -> Result<Config, Failure> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => {
                let tls = Tls::from_pem(&read(cert)?, &read(key)?);
                Some(tls.map_err(|error| {
                    Failure::new(format!("the certificate cannot be used: {error}"))
                })?)
            }
            _ => None,
        };
        let letting = if self.keys {
            Letting::Keys { sessions: self.sessions()? }
        } else {
            Letting::Everybody
        };
        Ok(Config {
            listen: self.listen,
            tls,
            letting,
            behind_proxy: self.behind_proxy,
            names: self.names.clone(),
            ..Config::default()
        })
    }

    fn sessions(&self) -> Result<Option<SessionKeys>, Failure> {
        let (Some(file), Some(audience)) = (&self.session_key, &self.session_audience) else {
            return Ok(None);
        };
        let key = read(file)?;
        let pem = || String::from_utf8_lossy(&key).into_owned();
        let algorithm = match self.session_algorithm {
            Algorithm::Hs256 => SessionAlgorithm::Hs256(key.clone()),
            Algorithm::Es256 => SessionAlgorithm::Es256(pem()),
            Algorithm::Eddsa => SessionAlgorithm::EdDsa(pem()),
            Algorithm::Rs256 => SessionAlgorithm::Rs256(pem()),
        };
        let keys = SessionKeys::new(&algorithm, audience, self.session_issuer.as_deref());
        keys.map(Some)
            .map_err(|error| Failure::new(format!("{} cannot be used: {error}", file.display())))
    }
}

/// The engine, when nobody else has it, or after a while.
async fn alone(mut engine: Arc<Engine>) -> Arc<Engine> {
    const TURNS_MAX: u32 = 1_000;
    for _ in 0..TURNS_MAX {
        if Arc::get_mut(&mut engine).is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    engine
}

fn refused(error: &ServeError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Either signal that asks a process to end.
struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

fn signals() -> io::Result<Interrupts> {
    Ok(Interrupts {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
    })
}

impl Interrupts {
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))
}

/// How much of a table is in memory before it is written out, and how much of what was read is kept:
/// there are fifteen tables, and a server under load is to fit into 250 MB.
const MEMTABLE_BYTES: u64 = 4 << 20;
const CACHE_BYTES: u64 = 48 << 20;

/// An engine over a data folder.
pub(crate) fn open(
    folder: &Path,
    client: Client,
    observer: &Arc<dyn Observer>,
) -> Result<Engine, Failure> {
    let failed = |error: &dyn std::fmt::Display| unopened(folder, error);
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let mut options = embedded::Options::default();
    options.memtable_bytes = Some(MEMTABLE_BYTES);
    options.cache_bytes = CACHE_BYTES;
    let store = embedded::open(&folder.join("store"), &TABLES, &options);
    let store = store.map_err(|error| failed(&error))?;
    let artifacts = Artifacts::folder(folder.join("artifacts")).map_err(|error| failed(&error))?;
    let guests = Guests::new(GuestOptions::default(), artifacts).map_err(|error| failed(&error))?;
    let witness = WitnessFile::open(&folder.join("replays")).map_err(|error| failed(&error))?;
    let (observer, witness) = (Arc::clone(observer), Arc::new(witness));
    let world = World { observer, witness, http: Arc::new(client), ..World::system(guests) };
    Engine::open(store, Options::default(), world).map_err(|error| failed(&error))
}

fn unopened(folder: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("cannot open {}: {error}", folder.display()))
        .hint("one process at a time may have a data folder; --data names another")
}

/// Tells whoever watches what is going on.
fn note(text: &str) {
    // Nobody is left to tell if stderr is closed.
    _ = writeln!(io::stderr(), "{text}");
}
