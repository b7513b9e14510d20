//! Append and recover at lengths 10, 1,000 and 1,000,000. What it leaves out: making the events,
//! and dropping the journal.
#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

mod workload;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use indelible_journal::{Entry, Journal, Record};
use workload::{Workload, journal_of, key};

const LENGTHS: [usize; 3] = [10, 1_000, 1_000_000];

/// Events of the workload as a store would hand them out.
fn records(length: usize) -> Vec<Record> {
    let mut journal = Journal::new(key());
    let entries = Workload::new()
        .take(length)
        .map(|(timestamp, event)| journal.append(timestamp, event).expect("the workload is legal"));
    entries.map(Entry::into_record).collect()
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
        let records = records(length);
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter_custom(|iters| {
                (0..iters)
                    .map(|_| {
                        let copy = records.clone();
                        let start = Instant::now();
                        let journal = Journal::recover(key(), copy);
                        let elapsed = start.elapsed();
                        drop(black_box(journal.expect("the workload is legal")));
                        elapsed
                    })
                    .sum()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, append, recover);
criterion_main!(benches);
