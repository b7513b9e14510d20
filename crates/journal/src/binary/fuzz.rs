//! Fuzzing on stable Rust, the same on every run: mutations of valid rows. Whatever the bytes,
//! reading them ends without a panic, in memory that the row bounds, and a readable row has no
//! other encoding.

use bytes::Bytes;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use super::{WAIT_MEMBERS_MAX, decode, encode_records, varint};
use crate::event::{Event, Record};
use crate::ids::ExecutionId;
use crate::payload::{Failure, Outcome, Payload};
use crate::policy::RetryPolicy;
use crate::strategies::any_batch;
use indelible_test_support::Prng;

const ROWS: usize = 200;
const MUTATIONS: usize = 100_000;

/// A number of any length on disk.
fn any_length(random: &mut Prng) -> u64 {
    let bits = random.index(64);
    random.number() >> bits
}

/// Changes a row in one way. `other` is a row to take a piece of.
fn mutate(random: &mut Prng, row: &mut Vec<u8>, other: &[u8]) {
    // Half of all changes are near the front, where the structure is.
    let span = if random.number().is_multiple_of(2) { row.len().min(24) } else { row.len() };
    let at = random.index(span);
    match random.index(9) {
        0 | 1 if !row.is_empty() => row[at] ^= 1 << random.index(8),
        2 if !row.is_empty() => row[at] = random.byte(),
        3 => row.truncate(at),
        4 => row.insert(at, random.byte()),
        5 if !row.is_empty() => {
            row.remove(at);
        }
        // A number in place of a byte: a wrong length or count.
        6 if !row.is_empty() => {
            let mut number = Vec::new();
            varint::write(&mut number, any_length(random));
            row.splice(at..=at, number);
        }
        // The same in a longer form than it needs.
        7 if !row.is_empty() => {
            let byte = row[at] | 0x80;
            row.splice(at..=at, [byte, 0]);
        }
        // A piece of another row.
        _ => {
            let from = random.index(other.len());
            let to = from + random.index(other.len() - from);
            let end = at + random.index(row.len() - at);
            row.splice(at..end, other[from..to].iter().copied());
        }
    }
}

/// What a decoded batch holds beyond its records themselves.
#[derive(Default)]
struct Held {
    /// Bytes of payloads and texts, statuses and path segments.
    bytes: usize,
    /// Members of wait sets.
    members: usize,
}

impl Held {
    fn of(records: &[Record]) -> Self {
        let mut held = Self::default();
        records.iter().for_each(|record| held.event(&record.event));
        held
    }

    fn payload(&mut self, payload: &Payload) {
        self.bytes += payload.bytes.len();
    }

    fn failure(&mut self, failure: &Failure) {
        self.bytes += failure.message.len();
        failure.detail.iter().for_each(|detail| self.payload(detail));
    }

    fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Ok(payload) => self.payload(payload),
            Outcome::Err(failure) => self.failure(failure),
        }
    }

    fn policy(&mut self, policy: &RetryPolicy) {
        self.bytes += policy.not_processed.as_slice().len();
        self.bytes += policy.no_answer.iter().map(|list| list.as_slice().len()).sum::<usize>();
        self.bytes += policy.reconciler.iter().map(|r| r.function.as_str().len()).sum::<usize>();
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::ExecutionStarted(started) => {
                self.bytes += started.function_name.as_str().len();
                self.payload(&started.input);
                started.retry_policy.iter().for_each(|policy| self.policy(policy));
                if let Some(key) = &started.idempotency_key {
                    self.bytes += key.namespace.as_str().len() + key.operation_id.as_str().len();
                }
            }
            Event::CancelRequested { reason } | Event::ExecutionCancelled { reason } => {
                self.bytes += reason.len();
            }
            Event::ExecutionCompleted { result } => self.payload(result),
            Event::ExecutionFailed { error } | Event::InvokeRetrying { error, .. } => {
                self.failure(error);
            }
            Event::InvokeScheduled { function_name, input, retry_policy, .. } => {
                self.bytes += function_name.as_str().len();
                self.payload(input);
                self.policy(retry_policy);
            }
            Event::InvokeCompleted { result, .. } | Event::JoinSetAwaited { result, .. } => {
                self.outcome(result);
            }
            Event::RandomGenerated { value, .. } => self.bytes += value.len(),
            Event::SignalDelivered { signal_name, payload, .. }
            | Event::SignalReceived { signal_name, payload, .. } => {
                self.bytes += signal_name.as_str().len();
                self.payload(payload);
            }
            Event::ExecutionAwaiting { waiting_on, .. } => {
                self.members += waiting_on.promises().len();
            }
            _ => {}
        }
    }
}

/// Reads a row and, if it is readable, checks it. Returns whether it is readable.
fn try_row(execution_id: &ExecutionId, row: &[u8]) -> bool {
    let Ok(records) = decode(execution_id, Bytes::copy_from_slice(row)) else { return false };
    let held = Held::of(&records);
    assert!(2 * records.len() <= row.len(), "an event takes two bytes");
    assert!(records.capacity() <= row.len().max(2 * records.len()), "room for what is there");
    assert!(held.bytes <= row.len(), "texts and payloads are parts of the row");
    assert!(held.members <= WAIT_MEMBERS_MAX, "wait sets are bounded");
    let again = encode_records(execution_id, &records).expect("what was read can be written");
    assert_eq!(again, row, "a batch has one encoding");
    true
}

fn corpus() -> Vec<(ExecutionId, Vec<u8>)> {
    let (mut runner, batches) = (TestRunner::deterministic(), any_batch());
    let rows = (0..ROWS).map(|_| {
        let tree = batches.new_tree(&mut runner).expect("nothing is filtered");
        let (execution_id, records) = tree.current();
        let row = encode_records(&execution_id, &records).expect("the batch is storable");
        (execution_id, row)
    });
    rows.collect()
}

/// C-32, C-38: no bytes make the reader panic, grow beyond the row, or take a second encoding.
#[test]
fn mutated_rows() {
    let corpus = corpus();
    let mut random = Prng::new(1);
    let mut read = 0;
    for _ in 0..MUTATIONS {
        let (execution_id, row) = &corpus[random.index(ROWS)];
        let (_, other) = &corpus[random.index(ROWS)];
        let mut row = row.clone();
        for _ in 0..=random.index(3) {
            mutate(&mut random, &mut row, other);
        }
        read += usize::from(try_row(execution_id, &row));
    }
    // Neither all refused (the mutations would be too coarse to find anything) nor none.
    assert!((MUTATIONS / 20..MUTATIONS).contains(&read), "{read} of {MUTATIONS} were readable");
}

/// The same for bytes that never were a row, with and without a header that is right.
#[test]
fn random_bytes() {
    let (execution_id, _) = &corpus()[0];
    let mut random = Prng::new(2);
    for _ in 0..MUTATIONS {
        let mut row: Vec<u8> =
            (0..random.index(40)).map(|_| random.byte() >> random.index(8)).collect();
        if !random.number().is_multiple_of(4) {
            row.splice(..0, [super::VERSION, 0, 1 + random.byte() % 3]);
        }
        try_row(execution_id, &row);
    }
}
