//! Checking an event allocates nothing, whether the journal is short or long.

use allocation_counter::measure;
use bytes::Bytes;
use indelible_journal::*;

use crate::kit::{attempt, begin, invoke, legal, p, resumed, retry, started, steps, wait};

/// Four calls in flight at once, over and over: the events of a call, a wait and its end.
fn round(n: u32) -> Vec<Event> {
    let mut events = Vec::new();
    for call in n..n + 4 {
        events.extend([invoke(call), begin(call, 1), retry(call, 1), begin(call, 2)]);
    }
    events.push(wait(&[n, n + 1, n + 2, n + 3], AwaitKind::All));
    events.extend((n..n + 4).map(completed));
    events.push(resumed());
    events
}

/// With a result that is shared already: the first clone of bytes that are not shared allocates,
/// which is the payload's price and not a check's.
fn completed(call: u32) -> Event {
    let result = Outcome::Ok(Payload::new(Codec::TEXT, Bytes::from_static(b"result")));
    Event::InvokeCompleted { promise_id: p(call), result, attempt: attempt(2) }
}

/// 88,000 events, every one checked, with no more allocations than the index needs to
/// double its room.
#[test]
fn checks_do_not_allocate() {
    let mut journal = legal(steps![started()]);
    let now = journal.last_timestamp();
    let rounds: Vec<Vec<Event>> = (0..4_000).map(|round_of| round(round_of * 4)).collect();
    let counted = measure(|| {
        for event in rounds.into_iter().flatten() {
            journal.append(now, event).unwrap();
        }
    });
    assert_eq!(journal.next_child(), 16_000);
    assert!(counted.count_total <= 16, "{} allocations", counted.count_total);
}
