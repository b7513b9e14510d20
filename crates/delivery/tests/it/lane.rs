//! Lanes: what each state of the head does to the messages behind it.

use indelible_delivery::delivery::{DeadReason, State, WaitCause};
use indelible_delivery::lane::{LanePolicy, Turn, turn};

use crate::support::{at, message};

/// One is under way at a time; a dead letter blocks the lane or is passed, as its policy says.
#[test]
fn the_head_decides() {
    let dead = State::Dead { at: at(1), reason: DeadReason::Exhausted };
    let waiting = State::Waiting { until: at(9), cause: WaitCause::Retry };
    let table = [
        (State::Queued, Turn::Begin, Turn::Begin),
        (State::Sending { since: at(0) }, Turn::Busy, Turn::Busy),
        (waiting, Turn::Wait(at(9)), Turn::Wait(at(9))),
        (State::Delivered { at: at(0), status: 200 }, Turn::Advance, Turn::Advance),
        (dead, Turn::Blocked, Turn::Advance),
        (State::Reissued { at: at(0), by: message("a").id() }, Turn::Advance, Turn::Advance),
        (State::Abandoned { at: at(0) }, Turn::Advance, Turn::Advance),
        (State::Ended { at: at(0), reason: DeadReason::Expired }, Turn::Advance, Turn::Advance),
    ];
    for (state, block, skip) in table {
        assert_eq!(turn(LanePolicy::Block, &state), block, "{state:?}");
        assert_eq!(turn(LanePolicy::Skip, &state), skip, "{state:?}");
    }
}
