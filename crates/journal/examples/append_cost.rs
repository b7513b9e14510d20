//! Appends `COUNT` events to a journal of `LENGTH`, for callgrind to count the instructions of
//! `measured` alone. `cargo xtask instructions` runs it.

#[path = "../benches/workload.rs"]
mod workload;

use indelible_journal::{Event, Journal, Timestamp};
use workload::journal_of;

#[inline(never)]
fn measured(journal: &mut Journal, events: Vec<(Timestamp, Event)>) {
    for (timestamp, event) in events {
        // As the caller would: the entry is written somewhere and dropped.
        drop(journal.append(timestamp, event).expect("the workload is legal"));
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (length, count): (usize, usize) =
        (args.next().expect("LENGTH"), args.next().expect("COUNT"));
    // Short journals are measured several times over, so that none grows far past its length.
    let window = count.min(length.max(30));
    for _ in 0..count / window {
        let (mut journal, workload) = journal_of(length);
        let events: Vec<_> = workload.take(window).collect();
        measured(&mut journal, events);
    }
}
