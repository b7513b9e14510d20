//! Viewers of executions take nothing from callers: reads have threads of their own,
//! so many wait, and they take turns.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use indelible_journal::{Ending, FunctionName, Namespace};
use indelible_records::{BY_NAMESPACE, JOURNALS};
use indelible_runtime::{EngineError, Filter, Lane, LaneReadings, Options};

use crate::support::{House, KEEP, by_hand, returned};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// An engine with workers, and one thread for pages.
fn house(reads_waiting_max: usize) -> House {
    let options = Options { workers: 2, readers: 1, reads_waiting_max, ..by_hand(KEEP) };
    let house = House::new(options);
    house.deploy("behaviours");
    house
}

fn call(house: &House, id: &str) -> String {
    let (_, ending) = house.wait(house.engine().call(house.request(id, "add", "[1,2]"))).unwrap();
    returned(&ending)
}

fn all() -> Filter {
    Filter { whose: Namespace::new("tests").unwrap().into(), ..Filter::default() }
}

fn lane(house: &House, lane: Lane) -> LaneReadings {
    house.engine().readings().reads.into_iter().find(|one| one.lane == lane).unwrap()
}

/// Reads that the store keeps waiting keep nothing else waiting: neither the thread that asked
/// for them, which serves other connections, nor calls, nor look-ups.
#[test]
fn calls_go_on_while_reads_wait() {
    let house = house(16);
    let engine = house.engine();
    assert_eq!(call(&house, "first"), "3");
    let filter = all();
    let first = house.wait(engine.list(&filter, None, 10)).unwrap().executions.remove(0);
    let execution = first.key.execution_id().clone();

    house.disk.hold_scans(&[BY_NAMESPACE, JOURNALS]);
    let mut list = Box::pin(engine.list(&filter, None, 10));
    let mut events = Box::pin(engine.events(&first.key, 0, 10, 1_000));
    let mut view = Box::pin(engine.view(&execution));
    assert!(poll(list.as_mut()).is_pending());
    house.disk.wait_for_held_scan();
    assert!(poll(events.as_mut()).is_pending());
    assert!(poll(view.as_mut()).is_pending());
    for number in 0..10 {
        assert_eq!(call(&house, &format!("call-{number}")), "3");
    }
    // What needs one row, of a table that can be read, waits for no page.
    assert!(house.wait(engine.execution(&execution)).unwrap().is_some());
    assert_eq!((lane(&house, Lane::Lists).running, lane(&house, Lane::Views).waiting), (1, 2));

    house.disk.release_scans();
    assert!(!house.wait(list).unwrap().executions.is_empty());
    assert!(!house.wait(events).unwrap().records.is_empty());
    let ending = house.wait(view).unwrap().unwrap().ending;
    assert!(matches!(ending, Some(Ending::Completed(_))), "{ending:?}");
}

/// So many reads of a kind wait; one more is refused, and nothing has changed. A stream waits
/// instead. A caller that goes leaves nothing behind.
#[test]
fn too_many_reads_are_refused() {
    let house = house(2);
    let engine = house.engine();
    assert_eq!(call(&house, "first"), "3");
    let filter = all();
    house.disk.hold_scans(&[BY_NAMESPACE]);
    let mut lists: Vec<_> = (0..2).map(|_| Box::pin(engine.list(&filter, None, 10))).collect();
    for list in &mut lists {
        assert!(poll(list.as_mut()).is_pending());
    }
    house.disk.wait_for_held_scan();
    let refused = house.wait(engine.list(&filter, None, 10));
    let Err(EngineError::ReadsBusy { lane: "lists", max: 2 }) = refused else {
        panic!("{refused:?}");
    };
    // Its piece stays in the queue until a thread passes over it, and counts for as long.
    drop(lists.pop());
    assert!(house.wait(engine.list(&filter, None, 10)).is_err());

    let stream = || async {
        let mut reading = engine.enter_lane(Lane::Streams).await?;
        reading.run(|_| Ok("piece")).await
    };
    let mut streams: Vec<_> = (0..5).map(|_| Box::pin(stream())).collect();
    for stream in &mut streams {
        assert!(poll(stream.as_mut()).is_pending());
    }
    assert_eq!((lane(&house, Lane::Streams).waiting, lane(&house, Lane::Lists).refused), (5, 2));

    house.disk.release_scans();
    for stream in streams {
        assert_eq!(house.wait(stream).unwrap(), "piece");
    }
    for list in lists {
        assert_eq!(house.wait(list).unwrap().executions.len(), 1);
    }
    assert_eq!(house.wait(engine.list(&filter, None, 10)).unwrap().executions.len(), 1);
    let lane = lane(&house, Lane::Streams);
    assert_eq!((lane.waiting, lane.refused), (0, 0));
}

/// A page is read in pieces, and is the same page: what is passed over makes it no shorter while
/// there is something to look at within the bound of a page.
#[test]
fn a_page_of_many_pieces_is_whole() {
    let house = house(16);
    let engine = house.engine();
    for number in 0..450 {
        let (function, input) =
            if number % 10 == 0 { ("fail", "\"rare\"") } else { ("add", "[1,2]") };
        let request = house.request(&format!("n{number}"), function, input);
        house.wait(engine.call(request)).unwrap();
    }
    let before = lane(&house, Lane::Lists).taken;
    let whole = house.wait(engine.list(&all(), None, 1_000)).unwrap();
    assert_eq!((whole.executions.len(), whole.next), (450, None));
    assert!(lane(&house, Lane::Lists).taken >= before + 3, "it has pieces");
    let rare = Filter { function: Some(FunctionName::new("fail").unwrap()), ..all() };
    let page = house.wait(engine.list(&rare, None, 1_000)).unwrap();
    assert_eq!((page.executions.len(), page.next), (45, None));
    let first = house.wait(engine.list(&rare, None, 30)).unwrap();
    let rest = house.wait(engine.list(&rare, first.next.as_ref(), 30)).unwrap();
    assert_eq!((first.executions.len(), rest.next.clone()), (30, None));
    assert_eq!([first.executions, rest.executions].concat(), page.executions);
}
