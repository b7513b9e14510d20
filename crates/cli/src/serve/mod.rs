//! `indelible serve`: the server, with everything it needs in one folder.
//!
//! - `settings`: the configuration, from a file, the environment and flags. `folder`: whether a
//!   folder can hold data. `welcome`: the first lines for the person who starts the server.
//! - `explain`: `indelible explain`.
#![expect(clippy::disallowed_methods, reason = "it reads the files that were named")]

pub(crate) mod explain;
pub(crate) mod folder;
mod settings;
mod welcome;

use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indelible_http_client::Client;
use indelible_records::TABLES;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::world::{Observer, SilentObserver, System};
use indelible_runtime::{Engine, Opening, Options, WitnessFile, World};
use indelible_server::auth::{SessionAlgorithm, SessionKeys};
use indelible_server::listen::{Tls, TlsError};
use indelible_server::logs::LogFile;
use indelible_server::traces::{self, Exporter, TracingObserver};
use indelible_server::{AccessPolicy, Config, ServeError, Server, Stopped};
use indelible_store::Store;
use indelible_store::embedded::{self, EmbeddedBackend};
use tokio::signal::unix::SignalKind;
use tracing::{info, warn};

use self::settings::{Algorithm, Layer, Settings, Value};
use crate::compile;
use crate::failure::{Exit, Failure};
use crate::log::{self, Format};
use crate::signals::Signals;

const HELP: &str = "\
The server keeps everything in the folder that --data names. When it is ready, it prints its address
as the first line on standard output. Its log goes to standard error; --log sets the level.

On loopback, for development, callers need no API key unless --keys is given. Any other address
needs --keys and TLS; --behind-proxy states that a proxy in front adds the TLS. Create the first key
with `indelible token create NAME --role admin --data DIR` before you start the server.

Every setting can also be in a TOML file, named by --config or INDELIBLE_CONFIG, or in the
environment (INDELIBLE_LISTEN, INDELIBLE_DATA, and so on). Flags override the environment, which
overrides the file, which overrides the defaults. --print-config prints the effective values and
where each comes from, and starts nothing. Relative paths in the file start at the file's folder.
Only the file can grant components hosts and secrets:

  listen = \"0.0.0.0:7443\"
  keys = true

  [tls]
  cert = \"chain.pem\"
  key = \"key.pem\"

  [retention]
  completed = \"30d\"

  [components.shop]
  hosts = [\"api.example.com\"]
  secrets = [\"API_KEY\"]

  [secrets]
  API_KEY = \"env:SHOP_API_KEY\"

On the first SIGTERM or SIGINT the server finishes the requests under way and stops; on the second
it stops at once. Neither loses anything. Exit codes:
  0    the server was stopped
  1    the server could not start, or its store failed
  2    invalid arguments
  130  the server was stopped at once

Examples:
  indelible serve
  indelible serve --listen 0.0.0.0:7443 --keys --tls-cert chain.pem --tls-key key.pem
  indelible serve --config indelible.toml
  indelible serve --config indelible.toml --print-config";

/// Run the server
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Serve {
    /// Where everything is kept [default: indelible-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where to listen; port 0 is any that is free [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The configuration file, as TOML [env: INDELIBLE_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Let in only those who have an API key or a session token
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    keys: Option<String>,
    /// The certificate chain, as PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// A proxy in front adds TLS: plain HTTP is taken from any address
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    behind_proxy: Option<String>,
    /// A further name of this server, as HOST or HOST:PORT; may be given several times
    #[arg(long = "host-name", value_name = "NAME")]
    names: Vec<String>,
    /// Send functions' requests through the proxies that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and
    /// NO_PROXY name
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    proxy_from_environment: Option<String>,
    /// What session tokens of people are signed with: a secret (HS256), or a public key as PEM
    #[arg(long, value_name = "FILE")]
    session_key: Option<PathBuf>,
    /// How they are signed: hs256, es256, eddsa or rs256 [default: hs256]
    #[arg(long, value_name = "ALGORITHM")]
    session_algorithm: Option<String>,
    /// Whom they must be for: the claim `aud`
    #[arg(long, value_name = "NAME")]
    session_audience: Option<String>,
    /// Whom they must be from: the claim `iss`
    #[arg(long, value_name = "NAME")]
    session_issuer: Option<String>,
    /// Where traces are told, by OTLP over HTTP, as http://127.0.0.1:4318/v1/traces
    #[arg(long, value_name = "URL")]
    traces: Option<String>,
    /// Start on hold: everything is shown, and nothing goes on until an admin lifts the hold with
    /// `indelible hold lift`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    paused: Option<String>,
    /// What is logged to standard error: a level (off, error, warn, info, debug, trace), and levels
    /// of targets, as info,indelible_store=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How a line of it looks: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// How long executions that returned are kept, as 12h or 30d [default: forever]
    #[arg(long, value_name = "TIME")]
    retention_completed: Option<String>,
    /// How long executions that failed are kept [default: forever]
    #[arg(long, value_name = "TIME")]
    retention_failed: Option<String>,
    /// How long executions that were cancelled are kept [default: forever]
    #[arg(long, value_name = "TIME")]
    retention_cancelled: Option<String>,
    /// Print the configuration as it stands, and where each value is from; start nothing
    #[arg(long)]
    print_config: bool,
    /// Print that as JSON
    #[arg(long, requires = "print_config")]
    json: bool,
}

/// How long a stop waits for the export of the last traces.
const TRACES_MAX: Duration = Duration::from_secs(2);

/// Up to how many open questions are counted at the start.
const UNKNOWN_COUNTED_MAX: usize = 1_000;

impl Serve {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot serve: {error}"));
        let (settings, warnings) = settings::load(self.config.as_deref(), self.flags())?;
        let format = settings.get("log_format").expect("it has a default");
        if !self.print_config {
            log::start(settings.get("log").expect("it has a default"), format);
        }
        warnings.iter().for_each(|warning| log::warn(warning));
        if self.print_config {
            let print = if self.json { settings::print::json } else { settings::print::toml };
            let told = out.write_all(print(&settings).as_bytes());
            return crate::failure::quiet(told).map_err(|error| Failure::output(&error));
        }
        // All files that this process makes are private to its user; the storage backend has no
        // option for it.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        // Mistakes in the configuration are reported before the folder is touched.
        let mut config = config(&settings)?;
        folder::check(settings.data())?;
        let client = settings.reach.client(settings.is_on("proxy_from_environment"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let exporter = match settings.get::<String>("traces") {
            None => None,
            Some(endpoint) => {
                let called = settings.called("traces");
                let exporter = Exporter::new(traces::Config::new(endpoint));
                Some(exporter.map_err(|error| {
                    Failure::new(format!("{called}: {error}")).hint(
                        "give the URL of a collector, such as \
                             http://127.0.0.1:4318/v1/traces",
                    )
                })?)
            }
        };
        let logs = settings.data().join("logs");
        let logs = LogFile::new(logs, &config.options, Arc::new(System), Arc::new(SilentObserver));
        let logs = Arc::new(logs);
        config.logs = Some(Arc::clone(&logs));
        let mut observer: Arc<dyn Observer> = logs;
        if let Some(exporter) = &exporter {
            let exporter = Arc::clone(exporter);
            observer = Arc::new(TracingObserver { inner: observer, exporter });
        }
        let listener = {
            let _within = runtime.enter();
            Server::listen(&config).map_err(|error| refused(&error))?
        };
        let opening = if settings.is_on("paused") { Opening::OnHold } else { Opening::AtWork };
        let mut engine = open(settings.data(), client, &observer, opening)?;
        engine.retain(settings.retention()).map_err(|error| failed(&error))?;
        let engine = Arc::new(engine);
        let served = runtime.block_on(async {
            if let Some(exporter) = &exporter {
                exporter.start(engine.store().clone());
            }
            let clock = Arc::new(System);
            let server = Server::new(config, listener, Arc::clone(&engine), clock);
            let server = server.map_err(|error| refused(&error))?;
            let ends = [SignalKind::interrupt(), SignalKind::terminate()];
            let mut interrupts = Signals::listen(ends).map_err(|error| failed(&error))?;
            let told = writeln!(out, "{}", server.url()).and_then(|()| out.flush());
            crate::failure::quiet(told).map_err(|error| Failure::output(&error))?;
            let nothing_deployed = engine.components().await.is_ok_and(|all| all.is_empty());
            let unresolved = engine.open_doubts(UNKNOWN_COUNTED_MAX).await;
            let (unknown, _) = unresolved.unwrap_or_default();
            let welcome = welcome::Welcome {
                url: &server.url(),
                data: settings.data(),
                keys: settings.is_on("keys"),
                nothing_deployed,
                unknown: (unknown, unknown == UNKNOWN_COUNTED_MAX),
                hold: engine.hold(),
                closed_until: engine.closed_until(),
            };
            // With JSON logs, every line of stderr has to be JSON.
            if format == Format::Text {
                welcome.lines(io::stderr().is_terminal()).iter().for_each(|line| note(line));
            }
            let data = settings.data().display();
            info!(url = server.url(), %data, unresolved = unknown, "server ready");
            if let Some(hold) = engine.hold() {
                warn!(%hold, hint = "`indelible hold show`, then `indelible hold lift`",
                    "server is on hold; nothing goes on until an operator lifts the hold");
            } else if let Some(until) = engine.closed_until() {
                warn!(%until, hint = "`indelible hold show`, then `indelible hold lift`",
                    "data was restored; unknown keys and ids are refused until an operator lifts \
                     the hold");
            }
            let (stop, stopped) = tokio::sync::oneshot::channel();
            let stopping = tokio::spawn(async move {
                interrupts.any().await;
                info!("server stopping; a second signal stops it at once");
                let _ = stop.send(());
                interrupts.any().await;
                // Acknowledged work is on disk: this stop is like a crash, and loses nothing.
                std::process::exit(Exit::Interrupted as i32);
            });
            let served = server.serve(async { drop(stopped.await) }).await;
            if let Some(exporter) = &exporter {
                exporter.close(TRACES_MAX).await;
            }
            Ok::<_, Failure>((served, stopping))
        });
        let (served, stopping) = served?;
        // Dropping the engine waits for effects in flight and commits what was accepted, so this
        // must be the last handle: a request that still compiles a component has another.
        let engine = runtime.block_on(alone(engine));
        drop(engine);
        stopping.abort();
        runtime.shutdown_background();
        match served {
            Ok(Stopped { cut }) => {
                info!(connections_cut = cut, "server stopped");
                Ok(())
            }
            Err(error) => Err(Failure::new(error.to_string()).hint(
                "check the disk; everything acknowledged is on it. `indelible store check` tells \
                 whether the folder is damaged",
            )),
        }
    }

    /// What the flags say.
    fn flags(&self) -> Layer {
        let text = |text: &Option<String>| text.as_ref().map(|text| Value::Text(text.into()));
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| Value::Text(path.into()));
        let names = (!self.names.is_empty()).then(|| Value::Toml(self.names.clone().into()));
        let given = [
            ("listen", text(&self.listen)),
            ("data", path(&self.data)),
            ("keys", text(&self.keys)),
            ("behind_proxy", text(&self.behind_proxy)),
            ("host_names", names),
            ("proxy_from_environment", text(&self.proxy_from_environment)),
            ("traces", text(&self.traces)),
            ("paused", text(&self.paused)),
            ("log", text(&self.log)),
            ("log_format", text(&self.log_format)),
            ("tls.cert", path(&self.tls_cert)),
            ("tls.key", path(&self.tls_key)),
            ("sessions.key", path(&self.session_key)),
            ("sessions.algorithm", text(&self.session_algorithm)),
            ("sessions.audience", text(&self.session_audience)),
            ("sessions.issuer", text(&self.session_issuer)),
            ("retention.completed", text(&self.retention_completed)),
            ("retention.failed", text(&self.retention_failed)),
            ("retention.cancelled", text(&self.retention_cancelled)),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// The server's configuration, from the settings.
fn config(settings: &Settings) -> Result<Config, Failure> {
    let letting = if settings.is_on("keys") {
        AccessPolicy::Keys { sessions: sessions(settings)? }
    } else {
        AccessPolicy::Open
    };
    Ok(Config {
        listen: settings.get("listen").expect("it has a default"),
        tls: tls(settings)?,
        letting,
        behind_proxy: settings.is_on("behind_proxy"),
        names: settings.get("host_names").unwrap_or_default(),
        ..Config::default()
    })
}

fn tls(settings: &Settings) -> Result<Option<Tls>, Failure> {
    let [cert, key] = ["tls.cert", "tls.key"].map(|key| settings.path(key));
    let (Some(cert), Some(key)) = (cert, key) else { return Ok(None) };
    let [cert_is, key_is] = ["tls.cert", "tls.key"].map(|key| settings.called(key));
    let tls = Tls::from_pem(&read(cert_is, cert)?, &read(key_is, key)?);
    let failure = |error| match error {
        TlsError::NoCertificate => {
            Failure::new(format!("{cert_is}: {} has no certificate in PEM", cert.display())).hint(
                "the file needs -----BEGIN CERTIFICATE-----, with the server's own \
                     certificate first",
            )
        }
        TlsError::NoKey => {
            Failure::new(format!("{key_is}: {} has no private key in PEM", key.display()))
                .hint("the file needs -----BEGIN PRIVATE KEY-----, not encrypted")
        }
        error => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let why = cause.unwrap_or_else(|| error.to_string());
            Failure::new(format!("{cert_is}: {} cannot be used: {why}", cert.display()))
                .hint("the private key must belong to the certificate")
        }
    };
    tls.map(Some).map_err(failure)
}

fn sessions(settings: &Settings) -> Result<Option<SessionKeys>, Failure> {
    let Some(file) = settings.path("sessions.key") else { return Ok(None) };
    let audience: String = settings.get("sessions.audience").expect("the key needs it");
    let issuer: Option<String> = settings.get("sessions.issuer");
    let called = settings.called("sessions.key");
    let key = read(called, file)?;
    let pem = || String::from_utf8_lossy(&key).into_owned();
    let algorithm = match settings.get("sessions.algorithm").expect("it has a default") {
        Algorithm::Hs256 => SessionAlgorithm::Hs256(key.clone()),
        Algorithm::Es256 => SessionAlgorithm::Es256(pem()),
        Algorithm::Eddsa => SessionAlgorithm::EdDsa(pem()),
        Algorithm::Rs256 => SessionAlgorithm::Rs256(pem()),
    };
    let keys = SessionKeys::new(&algorithm, &audience, issuer.as_deref());
    keys.map(Some).map_err(|error| {
        Failure::new(format!("{called}: {} cannot be used: {error}", file.display()))
            .hint("use a secret of 32 bytes or more for hs256, a public key in PEM for the others")
    })
}

/// Waits until no other task has a handle of the engine, for 10 seconds at most.
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

/// Reads the file that a setting names; `called` is the setting's name in messages.
fn read(called: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        Failure::new(format!("{called}: cannot read {}: {error}", path.display())).hint(
            "paths in a configuration file are relative to its folder, others to the current \
                 folder",
        )
    })
}

/// The memory for the writes of one table before they are flushed, and for the cache of reads.
/// Every table has its own write buffer, and a server under load is to fit into 250 MB.
const MEMTABLE_BYTES: u64 = 4 << 20;
const CACHE_BYTES: u64 = 48 << 20;

/// An engine over a data folder.
pub(crate) fn open(
    folder: &Path,
    client: Client,
    observer: &Arc<dyn Observer>,
    opening: Opening,
) -> Result<Engine, Failure> {
    folder::check(folder)?;
    let failed = |error: &(dyn std::error::Error + 'static)| folder::unopened(folder, error);
    folder::make(folder).map_err(|error| failed(&error))?;
    let mut options = embedded::Options::default();
    options.memtable_bytes = Some(MEMTABLE_BYTES);
    options.cache_bytes = CACHE_BYTES;
    if let Some(warning) = folder::close(folder) {
        log::warn(&warning);
    }
    let opened = EmbeddedBackend::open(&folder.join("store"), &TABLES, &options);
    let store = opened.and_then(|engine| {
        if let Some(recovered) = engine.recovered() {
            log::warn(&format!("{recovered}; it was never acknowledged"));
        }
        Ok(Store::start(Arc::new(engine), &TABLES, options.bounds)?)
    });
    let store = store.map_err(|error| folder::unopened_store(folder, &error))?;
    let artifacts = Artifacts::folder(folder.join("artifacts")).map_err(|error| failed(&error))?;
    let guests = GuestOptions { compiler: compile::compiler(), ..GuestOptions::default() };
    let guests = Guests::new(guests, artifacts).map_err(|error| failed(&error))?;
    let witness = WitnessFile::open(&folder.join("replays")).map_err(|error| failed(&error))?;
    if let Some(put_aside) = witness.put_aside() {
        log::warn(&put_aside.to_string());
    }
    let (observer, witness) = (Arc::clone(observer), Arc::new(witness));
    let world = World { observer, witness, http: Arc::new(client), ..World::system(guests) };
    let engine = Engine::open(store, Options { opening, ..Options::default() }, world);
    engine.map_err(|error| folder::unopened_engine(folder, &error))
}

/// Writes a line to stderr for the person who started the server.
fn note(text: &str) {
    // If stderr is closed there is no other place to say so.
    _ = writeln!(io::stderr(), "{text}");
}
