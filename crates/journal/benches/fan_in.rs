//! A join set of many calls, whose results are taken one by one.
#![allow(unreachable_pub, reason = "a module of the benchmark")]

use std::sync::Arc;

use indelible_journal::*;

use crate::workload::{PAYLOAD, Workload, key};

const LEGAL: &str = "the workload is legal";

/// A journal with a join set of so many calls, all in flight, and a guest that has submitted them.
pub fn submitted(members: usize) -> (Journal, Replay, JoinSetId) {
    let mut workload = Workload::new();
    let (now, first) = workload.next().expect("it begins with a start");
    let mut journal = Journal::new(key());
    journal.append(now, first).expect(LEGAL);
    let mut replay = Replay::begin(&journal, &ComponentDigest::of(b"bench")).expect("it is pinned");
    let (join_set, _) = replay.join_set(&journal).expect(LEGAL);
    journal.create_join_set(now).expect(LEGAL);
    let (kind, name) = (InvokeKind::Function, workload.function.clone());
    let input = Payload::new(Codec::JSON, PAYLOAD);
    for _ in 0..members {
        let (promise, _) = replay.invoke(&journal, kind, &name, &input).expect(LEGAL);
        let (function_name, retry_policy) = (name.clone(), Arc::clone(&workload.policy));
        let invoke = Invoke { kind, function_name, input: input.clone(), retry_policy };
        journal.schedule_invoke(now, invoke).expect(LEGAL);
        journal.submit(now, &join_set, &promise).expect(LEGAL);
        replay.submit(&journal, &join_set, &promise).expect(LEGAL);
        journal.start_invoke(now, &promise).expect(LEGAL);
    }
    (journal, replay, join_set)
}

/// Waits for each result and takes it; calls complete in a scattered order.
pub fn take_all((mut journal, mut replay, join_set): (Journal, Replay, JoinSetId)) -> Journal {
    let now = journal.last_timestamp();
    let open: Vec<PromiseId> = journal.open_invokes().map(|open| open.promise_id).collect();
    let mut order: Vec<usize> = (0..open.len()).collect();
    order.sort_by_key(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
    let mut order = order.into_iter();
    loop {
        match replay.next(&journal, &join_set).expect(LEGAL) {
            NextResult::Pending(wait) => {
                journal.wait(now, &wait).expect(LEGAL);
                let promise = &open[order.next().expect("as many as were submitted")];
                let result = Outcome::Ok(Payload::new(Codec::JSON, PAYLOAD));
                journal.complete_invoke(now, promise, result).expect(LEGAL);
                journal.wake(now).expect(LEGAL);
            }
            NextResult::Ready => {
                journal.take_next(now, &join_set).expect(LEGAL);
            }
            NextResult::Taken(..) => {}
            NextResult::Exhausted => return journal,
            NextResult::Cancelled => unreachable!("nobody cancels"),
        }
    }
}
