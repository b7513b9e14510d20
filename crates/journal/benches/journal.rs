//! Append, recover, encode and decode at lengths 10, 1,000 and 1,000,000. What it leaves out:
//! making the events, and dropping what came out.
#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

mod fan_in;
mod workload;

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use indelible_journal::{Entry, ExecutionId, Journal, Record, binary};
use workload::{Workload, journal_of, key};

const LENGTHS: [usize; 3] = [10, 1_000, 1_000_000];

/// Events in one stored row: two steps of a workflow.
const BATCH: usize = 10;

fn entries(length: usize) -> Vec<Entry> {
    let mut journal = Journal::new(key());
    let events = Workload::new().take(length);
    events.map(|(at, event)| journal.append(at, event).expect("the workload is legal")).collect()
}

/// The sum of what each of `iters` runs took; what a run returns is dropped off the clock.
fn timed<S, T>(iters: u64, setup: impl Fn() -> S, run: impl Fn(S) -> T) -> Duration {
    (0..iters)
        .map(|_| {
            let given = setup();
            let start = Instant::now();
            let result = black_box(run(black_box(given)));
            let elapsed = start.elapsed();
            drop(result);
            elapsed
        })
        .sum()
}

/// The next append, at a journal of this length. A journal is used for as many appends as it has
/// events, at most 100,000: then a new one is made, off the clock.
fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("append");
    group.throughput(Throughput::Elements(1));
    for length in LENGTHS {
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter_custom(|iters| {
                let (mut left, mut total) =
                    (usize::try_from(iters).expect("it fits"), Duration::ZERO);
                let (mut journal, mut workload) = journal_of(length);
                let mut used = 0;
                while left > 0 {
                    if used >= length.max(30) {
                        (journal, workload) = journal_of(length);
                        used = 0;
                    }
                    let count = left.min(length.clamp(30, 100_000));
                    let events: Vec<_> = workload.by_ref().take(count).collect();
                    let start = Instant::now();
                    for (timestamp, event) in events {
                        let entry = journal.append(timestamp, event);
                        drop(black_box(entry.expect("the workload is legal")));
                    }
                    total += start.elapsed();
                    left -= count;
                    used += count;
                }
                total
            });
        });
    }
    group.finish();
}

/// Rebuilding a journal from its events.
fn recover(c: &mut Criterion) {
    let mut group = c.benchmark_group("recover");
    group.sample_size(10);
    for length in LENGTHS {
        group.throughput(Throughput::Elements(length as u64));
        let records: Vec<Record> = entries(length).into_iter().map(Entry::into_record).collect();
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter_custom(|iters| {
                timed(iters, || records.clone(), |records| Journal::recover(key(), records))
            });
        });
    }
    group.finish();
}

fn encode_all(execution_id: &ExecutionId, entries: &[Entry]) -> Vec<Bytes> {
    let rows = entries.chunks(BATCH).map(|batch| binary::encode(execution_id, batch));
    rows.map(|row| row.expect("accepted entries can be stored").into()).collect()
}

/// Writing a journal as rows, and reading it back.
fn encode_decode(c: &mut Criterion) {
    let (key, execution_id) = (key(), key().execution_id().clone());
    let mut group = c.benchmark_group("encode");
    group.sample_size(10);
    for length in LENGTHS {
        group.throughput(Throughput::Elements(length as u64));
        let entries = entries(length);
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter_custom(|iters| timed(iters, || (), |()| encode_all(&execution_id, &entries)));
        });
    }
    group.finish();

    let mut group = c.benchmark_group("decode");
    group.sample_size(10);
    for length in LENGTHS {
        group.throughput(Throughput::Elements(length as u64));
        let rows = encode_all(key.execution_id(), &entries(length));
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter_custom(|iters| {
                timed(
                    iters,
                    || rows.clone(),
                    |rows| {
                        let decoded =
                            rows.into_iter().map(|row| binary::decode(&execution_id, row));
                        decoded.collect::<Result<Vec<_>, _>>().expect("what was encoded decodes")
                    },
                )
            });
        });
    }
    group.finish();
}

/// Taking the results of a join set one by one, each after a wait for what is left (J-90): all of
/// it, from the first wait to the last result.
fn fan_in_of(c: &mut Criterion) {
    let mut group = c.benchmark_group("fan_in");
    group.sample_size(10);
    for members in [100, 1_000, 10_000] {
        group.throughput(Throughput::Elements(members as u64));
        let given = fan_in::submitted(members);
        group.bench_function(BenchmarkId::from_parameter(members), |b| {
            b.iter_custom(|iters| timed(iters, || given.clone(), fan_in::take_all));
        });
    }
    group.finish();
}

criterion_group!(benches, append, recover, encode_decode, fan_in_of);
criterion_main!(benches);
