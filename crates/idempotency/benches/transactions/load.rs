//! Clients that do one thing as often as they can, and how often that was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indelible_idempotency::{ConsumerNamespace, IdempotencyKey, Json, Request, parse_key};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// How many accounts a typical transaction finds one of: enough that two clients rarely want one.
pub(crate) const ACCOUNTS: u64 = 10_000;
/// How many keys there are to replay.
pub(crate) const REPLAYED: u64 = 10_000;

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// `BEGIN`, one insert, `COMMIT`.
    SmallBare,
    /// The same with two statements that do nothing: what any two round trips cost.
    SmallEmpty,
    /// The same with `begin` and `commit`.
    Small,
    /// `BEGIN`, a select, an update, two inserts, `COMMIT`.
    TypicalBare,
    /// The same with `begin` and `commit`.
    Typical,
    /// `BEGIN`, a select by primary key, `COMMIT`.
    ReadInTransaction,
    /// `BEGIN`, a `begin` that finds the result, `COMMIT`.
    ReplayInTransaction,
    /// A select by primary key.
    Read,
    /// A `begin` that finds the result.
    Replay,
}

const FORMS: [Form; 9] = [
    Form::SmallBare,
    Form::SmallEmpty,
    Form::Small,
    Form::TypicalBare,
    Form::Typical,
    Form::ReadInTransaction,
    Form::ReplayInTransaction,
    Form::Read,
    Form::Replay,
];

/// A database to measure.
pub(crate) trait Base: Send + Sync + 'static {
    type Connection: Send + 'static;

    fn connect(&self) -> impl Future<Output = Self::Connection> + Send;

    /// Does it once. The number is another one each time.
    fn run(
        &self,
        connection: &mut Self::Connection,
        form: Form,
        number: u64,
    ) -> impl Future<Output = ()> + Send;
}

/// A request as services get them, its key and its result: about a hundred bytes each.
pub(crate) struct Call {
    pub(crate) key: IdempotencyKey,
    pub(crate) request: Request,
    pub(crate) result: Json,
}

impl Call {
    pub(crate) fn new(namespace: &ConsumerNamespace, number: u64) -> Self {
        let request = format!(
            r#"{{"order":{number},"item":"a glass of water","amount":12.50,"currency":"EUR","note":"none so far"}}"#
        );
        let result =
            format!(r#"{{"order":{number},"state":"accepted","confirmation":"c-{number}"}}"#);
        Self {
            key: parse_key(namespace, Some(&format!("order-{number}"))).unwrap().unwrap(),
            request: Request::new(Json::parse(request).unwrap()),
            result: Json::parse(result).unwrap(),
        }
    }
}

/// How often a second, of each form in each round.
#[derive(Debug, Default)]
pub(crate) struct Measured(BTreeMap<Form, Vec<f64>>);

impl Measured {
    pub(crate) fn rate(&self, form: Form) -> f64 {
        median(self.0[&form].clone())
    }

    pub(crate) fn ratio(&self, form: Form, to: Form) -> f64 {
        let pairs = self.0[&form].iter().zip(&self.0[&to]);
        median(pairs.map(|(form, to)| form / to).collect())
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Measures every form in turn, round after round; one round before them is not counted.
pub(crate) async fn measure<B: Base>(
    base: B,
    clients: usize,
    rounds: usize,
    round: Duration,
) -> Measured {
    let base = Arc::new(base);
    // What is replayed is made with the first numbers, and made first.
    let next = Arc::new(AtomicU64::new(0));
    while_below(&base, clients, &next, REPLAYED).await;
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(base.connect().await);
    }
    let mut measured = Measured::default();
    for number in 0..=rounds {
        for form in FORMS {
            let rate;
            (rate, connections) = run(&base, &next, connections, form, round).await;
            if number > 0 {
                measured.0.entry(form).or_default().push(rate);
            }
        }
    }
    measured
}

async fn while_below<B: Base>(base: &Arc<B>, clients: usize, next: &Arc<AtomicU64>, end: u64) {
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let (base, next) = (Arc::clone(base), Arc::clone(next));
        running.spawn(async move {
            let mut connection = base.connect().await;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    break;
                }
                base.run(&mut connection, Form::Small, number).await;
            }
        });
    }
    running.join_all().await;
}

/// Runs a form for a while; how often a second.
async fn run<B: Base>(
    base: &Arc<B>,
    next: &Arc<AtomicU64>,
    connections: Vec<B::Connection>,
    form: Form,
    round: Duration,
) -> (f64, Vec<B::Connection>) {
    let stop = Arc::new(AtomicBool::new(false));
    let barrier = Arc::new(Barrier::new(connections.len() + 1));
    let mut running = JoinSet::new();
    for mut connection in connections {
        let (base, next) = (Arc::clone(base), Arc::clone(next));
        let (stop, barrier) = (Arc::clone(&stop), Arc::clone(&barrier));
        running.spawn(async move {
            barrier.wait().await;
            let mut count = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                base.run(&mut connection, form, number).await;
                count += 1;
            }
            (count, connection)
        });
    }
    barrier.wait().await;
    let start = Instant::now();
    tokio::time::sleep(round).await;
    stop.store(true, Ordering::Relaxed);
    let ended = running.join_all().await;
    let took = start.elapsed().as_secs_f64();
    let count: f64 = ended.iter().map(|(count, _)| f64::from(*count)).sum();
    (count / took, ended.into_iter().map(|(_, connection)| connection).collect())
}
