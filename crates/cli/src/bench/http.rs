//! `indelible bench http`: workflows that send HTTP requests to a peer that answers at once, on this
//! machine; beside them the disk itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use indelible_http::{Attempt, Report as AttemptReport, Sender};
use indelible_http_client::{Client, Config, Grant, Network};
use indelible_http_peer::Peer;
use indelible_runtime::World;
use serde::Serialize;

use super::calls::{self, Caller, Load, StepsArguments};
use super::drive::{Stretch, Windows, drive};
use super::house::{self, Measure, Site};
use super::raw;
use super::report::{latency, micros, round};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
A function sends N POST requests, one after the other; each is journaled before it leaves and when
its answer has arrived, and none is ever sent twice. The peer answers at once and runs in this
process, on the same cores. `per s` counts requests.

A POST leaves on a connection that was heard within milliseconds, or on a new one, because a peer may
close any other while it is on its way. The second row is what that costs: the same twice more, with
any open connection, and with a new one for each request.

raw is the disk itself with one producer: one write and one fdatasync after the other, for a second
right before and a second right after. A step alone is to take no longer than two of its syncs and a
millisecond: --in-flight 1.

Examples:
  indelible bench http
  indelible bench http --n 10 --in-flight 1
  indelible bench http --n 100 --seconds 20 --json";

#[derive(Args)]
pub(crate) struct HttpArguments {
    #[command(flatten)]
    steps: StepsArguments,
}

/// One measurement.
#[derive(Serialize)]
pub(crate) struct Line {
    #[serde(flatten)]
    calls: calls::Line,
    /// The time of one request within its workflow.
    step_p50_us: f64,
    fsyncs_per_request: f64,
    raw_sync_us: f64,
    /// Requests a second with any open connection.
    any_connection_per_s: f64,
    /// Requests a second with a new connection for each.
    new_connection_per_s: f64,
}

/// For how long a connection may be silent to carry a POST: as it is, for ever, and not at all.
const SILENCES: [Option<Duration>; 3] = [None, Some(Duration::MAX), Some(Duration::ZERO)];

/// A client for each of [`SILENCES`], of which one is in use.
struct Clients {
    clients: Vec<Client>,
    used: AtomicUsize,
}

impl Clients {
    fn start(peer: &Peer) -> Result<Self, Failure> {
        let start = |silence: Option<Duration>| {
            let mut config = config(peer);
            if let Some(silence) = silence {
                config.bounds.idle_time_not_idem = silence;
            }
            Client::start(config).map_err(|error| unable("start a client", &error))
        };
        let clients = SILENCES.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { clients, used: AtomicUsize::new(0) })
    }
}

impl Sender for Clients {
    fn send(&self, attempt: Attempt, report: AttemptReport) {
        self.clients[self.used.load(Ordering::Relaxed)].send(attempt, report);
    }
}

impl Measure for HttpArguments {
    type Line = Line;

    fn measure(&self, site: &Site<'_>) -> Result<(Line, String), Failure> {
        let (runtime, place) = (site.runtime, site.place);
        let StepsArguments { n, load: Load { in_flight, seconds } } = self.steps;
        let peer = Peer::start_on(0).map_err(|error| unable("start a peer", &error))?;
        let clients = Arc::new(Clients::start(&peer)?);
        let world = World { http: clients.clone(), ..site.world()? };
        let engine = site.engine(world)?;
        let input = format!("[{n},\"{}\"]", peer.url("/fast"));
        let callers = |count| {
            let caller = |_| Caller::new(&engine, "requests", &input);
            (0..count).map(caller).collect::<Vec<_>>()
        };
        // The first ones load the component and connect; that is not what is measured.
        let once = Windows { length: Duration::from_millis(1), count: 1 };
        drive(runtime, callers(in_flight), once, |_| Ok(()))?;

        let second = Windows { length: Duration::from_secs(1), count: 1 };
        let file = place.join("raw");
        let mut syncs = raw::run(runtime, &file, 1, second)?.driven.all;
        let before = engine.readings().store.groups;
        let windows = Windows { length: Duration::from_secs(seconds.into()), count: 1 };
        let driven = drive(runtime, callers(in_flight), windows, |_| Ok(()))?.all;
        let fsyncs = engine.readings().store.groups - before;
        syncs.merge(&raw::run(runtime, &file, 1, second)?.driven.all);
        let per_s = |driven: &Stretch| round(driven.per_s() * f64::from(n), 1);
        let otherwise = |client| {
            clients.used.store(client, Ordering::Relaxed);
            drive(runtime, callers(in_flight), once, |_| Ok(()))?;
            Ok(per_s(&drive(runtime, callers(in_flight), windows, |_| Ok(()))?.all))
        };
        let (any_connection_per_s, new_connection_per_s) = (otherwise(1)?, otherwise(2)?);

        let calls = calls::Line::of("http", (n, in_flight), &driven, fsyncs);
        let requests = (calls.count.max(1) * u64::from(n)) as f64;
        let line = Line {
            step_p50_us: round(calls.p50_us / f64::from(n), 2),
            fsyncs_per_request: round(fsyncs as f64 / requests, 3),
            raw_sync_us: micros(syncs.latencies.per_mille(500)),
            any_connection_per_s,
            new_connection_per_s,
            calls,
        };
        let text = format!(
            "http: {:.0} per s, {in_flight} in flight, {} each (a sync of the disk alone: {}), {:.3} \
             syncs each, {:.2} s of cpu in {:.1} s\n\
             connections: {:.0} per s with any that is open, {:.0} with a new one for each; it is {:.2} \
             and {:.2} times that",
            line.calls.per_s,
            latency(line.step_p50_us),
            latency(line.raw_sync_us),
            line.fsyncs_per_request,
            line.calls.cpu_s,
            line.calls.seconds,
            line.any_connection_per_s,
            line.new_connection_per_s,
            line.calls.per_s / line.any_connection_per_s,
            line.calls.per_s / line.new_connection_per_s,
        );
        Ok((line, text))
    }
}

/// To the peer, and nowhere else.
fn config(peer: &Peer) -> Config {
    let grant = Grant {
        hosts: vec![peer.address().to_string().parse().expect("an address is a host")],
        networks: Network::loopback().to_vec(),
        plain_http: true,
        ..Grant::default()
    };
    Config { grants: [(house::COMPONENT, grant)].into_iter().collect(), ..Config::default() }
}

fn unable(what: &str, error: &dyn std::error::Error) -> Failure {
    Failure::new(format!("cannot {what}: {error}")).hint("look at the limits of this process")
}
