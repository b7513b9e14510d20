//! `indelible bench http`: workflows that send HTTP requests to a peer on this machine, which
//! answers at once; for comparison, the disk itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use indelible_http::{Attempt, Report as AttemptReport, Sender};
use indelible_http_client::{Client, Config, Grant, Network};
use indelible_http_peer::Peer;
use indelible_runtime::World;

use super::calls::{self, Caller, Load, StepsArguments};
use super::drive::{Stretch, drive_for};
use super::house::{self, Measure, Site};
use super::report::{Measurement, figures, latency, round};
use super::{raw, unable};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Calls a function that sends N POST requests, one after the other. Each request is journaled before
it leaves and when its response has arrived, and none is sent twice. The peer responds at once and
runs in this process, on the same cores. `per s` counts requests.

A POST leaves on a new connection, or on one whose peer was heard from within the last milliseconds:
the peer might close any other connection while the request is on its way. The second row shows what
that costs. It repeats the measurement twice, with any open connection and with a new connection for
each request.

The sync of the disk alone is measured with one producer, by one write and one fdatasync after the
other, for a second right before and a second right after. With --in-flight 1, a request should take
no longer than two such syncs and a millisecond.

Examples:
  indelible bench http
  indelible bench http --n 10 --in-flight 1
  indelible bench http --n 100 --seconds 20 --json";

#[derive(Args)]
pub(crate) struct HttpArguments {
    #[command(flatten)]
    steps: StepsArguments,
}

/// How long an idle connection may still carry a POST: the default, for ever, and not at all.
const SILENCES: [Option<Duration>; 3] = [None, Some(Duration::MAX), Some(Duration::ZERO)];

/// A client for each of [`SILENCES`]; one of them is in use.
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
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
        let runtime = site.runtime;
        let StepsArguments { n, load: Load { in_flight, seconds } } = self.steps;
        let peer = Peer::start_on(0).map_err(|error| unable("start a peer", &error))?;
        let clients = Arc::new(Clients::start(&peer)?);
        let world = World { http: clients.clone(), ..site.world()? };
        let engine = site.engine(world)?;
        let input = format!("[{n},\"{}\"]", peer.url("/fast"));
        let callers = || Caller::many(&engine, "requests", &input, in_flight);
        // The first calls load the component and connect, which is not measured.
        let warm_up = || drive_for(runtime, callers(), Duration::from_millis(1));
        warm_up()?;
        let measured = || site.drive(&engine, callers(), seconds);
        let ((driven, fsyncs), raw_sync_us) = raw::beside(runtime, site.place, measured)?;
        let per_s = |driven: &Stretch| round(driven.per_s() * f64::from(n), 1);
        let otherwise = |client| {
            clients.used.store(client, Ordering::Relaxed);
            warm_up()?;
            Ok(per_s(&site.drive(&engine, callers(), seconds)?.0))
        };
        let (any_connection_per_s, new_connection_per_s) = (otherwise(1)?, otherwise(2)?);

        let requests = (driven.latencies.count().max(1) * u64::from(n)) as f64;
        let fsyncs_per_request = round(fsyncs as f64 / requests, 3);
        let [p50_us] = driven.latencies.micros([500]);
        // The time of one request within its workflow.
        let step_p50_us = round(p50_us / f64::from(n), 2);
        let per_s = per_s(&driven);
        let text = format!(
            "http: {per_s:.0} per s, {in_flight} in flight, {} each (a sync of the disk alone: {}), \
             {fsyncs_per_request:.3} syncs each, {:.2} s of cpu in {:.1} s\n\
             connections: {any_connection_per_s:.0} per s on any open connection, \
             {new_connection_per_s:.0} per s on new ones; the rate above is {:.2} and {:.2} times these",
            latency(step_p50_us),
            latency(raw_sync_us),
            driven.cpu_s(),
            driven.seconds,
            per_s / any_connection_per_s,
            per_s / new_connection_per_s,
        );
        let figures = calls::call_figures((n, in_flight), &driven, fsyncs).and(figures! {
            step_p50_us, fsyncs_per_request, raw_sync_us, any_connection_per_s, new_connection_per_s
        });
        Ok(Measurement::new("http", figures, text))
    }
}

/// A client that may reach the peer, and nothing else.
fn config(peer: &Peer) -> Config {
    let grant = Grant {
        hosts: vec![peer.address().to_string().parse().expect("an address is a host")],
        networks: Network::loopback().to_vec(),
        plain_http: true,
        ..Grant::default()
    };
    Config { grants: [(house::COMPONENT, grant)].into_iter().collect(), ..Config::default() }
}
