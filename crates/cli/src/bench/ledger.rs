//! `indelible bench ledger`: transactions of clients that number their writes, over HTTP or in an
//! engine of this process.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum, value_parser};
use http::{Method, StatusCode};
use indelible_journal::Namespace;
use indelible_ledger::{
    Actor, Answer, Attempt, ClientId, EntityKey, Limits, Operation, Request, Run, Scope, Sequence,
    Unit, VaultName,
};
use indelible_runtime::ledger::{LedgerWrite, VaultSettings, WriteOutcome, Writes};
use indelible_runtime::{Engine, World};
use tokio::runtime::Runtime;

use super::drive::{Producer, Stretch, drive_for};
use super::house::{self, broken};
use super::place::BenchFolder;
use super::random::Random;
use super::report::{Measurement, Report, figures, latency, micros, round};
use super::server::{Connection, ServerArguments, Target};
use super::{SEED_LEDGER as SEED, meters, raw};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Clients write to one vault, each under its own client id and with numbers in a row. A transaction adds
1 to one of --entities amounts, chosen at random; a batch has ten such operations under one number,
and a run ten transactions, each with its own number, in one request. Five measurements: transactions,
batches, runs, repetitions of a number that is known (which sync nothing), and one client alone,
compared with the disk itself. --only takes some of them.

Without --in-process the clients speak HTTP, to --url or to a server that is started for the
measurement, in a folder of its own and on the same cores.

Examples:
  indelible bench ledger
  indelible bench ledger --entities 1000000 --seconds 60 --only batches,runs
  indelible bench ledger --in-process --json";

/// How many operations a batch has, and how many transactions a run.
const BATCH: usize = 10;
/// How many entities one request makes.
const FILL: usize = 500;
const NAMESPACE: &str = "bench";
const VAULT: &str = "bench";

#[derive(Args)]
pub(crate) struct LedgerArguments {
    /// How many entities the vault has
    #[arg(long, value_name = "N", default_value = "1000",
        value_parser = value_parser!(u64).range(1..=100_000_000))]
    entities: u64,
    /// Which measurements; by default all of them
    #[arg(long, value_name = "WORKLOAD", value_enum, value_delimiter = ',')]
    only: Vec<Workload>,
    /// Measure an engine in this process, without HTTP
    #[arg(long, conflicts_with = "url")]
    in_process: bool,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(
    arguments: &LedgerArguments,
    runtime: &Runtime,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let place = arguments.server.place.folder.make(runtime)?;
    let mut report = Report::new(out, arguments.server.place.json);
    let (door, server) = if arguments.in_process {
        let world = World::system(house::guests(place.path())?);
        (Door::Engine(Arc::new(house::open(place.path(), world)?)), None)
    } else {
        let (target, server) = arguments.server.target(runtime, &place, &mut report)?;
        (Door::Server(target), server)
    };
    let bench = Bench { arguments, runtime, place: &place, door };
    bench.fill()?;
    for workload in Workload::value_variants() {
        if arguments.only.is_empty() || arguments.only.contains(workload) {
            report.measurement(&bench.measure(*workload)?)?;
        }
    }
    if let Some(server) = server {
        server.kill();
    }
    Ok(())
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    Transactions,
    Batches,
    Runs,
    Repetitions,
    /// One client by itself
    Alone,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::Batches => "batches",
            Self::Runs => "runs",
            Self::Repetitions => "repetitions",
            Self::Alone => "transactions alone",
        }
    }

    fn load(self) -> Load {
        match self {
            Self::Transactions | Self::Alone => Load::Single,
            Self::Batches => Load::Batch,
            Self::Runs => Load::Run,
            Self::Repetitions => Load::Repeated,
        }
    }
}

/// What the clients of a measurement send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// A transaction with one operation.
    Single,
    /// A batch with ten.
    Batch,
    /// A run of ten transactions with one each.
    Run,
    /// A transaction that was applied before.
    Repeated,
}

impl Load {
    /// How many operations a request has.
    fn operations(self) -> usize {
        match self {
            Self::Batch | Self::Run => BATCH,
            Self::Single | Self::Repeated => 1,
        }
    }
}

/// How the clients reach the ledger.
#[derive(Clone)]
enum Door {
    Engine(Arc<Engine>),
    Server(Target),
}

enum OpenDoor {
    Engine(Arc<Engine>),
    Server(Box<Connection>),
}

impl Door {
    async fn open(&self) -> Result<OpenDoor, Failure> {
        Ok(match self {
            Self::Engine(engine) => OpenDoor::Engine(Arc::clone(engine)),
            Self::Server(target) => {
                OpenDoor::Server(Box::new(Connection::new(target.clone()).await?))
            }
        })
    }
}

fn scope() -> Scope {
    Scope {
        namespace: Namespace::new(NAMESPACE).expect("it is a name"),
        vault: Some(VaultName::new(VAULT).expect("it is a name")),
    }
}

/// A client that numbers its writes.
struct Client {
    door: OpenDoor,
    id: String,
    entities: u64,
    load: Load,
    random: Random,
    sequence: u64,
}

/// What a client sends: a number, that of the first transaction of a run, and the entities to which it
/// adds 1.
struct SequencedWrite {
    sequence: u64,
    entities: Vec<u64>,
}

fn name(entity: u64) -> String {
    format!("account-{entity:09}")
}

impl Client {
    async fn new(
        door: &Door,
        (id, number): (String, u64),
        entities: u64,
        load: Load,
    ) -> Result<Self, Failure> {
        let random = Random::of(SEED, number);
        let door = door.open().await?;
        Ok(Self { door, id, entities, load, random, sequence: 0 })
    }

    async fn send(&mut self, write: &SequencedWrite) -> Result<(), Failure> {
        match &mut self.door {
            OpenDoor::Engine(engine) => {
                let id = ClientId::new(&self.id).expect("it is a name");
                let run = run_of(id, write, self.load)?;
                let (scope, actor) = (scope(), Actor::new("system:bench"));
                let write =
                    LedgerWrite { scope, incarnation: None, actor, writes: Writes::Run(run) };
                let answer = engine.write_ledger(write).await;
                let answer = answer.map_err(|error| broken(format!("a write failed: {error}")))?;
                match answer.outcome {
                    WriteOutcome::Run(answers) if answers.iter().all(Answer::is_success) => Ok(()),
                    outcome => Err(broken(format!("a write was refused: {outcome:?}"))),
                }
            }
            OpenDoor::Server(connection) => {
                let (path, body) = body(&self.id, write, self.load);
                let path = format!("/v1/vaults/{VAULT}/{path}?namespace={NAMESPACE}");
                let kind = Some("application/json");
                let sent = connection.send(Method::POST, &path, None, kind, body).await?;
                match sent {
                    (StatusCode::OK, _) => Ok(()),
                    (status, body) => {
                        let body = String::from_utf8_lossy(&body).into_owned();
                        Err(broken(format!("a write was answered with {status}: {body}")))
                    }
                }
            }
        }
    }
}

fn run_of(client: ClientId, write: &SequencedWrite, load: Load) -> Result<Run, Failure> {
    let number = |sequence| Sequence::new(sequence).expect("numbers begin with 1");
    let attempt = Some(Attempt::FIRST);
    if load != Load::Run {
        let request = request(&write.entities, load)?;
        return Ok(Run::one(client, number(write.sequence), attempt, request));
    }
    let writes = (write.sequence..).zip(&write.entities).map(|(sequence, entity)| {
        Ok((number(sequence), request(std::slice::from_ref(entity), load)?))
    });
    let writes = writes.collect::<Result<_, Failure>>()?;
    Run::new(client, attempt, writes, &Limits::DEFAULT)
        .map_err(|error| broken(format!("a run makes no sense: {error}")))
}

fn request(entities: &[u64], load: Load) -> Result<Request, Failure> {
    let unit = Unit::new("pieces").expect("it is a unit");
    let operations = entities.iter().map(|entity| Operation::Add {
        key: EntityKey::new(&name(*entity)).expect("it is a key"),
        delta: 1,
        unit: Some(unit.clone()),
        min: None,
        max: None,
        condition: None,
    });
    let request = match load {
        Load::Single | Load::Run | Load::Repeated => {
            Request::single(operations.collect(), &Limits::DEFAULT)
        }
        Load::Batch => Request::batch(vec![operations.collect()], &Limits::DEFAULT),
    };
    request.map_err(|error| broken(format!("a request makes no sense: {error}")))
}

fn body(client: &str, write: &SequencedWrite, load: Load) -> (&'static str, Bytes) {
    let operations: Vec<String> = write
        .entities
        .iter()
        .map(|entity| {
            format!(r#"{{"add":{{"key":"{}","delta":"1","unit":"pieces"}}}}"#, name(*entity))
        })
        .collect();
    let sequence = write.sequence;
    let (path, rest) = match load {
        Load::Single | Load::Repeated => (
            "transactions",
            format!(r#""sequence":{sequence},"operations":[{}]"#, operations.join(",")),
        ),
        Load::Batch => (
            "batches",
            format!(
                r#""sequence":{sequence},"writes":[{{"operations":[{}]}}]"#,
                operations.join(",")
            ),
        ),
        Load::Run => {
            let transactions: Vec<_> = (sequence..)
                .zip(operations)
                .map(|(sequence, one)| format!(r#"{{"sequence":{sequence},"operations":[{one}]}}"#))
                .collect();
            ("runs", format!(r#""transactions":[{}]"#, transactions.join(",")))
        }
    };
    (path, format!(r#"{{"client_id":"{client}","attempt":1,{rest}}}"#).into())
}

impl Producer for Client {
    type Input = SequencedWrite;

    fn prepare(&mut self) -> SequencedWrite {
        // A repetition has the bytes of the first time.
        if self.load == Load::Repeated {
            return SequencedWrite { sequence: 1, entities: vec![0] };
        }
        let count = self.load.operations();
        let sequence = self.sequence + 1;
        self.sequence += if self.load == Load::Run { count as u64 } else { 1 };
        let entities = (0..count).map(|_| self.random.below(self.entities)).collect();
        SequencedWrite { sequence, entities }
    }

    async fn commit(&mut self, write: SequencedWrite) -> Result<(), Failure> {
        self.send(&write).await
    }
}

struct Bench<'a> {
    arguments: &'a LedgerArguments,
    runtime: &'a Runtime,
    place: &'a BenchFolder,
    door: Door,
}

impl Bench<'_> {
    /// Makes the vault, and its entities.
    fn fill(&self) -> Result<(), Failure> {
        self.runtime.block_on(async {
            match self.door.open().await? {
                OpenDoor::Engine(engine) => {
                    let made = engine.put_vault(&scope(), VaultSettings::default(), None).await;
                    made.map_err(|error| broken(format!("the vault was not made: {error}")))?;
                }
                OpenDoor::Server(mut connection) => {
                    let path = format!("/v1/vaults/{VAULT}?namespace={NAMESPACE}");
                    let kind = Some("application/json");
                    let body = Bytes::from_static(b"{}");
                    let (status, body) =
                        connection.send(Method::PUT, &path, None, kind, body).await?;
                    if !status.is_success() {
                        let body = String::from_utf8_lossy(&body).into_owned();
                        return Err(broken(format!("the vault was not made: {status} {body}")));
                    }
                }
            }
            let id = format!("fill-{}", house::moment());
            let entities = self.arguments.entities;
            let mut client = Client::new(&self.door, (id, 0), entities, Load::Batch).await?;
            for first in (0..entities).step_by(FILL) {
                let last = (first + FILL as u64).min(entities);
                let sequence = first / FILL as u64 + 1;
                client
                    .send(&SequencedWrite { sequence, entities: (first..last).collect() })
                    .await?;
            }
            Ok(())
        })
    }

    fn measure(&self, workload: Workload) -> Result<Measurement, Failure> {
        let load = workload.load();
        let clients = match workload {
            Workload::Alone => 1,
            _ => self.arguments.server.connections,
        };
        let length = Duration::from_secs(self.arguments.server.seconds.into());
        let since = house::moment();
        let producers = self.runtime.block_on(async {
            let mut producers = Vec::new();
            for number in 0..clients {
                let id = format!("bench-{since}-{number}");
                let entities = self.arguments.entities;
                let mut client =
                    Client::new(&self.door, (id, number.into()), entities, load).await?;
                if load == Load::Repeated {
                    let first = client.prepare();
                    client.send(&first).await?;
                }
                producers.push(client);
            }
            Ok::<_, Failure>(producers)
        })?;
        let before = self.syncs();
        let drive = || drive_for(self.runtime, producers, length);
        let (stretch, raw_sync_us) = if clients == 1 {
            let (stretch, sync) = raw::beside(self.runtime, self.place, drive)?;
            (stretch, Some(sync))
        } else {
            (drive()?, None)
        };
        let fsyncs = before.zip(self.syncs()).map(|(before, after)| after - before);
        Ok(self.measurement(workload, clients, &stretch, fsyncs, raw_sync_us))
    }

    /// How often the store has synced.
    fn syncs(&self) -> Option<u64> {
        match &self.door {
            Door::Engine(engine) => Some(engine.readings().store.groups),
            Door::Server(target) => target.syncs(self.runtime),
        }
    }

    fn measurement(
        &self,
        workload: Workload,
        clients: u32,
        stretch: &Stretch,
        fsyncs: Option<u64>,
        raw_sync_us: Option<f64>,
    ) -> Measurement {
        let entities = self.arguments.entities;
        let (seconds, count) = (round(stretch.seconds, 3), stretch.latencies.count());
        let per_s = round(stretch.per_s(), 1);
        let operations = workload.load().operations() as f64;
        let (workload, operations_per_s) =
            (workload.name(), round(stretch.per_s() * operations, 1));
        let [p50_us, p99_us] = stretch.latencies.micros([500, 990]);
        let max_us = micros(stretch.latencies.max());
        let rss_mb = match &self.door {
            Door::Engine(_) => meters::rss_mb_of("self"),
            Door::Server(target) => target.rss_mb(),
        };
        let beside = raw_sync_us.map_or(String::new(), |sync| {
            format!(" (a sync of the disk alone: {})", latency(sync))
        });
        let syncs = fsyncs.map_or(String::new(), |fsyncs| {
            format!(", {:.3} syncs each", fsyncs as f64 / count.max(1) as f64)
        });
        let text = format!(
            "{workload}: {per_s:.0} per s ({operations_per_s:.0} operations), {clients} clients, \
             {entities} entities\n  p50 {}{beside}, p99 {}, longest {}{syncs}",
            latency(p50_us),
            latency(p99_us),
            latency(max_us),
        );
        let mut figures = figures! {
            clients, entities, seconds, count, per_s, operations_per_s, p50_us, p99_us, max_us,
            fsyncs, rss_mb
        };
        if let Some(raw_sync_us) = raw_sync_us {
            figures = figures.with("raw_sync_us", raw_sync_us);
        }
        Measurement::new(workload, figures, text)
    }
}
