//! What the server does, in numbers, as Prometheus reads them. Names and labels are a promise:
//! `docs/metrics.md` has them.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use indelible_api::call::Verdict;
use indelible_ledger::Scope;
use indelible_runtime::delivery::DeliveryReadings;
use indelible_runtime::{
    BUCKETS_MS, EndReadings, FunctionEnds, LaneReadings, OTHER_FUNCTIONS, OUTCOMES,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::state::State;

/// Which route, and with which status it was answered. Both come from short lists, so no client can
/// create new series.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteMetrics {
    route: &'static str,
}

/// Transactions that were applied, now or before, and in which kind of scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppliedLabels {
    verdict: &'static str,
    scope: &'static str,
}

/// Transactions that were not applied, by the code of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    code: &'static str,
}

/// What waits for a person.
pub(crate) struct Attention {
    /// Open questions, counted up to [`ATTENTION_MAX`].
    pub(crate) unknown: usize,
    /// The age of the oldest; 0 if there is none.
    pub(crate) oldest_seconds: u64,
    /// Stuck executions, counted up to [`ATTENTION_MAX`].
    pub(crate) stuck: usize,
}

/// Up to how many open questions and stuck executions are counted: some milliseconds' work.
pub(crate) const ATTENTION_MAX: usize = 10_000;

/// The numbers.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteMetrics, Histogram>,
    in_flight: Gauge,
    applied: Family<AppliedLabels, Counter>,
    refused: Family<RefusedLabels, Counter>,
}

/// From a tenth of a millisecond to most of a minute: calls take about one sync of the disk.
const SECONDS: [f64; 14] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("indelible");
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("http_requests", "Requests that were answered", requests.clone());
        let seconds: Family<RouteMetrics, Histogram> =
            Family::new_with_constructor(|| Histogram::new(SECONDS));
        let about = "Duration of requests, waits included";
        registry.register_with_unit("http_request", about, Unit::Seconds, seconds.clone());
        let in_flight = Gauge::default();
        registry.register("http_requests_in_flight", "Requests in progress", in_flight.clone());
        let applied = Family::<AppliedLabels, Counter>::default();
        let about = "Transactions of the ledger that were applied, now or before";
        registry.register("ledger_transactions", about, applied.clone());
        let refused = Family::<RefusedLabels, Counter>::default();
        let about = "Transactions of the ledger that were refused";
        registry.register("ledger_refusals", about, refused.clone());
        Self { registry, requests, seconds, in_flight, applied, refused }
    }

    /// A transaction was applied, now or before.
    pub(crate) fn applied(&self, verdict: Verdict, scope: &Scope) {
        let scope = if scope.vault.is_some() { "vault" } else { "namespace" };
        self.applied.get_or_create(&AppliedLabels { verdict: verdict.as_str(), scope }).inc();
    }

    /// A transaction was not applied.
    pub(crate) fn refused(&self, code: &'static str) {
        self.refused.get_or_create(&RefusedLabels { code }).inc();
    }

    /// A request has come.
    pub(crate) fn began(&self) -> InFlight<'_> {
        self.in_flight.inc();
        InFlight(self)
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&RequestLabels { route, status }).inc();
        self.seconds.get_or_create(&RouteMetrics { route }).observe(took.as_secs_f64());
    }

    /// All numbers, those of the engine and the store included, as they are now.
    pub(crate) fn render(&self, state: &State, attention: Option<&Attention>) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a text takes everything");
        // `# EOF` ends the text, so the engine's metrics are inserted before it.
        let end = text.rfind("# EOF").unwrap_or(text.len());
        text.truncate(end);
        let engine = state.engine.readings();
        let bodies = state.body_bytes_max - state.budget.free_bytes();
        let connections = &state.connections;
        let gauges = [
            ("trees", "Trees of executions in memory", engine.trees),
            ("trees_runnable", "Trees that have something to do", engine.runnable),
            ("guests_parked", "Waiting guests that are kept in memory", engine.parked),
            (
                "guests_parked_bytes",
                "Approximate memory of the guests that wait and are kept",
                engine.parked_bytes,
            ),
            ("effects_in_flight", "HTTP effects in flight", engine.effects_in_flight),
            ("callers_waiting", "Callers that wait for room in the engine", engine.callers_waiting),
            ("store_batches_waiting", "Batches that wait for the disk", engine.store.waiting),
            (
                "store_damaged_places",
                "Damaged places found in the store since the server started",
                engine.store.damaged_places,
            ),
            (
                "store_paused",
                "Whether commits are paused because the store waits for its backend",
                usize::from(engine.store.paused),
            ),
            ("body_bytes", "Bytes of request bodies in memory", bodies),
            (
                "on_hold",
                "Whether nothing goes on until an operator lifts the hold",
                usize::from(engine.on_hold),
            ),
            (
                "recovered",
                "Whether all executions left by the previous process have been resumed",
                usize::from(engine.recovered),
            ),
            ("connections", "Connections that are open", connections.open.get() as usize),
        ];
        for (name, help, value) in gauges {
            line(&mut text, name, "gauge", help, value);
        }
        // They are read from the store. If that is not possible now, they are left out: a number of
        // some minutes ago would say that all is well.
        if let Some(Attention { unknown, oldest_seconds, stuck }) = attention {
            let about = "Requests and calls with an unknown outcome that nothing has settled";
            line(&mut text, "unresolved_open", "gauge", about, unknown);
            let about = "Since when the oldest of them is unknown";
            line(&mut text, "unresolved_oldest_seconds", "gauge", about, oldest_seconds);
            let about = "Executions that are stuck until an operator decides";
            line(&mut text, "executions_stuck", "gauge", about, stuck);
        }
        let lag = engine.retention.lag_seconds();
        let about = "By how much the wall clock is ahead of the retention clock";
        line(&mut text, "retention_lag_seconds", "gauge", about, lag);
        let counters = [
            ("guests_evicted", "Waiting guests that were dropped from memory", engine.evicted),
            ("replays", "Guests that were replayed from their journals", engine.replays),
            ("guests_started", "Guests that were started", engine.guests.guests_started),
            ("swept_trees", "Finished trees that retention has deleted", engine.gone.trees),
            ("swept_rows", "Rows of finished trees that retention has deleted", engine.gone.rows),
            (
                "records_purged",
                "Records of operations and keys that retention has deleted",
                engine.gone.records,
            ),
            ("connections_accepted", "Connections that were accepted", connections.accepted.get()),
            (
                "connections_stalled",
                "Connections that were closed because the peer read nothing",
                connections.stalled.get(),
            ),
            ("tls_failures", "TLS handshakes that failed", connections.tls_failed.get()),
            (
                "http_panics",
                "Requests that failed because of a defect of the server",
                connections.panicked.get(),
            ),
            (
                "connections_cut",
                "Connections that were cut when the server stopped",
                connections.cut.get(),
            ),
            ("store_syncs", "Commits of the store: each is one sync", engine.store.groups),
            ("store_batches", "Batches in these commits", engine.store.batches),
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
            ("reads_running", "gauge", "Reads that a thread is working on", |lane| {
                lane.running as u64
            }),
            ("reads", "counter", "Parts of reads that threads have worked on", |lane| lane.taken),
            ("reads_refused", "counter", refused, |lane| lane.refused),
        ];
        for (name, kind, help, value) in by_lane {
            let labelled =
                |lane: &LaneReadings| (format!("{{lane=\"{}\"}}", lane.lane.name()), value(lane));
            family(&mut text, name, kind, help, engine.reads.iter().map(labelled));
        }
        end_counts(&mut text, &state.engine.end_readings());
        deliveries(&mut text, &state.engine.delivery_readings());
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

/// Reads one lane's value of a metric.
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

/// What was sent to endpoints.
fn deliveries(text: &mut String, readings: &DeliveryReadings) {
    let DeliveryReadings { accepted, repeated, outcomes, attempts, .. } = readings;
    let about = "Messages that were accepted; prior: again, under the same key";
    let prior = [("{prior=\"false\"}", accepted), ("{prior=\"true\"}", repeated)];
    family(text, "messages", "counter", about, prior);
    let labelled = |name: &'static str, (value, count): &(&str, u64)| {
        (format!("{{{name}=\"{value}\"}}"), *count)
    };
    let about = "Deliveries of messages to endpoints that came to this outcome";
    let outcomes = outcomes.iter().map(|one| labelled("outcome", one));
    family(text, "deliveries", "counter", about, outcomes);
    let about = "Attempts to deliver a message, by how they ended";
    let attempts = attempts.iter().map(|one| labelled("end", one));
    family(text, "delivery_attempts", "counter", about, attempts);
}

/// How executions and attempts at effects ended.
fn end_counts(text: &mut String, ends: &EndReadings) {
    let attempts = ends.effects.iter().map(|(end, count)| (format!("{{end=\"{end}\"}}"), *count));
    let about = "Attempts at HTTP requests of functions, by how they ended";
    family(text, "effect_attempts", "counter", about, attempts);
    let named = ends.functions.iter().map(|(name, ends)| (escaped(name.as_str()), ends));
    let others = (ends.others != FunctionEnds::default())
        .then(|| (OTHER_FUNCTIONS.to_owned(), &ends.others));
    let functions: Vec<_> = named.chain(others).collect();
    let by_outcome = functions.iter().flat_map(|(function, ends)| {
        OUTCOMES.into_iter().zip(ends.outcomes).map(move |(outcome, count)| {
            let outcome = outcome.name().to_lowercase();
            (format!("{{function=\"{function}\",outcome=\"{outcome}\"}}"), count)
        })
    });
    family(text, "executions_ended", "counter", "Executions that are over", by_outcome);
    let about = "How long executions took, with all attempts and waits";
    family(text, "execution_seconds", "histogram", about, [("", ""); 0]);
    for (function, ends) in functions {
        let mut below = 0;
        let bounds = BUCKETS_MS.iter().map(|bound| seconds(bound * 1_000));
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(ends.buckets) {
            below += count;
            let labels = format!("function=\"{function}\",le=\"{bound}\"");
            let _ = writeln!(text, "indelible_execution_seconds_bucket{{{labels}}} {below}");
        }
        let took = seconds(ends.took.get());
        for (what, value) in [("sum", took), ("count", below.to_string())] {
            let labels = format!("{{function=\"{function}\"}}");
            let _ = writeln!(text, "indelible_execution_seconds_{what}{labels} {value}");
        }
    }
}

/// A number of microseconds as seconds.
fn seconds(micros: u64) -> String {
    format!("{:?}", Duration::from_micros(micros).as_secs_f64())
}

/// The value of a label: a function may be called anything.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A request under way.
pub(crate) struct InFlight<'a>(&'a Metrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}
