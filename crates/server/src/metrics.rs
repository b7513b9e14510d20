//! What the server does, in numbers, as Prometheus reads them. Names and labels are a promise:
//! `docs/metrics.md` has them.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use indelible_runtime::LaneReadings;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::state::State;

/// Which request, and how it was answered. Both are from short lists: no caller makes new ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRoute {
    route: &'static str,
}

/// The numbers.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<OfRoute, Histogram>,
    in_flight: Gauge,
}

/// From a tenth of a millisecond to most of a minute: calls take about one sync of the disk.
const SECONDS: [f64; 14] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("indelible");
        let requests = Family::<Answered, Counter>::default();
        registry.register("http_requests", "Requests that were answered", requests.clone());
        let seconds: Family<OfRoute, Histogram> =
            Family::new_with_constructor(|| Histogram::new(SECONDS));
        let about = "How long requests took, waits included";
        registry.register_with_unit("http_request", about, Unit::Seconds, seconds.clone());
        let in_flight = Gauge::default();
        registry.register("http_requests_in_flight", "Requests under way", in_flight.clone());
        Self { registry, requests, seconds, in_flight }
    }

    /// A request has come.
    pub(crate) fn began(&self) -> InFlight<'_> {
        self.in_flight.inc();
        InFlight(self)
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&Answered { route, status }).inc();
        self.seconds.get_or_create(&OfRoute { route }).observe(took.as_secs_f64());
    }

    /// All numbers, those of the engine and the store included, as they are now.
    pub(crate) fn render(&self, state: &State) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a text takes everything");
        // It ends the text; what the engine counts comes before that.
        let end = text.rfind("# EOF").unwrap_or(text.len());
        text.truncate(end);
        let engine = state.engine.readings();
        let bodies = state.body_bytes_max - state.budget.free_bytes();
        let connections = &state.connections;
        let gauges = [
            ("trees", "Trees of executions in memory", engine.trees),
            ("trees_runnable", "Trees that have something to do", engine.runnable),
            ("guests_parked", "Guests that wait and are kept", engine.parked),
            ("guests_parked_bytes", "About how much memory those take", engine.parked_bytes),
            ("effects_in_flight", "HTTP effects in flight", engine.effects_in_flight),
            ("callers_waiting", "Callers that wait for room in the engine", engine.callers_waiting),
            ("store_batches_waiting", "Batches that wait for the disk", engine.store.waiting),
            (
                "store_damaged_places",
                "Damaged places that were found in the store since the start",
                engine.store.damaged_places,
            ),
            (
                "store_paused",
                "Whether nothing becomes durable now because the store waits for its backend",
                usize::from(engine.store.paused),
            ),
            ("body_bytes", "Bytes of request bodies in memory", bodies),
            ("recovered", "Whether all was looked at that was left", usize::from(engine.recovered)),
            ("connections", "Connections that are open", connections.open.get() as usize),
        ];
        for (name, help, value) in gauges {
            line(&mut text, name, "gauge", help, value);
        }
        let lag = engine.retention.lag_seconds();
        let about = "By how much the wall clock is ahead of the retention clock";
        line(&mut text, "retention_lag_seconds", "gauge", about, lag);
        let counters = [
            ("guests_evicted", "Guests that waited and were dropped", engine.evicted),
            ("replays", "Guests that ran again over what is stored", engine.replays),
            ("guests_started", "Guests that were started", engine.guests.guests_started),
            ("swept_trees", "Finished trees that retention has taken", engine.gone.trees),
            ("swept_rows", "Rows of these", engine.gone.rows),
            ("records_purged", "Records of operations and keys that went", engine.gone.records),
            ("connections_accepted", "Connections that were taken", connections.accepted.get()),
            (
                "connections_stalled",
                "Connections whose peer read nothing",
                connections.stalled.get(),
            ),
            ("tls_failures", "TLS handshakes that failed", connections.tls_failed.get()),
            ("http_panics", "Requests that met a mistake", connections.panicked.get()),
            ("connections_cut", "Connections that were cut at a stop", connections.cut.get()),
            ("store_syncs", "Commits of the store: each is one sync", engine.store.groups),
            ("store_batches", "Batches in them", engine.store.batches),
            ("store_writes", "Puts and deletes that reached the disk", engine.store.writes_made),
            ("store_bytes", "Bytes that were given to the store", engine.store.bytes_given),
        ];
        for (name, help, value) in counters {
            line(&mut text, name, "counter", help, value);
        }
        let refused = "Reads that were refused because too many waited";
        let by_lane: [(_, _, _, ByLane); 4] = [
            ("reads_waiting", "gauge", "Reads that wait for their turn", |lane| {
                lane.waiting as u64
            }),
            ("reads_running", "gauge", "Reads that a thread is at", |lane| lane.running as u64),
            ("reads", "counter", "Pieces of reads that a thread has taken", |lane| lane.taken),
            ("reads_refused", "counter", refused, |lane| lane.refused),
        ];
        for (name, kind, help, value) in by_lane {
            let labelled =
                |lane: &LaneReadings| (format!("{{lane=\"{}\"}}", lane.lane.name()), value(lane));
            family(&mut text, name, kind, help, engine.reads.iter().map(labelled));
        }
        if let Some(logs) = &state.logs {
            let kept = "Lines that functions logged and that are kept";
            line(&mut text, "log_lines", "counter", kept, logs.written());
            let dropped = "Lines that functions logged and that could not be kept";
            line(&mut text, "log_lines_dropped", "counter", dropped, logs.dropped());
        }
        text.push_str("# EOF\n");
        text
    }
}

/// What a metric with a value for each lane is.
type ByLane = fn(&LaneReadings) -> u64;

fn line(text: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    family(text, name, kind, help, [("", value)]);
}

/// A metric, with a value for each set of labels.
fn family(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    values: impl IntoIterator<Item = (impl Display, impl Display)>,
) {
    let total = if kind == "counter" { "_total" } else { "" };
    let _ = write!(text, "# HELP indelible_{name} {help}.\n# TYPE indelible_{name} {kind}\n");
    for (labels, value) in values {
        let _ = writeln!(text, "indelible_{name}{total}{labels} {value}");
    }
}

/// A request under way.
pub(crate) struct InFlight<'a>(&'a Metrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}
