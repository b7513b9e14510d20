//! One batch, one encoding: what is written comes back, and nothing else is taken for it.

mod golden;
mod hostile;
mod refused;

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::event::{InvokeKind, Sequence};
use crate::ids::{Attempt, RootHash};
use crate::journal::Journal;
use crate::names::FunctionName;
use crate::payload::{Outcome, Payload};
use crate::policy::RetryPolicy;
use crate::strategies::any_batch;
use crate::time::Timestamp;
use crate::wait::{AwaitKind, WaitSet};

/// A root execution.
fn root() -> ExecutionId {
    ExecutionId::root_of(RootHash::from_bytes([0xab; 32]))
}

fn time(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).expect("a test's times are in range")
}

/// Consecutive records from `first` on, a millisecond apart, on an ordinary day of 2026.
fn records(first: u64, events: impl IntoIterator<Item = Event>) -> Vec<Record> {
    let events = events.into_iter().enumerate();
    events
        .map(|(index, event)| Record {
            sequence: Sequence::new(first + index as u64),
            timestamp: time(1_790_000_000_000_000 + 1_000 * index as u64),
            event,
        })
        .collect()
}

/// Writes, reads back, compares, and gives the row.
fn check(execution_id: &ExecutionId, records: &[Record]) -> Bytes {
    let row = Bytes::from(encode_records(execution_id, records).expect("the batch is storable"));
    let read = decode(execution_id, row.clone()).expect("what was written can be read");
    assert_eq!(read, records);
    row
}

/// The three events of an ordinary step: 100 bytes in, 100 bytes out, a name of 12 bytes.
fn step(execution_id: &ExecutionId, child: u32) -> [Event; 3] {
    let promise_id = execution_id.child(child);
    [
        Event::InvokeScheduled {
            promise_id: promise_id.clone(),
            kind: InvokeKind::Http,
            function_name: FunctionName::new("charge-cards").unwrap(),
            input: Payload::json(vec![b'i'; 100]),
            retry_policy: Arc::new(RetryPolicy::default()),
        },
        Event::InvokeStarted { promise_id: promise_id.clone(), attempt: Attempt::FIRST },
        Event::InvokeCompleted {
            promise_id,
            result: Outcome::Ok(Payload::json(vec![b'o'; 100])),
            attempt: Attempt::FIRST,
        },
    ]
}

proptest! {
    /// C-32, C-38, J-5: every batch of every execution comes back as it was, and has one
    /// encoding.
    #[test]
    fn round_trip((execution_id, records) in any_batch()) {
        let row = encode_records(&execution_id, &records).expect("the batch is storable");
        let read = decode(&execution_id, Bytes::from(row.clone())).expect("it was just written");
        prop_assert_eq!(&read, &records);
        let again = encode_records(&execution_id, &read).expect("it was just read");
        prop_assert_eq!(again, row);
    }

    /// A row that lost its end is never taken for a shorter batch, wherever it was cut, and one
    /// that has more is never taken either.
    #[test]
    fn a_cut_row_is_refused((execution_id, records) in any_batch(), more: u8) {
        let row = Bytes::from(encode_records(&execution_id, &records).expect("storable"));
        // Only some places in a long row.
        for end in (0..row.len()).step_by(1 + row.len() / 64) {
            prop_assert!(decode(&execution_id, row.slice(..end)).is_err());
        }
        let longer = Bytes::from([&row[..], &[more]].concat());
        prop_assert_eq!(
            decode(&execution_id, longer),
            Err(DecodeError::TrailingBytes { offset: row.len(), count: 1 })
        );
    }
}

/// The size of an ordinary step, in one row and in three.
#[test]
fn an_ordinary_step_is_small() {
    const BYTES_MAX: usize = 280;
    // The first step of a journal, and one far into it.
    for (sequence, child, together, apart) in [(1, 0, 244, 262), (20_000, 9_000, 249, 271)] {
        let step = records(sequence, step(&root(), child));
        let whole = check(&root(), &step).len();
        let parts: usize =
            step.iter().map(|record| check(&root(), std::slice::from_ref(record)).len()).sum();
        assert_eq!((whole, parts), (together, apart));
        assert!(whole <= BYTES_MAX && parts <= BYTES_MAX);
    }
}

/// C-38: a policy that says nothing unusual takes two bytes.
#[test]
fn an_ordinary_policy_is_small() {
    let [scheduled, _, _] = step(&root(), 0);
    let row = check(&root(), &records(0, [scheduled]));
    // Version, sequence, count, tag, time (8), child, kind, name (13), payload (102).
    assert_eq!(row.len() - (1 + 1 + 1 + 1 + 8 + 1 + 1 + 13 + 102), 2);
}

/// J-90: a set of 10,000 in a row takes as much room as one of two.
#[test]
fn a_range_of_promises_is_small() {
    let awaiting = |numbers: Vec<u32>| {
        let waiting_on = WaitSet::of_numbers(&root(), numbers).unwrap();
        check(&root(), &records(0, [Event::ExecutionAwaiting { waiting_on, kind: AwaitKind::Any }]))
    };
    let empty = awaiting(vec![]).len();
    // One run: its gap, and its length.
    assert_eq!(awaiting((1..10_001).collect()).len() - empty, 1 + 2);
    assert_eq!(
        awaiting((0..10_001).filter(|n| *n != 5_000).collect()).len() - empty,
        1 + 2 + 1 + 2
    );
    // The very last number there is, alone and at the end of a run.
    assert_eq!(awaiting(vec![0, u32::MAX]).len() - empty, 2 + 5 + 1);
    assert_eq!(awaiting(vec![u32::MAX - 1, u32::MAX]).len() - empty, 5 + 1);
}

/// J-5: payloads are views of the row.
#[test]
fn payloads_are_not_copied() {
    let row = check(&root(), &records(0, step(&root(), 0)));
    let within = row.as_ptr_range();
    let read = decode(&root(), row.clone()).unwrap();
    let views = read.iter().filter_map(|record| match &record.event {
        Event::InvokeScheduled { input, .. } => Some(&input.bytes),
        Event::InvokeCompleted { result: Outcome::Ok(payload), .. } => Some(&payload.bytes),
        _ => None,
    });
    assert_eq!(views.filter(|bytes| within.contains(&bytes.as_ptr())).count(), 2);
}

/// C-38: equal policies of a batch are one allocation; a different one in between is not lost.
#[test]
fn equal_policies_are_shared() {
    let mut events: Vec<Event> = (0..3).map(|child| step(&root(), child)[0].clone()).collect();
    if let Event::InvokeScheduled { retry_policy, .. } = &mut events[2] {
        Arc::make_mut(retry_policy).not_processed = [429].into_iter().collect();
    }
    let row = check(&root(), &records(0, events));
    let policies: Vec<Arc<RetryPolicy>> = decode(&root(), row)
        .unwrap()
        .into_iter()
        .filter_map(|record| match record.event {
            Event::InvokeScheduled { retry_policy, .. } => Some(retry_policy),
            _ => None,
        })
        .collect();
    assert!(Arc::ptr_eq(&policies[0], &policies[1]));
    assert_eq!(policies[2].not_processed.as_slice(), [429]);
}

/// What a journal accepted goes through `encode` and comes back as the same records.
#[test]
fn entries_of_a_journal() {
    let (execution_id, event) = golden::started();
    let attempts = crate::Attempts::first(execution_id.depth());
    let key = crate::JournalKey::new(execution_id.clone(), attempts).unwrap();
    let entry = Journal::new(key).append(time(7), event).expect("a proper start");
    let mut row = b"before".to_vec();
    encode_into(&mut row, &execution_id, std::slice::from_ref(&entry)).unwrap();
    assert_eq!(row[6..], encode(&execution_id, std::slice::from_ref(&entry)).unwrap());
    let read = decode(&execution_id, Bytes::from(row).slice(6..)).unwrap();
    assert_eq!(read, [entry.into_record()]);
}
