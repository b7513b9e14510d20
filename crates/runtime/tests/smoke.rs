//! A function is deployed, started, and its outcome is durable.
mod support;
use support::*;

#[test]
fn a_function_runs() {
    let house = House::new(by_hand(KEEP));
    house.deploy("trivial");
    let (id, ending) = house.run("trivial/echo", "{\"a\":1}");
    assert_eq!(returned(&ending), "{\"a\":1}");
    assert_eq!(house.names(&id), ["ExecutionStarted", "ExecutionCompleted"]);
}
